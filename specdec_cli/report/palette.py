"""Colours of pictures: one set for light and dark grounds, told apart by readers with any common colour vision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Hues of Okabe and Ito (2008), moved to a medium luminance: 3:1 or more against both grounds below.
# tests/test_palette.py holds contrast and distance under simulated protanopia, deuteranopia and tritanopia.
OFF_COLOUR = "#7d8087"
LINES = ("#1b83d6", "#d9621a", "#0f9d76", "#b25fae", "#b08a00", "#5d6fd0")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (8, 3), (3, 2), (8, 3, 2, 3))
"""One for each round through the colours, so that more lines than colours stay apart."""
SLOWER, EVEN, FASTER = "#c2570c", "#f4f3ee", "#12589c"
"""Speedup below 1, at 1, and the highest."""
PARTS = ("#7d8087", "#1b83d6", "#d9621a", "#b25fae")


@dataclass(frozen=True, slots=True)
class Theme:
    """What differs between light and dark."""

    ground: str
    ink: str
    faint: str
    grid: str


LIGHT = Theme(ground="#ffffff", ink="#1c2330", faint="#566072", grid="#e3e6ec")
DARK = Theme(ground="#14181f", ink="#e8ebf0", faint="#a3adbd", grid="#2b323d")
THEMES = {"light": LIGHT, "dark": DARK}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Stroke:
    """How one line is drawn."""

    colour: str
    shape: str
    dash: tuple[int, ...]


def strokes(speculates: list[bool]) -> list[Stroke]:
    """For each line in turn: grey and dashed without speculation, else the next colour, shape and dash."""
    found, drawn = [], {True: 0, False: 0}
    for on in speculates:
        at = drawn[on]
        drawn[on] += 1
        if on:
            dash = DASHES[at // len(LINES) % len(DASHES)]
            found.append(Stroke(LINES[at % len(LINES)], SHAPES[at % len(SHAPES)], dash))
        else:
            found.append(Stroke(OFF_COLOUR, SHAPES[at % len(SHAPES)], (5, 4) if at == 0 else (2, 2 + at)))
    return found


def theme_config(theme: Theme, font: str = FONT) -> dict[str, Any]:
    """A Vega-Lite config: ground, text and grid in the theme's colours."""
    return {
        "background": theme.ground,
        "font": font,
        "view": {"stroke": None},
        "title": {"color": theme.ink, "subtitleColor": theme.faint, "anchor": "start", "fontSize": 15, "offset": 14},
        "axis": {
            "labelColor": theme.ink,
            "titleColor": theme.ink,
            "gridColor": theme.grid,
            "domainColor": theme.faint,
            "tickColor": theme.faint,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": 600,
            "titlePadding": 8,
        },
        "legend": {
            "labelColor": theme.ink,
            "titleColor": theme.ink,
            "symbolBaseFillColor": theme.ink,
            "symbolBaseStrokeColor": theme.ink,
            "labelFontSize": 12,
            "symbolSize": 90,
            "columns": 4,
        },
    }
