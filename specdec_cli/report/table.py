"""Answers for a person: sentences and aligned columns, whole at any width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specdec_cli.report.columns import (
    Grid,
    context_grid,
    key_numbers,
    point_grid,
    schedule_grid,
    suggestion,
    uplift_grid,
)
from specdec_cli.report.page import Page
from specdec_cli.report.words import (
    SERVING_LEGEND,
    answer_sentence,
    basis_legend,
    contexts_sentence,
    cost_sentence,
    guideline_head,
    guideline_reasons,
    infeasible_lines,
    number,
    own_settings,
    pays_sentence,
    runner_up_sentence,
    scenario_lines,
    schedule_sentence,
    serving_points,
    serving_sentence,
    settings_lines,
    step_legend,
    step_sentence,
    uplift_sentence,
    users_sentence,
    working_lines,
)

Record = dict[str, Any]

__all__ = ["Page", "listing_table", "recommend_table", "sweep_table"]


def sweep_table(record: Record, *, width: int | None, colour: bool) -> str:
    """The answer of `specdec sweep`."""
    page = Page(width, colour)
    points = record["points"]
    page.table(point_grid(points))
    legend = basis_legend(points)
    page.say(
        f"* on the Pareto frontier ({len(record['frontier'])} of {len(points) + record['points_left_out']} points)"
        + (f"; AL: unmarked measured, {legend}" if legend else "; AL as measured")
    )
    beyond = step_legend(points)
    if beyond is not None:
        page.say(beyond)
    if serving_points(points):
        page.say(SERVING_LEGEND)
    _uplift(page, record)
    for line in infeasible_lines(record["infeasible"]):
        page.say(line, indent="  ")
    footing(page, record)
    return page.text


def _uplift(page: Page, record: Record) -> None:
    page.say()
    if not record["uplift"]:
        page.say("No gain at equal interactivity: the sweep holds no points with D = 0 beside others.")
        return
    page.say("At equal interactivity, without speculation and with it", style="bold")
    page.table(uplift_grid(record["uplift"]))
    for reason in dict.fromkeys(row["reason"] for row in record["uplift"] if row["reason"]):
        page.say(f"- {reason}", indent="  ")
    beyond = uplift_sentence(record)
    if beyond is not None:
        page.say(beyond)
    page.say()


def footing(page: Page, record: Record) -> None:
    """What an answer rests on, and its warnings."""
    page.say()
    page.say("Rests on", style="bold")
    for line in scenario_lines(record):
        page.say(f"  {line}", indent="  ")
    if record["warnings"]:
        page.say()
        page.say("Warnings and notes", style="bold")
        for warning in record["warnings"]:
            page.say(f"  [{warning['code']}] {warning['message']}", indent="  ")


def recommend_table(record: Record, *, width: int | None, colour: bool, working: bool = False) -> str:
    """The answer of `specdec recommend`: the sentence first, then what carries it; `working`: every number of the
    guidelines."""
    page = Page(width, colour)
    page.say(answer_sentence(record), style="bold")
    page.say()
    if record["choice"] is not None:
        _choice(page, record)
    page.say("Schedule, every batch size looked at", style="bold")
    page.table(schedule_grid(record["schedule"]), indent=2)
    page.say(f"  {schedule_sentence(record)}", indent="  ")
    if "schedule_by_context" in record:
        page.say()
        page.say("Schedule by batch and context", style="bold")
        page.table(context_grid(record["schedule_by_context"]), indent=2)
        page.say(f"  {contexts_sentence(record)}", indent="  ")
    if record["guidelines"]:
        _guidelines(page, record["guidelines"], working)
    for settings in own_settings(record):
        page.say()
        page.say(f"To paste: {settings['title']} (checked against {settings['engine_version']})", style="bold")
        for line in settings_lines(settings):
            page.literal(f"  {line}")
        for warning in settings["warnings"]:
            page.say(f"  [{warning['code']}] {warning['message']}", indent="  ")
    footing(page, record)
    return page.text


def _choice(page: Page, record: Record) -> None:
    choice, split = record["choice"], record["split"]
    speed, wide = choice["interactivity_tokens_per_s_per_user"], choice["throughput_tokens_per_s_per_gpu"]
    ratio = choice["speedup"]
    without = choice["speculate"]
    rows = [
        ("tokens/s/user", number(speed) + (f" ({number(speed / ratio)} without)" if without else "")),
        ("tokens/s/GPU", number(wide) + (f" ({number(wide / ratio)} without)" if without else "")),
        ("AL", f"{choice['acceptance_length']:.2f} tokens a step ({choice['acceptance_basis']})"),
        ("step", step_sentence(split, choice)),
        ("bound", str(choice["bound"])),
    ]
    if serving_points([choice]):
        rows.append(("serving", serving_sentence(choice)))
    rows += [
        (name, said) for name, said in (("cost", cost_sentence(choice)), ("users", users_sentence(record))) if said
    ]
    second = runner_up_sentence(record)
    rows += [("runner-up", second)] if second else []
    rows.append(("pays", pays_sentence(record)))
    page.facts(rows)
    page.say()


def _guidelines(page: Page, rules: Sequence[Record], working: bool) -> None:
    page.say()
    page.say("The five guidelines (NVIDIA Technical Blog, 2026-09-02), computed here", style="bold")
    for rule, why in zip(rules, guideline_reasons(rules), strict=True):
        page.say(f"  {guideline_head(rule)}", indent="     ")
        page.say(f"     {why}", indent="     ")
        if working:
            page.say(f"     {suggestion(rule) or 'suggests nothing here'}", indent="     ")
            page.facts(working_lines(rule), indent=5)
            continue
        line = "; ".join(part for part in (suggestion(rule), key_numbers(rule)) if part)
        if line:
            page.say(f"     {line}", style="dim", indent="     ")


def listing_table(record: Record, grids: Sequence[tuple[str, Grid]], *, width: int | None, colour: bool) -> str:
    """The library: one table a kind."""
    page = Page(width, colour)
    for title, grid in grids:
        page.say(title, style="bold")
        page.table(grid, indent=2)
        page.say()
    for problem in record["problems"]:
        page.say(f"does not load: {problem}")
    page.say(f"{len(record['profiles'])} profiles")
    return page.text
