"""Numbers shown so that the parts add up to the whole, to the last digit.

Each part is rounded down and the units that are missing go to the largest remainders, so no part is off by a whole
unit of the last digit and their sum is the rounded whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

DIGITS = 5
"""Significant digits of a whole that is taken apart."""
_SLACK = 1e-9  # of a unit: what floating point may lose on a number that is whole


def decimals_for(value: float, digits: int = DIGITS) -> int:
    """Decimals that give a number so many significant digits; 0 for one with more before the point."""
    size = len(str(int(abs(value)))) if abs(value) >= 1 else 1
    return max(0, digits - size)


def in_units(value: float, decimals: int) -> int:
    """The number as a count of units of its last shown digit."""
    return round(value * 10.0**decimals)


def apportioned(parts: Sequence[float], whole: int, decimals: int) -> list[int]:
    """Parts (0 or more) as units of the last digit that add up to `whole`, by largest remainder.

    whole: the rounded sum of the parts, in units; or one of the two whole numbers around it, where the whole is itself
    a part of something. Of equal remainders the earlier part gets the unit.
    """
    exact = [part * 10.0**decimals for part in parts]
    found = [math.floor(value + _SLACK) for value in exact]
    missing = whole - sum(found)
    by_remainder = sorted(range(len(found)), key=lambda i: found[i] - exact[i])
    for index in by_remainder[: max(missing, 0)]:
        found[index] += 1
    for index in by_remainder[len(found) + min(missing, 0) :]:
        found[index] -= 1
    return found


def shown(units: int, decimals: int) -> str:
    """Units of the last digit as a number: 12345 with 3 decimals is 12.345."""
    return f"{units / 10.0**decimals:,.{decimals}f}"
