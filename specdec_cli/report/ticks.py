"""Round numbers for axes, and how they are written where room is short."""

from __future__ import annotations

import math
from collections.abc import Sequence

LOG_MANTISSAS: tuple[tuple[int, ...], ...] = ((1, 2, 5), (1, 3), (1,))


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Multiples of the smallest 1-2-5 step that gives at most `most` values in [low, high]."""
    span = high - low
    decade = math.floor(math.log10(span / most)) if span > 0 else 0
    while span > 0:
        for mantissa in (1, 2, 5):
            step = float(f"{mantissa}e{decade}")
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            if last - first + 1 <= most:
                return [float(f"{count * mantissa}e{decade}") for count in range(first, last + 1)]
        decade += 1
    return [low]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """1-2-5 of each decade in [low, high], else fewer, so that at most `most` remain; 0 < low < high."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for mantissas in LOG_MANTISSAS:
        values = [float(f"{mantissa}e{decade}") for decade in decades for mantissa in mantissas]
        inside = [value for value in values if low <= value <= high]
        if len(inside) <= most:
            return inside
    return inside[:: math.ceil(len(inside) / most)]


def short(value: float) -> str:
    """A tick: 0.5, 120, 1.5k, 2M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def evenly(items: Sequence[int], most: int, *, keep: int | None = None) -> list[int]:
    """At most `most` of the rising items, the first and the last among them, spread evenly by place.

    keep: an item that must be among them; it takes the place of its nearest neighbour, but not of an end.
    """
    if len(items) <= most:
        return list(items)
    picked = [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)] if most > 1 else [items[0]]
    if keep is not None and keep not in picked:
        inner = range(1, len(picked) - 1) if len(picked) > 2 else range(len(picked))
        nearest = min(inner, key=lambda at: abs(picked[at] - keep))
        picked[nearest] = keep
    return sorted(picked)
