"""The Pareto frontier of interactivity against throughput, and what it gains at equal interactivity.

Pure functions on plain arrays: interactivity in tokens/s/user, throughput in tokens/s/GPU, both maximised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Curve = tuple[ArrayLike, ArrayLike]
"""(interactivity, throughput) of the points of one frontier, in any order."""

# Mantissas of one decade, coarse to fine; a finer ladder serves where a coarser one gives too few levels.
LADDERS = ((10, 20, 50), (10, 15, 20, 30, 50, 70))

STRIPES = 4096
"""A frontier of so many points or more is thinned before it is sorted."""


def pareto_mask(x: ArrayLike, y: ArrayLike) -> NDArray[np.bool_]:
    """Which points no other point beats, both coordinates maximised. O(n log n).

    x, y: equal shapes; the mask has that shape. A point is beaten by one that is at least as good in both
    and better in one, so points equal in both are all kept or all dropped: reordering the input reorders the
    mask and changes nothing else. ValueError: unequal shapes, NaN or infinity.
    """
    xs, ys = _finite_pair(x, y)
    keep = np.zeros(xs.size, dtype=bool)
    left = _not_plainly_beaten(xs.ravel(), ys.ravel())
    keep[left] = _unbeaten(xs.ravel()[left], ys.ravel()[left])
    return keep.reshape(xs.shape)


def _not_plainly_beaten(xs: Floats, ys: Floats) -> NDArray[np.intp]:
    """Where the points stand that are not beaten by one from a stripe further right; no sorting, O(n).

    Stripes part the range of x evenly: whatever lies in a later one has a greater x.
    """
    if xs.size < STRIPES:
        return np.arange(xs.size)
    with np.errstate(over="ignore", invalid="ignore"):
        share = (xs - xs.min()) / (xs.max() - xs.min())
    stripe = (np.nan_to_num(share) * (STRIPES - 1)).astype(np.intp)
    best = np.full(STRIPES, -np.inf)
    np.maximum.at(best, stripe, ys)
    return np.flatnonzero(ys > _best_further_right(best)[stripe])


def _unbeaten(xs: Floats, ys: Floats) -> NDArray[np.bool_]:
    """Which points no other beats, by sorting."""
    levels, group = np.unique(xs, return_inverse=True)
    group = group.reshape(-1)
    best = np.full(levels.shape, -np.inf)
    np.maximum.at(best, group, ys)
    unbeaten: NDArray[np.bool_] = (ys == best[group]) & (ys > _best_further_right(best)[group])
    return unbeaten


def _best_further_right(best: Floats) -> Floats:
    """The best among those strictly further right; -inf right of the last."""
    return np.append(np.maximum.accumulate(best[::-1])[::-1][1:], -np.inf)


def frontier_curve(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """The frontier of the points as a curve: x strictly rising, y strictly falling, duplicates merged."""
    xs, ys = _finite_pair(x, y)
    keep = pareto_mask(xs, ys)
    levels, first = np.unique(xs[keep], return_index=True)
    return levels, ys[keep][first]


class Uplift(msgspec.Struct, frozen=True):
    """Two frontiers compared at one interactivity; None where a frontier does not reach it."""

    interactivity_tokens_per_s_per_user: float
    throughput_with: float | None
    """tokens/s/GPU on the frontier with speculation."""
    throughput_without: float | None
    """tokens/s/GPU on the frontier without."""
    uplift: float | None
    """throughput_with / throughput_without."""
    served_with: float
    """Interactivity at which the frontier with speculation serves the level: its slowest point's, where that is more
    than is asked."""
    served_without: float

    @property
    def users_per_gpu_with(self) -> float | None:
        """Users served at this speed by one GPU with speculation: its batch over the replica's GPUs."""
        return None if self.throughput_with is None else self.throughput_with / self.served_with

    @property
    def users_per_gpu_without(self) -> float | None:
        """Users served at this speed by one GPU without speculation."""
        return None if self.throughput_without is None else self.throughput_without / self.served_without


def uplift_at(frontier_with: Curve, frontier_without: Curve, levels: Sequence[float]) -> list[Uplift]:
    """The two frontiers side by side at each level of interactivity (tokens/s/user, above 0).

    Throughput is interpolated linearly in interactivity between neighbours of a frontier. That is exact for
    one draft length where a step takes a + b*B seconds: interactivity i = AL/(a + b*B) and throughput
    X = B*i/GPUs give X = (AL - a*i)/(b*GPUs), a straight line. Below a frontier's slowest point that point's
    throughput holds, for it gives each user more than is asked; past the fastest point nothing is extrapolated and the
    value is None. Points that are not on a frontier are dropped first.
    ValueError: unequal shapes, NaN or infinity, a level that is not positive.
    """
    wanted = np.asarray(levels, dtype=float)
    if not np.all(np.isfinite(wanted)) or np.any(wanted <= 0):
        raise ValueError("levels of interactivity must be finite and above 0")
    curve_with, curve_without = frontier_curve(*frontier_with), frontier_curve(*frontier_without)
    found_with, found_without = _along(curve_with, wanted), _along(curve_without, wanted)
    rows = []
    for level, with_, without in zip(wanted.tolist(), found_with, found_without, strict=True):
        ratio = with_ / without if with_ is not None and without else None
        served = (_served(curve_with, level), _served(curve_without, level))
        rows.append(Uplift(level, with_, without, ratio, *served))
    return rows


def _served(curve: tuple[Floats, Floats], level: float) -> float:
    """The speed that a user who asks for `level` gets on a frontier: no slower than its slowest point."""
    return max(level, float(curve[0][0])) if curve[0].size else level


def round_levels(lo: float, hi: float, *, at_least: int = 5) -> list[float]:
    """Round values in [lo, hi], rising: 1-2-5 per decade, or a finer ladder, or even steps of 1, 2 or 5.

    The coarsest series with `at_least` values is taken, so lo < hi always gives that many; lo = hi gives lo.
    ValueError: bounds not finite, not positive or crossed.
    """
    if not (math.isfinite(lo) and math.isfinite(hi)) or not 0 < lo <= hi:
        raise ValueError(f"round levels need finite bounds 0 < lo <= hi, got {lo} and {hi}")
    if lo == hi:
        return [lo]
    decades = range(math.floor(math.log10(lo)) - 1, math.ceil(math.log10(hi)) + 1)
    for ladder in LADDERS:
        # Through text, so that a level is the double nearest to the decimal that a reader sees.
        values = [float(f"{mantissa}e{decade - 1}") for decade in decades for mantissa in ladder]
        inside = [value for value in values if lo <= value <= hi]
        if len(inside) >= at_least:
            return inside
    return _even_levels(lo, hi, at_least)


def _even_levels(lo: float, hi: float, at_least: int) -> list[float]:
    """Multiples of the largest 1-2-5 step that gives `at_least` values in [lo, hi]."""
    decade = math.ceil(math.log10(hi - lo))
    while True:
        for mantissa in (5, 2, 1):
            step = float(f"{mantissa}e{decade}")
            counts = range(math.floor(lo / step), math.ceil(hi / step) + 1)
            values = [float(f"{count * mantissa}e{decade}") for count in counts]
            inside = [value for value in values if lo <= value <= hi]
            if len(inside) >= at_least:
                return inside
            if step < math.ulp(hi):  # two bounds that no decimal step tells apart
                return sorted({lo, *inside, hi})
        decade -= 1


def _along(curve: tuple[Floats, Floats], levels: Floats) -> list[float | None]:
    """Throughput of a frontier at each level or faster; None past its fastest point."""
    xs, ys = curve
    if xs.size == 0:
        return [None] * levels.size
    values = np.interp(levels, xs, ys)
    reached = levels <= xs[-1]  # below the slowest point its throughput holds: it serves a slower demand too
    return [float(value) if inside else None for value, inside in zip(values, reached, strict=True)]


def _finite_pair(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if xs.shape != ys.shape:
        raise ValueError(f"a frontier needs as many x as y, got shapes {xs.shape} and {ys.shape}")
    if not (np.all(np.isfinite(xs)) and np.all(np.isfinite(ys))):
        raise ValueError("a frontier takes finite values only: drop or mark infeasible points before")
    return xs, ys
