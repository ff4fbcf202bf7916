"""Reading a Hugging Face `config.json`: the file, the object inside it that holds the sizes, and single keys.

A key that decides a size is either there, under one of the names that exist in the wild, or the import is refused
with that name. What is inferred all the same is written down in `assumptions`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.text_file import read_text

# Where the sizes of a language model hide inside a multimodal configuration. The top level may hold the vision
# tower's sizes under the same names, so a nested object that has layers and a width wins.
NESTED = (
    ("text_config",),
    ("llm_config",),
    ("language_config",),
    ("language_model",),
    ("thinker_config", "text_config"),
    ("decoder",),
)
LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "layers_block_type", "hybrid_override_pattern")
HIDDEN_KEYS = ("hidden_size", "n_embd", "d_model")

MAX_BYTES = 16 * 2**20  # lists of quantised modules reach 3 MB
MAX_DIGITS = 18
LARGEST = 10**9
"""Of any size in a configuration; lists are made with an entry for each layer."""
MOST_LAYERS = 1000


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; `Infinity` and `NaN`, which some published files hold, are accepted.

    Raises ProfileError: unreadable as text, not JSON, no object, a key given twice, a number of too many digits.
    """

    def whole(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            raise ProfileError(f"expected numbers of at most {MAX_DIGITS} digits, found {len(digits)}", file=path)
        return int(digits)

    def keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(name for name in found if sum(name == other for other, _ in pairs) > 1)
            raise ProfileError("this key is given twice in one object", file=path, key=twice, hint="keep one")
        return found

    text = read_text(path, "a JSON file", MAX_BYTES)
    try:
        value = json.loads(text, parse_int=whole, object_pairs_hook=keys)
    except json.JSONDecodeError as error:
        raise ProfileError(f"is not JSON: {error.msg}", file=path, line=error.lineno) from None
    except RecursionError:
        raise ProfileError("is nested too deep to be a configuration", file=path) from None
    if not isinstance(value, dict):
        raise ProfileError(f"expected a JSON object, found {_shown(value)}", file=path)
    return value


class ConfigReader:
    """The object that holds the sizes, the whole around it, and what had to be assumed while reading."""

    def __init__(self, outer: Mapping[str, Any], *, file: Path | str | None = None) -> None:
        self.file = file
        self.outer = outer
        self.where, self.data = _language_model(outer)
        self.assumptions: list[str] = []
        if self.where:
            self.notes = [f"Sizes read from {self.where} of the config.json."]
        else:
            self.notes = []

    @property
    def model_type(self) -> str:
        value = self.data.get("model_type") or self.outer.get("model_type") or ""
        return str(value)

    def assume(self, text: str) -> None:
        """Writes an assumption down, once."""
        if text not in self.assumptions:
            self.assumptions.append(text)

    def refuse(self, message: str, *, key: str | None = None, hint: str | None = None) -> ProfileError:
        """The error to raise, with the file and the place of the key in it."""
        place = f"{self.where}.{key}" if key and self.where else key
        return ProfileError(message, file=self.file, key=place, hint=hint)

    def get(self, *names: str) -> Any:
        """The first of the names that is present and not null; None where none is."""
        for name in names:
            value = self.data.get(name)
            if value is not None:
                return value
        return None

    def get_anywhere(self, *names: str) -> Any:
        """The same, looking at the top level where the nested object has none (dtype, quantisation, tying)."""
        value = self.get(*names)
        if value is None:
            value = next((self.outer[name] for name in names if self.outer.get(name) is not None), None)
        return value

    def has(self, *names: str) -> bool:
        return self.get(*names) is not None

    def integer_or_none(self, *names: str) -> int | None:
        """A whole number of at least 0, or None where no name is present; refuses anything else."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise self.refuse(f"expected a whole number, found {_shown(value)}", key=name)
            if value > LARGEST:
                raise self.refuse(f"expected at most {LARGEST:,}, found {value:,}", key=name)
            return value
        return None

    def integer(self, *names: str, why: str = "") -> int:
        """A whole number of at least 1; refuses with the first name where none is present."""
        value = self.integer_or_none(*names)
        if value is None:
            raise self.missing(*names, why=why)
        if value < 1:
            raise self.refuse("expected at least 1, found 0", key=names[0])
        return value

    def missing(self, *names: str, why: str = "") -> ProfileError:
        """The error for a key that is needed and absent."""
        other = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
        reason = f": {why}" if why else ""
        place = f" in {self.where}" if self.where else ""
        message = f"missing key {names[0]}{other}{place}{reason}"
        return ProfileError(message, file=self.file, key=None, hint="add it to the config.json")

    def names_list(self, name: str) -> list[str] | None:
        """A list of strings, or None where the key is absent."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.refuse(f"expected a list of names, found {_shown(value)}", key=name)
        return value

    def text(self, *names: str) -> str | None:
        """The first of the names that is present, which must hold text; None where none is."""
        for name in names:
            value = self.data.get(name)
            if value is not None:
                if not isinstance(value, str):
                    raise self.refuse(f"expected text, found {_shown(value)}", key=name)
                return value
        return None

    def items(self, name: str) -> list[Any]:
        """A list; empty where the key is absent."""
        value = self.get(name)
        if value is not None and not isinstance(value, list):
            raise self.refuse(f"expected a list, found {_shown(value)}", key=name)
        return value or []

    def flag(self, name: str) -> bool | None:
        """True, False, or None where the key is absent."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, bool):
            raise self.refuse(f"expected true or false, found {_shown(value)}", key=name)
        return value


def _language_model(outer: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    for path in NESTED:
        inner: Any = outer
        for name in path:
            inner = inner.get(name) if isinstance(inner, Mapping) else None
        if isinstance(inner, Mapping) and _has_sizes(inner):
            return ".".join(path), inner
    return "", outer


def architectures(config: Mapping[str, Any]) -> str:
    """The class names of a configuration in lower case, put together; empty where it lists none."""
    named = config.get("architectures")
    return " ".join(map(str, named)).lower() if isinstance(named, list) else ""


def _has_sizes(data: Mapping[str, Any]) -> bool:
    return any(data.get(name) is not None for name in LAYER_KEYS) and any(
        data.get(name) is not None for name in HIDDEN_KEYS
    )


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
