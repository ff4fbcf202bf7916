"""The five guidelines for choosing a draft length, each beside what the model computes. This file: G1 to G3.

Source of the guidelines: NVIDIA Technical Blog, 2026-09-02, "Co-Designing AI Models Using Speculative Decoding
for Faster LLM Inference". They explain and cross-check a computed choice; they never make it. Where published
measurements qualify one (free rows end below a tile, experts with few rows), both figures are given.
G = query heads per KV head on one GPU, M = GEMM rows at D = 0, D = draft length, AL = acceptance length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from specdec_cli.explore.guideline_mechanisms import g4_low_latency, g5_mechanism
from specdec_cli.explore.guideline_records import (
    DEFAULT_THRESHOLDS,
    AttentionGroup,
    Choice,
    Guideline,
    LinearGroup,
    Numbers,
    Thresholds,
    Verdict,
    compare,
    say,
)

__all__ = [
    "aligned_draft_lengths",
    "d_attention",
    "d_gemm",
    "g1_linear_layers",
    "g2_attention_start",
    "g3_tile_alignment",
    "g4_low_latency",
    "g5_mechanism",
    "m_ridge",
    "ridge_batch",
]

FREE_TOLERANCE = 0.05
"""How far attention time may stand above its floor and still count as free (what `free_rows` was computed for)."""


def m_ridge(
    n: int,
    k: int,
    weight_bytes: float,
    activation_bytes: float,
    peak_flops_per_s: float,
    bandwidth_bytes_per_s: float,
) -> float:
    """GEMM rows M at which a GEMM turns from memory-bound to compute-bound; math.inf where it never does.

    2*M*N*K / P = (N*K*w + M*(K + N)*a) / beta solved for M. With free activations (a = 0): w*P / (2*beta).
    Infinite where one more row moves bytes for longer than it computes (small K: part 1's K = 512, N = 8192).
    """
    row_compute_s = 2 * n * k / peak_flops_per_s
    row_memory_s = (k + n) * activation_bytes / bandwidth_bytes_per_s
    weights_s = n * k * weight_bytes / bandwidth_bytes_per_s
    return weights_s / (row_compute_s - row_memory_s) if row_compute_s > row_memory_s else math.inf


def d_gemm(ridge: float, gemm_m: float) -> int | None:
    """Largest D that keeps M(1+D) within the ridge: floor(M_ridge / M) - 1, not below 0; None: no bound."""
    return None if math.isinf(ridge) else max(0, math.floor(ridge / gemm_m) - 1)


def ridge_batch(ridge: float, rows_per_request: float, draft_length: int) -> float:
    """Batch at which a GEMM with so many rows per request at D = 0 turns compute-bound at that D."""
    return ridge / (rows_per_request * (1 + draft_length))


def d_attention(group_size: int, tile: int = 128) -> int:
    """Where to start when attention dominates: tile/G - 1, in integers and not below 0."""
    return max(0, tile // group_size - 1)


def aligned_draft_lengths(group_size: int, tile: int = 128, *, count: int = 3, at_least: int = 1) -> list[int]:
    """The first `count` D >= at_least (and >= 1) that fill whole tiles: G(1+D) a multiple of the tile."""
    step = tile // math.gcd(group_size, tile)
    first = max(1, math.ceil((max(at_least, 1) + 1) / step))
    return [step * j - 1 for j in range(first, first + count)]


def g1_linear_layers(
    groups: Sequence[LinearGroup], choice: Choice, limits: Thresholds = DEFAULT_THRESHOLDS
) -> Guideline:
    """Guideline 1: raise D until the linear layers turn compute-bound.

    Suggests the time-weighted median of D_gemm over the groups: up to it, half of the time spent in linear
    layers is still memory-bound. Groups without a ridge count as unbounded, and so do experts that see less
    than one row each: they read new weights with every token and never meet their ridge first.
    """
    title = "Linear layers: raise D towards the compute-bound region"
    share = math.fsum(group.time_share for group in groups)
    numbers: Numbers = {"linear_share": share, "linear_share_threshold": limits.linear_share}
    if not groups or share <= 0:
        why = say("No linear layer takes time in the target pass ({linear_share:%}).", numbers)
        return Guideline("G1", title, False, why, numbers, None, "not_applicable")
    ridges = [_ridge(group) for group in groups]
    bounds = [
        None if group.experts is not None and group.gemm_m < 1 else d_gemm(ridge, group.gemm_m)
        for group, ridge in zip(groups, ridges, strict=True)
    ]
    middle = _weighted_median([group.time_share for group in groups], bounds)
    decides, ridge, suggests = groups[middle], ridges[middle], bounds[middle]
    numbers |= {
        "batch": choice.batch,
        "groups": [group.name for group in groups],
        "time_shares": [group.time_share for group in groups],
        "gemm_m_by_group": [group.gemm_m for group in groups],
        "m_ridge_by_group": [None if math.isinf(r) else r for r in ridges],
        "d_gemm_by_group": list(bounds),
        "group": decides.name,
        "gemm_m": decides.gemm_m,
        "gemm_m_verify": decides.gemm_m * (1 + choice.draft_length),
        "m_ridge": None if math.isinf(ridge) else ridge,
        "d_gemm": suggests,
    }
    text = "Linear layers take {linear_share:%} of the target pass"
    if share < limits.linear_share:
        text += ", below the {linear_share_threshold:%} where their turning compute-bound would move the step."
        return Guideline("G1", title, False, say(text, numbers), numbers, None, "not_applicable")
    text += "; {group} decides with GEMM-M = {gemm_m}"
    if not math.isinf(ridge):
        rows_per_request = decides.gemm_m / choice.batch
        numbers["ridge_batch_off"] = ridge_batch(ridge, rows_per_request, 0)
        numbers["ridge_batch"] = ridge_batch(ridge, rows_per_request, choice.draft_length)
    if suggests is not None:
        text += " against a ridge of {m_ridge} rows: memory-bound up to D = {d_gemm}."
    elif math.isinf(ridge):
        text += " and no ridge, its own inputs and outputs keep it memory-bound: no bound on D."
    else:
        text += " rows per expert, below one: experts are read anew before they fill, so no bound on D."
    text += _experts_clause(groups, choice, numbers)
    found = compare(choice, choice.draft_length + 1 if suggests is None else suggests, limits)
    # Without a bound the guideline only says that drafting pays: the next step up shows what stops it instead.
    follows = found.follows or (suggests is None and choice.draft_length > 0)
    numbers |= found.numbers
    verdict: Verdict = "follows" if follows else "departs"
    return Guideline("G1", title, True, say(f"{text} {found.sentence}", numbers), numbers, suggests, verdict)


def _ridge(group: LinearGroup) -> float:
    return m_ridge(
        group.n,
        group.k,
        group.weight_bytes,
        group.activation_bytes,
        group.peak_flops_per_s,
        group.bandwidth_bytes_per_s,
    )


def _weighted_median(weights: Sequence[float], values: Sequence[int | None]) -> int:
    """Index of the value at which half of the weight is reached, None counting as the largest."""
    order = sorted(range(len(values)), key=lambda i: math.inf if values[i] is None else float(values[i] or 0))
    half, passed = math.fsum(weights) / 2, 0.0
    for index in order:
        passed += weights[index]
        if passed >= half:
            return index
    return order[-1]


def _experts_clause(groups: Sequence[LinearGroup], choice: Choice, numbers: Numbers) -> str:
    """What measurements add for a mixture: a larger D pays from about B = E/(2k) on."""
    routed = [group for group in groups if group.experts is not None]
    if not routed or choice.moe is None:
        return ""
    experts, top_k = choice.moe
    growth = choice.expert_growth(0, max(choice.draft_length, 1))
    numbers |= {
        "experts": experts,
        "top_k": top_k,
        "rows_per_expert": choice.batch * top_k / experts,
        "moe_pays_from_batch": experts / (2 * top_k),
        "expert_growth_from_off": growth,
        "expert_growth_at": max(choice.draft_length, 1),
    }
    side = "lies past that" if choice.batch >= experts / (2 * top_k) else "lies below"
    return (
        " With {experts} experts, {top_k} a token, measurements see the gain of a larger D from about "
        f"B = {{moe_pays_from_batch}} on (B = {{batch}} {side}): D = {{expert_growth_at}} reads "
        "{expert_growth_from_off:+%} distinct experts."
    )


def _attention_numbers(groups: Sequence[AttentionGroup], choice: Choice, limits: Thresholds) -> Numbers:
    """What G2 and G3 share: the group that takes most time decides."""
    share = math.fsum(group.time_share for group in groups)
    numbers: Numbers = {"attention_share": share, "attention_share_threshold": limits.attention_share}
    if not groups:
        return numbers
    group = _dominant(groups)
    size, width = group.group_size, 1 + choice.draft_length
    free = None if group.free_rows is None else max(0, math.floor(group.free_rows / size) - 1)
    return numbers | {
        "groups": [g.name for g in groups],
        "time_shares": [g.time_share for g in groups],
        "group_sizes": [g.group_size for g in groups],
        "d_attention_by_group": [d_attention(g.group_size, g.tile) for g in groups],
        "group": group.name,
        "group_size": size,
        "tile": group.tile,
        "rows": size * width,
        "d_attention": d_attention(size, group.tile),
        "free_rows": group.free_rows,
        "free_tolerance": FREE_TOLERANCE,
        "d_free": free,
        "draft_length": choice.draft_length,
    }


def _dominant(groups: Sequence[AttentionGroup]) -> AttentionGroup:
    return max(groups, key=lambda group: group.time_share)


def _below_threshold(groups: Sequence[AttentionGroup], limits: Thresholds, numbers: Numbers) -> str | None:
    """The sentence that says why attention guidelines do not apply; None where they do."""
    if not groups:
        return say("No layer reads a KV cache: attention takes {attention_share:%} of the pass.", numbers)
    if math.fsum(group.time_share for group in groups) >= limits.attention_share:
        return None
    text = (
        "Attention takes {attention_share:%} of the target pass, below the {attention_share_threshold:%} "
        "where it dominates; it would start at D = {d_attention}"
    )
    return say(f"{text}{_free_clause(numbers)}.", numbers)


def _free_clause(numbers: Numbers) -> str:
    """The computed free draft length beside the published one."""
    if numbers["d_free"] is None:
        return " (computed, its time never leaves the floor)"
    return " (computed, its time stays within {free_tolerance:%} of the floor to D = {d_free}, {free_rows} rows)"


def g2_attention_start(
    groups: Sequence[AttentionGroup], choice: Choice, limits: Thresholds = DEFAULT_THRESHOLDS
) -> Guideline:
    """Guideline 2: where attention dominates, start at D = tile/G - 1. A start: a larger D follows it too."""
    title = "Attention: where it dominates, start at a full tile of query rows"
    numbers = _attention_numbers(groups, choice, limits)
    reason = _below_threshold(groups, limits, numbers)
    if groups:
        group = _dominant(groups)
        # Two FLOP for each query head and cached element, at b bytes an element: 2G/b, times W when verifying.
        intensity = 2 * group.group_size / group.kv_bytes
        numbers |= {
            "kv_bytes": group.kv_bytes,
            "flop_per_byte_off": intensity,
            "flop_per_byte": intensity * (1 + choice.draft_length),
        }
    if reason is not None:
        return Guideline("G2", title, False, reason, numbers, None, "not_applicable")
    start = d_attention(group.group_size, group.tile)
    heads = "query heads share the latent cache" if group.is_mla else "query heads share a KV head"
    text = (
        "Attention takes {attention_share:%} of the target pass; {group_size} "
        f"{heads}, so a tile of {{tile}} rows is full at D = {{d_attention}}{_free_clause(numbers)}."
    )
    if choice.draft_length > start:
        text += " The choice, D = {draft_length}, lies past that start, as it may."
        return Guideline("G2", title, True, say(text, numbers), numbers, start, "follows")
    found = compare(choice, start, limits, attention=group)
    numbers |= found.numbers
    return Guideline("G2", title, True, say(f"{text} {found.sentence}", numbers), numbers, start, found.verdict)


def g3_tile_alignment(
    groups: Sequence[AttentionGroup], choice: Choice, limits: Thresholds = DEFAULT_THRESHOLDS
) -> Guideline:
    """Guideline 3: above G2's start prefer D with G(1+D) a multiple of the tile; suggests the nearest such D.

    Applies where attention dominates and the chosen D lies above the start.
    """
    title = "Attention tiles: above the start, fill whole tiles"
    numbers = _attention_numbers(groups, choice, limits)
    reason = _below_threshold(groups, limits, numbers)
    if reason is not None:
        return Guideline("G3", title, False, reason, numbers, None, "not_applicable")
    group, chosen = _dominant(groups), choice.draft_length
    tiles = -(-group.group_size * (1 + chosen) // group.tile)
    numbers |= {
        "tiles": tiles,
        "tile_fill": group.group_size * (1 + chosen) / (tiles * group.tile),
        "alignment_step": group.tile // math.gcd(group.group_size, group.tile),
    }
    if chosen <= d_attention(group.group_size, group.tile):
        text = (
            "Attention takes {attention_share:%} of the target pass, but D = {draft_length} stays within its start, "
            f"D = {{d_attention}}: {{rows}} rows in the first tile of {{tile}}{_free_clause(numbers)}."
        )
        return Guideline("G3", title, False, say(text, numbers), numbers, None, "not_applicable")
    step = group.tile // math.gcd(group.group_size, group.tile)
    below = (1 + chosen) // step * step - 1
    suggests = aligned_draft_lengths(group.group_size, group.tile, at_least=below)
    numbers["aligned"] = list(suggests)
    text = (
        "Attention takes {attention_share:%} of the target pass; "
        "D = {draft_length} makes {rows} rows on {tiles} tiles of {tile}, {tile_fill:%} filled; "
        f"whole tiles are D = {{aligned}}{_free_clause(numbers)}."
    )
    reached = [d for d in suggests if d <= choice.evaluated_to]
    if not reached:
        numbers["evaluated_to"] = choice.evaluated_to
        text += " None of them lies within D = {evaluated_to}, the last with computed figures."
        return Guideline("G3", title, True, say(text, numbers), numbers, suggests, "departs")
    best = chosen if chosen in reached else max(reached, key=choice.speedup)
    found = compare(choice, best, limits, attention=group)
    numbers |= found.numbers
    return Guideline("G3", title, True, say(f"{text} {found.sentence}", numbers), numbers, suggests, found.verdict)
