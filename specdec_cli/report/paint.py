"""Colour for terminals, or none: the 256-colour codes that read on dark and on light, and letters for those without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Medium luminance, so that each has a contrast of about 3:1 or more on black and on white; told apart under the common
# colour deficiencies by their markers as well.
SERIES = (None, 33, 166, 29, 133, 136, 67)
RESET = "\x1b[0m"


def series_colour(at: int) -> int | None:
    """The 256-colour code of a chart's line; the first has the terminal's own colour."""
    return SERIES[at] if at < len(SERIES) else SERIES[1 + (at - 1) % (len(SERIES) - 1)]


@dataclass(frozen=True, slots=True)
class Paint:
    """Applies colour where it is wanted, and ASCII where nothing else can be shown."""

    colour: bool
    ascii: bool

    def letter(self, wanted: str, plain: str) -> str:
        """A letter, or the ASCII one in its stead."""
        return plain if self.ascii else wanted

    def bold(self, text: str) -> str:
        """Stressed."""
        return f"\x1b[1m{text}{RESET}" if self.colour else text

    def text(self, text: str, colour: int | None) -> str:
        """Text in a colour; None: the terminal's own."""
        return f"\x1b[38;5;{colour}m{text}{RESET}" if self.colour and colour is not None else text

    def shade(self, text: str, background: int, foreground: int) -> str:
        """Text on a coloured ground."""
        return f"\x1b[48;5;{background}m\x1b[38;5;{foreground}m{text}{RESET}" if self.colour else text

    def cells(self, letters: Sequence[str], colours: Sequence[int | None]) -> str:
        """A row of cells, neighbours of one colour together; trailing blanks dropped."""
        last = max((at for at, letter in enumerate(letters) if letter != " "), default=-1)
        out, start = [], 0
        for at in range(last + 2):
            if at > last or colours[at] != colours[start]:
                out.append(self.text("".join(map(self._shown, letters[start : min(at, last + 1)])), colours[start]))
                start = at
        return "".join(out)

    def _shown(self, letter: str) -> str:
        return "." if self.ascii and letter > "\u2800" else letter
