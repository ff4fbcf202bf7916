"""`specdec.compare/1`: draft mechanisms side by side, as a record and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from specdec_cli import __version__
from specdec_cli.explore.compare import CompareRow, Comparison
from specdec_cli.report.columns import Column, Grid, grid_of, serving_columns
from specdec_cli.report.points import grid_point_record
from specdec_cli.report.records import finite, inputs_record, scenario_record, warning_records
from specdec_cli.report.words import (
    BASIS_MARKS,
    SERVING_LEGEND,
    basis_legend,
    number,
    serving_points,
    several,
    step_legend,
    step_mark,
    times,
)
from specdec_cli.units import GIGA

if TYPE_CHECKING:
    from specdec_cli.report.contract.answers import Best, CompareAnswer, ComparedPoint

Record = dict[str, Any]

COMPARE: Final = "specdec.compare/1"
OPINION = (
    "Ranked by computed speedup. The post's view is its opinion (NVIDIA Technical Blog, 2026-09-02) and ranks nothing; "
    "- where it says nothing of a mechanism."
)


def compare_record(found: Comparison) -> Record:
    """The whole answer: a row for each drafter and batch, by batch, then rank."""
    priced = any(row.scenario.hardware.price_usd_per_hour is not None for row in found.rows)
    calibrated = any(row.scenario.calibration is not None for row in found.rows)
    rows = [_row(row, priced, calibrated) for row in found.rows]
    answer: CompareAnswer = {
        "schema": COMPARE,
        "specdec_version": __version__,
        "inputs": inputs_record(found.question.inputs),
        "rows": rows,
        "best": [_best(row) for row in rows if row["rank"] == 1],
        "warnings": warning_records(found.notes),
        "scenarios": [scenario_record(scenario) for scenario in found.question.scenarios],
    }
    return finite(answer)


def _best(row: ComparedPoint) -> Best:
    return {
        "batch": row["batch"],
        "drafter": row["drafter"],
        "draft_length": row["draft_length"],
        "speedup": row["speedup"],
    }


def _row(row: CompareRow, priced: bool, calibrated: bool) -> ComparedPoint:
    """The point at the drafter's best draft length, named by its drafter even where that is 0."""
    point = grid_point_record(row.grid, row.row, row.column, priced=priced, calibrated=calibrated)
    drafter = row.scenario.drafter
    assert drafter is not None  # scenarios without one are not compared
    return {
        "rank": row.rank,
        "mechanism": drafter.mechanism,
        **point,
        "drafter": row.scenario.drafter_name,
        "draft_memory_gb_per_gpu": row.draft_bytes / GIGA,
        "kv_tokens": row.kv_tokens,
        "kv_tokens_lost": row.kv_tokens_lost,
        "post_view": row.post_view,
    }


def compare_grid(record: Record) -> Grid:
    """One row a drafter and batch; the first of each batch is stressed."""
    rows = record["rows"]
    serving = serving_points(rows)
    lengths = record["inputs"].get("draft_lengths", {"value": None})["value"]
    columns = [
        Column("batch (concurrency)" if serving else "batch", lambda r: str(r["batch"])),
        Column("rank", lambda r: str(r["rank"])),
        Column("drafter", lambda r: str(r["drafter"]), numeric=False),
        *([Column("hardware", lambda r: str(r["hardware"]), numeric=False)] if several(rows, "hardware") else []),
        *([Column("tp", lambda r: str(r["tp"]))] if several(rows, "tp") else []),
        Column("mechanism", lambda r: str(r["mechanism"]), numeric=False),
        Column(
            "D" if str(lengths).isdigit() else "best D",
            lambda r: str(r["draft_length"]) if r["draft_length"] else "0 (off)",
        ),
        Column("AL", lambda r: f"{r['acceptance_length']:.2f}{BASIS_MARKS[r['acceptance_basis']] or ' '}"),
        Column("draft ms", lambda r: number(r["draft_ms"])),
        Column("verify ms", lambda r: number(r["verify_ms"]) + step_mark(r)),
        Column("decode speedup" if serving else "speedup", lambda r: times(r["speedup"])),
        Column("band", lambda r: f"{r['speedup_low']:.2f}-{r['speedup_high']:.2f}"),
        *(serving_columns() if serving else ()),
        Column("GB a GPU", lambda r: number(r["draft_memory_gb_per_gpu"], 3)),
        Column("KV tokens lost", lambda r: f"{r['kv_tokens_lost']:,.0f}"),
        Column("the post's view", lambda r: r["post_view"] or "-", numeric=False),
    ]
    return grid_of(columns, rows, lambda r: bool(r["rank"] == 1))


def winners_sentence(record: Record) -> str:
    """Who ranks first, from batch to batch."""
    runs: list[list[Record]] = []
    for best in record["best"]:
        if (
            runs
            and runs[-1][0]["drafter"] == best["drafter"]
            and bool(runs[-1][0]["draft_length"]) == bool(best["draft_length"])
        ):
            runs[-1].append(best)
        else:
            runs.append([best])
    said = []
    for run in runs:
        at = f"at batch {run[0]['batch']}" + (f" to {run[-1]['batch']}" if len(run) > 1 else "")
        lengths = sorted({best["draft_length"] for best in run})
        if not lengths[-1]:
            said.append(f"{at} no drafter beats plain decoding")
            continue
        gains = sorted(best["speedup"] for best in run)
        gain = f"{gains[0]:.2f}-{gains[-1]:.2f}x" if len(run) > 1 else f"{gains[0]:.2f}x"
        length = f"D = {lengths[0]}" + (f"-{lengths[-1]}" if len(lengths) > 1 else "")
        said.append(f"{at} {run[0]['drafter']} ({length}, {gain})")
    return f"Fastest {'; '.join(said)}."


def _closing(record: Record) -> list[str]:
    legend = basis_legend(record["rows"])
    lines = [f"AL: unmarked measured, {legend}." if legend else "AL as measured.", OPINION]
    beyond = step_legend(record["rows"])
    lines += [] if beyond is None else [f"{beyond}."]
    return [*lines, SERVING_LEGEND] if serving_points(record["rows"]) else lines


def compare_table(record: Record, *, width: int | None, colour: bool) -> str:
    """The answer of `specdec compare`."""
    from specdec_cli.report.page import Page
    from specdec_cli.report.table import footing

    page = Page(width, colour)
    page.say(winners_sentence(record), style="bold")
    page.say()
    page.table(compare_grid(record))
    for line in _closing(record):
        page.say(line)
    footing(page, record)
    return page.text


def compare_markdown(record: Record) -> str:
    """The same for a document."""
    from specdec_cli.report.markdown import escape, markdown_footing, markdown_page, markdown_table

    parts = [f"**{escape(winners_sentence(record))}**", markdown_table(compare_grid(record))]
    return markdown_page([*parts, *(escape(line) for line in _closing(record)), *markdown_footing(record)])


def compare_csv(record: Record) -> str:
    """One row a drafter and batch."""
    from specdec_cli.report.csv import csv_table

    return csv_table(tuple(record["rows"][0]), record["rows"])


def render_compare(record: Record, style: str, *, width: int | None = None, colour: bool = False) -> str:
    """`specdec.compare/1` as table, json, csv or markdown; width and colour count for a table."""
    match style:
        case "json":
            from specdec_cli.report.json import render_json

            return render_json(record)
        case "csv":
            return compare_csv(record)
        case "markdown":
            return compare_markdown(record)
        case _:
            return compare_table(record, width=width, colour=colour)
