"""The kernels part of a hardware profile as editable entries; everything else in the file is kept as it stands.

An entry is one line, `      bf16: {eta_c: 0.8, ...}  # comment`, or a section of one, `    indexer: {...}`. Its source
is the longest key of `sources` that its own key begins with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Key = tuple[str, str, str]
"""Engine, section, and dtype or number of GPUs ("" where a section is one entry)."""
Values = dict[str, Any]

ENGINE = re.compile(r"^  ([a-z][\w-]*):(\s*#.*)?$")
SECTION = re.compile(r"^    ([a-z]\w*):(\s*#.*)?$")
ENTRY = re.compile(r"^      (\w+):\s+(\{.*?\})(\s*#.*)?$")
SINGLE = re.compile(r"^    ([a-z]\w*):\s+(\{.*?\})(\s*#.*)?$")
SCALAR = re.compile(r"^    [a-z]\w*:\s+[\d.]+(\s*#.*)?$")
SOURCE = re.compile(r'^  "?([\w.*-]+)"?:\s+\{')

SECTIONS = ("gemm", "attention", "mla", "moe", "all_reduce", "collective_library", "linear_attention", "indexer")
DTYPES: tuple[str, ...] = ("fp32", "bf16", "fp16", "fp8", "fp8_block", "int8", "int4", "mxfp4", "nvfp4")
DTYPES += ("q8_0", "q6_k", "q5_k", "q4_k", "q4_0")
FIELDS = {
    "gemm": ("compute", "eta_c", "eta_m", "tau_us", "tau_k_us", "overlap_exponent", "eta_q"),
    "attention": ("floor_us", "eta_m", "eta_c", "window_factor"),
    "mla": ("eta_m", "eta_c", "tau_us", "tau_l_us", "overlap_exponent"),
    "moe": ("compute", "eta_c", "eta_m", "eta_a", "overlap_exponent", "tau_us"),
    "all_reduce": ("latency_us", "efficiency"),
    "collective_library": ("latency_us", "efficiency"),
    "linear_attention": ("floor_us", "conv_us", "eta_m"),
    "indexer": ("floor_us", "eta_m"),
}


def dotted(key: Key) -> str:
    """kernels.default.gemm.bf16"""
    return "kernels." + ".".join(part for part in key if part)


def key_order(name: str) -> tuple[int, int]:
    """Dtypes from wide to narrow, GPUs by number."""
    return (DTYPES.index(name), 0) if name in DTYPES else (0, int(name or 0))


@dataclass
class Entry:
    values: Values
    comment: str = ""


@dataclass
class HardwareFile:
    """One profile, split at its kernels."""

    path: Path
    head: list[str] = field(default_factory=list)
    """Up to and including `kernels:`, without the source lines of kernels."""
    headers: dict[tuple[str, str], str] = field(default_factory=dict)
    """Comment behind an engine's (engine, "") or a section's name."""
    entries: dict[Key, Entry] = field(default_factory=dict)
    scalars: dict[str, list[str]] = field(default_factory=dict)
    """By engine: its lines of one number."""
    sources: dict[str, Values] = field(default_factory=dict)
    """Those of kernels, by dotted key."""
    sources_at: int = 0
    """Line of `head` before which they stand."""

    @property
    def peaks(self) -> dict[str, float]:
        document: Values = yaml.safe_load("\n".join([*self.head[:-1], ""]))
        return dict(document["peak_tflops"])

    def source(self, key: Key) -> Values:
        """The source of an entry; {} where only the whole file's covers it."""
        name = dotted(key)
        while name not in self.sources and "." in name:
            name = name.rpartition(".")[0]
        return self.sources.get(name, {})


def load(path: Path) -> HardwareFile:
    """Raises ValueError at a line under `kernels:` that it would not write back as it was."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    start = lines.index("kernels:") + 1
    file = HardwareFile(path)
    for line in lines[:start]:
        found = SOURCE.match(line)
        if found and found[1].startswith("kernels."):
            file.sources[found[1]] = next(iter(yaml.safe_load(line).values()))
            file.sources_at = file.sources_at or len(file.head)
        else:
            file.head.append(line)
    engine = section = ""
    for line in lines[start:]:
        if found := ENGINE.match(line):
            engine = found[1]
            file.headers[engine, ""] = found[2] or ""
        elif found := SECTION.match(line):
            section = found[1]
            file.headers[engine, section] = found[2] or ""
        elif found := ENTRY.match(line):
            file.entries[engine, section, found[1]] = _entry(section, line, found[2], found[3], path)
        elif found := SINGLE.match(line):
            file.entries[engine, found[1], ""] = _entry(found[1], line, found[2], found[3], path)
        elif SCALAR.match(line):
            file.scalars.setdefault(engine, []).append(line)
        else:
            raise ValueError(f"{path.name}: cannot read {line!r}")
    return file


def _entry(section: str, line: str, text: str, comment: str | None, path: Path) -> Entry:
    values: Values = yaml.safe_load(text)
    if yaml.safe_load(flow(section, values)) != values:
        raise ValueError(f"{path.name}: would not write back as it was: {line!r}")
    return Entry(values, comment or "")


def written(value: Any) -> str:
    """As the profiles write it: a float keeps its point, a row count has none."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {written(one)}" for name, one in value.items()) + "}"
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.10g}"
    return text if "." in text or "e" in text else text + ".0"


def flow(section: str, values: Values) -> str:
    """The fields of a fit in their order, then what else an entry has (block formats' tile kernels)."""
    names = [name for name in FIELDS[section] if name in values]
    return written({name: values[name] for name in [*names, *(name for name in values if name not in names)]})


def source_line(key: str, source: Values) -> str:
    texts = {
        name: '"' + str(source[name]).replace('"', "'") + '"' for name in ("checked", "from", "note") if name in source
    }
    return f"  {key}: {{kind: {source['kind']}, " + ", ".join(f"{name}: {text}" for name, text in texts.items()) + "}"


def render(file: HardwareFile) -> str:
    """The whole file; engines, sections and dtypes in a fixed order."""
    engines = list(dict.fromkeys([*(engine for engine, _ in file.headers), *(key[0] for key in file.entries)]))
    body = []
    for engine in engines:
        if not any(key[0] == engine for key in file.entries):
            continue
        body.append(f"  {engine}:" + file.headers.get((engine, ""), "  # only what differs"))
        for section in SECTIONS:
            keys = sorted((key[2] for key in file.entries if key[:2] == (engine, section)), key=key_order)
            width = max((len(key) for key in keys), default=0) + 1
            for name in keys:
                entry = file.entries[engine, section, name]
                if not name:
                    body.append(f"    {section}: {flow(section, entry.values)}{entry.comment}")
                    continue
                if name == keys[0]:
                    body.append(f"    {section}:" + file.headers.get((engine, section), ""))
                body.append(f"      {name + ':':<{width}} {flow(section, entry.values)}{entry.comment}")
        body += file.scalars.get(engine, [])
    order = {name: place for place, name in enumerate(SECTIONS)}

    def place(key: str) -> tuple[int, int, str, int, tuple[int, int]]:
        _, engine, section, name = [*key.split("."), ""][:4]
        if section not in order:  # small_kernels_us_per_layer and its like close the list, as written
            return (1, 0, "", list(file.sources).index(key), (0, 0))
        return (0, engines.index(engine), "", order[section], (-1, 0) if not name else key_order(name))

    sources = [source_line(key, file.sources[key]) for key in sorted(file.sources, key=place)]
    head = [*file.head[: file.sources_at], *sources, *file.head[file.sources_at :]]
    return "\n".join([*head, *body]) + "\n"
