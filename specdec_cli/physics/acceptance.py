"""Acceptance length by draft length: measured, interpolated, extrapolated or assumed, and how sure that is.

AL counts tokens per target iteration, bonus token included: AL(D) = 1 + a_1 + ... + a_D with a_i the unconditional
acceptance of position i, 1 <= AL <= 1 + D. Sources in order of trust: AL measured at that D; unconditional a_i
measured at the same D; interpolation between measured D; extrapolation by the last conditional rate, marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, Protocol

import msgspec

from specdec_cli.errors import InfeasibleError, UsageError
from specdec_cli.profiles.schema import AcceptancePoint

Basis = Literal["measured", "interpolated", "extrapolated", "assumed"]

# Half-widths of the band around AL, relative to AL - 1 (what speculation adds).
# Truncating per-position rates measured at D = 10 to D = 3 gave 2.20 where the replay at D = 3 gave 2.35: 11 % of
# AL - 1 (published traces of SpecDecode-Bench).
INTERPOLATION_BAND = 0.11
# A first rate and a constant conditional rate fitted at D = 1 and 3: within 11 % of AL at D = 5 on ten published
# curves, 15 % of AL - 1.
TWO_POINT_BAND = 0.15
# A constant rate fitted at D = 1 alone over-predicts AL at D = 8 by 9 to 112 % on the same curves; so it reaches
# down to half of AL - 1, and hardly up.
ONE_POINT_BAND_DOWN, ONE_POINT_BAND_UP = 0.5, 0.05


class AcceptanceEstimate(msgspec.Struct, frozen=True):
    """AL at one draft length, with its band."""

    acceptance_length: float
    basis: Basis
    low: float
    high: float
    verify_width: int
    """Tokens of each request in the verify pass: 1 + D for a chain."""


def geometric_sum(rate: float, terms: int) -> float:
    """rate + rate^2 + ... + rate^terms."""
    if rate == 1.0:
        return float(terms)
    return rate * (1.0 - rate**terms) / (1.0 - rate)


def acceptance_from_rate(rate: float, draft_length: int) -> float:
    """AL of a constant conditional acceptance: 1 + c + c^2 + ... + c^D."""
    return 1.0 + geometric_sum(rate, draft_length)


@lru_cache(maxsize=4096)  # the same curves are asked again at every batch, drafter and layout
def rate_for_gain(gain: float, terms: int) -> float:
    """The rate c with c + c^2 + ... + c^terms = gain, for 0 <= gain (bisection: the sum rises with c).

    A rate above 1 answers a curve whose increments grow; the callers decide whether that can be.
    """
    low, high = 0.0, 1.0
    while geometric_sum(high, terms) < gain:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if geometric_sum(middle, terms) < gain:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


class AcceptanceCurve:
    """AL(D) of one drafter, target and workload at one context length."""

    def __init__(
        self,
        measured: dict[int, float],
        *,
        truncated: dict[int, float] | None = None,
        tree_widths: dict[int, int] | None = None,
        between_contexts: bool = False,
    ) -> None:
        """
        Args:
            measured: draft length -> AL measured at it. truncated: draft length -> AL from per-position rates that
            were measured at a longer draft; used where nothing was measured at that length. tree_widths: depth ->
            verified nodes, for trees, whose AL is known at the measured shapes only. between_contexts: `measured`
            was itself interpolated between two contexts.
        """
        self._between_contexts = between_contexts
        self._widths = tree_widths or {}
        self._anchors = {0: 1.0, **(truncated or {}), **measured}
        self._measured = measured
        self._lengths = sorted(self._anchors)
        self._largest_measured = max(measured, default=0)

    @property
    def largest_measured(self) -> int:
        """The largest draft length with a measured AL."""
        return self._largest_measured

    def estimate(self, draft_length: int) -> AcceptanceEstimate | None:
        """AL at `draft_length`; None for a tree of a depth that was not measured."""
        if draft_length == 0:
            return AcceptanceEstimate(1.0, "measured", 1.0, 1.0, 1)
        if draft_length in self._measured:
            value = self._measured[draft_length]
            width = self._widths.get(draft_length, draft_length + 1)
            if self._between_contexts:
                found = _banded(value, "interpolated", INTERPOLATION_BAND, INTERPOLATION_BAND, draft_length)
                return msgspec.structs.replace(found, verify_width=width)
            return AcceptanceEstimate(value, "measured", value, value, width)
        if self._widths:
            return None
        if draft_length <= self._lengths[-1]:
            value = self._interpolate(draft_length)
            return _banded(value, "interpolated", INTERPOLATION_BAND, INTERPOLATION_BAND, draft_length)
        value = self._extrapolate(draft_length)
        if len(self._lengths) > 2:
            return _banded(value, "extrapolated", TWO_POINT_BAND, TWO_POINT_BAND, draft_length)
        return _banded(value, "extrapolated", ONE_POINT_BAND_DOWN, ONE_POINT_BAND_UP, draft_length)

    def _interpolate(self, draft_length: int) -> float:
        """Between two anchors the increments shrink (or grow) by a constant factor from the last known one, so that
        the curve keeps its bend; where that cannot meet the upper anchor the increments are equal."""
        if draft_length in self._anchors:
            return self._anchors[draft_length]
        below = max(d for d in self._lengths if d < draft_length)
        above = min(d for d in self._lengths if d > draft_length)
        terms = above - below
        gain = self._anchors[above] - self._anchors[below]
        last = self._last_increment(below)
        if gain > 0 and last > 0:
            rate = rate_for_gain(gain / last, terms)
            if rate <= 1.0:
                return self._anchors[below] + last * geometric_sum(rate, draft_length - below)
        return self._anchors[below] + gain * (draft_length - below) / terms

    def _last_increment(self, draft_length: int) -> float:
        """AL(D) - AL(D - 1) at an anchor; position 0 counts as accepted, so a single anchor means a constant rate."""
        if draft_length == 0:
            return 1.0
        return self._anchors[draft_length] - self._interpolate(draft_length - 1)

    def _extrapolate(self, draft_length: int) -> float:
        """Two-point form: the first rate, then one conditional rate; past the last anchor that rate goes on."""
        last = self._lengths[-1]
        if last == 0:
            raise InfeasibleError("no acceptance is known for this drafter and target")
        increment = self._last_increment(last)
        if increment <= 0.0:
            return self._anchors[last]  # measured curves level off; a further draft token adds nothing
        if len(self._lengths) == 2:
            rate = rate_for_gain(self._anchors[last] - 1.0, last)
        else:
            first = self._interpolate(1) - 1.0
            later = max(0.0, self._anchors[last] - 1.0 - first)
            rate = rate_for_gain(later / first, last - 1) if first > 0 else 1.0
        return self._anchors[last] + increment * geometric_sum(min(rate, 1.0), draft_length - last)


def _banded(value: float, basis: Basis, down: float, up: float, draft_length: int) -> AcceptanceEstimate:
    value = min(value, 1.0 + draft_length)
    gain = value - 1.0
    low, high = 1.0 + gain * (1.0 - down), min(1.0 + gain * (1.0 + up), 1.0 + draft_length)
    return AcceptanceEstimate(value, basis, low, high, draft_length + 1)


def widened(curve: AcceptanceCurve, others: Sequence[AcceptanceCurve]) -> WidenedCurve:
    """`curve` with a band that holds what the same pair reached on other data sets."""
    return WidenedCurve(curve, tuple(others))


@dataclass(frozen=True)
class WidenedCurve:
    """A curve whose band spans other workloads: the user's own is none of them exactly."""

    curve: AcceptanceCurve
    others: tuple[AcceptanceCurve, ...]

    @property
    def largest_measured(self) -> int:
        """The largest draft length with a measured AL."""
        return self.curve.largest_measured

    @cached_property
    def _reach(self) -> int:
        return max((one.largest_measured for one in self.others), default=0)

    @cached_property
    def _at_last(self) -> AcceptanceEstimate | None:
        return self.estimate(self.curve.largest_measured)

    def estimate(self, draft_length: int) -> AcceptanceEstimate | None:
        """AL at `draft_length`, with the lowest and the highest of the other data sets that reach that far."""
        own = self.curve.estimate(draft_length)
        if own is None:
            return None
        others = self.others if draft_length <= self._reach else ()
        reached = [o.estimate(draft_length) for o in others if draft_length <= o.largest_measured]
        values = [e.acceptance_length for e in reached if e is not None and e.verify_width == own.verify_width]
        low, high = min([own.low, *values]), max([own.high, *values])
        last = self.curve.largest_measured
        if draft_length > last > 0:
            # Past the last measurement the other data sets differ by no less than they did there.
            known = self._at_last
            if known is not None and known.acceptance_length > 1.0:
                gain = (own.acceptance_length - 1.0) / (known.acceptance_length - 1.0)
                low = min(low, 1.0 + gain * (known.low - 1.0))
                high = max(high, min(1.0 + gain * (known.high - 1.0), 1.0 + draft_length))
        return msgspec.structs.replace(own, low=low, high=high)


class ConstantRate:
    """AL of an assumed constant conditional acceptance (`--acceptance-rate`)."""

    def __init__(self, rate: float) -> None:
        if not 0.0 <= rate <= 1.0:
            raise UsageError(f"--acceptance-rate must lie between 0 and 1, got {rate:g}")
        self._rate = rate

    largest_measured = 0

    def estimate(self, draft_length: int) -> AcceptanceEstimate:
        """AL at `draft_length`."""
        value = acceptance_from_rate(self._rate, draft_length)
        return AcceptanceEstimate(value, "assumed", value, value, draft_length + 1)


class AssumedLengths:
    """AL given on the command line (`--acceptance-length 1=1.91,3=2.83`)."""

    def __init__(self, lengths: dict[int, float]) -> None:
        for draft_length, value in lengths.items():
            check_acceptance_length(draft_length, value, "--acceptance-length")
        self._curve = AcceptanceCurve(lengths)

    @property
    def largest_measured(self) -> int:
        """The largest draft length given."""
        return self._curve.largest_measured

    def estimate(self, draft_length: int) -> AcceptanceEstimate:
        """AL at `draft_length`; beyond the lengths given it is extrapolated, else assumed."""
        found = self._curve.estimate(draft_length)
        assert found is not None  # only trees have gaps
        return found if found.basis == "extrapolated" else msgspec.structs.replace(found, basis="assumed")


class Acceptance(Protocol):
    """AL by draft length, whatever it rests on: a curve, an assumption, trees."""

    @property
    def largest_measured(self) -> int:
        """The largest draft length with a measured or given AL; 0: there is none."""

    def estimate(self, draft_length: int) -> AcceptanceEstimate | None:
        """AL at `draft_length`; None where it is not known."""


def check_acceptance_length(draft_length: int, value: float, where: str) -> None:
    """Refuse an AL that cannot be."""
    if draft_length < 1:
        raise UsageError(f"{where}: a draft length must be at least 1, got {draft_length}")
    if not 1.0 <= value <= 1.0 + draft_length:
        raise UsageError(
            f"{where}: AL counts the bonus token, so at D = {draft_length} it lies between 1 and "
            f"{1 + draft_length}; got {value:g}"
        )


def curve_at_context(points: Sequence[AcceptancePoint], context_tokens: float | None) -> AcceptanceCurve | None:
    """The curve of a profile at a context length.

    Points that state no context hold at any. Where points state contexts, AL is interpolated linearly between the
    two nearest; outside the stated contexts there is no curve (None).
    """
    stated = sorted({p.context_tokens for p in points if p.context_tokens is not None})
    if not stated or context_tokens is None:
        return _curve(points)
    free = [p for p in points if p.context_tokens is None]
    if len(stated) == 1:
        return _curve(points)  # one condition of measurement, not a table by context
    if not stated[0] <= context_tokens <= stated[-1]:
        return _curve(free) if free else None
    below = max(c for c in stated if c <= context_tokens)
    above = min(c for c in stated if c >= context_tokens)
    low = _lengths(p for p in points if p.context_tokens in (below, None))
    high = _lengths(p for p in points if p.context_tokens in (above, None))
    share = 0.0 if above == below else (context_tokens - below) / (above - below)
    lengths = {d: low[d] * (1 - share) + high[d] * share for d in low.keys() & high.keys()}
    return AcceptanceCurve(lengths, tree_widths=_tree_widths(points), between_contexts=above != below)


def _lengths(points: Iterable[AcceptancePoint]) -> dict[int, float]:
    lengths: dict[int, float] = {}
    for point in points:
        if point.acceptance_length is not None:
            lengths[point.draft_length] = point.acceptance_length
        elif point.per_position is not None and len(point.per_position) == point.draft_length:
            lengths.setdefault(point.draft_length, 1.0 + sum(point.per_position))
    return lengths


def _curve(points: Sequence[AcceptancePoint]) -> AcceptanceCurve:
    measured = _lengths(points)
    truncated: dict[int, float] = {}
    # Rates measured at the shortest draft that covers a length come nearest to what a run at that length would give.
    for point in sorted(points, key=lambda p: -p.draft_length):
        if point.per_position is not None and point.per_position_kind == "measured":
            for length in range(1, len(point.per_position)):
                truncated[length] = 1.0 + sum(point.per_position[:length])
    return AcceptanceCurve(measured, truncated=truncated, tree_widths=_tree_widths(points))


def _tree_widths(points: Sequence[AcceptancePoint]) -> dict[int, int]:
    """Depth -> verified nodes of the points that are trees."""
    return {p.draft_length: p.verify_width for p in points if p.verify_width is not None}
