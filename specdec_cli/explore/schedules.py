"""Draft lengths by batch size, and by context: what the engines' schedules are filled from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from specdec_cli.errors import UsageError
from specdec_cli.explore.axes import MOST_POINTS
from specdec_cli.explore.grid import Grid, evaluate
from specdec_cli.explore.scenario import Options, Scenario, resolve
from specdec_cli.profiles.library import Library

MOST_SCHEDULED_BATCHES = 4096  # a schedule evaluates every batch size up to the largest swept, but not past this


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """One range of batch sizes with one draft length; both ends are inside."""

    batch_from: int
    batch_to: int
    draft_length: int


@dataclass(frozen=True, slots=True)
class ContextSchedule:
    """The schedule that holds from one context length to another, both inside, tokens."""

    context_from: int
    context_to: int
    entries: tuple[ScheduleEntry, ...]
    known: bool = True
    """Whether acceptance is known at this context; where it is not (past the drafter's window), nothing is drafted."""


def best_by_batch(grid: Grid, tie: float, min_gain: float, asked: bool) -> dict[int, tuple[int, tuple[int, ...]]]:
    """For each batch that is feasible at all: the draft length (0: off) and the plateau."""
    lengths = grid.draft_lengths
    allowed = grid.usable & (lengths > 0)[None, :]
    if not asked:
        allowed &= np.array([b != "extrapolated" for b in grid.basis])[None, :]
    worthwhile = allowed & (np.minimum(grid.gain, grid.output_gain) > 1.0 + min_gain)
    output = np.where(worthwhile, grid.output_gain, 0.0)
    best = output.max(axis=1, initial=0.0)
    answer: dict[int, tuple[int, tuple[int, ...]]] = {}
    for row, batch in enumerate(grid.scenario.batches):
        if not grid.usable[row].any():
            continue
        tied = worthwhile[row] & (output[row] >= best[row] * (1.0 - tie))
        plateau = tuple(int(d) for d in lengths[tied])
        answer[batch] = (plateau[0] if plateau else 0, plateau)
    return answer


def every_batch(scenario: Scenario) -> tuple[int, ...]:
    """Every batch size up to the largest swept; those swept where that were too many."""
    largest = max(scenario.batches)
    if largest <= MOST_SCHEDULED_BATCHES and largest * len(scenario.draft_lengths) <= MOST_POINTS:
        return tuple(range(1, largest + 1))
    return scenario.batches


def schedule(scenario: Scenario, tie: float, min_gain: float, asked: bool) -> tuple[ScheduleEntry, ...]:
    """Ranges of batch sizes with one draft length each.

    Every batch size is evaluated; a range keeps its draft length as long as that stays on the plateau, so that
    ties do not make it flicker.
    """
    grid = evaluate(replace(scenario, batches=every_batch(scenario)))
    entries: list[ScheduleEntry] = []
    for batch, (length, plateau) in best_by_batch(grid, tie, min_gain, asked).items():
        last = entries[-1] if entries else None
        if last is not None and (last.draft_length == length or last.draft_length in plateau):
            entries[-1] = replace(last, batch_to=batch)
        else:
            start = 1 if last is None else last.batch_to + 1
            entries.append(ScheduleEntry(start, batch, length))
    return tuple(entries)


def held_by_a_drafting_server(scenario: Scenario, entries: Sequence[ScheduleEntry]) -> tuple[ScheduleEntry, ...]:
    """The schedule up to the largest batch that fits beside the drafter: a server that speculates at some batch holds
    the drafter's weights and KV cache, and the states saved for its longest draft, at every batch, also where it drafts
    less or not at all."""
    longest = max((entry.draft_length for entry in entries), default=0)
    if not longest:
        return tuple(entries)
    largest = int(scenario.largest_batch(longest)) * scenario.layout.ranks
    return tuple(replace(e, batch_to=min(e.batch_to, largest)) for e in entries if e.batch_from <= largest)


def schedule_by_context(
    library: Library, options: Options, contexts: Sequence[int], tie: float, min_gain: float
) -> tuple[ContextSchedule, ...]:
    """One schedule for each context length; it is computed at that length and holds for shorter ones down to the one
    before it. Neighbours with the same schedule become one.

    Raises:
        UsageError: more than one scenario, or contexts given twice (`--context` beside `--contexts`).
    """
    if options.context is not None or options.input_tokens is not None:
        raise UsageError("--contexts conflicts with --context, --input-tokens and --output-tokens")
    if options.drafter is None:  # a schedule is of one server: the drafter of the answer, at every context
        drafter = resolve(library, options).scenarios[0].drafter
        options = replace(options, drafter=drafter.name if drafter is not None else None)
    found: list[ContextSchedule] = []
    start = 1
    for context in sorted(set(contexts)):
        scenarios = resolve(library, replace(options, context=context)).scenarios
        if len(scenarios) > 1:
            raise UsageError("a schedule speaks of one drafter on one layout: give one --drafter, --tp and --hardware")
        scenario = scenarios[0]
        entries = schedule(scenario, tie, min_gain, options.assume)
        known = scenario.drafter is None or not (scenario.beyond_window or scenario.acceptance is None)
        if found and (found[-1].entries, found[-1].known) == (entries, known):
            found[-1] = replace(found[-1], context_to=context)
        else:
            found.append(ContextSchedule(start, context, entries, known))
        start = context + 1
    return tuple(found)
