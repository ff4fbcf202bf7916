"""What a picture shows, as plain rows: the points of the one record, their lines, their step taken apart.

Large sweeps are thinned for drawing: every point of a frontier stays, the rest is a grid of batches and draft lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdec_cli.explore.grid import Grid
from specdec_cli.explore.refusals import why_not
from specdec_cli.explore.sweep import Sweep
from specdec_cli.physics.roofline import Floats
from specdec_cli.report.points import point_records
from specdec_cli.report.series import Series, layout_name, series_of
from specdec_cli.report.ticks import evenly
from specdec_cli.units import MS

Record = dict[str, Any]

MOST_BATCHES, MOST_LENGTHS = 40, 32
"""Of the grid of one scenario."""
MOST_CELLS = 2000
"""Cells of all grids together."""
MOST_OTHERS = 1500
"""Points off the frontiers and off the grids."""
MOST_ON_LINES = 7000
"""Points of frontiers; a file of 3 MB holds no more."""
LABEL_GAP = 0.03
"""Least distance of two labels of a line, as a share of the axes."""
NOTE_WIDTH, NOTE_HEIGHT = 0.17, 0.07
"""What the words beside the chosen point take, to its left and below: no label stands there."""
STEP_PARTS = {
    "target_kernels_ms": "target pass",
    "verify_adds_ms": "verifying adds",
    "draft_kernels_ms": "drafting",
    "overheads_ms": "engine overheads",
}


@dataclass(frozen=True, slots=True)
class ChartData:
    """Everything that the charts of one sweep are drawn from."""

    title: str
    subtitle: str
    series: tuple[Series, ...]
    points: list[Record]
    """Points as the record has them, with `id`, `series`, `layout`, `on_line`, `on_grid`, `label`, `chosen`, the parts
    of the step in ms, and `ridge_right`, `ridge_up`: whether speedup crosses 1 towards the next batch or D shown."""
    refused: list[Record]
    """Cells of the grids that cannot be, with the reason."""
    acceptance: list[Record]
    """AL by draft length for each drafter, with its band and basis."""
    left_out: str | None
    """What was thinned; None: nothing."""
    first_series: str | None
    """The line that the heat map and the step show first; None: nothing drafts."""
    first_batch: int
    chosen: Record | None

    @property
    def drafting(self) -> list[Series]:
        """The lines that speculate."""
        return [line for line in self.series if line.speculates]


def chart_data(sweep: Sweep, choice: int | None) -> ChartData:
    """Rows for the charts of a sweep. choice: index of the point to mark; None: none."""
    lines = series_of(sweep)
    cells = _cells(sweep, choice)
    on_lines, lines_thinned = _on_lines(lines, sweep, choice)
    on_grid = _grid_points(sweep, cells)
    others = np.setdiff1d(np.arange(len(sweep.points)), np.union1d(on_lines, on_grid))
    if len(others) > MOST_OTHERS:
        others = others[np.linspace(0, len(others) - 1, MOST_OTHERS).astype(int)]
    kept = np.union1d(np.union1d(on_lines, on_grid), others)
    points = _point_rows(sweep, lines, kept, set(on_lines.tolist()), set(on_grid.tolist()), cells, choice)
    chosen = next((row for row in points if row["chosen"]), None)
    drafting = [line for line in lines if line.speculates]
    first = chosen["series"] if chosen is not None and chosen["draft_length"] else None
    batches = sorted({row["batch"] for row in points if row["on_grid"]})
    return ChartData(
        title=_title(sweep),
        subtitle=_subtitle(sweep),
        series=tuple(lines),
        points=points,
        refused=_refused(sweep, lines, cells),
        acceptance=_acceptance(sweep, lines),
        left_out=_left_out(len(kept), len(sweep.points), lines_thinned),
        first_series=first or (drafting[0].name if drafting else None),
        first_batch=chosen["batch"] if chosen is not None else batches[len(batches) // 2],
        chosen=chosen,
    )


def _title(sweep: Sweep) -> str:
    scenarios = [grid.scenario for grid in sweep.grids]
    layouts = list(dict.fromkeys(map(layout_name, scenarios)))
    where = layouts[0] if len(layouts) == 1 else ", ".join(dict.fromkeys(s.hardware.name for s in scenarios))
    return f"{scenarios[0].model.name} on {where}, {scenarios[0].engine.name}"


def _subtitle(sweep: Sweep) -> str:
    scenarios = [grid.scenario for grid in sweep.grids]
    drafters = dict.fromkeys(s.drafter_name for s in scenarios if s.drafter is not None)
    return f"{scenarios[0].context:,} tokens of context; {', '.join(drafters) or 'no drafter'}"


def _cells(sweep: Sweep, choice: int | None) -> list[tuple[list[int], list[int]]]:
    """For each scenario the rows (batches) and columns (draft lengths) of its grid that are drawn."""
    share = MOST_CELLS // len(sweep.grids)
    found = []
    for index, grid in enumerate(sweep.grids):
        batches, lengths = grid.scenario.batches, grid.draft_lengths
        row = column = None
        if choice is not None and sweep.points.scenario[choice] == index:
            row, column = batches.index(int(sweep.points.batch[choice])), int(sweep.points.column[choice])
        columns = evenly(range(len(lengths)), min(MOST_LENGTHS, share), keep=column)
        rows = evenly(range(len(batches)), max(1, min(MOST_BATCHES, share // len(columns))), keep=row)
        found.append((rows, columns))
    return found


def _on_lines(lines: Sequence[Series], sweep: Sweep, choice: int | None) -> tuple[NDArray[np.int64], bool]:
    """Points of every line's frontier, of the sweep's own frontiers, and the choice; whether some were left out."""
    mine = [line.frontier for line in lines]
    total = sum(map(len, mine))
    if total > MOST_ON_LINES:
        mine = [line[evenly(range(len(line)), max(2, MOST_ON_LINES * len(line) // total))] for line in mine]
    found = np.unique(np.concatenate([*mine, [] if choice is None else [choice]]).astype(np.int64))
    return found, total > MOST_ON_LINES


def _grid_points(sweep: Sweep, cells: Sequence[tuple[list[int], list[int]]]) -> NDArray[np.int64]:
    points = sweep.points
    chosen = np.zeros(len(points), dtype=bool)
    for index, (rows, columns) in enumerate(cells):
        batches = np.asarray(sweep.grids[index].scenario.batches)[rows]
        chosen |= (points.scenario == index) & np.isin(points.batch, batches) & np.isin(points.column, columns)
    return np.flatnonzero(chosen)


def _point_rows(
    sweep: Sweep,
    lines: Sequence[Series],
    kept: NDArray[np.int64],
    on_lines: set[int],
    on_grid: set[int],
    cells: Sequence[tuple[list[int], list[int]]],
    choice: int | None,
) -> list[Record]:
    line_of = {int(index): line for line in lines for index in line.points}
    labelled = {index for line in lines if line.speculates for index in _labelled(sweep, line, on_lines, choice)}
    parts = [_parts(grid) for grid in sweep.grids]
    ridges = [_ridge(grid, *cells[index]) for index, grid in enumerate(sweep.grids)]
    frontier = {int(index) for line in lines for index in line.frontier}
    places = [{batch: at for at, batch in enumerate(grid.scenario.batches)} for grid in sweep.grids]
    rows = []
    for place, (index, record) in enumerate(zip(kept.tolist(), point_records(sweep, kept.tolist()), strict=True)):
        grid_at, column = int(sweep.points.scenario[index]), int(sweep.points.column[index])
        row_at = places[grid_at][record["batch"]]
        line = line_of[index]
        right, up = ridges[grid_at].get((row_at, column), (False, False))
        rows.append(
            {
                **record,
                "id": place,
                "series": line.name,
                "layout": line.layout,
                "on_line": index in frontier and index in on_lines,
                "on_grid": index in on_grid,
                "label": str(record["draft_length"]) if index in labelled else "",
                "chosen": index == choice,
                **{name: float(values[row_at, column]) / MS for name, values in parts[grid_at].items()},
                "ms_per_token": record["step_ms"] / record["acceptance_length"],
                "ridge_right": right,
                "ridge_up": up,
            }
        )
    return rows


def _labelled(sweep: Sweep, line: Series, on_lines: set[int], choice: int | None) -> list[int]:
    """Points of a line that are far enough apart for their D to be read."""
    points = sweep.points
    width, height = float(points.interactivity.max()), float(points.throughput.max())

    def place(index: int) -> tuple[float, float]:
        return float(points.interactivity[index]) / width, float(points.throughput[index]) / height

    note = place(choice) if choice is not None else (-1.0, -1.0)
    found: list[int] = []
    last = (-1.0, -1.0)
    for index in line.frontier.tolist():
        here = place(index)
        covered = 0 < note[0] - here[0] < NOTE_WIDTH and 0 <= note[1] - here[1] < NOTE_HEIGHT
        apart = max(abs(here[0] - last[0]), abs(here[1] - last[1])) >= LABEL_GAP
        if index in on_lines and apart and not covered:
            found.append(index)
            last = here
    return found


def _parts(grid: Grid) -> dict[str, Floats]:
    """The step in four parts that add up to it, s, each (batches, draft lengths).

    Kernels of a plain target pass; what W instead of 1 token a request adds to them; kernels of drafting; the engine's
    host time of the step, of entering speculation and of its draft passes. Where measured steps correct the computed
    ones, a host time counts up to what the pass that it belongs to took.
    """
    step, times = grid.scenario.step, grid.times
    lengths = grid.draft_lengths[None, :].astype(np.float64)
    widths = grid.verify_width[None, :].astype(np.float64)
    adds = times.verify_s - times.target_s
    host = np.minimum(step.host_s(grid.batches), times.target_s)
    fee = np.minimum(step.entry_fee_s(lengths, widths), adds)
    draft_host = np.where(lengths > 0, step.draft_host_s(lengths, widths, times.target_s), 0.0)
    draft_host = np.minimum(draft_host, times.draft_s)
    return {
        "target_kernels_ms": times.target_s - host,
        "verify_adds_ms": adds - fee,
        "draft_kernels_ms": times.draft_s - draft_host,
        "overheads_ms": host + fee + draft_host,
    }


def _ridge(grid: Grid, rows: Sequence[int], columns: Sequence[int]) -> dict[tuple[int, int], tuple[bool, bool]]:
    """Which cells of the drawn grid have the ridge on their right (next batch) or above them (next draft length)."""
    drafting = [column for column in columns if grid.draft_lengths[column] > 0]
    gains = grid.speedup >= 1.0

    def crosses(here: tuple[int, int], there: tuple[int, int]) -> bool:
        return bool(grid.usable[here] and grid.usable[there] and gains[here] != gains[there])

    found: dict[tuple[int, int], tuple[bool, bool]] = {}
    for i, row in enumerate(rows):
        for j, column in enumerate(drafting):
            right = i + 1 < len(rows) and crosses((row, column), (rows[i + 1], column))
            up = j + 1 < len(drafting) and crosses((row, column), (row, drafting[j + 1]))
            found[row, column] = (right, up)
    return found


def _refused(sweep: Sweep, lines: Sequence[Series], cells: Sequence[tuple[list[int], list[int]]]) -> list[Record]:
    """Cells without a point, of draft lengths that have points at some batch."""
    names = {int(sweep.points.scenario[line.points[0]]): line.name for line in lines if line.speculates}
    found = []
    for index, (rows, columns) in enumerate(cells):
        grid = sweep.grids[index]
        if index not in names:
            continue
        drawn = [column for column in columns if grid.draft_lengths[column] and grid.usable[:, column].any()]
        for row in rows:
            for column in drawn:
                length = int(grid.draft_lengths[column])
                if not grid.usable[row, column]:
                    reason, detail = why_not(grid, row, column)
                    found.append(
                        {
                            "series": names[index],
                            "batch": grid.scenario.batches[row],
                            "draft_length": length,
                            "reason": reason,
                            "detail": detail,
                        }
                    )
    return found


def _acceptance(sweep: Sweep, lines: Sequence[Series]) -> list[Record]:
    """A row for each draft length of each line; `joins`: the last known point, from which an extrapolation starts."""
    names = {int(sweep.points.scenario[line.points[0]]): line.name for line in lines if line.speculates}
    found: list[Record] = []
    for index, grid in enumerate(sweep.grids):
        if index not in names:
            continue
        known = [at for at in range(len(grid.basis)) if grid.usable[:, at].any() and grid.draft_lengths[at] > 0]
        trusted = [at for at in known if grid.basis[at] != "extrapolated"]
        for at in known:
            found.append(
                {
                    "series": names[index],
                    "draft_length": int(grid.draft_lengths[at]),
                    "acceptance_length": float(grid.acceptance_length[at]),
                    "low": float(grid.acceptance_low[at]),
                    "high": float(grid.acceptance_high[at]),
                    "acceptance_basis": grid.basis[at],
                    "known": grid.basis[at] != "extrapolated",
                    "joins": bool(trusted) and at == trusted[-1],
                    "id": len(found),
                }
            )
    return found


def _left_out(kept: int, total: int, lines_thinned: bool) -> str | None:
    if kept == total and not lines_thinned:
        return None
    said = f"{kept:,} of {total:,} points are drawn: "
    if lines_thinned:
        return said + "the frontiers themselves hold too many for one page and are thinned evenly, their ends kept"
    return said + "every point of the frontiers, and an even selection of the others"
