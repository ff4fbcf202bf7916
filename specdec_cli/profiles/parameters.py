"""What follows from a model's sizes alone: parameters by part, and bytes of cache and state.

Counts are exact for weight matrices. Vectors are counted where every model of the kind has them (one norm for
each sub-layer, one at the end, biases that the profile names); the norms inside attention are not: under 0.01 %.

The forms are those of the reference implementations in `transformers` (LlamaForCausalLM, DeepseekV3Attention,
DeepseekV4Attention, Qwen3NextGatedDeltaNet, NemotronHMamba2Mixer), checked against counts of the same configurations
on the meta device.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from specdec_cli.profiles.schema import (
    Attention,
    CompressedAttention,
    DenseFfn,
    Ffn,
    GatedDelta,
    Gqa,
    Indexer,
    KvDtype,
    Mamba2,
    Mla,
    Model,
    MoeFfn,
    WeightDtype,
)
from specdec_cli.units import KV_BYTES

CONV_STATE_DTYPE: KvDtype = "bf16"  # vLLM and SGLang keep the convolution's window in the model's dtype

Part = Literal["embedding", "attention", "dense_ffn", "experts", "shared_experts", "router", "norms", "lm_head", "mtp"]


class ParameterCount(NamedTuple):
    """Parameters of a whole model (all layers), by part."""

    embedding: int
    attention: int
    dense_ffn: int
    experts: int
    shared_experts: int
    router: int
    """The routers, the gates on shared experts, and the projections into and out of a latent expert space."""
    norms: int
    """Norms, and what mixes the residual streams of hyper-connections."""
    lm_head: int
    """0 where the head is the embedding's matrix; it is read all the same, see `lm_head_weights`."""
    mtp: int

    @property
    def total(self) -> int:
        """Embedding, layers and head, as makers count: the MTP layers are not in it."""
        return sum(self) - self.mtp


class FfnCount(NamedTuple):
    """Parameters of the feed-forward part of one layer."""

    dense: int = 0
    experts: int = 0
    shared: int = 0
    router: int = 0

    @property
    def total(self) -> int:
        return sum(self)


def attention_parameters(attention: Attention, hidden: int) -> int:
    """Parameters of the attention (or linear-attention) part of one layer."""
    match attention:
        case Gqa():
            return _gqa_parameters(attention, hidden)
        case Mla():
            return _mla_parameters(attention, hidden)
        case CompressedAttention():
            return _compressed_parameters(attention, hidden)
        case GatedDelta():
            keys, values = _delta_widths(attention)
            convolution = (2 * keys + values) * attention.conv_width
            decay = _through(attention.decay_rank, hidden, keys if attention.decay_rank else attention.value_heads)
            gate = _through(attention.gate_rank, hidden, values)
            projections = hidden * (2 * keys + values + attention.value_heads) + decay + gate + values * hidden
            return projections + convolution + 2 * attention.value_heads  # decay's scale and offset
        case Mamba2():
            inner, convolved = _mamba_widths(attention)
            projections = hidden * (inner + convolved + attention.heads) + inner * hidden
            per_head = 3 * attention.heads  # A, D and the bias of dt
            return projections + convolved * (attention.conv_width + 1) + per_head + inner


def _through(rank: int | None, wide: int, out: int) -> int:
    """Weights of a projection, through a low rank where there is one."""
    return wide * out if rank is None else rank * (wide + out)


def _gqa_parameters(attention: Gqa, hidden: int) -> int:
    value_dim = attention.value_head_dim or attention.head_dim
    queries = attention.heads * attention.head_dim
    keys = attention.kv_heads * attention.head_dim
    values = 0 if attention.shared_kv else attention.kv_heads * value_dim
    inputs = queries * (2 if attention.output_gate else 1) + keys + values
    biases = queries + keys + values if attention.bias else 0
    return hidden * inputs + attention.heads * value_dim * hidden + biases


def _mla_parameters(attention: Mla, hidden: int) -> int:
    queries = attention.heads * (attention.nope_head_dim + attention.rope_head_dim)
    values = attention.heads * attention.v_head_dim
    query_projection = _through(attention.q_lora_rank, hidden, queries)
    down = hidden * (attention.kv_lora_rank + attention.rope_head_dim)
    up = attention.kv_lora_rank * attention.heads * (attention.nope_head_dim + attention.v_head_dim)
    gate = hidden * values if attention.output_gate else 0
    return query_projection + down + up + gate + values * hidden + _indexer_parameters(attention, hidden)


def _compressed_parameters(attention: CompressedAttention, hidden: int) -> int:
    width = attention.heads * attention.head_dim
    queries = _through(attention.q_lora_rank, hidden, width)
    outputs = width * attention.o_lora_rank + attention.o_groups * attention.o_lora_rank * hidden
    pooled = attention.head_dim
    indexer = 0
    if attention.indexer is not None:
        pooled += attention.indexer.head_dim
        indexer = attention.indexer.heads * (attention.q_lora_rank * attention.indexer.head_dim + hidden)
    vectors = attention.q_lora_rank + attention.head_dim + attention.heads  # two norms and the sinks
    return queries + hidden * attention.head_dim + outputs + indexer + vectors + _compressor(attention, hidden, pooled)


def _compressor(attention: CompressedAttention, hidden: int, pooled: int) -> int:
    """Values, gates and a bias for each position of a group, and a norm, of entries `pooled` wide."""
    if attention.ratio is None:
        return 0
    return (2 * hidden + attention.ratio) * pooled * (2 if attention.overlap else 1) + pooled


def _collapse(model: Model) -> int:
    """What makes one hidden state of the streams before the head (DeepseekV4HyperHead)."""
    streams = model.residual_streams
    return streams * (streams * model.hidden + 1) + 1 if streams > 1 else 0


def stream_parameters(hidden: int, streams: int) -> int:
    """Hyper-connections of one sub-layer: how `streams` hidden states collapse into its input, how its output spreads
    over them and how they mix, from all of them together (DeepseekV4HyperConnection); 0 for one stream."""
    mixing = (2 + streams) * streams
    return mixing * (streams * hidden + 1) + 3 if streams > 1 else 0


def _indexer_parameters(attention: Mla, hidden: int) -> int:
    indexer = attention.indexer
    if indexer is None or indexer.shared:
        return 0
    query_input = attention.q_lora_rank or hidden  # it reads the compressed query where there is one
    return query_input * indexer.heads * indexer.head_dim + hidden * (indexer.head_dim + indexer.heads)


def ffn_parameters(ffn: Ffn, hidden: int) -> FfnCount:
    """Parameters of the feed-forward part of one layer."""
    match ffn:
        case DenseFfn():
            return FfnCount(dense=ffn.matrices * hidden * ffn.intermediate)
        case MoeFfn():
            width = ffn.latent or hidden
            router = hidden * ffn.experts + (hidden if ffn.shared_gate else 0)
            if ffn.latent is not None:
                router += 2 * hidden * ffn.latent
            expert = ffn.matrices * width * ffn.intermediate
            if ffn.bias:
                router += ffn.experts
                expert += (ffn.matrices - 1) * ffn.intermediate + width
            shared = ffn.matrices * hidden * ffn.shared_intermediate
            return FfnCount(experts=ffn.experts * expert, shared=shared, router=router)


def mtp_parameters(model: Model) -> int:
    """Parameters of the native MTP layers: a fusion of two hidden states, a layer and its three norms, each."""
    if model.mtp is None:
        return 0
    layer = 2 * model.hidden * model.hidden + 3 * model.hidden
    each = model.hidden + stream_parameters(model.hidden, model.residual_streams)
    if model.mtp.attention is not None:
        layer += attention_parameters(model.attention[model.mtp.attention], model.hidden) + each
    if model.mtp.ffn is not None:
        layer += ffn_parameters(model.ffn[model.mtp.ffn], model.hidden).total + each
    return model.mtp.layers * layer


def lm_head_weights(model: Model) -> int:
    """Weights that a pass reads to turn hidden states into logits, tied to the embedding or not."""
    return model.vocabulary * model.hidden


def count_parameters(model: Model) -> ParameterCount:
    """Parameters of each part of the model, all layers together."""
    attention = norms = dense = experts = shared = router = 0
    sub_layer = model.hidden + stream_parameters(model.hidden, model.residual_streams)
    for block in model.blocks:
        if block.attention is not None:
            attention += block.repeat * attention_parameters(model.attention[block.attention], model.hidden)
            norms += block.repeat * sub_layer
        if block.ffn is not None:
            ffn = ffn_parameters(model.ffn[block.ffn], model.hidden)
            dense += block.repeat * ffn.dense
            experts += block.repeat * ffn.experts
            shared += block.repeat * ffn.shared
            router += block.repeat * ffn.router
            norms += block.repeat * sub_layer
    return ParameterCount(
        embedding=lm_head_weights(model),
        attention=attention,
        dense_ffn=dense,
        experts=experts,
        shared_experts=shared,
        router=router,
        norms=norms + model.hidden + _collapse(model),
        lm_head=0 if model.tied_embeddings else lm_head_weights(model),
        mtp=mtp_parameters(model),
    )


def active_parameters(model: Model) -> int:
    """Parameters that take part in one token: `top_k` of the experts, everything else; MTP layers excluded.

    The embedding counts as a whole, as makers count it, though a pass looks up one row of it.
    """
    count = count_parameters(model)
    active_experts = 0
    for block in model.blocks:
        ffn = model.ffn[block.ffn] if block.ffn is not None else None
        if isinstance(ffn, MoeFfn):
            each = ffn_parameters(ffn, model.hidden).experts // ffn.experts
            active_experts += block.repeat * ffn.top_k * each
    return count.total - count.experts + active_experts


def weight_dtype(model: Model, part: Part) -> WeightDtype:
    """Dtype in which the checkpoint holds a part.

    Embedding and router keep the head's dtype: quantisers leave the three alone together. Norms are never quantised.
    MTP without a dtype of its own follows the same parts of the target; here it answers with `weights`.
    """
    dtypes = model.dtypes
    named: dict[Part, WeightDtype | None] = {
        "attention": dtypes.attention,
        "dense_ffn": dtypes.ffn,
        "shared_experts": dtypes.ffn,
        "experts": dtypes.experts,
        "mtp": dtypes.mtp,
        "lm_head": dtypes.lm_head,
        "embedding": dtypes.lm_head,
        "router": dtypes.lm_head,
        "norms": "bf16",
    }
    return named[part] or dtypes.weights


# ------------------------------------------------------------------------------------------ cache and state


def cache_elements_per_token(attention: Attention) -> int:
    """Elements that one layer caches for each token within its reach (compressed attention: for each token of its
    window, or entry); 0 where it keeps a fixed state instead."""
    match attention:
        case Gqa():
            value_dim = attention.value_head_dim or attention.head_dim
            return attention.kv_heads * (attention.head_dim + value_dim)
        case Mla():
            return attention.kv_lora_rank + attention.rope_head_dim
        case CompressedAttention():
            return attention.head_dim
        case GatedDelta() | Mamba2():
            return 0


def window_of(attention: Attention) -> int | None:
    """Tokens that a windowed layer caches one by one; None: all of them (or it keeps a state)."""
    return attention.window if isinstance(attention, Gqa | CompressedAttention) else None


def _growing_elements(attention: Attention) -> float:
    """Elements that one layer adds to its cache with each further token of a long context."""
    if isinstance(attention, CompressedAttention):
        return attention.head_dim / attention.ratio if attention.ratio is not None else 0.0
    return cache_elements_per_token(attention) if window_of(attention) is None else 0.0


def indexer_of(attention: Attention) -> Indexer | None:
    """The indexer of an indexed sparse attention, None elsewhere."""
    return attention.indexer if isinstance(attention, Mla | CompressedAttention) else None


def kv_bytes_per_token(model: Model, kv_dtype: KvDtype | None = None) -> float:
    """Bytes of KV cache that each further token of context adds: layers that see the whole context.

    Indexer keys are apart (`indexer_bytes_per_token`); MTP layers' own cache is the drafter's.
    `kv_dtype` None: the checkpoint's.
    """
    elements = sum(
        block.repeat * _growing_elements(model.attention[block.attention])
        for block in model.blocks
        if block.attention is not None
    )
    return elements * KV_BYTES[kv_dtype or model.dtypes.kv]


def window_kv_bytes(model: Model, kv_dtype: KvDtype | None = None) -> float:
    """Bytes of KV cache of the windowed layers of one request, once its context fills the windows."""
    elements = 0
    for block in model.blocks:
        if block.attention is not None:
            attention = model.attention[block.attention]
            elements += block.repeat * cache_elements_per_token(attention) * (window_of(attention) or 0)
    return elements * KV_BYTES[kv_dtype or model.dtypes.kv]


def indexer_bytes_per_token(model: Model, kv_dtype: KvDtype | None = None) -> float:
    """Bytes of indexer keys that each token of context adds, in the KV cache's dtype."""
    elements = 0.0
    for block in model.blocks:
        if block.attention is not None:
            attention = model.attention[block.attention]
            indexer = indexer_of(attention)
            if indexer is not None and not indexer.shared:
                ratio = attention.ratio if isinstance(attention, CompressedAttention) else None
                elements += block.repeat * indexer.head_dim / (ratio or 1)
    return elements * KV_BYTES[kv_dtype or model.dtypes.kv]


def layer_state_bytes(attention: Attention) -> float:
    """Bytes of recurrent state that one layer keeps for one request, the convolution's window included."""
    match attention:
        case GatedDelta():
            keys, values = _delta_widths(attention)
            state = attention.value_heads * attention.key_head_dim * attention.value_head_dim
            convolved = 2 * keys + values
        case Mamba2():
            inner, convolved = _mamba_widths(attention)
            state = inner * attention.state_dim
        case Gqa() | Mla() | CompressedAttention():
            return 0.0
    window = convolved * (attention.conv_width - 1)
    return state * KV_BYTES[attention.state_dtype] + window * KV_BYTES[CONV_STATE_DTYPE]


def recurrent_state_bytes(model: Model) -> float:
    """Bytes of recurrent state of one request, all layers: fixed, whatever the context."""
    return sum(
        block.repeat * layer_state_bytes(model.attention[block.attention])
        for block in model.blocks
        if block.attention is not None
    )


def _delta_widths(attention: GatedDelta) -> tuple[int, int]:
    """Widths of the keys (and of the queries) and of the values."""
    return attention.key_heads * attention.key_head_dim, attention.value_heads * attention.value_head_dim


def _mamba_widths(attention: Mamba2) -> tuple[int, int]:
    """Inner width, and the width that the convolution sees (x, B and C)."""
    inner = attention.heads * attention.head_dim
    return inner, inner + 2 * attention.groups * attention.state_dim
