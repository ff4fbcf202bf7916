"""A parsed profile or config.json with one thing changed, and its text again.

JSON is written, which YAML reads too; `Raw` and `Twice` stand for what neither library would write.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Raw:
    """Text that stands as it is where a value is expected."""

    text: str


@dataclass(frozen=True)
class Twice:
    """A value whose key is given a second time, with null."""

    value: Any


STRANGE: dict[str, Any] = {
    "text": "a text",
    "empty text": "",
    "100 kB of text": "x" * 100_000,
    "number as text": "1e9",
    "terminal escape": "\x1b[31mred\x1b[0m\x07",
    "parent folder": "../../etc/passwd",
    "list": [],
    "list of null": [None],
    "mapping": {},
    "null": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "minus zero": -0.0,
    "half": 0.5,
    "nan": Raw(".nan"),
    "infinity": Raw("-.inf"),
    "1e308": 1e308,
    "1e-320": 1e-320,
    "1e17": 10**17,
    "10**400": 10**400,
    "10**5000": Raw("1" + "0" * 5000),
}

UNITS = (("_gb", "_gib"), ("_us", "_ms"), ("_ms", "_us"), ("tflops", "gflops"), ("_size", "_sizes"), ("_tokens", ""))


def text_of(tree: Any, *, yaml: bool, indent: int = 0) -> str:
    """The tree as text. YAML wants a point in every exponent."""
    pad, deeper = "\n" + " " * indent, "\n" + " " * (indent + 1)
    if isinstance(tree, Raw):
        return tree.text if yaml else {".nan": "NaN", "-.inf": "-Infinity"}.get(tree.text, tree.text)
    if isinstance(tree, dict):
        rows = []
        for key, value in tree.items():
            twice = isinstance(value, Twice)
            shown = text_of(value.value if twice else value, yaml=yaml, indent=indent + 1)
            name = str(key) if yaml and isinstance(key, int) else json.dumps(str(key))
            rows += [f"{name}: {shown}", *([f"{name}: null"] if twice else [])]
        return "{" + ",".join(deeper + row for row in rows) + pad + "}" if rows else "{}"
    if isinstance(tree, list):
        rows = [text_of(value, yaml=yaml, indent=indent + 1) for value in tree]
        return "[" + ",".join(deeper + row for row in rows) + pad + "]" if rows else "[]"
    if isinstance(tree, float):
        assert math.isfinite(tree)
        text = repr(tree)
        return re.sub(r"^(-?\d+)e", r"\1.0e", text) if yaml else text
    if isinstance(tree, int) and not isinstance(tree, bool):
        return str(tree)
    return json.dumps(tree)


def places(tree: Any, here: Place = ()) -> Iterator[Place]:
    """Where every value stands, in the order of reading."""
    if here:
        yield here
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, value in inside:
        yield from places(value, (*here, step))


def at(tree: Any, place: Place) -> Any:
    """The value at a place."""
    for step in place:
        tree = tree[step]
    return tree


def put(tree: Any, place: Place, value: Any) -> Any:
    """A copy of the tree with another value at a place."""
    found = copy.deepcopy(tree)
    at(found, place[:-1])[place[-1]] = value
    return found


def moved(tree: Any, place: Place) -> Any:
    """A key where it does not belong: a nested one at the top, one of the top under `notes`; None: not a key."""
    value = at(tree, place)
    found = without(tree, place)
    if isinstance(place[-1], int):
        return None
    return {**found, place[-1]: value} if len(place) > 1 else {**found, "notes": {place[-1]: value}}


def without(tree: Any, place: Place) -> Any:
    """A copy of the tree with nothing at a place."""
    found = copy.deepcopy(tree)
    at(found, place[:-1]).pop(place[-1])
    return found


def doubled(tree: Any, place: Place) -> Any:
    """A copy of the tree with a key given twice, or an entry of a list standing twice."""
    value = at(tree, place)
    if isinstance(place[-1], str):
        return put(tree, place, Twice(value))
    found = copy.deepcopy(tree)
    at(found, place[:-1]).insert(place[-1], copy.deepcopy(value))
    return found


def _misspelt(name: str) -> str:
    return name[:-2] + name[-1:] + name[-2:-1] if len(set(name[-2:])) > 1 else name + "s"


def _other_unit(name: str) -> str:
    return next((name.replace(unit, other) for unit, other in UNITS if unit in name), name)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "misspelt": _misspelt,
    "upper case": str.upper,
    "cut short": lambda name: name[:-1],
    "look-alike letters": lambda name: name.replace("a", "а").replace("e", "е"),
    "another unit": _other_unit,
}
CHANGES = (*STRANGE, "removed", "doubled", "moved", *SPELLINGS)
"""Everything that is done at a place."""


def changed(tree: Any, place: Place, change: str) -> Any:
    """A copy of the tree with one change at one place; None where that would change nothing."""
    if change in STRANGE:
        return put(tree, place, STRANGE[change])
    if change in SPELLINGS:
        name = SPELLINGS[change](str(place[-1]))
        if isinstance(place[-1], int) or name == place[-1]:
            return None
        return put(without(tree, place), (*place[:-1], name), at(tree, place))
    return {"removed": without, "doubled": doubled, "moved": moved}[change](tree, place)


def every_change(tree: Any, chosen: list[Place]) -> Iterator[tuple[Place, str]]:
    """Each change at each place."""
    return ((place, change) for place in chosen for change in CHANGES)


def one_of_each(tree: Any, chosen: list[Place], first: int = 0) -> Iterator[tuple[Place, str]]:
    """Each change once, at one place after another from the place numbered `first`."""
    turn = first
    for change in CHANGES:
        for _ in chosen:
            place, turn = chosen[turn % len(chosen)], turn + 1
            if changed(tree, place, change) is not None:
                yield place, change
                break
