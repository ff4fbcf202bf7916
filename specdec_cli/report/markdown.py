"""Answers as GitHub-flavoured markdown, for issues and documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specdec_cli.errors import shown
from specdec_cli.report.columns import (
    Grid,
    context_grid,
    key_numbers,
    point_grid,
    schedule_grid,
    suggestion,
    uplift_grid,
)
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

_SPECIAL = {letter: f"\\{letter}" for letter in "\\|*_`<>[]#"}


def escape(text: str) -> str:
    """The text as it stands: nothing in it is read as markup or steers a terminal, and a cell stays one cell."""
    return "".join(_SPECIAL.get(letter, letter) for letter in shown(" ".join(text.split())))


def sweep_markdown(record: Record) -> str:
    """The answer of `specdec sweep`."""
    points = record["points"]
    legend = basis_legend(points)
    parts = [
        markdown_table(point_grid(points)),
        escape(f"* on the Pareto frontier ({len(record['frontier'])} of {len(points) + record['points_left_out']})")
        + escape(f"; AL: unmarked measured, {legend}" if legend else "; AL as measured"),
    ]
    beyond_measured = step_legend(points)
    if beyond_measured is not None:
        parts.append(escape(beyond_measured))
    if serving_points(points):
        parts.append(escape(SERVING_LEGEND))
    if record["uplift"]:
        parts += ["### At equal interactivity", markdown_table(uplift_grid(record["uplift"]))]
        beyond = uplift_sentence(record)
        parts += [escape(beyond)] if beyond is not None else []
    if record["infeasible"]:
        parts += ["### Infeasible", markdown_list(infeasible_lines(record["infeasible"]))]
    return markdown_page([*parts, *markdown_footing(record)])


def recommend_markdown(record: Record, *, working: bool = False) -> str:
    """The answer of `specdec recommend`; `working`: every number of the guidelines."""
    choice = record["choice"]
    parts = [f"**{escape(answer_sentence(record))}**"]
    if choice is not None:
        facts = [
            f"tokens/s/user: {number(choice['interactivity_tokens_per_s_per_user'])}",
            f"tokens/s/GPU: {number(choice['throughput_tokens_per_s_per_gpu'])}",
            f"AL: {choice['acceptance_length']:.2f} ({choice['acceptance_basis']})",
            f"step: {step_sentence(record['split'], choice)}",
            f"bound: {choice['bound']}",
        ]
        facts += [f"serving: {serving_sentence(choice)}"] if serving_points([choice]) else []
        more = (("cost", cost_sentence(choice)), ("users", users_sentence(record)))
        facts += [f"{name}: {said}" for name, said in more if said]
        second = runner_up_sentence(record)
        facts += [f"runner-up: {second}"] if second else []
        parts.append(markdown_list([*facts, f"pays: {pays_sentence(record)}"]))
    parts += ["### Schedule", markdown_table(schedule_grid(record["schedule"])), escape(schedule_sentence(record))]
    if "schedule_by_context" in record:
        grid = context_grid(record["schedule_by_context"])
        parts += ["### Schedule by batch and context", markdown_table(grid), escape(contexts_sentence(record))]
    if record["guidelines"]:
        parts.append("### The five guidelines")
        rules = record["guidelines"]
        for rule, why in zip(rules, guideline_reasons(rules), strict=True):
            numbers = "; ".join(part for part in (suggestion(rule), "" if working else key_numbers(rule)) if part)
            said = f"**{escape(guideline_head(rule))}** {escape(why)}"
            parts.append(f"{said} ({escape(numbers)})" if numbers else said)
            if working:
                parts.append(markdown_list([f"{name}: {value}" for name, value in working_lines(rule)]))
    for settings in own_settings(record):
        head = f"To paste: {settings['title']} (checked against {settings['engine_version']})"
        parts += [f"### {escape(head)}", "```\n" + "\n".join(map(shown, settings_lines(settings))) + "\n```"]
        if settings["warnings"]:
            parts.append(
                markdown_list([f"[{warning['code']}] {warning['message']}" for warning in settings["warnings"]])
            )
    return markdown_page([*parts, *markdown_footing(record)])


def listing_markdown(grids: Sequence[tuple[str, Grid]]) -> str:
    """The library: one table a kind."""
    return markdown_page([part for title, grid in grids for part in (f"### {escape(title)}", markdown_table(grid))])


def markdown_footing(record: Record) -> list[str]:
    parts = ["### Rests on", markdown_list(scenario_lines(record))]
    if record["warnings"]:
        said = [f"[{warning['code']}] {warning['message']}" for warning in record["warnings"]]
        parts += ["### Warnings and notes", markdown_list(said)]
    return parts


def markdown_list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escape(line)}" for line in lines)


def markdown_table(grid: Grid) -> str:
    rule = ["---:" if numeric else "---" for numeric in grid.numeric]
    rows = [[escape(header) for header in grid.headers], rule]
    rows += [[escape(cell) for cell in row] for row in grid.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def markdown_page(parts: Sequence[str]) -> str:
    return "\n\n".join(parts) + "\n"
