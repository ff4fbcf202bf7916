"""A Hugging Face `config.json` to a model profile.

`read_model` takes a file or a folder; `model_from_config` takes the parsed JSON. Both refuse, with the name of the
missing key, rather than guess a size, and list in the profile's `assumptions` what was inferred.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.hf_attention import attention_layers
from specdec_cli.profiles.hf_block_configs import pruned_layers
from specdec_cli.profiles.hf_compressed import mtp_kind
from specdec_cli.profiles.hf_drafter import is_draft
from specdec_cli.profiles.hf_ffn import ffn_layers
from specdec_cli.profiles.hf_quantisation import part_dtypes
from specdec_cli.profiles.hf_reader import HIDDEN_KEYS, ConfigReader, read_json
from specdec_cli.profiles.schema import Block, Model, Mtp, PublishedParameters, Source
from specdec_cli.profiles.search import CONFIG_NAME

QUANTISATION_NAME = "hf_quant_config.json"

CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length")
ASSUMED_CONTEXT = 131072  # what most models of 2024 to 2026 state
MTP_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers")

# Whether embedding and head share a matrix, where the configuration leaves the key out: the class's own default.
TIED_BY_DEFAULT = {
    "gemma": True, "gemma2": True, "gemma3": True, "gemma3_text": True, "gemma4_text": True, "gpt2": True, "opt": True,
    "llama": False, "llama4_text": False, "mistral": False, "mixtral": False, "qwen2": False, "qwen2_moe": False,
    "qwen3": False, "qwen3_moe": False, "qwen3_next": False, "qwen3_5_text": False, "qwen3_5_moe_text": False,
    "qwen3_vl_text": False, "qwen3_vl_moe_text": False, "phi3": False, "gpt_oss": False, "deepseek_v2": False,
    "deepseek_v3": False, "deepseek_v32": False, "deepseek_v4": False, "kimi_k2": False, "glm4_moe": False,
    "glm_moe_dsa": False, "minimax_m2": False, "nemotron_h": False,
}  # fmt: skip

# Suffixes of a repository's name that name a tuning or a precision, not a shape.
TUNINGS = re.compile(r"-(?:instruct|it|base|chat|hf|thinking|bf16|\d{4})(?=-|$)", re.IGNORECASE)
MAKER_PREFIX = re.compile(r"^(?:meta-|nvidia-)(?=[a-z]+[-_])", re.IGNORECASE)


def read_model(path: Path, *, name: str | None = None) -> Model:
    """The model of a `config.json`, or of a folder that holds one; `hf_quant_config.json` beside it counts."""
    file = config_file(path)
    config = read_json(file)
    side = file.with_name(QUANTISATION_NAME)
    side_file = read_json(side) if file.name == CONFIG_NAME and side.is_file() else None
    repository = repository_of(config, file)
    folder = file.resolve().parent.name if file.name == CONFIG_NAME else file.stem
    return model_from_config(
        config,
        name=name or profile_name(repository or folder),
        side_file=side_file,
        file=file,
        aliases=[repository] if repository else [],
    )


def config_file(path: Path) -> Path:
    """The `config.json` in a folder; a file stands for itself."""
    return path / CONFIG_NAME if path.is_dir() else path


def repository_of(config: Mapping[str, Any], file: Path) -> str | None:
    """The repository that a configuration came from: as it says itself, as the hub's cache folder is named, or as
    copies of many repositories are (`maker__model.json`)."""
    said = str(config.get("_name_or_path") or "")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", said):
        return said
    cached = next((part for part in file.resolve().parts if part.startswith("models--")), "")
    parts = cached.split("--")[1:] or (file.parent.name if file.name == CONFIG_NAME else file.stem).split("__")
    return "/".join(parts) if len(parts) == 2 and all(parts) else None


def model_from_config(
    config: Mapping[str, Any],
    *,
    name: str,
    maker: str = "",
    title: str = "",
    aliases: list[str] | None = None,
    side_file: Mapping[str, Any] | None = None,
    sources: Mapping[str, Source] | None = None,
    parameters: PublishedParameters | None = None,
    file: Path | str | None = None,
) -> Model:
    """The model that a parsed `config.json` describes; raises ProfileError where a size is missing or not modelled."""
    reader = ConfigReader(config, file=file)
    if not reader.data:
        raise ProfileError("an empty configuration", file=file)
    if is_draft(config):
        raise ProfileError("this is the configuration of a drafter, not of a model", file=file)
    hidden = reader.integer(*HIDDEN_KEYS)
    pruned = pruned_layers(reader)
    if pruned is not None:
        attention, attention_kinds, ffn, ffn_kinds = pruned
    else:
        attention, attention_kinds = attention_layers(reader)
        ffn, ffn_kinds = ffn_layers(reader)
    mtp = _mtp(reader, attention_kinds, ffn_kinds)
    dtypes = part_dtypes(
        reader,
        side_file,
        [attention[kind] if kind else None for kind in attention_kinds],
        [ffn[kind] if kind else None for kind in ffn_kinds],
        hidden=hidden,
        has_mtp=mtp is not None,
    )
    return Model(
        format=1,
        name=name,
        title=title,
        notes=reader.notes,
        maker=maker,
        aliases=aliases or [],
        hidden=hidden,
        vocabulary=reader.integer("vocab_size", "padded_vocab_size"),
        tied_embeddings=_tied(reader),
        residual_streams=reader.integer_or_none("hc_mult") or 1,
        max_context=_max_context(reader),
        attention=attention,
        ffn=ffn,
        blocks=blocks_of(attention_kinds, ffn_kinds),
        mtp=mtp,
        dtypes=dtypes,
        parameters=parameters or PublishedParameters(),
        sources=dict(sources) if sources is not None else {"*": _file_source(file)},
        assumptions=reader.assumptions,
    )


def blocks_of(attention: list[str | None], ffn: list[str | None]) -> list[Block]:
    """Layers alike put together, in the order in which their kinds first appear."""
    counts: dict[tuple[str | None, str | None], int] = {}
    for pair in zip(attention, ffn, strict=True):
        counts[pair] = counts.get(pair, 0) + 1
    return [Block(repeat=repeat, attention=kinds[0], ffn=kinds[1]) for kinds, repeat in counts.items()]


def profile_name(repository: str) -> str:
    """`meta-llama/Llama-3.1-8B-Instruct` -> `llama-3.1-8b`: the last part, lower case, maker and tuning dropped."""
    last = repository.rstrip("/").split("/")[-1]
    short = MAKER_PREFIX.sub("", TUNINGS.sub("", last)).lower()
    return re.sub(r"[^a-z0-9._-]+", "-", short).strip("-._") or "model"


# -------------------------------------------------------------------------------------------------- details


def _max_context(reader: ConfigReader) -> int:
    """The longest context; no cost depends on it, so an unknown one is assumed rather than refused."""
    context = reader.integer_or_none(*CONTEXT_KEYS)
    if not context:
        reader.assume(f"No {CONTEXT_KEYS[0]}: {ASSUMED_CONTEXT} tokens taken as the longest context.")
        return ASSUMED_CONTEXT
    return context


def _tied(reader: ConfigReader) -> bool:
    for data in (reader.data, reader.outer):
        value = data.get("tie_word_embeddings")
        if isinstance(value, bool):
            return value
        if value is not None:
            raise reader.refuse(f"expected true or false, found {str(value)[:40]!r}", key="tie_word_embeddings")
    if reader.model_type not in TIED_BY_DEFAULT:
        raise reader.missing("tie_word_embeddings", why=f"no default is known for model_type {reader.model_type!r}")
    tied = TIED_BY_DEFAULT[reader.model_type]
    reader.assume(f"tie_word_embeddings is missing: {str(tied).lower()}, the default of {reader.model_type}.")
    return tied


def _mtp(reader: ConfigReader, attention: list[str | None], ffn: list[str | None]) -> Mtp | None:
    layers = _mtp_layers(reader)
    if layers is None:
        return None
    # An MTP layer is a layer of the model; in a hybrid the full-attention kind, in a mixture the mixture.
    known = [kind for kind in attention if kind]
    first = mtp_kind(reader) or next((kind for kind in ("mla", "full") if kind in known), known[-1])
    last = next((kind for kind in ("moe", "dense") if kind in ffn), None)
    return Mtp(layers=layers, attention=first, ffn=last)


def _mtp_layers(reader: ConfigReader) -> int | None:
    if reader.flag("use_mtp") is not False and reader.has("num_mtp_modules"):
        layers = reader.integer("num_mtp_modules") * (reader.integer_or_none("mtp_transformer_layers") or 1)
    else:
        layers = reader.integer_or_none(*MTP_KEYS) or 0
    if layers:
        key = next(name for name in ("num_mtp_modules", *MTP_KEYS) if reader.has(name))
        reader.assume(f"{key} advertises {layers} MTP layer(s); the file cannot show that the tensors exist.")
        return layers
    if reader.model_type == "qwen3_next":
        reader.assume("One MTP layer: Qwen3-Next ships its weights without a key in the config.json.")
        return 1
    return None


def _file_source(file: Path | str | None) -> Source:
    label = str(file) if file is not None else "config.json"
    return Source(from_=f"imported from {label}", checked=date.today().isoformat(), kind="published")
