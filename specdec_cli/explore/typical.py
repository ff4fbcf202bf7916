"""A prior where nothing was measured: what a mechanism typically reaches, from the pairs on which it was measured.

A pair counts once, whatever the number of its data sets. The median at a draft length is taken over the pairs whose
measurements reach that far, and only while half of all pairs do: the few that were measured at long drafts are not
the typical ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import msgspec

from specdec_cli.physics.acceptance import AcceptanceCurve, AcceptanceEstimate, AssumedLengths
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.schema import AcceptancePoint, AcceptanceProfile


@dataclass(frozen=True, slots=True)
class TypicalLength:
    """AL at one draft length over the measured pairs."""

    median: float
    low: float
    """Lower quartile; the least of fewer than four pairs."""
    high: float
    """Upper quartile; the most of fewer than four pairs."""
    pairs: int


class TypicalAcceptance(AssumedLengths):
    """The median of measured pairs as an assumption, with the quartiles as its band."""

    def __init__(self, mechanism: str, lengths: Mapping[int, TypicalLength]) -> None:
        super().__init__({draft_length: found.median for draft_length, found in lengths.items()})
        self.mechanism, self.lengths = mechanism, dict(lengths)

    @property
    def pairs(self) -> int:
        """Pairs that the shortest draft rests on: the most."""
        return max(found.pairs for found in self.lengths.values())

    def estimate(self, draft_length: int) -> AcceptanceEstimate:
        """AL at `draft_length`, with the quartiles of the pairs; past the lengths known it is extrapolated."""
        found = super().estimate(draft_length)
        known = self.lengths.get(draft_length)
        return found if known is None else msgspec.structs.replace(found, low=known.low, high=known.high)


def typical_lengths(pairs: Sequence[Mapping[int, float]]) -> dict[int, TypicalLength]:
    """Median and quartiles of AL by draft length over pairs, each given as draft length -> AL measured.

    Between its measured lengths a pair is interpolated, never past them. A median is at least that of one token
    less: where fewer pairs reach further, the rest of a curve must not look as if drafting more accepted less.
    """
    curves = [AcceptanceCurve(dict(pair)) for pair in pairs if pair]
    found: dict[int, TypicalLength] = {}
    least = 1.0
    for draft_length in range(1, max((curve.largest_measured for curve in curves), default=0) + 1):
        reached = [curve.estimate(draft_length) for curve in curves if draft_length <= curve.largest_measured]
        values = sorted(estimate.acceptance_length for estimate in reached if estimate is not None)
        if 2 * len(values) < len(curves):
            break
        least = max(least, median(values))
        quarter = quantiles(values, n=4, method="inclusive") if len(values) >= 4 else [values[0], least, values[-1]]
        found[draft_length] = TypicalLength(least, min(least, quarter[0]), max(least, quarter[2]), len(values))
    return found


def measured_pairs(profiles: Iterable[AcceptanceProfile], drafters: frozenset[str]) -> list[dict[int, float]]:
    """What was measured with the drafters named, a curve a pair: the median of its data sets at each draft length.

    Trees are left out, and a pair whose figures are another pair's (taken over from a sister model).
    """
    by_pair: dict[tuple[str, str], dict[int, list[float]]] = {}
    for profile in profiles:
        if profile.drafter in drafters:
            lengths = by_pair.setdefault((profile.target, profile.drafter), {})
            for point in profile.points:
                if point.verify_width in (None, 1 + point.draft_length):
                    lengths.setdefault(point.draft_length, []).append(_length(point))
    curves: list[dict[int, float]] = []
    for lengths in by_pair.values():
        curve = {draft_length: median(values) for draft_length, values in sorted(lengths.items())}
        if curve and curve not in curves:
            curves.append(curve)
    return curves


def typical_acceptance(library: Library, mechanism: str) -> TypicalAcceptance | None:
    """What the mechanism typically reaches; None where no pair was measured with it."""
    drafters = frozenset(
        loaded.record.name for loaded in library.every("drafter")[0] if loaded.record.mechanism == mechanism
    )
    profiles = [loaded.record for loaded in library.every("acceptance")[0]]
    lengths = typical_lengths(measured_pairs(profiles, drafters))
    return TypicalAcceptance(mechanism, lengths) if lengths else None


def _length(point: AcceptancePoint) -> float:
    if point.acceptance_length is not None:
        return point.acceptance_length
    return 1.0 + sum(point.per_position or [])
