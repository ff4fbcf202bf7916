"""The frontier drawn in a terminal: a chart of letters and braille dots, and a strip of speedup by B and D.

plotille's canvas turns lines into braille; frame, ticks, markers and labels are set around and over it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from specdec_cli.explore.sweep import Sweep
from specdec_cli.report.heat_strip import heat_strip
from specdec_cli.report.page import columns_of, plain
from specdec_cli.report.paint import Paint, series_colour
from specdec_cli.report.series import Series, series_of
from specdec_cli.report.ticks import linear_ticks, log_ticks, short

LEAST, MOST = 60, 200
GUTTER = 7
"""Columns left of the frame for the ticks of the throughput axis."""
MOST_MARKERS = 40
"""Points of a line beyond which only those that stand clear of the others get a marker; the line shows them all."""
MARKERS = "○●■▲◆▼"
ASCII_MARKERS = "o*#^+v"
CHOSEN, ASCII_CHOSEN = "★", "@"
BLANK = "\u2800"


@dataclass(frozen=True, slots=True)
class Look:
    """How the chart is to be drawn."""

    width: int = 80
    colour: bool = False
    log: bool = False
    ascii: bool = False
    """Letters of ASCII alone, for a terminal that has no others."""


@dataclass(slots=True)
class _Plot:
    """Cells of the drawing area, top row first, and which of them a marker or a label holds."""

    columns: int
    rows: int
    letters: list[list[str]] = field(init=False)
    colours: list[list[int | None]] = field(init=False)
    taken: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.letters = [[" "] * self.columns for _ in range(self.rows)]
        self.colours = [[None] * self.columns for _ in range(self.rows)]

    def put(self, row: int, column: int, text: str, colour: int | None) -> None:
        """Write over what is there."""
        for at, letter in enumerate(text, column):
            self.letters[row][at], self.colours[row][at] = letter, colour
            self.taken.add((row, at))

    def free(self, row: int, column: int, length: int) -> bool:
        """Whether a text of that length fits without touching a marker or another label."""
        inside = 0 <= row < self.rows and column >= 0 and column + length <= self.columns
        return inside and not any((row, at) in self.taken for at in range(column - 1, column + length + 1))


@dataclass(frozen=True, slots=True)
class _Axes:
    """From interactivity and throughput to 0..1, linear or logarithmic."""

    low: tuple[float, float]
    high: tuple[float, float]
    log: bool

    def place(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both coordinates as shares of the axes."""
        u, v = (self._share(values, axis) for axis, values in enumerate((x, y)))
        return u, v

    def _share(self, values: np.ndarray, axis: int) -> np.ndarray:
        low, high = self.low[axis], self.high[axis]
        if self.log:
            return np.asarray(np.log(values / low) / math.log(high / low))
        return np.asarray((values - low) / (high - low))


def terminal_chart(sweep: Sweep, choice: int | None, look: Look) -> str:
    """The frontier chart and below it a heat strip for each drafter.

    choice: index into the sweep's points of the point to mark; None: none.
    """
    width = min(max(look.width, LEAST), MOST)
    paint = Paint(look.colour, look.ascii)
    lines = series_of(sweep)
    parts = [
        *_title(sweep, width, paint),
        *_chart(sweep, lines, choice, look, width, paint),
        *_legend(sweep, lines, choice, look, width, paint),
        *heat_strip(sweep, choice, width, paint),
    ]
    return "\n".join(part.rstrip() for part in parts) + "\n"


def _title(sweep: Sweep, width: int, paint: Paint) -> list[str]:
    scenarios = [grid.scenario for grid in sweep.grids]
    chips = ", ".join(dict.fromkeys(scenario.hardware.name for scenario in scenarios))
    first = scenarios[0]
    text = plain(f"{first.model.name} on {chips}, {first.engine.name}, {first.context:,} tokens of context")
    return [*(paint.bold(line) for line in textwrap.wrap(text, width)), "tokens/s/GPU"]


def _chart(
    sweep: Sweep, lines: Sequence[Series], choice: int | None, look: Look, width: int, paint: Paint
) -> list[str]:
    columns = width - GUTTER - 2
    rows = max(14, min(30, round(width * 0.16) + 8))
    axes = _axes(sweep, lines, choice, look.log)
    plot = _Plot(columns, rows)
    for at, line in enumerate(lines):
        _draw_line(plot, sweep, line, axes, series_colour(at))
    markers = ASCII_MARKERS if look.ascii else MARKERS
    points = sweep.points
    spots = []
    for at, line in enumerate(lines):
        u, v = axes.place(points.interactivity[line.frontier], points.throughput[line.frontier])
        crowded = len(line.frontier) > MOST_MARKERS
        for index, row, column in zip(line.frontier.tolist(), *_cells(plot, u, v), strict=True):
            if crowded and not plot.free(row, column - 1, 3):
                continue
            plot.put(row, column, markers[at % len(markers)], series_colour(at))
            spots.append((index, row, column, at))
    if choice is not None:
        u, v = axes.place(points.interactivity[[choice]], points.throughput[[choice]])
        (row,), (column,) = _cells(plot, u, v)
        plot.put(row, column, ASCII_CHOSEN if look.ascii else CHOSEN, None)
        _label(plot, row, column, f"B={points.batch[choice]} D={points.draft_length[choice]}", None)
    for index, row, column, at in spots:
        if lines[at].speculates and index != choice:
            _label(plot, row, column, str(points.draft_length[index]), series_colour(at))
    return _framed(plot, axes, paint)


def _axes(sweep: Sweep, lines: Sequence[Series], choice: int | None, log: bool) -> _Axes:
    shown = np.concatenate([line.frontier for line in lines])
    if choice is not None:
        shown = np.append(shown, choice)
    low, high = [], []
    for values in (sweep.points.interactivity[shown], sweep.points.throughput[shown]):
        smallest, largest = float(values.min()), float(values.max())
        if log:
            room = max((largest / smallest) ** 0.04, 1.05)
            low.append(smallest / room)
            high.append(largest * room)
        else:
            # From 0 where the values come near it, so that a gap looks as large as it is.
            span = largest - smallest or largest
            low.append(0.0 if smallest < 0.5 * largest else smallest - 0.08 * span)
            high.append(largest + 0.06 * span)
    return _Axes((low[0], low[1]), (high[0], high[1]), log)


def _cells(plot: _Plot, u: np.ndarray, v: np.ndarray) -> tuple[list[int], list[int]]:
    """The cell (row, column) of each share of the axes."""
    columns = np.clip((u * plot.columns).astype(int), 0, plot.columns - 1)
    rows = np.clip(plot.rows - 1 - (v * plot.rows).astype(int), 0, plot.rows - 1)
    return rows.tolist(), columns.tolist()


def _draw_line(plot: _Plot, sweep: Sweep, line: Series, axes: _Axes, colour: int | None) -> None:
    """The line as braille; where two lines share a cell the dots of both stay."""
    from plotille import Canvas

    points = sweep.points
    u, v = axes.place(points.interactivity[line.frontier], points.throughput[line.frontier])
    canvas = Canvas(plot.columns, plot.rows, 0.0, 0.0, 1.0, 1.0)
    for x0, y0, x1, y1 in zip(u[:-1].tolist(), v[:-1].tolist(), u[1:].tolist(), v[1:].tolist(), strict=True):
        canvas.line(x0, y0, x1, y1)
    for row, text in enumerate(canvas.plot("\n").split("\n")):
        for column, letter in enumerate(text):
            if letter in (" ", BLANK):
                continue
            there = plot.letters[row][column]
            both = ord(letter) | (ord(there) if there > BLANK else 0)
            plot.letters[row][column], plot.colours[row][column] = chr(both), colour


def _label(plot: _Plot, row: int, column: int, text: str, colour: int | None) -> None:
    """Beside its marker, in the first place that is free; a label that finds none is left out."""
    size = len(text)
    # Frontiers fall to the right, so that the upper right of a point is clear of its own line.
    places = [(row - 1, column + 1), (row, column + 2), (row - 1, column - size // 2), (row, column - size - 1)]
    places += [(row + 1, column - size), (row + 1, column + 1)]
    for at_row, at_column in places:
        plot.taken.discard((row, column))  # its own marker may be near
        free = plot.free(at_row, at_column, size)
        plot.taken.add((row, column))
        if free:
            plot.put(at_row, at_column, text, colour)
            return


def _framed(plot: _Plot, axes: _Axes, paint: Paint) -> list[str]:
    ticks = log_ticks if axes.log else linear_ticks
    at_row: dict[int, str] = {}
    for value in ticks(axes.low[1], axes.high[1], plot.rows // 3):
        (row,), _ = _cells(plot, np.zeros(1), axes.place(np.ones(1), np.array([value]))[1])
        at_row[row] = short(value)
    rows = []
    for row, (letters, colours) in enumerate(zip(plot.letters, plot.colours, strict=True)):
        tick = at_row.get(row, "")
        edge = paint.letter("┤" if tick else "│", "+" if tick else "|")
        rows.append(tick.rjust(GUTTER) + " " + edge + paint.cells(letters, colours))
    return [*rows, *_x_axis(plot, axes, paint)]


def _x_axis(plot: _Plot, axes: _Axes, paint: Paint) -> list[str]:
    ticks = log_ticks if axes.log else linear_ticks
    rule = [paint.letter("─", "-")] * plot.columns
    labels = [" "] * plot.columns
    end = -1
    for value in ticks(axes.low[0], axes.high[0], plot.columns // 10):
        _, (column,) = _cells(plot, axes.place(np.array([value]), np.ones(1))[0], np.zeros(1))
        text = short(value)
        start = min(max(column - len(text) // 2, 0), plot.columns - len(text))
        if start <= end:
            continue
        rule[column] = paint.letter("┴", "+")
        labels[start : start + len(text)] = text
        end = start + len(text)
    name = "tokens/s/user" + (", both axes logarithmic" if axes.log else "")
    lead = " " * (GUTTER + 1)
    return [
        lead + paint.letter("└", "+") + "".join(rule),
        lead + " " + "".join(labels),
        lead + " " + name.rjust(plot.columns),
    ]


def _legend(
    sweep: Sweep, lines: Sequence[Series], choice: int | None, look: Look, width: int, paint: Paint
) -> list[str]:
    markers = ASCII_MARKERS if look.ascii else MARKERS
    entries = []
    for at, line in enumerate(lines):
        text = f"{markers[at % len(markers)]} {plain(line.name)}"
        entries.append((paint.text(text, series_colour(at)), columns_of(text)))
    if any(line.speculates for line in lines):
        said = "beside a point: its D"
        entries.append((said, len(said)))
    if choice is not None:
        points = sweep.points
        text = f"{ASCII_CHOSEN if look.ascii else CHOSEN} chosen: "
        text += f"batch {points.batch[choice]}, D = {points.draft_length[choice]}"
        text += f", {points.speedup[choice]:.2f}x" if points.draft_length[choice] else " (off)"
        entries.append((paint.bold(text), len(text)))
    rows, used = [""], 0
    for text, size in entries:
        if used and used + 3 + size > width:
            rows.append("")
            used = 0
        rows[-1] += ("   " if used else "") + text
        used += size + (3 if used else 0)
    return rows
