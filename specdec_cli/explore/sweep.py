"""The (B, D) grid of every scenario, as columns, with its frontiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from specdec_cli.errors import InfeasibleError
from specdec_cli.explore.frontier import Uplift, pareto_mask, round_levels, uplift_at
from specdec_cli.explore.scenario import Note, Question, Scenario
from specdec_cli.explore.shapes import shape_notes
from specdec_cli.physics.drafting import longest_draft
from specdec_cli.physics.roofline import Floats
from specdec_cli.physics.serving import ServingTimes, serving_step_model, serving_times
from specdec_cli.physics.step import StepTimes, bound
from specdec_cli.units import GIGA

Reason = Literal["out_of_memory", "beyond_draft_window", "not_measured", "below_limit"]
BASES = ("measured", "interpolated", "extrapolated", "assumed")


class ServingGrid(msgspec.Struct, frozen=True):
    """A replica that prefills and decodes, at `batch` requests in flight; arrays of shape (batches, draft lengths)."""

    tpot_s: Floats
    decode_batch: Floats
    speedup: Floats
    """TPOT without speculation over TPOT with it, at equal concurrency."""
    throughput: Floats
    """Output tokens/s/GPU."""


class Grid(msgspec.Struct, frozen=True):
    """One scenario evaluated: arrays of shape (batches, draft lengths), s."""

    scenario: Scenario
    times: StepTimes
    acceptance_length: Floats
    """(draft lengths,), with its band."""
    verify_width: NDArray[np.int64]
    """(draft lengths,), W: 1 + D for a chain, the verified nodes of a tree."""
    acceptance_low: Floats
    acceptance_high: Floats
    basis: tuple[str, ...]
    bound: NDArray[np.str_]
    fits: NDArray[np.bool_]
    """Whether the point's memory fits."""
    serving: ServingGrid | None
    """The same points with prefill between the steps; None where no prompt lengths were given."""
    usable: NDArray[np.bool_]
    """Whether the point can be recommended or drawn at all: fits, and its acceptance is known."""

    @property
    def batches(self) -> Floats:
        """(batches, 1)."""
        return np.asarray(self.scenario.batches, dtype=np.float64)[:, None]

    @property
    def draft_lengths(self) -> NDArray[np.int64]:
        """(draft lengths,)."""
        return np.asarray(self.scenario.draft_lengths, dtype=np.int64)

    @property
    def speedup(self) -> Floats:
        """AL T_target / (T_verify + T_draft)."""
        return self.acceptance_length * self.times.target_s / self.times.step_s

    @property
    def speedup_low(self) -> Floats:
        """The slow end of the band; exactly 1 where D = 0."""
        return self._banded(self.acceptance_low, 1.0 + self._half_width)

    @property
    def speedup_high(self) -> Floats:
        """The fast end of the band."""
        return self._banded(self.acceptance_high, 1.0 - self._half_width)

    @property
    def _half_width(self) -> Floats:
        return self.scenario.band.over(self.batches, self.draft_lengths[None, :].astype(np.float64))

    def _banded(self, lengths: Floats, factor: Floats) -> Floats:
        rho = self.times.step_s / self.times.target_s
        return lengths / np.where(self.draft_lengths > 0, rho * factor, 1.0)

    @property
    def interactivity(self) -> Floats:
        """Tokens/s/user."""
        return self.acceptance_length / self.times.step_s

    @property
    def user_speed(self) -> Floats:
        """Tokens/s/user, with prefill between the steps where prompts were given."""
        return self.interactivity if self.serving is None else 1.0 / self.serving.tpot_s

    @property
    def throughput(self) -> Floats:
        """Tokens/s/GPU."""
        return self.batches * self.interactivity / self.scenario.layout.gpus


class Infeasible(msgspec.Struct, frozen=True):
    """A point that cannot be, and why."""

    scenario: Scenario
    batch: int
    draft_length: int
    reason: Reason
    detail: str


class Points(msgspec.Struct, frozen=True):
    """Every feasible point of every scenario, as columns of one length."""

    scenario: NDArray[np.int32]
    """Index into the sweep's grids."""
    batch: NDArray[np.int64]
    draft_length: NDArray[np.int64]
    verify_width: NDArray[np.int64]
    column: NDArray[np.int32]
    """Index of the draft length within its grid."""
    acceptance_length: Floats
    target_s: Floats
    verify_s: Floats
    draft_s: Floats
    speedup: Floats
    speedup_low: Floats
    speedup_high: Floats
    interactivity: Floats
    throughput: Floats
    bound: NDArray[np.str_]
    serving_tpot_s: Floats | None
    """These four: None where no prompt lengths were given."""
    decode_batch: Floats | None
    serving_speedup: Floats | None
    serving_throughput: Floats | None
    on_frontier: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.batch)

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
    infeasible: tuple[Infeasible, ...]
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


def evaluate(scenario: Scenario) -> Grid:
    """Times, acceptance and feasibility of a scenario's grid."""
    batches = np.asarray(scenario.batches, dtype=np.float64)[:, None]
    lengths = np.asarray(scenario.draft_lengths, dtype=np.float64)[None, :]
    known = np.ones(lengths.shape[1], dtype=bool)
    if scenario.drafter is not None:
        limit = None if scenario.past_block else longest_draft(scenario.drafter)
        known &= lengths[0] <= (limit if limit is not None else np.inf)
        if scenario.beyond_window or scenario.acceptance is None:
            known &= lengths[0] == 0
    estimates = [
        scenario.acceptance.estimate(int(d)) if scenario.acceptance is not None and ok else None
        for d, ok in zip(lengths[0], known, strict=True)
    ]
    known &= np.array([e is not None for e in estimates]) | (lengths[0] == 0)
    expected = np.array([e.acceptance_length if e else 1.0 for e in estimates])
    widths = np.array([e.verify_width if e else d + 1 for e, d in zip(estimates, scenario.draft_lengths, strict=True)])
    context = np.asarray(float(scenario.context))
    times = scenario.step.times(batches, lengths, widths[None, :].astype(np.float64), expected[None, :], context)
    ranks = np.ceil(batches / scenario.layout.ranks)
    held = np.where(lengths > 0, widths[None, :] - 1.0, 0.0)  # a recurrent state may be kept for each drafted node
    fits = scenario.memory.needed(ranks, held) <= scenario.memory.usable
    return Grid(
        scenario=scenario,
        times=times,
        acceptance_length=expected,
        verify_width=widths,
        acceptance_low=np.array([e.low if e else 1.0 for e in estimates]),
        acceptance_high=np.array([e.high if e else 1.0 for e in estimates]),
        basis=tuple(e.basis if e else "measured" for e in estimates),
        bound=bound(times),
        fits=fits,
        serving=_serving(scenario, batches, lengths, widths[None, :].astype(np.float64), expected[None, :]),
        usable=fits & known[None, :],
    )


def _serving(
    scenario: Scenario, concurrency: Floats, draft_lengths: Floats, widths: Floats, lengths: Floats
) -> ServingGrid | None:
    workload = scenario.workload
    if workload is None:
        return None
    step, prefill = serving_step_model(scenario.step), scenario.engine.prefill

    def under_load(draft_lengths: Floats, widths: Floats, lengths: Floats) -> ServingTimes:
        return serving_times(step, scenario.memory, workload, concurrency, draft_lengths, widths, lengths, prefill)

    found = under_load(draft_lengths, widths, lengths)
    one = np.ones((1, 1))
    plain = under_load(np.zeros((1, 1)), one, one)
    return ServingGrid(
        tpot_s=found.tpot_s,
        decode_batch=found.decode_batch,
        speedup=plain.tpot_s / found.tpot_s,
        throughput=found.decode_batch / found.tpot_s / scenario.layout.gpus,
    )


def run_sweep(question: Question) -> Sweep:
    """Evaluate every scenario and find the frontiers.

    Raises:
        InfeasibleError: not one point is feasible.
    """
    grids = tuple(evaluate(scenario) for scenario in question.scenarios)
    kept = _kept_columns(grids)
    points = _points(grids, kept)
    infeasible = tuple(entry for grid, columns in zip(grids, kept, strict=True) for entry in _infeasible(grid, columns))
    if not len(points):
        raise InfeasibleError(_nothing_fits(infeasible))
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


def _kept_columns(grids: Sequence[Grid]) -> list[NDArray[np.int64]]:
    """Columns of each grid that are listed: D = 0 is the same with every drafter, so it is listed once a layout."""
    seen: set[tuple[str, object]] = set()
    kept = []
    for grid in grids:
        key = (grid.scenario.hardware.name, grid.scenario.layout)
        columns = np.arange(len(grid.draft_lengths))
        if key in seen:
            columns = columns[grid.draft_lengths > 0]
        elif 0 in grid.draft_lengths:
            seen.add(key)
        kept.append(columns)
    return kept


def _points(grids: Sequence[Grid], kept: Sequence[NDArray[np.int64]]) -> Points:
    parts: list[dict[str, np.ndarray]] = []
    for index, (grid, columns) in enumerate(zip(grids, kept, strict=True)):
        usable = grid.usable[:, columns]
        rows, picked = np.nonzero(usable)
        where = (rows, columns[picked])
        parts.append(
            {
                "scenario": np.full(len(rows), index, dtype=np.int32),
                "batch": grid.batches[rows, 0].astype(np.int64),
                "draft_length": grid.draft_lengths[where[1]],
                "verify_width": grid.verify_width[where[1]],
                "column": where[1].astype(np.int32),
                "acceptance_length": grid.acceptance_length[where[1]],
                "target_s": grid.times.target_s[where],
                "verify_s": grid.times.verify_s[where],
                "draft_s": grid.times.draft_s[where],
                "speedup": grid.speedup[where],
                "speedup_low": grid.speedup_low[where],
                "speedup_high": grid.speedup_high[where],
                "interactivity": grid.interactivity[where],
                "throughput": grid.throughput[where],
                "bound": grid.bound[where],
            }
            | _serving_columns(grid, where)
        )
    columns_of: dict[str, Any] = dict.fromkeys(SERVING_COLUMNS)
    columns_of |= {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    on_frontier = pareto_mask(columns_of["interactivity"], columns_of["throughput"])
    return Points(**columns_of, on_frontier=on_frontier)


SERVING_COLUMNS = ("serving_tpot_s", "decode_batch", "serving_speedup", "serving_throughput")


def _serving_columns(grid: Grid, where: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    if grid.serving is None:
        return {}
    serving = grid.serving
    columns = (serving.tpot_s, serving.decode_batch, serving.speedup, serving.throughput)
    return {name: column[where] for name, column in zip(SERVING_COLUMNS, columns, strict=True)}


def _infeasible(grid: Grid, columns: NDArray[np.int64]) -> list[Infeasible]:
    scenario = grid.scenario
    found = []
    for row, column in zip(*np.nonzero(~grid.usable[:, columns]), strict=True):
        batch, length = scenario.batches[row], int(grid.draft_lengths[columns[column]])
        reason, detail = why_not(grid, int(row), int(columns[column]))
        found.append(Infeasible(scenario, batch, length, reason, detail))
    return found


def why_not(grid: Grid, row: int, column: int) -> tuple[Reason, str]:
    """The reason that a point is not usable, and a sentence that says it with numbers."""
    scenario, memory = grid.scenario, grid.scenario.memory
    batch, length = scenario.batches[row], int(grid.draft_lengths[column])
    if not grid.fits[row, column]:
        ranks = np.ceil(np.asarray(batch / scenario.layout.ranks))
        needed = float(memory.needed(ranks, np.asarray(float(grid.verify_width[column]) - 1.0)))
        return "out_of_memory", (
            f"needs {needed / GIGA:.1f} GB of {memory.usable / GIGA:.1f} GB usable on each GPU "
            f"({memory.target_weights / GIGA:.1f} GB target weights"
            + (f", {memory.draft_weights / GIGA:.1f} GB drafter" if length else "")
            + ")"
        )
    assert scenario.drafter is not None  # only a drafter's points can fail otherwise
    limit = longest_draft(scenario.drafter)
    if limit is not None and length > limit and not scenario.past_block:
        return "not_measured", (
            f"{scenario.drafter.name} drafts at most {limit} tokens, as it was trained; --assume lets longer drafts in"
        )
    if scenario.beyond_window:
        return "beyond_draft_window", (
            f"{scenario.drafter.name} was trained on {scenario.drafter.window_tokens} tokens of context, "
            f"asked for {scenario.context}"
        )
    if scenario.acceptance is not None:
        wide = f" and {scenario.tree.width(length)} verified tokens" if scenario.tree is not None else ""
        return "not_measured", f"no tree of depth {length}{wide} was measured for {scenario.drafter.name}"
    return "not_measured", f"no acceptance was measured at a context of {scenario.context} tokens"


def _nothing_fits(infeasible: Sequence[Infeasible]) -> str:
    first = infeasible[0]
    return (
        f"no feasible point: {len(infeasible)} refused; at batch {first.batch}, draft length {first.draft_length} on "
        f"{first.scenario.hardware.name} with tp {first.scenario.layout.tp}: {first.detail}. "
        f"Try {_more_memory(first.scenario)}a smaller --weight-dtype or --context, or smaller --batches"
    )


def _more_memory(scenario: Scenario) -> str:
    return "more --gpus, " if scenario.layout.gpus < scenario.hardware.link.domain_gpus else ""


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
