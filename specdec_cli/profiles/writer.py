"""A record back to YAML: tidy, commented, and read again to an equal record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from specdec_cli.profiles.schema import Profile

FIRST = ("format", "kind", "name", "title")
LAST = ("assumptions", "notes", "sources")
WIDTH = 110

# What stands behind a key, by kind of profile: a unit, or what a reader of the file would ask.
COMMENTS: dict[tuple[str, str], str] = {
    ("model", "quantised_from"): "a quantised copy of it: acceptance measured there holds here",
    ("model", "aliases"): "full ids on the Hugging Face hub; case is ignored",
    ("model", "hidden"): "width of the residual stream",
    ("model", "tied_embeddings"): "whether embedding and lm_head are one matrix",
    ("model", "residual_streams"): "hidden states side by side, mixed by hyper-connections",
    ("model", "max_context"): "tokens",
    ("model", "attention"): "one entry for each kind of layer",
    ("model", "blocks"): "layers alike together: their order does not change the cost",
    ("model", "mtp"): "native multi-token prediction, layers of the kinds above",
    ("model", "dtypes"): "as the first alias ships them; `weights` is every part not named",
    ("model", "parameters"): "to check the computed counts against; 1e9, embedding to lm_head, no MTP, no vision",
    ("model", "assumptions"): "what the config.json does not say",
    ("drafter", "targets"): "model profiles that it drafts for",
    ("drafter", "aliases"): "full ids on the Hugging Face hub; case is ignored",
    ("drafter", "head"): "its own layers",
    ("drafter", "block"): "tokens of the trained block",
    ("drafter", "window_tokens"): "context that it was trained on",
    ("drafter", "parameters_m"): "1e6, published or derived as `sources` says, to check the computed count against",
}


def to_yaml(record: Profile, *, header: str = "") -> str:
    """The text of a profile file; `header` stands above it as a comment.

    Fields at their default are left out, unless `sources` names them. Not for hardware: an engine's kernels inherit
    key by key there, and a default left out would be inherited.
    """
    kind = str(record.__struct_config__.tag)
    values: dict[str, Any] = {"format": record.format, "kind": kind, **_plain(record, "", frozenset(record.sources))}
    names = [*FIRST, *(name for name in values if name not in FIRST and name not in LAST), *LAST]
    lines = [f"# {line}".rstrip() for line in header.splitlines()]
    for name in names:
        if name in values:
            lines += _entry(name, values[name], COMMENTS.get((kind, name), ""))
    return "\n".join(lines) + "\n"


class _Fields(dict[str, Any]):
    """A record as a mapping: one of fixed keys, written on one line where it fits."""


def _plain(value: Any, path: str, named: frozenset[str]) -> Any:
    """Records as `_Fields`, as the file names their keys; `named`: keys that stay although they have the default."""
    if isinstance(value, Mapping):
        return {key: _plain(item, f"{path}{key}.", named) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, f"{path}{index}.", named) for index, item in enumerate(value)]
    if not isinstance(value, msgspec.Struct):
        return value
    fields = _Fields()
    config = value.__struct_config__
    if config.tag is not None and config.tag_field == "type":
        fields["type"] = config.tag
    for field in msgspec.structs.fields(value):
        item, key = getattr(value, field.name), field.encode_name
        if path + key in named or not _is_default(field, item):
            fields[key] = _plain(item, f"{path}{key}.", named)
    return fields


def _is_default(field: msgspec.structs.FieldInfo, value: Any) -> bool:
    if field.default_factory is not msgspec.NODEFAULT:
        return bool(value == field.default_factory())
    return bool(field.default is not msgspec.NODEFAULT and value == field.default)


def _entry(name: str, value: Any, comment: str) -> list[str]:
    """A top-level key."""
    note = f"  # {comment}" if comment else ""
    if isinstance(value, _Fields):
        text = f"{name}: {flow(value)}{note}"
        return [text] if len(text) <= WIDTH else [f"{name}:{note}", *_keys(value, 2)]
    if isinstance(value, Mapping) and value:
        lines = [f"{name}:{note}"]
        for key, item in value.items():
            text = f"  {_scalar(key)}: {flow(item)}"
            fits = not isinstance(item, _Fields) or (len(text) <= WIDTH and name not in LAST)
            lines += [text] if fits else [f"  {_scalar(key)}:", *_keys(item, 4)]
        return lines
    line = f"{name}: {flow(value)}{note}"
    if (
        isinstance(value, list)
        and value
        and (note or name in LAST or len(line) > WIDTH or isinstance(value[0], Mapping))
    ):
        return [f"{name}:{note}", *(f"  - {flow(item)}" for item in value)]
    return [line]


def _keys(fields: _Fields, indent: int) -> list[str]:
    return [f"{' ' * indent}{key}: {flow(item)}" for key, item in fields.items()]


def flow(value: Any) -> str:
    """A value on one line, as YAML reads it back."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """A plain scalar where YAML reads it back as the same value, else a quoted one."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        if "e" in text and "." not in text:  # YAML 1.1 wants the point: 1e-05 would be text
            text = text.replace("e", ".0e")
        return text
    text = str(value)
    risky = not text or not text.isprintable() or any(letter in text for letter in ",[]{}#\n") or ": " in text
    if not risky and not text.endswith(":") and _read(text) == text:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    # What YAML refuses (control characters) or a reader of the file would not see (directions of reading).
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)


def _read(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None
