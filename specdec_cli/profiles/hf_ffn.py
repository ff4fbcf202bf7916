"""The feed-forward part of each layer, from a Hugging Face `config.json`: dense, or a mixture of experts."""

from __future__ import annotations

from typing import Any, Literal

from specdec_cli.profiles.hf_layers import layer_count
from specdec_cli.profiles.hf_reader import ConfigReader
from specdec_cli.profiles.schema import DenseFfn, Ffn, MoeFfn

EXPERT_KEYS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_routed_experts")
TOP_K_KEYS = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "top_k_experts", "moe_topk")

# Model types whose `intermediate_size` is one expert's width, with no key `moe_intermediate_size`.
EXPERT_IS_INTERMEDIATE = ("mixtral", "gpt_oss", "minimax_m2", "llama4_text", "llama4")
# Activations of feed-forward blocks without a gate: two matrices.
UNGATED_TYPES = ("opt", "gpt2", "nemotron_h", "gpt_bigcode", "gpt_neox", "falcon", "phi", "starcoder2", "bloom")
# Activations that some models use with a gate and others without one.
GATED_ACTIVATIONS = ("silu", "swish", "swiglu", "swigluoai")
GATED_TYPES = ("gemma", "gemma2", "gemma3", "gemma3_text", "gemma4_text", "kimi_linear")


def ffn_layers(reader: ConfigReader) -> tuple[dict[str, Ffn], list[str | None]]:
    """The feed-forward blocks by name, and the one of every layer (None: a layer without)."""
    layers = layer_count(reader)
    matrices = _matrices(reader)
    if reader.flag("use_double_wide_mlp"):
        raise reader.refuse("double-wide feed-forward layers are not modelled", key="use_double_wide_mlp")
    if reader.integer_or_none("hidden_size_per_layer_input"):
        raise reader.refuse("embeddings for each layer are not modelled", key="hidden_size_per_layer_input")
    kinds = _layer_kinds(reader, layers)
    ffn: dict[str, Ffn] = {}
    for kind in dict.fromkeys(kind for kind in kinds if kind):
        if kind == "moe":
            ffn[kind] = _moe(reader, matrices)
        else:
            ffn[kind] = DenseFfn(intermediate=_dense_width(reader), matrices=matrices)
    return ffn, [kind or None for kind in kinds]


# ---------------------------------------------------------------------------------------- kind of each layer


def _layer_kinds(reader: ConfigReader, layers: int) -> list[str]:
    pattern = reader.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return [{"E": "moe", "-": "dense"}.get(letter, "") for letter in pattern]
    words = reader.names_list("layers_block_type")
    if words is not None:
        return [{"moe": "moe", "mlp": "dense"}.get(word, "") for word in words]
    if experts_of(reader) is None:
        return ["dense"] * layers
    if reader.model_type.startswith("gemma4"):
        return ["moe"] * layers if reader.flag("enable_moe_block") else ["dense"] * layers
    mixed = _mixture_layers(reader, layers)
    if len(mixed) != layers:
        raise reader.refuse(f"the list of mixture layers names {len(mixed)}", key="num_hidden_layers")
    return ["moe" if is_mixture else "dense" for is_mixture in mixed]


def _mixture_layers(reader: ConfigReader, layers: int) -> list[bool]:
    types = reader.names_list("mlp_layer_types")
    if types is not None:
        return [word == "sparse" for word in types[:layers]]
    each = reader.get("moe_layer_freq")
    if isinstance(each, list):
        return [bool(item) for item in each[:layers]]
    listed = reader.get("moe_layers")
    if isinstance(listed, list) and listed:
        return [layer in listed for layer in range(layers)]
    dense_first = reader.integer_or_none("first_k_dense_replace") or 0
    dense_only = reader.items("mlp_only_layers")
    step = reader.integer_or_none("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq") or 1
    offset = 0 if reader.has("moe_layer_freq") else 1  # DeepSeek counts layers from 0, Llama-4 and Qwen from 1
    return [
        layer >= dense_first and layer not in dense_only and (layer + offset) % step == 0 for layer in range(layers)
    ]


# ------------------------------------------------------------------------------------------- sizes of a kind


def experts_of(reader: ConfigReader) -> int | None:
    """Experts of one layer; None for a dense model."""
    for key in EXPERT_KEYS:
        value = reader.get(key)
        if isinstance(value, list):
            if len(set(map(str, value))) != 1:
                raise reader.refuse("a different number of experts in each layer is not modelled", key=key)
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool) and value > 1:
            return value
    return None


def _top_k(reader: ConfigReader) -> int:
    for key in TOP_K_KEYS:
        value: Any = reader.get(key)
        if isinstance(value, list) and value and len(set(map(str, value))) == 1:
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
    raise reader.missing(*TOP_K_KEYS, why="how many experts a token goes to")


def _moe(reader: ConfigReader, matrices: Literal[2, 3]) -> MoeFfn:
    experts = experts_of(reader)
    if experts is None:
        raise reader.missing(*EXPERT_KEYS)
    width = reader.integer_or_none("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size")
    if not width:
        if reader.model_type not in EXPERT_IS_INTERMEDIATE:
            raise reader.missing("moe_intermediate_size", why="the width of one expert")
        width = reader.integer("intermediate_size")
    shared = _shared_width(reader, width)
    return MoeFfn(
        experts=experts,
        top_k=_top_k(reader),
        intermediate=width,
        shared_intermediate=shared,
        shared_gate=shared > 0 and reader.model_type.startswith(("qwen2_moe", "qwen3_next", "qwen3_5")),
        matrices=matrices,
        latent=reader.integer_or_none("moe_latent_size", "routed_expert_hidden_size"),
        bias=reader.model_type == "gpt_oss",
    )


def _shared_width(reader: ConfigReader, expert: int) -> int:
    """Width of all shared experts together."""
    if reader.model_type.startswith("gemma4"):
        reader.assume("Each mixture layer runs a dense block beside its experts (Gemma-4): counted as a shared expert.")
        return reader.integer("intermediate_size")
    if reader.model_type.startswith("llama4"):
        reader.assume("One shared expert as wide as a routed one: Llama4TextMoe, no key says so.")
        return expert
    for key in ("shared_expert_intermediate_size", "share_expert_dim"):
        width = reader.integer_or_none(key)
        if width is not None:
            return width
    number = reader.integer_or_none("n_shared_experts", "num_shared_experts")
    width = reader.integer_or_none("moe_shared_expert_intermediate_size", "shared_intermediate_size")
    if width is not None:
        return width * (1 if number is None else number)
    return (number or 0) * expert


def _dense_width(reader: ConfigReader) -> int:
    """Width of a dense layer; in a mixture it can have a key of its own."""
    width = reader.integer_or_none("intermediate_size_mlp", "dense_intermediate_size")
    if width:
        return width
    width = reader.integer_or_none("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
    if width:
        return width
    if reader.model_type == "gpt2":
        reader.assume("No n_inner: the feed-forward block is four times as wide as the model, as in GPT2Config.")
        return 4 * reader.integer("n_embd", "hidden_size")
    raise reader.missing("intermediate_size", why="the width of the dense feed-forward block")


def _matrices(reader: ConfigReader) -> Literal[2, 3]:
    activation = reader.get("hidden_act", "hidden_activation", "mlp_hidden_act", "activation_function")
    kind = reader.model_type
    if kind in UNGATED_TYPES:
        return 2
    if kind in GATED_TYPES or activation in GATED_ACTIVATIONS or kind == "gpt_oss":
        return 3
    if activation is None:
        reader.assume("No hidden_act: the feed-forward block is taken as gated (three matrices).")
        return 3
    if activation == "relu2":
        return 2
    raise reader.refuse(
        f"{activation!r} is used with a gate by some models and without by others, and the type {kind!r} is unknown",
        key="hidden_act",
        hint="write the profile by hand: `matrices: 3` is gated",
    )
