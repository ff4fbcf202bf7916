"""Speedup by draft length and batch as rows of numbers, with the ridge where it falls below 1."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import numpy as np

from specdec_cli.explore.grid import Grid
from specdec_cli.explore.sweep import Sweep
from specdec_cli.report.page import plain
from specdec_cli.report.paint import Paint
from specdec_cli.report.series import series_of
from specdec_cli.report.ticks import evenly

MOST_STRIPS = 6
MOST_ROWS = 16
CELL = 6
HEAD = 5
# Grounds of the 256-colour table from slow to fast, with a foreground each; orange and blue, not red and green.
BELOW = ((0.8, 166, 231), (1.0, 180, 16))
ABOVE = ((1.25, 153, 16), (1.75, 75, 16), (2.5, 32, 231), (float("inf"), 25, 231))


def heat_strip(sweep: Sweep, choice: int | None, width: int, paint: Paint) -> list[str]:
    """A strip for each scenario that drafts, with a legend; empty where none does.

    Columns are batches and rows draft lengths; where there are more than fit, some are left out and counted.
    """
    names = {line.points[0]: line.name for line in series_of(sweep) if line.speculates}
    strips = []
    for index, grid in enumerate(sweep.grids):
        mine = np.flatnonzero((sweep.points.scenario == index) & (sweep.points.draft_length > 0))
        if len(mine):
            here = choice is not None and sweep.points.scenario[choice] == index
            strips.append((names[mine[0]], grid, choice if here else None))
    if not strips:
        return []
    out = []
    for name, grid, marked in strips[:MOST_STRIPS]:
        title = plain(f"speedup over no speculation, {name}: D down, batch across")
        out += ["", *(paint.bold(line) for line in textwrap.wrap(title, width))]
        out += _strip(sweep, grid, marked, width, paint)
    if len(strips) > MOST_STRIPS:
        out += ["", f"{len(strips) - MOST_STRIPS} more lines not shown; -o FILE.html has them"]
    edge = paint.letter("┃", "|")
    marks = [
        "* best D of a batch",
        f"{edge} falls below 1",
        ". not feasible",
        *(["[chosen]"] if choice is not None else []),
    ]
    said = "   ".join(marks)
    return [*out, "", *([said] if len(said) <= width else ["   ".join(marks[:2]), "   ".join(marks[2:])])]


def _strip(sweep: Sweep, grid: Grid, choice: int | None, width: int, paint: Paint) -> list[str]:
    drafting = [at for at, length in enumerate(grid.draft_lengths.tolist()) if length > 0]
    batches = list(grid.scenario.batches)
    column = row = None
    if choice is not None and sweep.points.draft_length[choice] > 0:
        column = batches.index(int(sweep.points.batch[choice]))
        row = int(sweep.points.column[choice])
    shown_batches = evenly(range(len(batches)), (width - HEAD) // (CELL + 1), keep=column)
    shown_lengths = evenly(drafting, MOST_ROWS, keep=row)
    speedup = np.where(grid.usable, grid.speedup, np.nan)
    lines = [" " * HEAD + "".join(f"{batches[at]:>{CELL}} " for at in shown_batches)]
    fastest = _best(speedup, drafting)
    for length_at in shown_lengths:
        values = [float(speedup[batch_at, length_at]) for batch_at in shown_batches]
        best = [fastest[batch_at] == length_at for batch_at in shown_batches]
        marked = [batch_at == column and length_at == row for batch_at in shown_batches]
        label = f"D={grid.draft_lengths[length_at]}"
        lines.append(label.ljust(HEAD - 1) + _row(values, best, marked, paint))
    left_out = [
        f"{total - kept} of {total} {word} not shown"
        for word, total, kept in (
            ("batches", len(batches), len(shown_batches)),
            ("draft lengths", len(drafting), len(shown_lengths)),
        )
        if total > kept
    ]
    return lines + ([f"{'; '.join(left_out)}"] if left_out else [])


def _best(speedup: np.ndarray, drafting: Sequence[int]) -> list[int | None]:
    """For each batch the column of the fastest draft length; None where off is faster or nothing is feasible."""
    found: list[int | None] = []
    for values in speedup[:, list(drafting)]:
        known = np.flatnonzero(~np.isnan(values))
        top = int(known[np.argmax(values[known])]) if len(known) else None
        found.append(drafting[top] if top is not None and values[top] > 1.0 else None)
    return found


def _row(values: Sequence[float], best: Sequence[bool], marked: Sequence[bool], paint: Paint) -> str:
    """Cells of one draft length; a bar stands between two of which one is below 1."""
    edge, out, above = paint.letter("┃", "|"), [], True
    for value, top, chosen in zip(values, best, marked, strict=True):
        if np.isnan(value):
            out.append(" " + ".".rjust(CELL - 1) + " ")
            continue
        crosses = (value >= 1.0) != above
        above = value >= 1.0
        shown = math.floor(value * 100) / 100 if value < 1.0 else value  # a loss is not rounded away
        text = f"{shown:.2f}{'*' if top else ''}"
        text = f"[{text}]" if chosen else text + ("" if top else " ")
        background, foreground = _ground(value)
        out.append((edge if crosses else " ") + paint.shade(text.rjust(CELL), background, foreground))
    return "".join(out)


def _ground(value: float) -> tuple[int, int]:
    for limit, background, foreground in BELOW + ABOVE:
        if value < limit:
            return background, foreground
    raise AssertionError("the last limit is infinite")
