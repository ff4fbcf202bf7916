"""Models whose layers were pruned one by one (Nemotron-NAS): `block_configs` holds sizes for every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specdec_cli.profiles.hf_attention import head_dim_of, heads_of
from specdec_cli.profiles.hf_reader import LARGEST, ConfigReader
from specdec_cli.profiles.schema import Attention, DenseFfn, Ffn, Gqa

MULTIPLE = 256  # widths are rounded up to it, `_find_multiple` of DeciLMConfig

Layers = tuple[dict[str, Attention], list[str | None], dict[str, Ffn], list[str | None]]


def pruned_layers(reader: ConfigReader) -> Layers | None:
    """Kinds of attention and of feed-forward by name, and those of every layer; None: no such configuration."""
    blocks = reader.get("block_configs")
    if blocks is None:
        return None
    layers = reader.integer("num_hidden_layers")
    if not isinstance(blocks, list) or len(blocks) != layers:
        raise reader.refuse(f"expected one entry for each of the {layers} layers", key="block_configs")
    attention: dict[str, Attention] = {}
    ffn: dict[str, Ffn] = {}
    attention_kinds: list[str | None] = []
    ffn_kinds: list[str | None] = []
    for number, block in enumerate(blocks):
        part = _part(reader, block, number, "attention")
        name = None
        if part is not None:
            kv_heads = heads_of(reader) // _number(reader, part, number, "attention", "n_heads_in_group")
            name = f"kv_{kv_heads}"
            attention[name] = Gqa(heads=heads_of(reader), kv_heads=kv_heads, head_dim=head_dim_of(reader))
        attention_kinds.append(name)
        part = _part(reader, block, number, "ffn")
        name = None
        if part is not None:
            width = _width(reader, part, number)
            name = f"dense_{width}"
            ffn[name] = DenseFfn(intermediate=width)
        ffn_kinds.append(name)
    return attention, attention_kinds, ffn, ffn_kinds


def _part(reader: ConfigReader, block: Any, number: int, name: str) -> Mapping[str, Any] | None:
    """One half of a layer; None where it was pruned away."""
    part = block.get(name) if isinstance(block, Mapping) else None
    if not isinstance(part, Mapping):
        raise reader.missing(f"block_configs[{number}].{name}")
    for key in ("replace_with_linear", "sparsify", "window_length", "num_sink_tokens"):
        if part.get(key):
            raise reader.refuse("such layers are not modelled", key=f"block_configs[{number}].{name}.{key}")
    return None if part.get("no_op") else part


def _number(reader: ConfigReader, part: Mapping[str, Any], number: int, name: str, key: str) -> int:
    value = part.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise reader.missing(f"block_configs[{number}].{name}.{key}")
    return value


def _width(reader: ConfigReader, part: Mapping[str, Any], number: int) -> int:
    """`intermediate_size`, or two thirds of `ffn_mult` times the width, twice, rounded up (DeciLMConfig)."""
    if part.get("intermediate_size"):
        return _number(reader, part, number, "ffn", "intermediate_size")
    multiplier = part.get("ffn_mult")
    if isinstance(multiplier, bool) or not isinstance(multiplier, int | float) or not 0 < multiplier < LARGEST:
        raise reader.missing(f"block_configs[{number}].ffn.ffn_mult")
    width = int(2 * multiplier * reader.integer("hidden_size") / 3)
    return -(-width // MULTIPLE) * MULTIPLE
