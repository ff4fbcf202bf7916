"""What can go wrong, each kind with the exit code that it ends the program with.

Exit codes: 0 answer given, 1 internal, 2 usage, 3 a profile or input file is missing or invalid,
4 nothing feasible, 5 validate found a source worse than allowed, 130 interrupted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class SpecdecError(Exception):
    """A user's mistake or an unanswerable question; never a fault of the program."""

    exit_code = 1


class UsageError(SpecdecError):
    """Options that make no sense, alone or together; the message names the option and the fix."""

    exit_code = 2


class OutputError(UsageError):
    """The answer cannot be written where it was asked to go."""


class ProfileError(SpecdecError):
    """A profile or input file that is missing or invalid.

    The message reads: file -> line and key -> what was expected, what was found -> nearest right name.
    """

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        key: str | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        message, key, hint = visible(message), visible(key) if key else None, visible(hint) if hint else None
        self.message, self.file, self.key, self.line, self.hint = message, file, key, line, hint
        place = shown(str(file)) if file is not None else ""
        if line is not None:
            place += f":{line}"
        parts = [part for part in (place, key) if part]
        text = ": ".join([*parts, message])
        super().__init__(f"{text}\n  hint: {hint}" if hint else text)


class InfeasibleError(SpecdecError):
    """No point satisfies what was asked; the message says which limit stands in the way."""

    exit_code = 4


def nearest(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The known names that look most like `name`, best first; empty where none is close."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.casefold(), list(by_folded), n=most, cutoff=0.55)
    return [by_folded[match] for match in matches]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint naming the nearest right names, or None."""
    close = nearest(name, known)
    if not close:
        return None
    return f"did you mean {' or '.join(close)}?"


LONGEST_LINE = 1000
"""Letters of a line that is said to a user; what was found in a file or an option may be of any length."""


def visible(message: str) -> str:
    """A message for a terminal: control characters as their codes, no line longer than anyone reads."""
    return "\n".join(map(_visible_line, message.split("\n")))


def _visible_line(line: str) -> str:
    if len(line) > LONGEST_LINE:
        half = LONGEST_LINE // 2
        line = f"{line[:half]} ... ({len(line) - 2 * half} letters left out) ... {line[-half:]}"
    return shown(line)


def shown(text: str) -> str:
    """Text on one line as it may be shown: line feeds, what steers a terminal (escape sequences among it) and what
    turns the direction of reading as their codes, so that a name in a file cannot pass for what we say."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
