"""`llama-bench` output: how many bits a weight of the GGUF file that it ran takes.

`model_size` (bytes) and `model_n_params` stand in its json, jsonl and csv; its markdown prints both rounded.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
    found = {(size, count) for size, count in _runs(_text(path), path)}
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


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ProfileError(f"expected llama-bench output of at most {MOST_BYTES // 2**20} MiB", file=path)
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ProfileError("no such file", file=path) from None
    except (OSError, ValueError) as error:
        raise ProfileError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from None


def _runs(text: str, path: Path) -> Iterator[tuple[float, float]]:
    """(bytes, parameters) of every run, whatever the format."""
    body = text.lstrip("\ufeff \t\r\n")
    if body.startswith(("[", "{")):
        rows = _json_rows(body)
    elif body.startswith("|"):
        yield from _markdown_runs(body)
        return
    else:
        rows = list(csv.DictReader(io.StringIO(body)))
    for row in rows:
        if isinstance(row, Mapping) and SIZE in row and PARAMETERS in row:
            yield _number(row, SIZE, path), _number(row, PARAMETERS, path)


def _json_rows(body: str) -> list[Any]:
    """A list of runs, or one run a line; a line that is cut off holds none."""
    try:
        whole = json.loads(body)
        return whole if isinstance(whole, list) else [whole]
    except json.JSONDecodeError:
        pass
    rows = []
    for line in body.splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def _number(row: Mapping[str, Any], key: str, path: Path) -> float:
    try:
        value = float(row[key])
    except (TypeError, ValueError):
        value = 0.0
    if not 0 < value < float("inf"):
        raise ProfileError(f"expected a number above 0, found {row[key]!r}", file=path, key=key)
    return value


def _markdown_runs(body: str) -> Iterator[tuple[float, float]]:
    for line in body.splitlines():
        size = re.search(r"\|\s*(\d+\.?\d*)\s*([KMGT]iB)\s*\|", line)
        count = re.search(r"\|\s*(\d+\.?\d*)\s*([KMBT])\s*\|", line)
        if size and count:
            yield float(size[1]) * _UNITS[size[2]], float(count[1]) * _COUNTS[count[2]]
