"""From a sweep to one answer: a draft length, or off; the plateau of equally good ones; the schedule by batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specdec_cli.errors import InfeasibleError, UsageError
from specdec_cli.explore.grid import evaluate
from specdec_cli.explore.guideline_inputs import work_out_guidelines
from specdec_cli.explore.guideline_records import Guideline
from specdec_cli.explore.scenario import DEFAULTS, Note, Options, Question, Scenario, resolve
from specdec_cli.explore.schedules import ScheduleEntry, every_batch, schedule
from specdec_cli.explore.shapes import guidelines_of_chain
from specdec_cli.explore.sweep import Points, Sweep, run_sweep
from specdec_cli.physics.roofline import Floats
from specdec_cli.profiles.library import Library
from specdec_cli.units import MS

LARGEST_LIMIT = 1e12
"""Of tokens/s and of ms; no replica comes near it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the answer must satisfy; None: nothing."""

    batch: int | None = None
    min_interactivity: float | None = None
    """Tokens/s/user."""
    min_throughput: float | None = None
    """Tokens/s/GPU."""
    max_tpot_ms: float | None = None
    tie: float = DEFAULTS.tie
    min_gain: float = DEFAULTS.min_gain

    def __post_init__(self) -> None:
        for option, value in (
            ("--min-interactivity", self.min_interactivity),
            ("--min-throughput", self.min_throughput),
            ("--max-tpot-ms", self.max_tpot_ms),
        ):
            if value is not None and not 0 < value <= LARGEST_LIMIT:
                raise UsageError(f"{option} must be above 0, at most {LARGEST_LIMIT:g}, got {value:g}")
        for option, value in (("--tie", self.tie), ("--min-gain", self.min_gain)):
            if not 0 <= value < 1:
                raise UsageError(f"{option} is a fraction between 0 and 1, got {value:g}")
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"--batch must be at least 1, got {self.batch}")

    @property
    def any(self) -> bool:
        """Whether a single point is asked for."""
        return any(
            value is not None for value in (self.batch, self.min_interactivity, self.min_throughput, self.max_tpot_ms)
        )


@dataclass(frozen=True, slots=True)
class Users:
    """How many users one replica of the choice's scenario serves at a floor interactivity."""

    floor: float
    """Tokens/s that each user gets at least."""
    served: int
    """At the choice's draft length: the largest batch whose users all get the floor."""
    served_without: int
    """Without speculation; 0: not even a single user."""
    at_least: bool
    """The largest batch looked at still holds the floor, so there may be more."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer of `specdec recommend`."""

    sweep: Sweep
    limits: Limits
    choice: int | None
    """Index into the sweep's points; None where only a schedule was asked for."""
    off_because: str | None
    """Why the choice is off; None where it is not, or where there is no choice."""
    plateau: tuple[int, ...]
    """Draft lengths within the tie of the best, ascending; empty where speculation does not pay."""
    alternatives: tuple[int, ...]
    """Indices of the runners-up, best first."""
    guidelines: tuple[Guideline, ...]
    pays_from_batch: int | None
    pays_to_batch: int | None
    schedule: tuple[ScheduleEntry, ...]
    scenario: Scenario
    """The scenario that the choice and the schedule speak of."""
    users: Users | None
    """None where no floor interactivity was asked for."""
    notes: tuple[Note, ...]

    @property
    def question(self) -> Question:
        """What was asked."""
        return self.sweep.question


def run_recommend(library: Library, options: Options, limits: Limits) -> Recommendation:
    """Answer which draft length to use.

    Raises:
        InfeasibleError: no point satisfies the limits. UsageError, ProfileError: as `resolve`.
    """
    question = _with_batch(resolve(library, options), limits.batch)
    if limits.any and limits.batch is None and options.batches is None:
        # The batch is what is asked for, so every one is looked at, not the powers of two of a sweep.
        question = replace(question, scenarios=tuple(replace(s, batches=every_batch(s)) for s in question.scenarios))
    sweep = run_sweep(question)
    asked = options.assume
    notes = list(sweep.notes)
    if limits.any:
        choice, plateau, alternatives = _choose(sweep, limits, asked)
        scenario = sweep.grids[sweep.points.scenario[choice]].scenario
        batch, chosen = int(sweep.points.batch[choice]), int(sweep.points.draft_length[choice])
        guidelines = work_out_guidelines(library, options, scenario, batch, chosen, limits.tie, warn=notes.append)
        if scenario.tree is not None and chosen:
            notes.append(guidelines_of_chain(scenario.tree, chosen))
        if _flips(sweep, choice, limits):
            notes.append(_flip_note(sweep, choice))
    else:
        choice, plateau, alternatives, guidelines = None, (), (), ()
        scenario = _schedule_scenario(question)
    entries = schedule(scenario, limits.tie, limits.min_gain, asked)
    drafting = [entry for entry in entries if entry.draft_length]
    return Recommendation(
        sweep=sweep,
        limits=limits,
        choice=choice,
        off_because=None if choice is None or sweep.points.draft_length[choice] else _why_off(sweep, choice, limits),
        plateau=plateau,
        alternatives=alternatives,
        guidelines=tuple(guidelines),
        pays_from_batch=drafting[0].batch_from if drafting else None,
        pays_to_batch=drafting[-1].batch_to if drafting else None,
        schedule=entries,
        scenario=scenario,
        users=_users(scenario, int(sweep.points.draft_length[choice]), limits) if choice is not None else None,
        notes=tuple(notes),
    )


def _users(scenario: Scenario, draft_length: int, limits: Limits) -> Users | None:
    """Users at the floor of --min-interactivity or --max-tpot-ms, over every batch size up to the largest swept."""
    floor = max(limits.min_interactivity or 0.0, 1.0 / (limits.max_tpot_ms * MS) if limits.max_tpot_ms else 0.0)
    if not floor:
        return None
    batches = every_batch(scenario)
    grid = evaluate(replace(scenario, batches=batches, draft_lengths=tuple(sorted({0, draft_length}))))
    holds = grid.usable & (grid.user_speed >= floor)
    served = [max((b for b, held in zip(batches, column, strict=True) if held), default=0) for column in holds.T]
    return Users(floor, served[-1], served[0], at_least=served[-1] == batches[-1])


def _with_batch(question: Question, batch: int | None) -> Question:
    """The batch asked for joins the batches swept, and off joins the draft lengths: it is always an answer."""
    asked = set() if batch is None else {batch}
    scenarios = tuple(
        replace(s, batches=tuple(sorted({*s.batches, *asked})), draft_lengths=tuple(sorted({*s.draft_lengths, 0})))
        for s in question.scenarios
    )
    return replace(question, scenarios=scenarios)


def _schedule_scenario(question: Question) -> Scenario:
    if len(question.scenarios) > 1:
        raise UsageError(
            "a schedule speaks of one drafter on one layout: give --batch, --min-interactivity, --min-throughput or "
            "--max-tpot-ms with a list, or one --drafter, --tp and --hardware"
        )
    return question.scenarios[0]


def _choose(sweep: Sweep, limits: Limits, asked: bool) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """The choice, the plateau and the runners-up among the points that satisfy the limits."""
    points = sweep.points
    allowed = _satisfying(sweep, limits, asked)
    if not allowed.any():
        raise InfeasibleError(_nearest_miss(sweep, limits))
    # The axis that is not limited is maximised; at a fixed batch both rank alike but for prefill between the steps,
    # where a GPU's output decides.
    objective = points.user_speed if limits.min_throughput is not None else points.gpu_output
    speculating = allowed & (points.draft_length > 0)
    plain = allowed & (points.draft_length == 0)
    off = int(np.flatnonzero(plain)[np.argmax(objective[plain])]) if plain.any() else None
    threshold = 0.0 if off is None else float(objective[off]) * (1.0 + limits.min_gain)
    worthwhile = speculating & (objective > threshold)
    if limits.batch is not None:
        worthwhile &= points.gain > 1.0 + limits.min_gain
    if not worthwhile.any():
        best = off if off is not None else int(np.flatnonzero(allowed)[np.argmax(objective[allowed])])
        return best, (), _runners_up(objective, allowed, best)
    best_value = float(objective[worthwhile].max())
    top = int(np.flatnonzero(worthwhile)[np.argmax(objective[worthwhile])])
    tied = worthwhile & (objective >= best_value * (1.0 - limits.tie)) & (points.scenario == points.scenario[top])
    plateau = tuple(sorted({int(d) for d in points.draft_length[tied]}))
    shortest = tied & (points.draft_length == plateau[0])
    choice = int(np.flatnonzero(shortest)[np.argmax(objective[shortest])])
    return choice, plateau, _runners_up(objective, allowed, choice)


def _satisfying(sweep: Sweep, limits: Limits, asked: bool) -> NDArray[np.bool_]:
    points = sweep.points
    allowed = np.ones(len(points), dtype=bool)
    if not asked:
        extrapolated = [np.array([b == "extrapolated" for b in grid.basis]) for grid in sweep.grids]
        for index, marks in enumerate(extrapolated):
            here = points.scenario == index
            allowed[here] &= ~marks[points.column[here]]
    if limits.batch is not None:
        allowed &= points.batch == limits.batch
    if limits.min_interactivity is not None:
        allowed &= points.user_speed >= limits.min_interactivity
    if limits.min_throughput is not None:
        allowed &= points.gpu_output >= limits.min_throughput
    if limits.max_tpot_ms is not None:
        allowed &= points.user_speed * limits.max_tpot_ms * MS >= 1.0
    return allowed


def _runners_up(objective: Floats, allowed: NDArray[np.bool_], choice: int, most: int = 3) -> tuple[int, ...]:
    others = np.flatnonzero(allowed)
    others = others[others != choice]
    order = np.argsort(-objective[others], kind="stable")[:most]
    return tuple(int(index) for index in others[order])


def _nearest_miss(sweep: Sweep, limits: Limits) -> str:
    points = sweep.points
    here = points.batch == limits.batch if limits.batch is not None else np.ones(len(points), dtype=bool)
    if not here.any():
        detail = next((entry.detail for entry in sweep.infeasible if entry.batch == limits.batch), "")
        return f"batch {limits.batch} is not feasible: {detail}"
    fastest, widest = float(points.user_speed[here].max()), float(points.gpu_output[here].max())
    return (
        f"no feasible point satisfies the limits: the fastest reaches {fastest:.1f} tokens/s/user "
        f"(TPOT {1000 / fastest:.2f} ms), the widest {widest:.0f} tokens/s/GPU"
    )


def _why_off(sweep: Sweep, choice: int, limits: Limits) -> str:
    """Why nothing is drafted at the chosen batch: nothing could be tried, nothing may be trusted, or nothing gains."""
    points, batch = sweep.points, int(sweep.points.batch[choice])
    tried = np.flatnonzero((points.batch == batch) & (points.draft_length > 0))
    if len(tried):
        bases = {sweep.grids[points.scenario[i]].basis[points.column[i]] for i in tried}
        if bases == {"extrapolated"}:
            return "every draft length asked for lies past the measured acceptance; --assume lets them in"
        return f"no draft length gains more than {limits.min_gain * 100:.3g} %"
    refused = next((entry for entry in sweep.infeasible if entry.batch == batch and entry.draft_length > 0), None)
    if refused is not None:
        hint = "; --assume takes its acceptance over" if refused.reason == "beyond_draft_window" else ""
        return f"no draft length can be used: {refused.detail}{hint}"
    return "no draft length was asked for"


def _flips(sweep: Sweep, choice: int, limits: Limits) -> bool:
    """Whether on or off changes inside the band."""
    points = sweep.points
    line = 1.0 + limits.min_gain
    low, high = _banded_gain(points)
    if points.draft_length[choice]:
        return bool(low[choice] <= line)
    if limits.batch is None:
        return False
    rivals = (points.batch == points.batch[choice]) & (points.draft_length > 0)
    return bool(np.any(high[rivals] > line))


def _banded_gain(points: Points) -> tuple[Floats, Floats]:
    """Both ends of the band of the gain: the decode step's relative band, around the gain that decides."""
    return points.gain * points.speedup_low / points.speedup, points.gain * points.speedup_high / points.speedup


def _flip_note(sweep: Sweep, choice: int) -> Note:
    """What flips, and the one measurement that would settle it: acceptance where its band alone is wide enough."""
    points = sweep.points
    batch = int(points.batch[choice])
    index = choice
    low, high = _banded_gain(points)
    if points.draft_length[choice]:
        length = int(points.draft_length[choice])
        said = f"D = {length} gains {points.gain[choice]:.2f}x, {low[choice]:.2f}x at the slow end"
    else:
        rivals = np.flatnonzero((points.batch == batch) & (points.draft_length > 0))
        index = int(rivals[np.argmax(high[rivals])])
        length = int(points.draft_length[index])
        said = f"off, but D = {length} reaches {high[index]:.2f}x at the fast end"
    grid, column = sweep.grids[points.scenario[index]], points.column[index]
    lengths = (grid.acceptance_low[column], grid.acceptance_high[column])
    slow_end = float(points.gain[index]) * lengths[0] / grid.acceptance_length[column]
    on = bool(points.draft_length[choice])
    if slow_end <= 1.0 if on else lengths[1] > lengths[0]:
        settle = (
            f"the acceptance length on your own workload at D = {length} would settle it "
            f"(other data sets range from {lengths[0]:.2f} to {lengths[1]:.2f})"
        )
    else:
        settle = f"one measured run at batch {batch} with D = {length} beside one with speculation off would settle it"
    return Note("flips_inside_band", f"{said} of the band: {settle}")
