"""All of it -> one step: T_target, T_verify and T_draft over a (batch, draft length) grid.

    speedup = AL T_target / (T_verify + T_draft)

T_target and T_verify include the engine's step and per-request overheads, T_verify the entry fee of speculation,
T_draft the engine's cost of each pass. D = 0 is plain decoding exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from specdec_cli.physics.calibrated import StepCorrection, VerifyCurve
from specdec_cli.physics.chip import Chip, Shape, lower_bound_s, operation_cost
from specdec_cli.physics.drafting import DraftPlan
from specdec_cli.physics.operations import BY_REQUEST, BY_TOKENS, ExpertExchange, Experts, Operation
from specdec_cli.physics.roofline import Cost, Floats
from specdec_cli.profiles.schema import Overheads
from specdec_cli.units import MS, US


class StepTimes(msgspec.Struct, frozen=True):
    """Times over a grid, s; every array has the grid's shape."""

    target_s: Floats
    """One target pass with one token a request, overheads included."""
    verify_s: Floats
    """One target pass with W tokens a request, overheads and entry fee included; T_target where D = 0."""
    draft_s: Floats
    """Producing the D draft tokens; 0 where D = 0."""
    compute_s: Floats
    memory_s: Floats
    fixed_s: Floats
    """Where the step's time goes, before overlap: arithmetic, memory and links, launches and overheads."""

    @property
    def step_s(self) -> Floats:
        """T_verify + T_draft."""
        return self.verify_s + self.draft_s


class PassTimes(NamedTuple):
    """The time of a forward pass and where it goes, as in `Cost`; arrays that broadcast together, s."""

    seconds: Floats
    compute_s: Floats
    memory_s: Floats
    fixed_s: Floats

    def scaled(self, factor: Floats) -> PassTimes:
        """`factor` such passes, one after the other."""
        return PassTimes(*(part * factor for part in self))


def pass_cost(operations: Iterable[Operation], shape: Shape, chip: Chip) -> PassTimes:
    """The summed times of a forward pass; arrays of the shape that `shape` broadcasts to.

    Few operations are evaluated at every point of it: those whose time depends on a number of tokens alone are once
    for each distinct number, those that take as long again for each request once for each width and context.
    """
    grid = np.broadcast_shapes(shape.requests.shape, shape.width.shape, shape.context.shape)
    of_rank, of_replica, of_request, others = _sorted_by_need(operations)
    parts = [_at_every_point([operation], shape, chip) for operation in others]
    if of_rank:
        parts.append(_by_tokens(of_rank, shape.rank_tokens, chip))
    if of_replica:
        parts.append(_by_tokens(of_replica, shape.requests * shape.width, chip))
    if of_request:
        parts.append(_by_request(of_request, shape, chip))
    return PassTimes(*(np.broadcast_to(part, grid) for part in _total(parts)))


def _sorted_by_need(operations: Iterable[Operation]) -> tuple[list[Operation], ...]:
    """Operations that need the tokens of a rank alone, those of the replica, each request's alone; the others."""
    of_rank: list[Operation] = []
    of_replica: list[Operation] = []
    of_request: list[Operation] = []
    others: list[Operation] = []
    for operation in operations:
        if isinstance(operation, Experts):
            alone = of_rank if operation.ranks == 1 else of_replica
            (alone if operation.routing_overlap == 0.0 else others).append(operation)
        elif isinstance(operation, (*BY_TOKENS, ExpertExchange)):
            of_rank.append(operation)
        else:
            (of_request if isinstance(operation, BY_REQUEST) else others).append(operation)
    return of_rank, of_replica, of_request, others


def _at_every_point(operations: Sequence[Operation], shape: Shape, chip: Chip) -> PassTimes:
    costs = (operation_cost(operation, shape, chip) for operation in operations)
    return _total([PassTimes(one.seconds, one.compute_s, one.memory_s, one.fixed_s) for one in costs])


def _by_tokens(operations: Sequence[Operation], tokens: Floats, chip: Chip) -> PassTimes:
    """Operations that depend on a number of tokens alone; arrays of the shape of `tokens`."""
    distinct, place = distinct_values(np.asarray(tokens))
    one = np.ones(())
    found = PassTimes(*(np.empty(distinct.size) for _ in PassTimes._fields))
    for start in range(0, distinct.size, BLOCK):
        block = slice(start, start + BLOCK)
        alone = _at_every_point(operations, Shape(distinct.reshape(-1)[block], one, one), chip)
        for part, values in zip(found, alone, strict=True):
            part[block] = values
    return PassTimes(*(part.reshape(tokens.shape) if place is None else np.take(part, place) for part in found))


def _by_request(operations: Sequence[Operation], shape: Shape, chip: Chip) -> PassTimes:
    """Operations that take a fixed time and as much again for each request of the rank."""
    one = _at_every_point(operations, Shape(np.ones(()), shape.width, shape.context), chip)
    requests = shape.rank_requests
    each = one.seconds - one.fixed_s
    return PassTimes(one.fixed_s + requests * each, requests * one.compute_s, requests * one.memory_s, one.fixed_s)


def _total(parts: Sequence[PassTimes]) -> PassTimes:
    return PassTimes(*(reduce(np.add, column) for column in zip(*parts, strict=True))) if parts else NONE


NONE = PassTimes(*(np.zeros(()) for _ in PassTimes._fields))

BLOCK = 8192
"""Token counts evaluated together: few enough that what is computed on the way stays in the processor's cache."""

SPARSEST = 8
"""Whole numbers are told apart by a table up to the largest of them, unless it had more than so many places each."""


def distinct_values(values: Floats) -> tuple[Floats, NDArray[np.intp] | None]:
    """The distinct ones among `values`, none negative, rising, and the place of each value among them.

    Whole numbers alone, without sorting; the place is None, and the values are as they came, where a search would
    cost more than it saves: among fractions few are equal.
    """
    largest = values.max(initial=0.0)
    if values.size < 2 or largest > SPARSEST * values.size + 1000:
        return values, None
    whole = values.astype(np.intp)  # after the test of size: past 2^63 no whole number holds them
    if not np.array_equal(whole, values):
        return values, None
    found = np.zeros(int(largest) + 1, dtype=np.bool_)
    found[whole] = True
    distinct = np.flatnonzero(found)
    places = np.empty(len(found), dtype=np.intp)
    places[distinct] = np.arange(len(distinct))
    return distinct.astype(np.float64), places[whole]


def pass_breakdown(operations: Sequence[Operation], shape: Shape, chip: Chip) -> list[tuple[Operation, Cost]]:
    """The cost of each operation of a pass, for `explain` and the guidelines."""
    return [(operation, operation_cost(operation, shape, chip)) for operation in operations]


def pass_lower_bound_s(operations: Sequence[Operation], shape: Shape, chip: Chip) -> Floats:
    """Datasheet peaks, no launches, no floors: no pass is faster."""
    parts = [lower_bound_s(op, costs, chip) for op, costs in pass_breakdown(operations, shape, chip)]
    return np.asarray(sum(parts))


class DraftPhase(msgspec.Struct, frozen=True):
    """One kind of pass that drafting makes."""

    name: str
    operations: tuple[Operation, ...]
    shape: Shape
    repeats: Floats
    """How often it runs in a step."""


@dataclass(frozen=True, slots=True)
class StepModel:
    """One target on one layout of one chip under one engine, with or without a drafter."""

    chip: Chip
    overheads: Overheads
    target: tuple[Operation, ...]
    plan: DraftPlan | None
    ranks: int
    branches: Floats | float = 1.0
    """Tokens that each level of a draft tree expands, broadcast along the draft lengths; 1: a chain, unless more nodes
    than D + 1 are verified."""
    curve: VerifyCurve | None = None
    """The target's pass as its user measured it: the computed one then takes as long."""
    correction: StepCorrection | None = None
    """Measured over computed steps, where fitted constants alone do not reach what was measured."""

    def draws_trees(self, draft_lengths: Floats, widths: Floats) -> Floats:
        """Where the drafts are trees."""
        return np.logical_or(widths > draft_lengths + 1.0, np.asarray(self.branches) > 1.0)

    def shape(self, requests: Floats, width: Floats, context: Floats) -> Shape:
        """The pass over these arrays on this layout."""
        return Shape(requests, width, context, self.ranks)

    def host_s(self, requests: Floats) -> Floats:
        """The engine's time of a step that does not speculate, beside the kernels."""
        return self.overheads.step_ms * MS + self.overheads.per_request_us * US * requests

    def entry_fee_s(self, draft_lengths: Floats, widths: Floats) -> Floats:
        """What a step that speculates costs once, beside the kernels."""
        overheads = self.overheads
        chain = overheads.speculation_ms
        tree = chain if overheads.tree_speculation_ms is None else overheads.tree_speculation_ms
        fee = np.where(self.draws_trees(draft_lengths, widths), tree, chain)
        return np.where(draft_lengths > 0, fee * MS, 0.0)

    def times(
        self, batches: Floats, draft_lengths: Floats, widths: Floats, lengths: Floats, context: Floats
    ) -> StepTimes:
        """Evaluate a grid.

        Args:
            batches: (nb, 1) requests on the replica. draft_lengths, widths: (1, nd), D and verify width W.
            lengths: (1, nd) acceptance length at each D. context: scalar or broadcastable, tokens in the KV cache.
        """
        host = self.host_s(batches)
        plain = self.target_pass(self.shape(batches, np.ones_like(widths[:, :1]), context))
        verify = self.target_pass(self.shape(batches, widths, context))
        speculating = draft_lengths > 0
        fee = self.entry_fee_s(draft_lengths, widths)
        target_s = plain.seconds + host
        verify_s = np.where(speculating, verify.seconds + host + fee, target_s)
        if self.curve is not None:  # measured passes scatter, and one over more tokens takes no less than a plain one
            verify_s = np.maximum(verify_s, target_s)
        drafting = self.draft(batches, draft_lengths, widths, lengths, context, target_s)
        times = StepTimes(
            target_s=np.broadcast_to(target_s, verify_s.shape),
            verify_s=verify_s,
            draft_s=drafting.seconds,
            compute_s=verify.compute_s + drafting.compute_s,
            memory_s=verify.memory_s + drafting.memory_s,
            fixed_s=verify.fixed_s + drafting.fixed_s + host + fee,
        )
        return times if self.correction is None else self._corrected(times, batches, draft_lengths)

    def _corrected(self, times: StepTimes, batches: Floats, draft_lengths: Floats) -> StepTimes:
        """The measured steps; verify and draft share them as computed, a verify pass takes no less than a plain one."""
        assert self.correction is not None
        target = times.target_s * self.correction.at(batches, np.zeros_like(draft_lengths))
        factor = self.correction.at(batches, draft_lengths)
        speculating = draft_lengths > 0
        verify = np.where(speculating, np.maximum(times.verify_s * factor, target), target)
        draft = np.where(speculating, np.maximum(times.step_s * factor - verify, 0.0), 0.0)
        parts = (times.compute_s * factor, times.memory_s * factor, times.fixed_s * factor)
        return StepTimes(np.broadcast_to(target, verify.shape), verify, draft, *parts)

    def target_pass(self, shape: Shape) -> PassTimes:
        """A pass of the target, as its user's curve has it where there is one."""
        costs = pass_cost(self.target, shape, self.chip)
        if self.curve is None:
            return costs
        grid = costs.seconds.shape
        wanted = self.curve.within(np.broadcast_to(shape.rank_tokens, grid))
        tokens, where = np.unique(wanted, return_inverse=True)
        alone = pass_cost(self.target, Shape(np.ones(()), tokens, np.asarray(self.curve.context)), self.chip)
        factor = (self.curve.at(tokens) / alone.seconds)[where].reshape(grid)
        return costs.scaled(factor)

    def draft(
        self, batches: Floats, draft_lengths: Floats, widths: Floats, lengths: Floats, context: Floats, target_s: Floats
    ) -> PassTimes:
        """T_draft and its parts; zero where D = 0."""
        plan = self.plan
        if plan is None or not np.any(draft_lengths):
            parts = [NONE]
        else:
            host = self.draft_host_s(draft_lengths, widths, target_s)
            on = (draft_lengths > 0).astype(np.float64)
            parts = [
                pass_cost(phase.operations, phase.shape, self.chip).scaled(phase.repeats * on)
                for phase in self.draft_phases(plan, batches, draft_lengths, widths, lengths, context)
                if phase.operations
            ]
            parts.append(NONE._replace(seconds=host, fixed_s=host))
        grid = np.broadcast_shapes(batches.shape, draft_lengths.shape)
        return PassTimes(*(np.broadcast_to(part, grid) for part in _total(parts)))

    def draft_host_s(self, draft_lengths: Floats, widths: Floats, target_s: Floats) -> Floats:
        """The engine's time for D draft tokens, beside the kernels: its cost of each pass, or of a look-up."""
        plan, overheads = self.plan, self.overheads
        if plan is None:
            return np.zeros_like(draft_lengths)
        if plan.lookup:
            return np.where(draft_lengths > 0, overheads.lookup_ms * MS, 0.0)
        pass_ms = overheads.draft_pass_ms_by_mechanism.get(plan.mechanism, overheads.draft_pass_ms)
        tree_ms = pass_ms if overheads.tree_draft_pass_ms is None else overheads.tree_draft_pass_ms
        milliseconds = np.where(self.draws_trees(draft_lengths, widths), tree_ms, pass_ms)
        per_pass = milliseconds * MS + overheads.draft_pass_target_fraction * target_s
        return np.asarray(plan.passes(draft_lengths) * per_pass)

    def draft_phases(
        self,
        plan: DraftPlan,
        batches: Floats,
        draft_lengths: Floats,
        widths: Floats,
        lengths: Floats,
        context: Floats,
    ) -> list[DraftPhase]:
        """The passes of drafting, each with its shape and how often it runs for D draft tokens."""
        seen = context if plan.kv_window is None else np.minimum(context, plan.kv_window)
        one = np.ones_like(draft_lengths)

        def phase(name: str, operations: tuple[Operation, ...], width: Floats, repeats: Floats) -> DraftPhase:
            return DraftPhase(name, operations, self.shape(batches, width, seen), repeats)

        # The target's new tokens, AL a request, enter the fusion layer and the first pass.
        fusion = phase("fusion", plan.fusion, lengths, one)
        if not plan.sequential:
            # A block pass proposes D tokens (or a tree's nodes) from D + 1 rows, the anchor among them.
            return [
                fusion,
                phase("block pass", plan.body, widths, one),
                phase("block head", plan.head, widths, one),
                phase("serial head", plan.serial_head, one, draft_lengths),
            ]
        # A chain drafts one token a pass; a tree expands its best branches, or, where those are not stated, as many as
        # it verifies of that depth.
        branches = np.asarray(self.branches)
        rows = np.ones(())
        if np.any(self.draws_trees(draft_lengths, widths)):
            rows = np.where(branches > 1.0, branches, (widths - 1.0) / np.maximum(draft_lengths, 1.0))
        return [
            fusion,
            phase("first pass", plan.body, lengths, one),
            phase("further passes", plan.body, rows, np.maximum(draft_lengths - 1.0, 0.0)),
            phase("head of each pass", plan.head, rows, draft_lengths),
        ]


BOUNDS = ("memory", "compute", "latency")


def bound(times: StepTimes) -> NDArray[np.int8]:
    """What bounds each step, as its place in BOUNDS: the largest part; `latency`: launches, floors and overheads."""
    picked = (times.compute_s > times.memory_s).astype(np.int8)
    picked[times.fixed_s > np.maximum(times.memory_s, times.compute_s)] = BOUNDS.index("latency")
    return picked
