"""`specdec.calibration/1` and the plan of runs, as records and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from specdec_cli import __version__
from specdec_cli.explore.calibrate_report import CalibrateReport, band_of, errors_of, range_of
from specdec_cli.explore.scenario import Input
from specdec_cli.profiles.calibration import Constants
from specdec_cli.report.columns import Column, Grid, grid_of
from specdec_cli.report.records import inputs_record
from specdec_cli.report.words import number, percent
from specdec_cli.units import MS

if TYPE_CHECKING:
    from specdec_cli.report.contract import measured as contract

Record = dict[str, Any]

CALIBRATION: Final = "specdec.calibration/1"
PLAN: Final = "specdec.calibration_plan/1"
FORMULA = (
    "T_step = kernels(memory side x memory_scale, compute side x compute_scale) + step + per_request B "
    "+ [D >= 1] entry fee + passes x draft pass"
)
METHODS = {
    "fit": "the constants alone reach the measured steps",
    "line": "the constants miss measured steps by over 10 %: straight lines through the steps are followed",
    "curve": "the target's pass follows the measured curve, stair by stair; the constants stand beside it",
}
CONSTANTS: dict[contract.ConstantName, tuple[str, str]] = {
    "memory_scale": ("kernels' memory side", "x"),
    "compute_scale": ("kernels' compute side", "x"),
    "step_ms": ("step", "ms"),
    "per_request_us": ("each request", "us"),
    "speculation_ms": ("entry fee", "ms"),
    "draft_pass_ms": ("each draft pass", "ms"),
    "draft_pass_target_fraction": ("each draft pass, of a plain step", "x"),
}
ROW_KEYS = (
    *("batch", "draft_length", "verify_width", "acceptance_length", "context_tokens", "step_ms", "prior_ms"),
    *("fitted_ms", "error", "left_out_ms", "left_out_error", "place"),
)


def calibration_record(report: CalibrateReport, *, profile: str | None, asked: Mapping[str, Input]) -> Record:
    """The whole answer; times in ms, errors as fractions. profile: the file that was written."""
    fit, curve = report.fit, report.measured.curve
    own = range_of(report)
    answer: contract.CalibrationAnswer = {
        "schema": CALIBRATION,
        "specdec_version": __version__,
        "inputs": inputs_record({**report.inputs, **asked}),
        "files": [{"file": one.file, "format": one.format, "runs": len(one.runs)} for one in report.files],
        "method": fit.method if fit is not None else "curve",
        "formula": FORMULA,
        "constants": [] if fit is None else _constants(fit.prior, fit.fitted),
        "rows": [] if fit is None else [_row(report, place) for place in range(len(fit.rows))],
        "errors": None if fit is None else cast("contract.StepErrors", msgspec.structs.asdict(errors_of(fit))),
        "plain_step": _split(report),
        "verify_curve": []
        if curve is None
        else [
            {"tokens": n, "pass_ms": s / MS, "ratio": s / curve.seconds[0]}
            for n, s in zip(curve.tokens, curve.seconds, strict=True)
        ],
        "risers": [] if curve is None else [list(pair) for pair in curve.risers()],
        "valid": cast("contract.Range", msgspec.structs.asdict(own)),
        "time_band": band_of(report),
        "profile": profile,
        "warnings": [{"code": one.code, "message": one.message} for one in report.findings],
    }
    return cast(Record, answer)


def _constants(prior: Constants, fitted: Constants) -> list[contract.Constant]:
    used = [name for name in CONSTANTS if name != "draft_pass_target_fraction" or prior.draft_pass_target_fraction]
    return [{"name": name, "prior": getattr(prior, name), "fitted": getattr(fitted, name)} for name in used]


def _row(report: CalibrateReport, place: int) -> contract.CalibratedStep:
    fit = report.fit
    assert fit is not None
    row = fit.rows[place]
    left = None if fit.left_out_s is None else float(fit.left_out_s[place])
    return {
        "batch": row.batch,
        "draft_length": row.draft_length,
        "verify_width": row.width,
        "acceptance_length": row.acceptance_length,
        "context_tokens": row.context,
        "step_ms": row.step_s / MS,
        "prior_ms": float(fit.prior_s[place]) / MS,
        "fitted_ms": float(fit.fitted_s[place]) / MS,
        "error": float(fit.fitted_s[place]) / row.step_s - 1.0,
        "left_out_ms": None if left is None else left / MS,
        "left_out_error": None if left is None else left / row.step_s - 1.0,
        "place": row.place,
    }


def _split(report: CalibrateReport) -> contract.PlainStep | None:
    split = report.split
    if split is None:
        return None
    return {
        "batch": split.batch,
        "context_tokens": split.context,
        "measured": split.measured,
        "step_ms": split.step_s / MS,
        "ideal_ms": split.ideal_s / MS,
        "prior_ms": split.prior_s / MS,
        "unexplained_ms": (split.step_s - split.prior_s) / MS,
        "over_ideal": split.step_s / split.ideal_s,
    }


def plan_record(
    runs: Sequence[contract.PlannedRun],
    *,
    engine: str,
    feed_back: str,
    notes: Sequence[str],
    inputs: Mapping[str, Input],
) -> Record:
    """The runs to make."""
    answer: contract.PlanAnswer = {
        "schema": PLAN,
        "specdec_version": __version__,
        "inputs": inputs_record(inputs),
        "engine": engine,
        "runs": list(runs),
        "feed_back": feed_back,
        "notes": list(notes),
        "warnings": [],
    }
    return cast(Record, answer)


# ---------------------------------------------------------------------------------------------------- text


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f} %".replace("-0.0 %", "0.0 %").replace("+0.0 %", "0.0 %")


def _row_grid(rows: Sequence[Record]) -> Grid:
    columns = [
        Column("batch", lambda r: f"{r['batch']:.6g}"),
        Column("D", lambda r: str(r["draft_length"])),
        Column("AL", lambda r: "-" if r["acceptance_length"] is None else f"{r['acceptance_length']:.2f}"),
        Column("measured ms", lambda r: number(r["step_ms"])),
        Column("profiles ms", lambda r: number(r["prior_ms"])),
        Column("calibrated ms", lambda r: number(r["fitted_ms"])),
        Column("error", lambda r: _signed(r["error"])),
        Column("left out", lambda r: _signed(r["left_out_error"])),
    ]
    if any(r["verify_width"] != r["draft_length"] + 1 for r in rows):
        columns.insert(2, Column("verified", lambda r: str(r["verify_width"])))
    if len({r["context_tokens"] for r in rows}) > 1:
        columns.insert(1, Column("context tokens", lambda r: number(r["context_tokens"])))
    return grid_of(columns, rows, lambda r: False)


def _constant_grid(constants: Sequence[Record]) -> Grid:
    columns = [
        Column("what", lambda c: CONSTANTS[c["name"]][0], numeric=False),
        Column("profiles", lambda c: f"{number(float(c['prior']), 3)} {CONSTANTS[c['name']][1]}"),
        Column("calibrated", lambda c: f"{number(float(c['fitted']), 3)} {CONSTANTS[c['name']][1]}"),
    ]
    return grid_of(columns, constants, lambda c: False)


def _curve_grid(record: Record) -> Grid:
    above = {high for _, high in record["risers"]}
    columns = [
        Column("tokens", lambda p: str(p["tokens"])),
        Column("pass ms", lambda p: number(p["pass_ms"])),
        Column("of one token", lambda p: f"{p['ratio']:.2f}x"),
        Column("stair", lambda p: "up" if p["tokens"] in above else "", numeric=False),
    ]
    return grid_of(columns, record["verify_curve"], lambda p: False)


def _sections(record: Record) -> list[tuple[str, Grid]]:
    found = []
    if record["rows"]:
        found.append(("Steps", _row_grid(record["rows"])))
    if record["verify_curve"]:
        found.append(("The target's pass", _curve_grid(record)))
    if record["constants"]:
        found.append(("What moved", _constant_grid(record["constants"])))
    return found


def _closing(record: Record) -> list[str]:
    inputs, errors, split = record["inputs"], record["errors"], record["plain_step"]

    def said(name: str) -> str:
        value = inputs[name]["value"]
        return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)

    lines = [
        f"Measured on {said('hardware')}, tp {said('tp')}, {said('model')} with {said('drafter')}, {said('engine')}",
        f"{record['method']}: {METHODS[record['method']]}",
    ]
    if split is not None:
        word = "plain step" if split["measured"] else "plain step (calibrated, none was measured)"
        lines.append(
            f"{word} at batch {split['batch']:.6g}: {number(split['step_ms'], 3)} ms, {split['over_ideal']:.1f}x"
            f" the {number(split['ideal_ms'], 3)} ms that weights and cache need at the datasheet's bandwidth; the "
            f"profiles expect {number(split['prior_ms'], 3)} ms"
        )
    if errors is not None:
        lines.append(
            f"errors of steps, median: {percent(errors['prior_median'])} by the profiles, {percent(errors['median'])} "
            f"calibrated (worst {percent(errors['worst'])})"
            + (
                f", {percent(errors['left_out_median'])} where each row is predicted from the others (worst "
                f"{percent(errors['left_out_worst'])})"
                if errors["left_out_median"] is not None
                else "; one row: none can be left out"
            )
        )
    lines.append(_valid(record))
    if record["profile"]:
        use = f"Written: {record['profile']}; use it with --calibration {record['profile']}"
        lengths = _lengths(record["rows"])
        if lengths:
            use += f", and your own acceptance with --acceptance-length {lengths}"
        lines.append(use)
    else:
        lines.append("Nothing was written: -o NAME.yaml writes what --calibration takes")
    return lines


def _valid(record: Record) -> str:
    valid = record["valid"]
    low, high = valid["batch"]
    band = "" if record["time_band"] is None else f", step times within {percent(record['time_band'])}"
    return (
        f"holds for batches {max(1.0, low / 2):g} to {high * 2:g}, D up to {valid['draft_length'][1]}, contexts "
        f"{valid['context_tokens'][0] / 2:,.0f} to {valid['context_tokens'][1] * 2:,.0f}{band}; beyond: extrapolation"
    )


def _lengths(rows: Sequence[Record]) -> str:
    """AL by draft length as --acceptance-length takes it; empty where trees or none were measured."""
    chains = [r for r in rows if r["draft_length"] and r["acceptance_length"] and r["acceptance_length"] > 1]
    if any(r["verify_width"] != r["draft_length"] + 1 for r in chains):
        return ""
    by_length: dict[int, list[float]] = {}
    for row in chains:
        by_length.setdefault(row["draft_length"], []).append(row["acceptance_length"])
    return ",".join(f"{d}={sum(v) / len(v):.4g}" for d, v in sorted(by_length.items()))


def render_calibration(record: Record, style: str, *, width: int | None = None, colour: bool = False) -> str:
    """`specdec.calibration/1` as table, json, csv or markdown."""
    match style:
        case "json":
            from specdec_cli.report.json import render_json

            return render_json(record)
        case "csv":
            from specdec_cli.report.csv import csv_table

            return csv_table(ROW_KEYS, record["rows"])
        case "markdown":
            from specdec_cli.report.markdown import escape, markdown_list, markdown_page, markdown_table

            parts = [
                part for title, grid in _sections(record) for part in (f"### {escape(title)}", markdown_table(grid))
            ]
            said = [f"[{one['code']}] {one['message']}" for one in record["warnings"]]
            return markdown_page(
                [
                    *parts,
                    markdown_list(_closing(record)),
                    *(["### Warnings and notes", markdown_list(said)] if said else []),
                ]
            )
        case _:
            from specdec_cli.report.page import Page

            page = Page(width, colour)
            for title, grid in _sections(record):
                page.say(title, style="bold")
                page.table(grid, indent=2)
                page.say()
            for line in _closing(record):
                page.say(line, indent="  ")
            _warnings(page, record)
            return page.text


def _warnings(page: Any, record: Record) -> None:
    for one in record["warnings"]:
        page.say(f"! {one['message']} [{one['code']}]", indent="  ")


def render_plan(record: Record, style: str, *, width: int | None = None, colour: bool = False) -> str:
    """The plan as text to read and copy, json, csv (a run a row) or markdown."""
    match style:
        case "json":
            from specdec_cli.report.json import render_json

            return render_json(record)
        case "csv":
            from specdec_cli.report.csv import csv_table

            return csv_table(("draft_length", "minutes", "server", "client", "forced", "result"), record["runs"])
        case "markdown":
            from specdec_cli.report.markdown import escape, markdown_list, markdown_page

            parts = []
            for run in record["runs"]:
                parts.append(f"### {escape(_head(run))}")
                parts += [f"```sh\n{block}\n```" for block in _blocks(run)]
            parts += ["### Feed back", f"```sh\n{record['feed_back']}\n```", markdown_list(record["notes"])]
            return markdown_page(parts)
        case _:
            from specdec_cli.report.page import Page

            page = Page(width, colour)
            for run in record["runs"]:
                page.say(_head(run), style="bold")
                for block in _blocks(run):
                    for line in block.splitlines():
                        page.literal(f"  {line}")
                    page.say()
            page.say("Then", style="bold")
            page.literal(f"  {record['feed_back']}")
            page.say()
            for line in record["notes"]:
                page.say(f"- {line}", indent="  ")
            return page.text


def _head(run: Record) -> str:
    what = f"D = {run['draft_length']}" if run["draft_length"] else "speculation off"
    return f"{what}, about {run['minutes']:.0f} minutes, most of it the start; writes {run['result']}"


def _blocks(run: Record) -> list[str]:
    blocks = [run["server"], run["client"]]
    if run["forced"]:
        blocks.append(f"# without a trained drafter, the cost alone, acceptance forced:\n{run['forced']}")
    return [block.strip() for block in blocks if block.strip()]
