"""Axes of a sweep as users write them: `1..256:x2`, `1..64`, `1..64:8`, `1,2,4`, lists of these; contexts `1k,8k`."""

from __future__ import annotations

import re

from specdec_cli.errors import UsageError

MOST_POINTS = 5_000_000
TOKENS_PER_K = 1024

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?::(x?)(\d+))?")


def parse_axis(text: str, option: str, *, minimum: int) -> tuple[int, ...]:
    """The whole numbers that `text` names, ascending, each once.

    `a..b` counts by one, `a..b:s` by s, `a..b:xf` multiplies by f; the end is included where it is hit, and parts
    may be joined by commas.

    Raises:
        UsageError: nothing named, not a whole number, below `minimum`, a range that runs backwards.
    """
    values: set[int] = set()
    for part in text.split(","):
        values.update(_parse_part(part.strip(), option))
        check_points(len(values), option)
    smallest = min(values)
    if smallest < minimum:
        raise UsageError(f"{option} must be at least {minimum}, got {smallest}")
    return tuple(sorted(values))


def _parse_part(part: str, option: str) -> range | list[int]:
    if re.search(r"\d{19}", part):
        raise UsageError(f"{option}: {part[:24]} holds a number of 19 digits or more; no engine runs that many")
    if not part:
        raise UsageError(f"{option} names no values; write for example 1,2,4 or 1..64 or 1..256:x2")
    if re.fullmatch(r"-?\d+", part):
        return [int(part)]
    match = _RANGE.fullmatch(part)
    if match is None:
        raise UsageError(
            f"{option}: cannot read {part!r}; write whole numbers (1,2,4), a range (1..64), a step (0..64:8) "
            "or a factor (1..256:x2)"
        )
    first, last, times, step = int(match[1]), int(match[2]), match[3], int(match[4] or 1)
    if last < first:
        raise UsageError(f"{option}: the range {part} runs backwards and names no values")
    if not times:
        if step < 1:
            raise UsageError(f"{option}: the step of {part} must be at least 1")
        check_points((last - first) // step + 1, option)
        return range(first, last + 1, step)
    if step < 2 or first < 1:
        raise UsageError(f"{option}: {part} multiplies, so it must start at 1 or more with a factor of 2 or more")
    values = []
    while first <= last:
        values.append(first)
        first *= step
    return values


def parse_contexts(text: str, option: str) -> tuple[int, ...]:
    """Context lengths in tokens, ascending, each once: `1k,8k,32000`; k = 1024.

    Raises:
        UsageError: nothing named, not a whole number of tokens, below 1.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,18})(k?)", part.strip().casefold())
        if match is None or int(match[1]) < 1:
            raise UsageError(
                f"{option}: cannot read {part.strip()!r}; write tokens, k for 1024: 1k,8k,32k or 2048,8192"
            )
        found.add(int(match[1]) * (TOKENS_PER_K if match[2] else 1))
    return tuple(sorted(found))


def check_points(count: int, what: str) -> None:
    """Refuse a grid that is too large to be meant."""
    if count > MOST_POINTS:
        raise UsageError(
            f"{what}: {count:,} points, more than {MOST_POINTS:,}; shorten an axis or use a factor, as in 1..256:x2"
        )
