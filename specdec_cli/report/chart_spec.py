"""The charts, declared once with Altair: pages show them interactively, image files hold the same ones still.

Each chart reads the data sets `points`, `refused` and `acceptance` by name, and the parameters `hidden` (names of lines
not shown), `series` and `layout` (the drafter that the heat map and the step show), `batch`, `focus` (the id of the
point that the keyboard is on), `texts` (1: numbers in the cells of the heat map), `ink` and `ground` (colours).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from specdec_cli.report.chart_data import STEP_PARTS, ChartData
from specdec_cli.report.palette import EVEN, FASTER, LIGHT, PARTS, SLOWER, Theme, strokes, theme_config

Record = dict[str, Any]
Chart = Any
"""Altair types the methods of its charts as unions of every kind of chart, which no code can narrow."""

VIEWS = {
    "frontier": "Frontier",
    "speedup": "Speedup over batch and D",
    "step": "Step time by D",
    "acceptance": "Acceptance by D",
}
INTERACTIVITY, THROUGHPUT = "interactivity_tokens_per_s_per_user", "throughput_tokens_per_s_per_gpu"
AXES = ((INTERACTIVITY, "tokens/s/user"), (THROUGHPUT, "tokens/s/GPU"))
SHOWN = "indexof(hidden, datum.series) < 0"
MOST_CELL_TEXTS = 160
POINT_TIPS: tuple[tuple[str, str, str], ...] = (
    ("series", "line", ""),
    ("batch", "batch B", ",d"),
    ("draft_length", "draft length D", "d"),
    ("acceptance_length", "AL", ".2f"),
    ("acceptance_basis", "AL is", ""),
    (INTERACTIVITY, "tokens/s/user", ",.4~r"),
    (THROUGHPUT, "tokens/s/GPU", ",.4~r"),
    ("speedup", "speedup", ".2f"),
    ("speedup_low", "speedup, low", ".2f"),
    ("speedup_high", "speedup, high", ".2f"),
    ("target_ms", "target ms", ",.4~r"),
    ("verify_ms", "verify ms", ",.4~r"),
    ("draft_ms", "draft ms", ",.4~r"),
    ("step_ms", "step ms", ",.4~r"),
    ("bound", "bound by", ""),
    ("layout", "on", ""),
)
"""(key, what it is called, how a number is written: d3's format), for hovering and for the panel of the keyboard."""
STATIC_FONT = "Liberation Sans, DejaVu Sans, Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Drawing:
    """How a chart is to be drawn."""

    width: int | str = 760
    height: int = 440
    log: bool = False
    legend: bool = True
    title: bool = True


def chart_spec(data: ChartData, view: str, drawing: Drawing, theme: Theme = LIGHT) -> Record:
    """One chart as a Vega-Lite specification without its data. view: a key of VIEWS."""
    charts: dict[str, Callable[[ChartData, Drawing], Chart]] = {
        "frontier": _frontier,
        "speedup": _speedup,
        "step": _step,
        "acceptance": _acceptance,
    }
    chart = charts[view](data, drawing).add_params(*_params(data, theme))
    # An axis takes its title from every layer that has none of its own: the first layer speaks for all.
    chart = chart.properties(width=drawing.width, height=drawing.height)
    if drawing.title:
        subtitle = [data.subtitle, *_view_subtitle(data, view), *([data.left_out] if data.left_out else [])]
        chart = chart.properties(title=alt.TitleParams(data.title, subtitle=subtitle))
    spec: Record = chart.to_dict()
    return spec


def static_spec(data: ChartData, view: str, drawing: Drawing, theme: Theme) -> Record:
    """The same chart with its data and colours in it, for image files."""
    spec = chart_spec(data, view, drawing, theme)
    spec["datasets"] = {"points": data.points, "refused": data.refused, "acceptance": data.acceptance}
    spec["config"] = {**spec.get("config", {}), **theme_config(theme, STATIC_FONT)}
    spec["padding"] = 16
    return spec


def vega_lite_version() -> str:
    """The version that Altair's charts are written for, as the converter names it: 6.4."""
    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def _view_subtitle(data: ChartData, view: str) -> list[str]:
    if view == "speedup" and data.first_series:
        return [f"speedup over no speculation with {data.first_series}; the line is where it falls below 1"]
    if view == "step" and data.first_series:
        return [f"one step with {data.first_series} at batch {data.first_batch}; diamonds: ms a token (step / AL)"]
    return []


def _params(data: ChartData, theme: Theme) -> list[alt.Parameter]:
    layout = next((line.layout for line in data.series if line.name == data.first_series), data.series[0].layout)
    values: Record = {
        "hidden": [],
        "series": data.first_series or "",
        "layout": layout,
        "batch": data.first_batch,
        "focus": -1,
        "texts": 1,
        "ink": theme.ink,
        "ground": theme.ground,
    }
    return [alt.param(name=name, value=value) for name, value in values.items()]


def _points() -> Chart:
    return alt.Chart(alt.NamedData("points"))


def _tips(keys: Sequence[tuple[str, str, str]] = POINT_TIPS) -> list[alt.Tooltip]:
    return [
        alt.Tooltip(key, type="quantitative" if form else "nominal", title=title, format=form or alt.Undefined)
        for key, title, form in keys
    ]


def _colour(data: ChartData, legend: bool) -> alt.Color:
    drawn = strokes([line.speculates for line in data.series])
    names = [line.name for line in data.series]
    scale = alt.Scale(domain=names, range=[stroke.colour for stroke in drawn])
    return alt.Color("series", type="nominal", scale=scale, legend=_legend(legend))


def _legend(wanted: bool) -> alt.Legend | None:
    return (
        alt.Legend(title=None, orient="top", symbolOpacity=1, symbolStrokeWidth=0, labelLimit=420) if wanted else None
    )


def _shape(data: ChartData, legend: bool) -> alt.Shape:
    drawn = strokes([line.speculates for line in data.series])
    names = [line.name for line in data.series]
    scale = alt.Scale(domain=names, range=[stroke.shape for stroke in drawn])
    return alt.Shape("series", type="nominal", scale=scale, legend=_legend(legend))


def _dash(data: ChartData) -> alt.StrokeDash:
    drawn = strokes([line.speculates for line in data.series])
    names = [line.name for line in data.series]
    scale = alt.Scale(domain=names, range=[list(stroke.dash) for stroke in drawn])
    return alt.StrokeDash("series", type="nominal", scale=scale, legend=None)


# ------------------------------------------------------------------------------------------------ frontier


def _frontier(data: ChartData, drawing: Drawing) -> Chart:
    x, y = (_axis(data, key, title, drawing.log) for key, title in AXES)
    shown = _points().transform_filter(SHOWN).encode(x=x, y=y)
    lines = shown.transform_filter("datum.on_line")
    colour = _colour(data, drawing.legend)  # the same legend in every layer: they share one, and one refusal hides it
    layers = [
        shown.transform_filter("!datum.on_line")
        .mark_point(size=14, filled=True, opacity=0.42, tooltip=True)
        .encode(color=colour, tooltip=_tips()),
        lines.mark_line(strokeWidth=2).encode(
            color=colour, strokeDash=_dash(data), order=alt.Order(INTERACTIVITY, type="quantitative")
        ),
        lines.mark_point(size=70, filled=True, opacity=1).encode(
            color=colour, shape=_shape(data, drawing.legend), tooltip=_tips()
        ),
        lines.transform_filter("datum.label != ''")
        .mark_text(dx=7, dy=-8, align="left", fontSize=11, color=alt.expr("ink"))
        .encode(text=alt.Text("label", type="nominal")),
        *_chosen(shown),
        _focus(shown),
    ]
    return alt.layer(*layers)


def _axis(data: ChartData, key: str, title: str, log: bool) -> Any:
    """One axis of the frontier, over all points: it stays where it is while lines are hidden."""
    values = [row[key] for row in data.points]
    low, high = min(values), max(values)
    if log:
        scale = alt.Scale(type="log", nice=False, domain=[low / 1.15, high * 1.15])
        axis = alt.Axis(title=title, tickCount=8, format="~s")
    else:
        scale = alt.Scale(nice=True, domain=[0, high * 1.04])
        axis = alt.Axis(title=title, format=",~r")
    channel = alt.X if key == INTERACTIVITY else alt.Y
    return channel(key, type="quantitative", scale=scale, axis=axis)


def _chosen(shown: Chart) -> list[Chart]:
    chosen = shown.transform_filter("datum.chosen").transform_calculate(
        said="'batch ' + datum.batch + ', ' + (datum.draft_length ? 'D = ' + datum.draft_length : 'off')"
    )
    spot = chosen.mark_point(size=60, filled=True, shape="diamond", opacity=1, color=alt.expr("ink"))
    ring = chosen.mark_point(size=330, strokeWidth=2.5, filled=False, shape="circle", color=alt.expr("ink"))
    # Below and to the left: the upper right is where the D of its neighbours stands.
    text = chosen.mark_text(dx=-13, dy=14, align="right", fontSize=12, fontWeight=700, color=alt.expr("ink"))
    # Once more below it in the colour of the ground, so that a line behind does not cross it out.
    halo = text.mark_text(
        dx=-13, dy=14, align="right", fontSize=12, fontWeight=700, stroke=alt.expr("ground"), strokeWidth=4
    )
    said = alt.Text("said", type="nominal")
    return [spot, ring.encode(tooltip=_tips()), halo.encode(text=said), text.encode(text=said)]


def _focus(shown: Chart) -> Chart:
    """The ring around the point that the keyboard is on."""
    ring = shown.transform_filter("datum.id == focus")
    return ring.mark_point(size=260, strokeWidth=3, filled=False, shape="square", color=alt.expr("ink"))


# ------------------------------------------------------------------------------------------------ heat map


def _speedup(data: ChartData, drawing: Drawing) -> Chart:
    x = alt.X("batch", type="ordinal", axis=alt.Axis(title="batch B", labelAngle=0, labelOverlap=True, grid=False))
    y = alt.Y("draft_length", type="ordinal", sort="descending", axis=alt.Axis(title="draft length D", grid=False))
    cells = _points().transform_filter("datum.on_grid && datum.draft_length > 0 && datum.series == series")
    values = [row["speedup"] for row in data.points if row["on_grid"] and row["draft_length"]]
    low, high = min([0.7, *values]), max([1.5, *values])
    scale = alt.Scale(domain=[low, 1.0, high], range=[SLOWER, EVEN, FASTER], interpolate="lab")
    legend = alt.Legend(title="speedup", format=".1f", gradientLength=160, orient="top", titleOrient="left")
    colour = alt.Color("speedup", type="quantitative", scale=scale, legend=legend)
    refused = (
        alt.Chart(alt.NamedData("refused"))
        .transform_filter("datum.series == series")
        .mark_text(text="×", fontSize=13, color=alt.expr("ink"), opacity=0.75)
        .encode(
            x=x,
            y=y,
            tooltip=_tips(
                [
                    ("batch", "batch B", ",d"),
                    ("draft_length", "draft length D", "d"),
                    ("reason", "not feasible", ""),
                    ("detail", "because", ""),
                ]
            ),
        )
    )
    layers: list[Any] = [cells.mark_rect().encode(x=x, y=y, color=colour, tooltip=_tips()), refused]
    if len(values) <= MOST_CELL_TEXTS * max(1, len(data.drafting)):
        # White where that has more contrast: at a lightness below 53 (CIE L*), so far towards either end.
        dark = f"datum.speedup > {1 + 0.71 * (high - 1)} || datum.speedup < {1 - 0.9 * (1 - low)}"
        text = cells.mark_text(fontSize=11, opacity=alt.expr("texts")).encode(
            x=x,
            y=y,
            text=alt.Text("speedup", type="quantitative", format=".2f"),
            color=alt.condition(dark, alt.value("#ffffff"), alt.value("#1c2330")),
        )
        layers.append(text)
    for ink, width in ((EVEN, 6.0), (LIGHT.ink, 2.5)):  # a light edge around the dark line: cells are of any colour
        right = cells.transform_filter("datum.ridge_right").mark_rule(strokeWidth=width, color=ink, strokeCap="square")
        up = cells.transform_filter("datum.ridge_up").mark_rule(strokeWidth=width, color=ink, strokeCap="square")
        box = cells.transform_filter("datum.chosen").mark_rect(filled=False, strokeWidth=width, stroke=ink)
        layers += [
            right.encode(x=_band("x", "batch", 1), y=_band("y", "draft_length", 0), y2=_band("y2", "draft_length", 1)),
            up.encode(x=_band("x", "batch", 0), x2=_band("x2", "batch", 1), y=_band("y", "draft_length", 0)),
            box.encode(x=x, y=y),
        ]
    focus = cells.transform_filter("datum.id == focus")
    layers.append(
        focus.mark_point(size=500, strokeWidth=3, filled=False, shape="square", color=LIGHT.ink).encode(x=x, y=y)
    )
    return alt.layer(*layers)


def _band(channel: str, field: str, position: float) -> Any:
    """An edge of a cell: 0 is its left or upper edge, 1 its right or lower one."""
    kinds: Record = {"x": alt.X, "y": alt.Y, "x2": alt.X2, "y2": alt.Y2}
    if channel in ("x2", "y2"):
        return kinds[channel](field, bandPosition=position)
    sort: Record = {"sort": "descending"} if channel == "y" else {}
    return kinds[channel](field, type="ordinal", bandPosition=position, **sort)


# ------------------------------------------------------------------------------------------------ step time


def _step(data: ChartData, drawing: Drawing) -> Chart:
    ours = "(datum.series == series || (datum.draft_length == 0 && datum.layout == layout))"
    here = _points().transform_filter(f"datum.on_grid && datum.batch == batch && {ours}")
    names = list(STEP_PARTS.values())
    said = " : ".join(f"datum.part == '{key}' ? '{name}'" for key, name in STEP_PARTS.items())
    order = " : ".join(f"datum.part == '{key}' ? {at}" for at, key in enumerate(STEP_PARTS))
    x = alt.X("draft_length", type="ordinal", axis=alt.Axis(title="draft length D", labelAngle=0, grid=False))
    bars = (
        here.transform_fold(list(STEP_PARTS), as_=["part", "part_ms"])
        .transform_calculate(part_name=f"{said} : ''", part_order=f"{order} : 9")
        .mark_bar()
        .encode(
            x=x,
            y=alt.Y("part_ms", type="quantitative", axis=alt.Axis(title="ms in a step")),
            color=alt.Color(
                "part_name",
                type="nominal",
                scale=alt.Scale(domain=names, range=list(PARTS)),
                legend=alt.Legend(title=None, orient="top", symbolOpacity=1),
            ),
            order=alt.Order("part_order", type="quantitative"),
            tooltip=_tips([("part_name", "part", ""), ("part_ms", "its ms", ",.4~r"), *POINT_TIPS]),
        )
    )
    each = here.mark_point(shape="diamond", opacity=1, fill=alt.expr("ink"), stroke="#ffffff", strokeWidth=1).encode(
        x=x,
        y=alt.Y("ms_per_token", type="quantitative"),
        size=alt.condition("datum.id == focus", alt.value(420), alt.value(110)),
        tooltip=_tips([("ms_per_token", "ms a token (step / AL)", ",.4~r"), *POINT_TIPS]),
    )
    return alt.layer(bars, each)


# ------------------------------------------------------------------------------------------------ acceptance


def _acceptance(data: ChartData, drawing: Drawing) -> Chart:
    rows = alt.Chart(alt.NamedData("acceptance")).transform_filter(SHOWN)
    lengths = [row["draft_length"] for row in data.acceptance] or [1]
    x = alt.X(
        "draft_length",
        type="quantitative",
        scale=alt.Scale(nice=False, domain=[min(lengths) - 0.3, max(lengths) + 0.3]),
        axis=alt.Axis(title="draft length D", tickMinStep=1, format="d", grid=False),
    )
    scale = alt.Scale(nice=True, zero=False, domain=[1, max([row["high"] for row in data.acceptance] or [2])])
    y = alt.Y("acceptance_length", type="quantitative", scale=scale, axis=alt.Axis(title="AL, tokens a step"))
    colour = _colour(data, drawing.legend)
    tips = _tips(
        [
            ("series", "line", ""),
            ("draft_length", "draft length D", "d"),
            ("acceptance_length", "AL", ".2f"),
            ("acceptance_basis", "AL is", ""),
            ("low", "AL, low", ".2f"),
            ("high", "AL, high", ".2f"),
        ]
    )
    basis = alt.Scale(
        domain=["measured", "interpolated", "assumed", "extrapolated"],
        range=["circle", "triangle-up", "diamond", "cross"],
    )
    layers = [
        rows.mark_area(opacity=0.14, tooltip=False).encode(
            x=x, y=alt.Y("low", type="quantitative", scale=scale), y2="high", color=colour
        ),
        rows.transform_filter("datum.known").mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        rows.transform_filter("!datum.known || datum.joins")
        .mark_line(strokeWidth=2, strokeDash=[3, 4])
        .encode(x=x, y=y, color=colour),
        rows.mark_point(size=80, filled=True, opacity=1).encode(
            x=x,
            y=y,
            color=colour,
            shape=alt.Shape(
                "acceptance_basis", type="nominal", scale=basis, legend=alt.Legend(title=None, orient="top")
            ),
            tooltip=tips,
        ),
        rows.transform_filter("datum.id == focus")
        .mark_point(size=280, strokeWidth=3, filled=False, shape="square", color=alt.expr("ink"))
        .encode(x=x, y=y),
    ]
    return alt.layer(*layers).resolve_scale(shape="independent")
