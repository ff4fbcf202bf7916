"""Model + parallelism -> operations with their sizes on one GPU."""

from __future__ import annotations

import msgspec

from specdec_cli.errors import UsageError
from specdec_cli.physics.compressed import compressed_operations
from specdec_cli.physics.operations import (
    LOGIT_PASSES,
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
from specdec_cli.profiles import schema
from specdec_cli.profiles.parameters import layer_state_bytes
from specdec_cli.profiles.schema import PartDtypes, WeightDtype


class Layout(msgspec.Struct, frozen=True):
    """How one replica is spread over GPUs."""

    tp: int = 1
    """Tensor-parallel GPUs of each attention rank."""
    gpus: int = 1
    """GPUs of the replica; gpus / tp attention data-parallel ranks."""
    ep: int = 1
    """Groups that the experts are divided among; gpus / ep GPUs slice each expert."""

    def __post_init__(self) -> None:
        for name, value in (("--tp", self.tp), ("--gpus", self.gpus), ("--ep", self.ep)):
            if value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")
        if self.gpus % self.tp:
            raise UsageError(f"--gpus {self.gpus} is not a multiple of --tp {self.tp}")
        if self.gpus % self.ep:
            raise UsageError(f"--ep {self.ep} does not divide --gpus {self.gpus}")

    @property
    def ranks(self) -> int:
        """Attention data-parallel ranks: each holds the whole attention and a share of the requests."""
        return self.gpus // self.tp

    @property
    def expert_slices(self) -> int:
        """GPUs that share each expert."""
        return self.gpus // self.ep


class Dtypes(msgspec.Struct, frozen=True):
    """The dtype of every part, resolved."""

    attention: WeightDtype
    ffn: WeightDtype
    experts: WeightDtype
    lm_head: WeightDtype
    mtp: WeightDtype
    kv: schema.KvDtype


def resolve_dtypes(
    parts: PartDtypes, *, weight_dtype: WeightDtype | None = None, kv_dtype: schema.KvDtype | None = None
) -> Dtypes:
    """The model's own dtypes, or `weight_dtype` for every part but the head, which `head_dtype` decides."""
    kv = kv_dtype or parts.kv
    if weight_dtype is None:
        own = parts.weights
        return Dtypes(
            attention=parts.attention or own,
            ffn=parts.ffn or own,
            experts=parts.experts or own,
            lm_head=parts.lm_head or own,
            mtp=parts.mtp or own,
            kv=kv,
        )
    return Dtypes(weight_dtype, weight_dtype, weight_dtype, head_dtype(weight_dtype), weight_dtype, kv)


def head_dtype(weights: WeightDtype) -> WeightDtype:
    """What lm_head is stored in when the other weights are in `weights`.

    Quantised checkpoints for GPU engines leave it in bf16 (every quantised configuration among the shipped models
    does); llama.cpp's K-quant and 4-bit mixes store it as Q6_K, its Q8_0 as Q8_0.
    """
    match weights:
        case "bf16" | "fp16" | "fp32" | "q8_0" | "q6_k":
            return weights
        case "q5_k" | "q4_k" | "q4_0":
            return "q6_k"
        case _:
            return "bf16"


def per_gpu_heads(heads: int, kv_heads: int, tp: int) -> tuple[float, float]:
    """(query heads per KV head, KV heads) on one GPU: TP past the KV heads splits a group and copies its cache."""
    kv = max(1.0, kv_heads / tp)
    return max(1.0, heads / tp) / kv, kv


def attention_operations(
    spec: schema.Attention, hidden: int, layout: Layout, dtype: WeightDtype, count: float
) -> list[Operation]:
    """One mixer's projections and its core, `count` layers of it."""
    match spec:
        case schema.Gqa():
            return _gqa_operations(spec, hidden, layout, dtype, count)
        case schema.Mla():
            return _mla_operations(spec, hidden, layout, dtype, count)
        case schema.CompressedAttention():
            return compressed_operations(spec, hidden, layout.tp, dtype, count)
        case schema.GatedDelta():
            return _gated_delta_operations(spec, hidden, layout, dtype, count)
        case schema.Mamba2():
            return _mamba_operations(spec, hidden, layout, dtype, count)


def _gqa_operations(spec: schema.Gqa, hidden: int, layout: Layout, dtype: WeightDtype, count: float) -> list[Operation]:
    group_size, kv_heads = per_gpu_heads(spec.heads, spec.kv_heads, layout.tp)
    query_heads = group_size * kv_heads
    queries = query_heads * spec.head_dim * (2 if spec.output_gate else 1)
    value_dim = spec.value_head_dim or spec.head_dim
    keys_values = kv_heads * (spec.head_dim + (0 if spec.shared_kv else value_dim))
    name = "attention" if spec.window is None else f"attention (window {spec.window})"
    return [
        Linear(name="qkv", n=queries + keys_values, k=hidden, dtype=dtype, count=count),
        Attention(
            name=name,
            group_size=group_size,
            kv_heads=kv_heads,
            kv_dim=spec.head_dim + value_dim,
            window=spec.window,
            count=count,
        ),
        Linear(name="o", n=hidden, k=query_heads * value_dim, dtype=dtype, count=count),
    ]


def _mla_operations(spec: schema.Mla, hidden: int, layout: Layout, dtype: WeightDtype, count: float) -> list[Operation]:
    heads = max(1.0, spec.heads / layout.tp)
    query_dim = spec.nope_head_dim + spec.rope_head_dim
    cached = spec.kv_lora_rank + spec.rope_head_dim
    operations: list[Operation] = []
    if spec.q_lora_rank is None:
        operations.append(Linear(name="q, kv_a", n=heads * query_dim + cached, k=hidden, dtype=dtype, count=count))
    else:
        operations += [
            Linear(name="q_a, kv_a", n=spec.q_lora_rank + cached, k=hidden, dtype=dtype, count=count),
            Linear(name="q_b", n=heads * query_dim, k=spec.q_lora_rank, dtype=dtype, count=count),
        ]
    index = spec.indexer
    if index is not None and not index.shared:
        operations += [
            Linear(
                name="indexer q",
                n=index.heads * index.head_dim,
                k=spec.q_lora_rank or hidden,
                dtype=dtype,
                count=count,
            ),
            Linear(name="indexer k, weights", n=index.head_dim + index.heads, k=hidden, dtype=dtype, count=count),
            IndexerScan(name="indexer scan", heads=index.heads, head_dim=index.head_dim, count=count),
        ]
    if spec.output_gate:
        operations.append(Linear(name="gate", n=heads * spec.v_head_dim, k=hidden, dtype=dtype, count=count))
    # Absorbed decoding: queries go through W_UK into the latent space, results come back through W_UV, one small
    # matrix a head, in bf16 whatever the checkpoint's dtype.
    operations += [
        Linear(name="absorb k", n=heads * spec.kv_lora_rank, k=spec.nope_head_dim, dtype="bf16", count=count),
        LatentAttention(
            name="attention (MLA)",
            heads=heads,
            latent_dim=spec.kv_lora_rank,
            rope_dim=spec.rope_head_dim,
            prefill_dim=query_dim + spec.v_head_dim,
            top_k=index.top_k if index is not None else None,
            count=count,
        ),
        Linear(name="absorb v", n=heads * spec.v_head_dim, k=spec.kv_lora_rank, dtype="bf16", count=count),
        Linear(name="o", n=hidden, k=heads * spec.v_head_dim, dtype=dtype, count=count),
    ]
    return operations


def _gated_delta_operations(
    spec: schema.GatedDelta, hidden: int, layout: Layout, dtype: WeightDtype, count: float
) -> list[Operation]:
    keys = spec.key_heads * spec.key_head_dim
    values = spec.value_heads * spec.value_head_dim
    tp = layout.tp
    # Queries, keys, values, the update's strength; gate and decay directly, or their low-rank inputs.
    projected = (
        2 * keys + values + spec.value_heads + (spec.gate_rank or values) + (spec.decay_rank or spec.value_heads)
    )
    operations: list[Operation] = [Linear(name="delta in", n=projected / tp, k=hidden, dtype=dtype, count=count)]
    if spec.gate_rank is not None:
        operations.append(Linear(name="delta gate", n=values / tp, k=spec.gate_rank, dtype=dtype, count=count))
    if spec.decay_rank is not None:
        operations.append(Linear(name="delta decay", n=keys / tp, k=spec.decay_rank, dtype=dtype, count=count))
    return [
        *operations,
        RecurrentState(name="gated delta", state_bytes=layer_state_bytes(spec) / tp, count=count),
        Linear(name="delta out", n=hidden, k=values / tp, dtype=dtype, count=count),
    ]


def _mamba_operations(
    spec: schema.Mamba2, hidden: int, layout: Layout, dtype: WeightDtype, count: float
) -> list[Operation]:
    inner = spec.heads * spec.head_dim
    grouped = 2 * spec.groups * spec.state_dim
    tp = layout.tp
    return [
        Linear(name="mamba in", n=(2 * inner + grouped + spec.heads) / tp, k=hidden, dtype=dtype, count=count),
        RecurrentState(name="mamba", state_bytes=layer_state_bytes(spec) / tp, count=count),
        Linear(name="mamba out", n=hidden, k=inner / tp, dtype=dtype, count=count),
    ]


def dense_operations(
    name: str,
    hidden: int,
    intermediate: float,
    matrices: int,
    dtype: WeightDtype,
    tp: int,
    count: float,
    *,
    independent: bool = False,
) -> list[Operation]:
    """A feed-forward block: gate and up in one kernel, then down."""
    first = "gate, up" if matrices == 3 else "up"
    widen, narrow = (matrices - 1) * intermediate / tp, intermediate / tp
    return [
        Linear(name=f"{name}{first}", n=widen, k=hidden, dtype=dtype, count=count, independent=independent),
        Linear(name=f"{name}down", n=hidden, k=narrow, dtype=dtype, count=count, independent=independent),
    ]


def ffn_operations(spec: schema.Ffn, hidden: int, layout: Layout, dtypes: Dtypes, count: float) -> list[Operation]:
    """A dense or routed feed-forward block, `count` layers of it."""
    if isinstance(spec, schema.DenseFfn):
        return dense_operations("", hidden, spec.intermediate, spec.matrices, dtypes.ffn, layout.tp, count)
    width = spec.latent or hidden
    operations: list[Operation] = [Linear(name="router", n=spec.experts, k=hidden, dtype="bf16", count=count)]
    if spec.latent is not None:
        # On every GPU whole: each one's experts need all of the latent vector, and each has a part of its sum.
        # (TensorRT-LLM's default; vLLM's Kimi-K3 cuts the outgoing one on Blackwell since its pull request 54168.)
        operations.append(Linear(name="latent in, out", n=2 * spec.latent, k=hidden, dtype=dtypes.ffn, count=count))
    operations.append(
        Experts(
            name="experts",
            experts=spec.experts,
            top_k=spec.top_k,
            hidden=width,
            intermediate=spec.intermediate / layout.expert_slices,
            matrices=spec.matrices,
            dtype=dtypes.experts,
            expert_parallel=layout.ep,
            ranks=layout.ranks,
            routing_overlap=spec.routing_overlap,
            count=count,
        )
    )
    if spec.shared_intermediate:
        operations += dense_operations(
            "shared ",
            hidden,
            spec.shared_intermediate,
            spec.matrices,
            dtypes.ffn,
            layout.tp,
            count,
            independent=True,
        )
    if layout.ranks > 1:
        copies = spec.top_k if layout.ep > 1 else 1
        operations.append(
            ExpertExchange(name="expert exchange", hidden=width, copies=copies, gpus=layout.gpus, count=count)
        )
    return operations


def block_operations(
    attention: schema.Attention | None,
    ffn: schema.Ffn | None,
    hidden: int,
    layout: Layout,
    dtypes: Dtypes,
    count: float,
    *,
    streams: int = 1,
) -> list[Operation]:
    """`count` layers with this mixer and this feed-forward block: operations, small kernels, all-reduces."""
    operations: list[Operation] = []
    reduces = 0
    if attention is not None:
        operations += attention_operations(attention, hidden, layout, dtypes.attention, count)
        reduces += 1
    if ffn is not None:
        operations += ffn_operations(ffn, hidden, layout, dtypes, count)
        reduces += 1
    if streams > 1 and reduces:
        # Hyper-connections: what mixes the streams is computed from all of them, on every GPU, before each sub-layer.
        # A thin matrix over a long K (24 x 4 hidden) is split along K by kernels made for it (DeepGEMM's
        # tf32_hc_prenorm_gemm); here by stream, which leaves bytes and FLOPs as they are.
        mixing = (2 + streams) * streams
        operations.append(
            Linear(name="hyper-connections", n=streams * mixing, k=hidden, dtype="bf16", count=reduces * count)
        )
    # Every stream is read and written by the residual adds, as wide as the streams together.
    operations.append(SmallKernels(name="norms, rope, KV write", hidden=streams * hidden, count=count))
    if layout.tp > 1 and reduces:
        operations.append(AllReduceHidden(name="all-reduce", hidden=hidden, gpus=layout.tp, count=reduces * count))
    return operations


def head_operations(
    vocabulary: int, hidden: int, layout: Layout, dtype: WeightDtype, *, logit_passes: float = LOGIT_PASSES
) -> list[Operation]:
    """lm_head and the sampling of its logits. The input embedding is a look-up and is not read."""
    return [
        Linear(name="lm_head", n=vocabulary / layout.tp, k=hidden, dtype=dtype),
        Logits(name="logits", vocabulary=vocabulary, passes=logit_passes),
    ]


def body_operations(model: schema.Model, layout: Layout, dtypes: Dtypes) -> list[Operation]:
    """Every layer of the model, without its head."""
    operations: list[Operation] = []
    for block in model.blocks:
        operations += block_operations(
            model.attention[block.attention] if block.attention else None,
            model.ffn[block.ffn] if block.ffn else None,
            model.hidden,
            layout,
            dtypes,
            block.repeat,
            streams=model.residual_streams,
        )
    return operations


def target_operations(model: schema.Model, layout: Layout, dtypes: Dtypes) -> list[Operation]:
    """One forward pass of the whole model."""
    return merge_alike(
        body_operations(model, layout, dtypes) + head_operations(model.vocabulary, model.hidden, layout, dtypes.lm_head)
    )


def merge_alike(operations: list[Operation]) -> list[Operation]:
    """Operations that differ in nothing but their count become one: fewer kernels to evaluate, the same sum."""
    merged: dict[Operation, float] = {}
    for operation in operations:
        key = msgspec.structs.replace(operation, count=0)
        merged[key] = merged.get(key, 0) + operation.count
    return [msgspec.structs.replace(operation, count=count) for operation, count in merged.items()]
