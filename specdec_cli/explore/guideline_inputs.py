"""From one computed point to the plain numbers that the five guidelines take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np

from specdec_cli.errors import SpecdecError
from specdec_cli.explore.grid import Grid, evaluate
from specdec_cli.explore.guideline_mechanisms import MechanismOption, g4_low_latency, g5_mechanism
from specdec_cli.explore.guideline_records import (
    DEFAULT_THRESHOLDS,
    AttentionGroup,
    Choice,
    Guideline,
    LinearGroup,
)
from specdec_cli.explore.guidelines import FREE_TOLERANCE, g1_linear_layers, g2_attention_start, g3_tile_alignment
from specdec_cli.explore.scenario import Note, Options, Scenario, resolve
from specdec_cli.physics.chip import Chip, Shape, kernel_figures, operation_cost
from specdec_cli.physics.operations import Attention, Experts, LatentAttention, Linear
from specdec_cli.physics.roofline import activation_bytes
from specdec_cli.physics.step import pass_breakdown
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.schema import GemmKernel, Model, MoeFfn, MoeKernel
from specdec_cli.units import KV_BYTES, WEIGHT_BYTES

FREE_ROWS_SEARCHED = 1024  # verify widths tried when looking for the end of free attention


def work_out_guidelines(
    library: Library,
    options: Options,
    scenario: Scenario,
    batch: int,
    draft_length: int,
    tie: float,
    *,
    warn: Callable[[Note], None] = lambda note: None,
) -> tuple[Guideline, ...]:
    """The five guidelines at one point of one scenario. `warn` hears of drafters that could not be compared."""
    limits = msgspec.structs.replace(DEFAULT_THRESHOLDS, tie=tie)
    shape = _shape(scenario, batch)
    target_s = float(scenario.step.host_s(shape.requests)[()])
    costs = pass_breakdown(scenario.step.target, shape, scenario.step.chip)
    target_s += sum(float(cost.seconds.sum()) for _, cost in costs)
    shares = [(operation, float(cost.seconds.sum()) / target_s) for operation, cost in costs]
    linears = [
        _linear_group(operation, share, scenario.step.chip, batch, scenario)
        for operation, share in shares
        if isinstance(operation, Linear | Experts)
    ]
    attentions = [
        _attention_group(operation, share, scenario, shape)
        for operation, share in shares
        if isinstance(operation, Attention | LatentAttention)
    ]
    choice = _choice(scenario, batch, draft_length)
    chosen = scenario.drafter_name if draft_length else "none"
    return (
        g1_linear_layers(linears, choice, limits),
        g2_attention_start(attentions, choice, limits),
        g3_tile_alignment(attentions, choice, limits),
        g4_low_latency(choice, limits),
        g5_mechanism(_mechanisms(library, options, scenario, batch, draft_length, warn), chosen, limits),
    )


def _shape(scenario: Scenario, batch: int) -> Shape:
    one = np.ones(())
    return scenario.step.shape(one * float(batch), one, one * float(scenario.context))


def _linear_group(operation: Linear | Experts, share: float, chip: Chip, batch: int, scenario: Scenario) -> LinearGroup:
    kernel = kernel_figures(operation, chip)
    assert isinstance(kernel, GemmKernel | MoeKernel)  # what linears and experts are priced with
    if isinstance(operation, Linear):
        rows = float(_shape(scenario, batch).rank_tokens)
        n, k, experts = operation.n, operation.k, None
    else:
        rows = batch * operation.top_k / operation.experts
        n, k = (operation.matrices - 1) * operation.intermediate, float(operation.hidden)
        experts = (operation.experts, operation.top_k)
    return LinearGroup(
        name=operation.name,
        time_share=share,
        gemm_m=rows,
        n=round(n),
        k=round(k),
        weight_bytes=WEIGHT_BYTES[operation.dtype],
        activation_bytes=activation_bytes(kernel),
        peak_flops_per_s=chip.peak(kernel.compute),
        bandwidth_bytes_per_s=chip.bandwidth,
        experts=experts,
    )


def _attention_group(
    operation: Attention | LatentAttention, share: float, scenario: Scenario, shape: Shape
) -> AttentionGroup:
    latent = isinstance(operation, LatentAttention)
    group_size = operation.heads if isinstance(operation, LatentAttention) else operation.group_size
    return AttentionGroup(
        name=operation.name,
        time_share=share,
        group_size=round(group_size),
        tile=scenario.step.chip.tile,
        kv_bytes=KV_BYTES[scenario.step.chip.kv_dtype],
        free_rows=_free_rows(operation, group_size, scenario, shape),
        is_mla=latent,
    )


def _free_rows(
    operation: Attention | LatentAttention, group_size: float, scenario: Scenario, shape: Shape
) -> float | None:
    """Rows up to which the computed attention time stays within the tolerance of its time at one token."""
    widths = np.arange(1.0, FREE_ROWS_SEARCHED + 1.0)
    seconds = operation_cost(operation, shape._replace(width=widths), scenario.step.chip).seconds
    beyond = np.flatnonzero(seconds > seconds[0] * (1.0 + FREE_TOLERANCE))
    return None if not len(beyond) else float(group_size * widths[beyond[0] - 1])


def _full_grid(scenario: Scenario, batch: int) -> Grid:
    """Every draft length from 0 to the largest asked for, at one batch."""
    return evaluate(replace(scenario, batches=(batch,), draft_lengths=tuple(range(max(scenario.draft_lengths) + 1))))


def _choice(scenario: Scenario, batch: int, draft_length: int) -> Choice:
    grid = _full_grid(scenario, batch)
    last = int(np.flatnonzero(grid.usable[0]).max())
    fits = np.flatnonzero(grid.fits[0])
    stop = last + 1
    step = grid.times.step_s[0, draft_length]
    return Choice(
        batch=batch,
        draft_length=draft_length,
        acceptance_length=[float(a) for a in grid.acceptance_length[:stop]],
        verify_s=[float(v) for v in grid.times.verify_s[0, :stop]],
        draft_s=[float(d) for d in grid.times.draft_s[0, :stop]],
        target_s=float(grid.times.target_s[0, 0]),
        launch_share=float(grid.times.fixed_s[0, draft_length] / step),
        draft_layers=_draft_layers(scenario),
        target_layers=sum(block.repeat for block in scenario.model.blocks),
        sequential=scenario.plan is not None and scenario.plan.sequential,
        moe=_moe(scenario.model),
        memory_draft_limit=int(fits.max()) if len(fits) < len(grid.fits[0]) else None,
    )


def _moe(model: Model) -> tuple[int, int] | None:
    for block in model.blocks:
        ffn = model.ffn[block.ffn] if block.ffn else None
        if isinstance(ffn, MoeFfn):
            return ffn.experts, ffn.top_k
    return None


def _draft_layers(scenario: Scenario) -> int:
    """Layers that one draft pass runs; 0 for a look-up or no drafter."""
    if scenario.plan is None:
        return 0
    return round(sum(op.count for op in scenario.plan.body if isinstance(op, Attention | LatentAttention)))


def _mechanisms(
    library: Library,
    options: Options,
    scenario: Scenario,
    batch: int,
    draft_length: int,
    warn: Callable[[Note], None],
) -> list[MechanismOption]:
    """The chosen drafter and every other with measured acceptance for this target, each at its best draft length."""
    found: list[MechanismOption] = []
    if scenario.drafter is not None:
        found += _at_its_best(scenario, batch, draft_length or None)
    for loaded in library.drafters_for(scenario.model.name):
        name = loaded.record.name
        if name == scenario.drafter_name:
            continue
        try:
            if library.default_acceptance(scenario.model.name, name) is None:
                continue
            for rival in resolve(library, _asking_for(name, options, scenario)).scenarios:
                found += _at_its_best(rival, batch, None)
        except SpecdecError as error:  # a rival that cannot be priced must not take the answer with it
            warn(Note("drafter_not_compared", f"{name} is left out of guideline 5: {error}"))
    return found


def _at_its_best(scenario: Scenario, batch: int, draft_length: int | None) -> list[MechanismOption]:
    """The drafter at `draft_length`, or at its best one; nothing where it cannot be used."""
    grid = _full_grid(scenario, batch)
    usable = grid.usable[0] & (grid.draft_lengths > 0) & np.array([b != "extrapolated" for b in grid.basis])
    if draft_length is None and not usable.any():
        return []
    best = draft_length if draft_length is not None else int(np.argmax(np.where(usable, grid.speedup[0], 0.0)))
    return [_mechanism_option(scenario, grid, best, batch)]


def _asking_for(drafter: str, options: Options, scenario: Scenario) -> Options:
    """The same question with another drafter of the target, on this scenario's chip and layout alone."""
    said = options.hardware
    return replace(
        options,
        drafter=drafter,
        hardware=scenario.hardware.name if said is None or "," in said else said,
        tp=str(scenario.layout.tp),
        acceptance=None,
        acceptance_rate=None,
        acceptance_length=None,
        draft_lengths=None,
        tree_topk=None,  # rivals stand as they were measured
        verify_width=None,
    )


def _mechanism_option(scenario: Scenario, grid: Grid, draft_length: int, batch: int) -> MechanismOption:
    assert scenario.drafter is not None  # the caller offers drafters only
    memory = scenario.memory
    requests = np.ceil(batch / scenario.layout.ranks)
    extra = memory.draft_weights + requests * memory.draft_kv_per_request
    return MechanismOption(
        drafter=scenario.drafter.name,
        mechanism=scenario.drafter.mechanism,
        best_draft_length=draft_length,
        acceptance_length=float(grid.acceptance_length[draft_length]),
        draft_s=float(grid.times.draft_s[0, draft_length]),
        verify_s=float(grid.times.verify_s[0, draft_length]),
        speedup=float(grid.speedup[0, draft_length]),
        memory_bytes=float(extra),
        training=scenario.drafter.training,
    )
