"""A hardware profile as one engine drives it, in SI units, and what an operation costs on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.physics import roofline
from specdec_cli.physics.operations import (
    AllReduceHidden,
    Attention,
    ExpertExchange,
    Experts,
    IndexerScan,
    LatentAttention,
    Linear,
    Logits,
    Operation,
    RecurrentState,
    SmallKernels,
)
from specdec_cli.physics.roofline import Cost, Floats
from specdec_cli.profiles.schema import AllReduce, Engine, GemmKernel, Hardware, KernelSet, KvDtype, MoeKernel, Record
from specdec_cli.units import ACTIVATION_BYTES, GIGA, KV_BYTES, LOGIT_BYTES, TERA, US, WEIGHT_BYTES

# Bytes of hidden state that the small kernels of a layer move for each token, in multiples of its own size: two
# norms and two residual adds read two and write one or two tensors each.
SMALL_KERNEL_TENSORS = 10

_T = TypeVar("_T")

INDEX_KEY_BYTES = 132 / 128  # an indexer's key element: fp8, and one fp32 scale for each 128


class Shape(NamedTuple):
    """What a forward pass is asked to do; arrays that broadcast together."""

    requests: Floats
    """Requests on the whole replica."""
    width: Floats
    """Tokens of each request in the pass."""
    context: Floats
    """Tokens in each request's KV cache."""
    ranks: int = 1
    """Attention data-parallel ranks that share the requests."""

    @property
    def rank_requests(self) -> Floats:
        """Requests on the fullest attention rank."""
        return self.requests if self.ranks == 1 else np.ceil(self.requests / self.ranks)

    @property
    def rank_tokens(self) -> Floats:
        """Tokens on the fullest attention rank."""
        return self.rank_requests * self.width


@dataclass(frozen=True, slots=True)
class Chip:
    """One GPU, its fabric and the kernels of one engine."""

    name: str
    bandwidth: float
    peaks: dict[str, float]
    kernels: KernelSet
    tile: int
    link_bandwidth: float
    peer_bandwidth: float
    domain_gpus: int
    small_kernels_s: float
    """Of one layer."""
    hides_shared_experts: bool
    mla_reads_once: bool
    saves_states: bool
    kv_dtype: KvDtype

    def peak(self, dtype: str) -> float:
        """Dense FLOP/s; a loaded profile holds a peak for the compute dtype of each of its kernels."""
        return self.peaks[dtype]


def resolve_chip(hardware: Hardware, engine: Engine, kv_dtype: KvDtype) -> Chip:
    """The chip as `engine` drives it."""
    kernels = hardware.kernels.get(engine.kernels, hardware.kernels["default"])
    layer_us = kernels.small_kernels_us_per_layer if engine.cuda_graphs else kernels.eager_us_per_layer
    if engine.small_kernels_us_per_layer is not None:
        layer_us = engine.small_kernels_us_per_layer
    return Chip(
        name=hardware.name,
        bandwidth=hardware.memory_bandwidth_gb_per_s * GIGA,
        peaks={dtype: peak * TERA for dtype, peak in hardware.peak_tflops.items()},
        kernels=kernels,
        tile=hardware.attention_tile,
        link_bandwidth=hardware.link.gb_per_s * GIGA,
        peer_bandwidth=hardware.link.peer_gb_per_s * GIGA,
        domain_gpus=hardware.link.domain_gpus,
        small_kernels_s=layer_us * US,
        hides_shared_experts=engine.shared_experts == "beside",
        mla_reads_once=engine.mla_verify_reads == "once",
        saves_states=engine.recurrent_rollback == "saved_states",
        kv_dtype=kv_dtype,
    )


def all_reduce_figures(table: dict[int, AllReduce], gpus: int, chip: str) -> AllReduce:
    """Figures for `gpus`: as tabled, else interpolated along the number of GPUs; past the largest tabled number
    the latency goes on growing by as much a GPU as between the last two, and the efficiency stays. (In the tables of
    every chip it grows by a constant beside the launch: 4.1, 4.5, 5.3 us among 2, 4, 8 B300.)"""
    if gpus in table:
        return table[gpus]
    if not table:
        raise ProfileError(
            f"{chip} has no all_reduce figures, so tensor parallelism cannot be priced",
            key="kernels.default.all_reduce",
            hint="use --tp 1, or add measured latency_us and efficiency for 2, 4 and 8 GPUs",
        )
    known = sorted(table)
    latency = float(np.interp(gpus, known, [table[n].latency_us for n in known]))
    if gpus > known[-1]:
        last, before = table[known[-1]].latency_us, known[-2:][0]
        each = (last - table[before].latency_us) / (known[-1] - before) if len(known) > 1 else last / (known[-1] - 1)
        latency = last + max(each, 0.0) * (gpus - known[-1])
    efficiency = float(np.interp(gpus, known, [table[n].efficiency for n in known]))
    return AllReduce(latency_us=latency, efficiency=efficiency)


def check_domain(chip: Chip, gpus: int) -> None:
    """Refuse a replica that the fabric does not join: multi-node links are not modelled."""
    if gpus > chip.domain_gpus:
        raise UsageError(
            f"{gpus} GPUs exceed the scale-up domain of {chip.name} ({chip.domain_gpus} GPUs); "
            f"links between nodes are not modelled: use at most --gpus {chip.domain_gpus}, --tp likewise"
        )


def operation_cost(operation: Operation, shape: Shape, chip: Chip) -> Cost:
    """What `operation` costs on `chip`, all its `count` layers together."""
    one: Cost
    match operation:
        case Linear():
            one = _linear(operation, shape.rank_tokens, chip)
        case Attention():
            one = _attention(operation, shape, chip)
        case LatentAttention():
            one = _latent_attention(operation, shape, chip)
        case IndexerScan():
            one = _indexer_scan(operation, shape, chip)
        case RecurrentState():
            one = _recurrent_state(operation, shape, chip)
        case Experts():
            one = _experts(operation, shape, chip)
        case SmallKernels():
            moved = shape.rank_tokens * operation.hidden * ACTIVATION_BYTES * SMALL_KERNEL_TENSORS
            one = roofline.traffic_seconds(moved, chip.small_kernels_s, bandwidth=chip.bandwidth)
        case Logits():
            moved = shape.rank_tokens * operation.vocabulary * LOGIT_BYTES * operation.passes
            one = roofline.traffic_seconds(moved, 0.0, bandwidth=chip.bandwidth)
        case AllReduceHidden():
            one = _all_reduce(operation, shape.rank_tokens, chip)
        case ExpertExchange():
            one = _exchange(operation, shape.rank_tokens, chip)
    return one.times(operation.count)


def _linear(operation: Linear, tokens: Floats, chip: Chip) -> Cost:
    kernel = _figures(chip.kernels.gemm, operation.dtype, chip, "gemm")
    found = roofline.gemm_seconds(
        tokens,
        operation.n,
        operation.k,
        WEIGHT_BYTES[operation.dtype],
        peak=chip.peak(kernel.compute),
        bandwidth=chip.bandwidth,
        kernel=kernel,
        tile_peak=chip.peak(kernel.tile.compute) if kernel.tile is not None else 0.0,
    )
    if operation.independent and chip.hides_shared_experts:
        # On a second stream its launches hide behind the routed experts; its bytes and FLOPs still count.
        return found._replace(seconds=found.seconds - found.fixed_s, fixed_s=np.zeros_like(found.fixed_s))
    return found


def _attention(operation: Attention, shape: Shape, chip: Chip) -> Cost:
    window = operation.window
    return roofline.attention_seconds(
        shape.rank_requests,
        operation.group_size * shape.width,
        shape.context if window is None else np.minimum(shape.context, window),
        kv_heads=operation.kv_heads,
        kv_dim=operation.kv_dim,
        kv_element_bytes=KV_BYTES[chip.kv_dtype],
        peak=chip.peak("bf16"),
        bandwidth=chip.bandwidth,
        kernel=_figures(chip.kernels.attention, chip.kv_dtype, chip, "attention"),
        tile=chip.tile,
        windowed=window is not None,
    )


def _latent_attention(operation: LatentAttention, shape: Shape, chip: Chip) -> Cost:
    return roofline.mla_seconds(
        shape.rank_requests,
        operation.heads * shape.width,
        latent_reads(operation, shape.context),
        latent_dim=operation.latent_dim,
        rope_dim=operation.rope_dim,
        kv_element_bytes=KV_BYTES[chip.kv_dtype],
        peak=chip.peak("bf16"),
        bandwidth=chip.bandwidth,
        kernel=_figures(chip.kernels.mla, chip.kv_dtype, chip, "mla"),
        cache_reads=1.0 if chip.mla_reads_once else shape.width,
    )


def latent_reads(operation: LatentAttention, context: Floats) -> Floats:
    """Tokens and entries that a query reads of `context` cached tokens."""
    if operation.window is None:
        return context if operation.top_k is None else np.minimum(context, operation.top_k)
    recent = np.minimum(context, operation.window)
    if operation.ratio is None:
        return recent
    entries = context / operation.ratio
    return recent + (entries if operation.top_k is None else np.minimum(entries, operation.top_k))


def _indexer_scan(operation: IndexerScan, shape: Shape, chip: Chip) -> Cost:
    figures = chip.kernels.indexer
    if figures is None:
        raise _missing("indexer", "indexed sparse attention", chip, [])
    scanned = shape.context / (operation.ratio or 1)
    keys = shape.rank_requests * scanned * operation.head_dim
    flops = 2.0 * shape.rank_tokens * operation.heads * scanned * operation.head_dim
    moved = keys * INDEX_KEY_BYTES + 0.0 * flops
    compute = flops / chip.peaks.get("fp8", chip.peak("bf16"))
    return roofline.cost(
        compute,
        moved / (figures.eta_m * chip.bandwidth),
        np.full_like(moved, figures.floor_us * US),
        1.0,
        flops,
        moved,
    )


def _recurrent_state(operation: RecurrentState, shape: Shape, chip: Chip) -> Cost:
    figures = chip.kernels.linear_attention
    if figures is None:
        raise _missing("linear_attention", "recurrent layers", chip, [])
    return roofline.state_seconds(
        shape.rank_requests,
        shape.width,
        state_bytes=operation.state_bytes,
        floor_us=figures.floor_us + figures.conv_us,
        eta_m=figures.eta_m,
        bandwidth=chip.bandwidth,
        saves_each_position=chip.saves_states,
    )


def _experts(operation: Experts, shape: Shape, chip: Chip) -> Cost:
    kernel = _figures(chip.kernels.moe, operation.dtype, chip, "moe")
    fresh = 1.0 + (shape.width - 1.0) * (1.0 - operation.routing_overlap)
    served = shape.requests if operation.ranks > 1 else shape.rank_requests
    return roofline.moe_seconds(
        served * shape.width,
        served * fresh,
        experts=operation.experts,
        top_k=operation.top_k,
        hidden=operation.hidden,
        intermediate=operation.intermediate,
        matrices=operation.matrices,
        weight_bytes=WEIGHT_BYTES[operation.dtype],
        expert_parallel=operation.expert_parallel,
        peak=chip.peak(kernel.compute),
        bandwidth=chip.bandwidth,
        kernel=kernel,
    )


def _all_reduce(operation: AllReduceHidden, tokens: Floats, chip: Chip) -> Cost:
    """The engine's own kernel, or the collective library's for messages that it carries faster."""
    gpus = operation.gpus

    def by(table: dict[int, AllReduce]) -> Cost:
        return roofline.all_reduce_seconds(
            tokens * operation.hidden * ACTIVATION_BYTES,
            gpus,
            link_bandwidth=min(chip.link_bandwidth, chip.peer_bandwidth * (gpus - 1)),
            figures=all_reduce_figures(table, gpus, chip.name),
            skew_us_per_peer=chip.kernels.skew_us_per_peer,
        )

    own = by(chip.kernels.all_reduce)
    if not chip.kernels.collective_library:
        return own
    library = by(chip.kernels.collective_library)
    slower = own.seconds > library.seconds
    return Cost(*(np.where(slower, theirs, ours) for ours, theirs in zip(own, library, strict=True)))


def _exchange(operation: ExpertExchange, tokens: Floats, chip: Chip) -> Cost:
    """Dispatch and combine: each of a rank's tokens travels to the GPUs of its experts and back, two launches.

    The latency is an all-reduce's among as many GPUs: both are one round of small messages to every peer.
    """
    gpus = operation.gpus
    figures = all_reduce_figures(chip.kernels.all_reduce, gpus, chip.name)
    link = min(chip.link_bandwidth, chip.peer_bandwidth * (gpus - 1))
    moved = 2.0 * tokens * operation.copies * operation.hidden * ACTIVATION_BYTES * (gpus - 1) / gpus
    zero = np.zeros_like(moved)
    fixed = np.full_like(moved, 2.0 * (figures.latency_us + chip.kernels.skew_us_per_peer * (gpus - 1)) * US)
    return roofline.cost(zero, moved / (figures.efficiency * link), fixed, 1.0, zero, moved)


def lower_bound_s(operation: Operation, costs: Cost, chip: Chip) -> Floats:
    """No operation is faster than its FLOPs at the datasheet's peak or its bytes at the datasheet's bandwidth."""
    if isinstance(operation, AllReduceHidden | ExpertExchange):
        return costs.bytes / chip.link_bandwidth
    peak = operation_peak(operation, chip) or chip.peak("bf16")
    figures = kernel_figures(operation, chip)
    if isinstance(figures, GemmKernel) and figures.tile is not None:
        peak = max(peak, chip.peak(figures.tile.compute))
    return np.maximum(costs.flops / peak, costs.bytes / chip.bandwidth)


def operation_peak(operation: Operation, chip: Chip) -> float | None:
    """The datasheet peak that an operation's arithmetic is held against, FLOP/s; None: element-wise."""
    match operation:
        case Linear() | Experts():
            figures = kernel_figures(operation, chip)
            assert isinstance(figures, GemmKernel | MoeKernel)  # what these two kinds are priced with
            return chip.peak(figures.compute)
        case Attention() | LatentAttention():
            return chip.peak("bf16")
        case IndexerScan():
            return chip.peaks.get("fp8", chip.peak("bf16"))
        case _:
            return None


def kernel_figures(operation: Operation, chip: Chip) -> Record | None:
    """The kernel figures that an operation is priced with; None for element-wise kernels."""
    kernels = chip.kernels
    match operation:
        case Linear():
            return _figures(kernels.gemm, operation.dtype, chip, "gemm")
        case Experts():
            return _figures(kernels.moe, operation.dtype, chip, "moe")
        case Attention():
            return _figures(kernels.attention, chip.kv_dtype, chip, "attention")
        case LatentAttention():
            return _figures(kernels.mla, chip.kv_dtype, chip, "mla")
        case RecurrentState():
            return kernels.linear_attention
        case IndexerScan():
            return kernels.indexer
        case AllReduceHidden() | ExpertExchange():
            return all_reduce_figures(kernels.all_reduce, operation.gpus, chip.name)
        case _:
            return None


# Tensor cores run fp16 at the bf16 rate, and the element is as wide.
SAME_KERNELS = {"fp16": "bf16"}


def _figures(table: Mapping[Any, _T], dtype: str, chip: Chip, family: str) -> _T:
    kernel = SAME_KERNELS.get(dtype, dtype)
    if kernel in table:
        return table[kernel]
    raise _missing(f"{family}.{dtype}", f"{dtype} {family} kernels", chip, list(table))


def _missing(key: str, what: str, chip: Chip, known: list[str]) -> ProfileError:
    have = f"; it has {', '.join(known)}" if known else ""
    return ProfileError(
        f"{chip.name} has no figures for {what}{have}",
        key=f"kernels.default.{key}",
        hint="choose another --weight-dtype or --kv-dtype, or add the figures to a copy of the hardware profile",
    )
