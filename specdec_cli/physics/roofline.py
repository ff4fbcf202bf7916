"""Operation + hardware -> seconds: one pure function per kind of kernel, vectorised by numpy broadcasting.

All arguments and results are SI (s, bytes, FLOP/s, bytes/s). Every function returns a `Cost`, whose parts let
`explain` say what bounds an operation. The forms and their constants' meaning: DESIGN section 3 of the project,
re-stated in each docstring; the constants come from the hardware profile, which names their source.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec_cli.profiles.schema import AllReduce, AttentionKernel, GemmKernel, MlaKernel, MoeKernel
from specdec_cli.units import ACTIVATION_BYTES, US

Floats = NDArray[np.float64]

TAU_K_REFERENCE = 8192  # tau_k_us is stated for a K of this length
MLA_TAU_L_REFERENCE = 256  # tau_l_us counts doublings of the context past this many tokens
MLA_ROW_TILE = 64  # absorbed MLA kernels pad their rows to this many (measured tables, every chip)
SMALLEST_ROW_TILE = 16  # rows of the smallest tensor-core tile: attention pads to 16, 32, 64, then whole tiles

SMALLEST = 5e-324  # above 0

# Largest over mean tokens per GPU under expert parallelism: one constant fits serving runs as well as any
# imbalance model that was tried.
EXPERT_PARALLEL_IMBALANCE = 1.15


class Cost(NamedTuple):
    """Time of an operation and where it goes; arrays of one common shape, s, FLOP and bytes.

    `seconds` is the expected time. `compute_s` and `memory_s` are the two sides at achieved rates, before they
    overlap; `fixed_s` what does not shrink with the work (launches, floors). `flops` are those asked for,
    without padding.
    """

    seconds: Floats
    compute_s: Floats
    memory_s: Floats
    fixed_s: Floats
    flops: Floats
    bytes: Floats

    def times(self, count: float) -> Cost:
        """`count` such operations, one after the other."""
        return self if count == 1 else Cost(*(part * count for part in self))

    def upper_s(self) -> Floats:
        """Nothing overlaps: the sum of both sides and the fixed part. A fitted exponent below 1 stands for more than
        that (kernels whose two sides hinder each other), so the expected time is the least that it can be."""
        return np.maximum(self.compute_s + self.memory_s + self.fixed_s, self.seconds)


def p_norm(a: ArrayLike, b: ArrayLike, p: float) -> Floats:
    """(a^p + b^p)^(1/p), scaled so that neither power under- nor overflows. p = 1: sum; large p: max."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if p == 1.0:
        added: Floats = a + b
        return added
    top = np.maximum(a, b)
    with np.errstate(under="ignore"):
        ratio: Floats = (np.minimum(a, b) / np.maximum(top, SMALLEST)) ** p  # 0 where both are
    combined: Floats = top * (1.0 + ratio) ** (1.0 / p)
    return combined


def cost(compute_s: Floats, memory_s: Floats, fixed_s: Floats, p: float, flops: Floats, moved: Floats) -> Cost:
    """Put the sides together: overlap by the p-norm, the fixed part on top."""
    overlapped = p_norm(compute_s, memory_s, p)
    parts = np.broadcast_arrays(overlapped + fixed_s, compute_s, memory_s, fixed_s, flops, moved)
    return Cost(*(np.asarray(part, dtype=np.float64) for part in parts))


def padded_rows(rows: ArrayLike, tile: int) -> Floats:
    """Rows that an attention kernel computes for `rows` wanted: the next power of two >= 16 below the tile,
    then whole tiles. (Measured: no padding to a full tile at small row counts.)"""
    rows = np.asarray(rows, dtype=np.float64)
    power = 2.0 ** np.ceil(np.log2(np.maximum(rows, 1.0)))
    small = np.minimum(np.maximum(power, SMALLEST_ROW_TILE), tile)
    return np.where(rows <= tile, small, np.ceil(rows / tile) * tile)


def gemm_seconds(
    m: ArrayLike,
    n: float,
    k: float,
    weight_bytes: float,
    *,
    peak: float,
    bandwidth: float,
    kernel: GemmKernel,
    tile_peak: float = 0.0,
) -> Cost:
    """A dense matrix multiplication (M, K) x (K, N).

    t = sqrt(((F / (eta_c P))^p + (Q / (eta_m beta))^p)^(2/p) + (tau_k K/8192)^2) + tau + Q_quant / (eta_q beta)

    with F = 2 M N K, Q = N K w + M (K a + 2 N): outputs leave in bf16, Q_quant = M K (2 + a): activations read in bf16
    and written in the low precision, for kernels that quantise them. The serial reduction along K runs beside the
    streaming of the weights and shows only where it is the longer of the two, in skinny GEMMs.
    Above the most rows that a mat-vec kernel is given, its tile kernel's F / (eta_c P) + Q / (eta_m beta) + tau, or
    the mat-vec kernel's longest time where that is longer: more rows never take less.

    Args:
        m: rows (tokens), any shape. n, k: sizes of the weight matrix on this GPU. weight_bytes: per weight.
        peak, tile_peak: FLOP/s of the compute dtypes of the kernel and its tile kernel. bandwidth: bytes/s.
    """
    m = np.asarray(m, dtype=np.float64)
    tile = kernel.tile
    own = _one_gemm(m if tile is None else np.minimum(m, tile.above_rows), n, k, weight_bytes, peak, bandwidth, kernel)
    if tile is None:
        return own
    flops, moved = _gemm_work(m, n, k, weight_bytes, kernel)
    compute_s, memory_s = flops / (tile.eta_c * tile_peak), moved / (tile.eta_m * bandwidth)
    by_tiles = cost(compute_s, memory_s, np.full_like(m, kernel.tau_us * US), 1.0, flops, moved)
    by_tiles = by_tiles._replace(seconds=np.maximum(by_tiles.seconds, own.seconds))
    many = m > tile.above_rows
    return Cost(*(np.where(many, theirs, ours) for ours, theirs in zip(own, by_tiles, strict=True)))


def _gemm_work(m: Floats, n: float, k: float, weight_bytes: float, kernel: GemmKernel) -> tuple[Floats, Floats]:
    """FLOPs and bytes of a matrix multiplication."""
    moved = n * k * weight_bytes + m * (k * activation_bytes(kernel) + n * ACTIVATION_BYTES)
    return m * (2.0 * n * k), moved


def _one_gemm(
    m: Floats, n: float, k: float, weight_bytes: float, peak: float, bandwidth: float, kernel: GemmKernel
) -> Cost:
    flops, moved = _gemm_work(m, n, k, weight_bytes, kernel)
    compute_s, memory_s = flops / (kernel.eta_c * peak), moved / (kernel.eta_m * bandwidth)
    overlapped = p_norm(compute_s, memory_s, kernel.overlap_exponent)
    serial_s = kernel.tau_k_us * US * k / TAU_K_REFERENCE
    # Not np.hypot, which takes ten times as long; rounding must not make the sum of two squares the smaller.
    with_serial = np.maximum(np.sqrt(overlapped * overlapped + serial_s * serial_s), overlapped)
    seconds = with_serial + kernel.tau_us * US
    fixed = seconds - overlapped
    if kernel.eta_q is not None:
        quantise = m * (k * (ACTIVATION_BYTES + activation_bytes(kernel)) / (kernel.eta_q * bandwidth))
        seconds, memory_s = seconds + quantise, memory_s + quantise
    return Cost(seconds, compute_s, memory_s, fixed, flops, moved)


def activation_bytes(kernel: GemmKernel | MoeKernel) -> float:
    """Bytes of one activation inside the kernel, by the dtype that it computes in."""
    return {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5625}[kernel.compute]


def attention_seconds(
    requests: ArrayLike,
    rows: ArrayLike,
    context: ArrayLike,
    *,
    kv_heads: float,
    kv_dim: float,
    kv_element_bytes: float,
    peak: float,
    bandwidth: float,
    kernel: AttentionKernel,
    tile: int,
    windowed: bool = False,
) -> Cost:
    """Decode attention: each request's KV is read once, whatever the verify width.

    t = floor + sqrt((Q / (eta_m beta))^2 + (F / (eta_c P))^2),  Q = B L kv d b,  F = 2 B kv R_pad d L,  R = G W

    with d the cached elements of a KV head and token: key width + value width, so that F counts QK^T and PV.

    Args:
        requests: B on this GPU. rows: R = query heads per KV head x verify width. context: cached tokens read.
        kv_heads: on this GPU. kv_dim: d. peak: bf16 FLOP/s. windowed: apply the kernel's `window_factor`.
    """
    requests, rows, context = (np.asarray(x, dtype=np.float64) for x in (requests, rows, context))
    moved = requests * context * kv_heads * kv_dim * kv_element_bytes
    per_row = 2.0 * requests * kv_heads * kv_dim * context
    compute = per_row * padded_rows(rows, tile) / (kernel.eta_c * peak)
    factor = kernel.window_factor if windowed else 1.0
    fixed = np.full(np.broadcast_shapes(moved.shape, rows.shape), kernel.floor_us * US * factor)
    return cost(
        compute * factor,
        moved * factor / (kernel.eta_m * bandwidth),
        fixed,
        2.0,
        per_row * rows,
        moved + 0.0 * rows,
    )


def mla_seconds(
    requests: ArrayLike,
    rows: ArrayLike,
    context: ArrayLike,
    *,
    latent_dim: float,
    rope_dim: float,
    kv_element_bytes: float,
    peak: float,
    bandwidth: float,
    kernel: MlaKernel,
    cache_reads: ArrayLike = 1.0,
) -> Cost:
    """Absorbed multi-head latent attention: every query head attends to one shared latent cache.

    t = p-norm(F / (eta_c P), Q / (eta_m beta)) + tau + tau_l max(0, log2(L / 256)),
    Q = B L (latent + rope) b, F = 2 B ceil(heads W / 64) 64 L (2 latent + rope)

    Args:
        rows: query heads on this GPU x verify width. cache_reads: 1, or W for kernels without multi-query verify.
    """
    requests, rows, context = (np.asarray(x, dtype=np.float64) for x in (requests, rows, context))
    moved = requests * context * (latent_dim + rope_dim) * kv_element_bytes * np.asarray(cache_reads, np.float64)
    per_row = 2.0 * requests * context * (2.0 * latent_dim + rope_dim)
    compute = per_row * np.ceil(rows / MLA_ROW_TILE) * MLA_ROW_TILE / (kernel.eta_c * peak)
    doublings = np.maximum(0.0, np.log2(np.maximum(context, 1.0) / MLA_TAU_L_REFERENCE))
    fixed = (kernel.tau_us + kernel.tau_l_us * doublings) * US
    return cost(
        compute,
        moved / (kernel.eta_m * bandwidth),
        fixed + 0.0 * compute,
        kernel.overlap_exponent,
        per_row * rows,
        moved,
    )


def distinct_experts(tokens: ArrayLike, experts: int, top_k: int) -> Floats:
    """Expected number of experts that `tokens` touch under uniform independent routing: E (1 - (1 - k/E)^T)."""
    tokens = np.asarray(tokens, dtype=np.float64)
    if top_k >= experts:
        return np.where(tokens > 0, float(experts), 0.0)
    return -experts * np.expm1(tokens * math.log1p(-top_k / experts))


def moe_seconds(
    tokens: ArrayLike,
    touched_by: ArrayLike,
    *,
    experts: int,
    top_k: int,
    hidden: float,
    intermediate: float,
    matrices: int,
    weight_bytes: float,
    expert_parallel: int,
    peak: float,
    bandwidth: float,
    kernel: MoeKernel,
) -> Cost:
    """The routed experts of one layer on one GPU.

    t = ((F / (eta_c P))^p + (Qw / (eta_m beta))^p)^(1/p) + Qa / (eta_a beta) + tau
    Qw = distinct/ep n_mat H I w, rows = T k / ep, F = 2 rows n_mat H I,
    Qa = rows (H (a + 2) + (2 (n_mat - 1) + 2 + a) I) + T H (2 + a)

    Args:
        tokens: T of the whole expert group. touched_by: effective tokens for the count of distinct experts (below
        T where a request's draft tokens share experts). intermediate: width of an expert on this GPU.
    """
    tokens = np.asarray(tokens, dtype=np.float64)
    activation = activation_bytes(kernel)
    imbalance = EXPERT_PARALLEL_IMBALANCE if expert_parallel > 1 else 1.0
    rows = tokens * top_k / expert_parallel
    distinct = distinct_experts(touched_by, experts, top_k) / expert_parallel
    matrix = matrices * hidden * intermediate
    flops = 2.0 * rows * matrix
    weights = distinct * matrix * weight_bytes
    traffic = rows * (
        hidden * (activation + ACTIVATION_BYTES) + (2.0 * (matrices - 1) + ACTIVATION_BYTES + activation) * intermediate
    ) + tokens * hidden * (ACTIVATION_BYTES + activation)
    base = cost(
        imbalance * flops / (kernel.eta_c * peak),
        weights / (kernel.eta_m * bandwidth),
        np.full_like(tokens, kernel.tau_us * US),
        kernel.overlap_exponent,
        flops,
        weights + traffic,
    )
    moving = imbalance * traffic / (kernel.eta_a * bandwidth)
    return base._replace(seconds=base.seconds + moving, memory_s=base.memory_s + moving)


def state_seconds(
    requests: ArrayLike,
    width: ArrayLike,
    *,
    state_bytes: float,
    floor_us: float,
    eta_m: float,
    bandwidth: float,
    saves_each_position: bool,
) -> Cost:
    """A recurrent layer's step: the fixed state is read once and written once, or once for each verified token
    where every position's state is saved for a rollback. An engine that saves none replays: after a verification it
    runs the accepted tokens over the state from before it once more.

    t = (1 + replays) (floor + B state (1 + writes) / (eta_m beta))
    """
    requests, width = np.broadcast_arrays(np.asarray(requests, np.float64), np.asarray(width, np.float64))
    writes = width if saves_each_position else np.ones_like(width)
    passes = np.ones_like(width) if saves_each_position else np.where(width > 1.0, 2.0, 1.0)
    moved = requests * state_bytes * (1.0 + writes) * passes
    zero = np.zeros_like(moved)
    return cost(zero, moved / (eta_m * bandwidth), floor_us * US * passes + zero, 1.0, zero, moved)


def traffic_seconds(moved: ArrayLike, fixed_s: float, *, bandwidth: float) -> Cost:
    """Element-wise kernels (norms, rope, sampling): bytes over the bandwidth, plus their launches."""
    moved = np.asarray(moved, dtype=np.float64)
    zero = np.zeros_like(moved)
    return cost(zero, moved / bandwidth, np.full_like(moved, fixed_s), 1.0, zero, moved)


def all_reduce_seconds(
    message_bytes: ArrayLike, gpus: int, *, link_bandwidth: float, figures: AllReduce, skew_us_per_peer: float
) -> Cost:
    """A tensor-parallel all-reduce: latency + skew (n - 1) + 2 (n - 1)/n bytes / (efficiency link).

    Args:
        message_bytes: of the reduced tensor. link_bandwidth: bytes/s per direction that `gpus` can use together.
    """
    message_bytes = np.asarray(message_bytes, dtype=np.float64)
    moved = 2.0 * (gpus - 1) / gpus * message_bytes
    fixed = np.full_like(moved, (figures.latency_us + skew_us_per_peer * (gpus - 1)) * US)
    zero = np.zeros_like(moved)
    return cost(zero, moved / (figures.efficiency * link_bandwidth), fixed, 1.0, zero, moved)
