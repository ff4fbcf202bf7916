"""Reads one YAML file as plain data, refusing what YAML would turn into something else in silence.

The subset: mappings with text or whole-number keys, lists, text, numbers, true/false, null. Anchors, aliases, merge
keys, tags, duplicate keys and further documents are refused. Scalars resolve as in YAML 1.1 (PyYAML), except that
dates stay text and that spellings which YAML 1.1 and 1.2 read differently as numbers (`012`, `0b1`, `1_000`, `12:30`)
are refused. Each key's line and each scalar's spelling are kept, so that later errors can name both.

The tree is built from the parser's events rather than by `yaml.compose`: compose forgets which nodes were anchored,
and recurses in C, so a deeply nested file would end the process before any limit could be checked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.text_file import read_text

KeyPath = tuple[str | int, ...]
"""Steps from the top of a file: text for the key of a mapping (`all_reduce: {8: ...}` too), a number for a place in a
list."""

MAX_BYTES = 2**20  # the longest shipped profile is a twentieth of it
MAX_DEPTH = 32
MAX_DIGITS = 18  # more digits than a count of anything here has; keeps every whole number exact in 64 bits

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {
    spelling: truth
    for word, truth in (("yes", True), ("no", False), ("true", True), ("false", False), ("on", True), ("off", False))
    for spelling in (word, word.capitalize(), word.upper())
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?|\.[0-9]+(?:[eE][-+][0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_AMBIGUOUS = (
    (re.compile(r"[-+]?0[0-9_]+"), "YAML 1.1 reads a leading zero as octal: drop the zero, or put text in quotes"),
    (re.compile(r"[-+]?0b[01_]+|[-+]?0x[0-9a-fA-F_]+"), "write the number in decimal, or put text in quotes"),
    (
        re.compile(r"[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*"),
        "YAML 1.1 reads colons between digits as base 60 (12:30 is 750): put text in quotes",
    ),
    (
        re.compile(r"(?=.*_)[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"),
        "write the number without underscores, or put text in quotes",
    ),
)

_TO_QUOTE = re.compile(r"[.\[\]\s]")

_SYNTAX_HINTS = (
    ("mapping values are not allowed", "a text that holds a colon and a space must be in quotes"),
    ("tab character", "indent with spaces, not tabs"),
    ("cannot start any token", "a text that starts with @, ` or % must be in quotes; indent with spaces, not tabs"),
    ("alphabetic or numeric character", 'a text that starts with * or & must be in quotes: "*"'),
    ("unexpected end of stream", "a quote is opened and never closed"),
    ("did not find expected ',' or ']'", "a `[` is opened and never closed, or a comma is missing"),
    ("did not find expected ',' or '}'", "a `{` is opened and never closed, or a comma is missing"),
    ("did not find expected key", "the keys of one mapping must be indented alike"),
    ("could not find expected ':'", "each line of a mapping reads `key: value`"),
    ("unknown escape character", "in double quotes a backslash starts an escape: use single quotes"),
    ("exceeded maximum nesting depth", f"at most {MAX_DEPTH} levels are read"),
)


class Mark(NamedTuple):
    """Where a value stands, and how a scalar is spelled there (None for a list or a mapping)."""

    line: int
    written: str | None


@dataclass(frozen=True, slots=True)
class Document:
    """A file as plain data, with the place of every key."""

    path: Path
    data: dict[str | int, Any]
    marks: Mapping[KeyPath, Mark]

    def line(self, key: KeyPath) -> int | None:
        """The line of a key, or of the nearest one above it that the file holds."""
        for length in range(len(key), -1, -1):
            mark = self.marks.get(key[:length])
            if mark is not None:
                return mark.line
        return None

    def written(self, key: KeyPath) -> str | None:
        """A scalar as the file spells it (`off` for False); None where there is none."""
        mark = self.marks.get(key)
        return mark.written if mark is not None else None


class _Marks(Mapping[KeyPath, Mark]):
    """The marks of a text, found by reading it again when one is asked for: only errors and sources ask."""

    def __init__(self, text: str, path: Path) -> None:
        self._text, self._path = text, path
        self._found: dict[KeyPath, Mark] | None = None

    def _all(self) -> dict[KeyPath, Mark]:
        if self._found is None:
            self._found = {}
            _Builder(self._path, self._found).build(yaml.parse(self._text, Loader=_LOADER))
        return self._found

    def __getitem__(self, key: KeyPath) -> Mark:
        return self._all()[key]

    def __iter__(self) -> Iterator[KeyPath]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def dotted(key: KeyPath) -> str:
    """A key path as text: `points[2].draft_length`, `all_reduce.8`, `sources["kernels.default"].kind`."""
    text = ""
    for step in key:
        text = append(text, step)
    return text


def append(text: str, step: str | int) -> str:
    """A dotted key and one step more."""
    if isinstance(step, int):
        return f"{text}[{step}]"
    if not step or _TO_QUOTE.search(step):
        return f'{text}["{step}"]'
    return f"{text}.{step}" if text else step


def read(path: Path) -> Document:
    """Read a profile file.

    Raises ProfileError: no such file, a folder, not a regular file, unreadable, over 1 MiB, not UTF-8, empty, not
    YAML, or outside the subset above.
    """
    return parse(read_text(path, "a YAML file", MAX_BYTES), path)


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being filled."""

    value: Any
    """A dict or a list."""
    mapping: bool
    step: str | int
    """The key or the place under which it stands in what holds it."""
    key: str | int | None = None
    """The key that waits for its value; lists and mappings between entries have none."""
    key_line: int = 0
    key_lines: dict[str, int] = field(default_factory=dict)


def parse(text: str, path: Path) -> Document:
    """Read YAML text; `path` names it in errors. Raises ProfileError as `read` does."""
    try:
        data = _Builder(path).build(yaml.parse(text, Loader=_LOADER))
        return Document(path, data, _Marks(text, path))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "cannot be read"
        hint = next((hint for part, hint in _SYNTAX_HINTS if part in problem), None)
        line = mark.line + 1 if mark is not None else None
        raise ProfileError(f"expected YAML, but {problem}", file=path, line=line, hint=hint) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        message = f"expected text, found the control character U+{code:04X}"
        raise ProfileError(message, file=path, line=line) from None


class _Builder:
    """Builds the tree event by event, without recursion."""

    def __init__(self, path: Path, marks: dict[KeyPath, Mark] | None = None) -> None:
        """`marks` takes the place of every key; None: they are not wanted."""
        self.path = path
        self.marks = marks
        self.open: list[_Open] = []
        self.root: Any = None
        self.root_line = 0
        self.documents = 0

    def build(self, events: Iterator[yaml.Event]) -> dict[str | int, Any]:
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent:
                self._start(event, {})
            elif kind is yaml.SequenceStartEvent:
                self._start(event, [])
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self.open.pop()
            elif kind is yaml.AliasEvent:
                self._refuse(event, "aliases (*name) are not read", hint="repeat the value; put text in quotes")
            elif kind is yaml.DocumentStartEvent:
                self.documents += 1
                if self.documents > 1:
                    message = "expected one profile in a file, found a second document (---)"
                    self._refuse(event, message, hint="give each profile a file of its own")
        if self.documents == 0:
            raise ProfileError("expected a profile, found an empty file", file=self.path)
        if not isinstance(self.root, dict):
            found = "a list" if isinstance(self.root, list) else "a single value"
            message = f"expected a mapping of keys, found {found}"
            raise ProfileError(message, file=self.path, line=self.root_line, hint="a profile reads `key: value`")
        return self.root

    def _refuse(self, event: Any, message: str, *, hint: str | None = None, at: KeyPath = ()) -> NoReturn:
        key = dotted(at or self._here()) or None
        raise ProfileError(message, file=self.path, line=event.start_mark.line + 1, key=key, hint=hint)

    def _here(self) -> KeyPath:
        """The key path of the value that comes next."""
        path = self._steps()
        if not self.open:
            return path
        parent = self.open[-1]
        if not parent.mapping:
            return (*path, len(parent.value))
        return path if parent.key is None else (*path, str(parent.key))

    def _steps(self) -> KeyPath:
        """The key path of the innermost open list or mapping."""
        return tuple(one.step for one in self.open[1:])

    def _plain(self, event: Any) -> None:
        """Refuse what only a hand-made or hostile profile carries."""
        if event.anchor is not None:
            self._refuse(event, f"anchors (&{event.anchor}) are not read", hint="write each value where it belongs")
        if event.tag is not None:
            name = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._refuse(event, f"tags ({name}) are not read", hint="remove the tag; put text in quotes")

    def _start(self, event: Any, value: dict[str | int, Any] | list[Any]) -> None:
        self._plain(event)
        parent = self.open[-1] if self.open else None
        mapping = isinstance(value, dict)
        if parent is not None and parent.mapping and parent.key is None:
            hint = "put a text that holds { } [ ] in quotes"
            self._refuse(event, f"expected a key of text, found {'a mapping' if mapping else 'a list'}", hint=hint)
        if len(self.open) >= MAX_DEPTH:
            self._refuse(event, f"expected at most {MAX_DEPTH} levels, found more")
        step: str | int = ""
        if parent is not None:
            step = str(parent.key) if parent.mapping else len(parent.value)
        self._put(parent, value, event, None)
        self.open.append(_Open(value, mapping, step))

    def _scalar(self, event: Any) -> None:
        # Tens of thousands of scalars pass here when the whole library is listed: no call that can be spared.
        if event.anchor is not None or event.tag is not None:
            self._plain(event)
        written: str = event.value
        plain: bool = event.implicit[0]
        parent = self.open[-1] if self.open else None
        if parent is not None and parent.mapping and parent.key is None:
            self._key(event, parent, written, plain)
        else:
            self._put(parent, self._resolve(event, written) if plain else written, event, written)

    def _key(self, event: Any, parent: _Open, written: str, plain: bool) -> None:
        if plain and written == "<<":
            self._refuse(event, "merge keys (<<) are not read", hint="write the keys out in full")
        key = self._resolve(event, written) if plain else written
        if isinstance(key, bool) or not isinstance(key, str | int):
            found = "a boolean" if isinstance(key, bool) else "nothing" if key is None else "a number"
            hint = f'put it in quotes: "{written}"'
            self._refuse(event, f"expected a key of text, found {found} ({written or 'empty'})", hint=hint)
        line = event.start_mark.line + 1
        # "2" and 2 would be two keys for Python and one for every reader of the file.
        first = parent.key_lines.setdefault(str(key), line)
        if len(parent.key_lines) == len(parent.value):
            message = f"the key `{written}` is given twice, on lines {first} and {line}"
            self._refuse(event, message, at=(*self._steps(), str(key)), hint="keep one of them")
        parent.key, parent.key_line = key, line

    def _put(self, parent: _Open | None, value: Any, event: Any, written: str | None) -> None:
        """Store a value where it belongs."""
        if self.marks is not None:
            # A list's entry stands on its own line, a mapping's where its key does.
            line = parent.key_line if parent is not None and parent.mapping else event.start_mark.line + 1
            self.marks[self._here()] = Mark(line, written)
        if parent is None:
            self.root, self.root_line = value, event.start_mark.line + 1
        elif parent.mapping:
            parent.value[parent.key] = value
            parent.key = None
        else:
            parent.value.append(value)

    def _resolve(self, event: Any, written: str) -> Any:
        """A plain scalar's value."""
        if written in _NULLS:
            return None
        if written[0] in "+-.0123456789":
            return self._number(event, written)
        return _BOOLEANS.get(written, written)

    def _number(self, event: Any, written: str) -> Any:
        """A number, or the text of what only starts like one (a date, `3.35e12`)."""
        if _INTEGER.fullmatch(written):
            digits = len(written.lstrip("+-"))
            if digits > MAX_DIGITS:
                self._refuse(event, f"expected at most {MAX_DIGITS} digits, found {digits}")
            return int(written)
        if _FLOAT.fullmatch(written):
            value = float(written)
            if math.isfinite(value):
                return value
            self._refuse(event, f"expected a finite number, found {written}, which is past the largest")
        if _NOT_FINITE.fullmatch(written):
            hint = "leave the key out where the figure is not known"
            self._refuse(event, f"expected a finite number, found {written}", hint=hint)
        for pattern, hint in _AMBIGUOUS:
            if pattern.fullmatch(written):
                self._refuse(event, f"found `{written}`, which readers of YAML take for different values", hint=hint)
        return written
