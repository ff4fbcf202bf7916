"""A table of a user's own: comma-, semicolon- or tab-separated, a header, one measured point a line.

Steps: batch, draft_length, and step_ms or tokens_per_s (all requests together), with acceptance_length, context,
verify_width where known. Passes: tokens and pass_ms, or pass_ratio (over a pass of one token) beside a plain step of
batch 1 in the same file. Lines that begin with # are comments; empty cells are unknown.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence

from specdec_cli.engines.read.json_objects import MOST
from specdec_cli.engines.read.source import Source
from specdec_cli.errors import ProfileError, did_you_mean
from specdec_cli.profiles.measured_run import MeasuredRun, RunFile

FORMAT = "table"
COLUMNS = {
    "batch": "requests decoding together on the replica",
    "draft_length": "D, 0 for speculation off",
    "acceptance_length": "tokens per step, bonus token included",
    "step_ms": "one step of the engine, drafting included",
    "tokens_per_s": "output tokens/s of all requests together, instead of step_ms",
    "context": "mean tokens in the KV cache of a request",
    "verify_width": "verified tokens of a request, for a tree",
    "tokens": "tokens in one pass of the target",
    "pass_ms": "time of that pass",
    "pass_ratio": "time of that pass over a pass of one token",
}
ENDINGS = (".csv", ".tsv")
SIZE = 4 << 20  # bytes; a table that people write is smaller
_HEAD = 4096


def is_plain_table(head: bytes) -> bool:
    """Whether the first line that is no comment names columns of this table."""
    lines = head[:_HEAD].decode("utf-8", errors="replace").splitlines()
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    names = set(_cells(first))
    return {"batch", "draft_length"} <= names or (
        bool({"tokens", "batch", "draft_length"} & names)
        and bool({"pass_ms", "pass_ratio", "step_ms", "tokens_per_s"} & names)
    )


def read_plain_table(source: Source) -> RunFile:
    """The table's points as runs. Raises ProfileError with line and column for what cannot be read."""
    file = source.name
    lines = list(_lines(source.whole(SIZE, "a table of measured points").decode("utf-8", errors="replace")))
    if not lines:
        raise ProfileError("an empty table", file=file)
    names = _header(file, *lines[0])
    rows = [_row(file, number, names, line) for number, line in lines[1:]]
    if not rows:
        raise ProfileError("a header and no rows", file=file)
    plain = next((v.get("step_ms") for _, v in rows if v.get("batch") == 1 and v.get("draft_length") == 0), None)
    runs = tuple(_run(file, number, values, plain) for number, values in rows)
    return RunFile(file, FORMAT, runs, size=source.size)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _cells(line: str) -> list[str]:
    delimiter = max(",;\t", key=line.count)
    try:
        return [cell.strip() for cell in next(csv.reader(io.StringIO(line), delimiter=delimiter), [])]
    except csv.Error:  # a cell longer than any reader of tables takes
        return [line]


def _header(file: str, number: int, line: str) -> list[str]:
    names = _cells(line)
    for name in names:
        if name not in COLUMNS:
            hint = did_you_mean(name, COLUMNS) or f"columns: {', '.join(COLUMNS)}"
            raise ProfileError(f"no column `{name}` is known", file=file, line=number, hint=hint)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ProfileError(f"column `{twice[0]}` stands twice", file=file, line=number)
    return names


def _row(file: str, number: int, names: Sequence[str], line: str) -> tuple[int, dict[str, float]]:
    cells = _cells(line)
    if len(cells) != len(names):
        raise ProfileError(f"{len(cells)} cells under {len(names)} columns", file=file, line=number)
    values: dict[str, float] = {}
    for name, cell in zip(names, cells, strict=True):
        if not cell:
            continue
        try:
            value = float(cell)
        except ValueError:
            raise ProfileError(f"expected a number, found `{cell}`", file=file, line=number, key=name) from None
        least_is_zero = name in ("draft_length", "context")
        if not math.isfinite(value) or not 0 <= value <= MOST or (value == 0 and not least_is_zero):
            wanted = f"at most {MOST:g}" if value > MOST else "0 or more" if least_is_zero else "above 0"
            raise ProfileError(f"expected {wanted}, found `{cell}`", file=file, line=number, key=name)
        if name in ("draft_length", "verify_width", "tokens") and value != int(value):
            raise ProfileError(f"expected a whole number, found `{cell}`", file=file, line=number, key=name)
        values[name] = value
    return number, values


def _run(file: str, number: int, values: dict[str, float], plain_ms: float | None) -> MeasuredRun:
    def need(name: str, other: str = "") -> ProfileError:
        return ProfileError(f"expected `{name}`" + (f" or `{other}`" if other else ""), file=file, line=number)

    if "tokens" in values:
        return _pass(file, number, values, plain_ms)
    for name in ("batch", "draft_length"):
        if name not in values:
            raise need(name)
    step, speed, length = values.get("step_ms"), values.get("tokens_per_s"), values.get("acceptance_length")
    if step is None and speed is None:
        raise need("step_ms", "tokens_per_s")
    drafted = int(values["draft_length"])
    if drafted == 0 and length is None:
        length = 1.0
    width = values.get("verify_width")
    basis = "step_ms as given"
    seconds = None if step is None else step / 1e3
    if seconds is None and length is not None and speed is not None:
        seconds, basis = length * values["batch"] / speed, "acceptance_length x batch / tokens_per_s"
    return MeasuredRun(
        file=file,
        format=FORMAT,
        first_line=number,
        batch=values["batch"],
        draft_length=drafted,
        verify_width=int(width) if width is not None and width != drafted + 1 else None,
        acceptance_length=length,
        step_s=seconds,
        step_basis=basis if seconds is not None else "",
        output_tokens_per_s=speed,
        context_tokens=values.get("context"),
    )


def _pass(file: str, number: int, values: dict[str, float], plain_ms: float | None) -> MeasuredRun:
    milliseconds, ratio = values.get("pass_ms"), values.get("pass_ratio")
    if milliseconds is None and ratio is None:
        raise ProfileError("expected `pass_ms` or `pass_ratio`", file=file, line=number)
    if milliseconds is None and ratio is not None:
        if plain_ms is None:
            raise ProfileError(
                "a ratio needs the pass of one token beside it",
                file=file,
                line=number,
                key="pass_ratio",
                hint="add a line with batch 1, draft_length 0 and step_ms, or give pass_ms",
            )
        milliseconds = ratio * plain_ms
    assert milliseconds is not None
    return MeasuredRun(
        file=file,
        format=FORMAT,
        first_line=number,
        measures="verify_pass",
        batch=1.0,
        verify_width=int(values["tokens"]),
        step_s=milliseconds / 1e3,
        step_basis="one target pass over so many tokens",
        context_tokens=values.get("context"),
    )
