"""Text for a person: wrapped prose and aligned columns, whole at any width.

Plain strings rather than a terminal library: nothing is cut or folded at a width that nobody asked for, nothing in a
name is read as markup, thousands of rows take milliseconds, and starting up does not pay for it.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence

from specdec_cli.errors import shown
from specdec_cli.report.columns import Grid

STYLES = {"bold": "\x1b[1m", "dim": "\x1b[2m", "green": "\x1b[32m", "": ""}
RESET = "\x1b[0m"
GAP = "   "
_BLANK = re.compile(r"\s")
UNBROKEN = "\xa0"
"""Holds a number and its unit on one line while prose is wrapped."""
LEAST_WIDTH = 40
"""Columns below which prose is not squeezed further."""


class Page:
    """Text as it grows: prose wrapped at `width` (None: never), tables and lines to copy always whole."""

    def __init__(self, width: int | None, colour: bool) -> None:
        self._width = None if width is None else max(width, LEAST_WIDTH)
        self._colour = colour
        self._lines: list[str] = []

    @property
    def text(self) -> str:
        """The page so far."""
        return "\n".join(self._lines) + "\n"

    def say(self, text: str = "", *, style: str = "", indent: str = "") -> None:
        """A paragraph, its further lines at `indent`."""
        body = plain(text).rstrip()
        lines = [body]
        if self._width is not None and body:
            lead = body[: len(body) - len(body.lstrip())]
            lines = textwrap.wrap(
                body.lstrip().replace(" %", UNBROKEN + "%"),
                self._width,
                initial_indent=lead,
                subsequent_indent=indent,
                break_on_hyphens=False,
                break_long_words=False,
            )
        self._lines += [self._styled(line.replace(UNBROKEN, " "), style) for line in lines]

    def literal(self, line: str) -> None:
        """A line to copy: never wrapped."""
        self._lines.append(plain(line).rstrip())

    def table(self, grid: Grid, *, indent: int = 0) -> None:
        """Aligned columns under a rule."""
        cells = [[plain(cell) for cell in row] for row in (grid.headers, *grid.rows)]
        widths = [max(map(columns_of, column)) for column in zip(*cells, strict=True)]
        lead = " " * indent
        rows = [
            lead + GAP.join(_padded(*cell) for cell in zip(row, widths, grid.numeric, strict=True)).rstrip()
            for row in cells
        ]
        self._lines.append(self._styled(rows[0], "bold"))
        self._lines.append(lead + "-" * (sum(widths) + len(GAP) * (len(widths) - 1)))
        self._lines += [self._styled(row, "green" if at in grid.stressed else "") for at, row in enumerate(rows[1:])]

    def facts(self, rows: Sequence[tuple[str, str]], *, indent: int = 2) -> None:
        """Names and what is to be said of them, aligned."""
        widest = max(len(name) for name, _ in rows)
        for name, said in rows:
            self.say(f"{' ' * indent}{name.ljust(widest)}  {said}", indent=" " * (indent + widest + 2))

    def _styled(self, line: str, style: str) -> str:
        return f"{STYLES[style]}{line}{RESET}" if self._colour and style and line else line


def plain(text: str) -> str:
    """The text on one line, its control characters as codes: a name must not steer a terminal or break a row."""
    return text if text.isprintable() else shown(_BLANK.sub(" ", text))


def columns_of(text: str) -> int:
    """Terminal columns that the text takes: two for East Asian wide letters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _padded(cell: str, width: int, right: bool) -> str:
    blanks = " " * (width - columns_of(cell))
    return blanks + cell if right else cell + blanks
