"""Columns out of a block of log: where its lines are, the numbers in matched texts, sums over what is alike.

A log that holds little but metrics has a line for every 200 bytes: an object and a handful of conversions for each
would read it at 30 MB/s. Here a block's numbers are converted together and folded with numpy, in the order of the file,
so that the sums are those of adding one line after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from specdec_cli.engines.read.pool import WindowPool
from specdec_cli.engines.read.source import LEAD_BYTES

SAMPLE_BYTES, SPARSE_BYTES = 32 << 10, 1000
"""Fewer markers than one for so many bytes are sparse."""
FEW_WRITERS = 8
"""Processes whose lines are looked for together."""

Ints = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_NUMERALS = bytes(code if chr(code) in "0123456789." else ord(" ") for code in range(256))
_SPACE, _POINT = ord(" "), ord(".")
AT_ONCE = 8192
"""Numbers converted together: the arrays of more outgrow the processor's cache."""
_TENS = 10 ** np.arange(16)  # a float holds 15 digits exactly


def numbers_in(texts: Sequence[bytes], width: int) -> Floats:
    """The decimal numbers in texts that hold so many each, shape (texts, width).

    Whole numbers over a power of ten, both exact, so that the quotient is the float that is nearest. Raises ValueError
    for another count of them, and for what is no number of at most 15 digits.
    """
    if len(texts) * width > AT_ONCE:
        share = max(1, AT_ONCE // width)
        return np.concatenate([numbers_in(texts[at : at + share], width) for at in range(0, len(texts), share)])
    if not texts:
        return np.empty((0, width))
    codes = np.frombuffer(b" ".join(texts).translate(_NUMERALS), np.uint8)
    places = np.flatnonzero(codes != _SPACE)
    codes = codes[places]
    starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1] + 1]))
    if len(starts) != len(texts) * width:
        raise ValueError(f"{len(starts)} numbers in {len(texts)} texts of {width}")
    digit = codes != _POINT
    digits = np.cumsum(digit)
    ends = np.append(starts[1:], len(codes)) - 1
    after = np.repeat(digits[ends], ends + 1 - starts) - digits
    points = np.flatnonzero(~digit)
    owners = np.searchsorted(starts, points, side="right") - 1
    if np.any(after >= len(_TENS) - 1) or np.any(owners[1:] == owners[:-1]) or not np.all(digit[starts]):
        raise ValueError("no decimal number of at most 15 digits")
    whole = np.add.reduceat(np.where(digit, codes - ord("0"), 0) * _TENS[after], starts)
    values: Floats = whole.astype(np.float64)
    values[owners] /= _TENS[after[points]]
    return values.reshape(len(texts), width)


def found(block: bytes, marker: bytes, patterns: Sequence[re.Pattern[bytes]]) -> tuple[Ints, list[bytes]] | None:
    """Where one of the patterns, which begin with the marker, matches, and what its group holds there.

    None: a marker that the pattern of the others does not match.
    """
    starts: list[int] = []
    texts: list[bytes] = []
    for match in _matches(block, marker, patterns):
        if match is None:
            return None
        starts.append(match.start())
        texts.append(match[1])
    return np.array(starts, np.intp), texts


def found_groups(
    block: bytes, marker: bytes, pattern: re.Pattern[bytes]
) -> tuple[Ints, list[tuple[bytes, ...]]] | None:
    """As `found`, every group of it: a column for each (None where it takes no part)."""
    starts: list[int] = []
    rows: list[tuple[bytes, ...]] = []
    for match in _matches(block, marker, (pattern,)):
        if match is None:
            return None
        starts.append(match.start())
        rows.append(match.groups())
    return np.array(starts, np.intp), list(zip(*rows, strict=True))


def _matches(block: bytes, marker: bytes, patterns: Sequence[re.Pattern[bytes]]) -> Iterator[re.Match[bytes] | None]:
    """One after the other, for thousands of match objects at once cost more than the search; None: an unusual one."""
    match: re.Match[bytes] | None
    at = block.find(marker)
    if at < 0:
        return
    pattern = next((one for one in patterns if one.match(block, at)), patterns[0])
    if block.count(marker, 0, SAMPLE_BYTES) * SPARSE_BYTES > SAMPLE_BYTES:
        count = 0
        for match in pattern.finditer(block):
            count += 1
            yield match
        if count != block.count(marker):
            yield None
        return
    while at >= 0:  # bytes.find runs at memory speed, a pattern's own search does not
        match = pattern.match(block, at)
        yield match
        at = -1 if match is None else block.find(marker, match.end())


class Lines:
    """Where the lines of a block begin."""

    def __init__(self, block: bytes) -> None:
        self._feeds = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))

    def __len__(self) -> int:
        """Line feeds."""
        return len(self._feeds)

    def of(self, places: Ints) -> Ints:
        """Line of each place, the block's first being 0."""
        lines: Ints = np.searchsorted(self._feeds, places)
        return lines

    def begins(self, places: Ints) -> Ints:
        """Where the lead of each place begins: with its line, or `LEAD_BYTES` back."""
        begins = np.concatenate([[0], self._feeds + 1])[self.of(places)]
        back: Ints = np.maximum(begins, places - LEAD_BYTES)
        return back


class Folded:
    """Values of many lines, on their way into the pools of what they are alike in."""

    def __init__(self, pools: Sequence[WindowPool], which: Ints) -> None:
        """which: the place in `pools` of each line, in the order of the file."""
        self._pools = pools
        self._which = which

    def at(self, lines: Ints) -> None:
        """Note their source lines."""
        first = np.full(len(self._pools), -1)
        last = np.full(len(self._pools), -1)
        first[self._which[::-1]] = lines[::-1]
        last[self._which] = lines
        for pool, begin, end in zip(self._pools, first.tolist(), last.tolist(), strict=True):
            if begin >= 0:
                pool.at(begin)
                pool.at(end)

    def add(self, name: str, values: Floats, where: Flags | None = None) -> None:
        """Add to the pools' field of that name, one line after the other."""
        sums = self._added([getattr(pool, name) for pool in self._pools], values, where)
        for pool, value in zip(self._pools, sums, strict=True):
            setattr(pool, name, value)

    def count(self, name: str, where: Flags | None = None) -> None:
        """Add the number of lines."""
        which = self._which if where is None else self._which[where]
        counts = np.bincount(which, minlength=len(self._pools)).tolist()
        for pool, count in zip(self._pools, counts, strict=True):
            setattr(pool, name, getattr(pool, name) + count)

    def rated(self, n: Floats, rates: Floats) -> None:
        """Unconditional acceptance by position, rates of shape (lines, positions)."""
        width = rates.shape[1]
        for pool in self._pools:
            pool.positions += [0.0] * (width - len(pool.positions))
        for position in range(width):
            sums = self._added([pool.positions[position] for pool in self._pools], n * rates[:, position], None)
            for pool, value in zip(self._pools, sums, strict=True):
                pool.positions[position] = value
        self.add("positions_n", n)

    def _added(self, before: list[float], values: Floats, where: Flags | None) -> list[float]:
        which = self._which if where is None else self._which[where]
        values = values if where is None else values[where]
        # bincount adds in the order given: what a pool holds comes first.
        places = np.concatenate([np.arange(len(before)), which])
        sums: list[float] = np.bincount(places, np.concatenate([before, values])).tolist()
        return sums


def alike(key: Floats) -> tuple[list[float], Ints]:
    """The distinct values, and which of them each line has."""
    values, which = np.unique(key, return_inverse=True)
    return values.tolist(), which


def numbered(texts: Sequence[bytes]) -> tuple[list[bytes], Ints]:
    """The distinct texts in the order of their coming, and which of them each is."""
    known: dict[bytes, int] = {}
    which = [known.setdefault(text, len(known)) for text in texts]
    return list(known), np.array(which, np.intp)


def named(
    block: bytes, begins: Ints, ends: Ints, mark: bytes, pattern: re.Pattern[bytes], *, last: bool = False
) -> tuple[list[bytes], Ints]:
    """The pattern's group in each of these stretches of a block, b"" where it is not found: the distinct names, b""
    first, and which of them each stretch has.

    Args:
        mark: what the pattern begins with. last: the names stand at the end of their stretches, else at the beginning.
    """
    names: dict[bytes, int] = {b"": 0}
    which = np.zeros(len(begins), np.intp)
    codes = np.frombuffer(block, np.uint8)
    rest = np.arange(len(begins) if mark in block else 0)

    def name_of(place: int) -> tuple[int, re.Match[bytes] | None]:
        match = pattern.search(block, int(begins[place]), int(ends[place]))
        return (0, None) if match is None else (names.setdefault(match[1], len(names)), match)

    for _ in range(FEW_WRITERS):
        name, match = name_of(rest[0]) if len(rest) else (0, None)
        if match is None:
            break
        # Stretches with the same bytes around it have the same name: most lines of a process.
        width = int(ends[rest[0]]) - match.start() if last else match.end() - int(begins[rest[0]])
        long = np.flatnonzero(ends[rest] - begins[rest] >= width)
        shape = (ends[rest[long]] - width if last else begins[rest[long]])[:, None] + np.arange(width)
        same = long[(codes[shape] == codes[shape[0]]).all(axis=1)]
        which[rest[same]] = name
        rest = np.delete(rest, same)
    for place in rest.tolist():
        which[place], _ = name_of(place)
    return list(names), which


def followed(group: Ints) -> tuple[Ints, Flags, Flags]:
    """Lines sorted by group, in their order within it; which of them so sorted have one of their group before them, and
    which one after."""
    order = np.argsort(group, kind="stable")
    same = group[order][1:] == group[order][:-1]
    ends = np.zeros(min(1, len(group)), bool)
    return order, np.concatenate([ends, same]), np.concatenate([same, ends])
