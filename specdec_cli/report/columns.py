"""The tables of an answer as headers and cells of text, the same for the terminal and for markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from specdec_cli.report.words import BASIS_MARKS, number, serving_points, several, step_mark, times

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """Headers, which of them hold numbers, rows of text, and the rows to stress."""

    headers: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    stressed: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: units in the header, a cell from a record."""

    header: str
    cell: Callable[[Record], str]
    numeric: bool = True


def grid_of(columns: Sequence[Column], records: Sequence[Record], stressed: Callable[[Record], bool]) -> Grid:
    """The columns over the records."""
    return Grid(
        headers=tuple(column.header for column in columns),
        numeric=tuple(column.numeric for column in columns),
        rows=tuple(tuple(column.cell(record) for column in columns) for record in records),
        stressed=frozenset(row for row, record in enumerate(records) if stressed(record)),
    )


def point_grid(points: Sequence[Record]) -> Grid:
    """Points of a sweep; what is the same in all of them is left out."""
    columns = [
        Column(key, lambda p, key=key: str(p[key]), numeric=key in ("tp", "gpus"))  # type: ignore[misc]
        for key in ("hardware", "tp", "gpus", "drafter")
        if several(points, key)
    ]
    serving = serving_points(points)
    columns += [
        Column("batch (concurrency)" if serving else "batch", lambda p: str(p["batch"])),
        Column("D", lambda p: str(p["draft_length"])),
        *([Column("verified", lambda p: str(p["verify_width"]))] if _trees(points) else ()),
        Column("AL", lambda p: f"{p['acceptance_length']:.2f}{BASIS_MARKS[p['acceptance_basis']] or ' '}"),
        Column("tokens/s/user", lambda p: number(p["interactivity_tokens_per_s_per_user"])),
        Column("tokens/s/GPU", lambda p: number(p["throughput_tokens_per_s_per_gpu"])),
        Column("decode speedup" if serving else "speedup", lambda p: times(p["speedup"])),
        Column("target ms", lambda p: number(p["target_ms"])),
        Column("verify ms", lambda p: number(p["verify_ms"]) + step_mark(p)),
        Column("draft ms", lambda p: number(p["draft_ms"])),
        *(serving_columns() if serving else ()),
        *cost_columns(points),
        Column("bound", lambda p: str(p["bound"]), numeric=False),
        Column("frontier", lambda p: "*" if p["on_frontier"] else "", numeric=False),
    ]
    return grid_of(columns, points, lambda p: bool(p["on_frontier"]))


def _trees(points: Sequence[Record]) -> bool:
    return any(p["verify_width"] != 1 + p["draft_length"] for p in points)


def serving_columns() -> list[Column]:
    """A replica that prefills and decodes, apart from the decode steps alone."""
    return [
        Column("decode batch", lambda p: number(p["decode_batch"])),
        Column("serving TPOT ms", lambda p: number(p["serving_tpot_ms"])),
        Column("serving tokens/s/GPU", lambda p: number(p["serving_throughput_tokens_per_s_per_gpu"])),
        Column("serving speedup", lambda p: times(p["serving_speedup"])),
    ]


def cost_columns(points: Sequence[Record]) -> list[Column]:
    """The cost, where chips of several prices stand side by side: on one chip throughput says the same."""
    key = "serving_cost_usd_per_million_tokens" if serving_points(points) else "cost_usd_per_million_tokens"
    if not points or key not in points[0] or not several(points, "hardware"):
        return []
    return [Column("USD/M tokens", lambda p: number(p[key], 3))]


def uplift_grid(rows: Sequence[Record]) -> Grid:
    """Throughput and users without and with speculation at equal interactivity."""
    columns = [
        Column("tokens/s/user", lambda r: f"{r['interactivity_tokens_per_s_per_user']:,g}"),
        Column("tokens/s/GPU without", lambda r: number(r["throughput_without_tokens_per_s_per_gpu"])),
        Column("with", lambda r: number(r["throughput_with_tokens_per_s_per_gpu"])),
        Column("gain", lambda r: times(r["uplift"])),
        Column("users/GPU without", lambda r: number(r["users_per_gpu_without"], 3)),
        Column("with", lambda r: number(r["users_per_gpu_with"], 3)),
    ]
    return grid_of(columns, rows, lambda r: False)


def schedule_grid(entries: Sequence[Record]) -> Grid:
    """The draft length of each range of batch sizes."""
    columns = [
        Column("batch from", lambda e: str(e["batch_from"])),
        Column("to", lambda e: str(e["batch_to"])),
        Column("D", lambda e: str(e["draft_length"]) if e["draft_length"] else "0 (off)"),
    ]
    return grid_of(columns, entries, lambda e: e["draft_length"] > 0)


def context_grid(schedules: Sequence[Record]) -> Grid:
    """Draft lengths by batch (rows) and context (columns); rows begin where any column changes."""
    starts = sorted({entry["batch_from"] for one in schedules for entry in one["schedule"]})
    ends = sorted({entry["batch_to"] + 1 for one in schedules for entry in one["schedule"]})
    edges = sorted({*starts, *ends})
    ranges = [{"from": first, "to": after - 1} for first, after in pairwise(edges)]

    def length(one: Record, batch: int) -> str:
        for entry in one["schedule"]:
            if entry["batch_from"] <= batch <= entry["batch_to"]:
                off = "0 (off)" if one["acceptance_known"] else "0 (unknown)"
                return str(entry["draft_length"]) if entry["draft_length"] else off
        return "does not fit"

    columns = [Column("batch from", lambda r: str(r["from"])), Column("to", lambda r: str(r["to"]))]
    for one in schedules:
        header = f"D at {one['context_from']:,}-{one['context_to']:,} tokens"
        columns.append(Column(header, lambda r, one=one: length(one, r["from"])))  # type: ignore[misc]
    return grid_of(columns, ranges, lambda r: False)


KEY_NUMBERS = {
    "G1": ("linear_share", "group", "gemm_m_verify", "m_ridge", "d_gemm"),
    "G2": ("attention_share", "group_size", "tile", "d_attention", "d_free"),
    "G3": ("attention_share", "group_size", "tile", "rows", "aligned_draft_lengths"),
    "G4": ("launch_share", "rho", "draft_pass_ratio", "rule_draft_length", "computed_draft_length"),
    "G5": ("best", "best_speedup", "second", "second_speedup", "chosen_loss"),
}


def key_numbers(rule: Record) -> str:
    """The quantities that decide a guideline, by their names in `numbers`."""
    numbers = rule["numbers"]
    return ", ".join(f"{name} {_short(numbers[name])}" for name in KEY_NUMBERS[rule["id"]] if name in numbers)


def suggestion(rule: Record) -> str:
    """What a guideline suggests, in words."""
    found = rule["suggests"]
    if found is None:
        return "suggests no bound" if rule["applies"] else ""
    if isinstance(found, dict):
        return f"suggests {found.get('drafter')}, D = {found.get('draft_length')}"
    if isinstance(found, list):
        return f"suggests D in {', '.join(str(length) for length in found)}"
    return f"suggests D = {found}"


def _short(value: Any) -> str:
    return number(value, 3) if isinstance(value, float) else "-" if value is None else str(value)
