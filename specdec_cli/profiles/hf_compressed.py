"""The compressed attention of DeepSeek-V4, from a Hugging Face `config.json`.

What the sizes do not say is taken from DeepseekV4Attention of `transformers` and the repository's inference/model.py:
ratio 4 pools with an overlap and has an indexer, ratio 128 has neither.
"""

from __future__ import annotations

from specdec_cli.profiles.hf_layers import layer_count
from specdec_cli.profiles.hf_reader import ConfigReader
from specdec_cli.profiles.schema import Attention, CompressedAttention, Indexer

WINDOW_ONLY = "window"
INDEXED_RATIO, PLAIN_RATIO = 4, 128


def compressed_layers(reader: ConfigReader) -> tuple[dict[str, Attention], list[str | None]]:
    """The kinds of attention by name, those of the MTP layers too, and the kind of every layer."""
    ratios = _ratios(reader)
    layers = layer_count(reader)
    if len(ratios) < layers:
        raise reader.refuse(f"names {len(ratios)} layers of {layers}", key="compress_ratios")
    kinds = [_kind(ratio) for ratio in ratios]
    held = layers + (reader.integer_or_none("num_nextn_predict_layers") or 0)
    reader.assume(
        "Ratio 4 pools overlapping groups and has an indexer, ratio 128 neither: as in the reference code; "
        "no key says so."
    )
    attention: dict[str, Attention] = {_kind(ratio): _sizes(reader, ratio) for ratio in dict.fromkeys(ratios[:held])}
    return attention, list(kinds[:layers])


def mtp_kind(reader: ConfigReader) -> str | None:
    """The attention of the first MTP layer, which `compress_ratios` names after the model's own; None: unnamed."""
    ratios = _ratios(reader) if reader.has("compress_ratios") else []
    layers = layer_count(reader) if ratios else 0
    return _kind(ratios[layers]) if len(ratios) > layers else None


def _ratios(reader: ConfigReader) -> list[int]:
    ratios = reader.get("compress_ratios")
    if not isinstance(ratios, list) or any(type(ratio) is not int for ratio in ratios):
        raise reader.refuse("expected a list with a whole number for each layer", key="compress_ratios")
    for ratio in ratios:
        if ratio not in (0, INDEXED_RATIO, PLAIN_RATIO):
            raise reader.refuse(f"a ratio of {ratio} is not known: 0, 4 and 128 are", key="compress_ratios")
    return ratios


def _kind(ratio: int) -> str:
    return f"compressed_{ratio}" if ratio else WINDOW_ONLY


def _sizes(reader: ConfigReader, ratio: int) -> CompressedAttention:
    kv_heads = reader.integer_or_none("num_key_value_heads")
    if kv_heads not in (None, 1):
        raise reader.refuse(f"{kv_heads} KV heads; compressed attention shares one", key="num_key_value_heads")
    indexer = None
    if ratio == INDEXED_RATIO:
        indexer = Indexer(
            heads=reader.integer("index_n_heads"),
            head_dim=reader.integer("index_head_dim"),
            top_k=reader.integer("index_topk"),
        )
    return CompressedAttention(
        heads=reader.integer("num_attention_heads"),
        head_dim=reader.integer("head_dim"),
        q_lora_rank=reader.integer("q_lora_rank"),
        o_lora_rank=reader.integer("o_lora_rank"),
        o_groups=reader.integer("o_groups"),
        window=reader.integer("sliding_window"),
        ratio=ratio or None,
        overlap=ratio == INDEXED_RATIO,
        indexer=indexer,
    )
