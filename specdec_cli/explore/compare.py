"""Mechanisms side by side at given batches: guideline 5 computed, with what each costs in time and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from specdec_cli.errors import InfeasibleError, UsageError
from specdec_cli.explore.grid import Grid, evaluate
from specdec_cli.explore.guideline_mechanisms import POST_VIEW
from specdec_cli.explore.scenario import DEFAULTS, NO_DRAFTER, Note, Options, Question, Scenario, resolve
from specdec_cli.explore.shapes import shape_notes
from specdec_cli.explore.typical import typical_acceptance
from specdec_cli.physics.trees import DRAW_TREES
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.schema import Drafter


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One drafter at one batch, at its best draft length there; SI units."""

    scenario: Scenario
    grid: Grid
    row: int
    column: int
    """The point in its grid."""
    batch: int
    rank: int
    """1: the fastest at this batch."""
    draft_length: int
    """The best one; 0 where no draft length is faster than plain decoding."""
    acceptance_length: float
    basis: str
    target_s: float
    verify_s: float
    draft_s: float
    speedup: float
    output_gain: float
    """What rows are ranked by: a GPU's output over that without speculation, with prefill where prompts were given."""
    speedup_low: float
    speedup_high: float
    draft_bytes: float
    """Weights and KV cache that drafting takes on one GPU at this batch."""
    kv_tokens: float
    """Tokens of KV cache that one GPU holds beside the target's and the drafter's weights."""
    kv_tokens_lost: float
    """How many fewer that is than without a drafter."""
    post_view: str | None
    """The published opinion of the mechanism; None: it says nothing of it."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer of `specdec compare`."""

    question: Question
    rows: tuple[CompareRow, ...]
    """By batch, then rank."""
    notes: tuple[Note, ...]


def run_compare(library: Library, options: Options) -> Comparison:
    """Compare the drafters named, or every drafter of the target whose acceptance is measured.

    With one draft length asked for (`--draft-lengths 3`) all drafters stand at that length: equal D, unequal cost.

    Raises:
        UsageError: nothing to compare. InfeasibleError: no drafter fits at any batch.
    """
    asked = replace(options, drafter=options.drafter or _measured_drafters(library, options))
    question = resolve(library, asked, defaults=msgspec.structs.replace(DEFAULTS, batches=DEFAULTS.compared_batches))
    if all(scenario.drafter is None for scenario in question.scenarios):
        raise UsageError("--drafter none leaves nothing to compare: name drafters, or leave it out for all measured")
    rows: list[CompareRow] = []
    refused: list[Note] = []
    for scenario in question.scenarios:
        if scenario.drafter is None:
            continue
        grid = evaluate(scenario)
        for row, batch in enumerate(scenario.batches):
            found = _row(scenario, grid, row, batch, options.assume)
            if found is not None:
                rows.append(found)
            else:
                message = f"{scenario.drafter_name} cannot be used at batch {batch} on {scenario.hardware.name}"
                refused.append(Note("drafter_infeasible", message))
    if not rows:
        raise InfeasibleError("no drafter is feasible at any of the batches: try fewer --batches or more --gpus")
    shapes = dict.fromkeys(note for scenario in question.scenarios for note in shape_notes(scenario))
    notes = (*question.notes, *_different_data(question), *shapes, *refused)
    return Comparison(question, tuple(_ranked(rows)), notes)


def _different_data(question: Question) -> list[Note]:
    """Acceptance of different drafters can only be compared as far as it was measured on the same data."""
    by_data: dict[str, list[str]] = {}
    for scenario in question.scenarios:
        profile = scenario.acceptance_profile
        if profile is not None and scenario.drafter_name is not None:
            names = by_data.setdefault(profile.data_set, [])
            if scenario.drafter_name not in names:
                names.append(scenario.drafter_name)
    if len(by_data) < 2:
        return []
    said = "; ".join(f"{data}: {', '.join(names)}" for data, names in by_data.items())
    return [Note("different_data_sets", f"acceptance was measured on different data, which ranks data too ({said})")]


def _measured_drafters(library: Library, options: Options) -> str:
    named = options.model
    if named is None and options.calibration is not None:
        named = library.calibration(options.calibration).record.scenario.model
    model = library.model(named or DEFAULTS.model).record
    assumed = options.acceptance_rate is not None or options.acceptance_length is not None
    if options.assume_acceptance is not None:
        drafters = [one.record for one in library.drafters_for(model.name) if _draws(options, one.record)]
        kinds = {one.mechanism for one in drafters}
        known = {kind for kind in kinds if typical_acceptance(library, kind) is not None}
        return ",".join(one.name for one in drafters if one.mechanism in known)
    names = [
        loaded.record.name
        for loaded in library.drafters_for(model.name)
        if _draws(options, loaded.record)
        and (assumed or library.default_acceptance(model.name, loaded.record.name) is not None)
    ]
    if not names:
        raise UsageError(
            f"no drafter of {model.name} has measured acceptance: name drafters with --drafter and give "
            "--acceptance-length, --acceptance-rate or --assume-acceptance typical"
        )
    return ",".join(names)


def _draws(options: Options, drafter: Drafter) -> bool:
    """Whether the drafter can stand in the comparison: where a tree is asked for, those that draw trees."""
    return options.tree_topk is None or drafter.mechanism in DRAW_TREES


def _row(scenario: Scenario, grid: Grid, row: int, batch: int, asked: bool) -> CompareRow | None:
    usable = grid.usable[row] & _recommendable(grid, asked)
    if not usable.any():
        return None
    column = int(np.argmax(np.where(usable, grid.output_gain[row], -np.inf)))
    memory = scenario.memory
    requests = float(np.ceil(batch / scenario.layout.ranks))
    per_token = memory.kv_per_request / scenario.context
    with_draft = per_token + memory.draft_kv_per_request / scenario.context
    without = max(0.0, memory.usable - memory.target_weights) / per_token if per_token else float("inf")
    left = max(0.0, memory.usable - memory.target_weights - memory.draft_weights)
    kept = left / with_draft if with_draft else float("inf")
    drafting = grid.draft_lengths[column] > 0
    return CompareRow(
        scenario=scenario,
        grid=grid,
        row=row,
        column=column,
        batch=batch,
        rank=0,
        draft_length=int(grid.draft_lengths[column]),
        acceptance_length=float(grid.acceptance_length[column]),
        basis=grid.basis[column],
        target_s=float(grid.times.target_s[row, column]),
        verify_s=float(grid.times.verify_s[row, column]),
        draft_s=float(grid.times.draft_s[row, column]),
        speedup=float(grid.speedup[row, column]),
        output_gain=float(grid.output_gain[row, column]),
        speedup_low=float(grid.speedup_low[row, column]),
        speedup_high=float(grid.speedup_high[row, column]),
        draft_bytes=(memory.draft_weights + requests * memory.draft_kv_per_request) if drafting else 0.0,
        kv_tokens=kept if np.isfinite(kept) else 0.0,
        kv_tokens_lost=without - kept if np.isfinite(without) and np.isfinite(kept) else 0.0,
        post_view=POST_VIEW.get(scenario.drafter.mechanism) if scenario.drafter is not None else None,
    )


def _recommendable(grid: Grid, asked: bool) -> NDArray[np.bool_]:
    if asked:
        return np.ones(len(grid.basis), dtype=bool)
    return np.array([basis != "extrapolated" for basis in grid.basis])


def _ranked(rows: list[CompareRow]) -> list[CompareRow]:
    """By batch, fastest first; equal speedups by the smaller memory bill, then by name."""
    ordered = sorted(
        rows, key=lambda r: (r.batch, -r.output_gain, r.draft_bytes, r.scenario.drafter_name or NO_DRAFTER)
    )
    ranked: list[CompareRow] = []
    for found in ordered:
        previous = ranked[-1] if ranked and ranked[-1].batch == found.batch else None
        ranked.append(replace(found, rank=1 if previous is None else previous.rank + 1))
    return ranked
