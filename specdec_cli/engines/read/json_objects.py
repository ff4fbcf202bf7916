"""JSON as engines and people leave it: objects one a line, one after the other, in a list, cut short, with Infinity."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from specdec_cli.engines.read.source import LONGEST_OBJECT, Source
from specdec_cli.errors import ProfileError

Object = dict[str, Any]
_DECODER = json.JSONDecoder()
LEAST, MOST = 1e-12, 1e18
"""Every quantity here lies well between them; another number (Infinity, NaN, a broken one) is taken as not said."""
_BETWEEN = re.compile(r"[\s,]*")


class Entry(NamedTuple):
    """An object and the line that it starts on."""

    line: int
    data: Object


class Reading(NamedTuple):
    """The objects of a file, and the line of the first thing that is not one (None: all were read)."""

    entries: list[Entry]
    broken_line: int | None
    broken: int
    """How many lines or tails could not be read."""


def read_objects(source: Source) -> Reading:
    """Every whole object. A list counts as its elements.

    Raises ProfileError where there is none.
    """
    if _one_a_line(source.head):
        reading = _lines(source)
    else:
        reading = _anywhere(source.whole().decode("utf-8", errors="replace"))
    if not reading.entries:
        raise ProfileError("no JSON object can be read", file=source.name, line=reading.broken_line)
    return reading


def _one_a_line(head: bytes) -> bool:
    """Whether the first line is an object by itself and another follows, or it ends the file."""
    first, feed, rest = head.strip().partition(b"\n")
    if not feed or not rest.lstrip().startswith(b"{"):
        return False
    return isinstance(_load(first), dict)


def _load(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _lines(source: Source) -> Reading:
    entries: list[Entry] = []
    number, broken, first_broken = 0, 0, None
    for block in source.blocks(LONGEST_OBJECT):
        for text in block.splitlines():
            number += 1
            if not text.strip():
                continue
            data = _load(text)
            found = data if isinstance(data, list) else [data]
            good = [Entry(number, one) for one in found if isinstance(one, dict)]
            entries += good
            if not good:
                broken += 1
                first_broken = first_broken or number
    return Reading(entries, first_broken, broken)


def _anywhere(text: str) -> Reading:
    entries: list[Entry] = []
    broken_at: int | None = None
    at = _skip(text, 0)
    inside_list = text.startswith("[", at)
    if inside_list:
        at = _skip(text, at + 1)
    line, counted = 1, 0
    while at < len(text):
        line, counted = line + text.count("\n", counted, at), at
        if text[at] in "[]":  # the end of a list, or another one
            at = _skip(text, at + 1)
            continue
        try:
            data, at_end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            broken_at = line
            break
        if isinstance(data, dict):
            entries.append(Entry(line, data))
        at = _skip(text, at_end)
    return Reading(entries, broken_at, int(broken_at is not None))


def _skip(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found is not None else at


def number(data: Mapping[str, Any], *names: str) -> float | None:
    """The first of these keys that holds a number (or text that is one), finite and of a possible size."""
    for name in names:
        value = data.get(name)
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                continue
        if isinstance(value, int | float) and (value == 0 or LEAST <= abs(value) <= MOST):
            return float(value)
    return None


def text_of(data: Mapping[str, Any], *names: str) -> str | None:
    """The first of these keys that holds a text."""
    for name in names:
        value = data.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return None


def numbers_of(value: object) -> tuple[float, ...] | None:
    """A list of finite numbers; None where it is not one."""
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(one, int | float) and not isinstance(one, bool) and abs(one) <= MOST for one in value):
        return tuple(float(one) for one in value)
    return None


def mean_of(value: object, key: str = "average") -> float | None:
    """`value[key]` where value is an object that holds a number there."""
    return number(value, key) if isinstance(value, Mapping) else None


def objects_in(value: object) -> Iterator[Object]:
    """The objects in a list."""
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))
