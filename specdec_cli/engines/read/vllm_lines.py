"""Single lines of a vLLM server log, from their marker on: their numbers, or None where the line is cut or glued."""

from __future__ import annotations

import re

SPEC, LOAD, LEGACY = b"SpecDecoding metrics:", b"Avg prompt throughput:", b"Speculative metrics:"

_N = rb"\d{1,15}(?:\.\d*)?"  # more digits are a fault of the file, and past what a float or a count holds


def _usual(number: bytes, count: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
    """The usual order of today's two lines and of 0.9's second, each in one match whose group holds their numbers.

    0.9's ends in its rates, so where the line ends matters.
    """
    kinds = {b"n": number, b"c": count}
    load = (
        rb"Avg prompt throughput: (%(n)s tokens/s, Avg generation throughput: %(n)s tokens/s, Running: %(c)s reqs, "
        rb"Waiting: %(c)s reqs, GPU KV cache usage: %(n)s%%, Prefix cache hit rate: %(n)s)%%" % kinds
    )
    spec = (
        rb"SpecDecoding metrics: Mean acceptance length: (%(n)s, Accepted throughput: %(n)s tokens/s, "
        rb"Drafted throughput: %(n)s tokens/s, Accepted: %(c)s tokens, Drafted: %(c)s tokens, "
        rb"Per-position acceptance rate: (?:%(n)s, )*%(n)s), Avg Draft acceptance rate: %(n)s%%" % kinds
    )
    older = (
        rb"SpecDecoding metrics: Draft acceptance rate: %(n)s%%, Mean acceptance length: (%(n)s, "
        rb"Accepted: %(c)s tokens, Drafted: %(c)s tokens, Per-position acceptance rate: (?:%(n)s, )*%(n)s)"
        rb"(?=[ \t\r]*\n|\\n\")" % kinds
    )
    return re.compile(load), re.compile(spec), re.compile(older)


_LOAD, _SPEC, _ = _usual(_N, rb"\d{1,15}")  # anything else goes field by field
# One repeat of one class is quicker to match; what it holds is looked at when it is converted.
USUAL_LOAD, *USUAL_SPECS = _usual(rb"[\d.]+", rb"\d+")
_CLEAN = re.compile(rb"[\[(]?(\d{1,15}(?:\.\d+)?|nan)[\])]?(?:%| tokens/s| tokens| reqs?)?\.?", re.IGNORECASE)
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m|\\u001b\[[0-9;]*m")


def load_line(text: bytes) -> tuple[float, float, float, float, float | None] | None:
    """Prompt and generation throughput (tokens/s), running, waiting, prefix cache hit rate (%; None: not said)."""
    usual = _LOAD.match(text)
    if usual is not None:
        prompt, generation, running, waiting, _, cached = _numbers(usual)
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
    usual = _SPEC.match(text)
    if usual is not None:
        length, _, _, accepted_tokens, drafted_tokens, *by_position = _numbers(usual)
        return length, accepted_tokens, drafted_tokens, by_position
    found = fields(text[len(SPEC) :])
    if found is None:
        return None
    accepted, drafted = _value(found, "Accepted"), _value(found, "Drafted")
    if accepted is None or drafted is None:
        return None
    listed = map(_number, found.get("Per-position acceptance rate", []))
    rates = [rate for rate in listed if rate is not None]
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


def _numbers(usual: re.Match[bytes]) -> list[float]:
    return [float(value) for value in re.findall(_N, usual[1])]


def _value(found: dict[str, list[bytes]], name: str) -> float | None:
    values = found.get(name)
    return _number(values[0]) if values else None


def _number(value: bytes) -> float | None:
    """A clean value without its brackets and unit; None: nan."""
    match = _CLEAN.fullmatch(value)
    if match is None or match.group(1).lower() == b"nan":
        return None
    return float(match.group(1))
