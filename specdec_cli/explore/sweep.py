"""The (B, D) grid of every scenario, as columns, with its frontiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from specdec_cli.errors import InfeasibleError
from specdec_cli.explore.frontier import Uplift, pareto_mask, round_levels, uplift_at
from specdec_cli.explore.grid import Estimates, Grid, banded_speedup, estimates_of, evaluate
from specdec_cli.explore.refusals import Refusals, nothing_fits
from specdec_cli.explore.scenario import Note, Question, Scenario
from specdec_cli.explore.shapes import shape_notes
from specdec_cli.physics.roofline import Floats


class Points(msgspec.Struct, frozen=True):
    """Every feasible point of every scenario, as columns of one length: under 200 bytes a point with its grid."""

    scenario: NDArray[np.int32]
    """Index into the sweep's grids."""
    batch: NDArray[np.int64]
    draft_length: NDArray[np.int32]
    verify_width: NDArray[np.int32]
    column: NDArray[np.int32]
    """Index of the draft length within its grid."""
    acceptance_length: Floats
    target_s: Floats
    verify_s: Floats
    draft_s: Floats
    speedup_low: Floats
    speedup_high: Floats
    interactivity: Floats
    throughput: Floats
    bound: NDArray[np.int8]
    """Places in `physics.step.BOUNDS`."""
    serving_tpot_s: Floats | None
    """These four: None where no prompt lengths were given."""
    decode_batch: Floats | None
    serving_speedup: Floats | None
    serving_throughput: Floats | None
    on_frontier: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def speedup(self) -> Floats:
        """AL T_target / (T_verify + T_draft)."""
        return self.acceptance_length * self.target_s / (self.verify_s + self.draft_s)

    @property
    def user_speed(self) -> Floats:
        """Tokens/s that a user gets: with prefill between the steps where prompts were given, else decoding alone."""
        return self.interactivity if self.serving_tpot_s is None else 1.0 / self.serving_tpot_s

    @property
    def gpu_output(self) -> Floats:
        """Tokens/s that a GPU gives, likewise."""
        return self.throughput if self.serving_throughput is None else self.serving_throughput

    @property
    def gain(self) -> Floats:
        """The speedup of the user's speed, likewise."""
        return self.speedup if self.serving_speedup is None else self.serving_speedup


class Sweep(msgspec.Struct, frozen=True):
    """The answer of `specdec sweep`."""

    question: Question
    grids: tuple[Grid, ...]
    points: Points
    frontier: NDArray[np.int64]
    """Indices into points, by rising interactivity."""
    baseline_frontier: NDArray[np.int64]
    """The frontier of the points without speculation."""
    infeasible: Refusals
    notes: tuple[Note, ...]

    def uplift(self) -> list[Uplift]:
        """Throughput with and without speculation at equal, round interactivity."""
        points = self.points
        if not len(self.baseline_frontier) or not (points.draft_length > 0).any():
            return []
        x, y = points.interactivity, points.throughput
        slowest = float(x[self.baseline_frontier].min())
        fastest = float(min(x[self.frontier].max(), x[self.baseline_frontier].max()))
        if slowest > fastest:
            return []
        levels = round_levels(slowest, fastest)
        with_speculation = (x[self.frontier], y[self.frontier])
        return uplift_at(with_speculation, (x[self.baseline_frontier], y[self.baseline_frontier]), levels)


def run_sweep(question: Question) -> Sweep:
    """Evaluate every scenario and find the frontiers.

    Raises:
        InfeasibleError: not one point is feasible.
    """
    grids = _grids(question.scenarios)
    kept = _kept_columns(grids)
    points = _points(grids, kept)
    infeasible = Refusals(grids, kept)
    if not len(points):
        raise InfeasibleError(nothing_fits(infeasible))
    frontier = np.flatnonzero(points.on_frontier)
    plain = np.flatnonzero(points.draft_length == 0)
    baseline = plain[pareto_mask(points.interactivity[plain], points.throughput[plain])]
    return Sweep(
        question=question,
        grids=grids,
        points=points,
        frontier=frontier[np.lexsort((frontier, points.interactivity[frontier]))],
        baseline_frontier=baseline[np.lexsort((baseline, points.interactivity[baseline]))],
        infeasible=infeasible,
        notes=question.notes + _point_notes(grids),
    )


def _grids(scenarios: Sequence[Scenario]) -> tuple[Grid, ...]:
    """Every scenario evaluated; a drafter's acceptance is looked up once for all chips and layouts."""
    looked_up: dict[tuple[object, ...], Estimates] = {}
    grids = []
    for one in scenarios:
        drafter = one.drafter_name
        key = (drafter, id(one.acceptance), one.draft_lengths, one.beyond_window, one.past_block)
        if key not in looked_up:
            looked_up[key] = estimates_of(one)
        grids.append(evaluate(one, looked_up[key]))
    return tuple(grids)


def _kept_columns(grids: Sequence[Grid]) -> list[NDArray[np.bool_]]:
    """Columns of each grid that are listed: D = 0 is the same with every drafter, so it is listed once a layout."""
    seen: set[tuple[str, object]] = set()
    kept = []
    for grid in grids:
        key = (grid.scenario.hardware.name, grid.scenario.layout)
        kept.append((grid.draft_lengths > 0) | (key not in seen))
        if 0 in grid.draft_lengths:
            seen.add(key)
    return kept


SERVING_COLUMNS = ("serving_tpot_s", "decode_batch", "serving_speedup", "serving_throughput")


def _points(grids: Sequence[Grid], kept: Sequence[NDArray[np.bool_]]) -> Points:
    listed = [np.flatnonzero(grid.usable & columns) for grid, columns in zip(grids, kept, strict=True)]
    parts = [_columns(grid, index, places) for index, (grid, places) in enumerate(zip(grids, listed, strict=True))]
    columns: dict[str, Any] = dict.fromkeys(SERVING_COLUMNS)
    columns |= {name: np.concatenate([part.pop(name) for part in parts]) for name in tuple(parts[0])}
    return Points(**columns, on_frontier=pareto_mask(columns["interactivity"], columns["throughput"]))


def _columns(grid: Grid, index: int, places: NDArray[np.intp]) -> dict[str, np.ndarray]:
    """The points of a grid at these places, counted row by row."""
    scenario, times = grid.scenario, grid.times
    rows = places // len(grid.draft_lengths)
    column = places - rows * len(grid.draft_lengths)
    batch, draft_length = np.asarray(scenario.batches)[rows], grid.draft_lengths[column]
    accepted = grid.acceptance_length[column]
    target_s, verify_s, draft_s = (np.take(one, places) for one in (times.target_s, times.verify_s, times.draft_s))
    step_s = verify_s + draft_s
    rho = step_s / target_s
    half_width = np.take(grid.half_width, places)
    interactivity = accepted / step_s
    found = {
        "scenario": np.full(len(places), index, dtype=np.int32),
        "batch": batch,
        "draft_length": draft_length.astype(np.int32),
        "verify_width": grid.verify_width[column].astype(np.int32),
        "column": column.astype(np.int32),
        "acceptance_length": accepted,
        "target_s": target_s,
        "verify_s": verify_s,
        "draft_s": draft_s,
        "speedup_low": banded_speedup(grid.acceptance_low[column], rho, half_width, draft_length),
        "speedup_high": banded_speedup(grid.acceptance_high[column], rho, -half_width, draft_length),
        "interactivity": interactivity,
        "throughput": batch * interactivity / scenario.layout.gpus,
        "bound": np.take(grid.bound, places),
    }
    if grid.serving is not None:
        serving = grid.serving
        figures = (serving.tpot_s, serving.decode_batch, serving.speedup, serving.throughput)
        found |= {name: np.take(one, places) for name, one in zip(SERVING_COLUMNS, figures, strict=True)}
    return found


def _point_notes(grids: Sequence[Grid]) -> tuple[Note, ...]:
    notes = []
    for grid in grids:
        notes += shape_notes(grid.scenario)
        lengths = [int(d) for d, basis in zip(grid.draft_lengths, grid.basis, strict=True) if basis == "extrapolated"]
        if lengths:
            notes.append(
                Note(
                    "acceptance_extrapolated",
                    f"{grid.scenario.drafter_name}: acceptance at D = {lengths[0]}"
                    + (f" to {lengths[-1]}" if len(lengths) > 1 else "")
                    + " is extrapolated, never recommended by default; measure it, or shorten --draft-lengths",
                )
            )
    return tuple(dict.fromkeys(notes))
