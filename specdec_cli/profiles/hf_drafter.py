"""The `config.json` of a draft head to a drafter profile: EAGLE-1 and EAGLE-3, P-EAGLE, DFlash, DSpark.

What the form of a mechanism fixes (what its layers read, which head it uses) is known here; the sizes are the file's.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from specdec_cli.profiles.hf_attention import head_dim_of, heads_of, kv_heads_of
from specdec_cli.profiles.hf_quantisation import stored_dtype
from specdec_cli.profiles.hf_reader import HIDDEN_KEYS, ConfigReader, architectures, read_json
from specdec_cli.profiles.schema import Drafter, DraftHead, Mechanism, Source
from specdec_cli.profiles.search import CONFIG_NAME

# Keys that only draft configurations have.
DRAFT_KEYS = ("draft_vocab_size", "dflash_config", "eagle_config", "target_layer_ids", "speculators_config")
# Names of architectures, most telling first.
ARCHITECTURES: tuple[tuple[str, Mechanism | None], ...] = (
    ("domino", None),
    ("dspark", "dspark"),
    ("dflash", "dflash"),
    ("peagle", "p_eagle"),
    ("eagle3", "eagle3"),
    ("eagle", "eagle"),
)
BLOCK_MECHANISMS = ("dflash", "dspark")
EAGLE3_FEATURES = 3  # hidden states of three target layers, where no list says how many


def is_draft(config: Mapping[str, Any]) -> bool:
    """Whether a `config.json` describes a draft head rather than a model."""
    named = architectures(config)
    return any(config.get(key) is not None for key in DRAFT_KEYS) or any(word in named for word, _ in ARCHITECTURES)


def read_drafter(
    path: Path, *, targets: list[str], name: str | None = None, mechanism: Mechanism | None = None
) -> Drafter:
    """The drafter of a `config.json`, or of a folder that holds one, for the target profiles named.

    Without a name it is called after its first target and its mechanism: llama-3.1-8b-eagle3.
    """
    file = path / CONFIG_NAME if path.is_dir() else path
    drafter = drafter_from_config(read_json(file), name=name or "x", targets=targets, mechanism=mechanism, file=file)
    if name is not None:
        return drafter
    return msgspec.structs.replace(drafter, name=f"{targets[0]}-{drafter.mechanism.replace('_', '-')}")


def drafter_from_config(
    config: Mapping[str, Any],
    *,
    name: str,
    targets: list[str],
    mechanism: Mechanism | None = None,
    aliases: list[str] | None = None,
    title: str = "",
    training: str = "",
    sources: Mapping[str, Source] | None = None,
    file: Path | str | None = None,
) -> Drafter:
    """The drafter that a parsed `config.json` describes, for the target profiles named.

    `mechanism` overrides what the file says: an EAGLE-1 head looks like a model of one layer. Raises ProfileError
    where a size is missing or the form is not modelled.
    """
    reader = ConfigReader(config, file=file)
    kind = mechanism or _mechanism(reader)
    if reader.has("kv_lora_rank"):
        raise reader.refuse("a draft layer with latent attention (MLA) is not modelled", key="kv_lora_rank")
    head = _head(reader, kind)
    block = reader.integer_or_none("block_size") if kind in BLOCK_MECHANISMS else None
    if kind in BLOCK_MECHANISMS and block is None:
        reader.assume("No block_size: the length that it was trained for is not known.")
    window = reader.integer_or_none("max_position_embeddings")
    if window is not None:
        reader.assume("window_tokens is max_position_embeddings; the length it was trained on can be shorter.")
    return Drafter(
        format=1,
        name=name,
        title=title,
        mechanism=kind,
        targets=targets,
        aliases=aliases or [],
        head=head,
        weight_dtype=stored_dtype(reader),
        block=block,
        window_tokens=window,
        kv_window_tokens=_kv_window(reader),
        training=training,
        notes=[*reader.notes, *reader.assumptions],
        sources=dict(sources) if sources is not None else {"*": _file_source(file)},
    )


def _mechanism(reader: ConfigReader) -> Mechanism:
    named = architectures(reader.outer)
    for word, mechanism in ARCHITECTURES:
        if word in named:
            if mechanism is None:
                raise reader.refuse(
                    "a Domino drafter (its head is a recurrent network) is not modelled", key="architectures"
                )
            return mechanism
    if reader.has("dflash_config"):
        return "dflash"
    if reader.has("draft_vocab_size", "eagle_config"):
        return "eagle3"
    if reader.integer_or_none("num_hidden_layers") == 1:
        reader.assume("A model of one layer: taken as an EAGLE-1 head.")
        return "eagle"
    raise reader.refuse("says no draft mechanism that is known", key="architectures", hint="name the mechanism")


def _head(reader: ConfigReader, mechanism: Mechanism) -> DraftHead:
    hidden = reader.integer(*HIDDEN_KEYS)
    layers = reader.integer("num_hidden_layers")
    if mechanism in ("eagle", "eagle3") and layers > 1:
        reader.assume(f"num_hidden_layers is {layers}, as of a target: an EAGLE head runs one layer.")
        layers = 1
    own_head = mechanism in ("eagle3", "p_eagle")
    vocabulary = reader.integer_or_none("draft_vocab_size") if own_head else reader.integer("vocab_size")
    if vocabulary is None:
        vocabulary = reader.integer("vocab_size")
        reader.assume("No draft_vocab_size: it drafts over the whole vocabulary.")
    return DraftHead(
        layers=layers,
        hidden=hidden,
        intermediate=reader.integer("intermediate_size"),
        heads=heads_of(reader),
        kv_heads=kv_heads_of(reader),
        head_dim=head_dim_of(reader),
        attention_input=2 * hidden if own_head else hidden,
        fc_in=_fusion_width(reader, mechanism, hidden),
        fc_every_pass=mechanism == "eagle",
        draft_vocabulary=vocabulary,
        own_lm_head=own_head,
        markov_rank=_markov_rank(reader) if mechanism == "dspark" else 0,
    )


def _fusion_width(reader: ConfigReader, mechanism: Mechanism, hidden: int) -> int:
    """What the fusion layer reads: token and feature (EAGLE-1), or the features of several target layers."""
    if mechanism == "eagle":
        return 2 * hidden
    features = reader.integer_or_none("target_hidden_size") or hidden
    for holder in (reader.data, reader.get("dflash_config"), reader.get("eagle_config")):
        for key in ("target_layer_ids", "eagle_aux_hidden_state_layer_ids"):
            layers = holder.get(key) if isinstance(holder, Mapping) else None
            if isinstance(layers, list) and layers:
                return len(layers) * features
    if mechanism in ("eagle3", "p_eagle"):
        return EAGLE3_FEATURES * features
    raise reader.missing("dflash_config.target_layer_ids", why="how many target layers it reads")


def _markov_rank(reader: ConfigReader) -> int:
    settings = reader.get("dflash_config")
    rank = settings.get("markov_rank") if isinstance(settings, Mapping) else reader.get("markov_rank")
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise reader.missing("dflash_config.markov_rank", why="the rank of DSpark's serial head")
    return rank


def _kv_window(reader: ConfigReader) -> int | None:
    """The draft's own sliding window, where its layers have one."""
    types = reader.names_list("layer_types") or []
    if "sliding_attention" in types and reader.flag("use_sliding_window") is not False:
        return reader.integer("sliding_window")
    return None


def _file_source(file: Path | str | None) -> Source:
    label = str(file) if file is not None else "config.json"
    return Source(from_=f"imported from {label}", checked=date.today().isoformat(), kind="published")
