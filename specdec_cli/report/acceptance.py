"""`specdec.acceptance/1`: what the files of an engine say about acceptance, as a record and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from specdec_cli import __version__
from specdec_cli.explore.acceptance_interval import CONFIDENCE, wilson
from specdec_cli.explore.acceptance_report import FORMULA, FORMULA_REST, AcceptanceReport, CurvePoint
from specdec_cli.profiles.measured_run import MeasuredRun
from specdec_cli.report.columns import Column, Grid, grid_of
from specdec_cli.report.words import number, percent
from specdec_cli.units import MS

if TYPE_CHECKING:
    from specdec_cli.report.contract import measured as contract

Record = dict[str, Any]

ACCEPTANCE: Final = "specdec.acceptance/1"
MOST_ROWS = 20
"""Runs listed for a person; JSON and CSV hold them all."""

METHODS = {
    "windows": "from the spread of windows",
    "iterations": "iterations taken as independent",
    "bound": "iterations taken as independent, at the largest variance that AL and D allow",
}
CURVE_KEYS = (
    *("model", "workload", "draft_length", "verify_width", "acceptance_length", "acceptance_length_low"),
    *("acceptance_length_high", "interval_method", "per_position", "conditional", "iterations", "windows", "batches"),
    *("step_ms", "runs"),
)


def acceptance_record(
    report: AcceptanceReport, *, inputs: Mapping[str, Mapping[str, Any]], profile: str | None = None
) -> Record:
    """The whole answer; times in ms, rates as fractions. profile: the file that was written."""
    answer: contract.AcceptanceAnswer = {
        "schema": ACCEPTANCE,
        "specdec_version": __version__,
        "inputs": cast(Any, {name: dict(entry) for name, entry in inputs.items()}),
        "confidence": CONFIDENCE,
        "files": [
            {"file": file.file, "format": file.format, "bytes": file.size, "runs": len(file.runs)}
            for file in report.files
        ],
        "curve": [_curve_point(point) for point in report.curve],
        "runs": [_run(run) for run in report.runs],
        "skipped": [
            {"file": file, "reason": one.reason, "count": one.count, "first_line": one.first_line}
            for file, one in report.skipped
        ],
        "formula": f"{FORMULA} {FORMULA_REST}",
        "profile": profile,
        "warnings": [{"code": finding.code, "message": finding.message} for finding in report.findings],
    }
    return cast(Record, answer)


def _curve_point(point: CurvePoint) -> contract.CurvePoint:
    interval = point.interval
    rates, trials = point.per_position, point.iterations
    return {
        "model": point.model,
        "workload": point.workload,
        "draft_length": point.draft_length,
        "verify_width": point.verify_width,
        "acceptance_length": point.acceptance_length,
        "acceptance_length_low": interval.low if interval is not None else None,
        "acceptance_length_high": interval.high if interval is not None else None,
        "interval_method": interval.method if interval is not None else None,
        "per_position": list(rates) if rates is not None else None,
        "per_position_interval": [list(wilson(rate, trials)) for rate in rates] if rates and trials else None,
        "conditional": list(point.conditional) if point.conditional is not None else None,
        "iterations": round(trials) if trials is not None else None,
        "windows": point.windows,
        "batches": list(point.batches),
        "step_ms": point.step_s / MS if point.step_s is not None else None,
        "runs": len(point.runs),
    }


def _run(run: MeasuredRun) -> contract.MeasuredRun:
    return {
        "file": run.file,
        "format": run.format,
        "engine": run.engine,
        "first_line": run.first_line,
        "last_line": run.last_line,
        "label": run.label,
        "model": run.model,
        "workload": run.workload,
        "measures": run.measures,
        "batch": run.batch,
        "draft_length": run.draft_length,
        "verify_width": run.verify_width,
        "acceptance_length": run.acceptance_length,
        "per_position": list(run.per_position) if run.per_position is not None else None,
        "iterations": round(run.iterations) if run.iterations is not None else None,
        "windows": run.windows.count if run.windows is not None else None,
        "step_ms": run.step_s / MS if run.step_s is not None else None,
        "step_basis": run.step_basis if run.step_s is not None else None,
        "draft_ms": run.draft_s / MS if run.draft_s is not None else None,
        "output_tokens_per_s": run.output_tokens_per_s,
        "context_tokens": run.context_tokens,
        "cuda_graphs": run.cuda_graphs,
        "warnings": [finding.code for finding in run.findings],
    }


def curve_grid(curve: Sequence[Record]) -> Grid:
    """Acceptance by draft length; what is the same in all rows is left out."""
    columns = [
        Column(key, lambda p, key=key: str(p[key] or "-"), numeric=False)  # type: ignore[misc]
        for key in ("model", "workload")
        if len({p[key] for p in curve}) > 1
    ]
    columns.append(Column("D", lambda p: "?" if p["draft_length"] is None else str(p["draft_length"])))
    if any(p["verify_width"] is not None for p in curve):
        columns.append(Column("verified", lambda p: number(p["verify_width"]) if p["verify_width"] else "chain"))
    columns += [
        Column("AL", lambda p: f"{p['acceptance_length']:.3f}"),
        Column(percent(CONFIDENCE), _interval),
        Column("a_1 .. a_D", lambda p: _rates(p["per_position"]), numeric=False),
        Column("iterations", lambda p: "-" if p["iterations"] is None else f"{p['iterations']:,}"),
        Column("windows", lambda p: "-" if p["windows"] is None else f"{p['windows']:,}"),
        Column("batch", lambda p: _batches(p["batches"])),
    ]
    return grid_of(columns, curve, lambda p: False)


def run_grid(runs: Sequence[Record]) -> Grid:
    """Operating points: what `specdec calibrate` would take."""
    columns = [
        Column("lines", _lines, numeric=False),
        Column("batch", lambda r: number(r["batch"], 3)),
        Column("D", _drafted),
        Column("AL", lambda r: "-" if r["acceptance_length"] is None else f"{r['acceptance_length']:.2f}"),
        Column("step ms", lambda r: number(r["step_ms"])),
        Column("tokens/s", lambda r: number(r["output_tokens_per_s"])),
        Column("context tokens", lambda r: number(r["context_tokens"])),
        Column("label", lambda r: " ".join(part for part in (r["workload"], r["label"]) if part), numeric=False),
    ]
    if any(r["draft_ms"] is not None for r in runs):
        columns.insert(5, Column("of it draft ms", lambda r: number(r["draft_ms"])))
    return grid_of(columns, runs, lambda r: False)


def _drafted(run: Record) -> str:
    if run["measures"] == "verify_pass":
        return f"{run['verify_width']} wide"
    return "?" if run["draft_length"] is None else str(run["draft_length"])


def _lines(run: Record) -> str:
    first, last = run["first_line"], run["last_line"]
    where = "" if first is None else f":{first}" if last in (None, first) else f":{first}-{last}"
    return f"{run['file']}{where}"


def _interval(point: Record) -> str:
    low, high = point["acceptance_length_low"], point["acceptance_length_high"]
    return "-" if low is None else f"{low:.3f}-{high:.3f}"


def _rates(rates: Sequence[float] | None) -> str:
    return "-" if not rates else " ".join(f"{rate:.3f}" for rate in rates)


def _batches(batches: Sequence[float]) -> str:
    if not batches:
        return "-"
    return number(batches[0], 3) if len(batches) == 1 else f"{number(batches[0], 3)}-{number(batches[-1], 3)}"


def _closing(record: Record) -> list[str]:
    lines = [record["formula"]]
    methods = dict.fromkeys(p["interval_method"] for p in record["curve"] if p["interval_method"])
    if methods:
        lines.append("Interval: " + "; ".join(METHODS[method] for method in methods))
    for one in record["skipped"]:
        where = "" if one["first_line"] is None else f" (first at line {one['first_line']})"
        lines.append(f"Left out of {one['file']}: {one['reason']}, {one['count']:,}{where}")
    bases = dict.fromkeys(r["step_basis"] for r in record["runs"] if r["step_basis"])
    lines += [f"Step: {basis}" for basis in bases]
    if record["profile"]:
        lines.append(f"Written: {record['profile']}; use it with --acceptance {record['profile']}")
    return lines


def _sections(record: Record) -> list[tuple[str, Grid]]:
    runs = [r for r in record["runs"] if r["step_ms"] is not None or r["output_tokens_per_s"] is not None]
    formats = ", ".join(dict.fromkeys(file["format"] for file in record["files"]))
    sections = []
    if record["curve"]:
        sections.append((f"Acceptance ({formats})", curve_grid(record["curve"])))
    if runs:
        more = f", {MOST_ROWS} of {len(runs)}; --format json has all" if len(runs) > MOST_ROWS else ""
        sections.append((f"Operating points{more}", run_grid(runs[:MOST_ROWS])))
    return sections


def acceptance_table(record: Record, *, width: int | None, colour: bool) -> str:
    """For a person."""
    from specdec_cli.report.page import Page

    page = Page(width, colour)
    for title, grid in _sections(record):
        page.say(title, style="bold")
        page.table(grid, indent=2)
        page.say()
    for line in _closing(record):
        page.say(line, indent="  ")
    return page.text


def acceptance_markdown(record: Record) -> str:
    """For an issue or a document."""
    from specdec_cli.report.markdown import escape, markdown_list, markdown_page, markdown_table

    parts = [part for title, grid in _sections(record) for part in (f"### {escape(title)}", markdown_table(grid))]
    said = [f"[{warning['code']}] {warning['message']}" for warning in record["warnings"]]
    return markdown_page(
        [*parts, markdown_list(_closing(record)), *(["### Warnings and notes", markdown_list(said)] if said else [])]
    )


def acceptance_csv(record: Record) -> str:
    """One row for each draft length."""
    from specdec_cli.report.csv import csv_table

    return csv_table(CURVE_KEYS, record["curve"])


def render_acceptance(record: Record, style: str, *, width: int | None = None, colour: bool = False) -> str:
    """`specdec.acceptance/1` as table, json, csv or markdown; width and colour count for a table."""
    match style:
        case "json":
            from specdec_cli.report.json import render_json

            return render_json(record)
        case "csv":
            return acceptance_csv(record)
        case "markdown":
            return acceptance_markdown(record)
        case _:
            return acceptance_table(record, width=width, colour=colour)
