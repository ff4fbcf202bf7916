"""`llama-bench` output: how many bits a weight of the GGUF file that it ran takes.

`model_size` (bytes) and `model_n_params` stand in its json, jsonl and csv; its markdown prints both rounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from specdec_cli.engines.read.detect import looks_like_json
from specdec_cli.engines.read.json_objects import LEAST, MOST, read_objects
from specdec_cli.engines.read.llama_bench import csv_entries
from specdec_cli.engines.read.source import Source
from specdec_cli.errors import ProfileError
from specdec_cli.units import BITS_PER_BYTE, GIB, GIGA, KILO, MEGA, TERA

SIZE, PARAMETERS = "model_size", "model_n_params"
MOST_BYTES = 64 * 2**20
_UNITS = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": float(GIB), "TiB": 2.0**40}
_COUNTS = {"K": KILO, "M": MEGA, "B": GIGA, "T": TERA}


def bits_per_weight(path: Path) -> float:
    """The mean width of the file that was run, in bits.

    Raises ProfileError: no such file, not llama-bench output, or runs of several files.
    """
    found = set(_runs(path))
    if not found:
        raise ProfileError(
            f"expected llama-bench output with {SIZE} and {PARAMETERS}, found none",
            file=path,
            hint="llama-bench -m MODEL.gguf -o json > FILE",
        )
    widths = sorted(BITS_PER_BYTE * size / count for size, count in found)
    if len(found) > 1:
        listed = ", ".join(f"{width:.2f}" for width in widths)
        raise ProfileError(f"runs of {len(found)} files: {listed} bits per weight", file=path, hint="keep one of them")
    return widths[0]


def _runs(path: Path) -> Iterator[tuple[float, float]]:
    """(bytes, parameters) of every run, whatever the format."""
    source = Source(path)
    try:
        if looks_like_json(source.head):
            rows: Sequence[Mapping[str, Any]] = [entry.data for entry in read_objects(source).entries]
        else:
            text = source.whole(MOST_BYTES, "llama-bench output").decode("utf-8", errors="replace")
            rows = list(_markdown_rows(text)) or [entry.data for entry in csv_entries(text)]
    finally:
        source.close()
    for row in rows:
        if SIZE in row and PARAMETERS in row:
            yield _number(row, SIZE, path), _number(row, PARAMETERS, path)


def _number(row: Mapping[str, Any], key: str, path: Path) -> float:
    try:
        value = float(row[key])
    except (TypeError, ValueError, OverflowError):
        value = 0.0
    if not LEAST < value < MOST:
        raise ProfileError(f"expected a number above 0, found {row[key]!r}", file=path, key=key)
    return value


def _markdown_rows(body: str) -> Iterator[Mapping[str, float]]:
    for line in body.splitlines():
        size = re.search(r"\|\s*(\d+\.?\d*)\s*([KMGT]iB)\s*\|", line)
        count = re.search(r"\|\s*(\d+\.?\d*)\s*([KMBT])\s*\|", line)
        if size and count:
            yield {SIZE: float(size[1]) * _UNITS[size[2]], PARAMETERS: float(count[1]) * _COUNTS[count[2]]}
