"""One point taken apart: for each operation the formula, its numbers, the result and what bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from specdec_cli.errors import InfeasibleError
from specdec_cli.explore.grid import Grid, evaluate
from specdec_cli.explore.refusals import why_not
from specdec_cli.explore.scenario import Question, Scenario
from specdec_cli.explore.shapes import check_depth, shape_notes
from specdec_cli.physics.chip import Chip, Shape, kernel_figures, lower_bound_s, operation_peak
from specdec_cli.physics.operations import (
    AllReduceHidden,
    Attention,
    ExpertExchange,
    Experts,
    IndexerScan,
    LatentAttention,
    Linear,
    Operation,
    RecurrentState,
)
from specdec_cli.physics.roofline import Cost, distinct_experts
from specdec_cli.physics.step import pass_breakdown
from specdec_cli.units import MS

LINEAR = "t = sqrt(((F/(eta_c P))^p + (Q/(eta_m beta))^p)^(2/p) + (tau_k K/8192)^2) + tau + Q_quant/(eta_q beta)"
FORMULAS: dict[type, str] = {
    Linear: LINEAR,
    Attention: "t = floor + sqrt((Q/(eta_m beta))^2 + (F_pad/(eta_c P))^2)",
    LatentAttention: "t = ((F_pad/(eta_c P))^p + (Q/(eta_m beta))^p)^(1/p) + tau + tau_l log2(L/256)",
    IndexerScan: "t = F/P + Q/(eta_m beta) + floor",
    RecurrentState: "t = (1 + replays) (floor + B state (1 + writes)/(eta_m beta))",
    Experts: "t = ((F/(eta_c P))^p + (Qw/(eta_m beta))^p)^(1/p) + Qa/(eta_a beta) + tau",
    AllReduceHidden: "t = latency + skew (n - 1) + 2 (n - 1)/n bytes/(efficiency link)",
    ExpertExchange: "t = 2 latency + 2 tokens copies H (n - 1)/n bytes/(efficiency link)",
}
ELEMENT_WISE = "t = Q/beta + launches"


@dataclass(frozen=True, slots=True)
class Line:
    """One operation of a pass, all its layers together; SI units."""

    phase: str
    """`target`, `verify`, or a phase of drafting."""
    group: str
    name: str
    count: float
    """Layers, times the passes where a draft repeats it."""
    gemm_m: float | None
    """Rows of its matrix multiplication: tokens, rows per expert, or query rows per KV head."""
    flops: float
    bytes: float
    peak_flops_per_s: float | None
    bandwidth_bytes_per_s: float
    compute_s: float
    memory_s: float
    fixed_s: float
    seconds: float
    lower_s: float
    """At the datasheet's peaks, without launches."""
    upper_s: float
    """At achieved rates, nothing overlapping."""
    bound: str
    formula: str
    numbers: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer of `specdec explain`."""

    question: Question
    grid: Grid
    """The point and plain decoding beside it."""
    batch: int
    draft_length: int
    target: tuple[Line, ...]
    verify: tuple[Line, ...]
    draft: tuple[Line, ...]
    host: dict[str, float]
    """Overheads by name, s: `step`, `requests`, `entry_fee`, `draft_passes`."""

    @property
    def scenario(self) -> Scenario:
        """What the point belongs to."""
        return self.grid.scenario

    @property
    def column(self) -> int:
        """The point's column in the grid."""
        return self.scenario.draft_lengths.index(self.draft_length)


def explain(question: Question, batch: int, draft_length: int) -> Explanation:
    """Take the point (batch, draft length) of the question's first scenario apart.

    Raises:
        InfeasibleError: the point cannot be; the message says why. UsageError: a tree too narrow for its depth.
    """
    check_depth(question.scenarios[0].tree, draft_length, "--draft-length")
    lengths = tuple(sorted({0, draft_length}))
    scenario = replace(question.scenarios[0], batches=(batch,), draft_lengths=lengths)
    grid = evaluate(scenario)
    column = lengths.index(draft_length)
    if not grid.usable[0, column]:
        reason, detail = why_not(grid, 0, column)
        raise InfeasibleError(f"batch {batch}, draft length {draft_length} is not feasible ({reason}): {detail}")
    step = scenario.step
    requests = np.asarray(float(batch))
    context = np.asarray(float(scenario.context))
    plain = step.shape(requests, np.ones(()), context)
    verifying = plain._replace(width=np.asarray(float(grid.verify_width[column])))
    return Explanation(
        question=replace(question, notes=question.notes + tuple(shape_notes(scenario))),
        grid=grid,
        batch=batch,
        draft_length=draft_length,
        target=_lines("target", step.target, plain, step.chip, 1.0),
        verify=_lines("verify", step.target, verifying, step.chip, 1.0),
        draft=_draft_lines(scenario, grid, column, requests, context),
        host=_host(grid, column),
    )


def _draft_lines(
    scenario: Scenario, grid: Grid, column: int, requests: np.ndarray, context: np.ndarray
) -> tuple[Line, ...]:
    plan, length = scenario.plan, scenario.draft_lengths[column]
    if plan is None or plan.lookup or length == 0:
        return ()
    accepted = np.asarray(grid.acceptance_length[column])
    width = np.asarray(float(grid.verify_width[column]))
    phases = scenario.step.draft_phases(plan, requests, np.asarray(float(length)), width, accepted, context)
    return tuple(
        line
        for phase in phases
        if float(phase.repeats) > 0
        for line in _lines(phase.name, phase.operations, phase.shape, scenario.step.chip, float(phase.repeats))
    )


def _host(grid: Grid, column: int) -> dict[str, float]:
    """The engine's overheads of the step. They and the lines add up to T_verify + T_draft."""
    scenario, times = grid.scenario, grid.times
    overheads = scenario.engine.overheads
    batch = scenario.batches[0]
    host = {"step": overheads.step_ms * MS, "requests": overheads.per_request_us * 1e-6 * batch}
    if scenario.draft_lengths[column]:
        length, width = np.asarray(float(scenario.draft_lengths[column])), np.asarray(float(grid.verify_width[column]))
        host["entry_fee"] = float(scenario.step.entry_fee_s(length, width))
        host["draft_passes"] = float(scenario.step.draft_host_s(length, width, np.asarray(times.target_s[0, column])))
    return host


def _lines(phase: str, operations: Sequence[Operation], shape: Shape, chip: Chip, repeats: float) -> tuple[Line, ...]:
    return tuple(_line(phase, op, costs, shape, chip, repeats) for op, costs in pass_breakdown(operations, shape, chip))


def _line(phase: str, operation: Operation, costs: Cost, shape: Shape, chip: Chip, repeats: float) -> Line:
    total = costs.times(repeats)
    parts = {"memory": total.memory_s, "compute": total.compute_s, "latency": total.fixed_s}
    return Line(
        phase=phase,
        group=operation.group,
        name=operation.name,
        count=operation.count * repeats,
        gemm_m=_gemm_m(operation, shape),
        flops=float(total.flops),
        bytes=float(total.bytes),
        peak_flops_per_s=operation_peak(operation, chip),
        bandwidth_bytes_per_s=chip.bandwidth,
        compute_s=float(total.compute_s),
        memory_s=float(total.memory_s),
        fixed_s=float(total.fixed_s),
        seconds=float(total.seconds),
        lower_s=float(lower_bound_s(operation, total, chip)),
        upper_s=float(total.upper_s()),
        bound=max(parts, key=lambda name: float(parts[name])),
        formula=FORMULAS.get(type(operation), ELEMENT_WISE),
        numbers=_numbers(operation, shape, chip),
    )


def _gemm_m(operation: Operation, shape: Shape) -> float | None:
    match operation:
        case Linear():
            return float(shape.rank_tokens)
        case Attention():
            return float(operation.group_size * shape.width)
        case LatentAttention():
            return float(operation.heads * shape.width)
        case Experts():
            tokens = shape.requests * shape.width
            return float(tokens * operation.top_k / distinct_experts(tokens, operation.experts, operation.top_k))
        case _:
            return None


def _numbers(operation: Operation, shape: Shape, chip: Chip) -> dict[str, Any]:
    """The sizes of one operation and its kernel's figures, by name."""
    numbers: dict[str, Any] = {
        name: getattr(operation, name)
        for name in operation.__struct_fields__
        if name not in ("name", "group", "count") and getattr(operation, name) is not None
    }
    numbers |= {"requests": float(shape.rank_requests), "width": float(shape.width), "context": float(shape.context)}
    if isinstance(operation, Experts):
        tokens = shape.requests * shape.width
        numbers["distinct_experts"] = float(distinct_experts(tokens, operation.experts, operation.top_k))
    figures = kernel_figures(operation, chip)
    if figures is not None:
        numbers |= {name: value for name, value in msgspec.structs.asdict(figures).items() if value is not None}
    tile = numbers.pop("tile", None)  # plain numbers only: what takes over for many rows stands beside the rest
    if isinstance(tile, msgspec.Struct):
        numbers |= {f"tile_{name}": value for name, value in msgspec.structs.asdict(tile).items()}
    return numbers
