"""Interactive charts: what page.js reads, and the controls around them; the page of `specdec plot`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from specdec_cli.report.chart_data import ChartData
from specdec_cli.report.chart_spec import POINT_TIPS, VIEWS, Drawing, chart_spec
from specdec_cli.report.columns import point_grid
from specdec_cli.report.html import bullets, document, table, text, to_copy
from specdec_cli.report.palette import THEMES, Stroke, strokes, theme_config
from specdec_cli.report.words import infeasible_lines, scenario_lines

Record = dict[str, Any]

OFF_ONLY = ' data-for="frontier"'  # without speculation nothing is accepted
DIGITS = 5
"""Significant digits of a number in a page; it shows four."""
MOST_ROWS = 200
ABOUT = {
    "frontier": "Up and to the right is better: more tokens a second for each GPU, and for each user. A line joins the "
    "points that no other of its drafter beats; the number at a point is its draft length D, the faint points are the "
    "rest of the sweep.",
    "speedup": "Tokens a second over plain decoding at the same batch. Blue is faster, orange slower; the heavy line "
    "is where speculation stops paying, a cross cannot be run.",
    "step": "Where the time of one step goes, by draft length, at one batch. The diamonds are what counts: "
    "milliseconds a token, step / AL; the lowest is the best D.",
    "acceptance": "AL is the tokens that one target pass yields, bonus token included. The dotted part is extrapolated "
    "past what was measured; the shade is the band.",
}
ACCEPTANCE_TIPS = (
    ("series", "line", ""),
    ("draft_length", "draft length D", "d"),
    ("acceptance_length", "AL", ".2f"),
    ("acceptance_basis", "AL is", ""),
    ("low", "AL, low", ".2f"),
    ("high", "AL, high", ".2f"),
)
STEP_TIPS = (
    *POINT_TIPS,
    ("ms_per_token", "ms a token", ",.4~r"),
    ("target_kernels_ms", "target pass ms", ",.4~r"),
    ("verify_adds_ms", "verifying adds ms", ",.4~r"),
    ("draft_kernels_ms", "drafting ms", ",.4~r"),
    ("overheads_ms", "overheads ms", ",.4~r"),
)
HINT = "Hover over or tap a point; or, with the chart in focus, walk the points with the arrow keys."


def plot_page(data: ChartData, record: Record, *, view: str, command: str, library: str) -> str:
    """The page of `specdec plot`: the charts, the points of the frontiers as a table, what it rests on.

    record: the answer of `specdec sweep`. command: what re-creates the page. library: the JavaScript of Vega.
    """
    parts = [
        heading(data.title, data.subtitle),
        charts(data),
        points_table(data),
        "<h2>Rests on</h2>",
        bullets(scenario_lines(record)),
    ]
    if record["infeasible"]:
        parts += ["<h2>Infeasible</h2>", bullets([line.strip() for line in infeasible_lines(record["infeasible"])])]
    parts += [warnings(record["warnings"]), footer(record["specdec_version"], command)]
    return document(data.title, "\n".join(parts), payload(data, view), library)


def heading(title: str, subtitle: str) -> str:
    """The head of a page, with the button that changes the theme."""
    return (
        f'<header class="top"><div><h1>{text(title)}</h1><p class="faint">{text(subtitle)}</p></div>'
        '<button type="button" id="theme" aria-label="Switch between light and dark">Light / dark</button></header>'
    )


def warnings(entries: Sequence[Record]) -> str:
    """Warnings with their codes; nothing where there are none."""
    if not entries:
        return ""
    return "<h2>Warnings and notes</h2>" + bullets([f"[{entry['code']}] {entry['message']}" for entry in entries])


def footer(version: str, command: str) -> str:
    """What made the page, and the command that makes it again."""
    return f"<h2>Make it again</h2>{to_copy(command, 'the command')}<footer>specdec {text(version)}</footer>"


def charts(data: ChartData) -> str:
    """The chart with its controls; page.js brings them to life."""
    drawn = strokes([line.speculates for line in data.series])
    views = "".join(
        f'<label><input type="radio" name="view" value="{key}"{" checked" if key == "frontier" else ""}>'
        f"<span>{text(name)}</span></label>"
        for key, name in _views(data).items()
    )
    lines = "".join(
        f'<button type="button" data-line="{at}" aria-pressed="true"{"" if line.speculates else OFF_ONLY}>'
        f"{_swatch(stroke)}{text(line.name)}</button>"
        for at, (line, stroke) in enumerate(zip(data.series, drawn, strict=True))
    )
    controls = [
        f'<div class="lines" data-for="frontier acceptance" role="group" aria-label="Lines shown">{lines}</div>',
        '<label class="option" data-for="frontier"><input type="checkbox" id="log"> logarithmic axes</label>',
    ]
    if len(data.drafting) > 1:
        names = [line.name for line in data.drafting]
        controls.append(_select("series", "drafter", names, data.first_series, "speedup step"))
    batches = sorted({row["batch"] for row in data.points if row["on_grid"]})
    if len(batches) > 1:
        controls.append(_select("batch", "batch", batches, data.first_batch, "step"))
    thinned = f'<p class="small faint" id="left-out">{text(data.left_out)}.</p>' if data.left_out else ""
    return (
        f'<section aria-label="Charts"><div class="bar"><fieldset class="views"><legend class="visually-hidden">View'
        f"</legend>{views}</fieldset></div>"
        f'<div class="bar">{"".join(controls)}</div>'
        '<div class="chart" id="chart" tabindex="0" role="group" '
        'aria-label="Chart; arrow keys walk its points, Escape leaves them"><div id="drawing"></div></div>'
        '<div class="point" id="point" aria-live="polite"></div>'
        f'<template id="hint"><p class="faint">{text(HINT)}</p></template>'
        f'<p class="small faint" id="about"></p>{thinned}</section>'
    )


def points_table(data: ChartData) -> str:
    """The points of every line's frontier, folded: the chart for those who read rather than look."""
    shown = [row for row in data.points if row["on_line"] or row["chosen"]]
    shown.sort(key=lambda row: (row["series"], row["batch"]))
    more = f"; the first {MOST_ROWS} of {len(shown):,}" if len(shown) > MOST_ROWS else ""
    shown = shown[:MOST_ROWS]
    chosen = frozenset(at for at, row in enumerate(shown) if row["chosen"])
    grid = table(point_grid(shown), caption="Points of the frontiers", chosen=chosen)
    return f"<details><summary>The points of the lines as a table{more}</summary>{grid}</details>"


def payload(data: ChartData, view: str) -> Record:
    """What page.js draws: specifications, data as columns, the lines, the themes.

    view: the one shown first; a key of VIEWS.
    """
    still = Drawing(width="container", legend=False, title=False)
    specs = {key: chart_spec(data, key, still) for key in _views(data)}
    specs["frontier_log"] = chart_spec(
        data, "frontier", Drawing(width="container", legend=False, title=False, log=True)
    )
    for spec in specs.values():
        spec.pop("config", None)  # the theme is page.js's to set
        spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return {
        "first": {"view": view, "series": data.first_series, "batch": data.first_batch},
        "series": [{"name": line.name, "layout": line.layout} for line in data.series],
        "specs": specs,
        "tables": {
            "points": columns_of(data.points),
            "refused": columns_of(data.refused),
            "acceptance": columns_of(data.acceptance),
        },
        "themes": {name: {**asdict(theme), "config": theme_config(theme)} for name, theme in THEMES.items()},
        "tips": {"points": POINT_TIPS, "step": STEP_TIPS, "acceptance": ACCEPTANCE_TIPS},
        "about": ABOUT,
    }


def columns_of(rows: Sequence[Record]) -> Record:
    """Rows as columns, which repeat no key; texts once each, as places in a list; numbers to five digits."""
    columns: dict[str, list[Any]] = {}
    texts: dict[str, list[Any]] = {}
    for key in rows[0] if rows else ():
        values = [row[key] for row in rows]
        if all(isinstance(value, str) for value in values):
            texts[key] = list(dict.fromkeys(values))
            place = {value: at for at, value in enumerate(texts[key])}
            columns[key] = [place[value] for value in values]
        else:
            columns[key] = [_rounded(value) for value in values]
    return {"length": len(rows), "columns": columns, "texts": texts}


def _rounded(value: Any) -> Any:
    """Fewer letters for the same: yes and no as 1 and 0, numbers without digits that nobody sees."""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def _views(data: ChartData) -> dict[str, str]:
    """The views that have something to show: without a drafter the frontier and the step."""
    return {key: name for key, name in VIEWS.items() if data.drafting or key in ("frontier", "step")}


def _select(name: str, label: str, values: Sequence[Any], first: Any, views: str) -> str:
    options = "".join(
        f'<option value="{text(value)}"{" selected" if value == first else ""}>{text(value)}</option>'
        for value in values
    )
    return f'<label class="option" data-for="{views}">{label} <select id="{name}">{options}</select></label>'


_MARKS = {
    "circle": '<circle cx="14" cy="7" r="4"/>',
    "square": '<rect x="10" y="3" width="8" height="8"/>',
    "triangle-up": '<path d="M14 2.5l5 9h-10z"/>',
    "diamond": '<path d="M14 1.5l5 5.5l-5 5.5l-5 -5.5z"/>',
    "cross": '<path d="M12.5 2h3v3.5H19v3h-3.5V12h-3V8.5H9v-3h3.5z"/>',
    "triangle-down": '<path d="M14 11.5l5 -9h-10z"/>',
}


def _swatch(stroke: Stroke) -> str:
    dash = " ".join(map(str, stroke.dash)) if stroke.dash != (1, 0) else "none"
    return (
        f'<svg width="28" height="14" aria-hidden="true" fill="{stroke.colour}">'
        f'<path d="M0 7h28" stroke="{stroke.colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        f"{_MARKS[stroke.shape]}</svg>"
    )
