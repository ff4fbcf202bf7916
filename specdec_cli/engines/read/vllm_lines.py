"""Single lines of a vLLM server log, from their marker on: their numbers, or None where the line is cut or glued."""

from __future__ import annotations

import re

SPEC, LOAD, LEGACY = b"SpecDecoding metrics:", b"Avg prompt throughput:", b"Speculative metrics:"

# The usual order of today's lines, in one match; anything else goes field by field.
_USUAL_LOAD = re.compile(
    rb"Avg prompt throughput: (\d+\.?\d*) tokens/s, Avg generation throughput: (\d+\.?\d*) tokens/s, "
    rb"Running: (\d+) reqs, Waiting: (\d+) reqs, GPU KV cache usage: [\d.]+%, Prefix cache hit rate: (\d+\.?\d*)%"
)
_USUAL_SPEC = re.compile(
    rb"SpecDecoding metrics: Mean acceptance length: (\d+\.?\d*), Accepted throughput: [\d.]+ tokens/s, "
    rb"Drafted throughput: [\d.]+ tokens/s, Accepted: (\d+) tokens, Drafted: (\d+) tokens, "
    rb"Per-position acceptance rate: ((?:\d+\.?\d*, )*\d+\.?\d*), Avg Draft acceptance rate: [\d.]+%"
)
_CLEAN = re.compile(rb"[\[(]?(\d+(?:\.\d+)?|nan)[\])]?(?:%| tokens/s| tokens| reqs?)?\.?", re.IGNORECASE)
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m|\\u001b\[[0-9;]*m")


def load_line(text: bytes) -> tuple[float, float, float, float, float | None] | None:
    """Prompt and generation throughput (tokens/s), running, waiting, prefix cache hit rate (%; None: not said)."""
    usual = _USUAL_LOAD.match(text)
    if usual is not None:
        prompt, generation, running, waiting, cached = map(float, usual.groups())
        return prompt, generation, running, waiting, cached
    found = fields(text)
    if found is None or not found.get("Running"):
        return None
    return (
        _value(found, "Avg prompt throughput") or 0.0,
        _value(found, "Avg generation throughput") or 0.0,
        _value(found, "Running") or 0.0,
        _value(found, "Waiting") or _value(found, "Pending") or 0.0,
        _value(found, "Prefix cache hit rate"),
    )


def spec_line(text: bytes) -> tuple[float | None, float, float, list[float]] | None:
    """Mean acceptance length (None: no drafts yet), tokens accepted and drafted, rates by position."""
    usual = _USUAL_SPEC.match(text)
    if usual is not None:
        rates = [float(value) for value in usual.group(4).split(b", ")]
        return float(usual.group(1)), float(usual.group(2)), float(usual.group(3)), rates
    found = fields(text[len(SPEC) :])
    if found is None:
        return None
    accepted, drafted = _value(found, "Accepted"), _value(found, "Drafted")
    if accepted is None or drafted is None:
        return None
    listed = found.get("Per-position acceptance rate", [])
    rates = [float(value.strip(b"[]()")) for value in listed if value[:1] != b"n"]
    return _value(found, "Mean acceptance length"), accepted, drafted, rates


def legacy_line(text: bytes) -> tuple[int, float, float] | None:
    """V0: draft length k, iterations (draft tokens / k) and emitted tokens, both since the start."""
    found = fields(text[len(LEGACY) :])
    if found is None:
        return None
    length, drafted, emitted = (
        _value(found, f"Number of {part} tokens") for part in ("speculative", "draft", "emitted")
    )
    if not length or drafted is None or emitted is None:
        return None
    return int(length), drafted / length, emitted


def fields(text: bytes) -> dict[str, list[bytes]] | None:
    """`key: value, key: value, value` as a mapping; None where a value is not clean (a line cut or glued)."""
    end = text.find(b'\\n"')  # a container's JSON around the line
    text = _COLOUR.sub(b"", text if end < 0 else text[:end]).strip()
    found: dict[str, list[bytes]] = {}
    key = None
    for part in text.split(b","):
        name, colon, value = part.partition(b":")
        if colon:
            key = name.strip().decode("utf-8", errors="replace")
            found[key] = [value.strip()]
        elif key is not None and part.strip():
            found[key].append(part.strip())
    for values in found.values():
        if not all(_CLEAN.fullmatch(value) for value in values):
            return None
    return found


def _value(found: dict[str, list[bytes]], name: str) -> float | None:
    values = found.get(name)
    match = _CLEAN.fullmatch(values[0]) if values else None
    if match is None or match.group(1).lower() == b"nan":
        return None
    return float(match.group(1))
