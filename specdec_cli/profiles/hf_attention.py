"""The attention of each layer, from a Hugging Face `config.json`.

`hf_layers` says which kind every layer has; the sizes of each kind are read here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specdec_cli.profiles.hf_compressed import compressed_layers
from specdec_cli.profiles.hf_layers import layer_kinds
from specdec_cli.profiles.hf_reader import ConfigReader
from specdec_cli.profiles.schema import Attention, GatedDelta, Gqa, Indexer, KvDtype, Mamba2, Mla

# Attention that no record of the schema can hold. The text completes "refused: ...".
NOT_HELD = {
    "sparse_attention_config": "block-sparse attention (MiniMax-M3: selected blocks of 128 tokens) is not modelled",
}

# Model types whose configurations leave `use_bias` keys out and whose code has biases on q, k and v.
BIASED_TYPES = ("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "opt", "gpt2")

DTYPE_NAMES: dict[str, KvDtype] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def attention_layers(reader: ConfigReader) -> tuple[dict[str, Attention], list[str | None]]:
    """The kinds of attention by name, and the kind of every layer (None: a layer without attention)."""
    for key, reason in NOT_HELD.items():
        if reader.has(key):
            raise reader.refuse(reason, key=key)
    if reader.integer_or_none("num_kv_shared_layers"):
        raise reader.refuse("layers that reuse another layer's KV cache are not modelled", key="num_kv_shared_layers")
    if reader.has("compress_ratios"):
        return compressed_layers(reader)
    kinds = layer_kinds(reader)
    attention: dict[str, Attention] = {}
    for kind in dict.fromkeys(kind for kind in kinds if kind):
        attention[kind] = _SIZES[kind](reader)
    if "full" in attention and isinstance(attention["full"], Mla):
        return _name_mla(reader, attention, kinds)
    return attention, [kind or None for kind in kinds]


# ------------------------------------------------------------------------------------------- sizes of a kind


def heads_of(reader: ConfigReader) -> int:
    return reader.integer("num_attention_heads", "n_head", "n_heads")


def head_dim_of(reader: ConfigReader) -> int:
    """`head_dim` where it is present, whatever the width says; else the width divided by the heads."""
    head_dim = reader.integer_or_none("head_dim", "attention_head_dim")
    if head_dim:
        return head_dim
    hidden, heads = reader.integer("hidden_size", "n_embd", "d_model"), heads_of(reader)
    if hidden % heads:
        raise reader.missing("head_dim", why=f"hidden_size {hidden} is no multiple of {heads} heads")
    return hidden // heads


def kv_heads_of(reader: ConfigReader) -> int:
    kv_heads = reader.integer_or_none("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    if kv_heads:
        return kv_heads
    if reader.flag("multi_query"):
        return 1
    reader.assume("No num_key_value_heads: as many as query heads.")
    return heads_of(reader)


def _full(reader: ConfigReader) -> Attention:
    if reader.has("kv_lora_rank"):
        return _mla(reader)
    value_dim = reader.integer_or_none("v_head_dim")
    head_dim, kv_heads, shared_kv = head_dim_of(reader), kv_heads_of(reader), False
    if reader.model_type.startswith("gemma4"):  # its global layers have sizes of their own
        head_dim = reader.integer_or_none("global_head_dim") or head_dim
        shared_kv = bool(reader.flag("attention_k_eq_v"))
        if shared_kv:
            kv_heads = reader.integer_or_none("num_global_key_value_heads") or kv_heads
    return Gqa(
        heads=heads_of(reader),
        kv_heads=kv_heads,
        head_dim=head_dim,
        output_gate=_output_gate(reader),
        bias=_bias(reader),
        shared_kv=shared_kv,
        value_head_dim=value_dim if value_dim != head_dim else None,
    )


def _window(reader: ConfigReader) -> Attention:
    head_dim = reader.integer_or_none("swa_head_dim") or head_dim_of(reader)
    value_dim = reader.integer_or_none("swa_v_head_dim", "v_head_dim")
    return Gqa(
        heads=reader.integer_or_none("swa_num_attention_heads") or heads_of(reader),
        kv_heads=reader.integer_or_none("swa_num_key_value_heads") or kv_heads_of(reader),
        head_dim=head_dim,
        window=reader.integer("sliding_window", "sliding_window_size", "attention_chunk_size"),
        output_gate=_output_gate(reader),
        bias=_bias(reader),
        value_head_dim=value_dim if value_dim != head_dim else None,
    )


def _output_gate(reader: ConfigReader) -> bool:
    gate = reader.flag("attn_output_gate")
    if gate is None:
        gate = bool(reader.flag("attention_output_gate"))
    if not gate and reader.model_type == "qwen3_next":  # the code has it, the configuration no key
        return True
    return gate


def _bias(reader: ConfigReader) -> bool:
    bias = reader.flag("attention_bias")
    if bias is None:
        bias = reader.flag("qkv_bias")
    return reader.model_type in BIASED_TYPES if bias is None else bias


def _mla(reader: ConfigReader) -> Mla:
    if "q_lora_rank" not in reader.data:
        raise reader.missing("q_lora_rank", why="null means that queries are projected directly; absent says nothing")
    indexer = None
    if reader.has("index_topk"):
        indexer = Indexer(
            heads=reader.integer("index_n_heads"),
            head_dim=reader.integer("index_head_dim"),
            top_k=reader.integer("index_topk"),
        )
    return Mla(
        heads=heads_of(reader),
        q_lora_rank=reader.integer_or_none("q_lora_rank"),
        kv_lora_rank=reader.integer("kv_lora_rank"),
        nope_head_dim=reader.integer("qk_nope_head_dim"),
        rope_head_dim=reader.integer("qk_rope_head_dim"),
        v_head_dim=reader.integer("v_head_dim"),
        indexer=indexer,
        output_gate=bool(reader.flag("mla_use_output_gate")),
    )


def _linear(reader: ConfigReader) -> Attention:
    kimi = reader.get("linear_attn_config")
    if kimi is not None:
        return _kimi_delta(reader, kimi)
    return GatedDelta(
        key_heads=reader.integer("linear_num_key_heads"),
        value_heads=reader.integer("linear_num_value_heads"),
        key_head_dim=reader.integer("linear_key_head_dim"),
        value_head_dim=reader.integer("linear_value_head_dim"),
        conv_width=reader.integer("linear_conv_kernel_dim"),
        state_dtype=_state_dtype(reader),
    )


def _kimi_delta(reader: ConfigReader, sizes: dict[str, Any]) -> GatedDelta:
    """Kimi Delta Attention; the ranks are those of KimiDeltaAttention, f_proj and g_proj."""
    values = []
    for key in ("num_heads", "head_dim", "short_conv_kernel_size"):
        value = sizes.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise reader.missing(f"linear_attn_config.{key}")
        values.append(value)
    heads, head_dim, conv_width = values
    reader.assume("Kimi Delta Attention: low-rank projections have the head's width as rank, as in its reference code.")
    return GatedDelta(
        key_heads=heads,
        value_heads=heads,
        key_head_dim=head_dim,
        value_head_dim=head_dim,
        conv_width=conv_width,
        state_dtype=_state_dtype(reader),
        decay_rank=head_dim,
        gate_rank=None if sizes.get("use_full_rank_gate") is True else head_dim,
    )


def _mamba(reader: ConfigReader) -> Attention:
    return Mamba2(
        heads=reader.integer("mamba_num_heads"),
        head_dim=reader.integer("mamba_head_dim"),
        state_dim=reader.integer("ssm_state_size", "mamba_d_state"),
        groups=reader.integer("n_groups", "mamba_n_groups"),
        conv_width=reader.integer("conv_kernel", "mamba_d_conv"),
        state_dtype=_state_dtype(reader),
    )


def _state_dtype(reader: ConfigReader) -> KvDtype:
    name = reader.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype")
    if name is None:
        reader.assume("The recurrent state is kept in fp32, as the reference kernels do; no key says so.")
        return "fp32"
    if name not in DTYPE_NAMES:
        raise reader.refuse(f"unknown dtype {name!r}", key="mamba_ssm_dtype")
    return DTYPE_NAMES[name]


def _name_mla(
    reader: ConfigReader, attention: dict[str, Attention], kinds: list[str]
) -> tuple[dict[str, Attention], list[str | None]]:
    """Calls full attention `mla`, and sets apart the layers whose indexer is another layer's (GLM-5.2)."""
    full = attention["full"]
    assert isinstance(full, Mla)
    renamed: dict[str, Attention] = {"mla" if kind == "full" else kind: value for kind, value in attention.items()}
    types = reader.names_list("indexer_types")
    layers: list[str | None] = []
    for number, kind in enumerate(kinds):
        name = "mla" if kind == "full" else kind or None
        if name == "mla" and types is not None and full.indexer is not None:
            if number >= len(types):
                raise reader.refuse(f"names {len(types)} layers of {len(kinds)}", key="indexer_types")
            if types[number] == "shared":
                name = "mla_shared"
        layers.append(name)
    if "mla_shared" in layers and full.indexer is not None:
        indexer = Indexer(
            heads=full.indexer.heads, head_dim=full.indexer.head_dim, top_k=full.indexer.top_k, shared=True
        )
        renamed["mla_shared"] = Mla(
            heads=full.heads,
            q_lora_rank=full.q_lora_rank,
            kv_lora_rank=full.kv_lora_rank,
            nope_head_dim=full.nope_head_dim,
            rope_head_dim=full.rope_head_dim,
            v_head_dim=full.v_head_dim,
            indexer=indexer,
            output_gate=full.output_gate,
        )
    return renamed, layers


_SIZES: dict[str, Callable[[ConfigReader], Attention]] = {
    "full": _full,
    "window": _window,
    "linear": _linear,
    "mamba": _mamba,
}
