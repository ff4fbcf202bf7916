"""Turns plain data into a frozen record, and a mismatch into errors that name key, expectation and nearest right name.

msgspec converts, and is the only judge of what fits. Its complaint names neither the key of a mapping nor the right
spelling, so where it complains the same types are walked again here to find every place that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import msgspec

from specdec_cli.errors import ProfileError, did_you_mean
from specdec_cli.profiles.schema import Profile
from specdec_cli.profiles.yaml_reader import Document, KeyPath, dotted

P = TypeVar("P", bound=Profile)

MOST_PROBLEMS = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong at one key."""

    key: KeyPath
    message: str
    hint: str | None = None

    def error(self, document: Document) -> ProfileError:
        """As an error that names file and line."""
        return ProfileError(
            self.message,
            file=document.path,
            line=document.line(self.key),
            key=dotted(self.key) or None,
            hint=self.hint,
        )


def convert(document: Document, data: Mapping[str | int, Any], record: type[P]) -> P:
    """The record of `data` (what `document` says, inheritance resolved).

    Raises ProfileError for the first unknown, missing or wrong key.
    """
    try:
        return msgspec.convert(data, record, strict=True)
    except msgspec.ValidationError as error:
        # The walk knows every type that the schema uses; should it miss one, msgspec's own words still stand.
        first = next(_walk(document, data, record), Problem((), str(error)))
        raise first.error(document) from None


def problems_of(document: Document, data: Mapping[str | int, Any], record: type[Profile]) -> list[Problem]:
    """What about `data` does not fit the record's types, in the order of reading; empty: it fits.

    Of very many problems the first MOST_PROBLEMS: a file with more is of another form.
    """
    return list(islice(_walk(document, data, record), MOST_PROBLEMS))


def _walk(document: Document, data: Mapping[str | int, Any], record: type[Profile]) -> Iterator[Problem]:
    import msgspec.inspect  # only mistakes pay for it

    return _Walk(document).check(data, msgspec.inspect.type_info(record), ())


class _Walk:
    """One walk over data and types side by side."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def check(self, value: Any, expected: Any, key: KeyPath) -> Iterator[Problem]:
        """Every mismatch between a value and a `msgspec.inspect` type."""
        match type(expected).__name__:
            case "StructType":
                yield from self._struct(value, expected, key)
            case "UnionType":
                yield from self._union(value, expected, key)
            case "DictType":
                yield from self._dict(value, expected, key)
            case "ListType":
                yield from self._list(value, expected, key)
            case "LiteralType":
                yield from self._literal(value, expected.values, key)
            case _:
                yield from self._scalar(value, expected, key)

    def _struct(self, value: Any, expected: Any, key: KeyPath) -> Iterator[Problem]:
        if not isinstance(value, dict):
            names = [field.encode_name for field in expected.fields if field.required]
            hint = f"its keys are {_listed(names)}" if names else None
            yield self._mismatch(value, "a mapping", key, hint)
            return
        fields = {field.encode_name: field for field in expected.fields}
        valid = [*fields, *([expected.tag_field] if expected.tag_field else [])]
        missing = [field.encode_name for field in expected.fields if field.required and field.encode_name not in value]
        for name in value:
            if name not in valid:
                hint = did_you_mean(str(name), missing) or did_you_mean(str(name), valid)
                yield Problem((*key, str(name)), "unknown key", hint or f"the keys here are {_listed(valid)}")
        if expected.tag_field and expected.tag_field in value:
            yield from self._literal(value[expected.tag_field], (expected.tag,), (*key, expected.tag_field))
        for name, field in fields.items():
            if name in value:
                yield from self.check(value[name], field.type, (*key, name))
            elif field.required:
                yield self._missing(name, describe_type(field.type), key)

    def _union(self, value: Any, expected: Any, key: KeyPath) -> Iterator[Problem]:
        options = [option for option in expected.types if type(option).__name__ != "NoneType"]
        if value is None and len(options) < len(expected.types):
            return
        if len(options) == 1:
            yield from self.check(value, options[0], key)
            return
        # The schema's only unions of several are structs told apart by a tag.
        by_tag = {option.tag: option for option in options}
        field = options[0].tag_field
        if not isinstance(value, dict):
            yield self._mismatch(value, "a mapping", key, f"its `{field}` is one of {_listed(list(by_tag))}")
        elif field not in value:
            yield self._missing(field, f"one of {_listed(list(by_tag))}", key)
        elif isinstance(value[field], str) and value[field] in by_tag:
            yield from self._struct(value, by_tag[value[field]], key)
        else:
            yield from self._literal(value[field], tuple(by_tag), (*key, field))

    def _dict(self, value: Any, expected: Any, key: KeyPath) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield self._mismatch(value, "a mapping", key)
            return
        for name, item in value.items():
            here = (*key, str(name))
            wrong = list(self.check(name, expected.key_type, here))
            if wrong:
                literal = type(expected.key_type).__name__ == "LiteralType"
                valid = [str(option) for option in expected.key_type.values] if literal else []
                hint = did_you_mean(str(name), valid)
                wants = f"a key among {_listed(valid)}" if literal else f"{describe_type(expected.key_type)} as key"
                yield Problem(here, f"expected {wants}, found {_described(name)}", hint)
            else:
                yield from self.check(item, expected.value_type, here)

    def _list(self, value: Any, expected: Any, key: KeyPath) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield self._mismatch(value, "a list", key, "put it in [ ], or on lines that start with `- `")
            return
        if expected.min_length is not None and len(value) < expected.min_length:
            least = f"{expected.min_length} {'entry' if expected.min_length == 1 else 'entries'}"
            yield Problem(key, f"expected at least {least}, found {len(value) or 'an empty list'}")
        if expected.max_length is not None and len(value) > expected.max_length:
            yield Problem(key, f"expected at most {expected.max_length} entries, found {len(value)}")
        for index, item in enumerate(value):
            yield from self.check(item, expected.item_type, (*key, index))

    def _literal(self, value: Any, values: tuple[Any, ...], key: KeyPath) -> Iterator[Problem]:
        # Types are compared too: True == 1 for Python, not for a file.
        if any(value == option and type(value) is type(option) for option in values):
            return
        wants = f"one of {_listed([str(option) for option in values])}" if len(values) > 1 else f"{values[0]}"
        written = self.document.written(key) if not isinstance(value, str) else None
        hint = did_you_mean(str(value), [option for option in values if isinstance(option, str)])
        if written is not None and written in values:
            hint = f'YAML reads {written} as {_described(value)}: write "{written}" in quotes'
        elif isinstance(value, str) and value in [str(option) for option in values]:
            hint = "write it without quotes"
        yield self._mismatch(value, wants, key, hint)

    def _scalar(self, value: Any, expected: Any, key: KeyPath) -> Iterator[Problem]:
        wants = describe_type(expected, value)
        match type(expected).__name__:
            case "StrType":
                if not isinstance(value, str):
                    written = self.document.written(key)
                    quoted = f'write "{written}" in quotes' if written else None
                    yield self._mismatch(value, wants, key, quoted)
                elif not _fits_text(value, expected):
                    yield self._mismatch(value, wants, key)
            case "BoolType":
                if not isinstance(value, bool):
                    yield self._mismatch(value, wants, key, "write true or false, without quotes")
            case "IntType":
                if isinstance(value, bool) or not isinstance(value, int):
                    whole = isinstance(value, float) and value.is_integer()
                    hint = f"write {int(value)}" if whole else number_hint(value)
                    yield self._mismatch(value, wants, key, hint)
                elif not _in_range(value, expected):
                    yield self._mismatch(value, wants, key)
            case "FloatType":
                if isinstance(value, bool) or not isinstance(value, int | float):
                    yield self._mismatch(value, wants, key, number_hint(value))
                elif not _in_range(value, expected):
                    yield self._mismatch(value, wants, key)

    def _mismatch(self, value: Any, wants: str, key: KeyPath, hint: str | None = None) -> Problem:
        found = _described(value)
        written = self.document.written(key)
        if isinstance(value, bool) and written and written.casefold() not in ("true", "false"):
            found += f" (YAML reads {written} as {'true' if value else 'false'})"
        return Problem(key, f"expected {wants}, found {found}", hint)

    def _missing(self, name: str, wants: str, key: KeyPath) -> Problem:
        return Problem(key, f"missing key `{name}`", f"it holds {wants}")


def number_hint(value: Any) -> str | None:
    """How to write the number that a text was meant to be; None where it is no number."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text.casefold().lstrip("+-.") in ("nan", "inf", "infinity"):
        return "only finite numbers are read"
    exponent = re.fullmatch(r"([-+]?)([0-9]+)(\.[0-9]*)?[eE]([-+]?)([0-9]+)", text)
    if exponent:
        sign, whole, part, direction, power = exponent.groups()
        # YAML 1.1 wants both the point and the sign of the exponent.
        return f"YAML reads {value} as text: write {sign}{whole}{part or '.0'}e{direction or '+'}{power}"
    if re.fullmatch(r"[-+]?[0-9]+(\.[0-9]*)?|[-+]?\.[0-9]+", text):
        return "write it without quotes"
    if re.fullmatch(r"[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?", text):
        return f"write {text.replace(',', '')}"
    if re.match(r"[-+~<>≈]*\s*[0-9.]+\s*[A-Za-z%/]", text):
        return "write the number alone: its unit is in the key's name"
    return None


def describe_type(expected: Any, found: Any = None) -> str:
    """What a `msgspec.inspect` type takes, in words; limits that nobody meets are named where `found` passes them."""
    match type(expected).__name__:
        case "StrType":
            if expected.pattern is not None:
                return "a name of lower-case letters, digits and . _ -"
            return "text"
        case "BoolType":
            return "true or false"
        case "IntType":
            return f"a whole number{_range(expected, found)}"
        case "FloatType":
            return f"a number{_range(expected, found)}"
        case "LiteralType":
            values = [str(value) for value in expected.values]
            return f"one of {_listed(values)}" if len(values) > 1 else values[0]
        case "ListType":
            return "a list"
        case "UnionType":
            words = [describe_type(option) for option in expected.types if type(option).__name__ != "NoneType"]
            return " or ".join(dict.fromkeys(words)) + (" or null" if len(words) < len(expected.types) else "")
        case _:
            return "a mapping"


NEAR_ZERO, FAR_OFF = 1e-5, 1e4
"""Limits past these stand against overflow alone."""


def _range(expected: Any, found: Any) -> str:
    figure = found if isinstance(found, int | float) and not isinstance(found, bool) else 0
    low = f" of at least {expected.ge:g}" if expected.ge is not None else ""
    if expected.gt is not None:
        low = f" above {expected.gt if expected.gt > NEAR_ZERO or 0 < figure <= expected.gt else 0:g}"
    high = ""
    if expected.le is not None and (expected.le < FAR_OFF or figure > expected.le):
        high = f" at most {expected.le:g}"
    return low + (" and" if low and high else "") + high


def _in_range(value: float, expected: Any) -> bool:
    return (
        (expected.gt is None or value > expected.gt)
        and (expected.ge is None or value >= expected.ge)
        and (expected.le is None or value <= expected.le)
    )


def _fits_text(value: str, expected: Any) -> bool:
    if expected.max_length is not None and len(value) > expected.max_length:
        return False
    return expected.pattern is None or re.search(expected.pattern, value) is not None


def _described(value: Any) -> str:
    """A value in an error: its kind and, where short, itself."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "the boolean " + ("true" if value else "false")
    if isinstance(value, str):
        return f"the text `{value if len(value) <= 60 else value[:57] + '...'}`"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping"


def _listed(names: list[str]) -> str:
    return ", ".join(names)
