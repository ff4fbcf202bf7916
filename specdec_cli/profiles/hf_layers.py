"""Which kind of attention each layer has, from a Hugging Face `config.json`: patterns, windows, hybrids.

A kind is `full`, `window`, `linear`, `mamba`, or nothing.
"""

from __future__ import annotations

from specdec_cli.profiles.hf_reader import LAYER_KEYS, MOST_LAYERS, ConfigReader

# One letter a layer in `hybrid_override_pattern` (Nemotron-H), and the same in words in `layers_block_type`.
PATTERN_LETTERS = {"M": "mamba", "*": "full", "E": "", "-": ""}
BLOCK_WORDS = {"mamba": "mamba", "attention": "full", "moe": "", "mlp": ""}
# Words of `layer_types`.
LAYER_WORDS = {
    "full_attention": "full",
    "attention": "full",
    "deepseek_sparse_attention": "full",  # the indexer's keys say what is sparse about it
    "sliding_attention": "window",
    "chunked_attention": "window",
    "linear_attention": "linear",
}


def layer_count(reader: ConfigReader) -> int:
    """Layers of the model: the key, or the length of a pattern where the key is left out (Nemotron-3 Ultra)."""
    layers = reader.integer_or_none("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    pattern = reader.text("hybrid_override_pattern") or reader.names_list("layers_block_type")
    if not layers and pattern is None:
        raise reader.missing(*LAYER_KEYS[:4])
    found = layers or len(pattern or "")
    if found > MOST_LAYERS:  # lists with an entry for each are made of it
        raise reader.refuse(f"expected at most {MOST_LAYERS:,} layers, found {found:,}", key=LAYER_KEYS[0])
    if layers or pattern is None:
        return found
    reader.assume(f"num_hidden_layers is missing: {len(pattern)}, the length of the layer pattern.")
    return len(pattern)


def layer_kinds(reader: ConfigReader) -> list[str]:
    """For every layer `full`, `window`, `linear`, `mamba`, or nothing."""
    layers = layer_count(reader)
    for find in (_by_pattern, _by_layer_types, _by_linear_interval, _by_kimi_lists, _by_window):
        kinds = find(reader, layers)
        if kinds is not None:
            if len(kinds) != layers:
                raise reader.refuse(
                    f"the layer pattern names {len(kinds)} layers", key="num_hidden_layers", hint=f"it says {layers}"
                )
            return kinds
    return ["full"] * layers


def _by_pattern(reader: ConfigReader, layers: int) -> list[str] | None:
    pattern = reader.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return [_known(reader, "hybrid_override_pattern", letter, PATTERN_LETTERS) for letter in pattern]
    words = reader.names_list("layers_block_type")
    if words is not None:
        return [_known(reader, "layers_block_type", word, BLOCK_WORDS) for word in words]
    return None


def _by_layer_types(reader: ConfigReader, layers: int) -> list[str] | None:
    words = reader.names_list("layer_types")
    if words is None:
        return None
    kinds = [_known(reader, "layer_types", word, LAYER_WORDS) for word in words]
    if reader.flag("use_sliding_window") is False:
        kinds = ["full" if kind == "window" else kind for kind in kinds]
    if len(kinds) > layers and "nextn" in "".join(reader.data):
        reader.assume(f"layer_types names {len(kinds)} layers for {layers}: the rest are its MTP layers.")
        kinds = kinds[:layers]
    return kinds


def _by_linear_interval(reader: ConfigReader, layers: int) -> list[str] | None:
    if not reader.has("linear_num_value_heads"):
        return None
    interval = reader.integer("full_attention_interval", why="which layers of the hybrid are full attention")
    return ["full" if (layer + 1) % interval == 0 else "linear" for layer in range(layers)]


def _by_kimi_lists(reader: ConfigReader, layers: int) -> list[str] | None:
    linear = reader.get("linear_attn_config")
    if linear is None:
        return None
    full = linear.get("full_attn_layers") if isinstance(linear, dict) else None
    if not isinstance(full, list):
        raise reader.missing("linear_attn_config.full_attn_layers")
    return ["full" if layer in full else "linear" for layer in range(1, layers + 1)]


def _by_window(reader: ConfigReader, layers: int) -> list[str] | None:
    """Models that only say how wide a window is; which layers have one is then the code's business."""
    pattern = reader.get("hybrid_layer_pattern")
    if isinstance(pattern, list):  # MiMo-V2: 1 is a window
        return ["window" if item else "full" for item in pattern]
    if reader.model_type.startswith("llama4"):
        skip = reader.get("no_rope_layers")
        if isinstance(skip, list) and skip:
            return ["window" if item else "full" for item in skip]
        interval = reader.integer_or_none("no_rope_layer_interval")
        if interval is None:
            interval = 4
            reader.assume("Every fourth layer attends globally, the rest in chunks: the default of Llama4TextConfig.")
        return ["full" if (layer + 1) % interval == 0 else "window" for layer in range(layers)]
    window = reader.integer_or_none("sliding_window")
    if not window or reader.flag("use_sliding_window") is False:
        return None
    if reader.model_type.startswith("gemma3"):
        interval = reader.integer_or_none("sliding_window_pattern", "_sliding_window_pattern")
        if interval is None:
            interval = 6
            reader.assume("Every sixth layer attends globally: the default of Gemma3TextConfig.")
        return ["full" if (layer + 1) % interval == 0 else "window" for layer in range(layers)]
    if reader.model_type == "gemma2":
        reader.assume("Every second layer attends globally, the others in the window, as in Gemma2Config.")
        return ["full" if layer % 2 else "window" for layer in range(layers)]
    if reader.flag("use_sliding_window") and reader.has("max_window_layers"):
        first = reader.integer("max_window_layers")  # Qwen2: layers from here on are windowed
        return ["full" if layer < first else "window" for layer in range(layers)]
    longest = reader.integer_or_none("max_position_embeddings")
    if longest is not None and window >= longest:
        return None
    if reader.model_type in ("mistral", "phi3", "starcoder2", "mixtral"):
        return ["window"] * layers
    raise reader.refuse(
        "which layers use the window is not said (layer_types)", key="sliding_window", hint="add layer_types by hand"
    )


def _known(reader: ConfigReader, key: str, word: str, words: dict[str, str]) -> str:
    if word not in words:
        raise reader.refuse(f"a kind of layer that is not modelled: {word!r}", key=key)
    return words[word]
