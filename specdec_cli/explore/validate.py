"""Published measurements against the model: errors by source and in total, beside three baselines, and the gates.

Errors are relative, predicted / measured - 1. rho takes acceptance out of the test: AL / speedup, or the measured
step over the measured base step. Throughputs of serving runs also hold prefill and queueing: they stand apart, and no
gate looks at them. Points that a software fault made are listed with the evidence and kept out of every gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specdec_cli.explore.validate_baselines import BASELINES, Predictor
from specdec_cli.explore.validate_points import QUANTITIES, PointResult, Quantity, recreate
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.measurement import Measurement

CLEAR_GAIN = 0.05
"""A measured gain or loss below this has no sign to agree with."""
NEAR = 1
"""A chosen draft length this close to the best measured one counts as found."""
HELD = ("base_step", "rho", "speedup")
"""Quantities that a source's `expected` holds."""
SLACK = 1e-9
"""Rounding in a comparison with a limit; not a tolerance."""

Statistic = Literal["median", "p90"]


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors of one quantity over some points."""

    points: int
    median: float
    """Of |error|."""
    p90: float
    """90th percentile of |error|."""
    bias: float
    """Median of the signed error: above 0 the model is too slow."""


@dataclass(frozen=True, slots=True)
class Share:
    """So many out of so many."""

    hits: int
    of: int

    @property
    def fraction(self) -> float | None:
        """None: out of nothing."""
        return self.hits / self.of if self.of else None


@dataclass(frozen=True, slots=True)
class Choice:
    """How well the predicted best draft length of each sweep over D does in the measurements."""

    near: Share
    """Within 1 of the best measured one."""
    mean_loss: float | None
    """Measured speed lost by taking it, mean over the sweeps."""


@dataclass(frozen=True, slots=True)
class Score:
    """One predictor over some points."""

    points: int
    errors: Mapping[Quantity, Errors]
    """Quantities without a pair to compare are absent."""
    sign: Share
    """Points whose clear measured gain or loss has the predicted sign."""
    choice: Choice


@dataclass(frozen=True, slots=True)
class SourceResult:
    """One published source."""

    source: Measurement
    score: Score
    """Without its fault points."""
    faults: int
    assumed: int
    fitted: int
    """Points that figures of their engine or chip were fitted to."""
    points: tuple[PointResult, ...]


@dataclass(frozen=True, slots=True)
class Total:
    """Points of several sources together."""

    name: str
    what: str
    score: Score
    baselines: Mapping[Predictor, Score]


@dataclass(frozen=True, slots=True)
class Fault:
    """A setup whose numbers a software fault made."""

    source: str
    setup: str
    evidence: str
    score: Score


@dataclass(frozen=True, slots=True)
class Impossible:
    """A setup with times below what the data sheet allows: the source's batch or context is not what it seems."""

    source: str
    setup: str
    points: int
    worst: float
    """Least measured time over the data sheet's."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A limit, and what was found."""

    name: str
    limit: float
    value: float
    smallest: bool = False
    """Whether the limit is one from below."""

    @property
    def passed(self) -> bool:
        """Whether the limit holds."""
        return self.value >= self.limit - SLACK if self.smallest else self.value <= self.limit + SLACK


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """The answer of `specdec validate`."""

    sources: tuple[SourceResult, ...]
    totals: tuple[Total, ...]
    faults: tuple[Fault, ...]
    impossible: tuple[Impossible, ...]
    gates: tuple[Gate, ...]
    whole: bool
    """Whether these are all sources known, so that the gates on totals apply."""

    @property
    def missed(self) -> tuple[Gate, ...]:
        """The gates that do not hold."""
        return tuple(gate for gate in self.gates if not gate.passed)


def validate(library: Library, sources: Sequence[Measurement], *, whole: bool = True) -> ValidationReport:
    """Re-create every point of these sources and compare.

    Args:
        whole: these are all sources known. Gates on totals hold for the whole only; a source's own always.

    Raises:
        ProfileError: a setup cannot be re-created; the message says which, and why.
    """
    results = tuple(_source(source, recreate(library, source)) for source in sources)
    points = [point for result in results for point in result.points]
    totals = tuple(_totals(points))
    gates = [gate for result in results for gate in _source_gates(result)]
    return ValidationReport(
        sources=results,
        totals=totals,
        faults=tuple(_faults(results)),
        impossible=tuple(_impossible(points)),
        gates=(*(_total_gates(totals) if whole else ()), *gates),
        whole=whole,
    )


# ------------------------------------------------------------------------------------------------- scores


def score(points: Sequence[PointResult], predictor: Predictor = "model") -> Score:
    """What a predictor's errors on these points amount to."""
    errors = {name: found for name in QUANTITIES if (found := _errors(points, name, predictor)) is not None}
    return Score(len(points), errors, _sign(points, predictor), _choice(points, predictor))


def _errors(points: Sequence[PointResult], quantity: Quantity, predictor: Predictor) -> Errors | None:
    """A base step that stands beside each draft length of a sweep was measured once: it counts once."""
    found: dict[object, float] = {}
    for place, point in enumerate(points):
        error = point.error(quantity, predictor)
        if error is not None:
            once = (*point.condition, point.measured.base_step)
            found.setdefault(once if quantity == "base_step" else place, error)
    if not found:
        return None
    signed = np.array(list(found.values()))
    size = np.abs(signed)
    return Errors(len(signed), float(np.median(size)), float(np.quantile(size, 0.9)), float(np.median(signed)))


def _sign(points: Iterable[PointResult], predictor: Predictor) -> Share:
    hits = of = 0
    for point in points:
        measured, predicted = point.measured.speedup, point.predicted[predictor].speedup
        if measured is None or predicted is None or abs(measured - 1.0) <= CLEAR_GAIN:
            continue
        of += 1
        hits += (measured > 1.0) == (predicted > 1.0)
    return Share(hits, of)


def _choice(points: Iterable[PointResult], predictor: Predictor) -> Choice:
    near, losses = 0, []
    for sweep in _sweeps(points, predictor):
        best = max(sweep, key=lambda length: sweep[length][0])
        chosen = max(sweep, key=lambda length: sweep[length][1])
        near += abs(best - chosen) <= NEAR
        losses.append(1.0 - sweep[chosen][0] / sweep[best][0])
    return Choice(Share(near, len(losses)), float(np.mean(losses)) if losses else None)


def _sweeps(points: Iterable[PointResult], predictor: Predictor) -> list[dict[int, tuple[float, float]]]:
    """Draft length -> (measured, predicted) speedup, of every sweep over two draft lengths or more; off, whose speedup
    is 1, competes. A draft length that returns under the same condition begins the next data set's sweep."""
    by_condition: dict[object, list[dict[int, tuple[float, float]]]] = {}
    for point in points:
        measured, predicted = point.measured.speedup, point.predicted[predictor].speedup
        if measured is None or predicted is None or point.draft_length == 0:
            continue
        sweeps = by_condition.setdefault(point.condition, [{}])
        if point.draft_length in sweeps[-1]:
            sweeps.append({})
        sweeps[-1][point.draft_length] = (measured, predicted)
    return [{0: (1.0, 1.0), **sweep} for found in by_condition.values() for sweep in found if len(sweep) > 1]


# ---------------------------------------------------------------------------------------- sources, totals


def _source(source: Measurement, points: Sequence[PointResult]) -> SourceResult:
    sound = [point for point in points if not point.fault]
    return SourceResult(
        source=source,
        score=score(sound),
        faults=len(points) - len(sound),
        assumed=sum(point.assumed for point in sound),
        fitted=sum(point.fitted for point in sound),
        points=tuple(points),
    )


def _faults(results: Iterable[SourceResult]) -> Iterable[Fault]:
    for result in results:
        for setup in result.source.setups:
            if setup.fault:
                own = [point for point in result.points if point.setup == setup.id]
                yield Fault(result.source.name, setup.id, setup.fault, score(own))


def _impossible(points: Iterable[PointResult]) -> Iterable[Impossible]:
    """Setups with a base step below the data sheet's bound."""
    found: dict[tuple[str, str], list[float]] = {}
    for point in points:
        above = point.error("base_step", "datasheet_roofline")
        if above is not None and above > SLACK:
            found.setdefault((point.source, point.setup), []).append(1.0 / (1.0 + above))
    for (source, setup), shares in found.items():
        yield Impossible(source, setup, len(shares), min(shares))


def _gated(point: PointResult) -> bool:
    return point.data_centre and point.tier == "A" and not point.fault


TOTALS: dict[str, tuple[str, Callable[[PointResult], bool]]] = {
    "tier A, data centre": ("all that the gates look at", _gated),
    "tier A, data centre, dense": ("of these, models without experts", lambda p: _gated(p) and not p.moe),
    "tier A, data centre, MoE": ("of these, mixtures of experts", lambda p: _gated(p) and p.moe),
    "tier A, data centre, stated": ("of these, without assumptions", lambda p: _gated(p) and not p.assumed),
    "tier A, data centre, assumed": ("of these, with assumptions", lambda p: _gated(p) and p.assumed),
    "tier A, data centre, not fitted": ("of these, no figure was fitted to them", lambda p: _gated(p) and not p.fitted),
    "dense": ("all tiers and chips", lambda p: not p.fault and not p.moe),
    "MoE": ("all tiers and chips", lambda p: not p.fault and p.moe),
    "hybrid": ("recurrent layers, all tiers and chips", lambda p: not p.fault and p.hybrid),
    "long context": ("16K tokens and more", lambda p: not p.fault and p.long_context),
    "stated": ("all points without assumptions", lambda p: not p.fault and not p.assumed),
    "assumed": ("all points with assumptions", lambda p: not p.fault and p.assumed),
    "all": ("every point but the faults", lambda p: not p.fault),
    "all, with faults": ("every point", lambda p: True),
}


def _totals(points: Sequence[PointResult]) -> Iterable[Total]:
    for name, (what, belongs) in TOTALS.items():
        own = [point for point in points if belongs(point)]
        if own:
            yield Total(name, what, score(own), {baseline: score(own, baseline) for baseline in BASELINES})


# -------------------------------------------------------------------------------------------------- gates

GATED = "tier A, data centre"
LIMITS: tuple[tuple[str, Quantity, Statistic, float], ...] = (
    (GATED, "base_step", "median", 0.10),
    (GATED, "base_step", "p90", 0.20),
    (f"{GATED}, dense", "rho", "median", 0.06),
    (f"{GATED}, MoE", "rho", "median", 0.10),
    (GATED, "rho", "p90", 0.20),
)
"""Total, quantity, statistic of |error|, limit."""
LEAST_SIGN_AGREEMENT = 0.95


def _total_gates(totals: Iterable[Total]) -> Iterable[Gate]:
    """The absolute gates; one without a point to look at does not apply."""
    scores = {total.name: total.score for total in totals}
    for name, quantity, statistic, limit in LIMITS:
        errors = scores[name].errors.get(quantity) if name in scores else None
        if errors is not None:
            yield Gate(f"{name}: {statistic} |error| of {quantity}", limit, getattr(errors, statistic))
    agreement = scores[GATED].sign.fraction if GATED in scores else None
    if agreement is not None:
        yield Gate(f"{GATED}: sign agreement", LEAST_SIGN_AGREEMENT, agreement, smallest=True)


def _source_gates(result: SourceResult) -> Iterable[Gate]:
    """A source's stored expectations, which may only fall."""
    for quantity, found in medians(result).items():
        limit = getattr(result.source.expected, quantity)
        if limit is not None:
            yield Gate(f"{result.source.name}: median |error| of {quantity}", limit, found)


def medians(result: SourceResult) -> dict[str, float]:
    """The figures that a source's `expected` holds, those that it has points for."""
    return {name: errors.median for name, errors in result.score.errors.items() if name in HELD}
