"""`specdec.validate/1`: how far off the model is, as a record and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from specdec_cli import __version__
from specdec_cli.explore.scenario import Input
from specdec_cli.explore.validate import Choice, Errors, Gate, Score, SourceResult, Total, ValidationReport
from specdec_cli.explore.validate_baselines import BASELINES
from specdec_cli.explore.validate_points import PointResult, Quantity
from specdec_cli.report.columns import Column, Grid, grid_of
from specdec_cli.report.records import finite, inputs_record
from specdec_cli.report.words import percent
from specdec_cli.units import MS

if TYPE_CHECKING:
    from specdec_cli.report.contract import validate as contract
    from specdec_cli.report.contract.common import Warned

Record = dict[str, Any]

VALIDATE: Final = "specdec.validate/1"
TIMES: tuple[Quantity, ...] = ("base_step", "verify", "draft", "step")
RATIOS: tuple[Quantity, ...] = ("verify_ratio", "rho", "speedup", "serving_speedup")

INTRODUCTION = (
    "|error|: predicted over measured, less 1; median and 90th percentile over the points. Base: a step without "
    "speculation. rho = AL / speedup: a speculative step over a base step, with acceptance taken out. Speedup: at the "
    "measured AL. Bias above 0: predicted too slow (speedup: too fast). Sign: speeds up or slows down, where the "
    "measured gain or loss exceeds 5 %. Best D: the predicted best draft length within 1 of the measured one. "
    "Fitted on: points that host constants of their engine or kernel figures of their chip were fitted to."
)


def validate_record(report: ValidationReport, *, inputs: Mapping[str, Input]) -> Record:
    """The whole answer; errors are fractions."""
    answer: contract.ValidateAnswer = {
        "schema": VALIDATE,
        "specdec_version": __version__,
        "inputs": inputs_record(inputs),
        "whole_library": report.whole,
        "sources": [_source(result) for result in report.sources],
        "totals": [_total(total) for total in report.totals],
        "faults": [
            {"source": fault.source, "setup": fault.setup, "evidence": fault.evidence, **_score(fault.score)}
            for fault in report.faults
        ],
        "gates": [_gate(gate) for gate in report.gates],
        "baselines": cast("contract.BaselineWords", dict(BASELINES)),
        "points": [_point(point) for result in report.sources for point in result.points],
        "warnings": _warnings(report),
    }
    return finite(answer)


def _warnings(report: ValidationReport) -> list[Warned]:
    missed = [("gate_missed", gate_sentence(_gate(gate))) for gate in report.missed]
    impossible = [
        (
            "faster_than_datasheet",
            f"{one.source}, {one.setup}: {one.points} base steps are shorter than the data sheet allows, down to "
            f"{percent(one.worst)} of it; batch or context may not be what was decoding",
        )
        for one in report.impossible
    ]
    return [{"code": code, "message": message} for code, message in missed + impossible]


def _source(result: SourceResult) -> contract.SourceScore:
    source, held = result.source, result.source.expected
    return {
        "name": source.name,
        "title": source.title,
        "tier": source.tier,
        "published": source.published,
        "origin": source.origin,
        **_score(result.score),
        "assumed_points": result.assumed,
        "fault_points": result.faults,
        "fitted_points": result.fitted,
        "expected": {"base_step": held.base_step, "rho": held.rho, "speedup": held.speedup},
    }


def _total(total: Total) -> contract.TotalScore:
    baselines = cast("contract.Baselines", {name: _score(score) for name, score in total.baselines.items()})
    return {"name": total.name, "what": total.what, **_score(total.score), "baselines": baselines}


def _score(score: Score) -> contract.Score:
    return {
        "points": score.points,
        "errors": cast("contract.ErrorsByQuantity", {name: _errors(errors) for name, errors in score.errors.items()}),
        "sign": {"agree": score.sign.hits, "of": score.sign.of},
        "best_draft_length": _choice(score.choice),
    }


def _errors(errors: Errors) -> contract.ErrorsOf:
    return {"points": errors.points, "median": errors.median, "p90": errors.p90, "bias": errors.bias}


def _choice(choice: Choice) -> contract.BestDraftLength:
    return {"within_one": choice.near.hits, "sweeps": choice.near.of, "mean_speed_lost": choice.mean_loss}


def _gate(gate: Gate) -> contract.GateResult:
    return {
        "name": gate.name,
        "limit": gate.limit,
        "relation": "at_least" if gate.smallest else "at_most",
        "value": gate.value,
        "passed": gate.passed,
    }


def _point(point: PointResult) -> contract.ValidatedPoint:
    plain = {
        name: getattr(point, name)
        for name in (
            *("source", "tier", "setup", "hardware", "model", "drafter", "batch", "draft_length", "verify_width"),
            *("acceptance_length", "moe", "hybrid", "data_centre", "assumed", "fault", "fitted"),
        )
    }
    figures: Record = {"context_tokens": point.context}
    for prefix, found in (("measured", point.measured), ("predicted", point.predicted["model"])):
        for name in TIMES:
            value = getattr(found, name)
            figures[f"{prefix}_{name}_ms"] = None if value is None else value / MS
        for name in RATIOS:
            figures[f"{prefix}_{name}"] = getattr(found, name)
    for baseline in BASELINES:
        figures[f"{baseline}_rho"] = point.predicted[baseline].rho
    return cast("contract.ValidatedPoint", plain | figures)  # names by rule: the tests hold them against the schema


# --------------------------------------------------------------------------------------------------- text


def source_grid(sources: Sequence[Record]) -> Grid:
    """One row a source."""
    columns = [
        Column("source", lambda s: str(s["name"]), numeric=False),
        Column("tier", lambda s: str(s["tier"]), numeric=False),
        Column("points", lambda s: str(s["points"])),
        Column("assumed", lambda s: str(s["assumed_points"]) if s["assumed_points"] else "-"),
        Column("faults", lambda s: str(s["fault_points"]) if s["fault_points"] else "-"),
        Column("fitted on", lambda s: str(s["fitted_points"]) if s["fitted_points"] else "-"),
        *_error_columns(),
    ]
    return grid_of(columns, sources, lambda s: False)


def total_grid(totals: Sequence[Record]) -> Grid:
    """One row a total."""
    columns = [
        Column("total", lambda t: str(t["name"]), numeric=False),
        Column("points", lambda t: str(t["points"])),
        *_error_columns(),
    ]
    return grid_of(columns, totals, lambda t: False)


def baseline_grid(totals: Sequence[Record]) -> Grid:
    """Median |error| of base step and rho, and what the predictors make of the decision, model and baselines."""
    columns = [Column("total", lambda t: str(t["name"]), numeric=False)]
    for key in ("model", *BASELINES):
        columns += _predictor_columns(key)
    return grid_of(columns, totals, lambda t: False)


def _predictor_columns(key: str) -> list[Column]:
    def found(total: Record) -> Record:
        score: Record = total if key == "model" else total["baselines"][key]
        return score

    columns = [
        Column("base", lambda t: _statistic(found(t), "base_step", "median")),
        Column("rho", lambda t: _statistic(found(t), "rho", "median")),
        Column("sign", lambda t: _sign(found(t))),
        Column("speed lost", lambda t: _lost(found(t))),
    ]
    if key not in ("model", "datasheet_roofline"):
        columns = columns[1:]  # the others say nothing of the base step
    first = columns[0]
    return [Column(f"{key.replace('_', ' ')}: {first.header}", first.cell), *columns[1:]]


def fault_grid(faults: Sequence[Record]) -> Grid:
    """One row a setup with a software fault."""
    columns = [
        Column("source", lambda f: str(f["source"]), numeric=False),
        Column("setup", lambda f: str(f["setup"]), numeric=False),
        Column("points", lambda f: str(f["points"])),
        Column("base", lambda f: _statistic(f, "base_step", "median")),
        Column("rho", lambda f: _statistic(f, "rho", "median")),
        Column("evidence", lambda f: str(f["evidence"]), numeric=False),
    ]
    return grid_of(columns, faults, lambda f: False)


def gate_grid(gates: Sequence[Record]) -> Grid:
    """One row a gate; those missed are stressed."""
    columns = [
        Column("gate", lambda g: str(g["name"]), numeric=False),
        Column("limit", lambda g: ("at least " if g["relation"] == "at_least" else "") + percent(g["limit"])),
        Column("found", lambda g: percent(g["value"])),
        Column("", lambda g: "holds" if g["passed"] else "MISSED", numeric=False),
    ]
    return grid_of(columns, gates, lambda g: not g["passed"])


SHOWN = {
    ("base_step", "base"): ("points", "median", "p90", "bias"),
    ("rho", "rho"): ("points", "median", "p90", "bias"),
    ("speedup", "speedup"): ("median", "p90"),
    ("verify", "verify"): ("points", "median"),
}
"""(quantity, its word) -> what of its errors the tables show; the record holds the rest."""


def _error_columns() -> list[Column]:
    columns = []
    for (quantity, word), statistics in SHOWN.items():
        for place, name in enumerate(statistics):
            head = f"{word}: {'n' if name == 'points' else name}" if place == 0 else name
            columns.append(Column(head, lambda r, q=quantity, n=name: _statistic(r, q, n)))  # type: ignore[misc]
    return [*columns, Column("sign", _sign), Column("best D", _near)]


def _statistic(record: Record, quantity: str, name: str) -> str:
    errors = record["errors"].get(quantity)
    if errors is None:
        return "-"
    return str(errors[name]) if name == "points" else percent(errors[name])


def _sign(record: Record) -> str:
    sign = record["sign"]
    return f"{sign['agree']}/{sign['of']}" if sign["of"] else "-"


def _near(record: Record) -> str:
    best = record["best_draft_length"]
    return f"{best['within_one']}/{best['sweeps']}" if best["sweeps"] else "-"


def _lost(record: Record) -> str:
    lost = record["best_draft_length"]["mean_speed_lost"]
    return "-" if lost is None else percent(lost)


def gate_sentence(gate: Mapping[str, Any]) -> str:
    """What a missed gate is about."""
    relation = "at least" if gate["relation"] == "at_least" else "at most"
    return f"{gate['name']} is {percent(gate['value'])}, {relation} {percent(gate['limit'])} is allowed"


def serving_sentence(record: Record) -> str | None:
    """The throughput ratios of serving runs, apart; None: there are none."""
    everything = next((t for t in record["totals"] if t["name"] == "all"), None)
    errors = everything["errors"].get("serving_speedup") if everything else None
    if errors is None:
        return None
    return (
        f"{errors['points']} further ratios are throughputs of serving runs, which also hold prefill and queueing: the "
        f"prediction lies {percent(abs(errors['bias']))} {'above' if errors['bias'] > 0 else 'below'} them (median), "
        "from steps alone where a source states no prompt and answer lengths; no gate looks at them."
    )


def gates_sentence(record: Record) -> str:
    """How many gates hold."""
    if not record["gates"]:
        return (
            "No gate applies: these sources hold no expectations, and those on totals hold for the whole library only."
        )
    missed = sum(not gate["passed"] for gate in record["gates"])
    what = "" if record["whole_library"] else "; those on totals hold for the whole library only"
    return f"{len(record['gates']) - missed} of {len(record['gates'])} gates hold{what}."


def sections(record: Record) -> list[tuple[str, Grid]]:
    """The tables of the answer, those that are not empty."""
    missed_first = sorted(record["gates"], key=lambda gate: gate["passed"])
    found = [
        ("How far off, by source", source_grid(record["sources"])),
        ("In total", total_grid(record["totals"])),
        (
            "Beside three baselines: median |error| of rho, sign, speed lost by their best D",
            baseline_grid(record["totals"]),
        ),
        ("Software faults, kept out of every gate", fault_grid(record["faults"])),
        ("Gates", gate_grid(missed_first)),
    ]
    return [(title, grid) for title, grid in found if grid.rows]


def validate_table(record: Record, *, width: int | None, colour: bool) -> str:
    """The answer for a person."""
    from specdec_cli.report.page import Page

    page = Page(width, colour)
    for title, grid in sections(record):
        page.say(title, style="bold")
        page.table(grid)
        page.say()
    for line in _closing(record):
        page.say(line)
    return page.text


def validate_markdown(record: Record) -> str:
    """The answer for a document."""
    from specdec_cli.report.markdown import escape, markdown_page, markdown_table

    parts = [part for title, grid in sections(record) for part in (f"### {escape(title)}", markdown_table(grid))]
    return markdown_page([*parts, *(escape(line) for line in _closing(record))])


def _closing(record: Record) -> list[str]:
    baselines = [f"{name.replace('_', ' ')}: {what}." for name, what in record["baselines"].items()]
    said = [f"[{one['code']}] {one['message']}" for one in record["warnings"] if one["code"] != "gate_missed"]
    lines = [INTRODUCTION, "Baselines: " + " ".join(baselines), serving_sentence(record), *said, gates_sentence(record)]
    return [line for line in lines if line]


def validate_csv(record: Record) -> str:
    """One row a point, measured and predicted."""
    from specdec_cli.report.csv import csv_table

    points = record["points"]
    return csv_table(tuple(points[0]) if points else ("source",), points)


def render_validate(record: Record, style: str, *, width: int | None = None, colour: bool = False) -> str:
    """`specdec.validate/1` as table, json, csv or markdown; width and colour count for a table."""
    match style:
        case "json":
            from specdec_cli.report.json import render_json

            return render_json(record)
        case "csv":
            return validate_csv(record)
        case "markdown":
            return validate_markdown(record)
        case _:
            return validate_table(record, width=width, colour=colour)
