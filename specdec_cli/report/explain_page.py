"""`specdec.explain/1` as text: in every table the parts add up to the whole, to the last digit shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from specdec_cli.report.columns import Grid
from specdec_cli.report.explain import ENGINE
from specdec_cli.report.rounding import apportioned, decimals_for, in_units, shown
from specdec_cli.report.words import cost_sentence, number, percent, serving_points, serving_sentence

Record = dict[str, Any]

TITLES = {
    "target": "T_target: a pass of the target, one token a request",
    "verify": "T_verify: a pass of the target, {width} tokens a request",
    "draft": "T_draft: {length} draft tokens a request",
}
LEGEND = (
    "Figures are those of one GPU, all layers of an operation together. Lower: the data sheet's peaks, no launches; "
    "upper: achieved rates, nothing overlaps. In the formulas F: FLOPs, F_pad: with rows padded to the kernel's tile, "
    "Q: bytes, P: peak, beta: memory bandwidth, eta: achieved fractions, p: overlap exponent, tau and floor: launches, "
    "B, W, L: requests, tokens a request, context."
)
ADDING = {"flops": 1e-9, "bytes": 1e-9, "time_ms": 1.0, "share": 100.0, "lower_ms": 1.0, "upper_ms": 1.0}
"""Keys whose parts add up -> factor from the record's unit to the one shown: GFLOP, GB, ms, percent."""
SHARE_DECIMALS = 1
HEADERS = (
    *("part", "times", "GEMM-M", "GFLOP", "GB", "TFLOP/s", "peak TFLOP/s", "GB/s", "ms", "share", "bound"),
    *("lower ms", "upper ms"),
)


def step_units(record: Record) -> tuple[dict[str, int], int]:
    """The time of each pass in units of the last digit, and the decimals of a ms; verify and draft add up to a step."""
    times = {one["pass"]: one["time_ms"] for one in record["passes"]}
    step = math.fsum(times[name] for name in ("verify", "draft")) if "draft" in times else times["target"]
    decimals = decimals_for(max(step, times["target"]))
    units = {"target": in_units(times["target"], decimals), "step": in_units(step, decimals)}
    if "draft" in times:
        parts = apportioned([times["verify"], times["draft"]], units["step"], decimals)
        units |= dict(zip(("verify", "draft"), parts, strict=True))
    return units, decimals


def pass_grid(one: Record, units: int, decimals: int) -> Grid:
    """A pass as a table: each group, below it its operations or overheads, last the whole.

    units: its time in units of the last digit of a ms with so many decimals, as it is shown elsewhere.
    """
    by = "phase" if one["pass"] == "draft" else "group"
    groups = one["groups"]
    members = [
        one["overheads"] if group["group"] == ENGINE else [op for op in one["operations"] if op[by] == group["group"]]
        for group in groups
    ]
    whole = {key: math.fsum(group.get(key, 0.0) for group in groups) for key in ADDING}
    parts = [part for group, below in zip(groups, members, strict=True) for part in (group, *below)]
    columns = {key: _column(key, groups, members, units, decimals) for key in ADDING}
    rows = [
        _row(part, {key: columns[key][at] for key in ADDING})
        for at, part in enumerate([*parts, {**whole, "bound": ""}])
    ]
    stressed = {at for at, part in enumerate(parts) if "group" in part and "name" not in part}
    numeric = tuple(header not in ("part", "bound") for header in HEADERS)
    return Grid(HEADERS, numeric, tuple(rows), frozenset({*stressed, len(parts)}))


def _column(
    key: str, groups: Sequence[Record], members: Sequence[Sequence[Record]], units: int, decimals: int
) -> list[str]:
    """One adding column from top to bottom: the whole shared out to the groups, each group to its members."""
    factor = ADDING[key]
    exact = [group.get(key, 0.0) * factor for group in groups]
    if key != "time_ms":
        decimals = {"share": SHARE_DECIMALS, "lower_ms": decimals, "upper_ms": decimals}.get(
            key, decimals_for(math.fsum(exact))
        )
        units = in_units(math.fsum(exact), decimals)
    found: list[int] = []
    for below, group_units in zip(members, apportioned(exact, units, decimals), strict=True):
        found += [group_units, *apportioned([one.get(key, 0.0) * factor for one in below], group_units, decimals)]
    mark = " %" if key == "share" else ""
    return [shown(each, decimals) + mark for each in (*found, units)]


def _row(part: Record, cells: dict[str, str]) -> tuple[str, ...]:
    inside = "name" in part
    name = part.get("what", part.get("name", part.get("group", "all")))
    rows, peak, moves = part.get("gemm_m"), part.get("peak_tflops_per_s"), part.get("bytes", 0.0) > 0
    return (
        f"  {name}" if inside else str(name),
        f"{part['count']:g}" if "count" in part else "",
        "" if rows is None else f"{rows:.4g}",
        cells["flops"] if moves else "",
        cells["bytes"] if moves else "",
        "" if peak is None else number(part["achieved_tflops_per_s"]),
        "" if peak is None else number(peak),
        number(part["achieved_gb_per_s"]) if moves and "achieved_gb_per_s" in part else "",
        cells["time_ms"],
        cells["share"],
        str(part["bound"]),
        cells["lower_ms"],
        cells["upper_ms"],
    )


def answer_sentence(record: Record) -> str:
    """The point in a sentence."""
    point = record["point"]
    at = f"{'Concurrency' if serving_points([point]) else 'Batch'} {point['batch']}, "
    if not point["draft_length"]:
        return f"{at}speculation off: a token in {number(point['step_ms'])} ms, bound by {point['bound']}."
    band = f"{point['speedup_low']:.2f}-{point['speedup_high']:.2f}"
    return (
        f"{at}draft length {point['draft_length']} with {point['drafter']}: {point['acceptance_length']:.2f} tokens in "
        f"{number(point['step_ms'])} ms, {point['speedup']:.2f}x as fast as without speculation (band {band}), "
        f"bound by {point['bound']}."
    )


def speedup_lines(record: Record) -> list[str]:
    """The formula, its numbers, the result."""
    units, decimals = step_units(record)
    left = record["formula"].partition(" = ")[0]
    lines = [record["formula"]]
    if "draft" not in units:
        return [*lines, f"{' ' * len(left)} = 1 without a draft: T_verify = T_target, T_draft = 0, AL = 1"]
    said = {name: shown(count, decimals) for name, count in units.items()}
    numbers = record["numbers"]
    lines.append(
        f"{' ' * len(left)} = {numbers['acceptance_length']:.3f} x {said['target']} ms / "
        f"({said['verify']} + {said['draft']} ms)"
    )
    lines.append(f"{' ' * len(left)} = {record['result']:.3f}")
    return lines


def facts(record: Record) -> list[tuple[str, str]]:
    """What follows from the point, and what the engine's host has of it."""
    point = record["point"]
    host = math.fsum(one["time_ms"] for part in _step_passes(record) for one in part["overheads"])
    lower, upper = (math.fsum(part[key] for part in _step_passes(record)) for key in ("lower_ms", "upper_ms"))
    rows = [
        ("AL", f"{point['acceptance_length']:.2f} tokens a step ({point['acceptance_basis']})"),
        ("step", f"{number(point['step_ms'])} ms, at least {number(lower)}, at most {number(upper)}"),
        ("overheads", f"{number(host)} ms of the step ({percent(host / point['step_ms'])}) in the engine's host"),
        ("tokens/s/user", number(point["interactivity_tokens_per_s_per_user"])),
        ("tokens/s/GPU", number(point["throughput_tokens_per_s_per_gpu"])),
    ]
    if serving_points([point]):
        rows.append(("serving", serving_sentence(point)))
    cost = cost_sentence({**point, "speculate": point["draft_length"] > 0})
    return [*rows, ("cost", cost)] if cost else rows


def _step_passes(record: Record) -> list[Record]:
    """The passes that a step consists of."""
    names = ("verify", "draft") if len(record["passes"]) > 1 else ("target",)
    return [one for one in record["passes"] if one["pass"] in names]


def pass_title(record: Record, one: Record) -> str:
    """A pass's name, time and bounds."""
    units, decimals = step_units(record)
    title = TITLES[one["pass"]].format(width=one["tokens_per_request"], length=record["point"]["draft_length"])
    bounds = f"at least {number(one['lower_ms'])}, at most {number(one['upper_ms'])}"
    return f"{title}: {shown(units[one['pass']], decimals)} ms ({bounds})"


def pass_grids(record: Record) -> list[tuple[str, Grid]]:
    """Every pass with its title."""
    units, decimals = step_units(record)
    return [(pass_title(record, one), pass_grid(one, units[one["pass"]], decimals)) for one in record["passes"]]


def formula_lines(record: Record) -> list[tuple[str, list[str]]]:
    """Each formula of the step's passes with the operations that it prices: their numbers, the terms, the result."""
    found: dict[str, list[str]] = {}
    for one in _step_passes(record):
        for operation in one["operations"]:
            found.setdefault(operation["formula"], []).append(_evaluated(one["pass"], operation))
    return list(found.items())


def _evaluated(name: str, operation: Record) -> str:
    where = operation["phase"] if name == "draft" else name
    times = f" ({operation['count']:g} times)" if operation["count"] != 1 else ""
    sizes = {key: value for key, value in operation["numbers"].items() if not isinstance(value, bool)}
    given = ", ".join(f"{key} {f'{v:.6g}' if isinstance(v, float) else v}" for key, v in sizes.items())
    terms = ", ".join(f"{key} {number(operation[f'{key}_ms'])}" for key in ("compute", "memory", "fixed"))
    return (
        f"{where}: {operation['name']}{times}: {given}; F {number(operation['flops'] / 1e9)} GFLOP, "
        f"Q {number(operation['bytes'] / 1e9)} GB; {terms} -> {number(operation['time_ms'])} ms"
    )


def explain_table(record: Record, *, width: int | None, colour: bool) -> str:
    """The answer of `specdec explain`."""
    from specdec_cli.report.page import Page
    from specdec_cli.report.table import footing

    page = Page(width, colour)
    page.say(answer_sentence(record), style="bold")
    page.say()
    for line in speedup_lines(record):
        page.literal(f"  {line}")
    page.say()
    page.facts(facts(record))
    for title, grid in pass_grids(record):
        page.say()
        page.say(title, style="bold")
        page.table(grid)
    page.say()
    page.say(LEGEND)
    page.say()
    page.say("Formulas of the step, with their numbers", style="bold")
    for formula, lines in formula_lines(record):
        page.literal(f"  {formula}")
        for line in lines:
            page.say(f"    {line}", indent="      ")
    footing(page, record)
    return page.text


def explain_markdown(record: Record) -> str:
    """The same for a document."""
    from specdec_cli.report.markdown import escape, markdown_footing, markdown_list, markdown_page, markdown_table

    parts = [
        f"**{escape(answer_sentence(record))}**",
        "```\n" + "\n".join(speedup_lines(record)) + "\n```",
        markdown_list([f"{name}: {said}" for name, said in facts(record)]),
    ]
    for title, grid in pass_grids(record):
        parts += [f"### {escape(title)}", markdown_table(grid)]
    parts += [escape(LEGEND), "### Formulas of the step, with their numbers"]
    for formula, lines in formula_lines(record):
        parts += [escape(formula), markdown_list(lines)]
    return markdown_page([*parts, *markdown_footing(record)])


CSV_KEYS = (
    *("pass", "phase", "group", "name", "count", "gemm_m", "flops", "bytes", "peak_tflops_per_s"),
    *("achieved_tflops_per_s", "achieved_gb_per_s", "time_ms", "share", "bound", "lower_ms", "upper_ms"),
    *("compute_ms", "memory_ms", "fixed_ms"),
)


def explain_csv(record: Record) -> str:
    """One row an operation or overhead of each pass."""
    from specdec_cli.report.csv import csv_table

    rows = [
        {"pass": one["pass"], "group": ENGINE, **part}
        for one in record["passes"]
        for part in (*one["operations"], *one["overheads"])
    ]
    return csv_table(CSV_KEYS, rows)


def render_explain(record: Record, style: str, *, width: int | None = None, colour: bool = False) -> str:
    """`specdec.explain/1` as table, json, csv or markdown; width and colour count for a table."""
    match style:
        case "json":
            from specdec_cli.report.json import render_json

            return render_json(record)
        case "csv":
            return explain_csv(record)
        case "markdown":
            return explain_markdown(record)
        case _:
            return explain_table(record, width=width, colour=colour)
