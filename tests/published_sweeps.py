"""Published sweeps over draft lengths, out of the shipped measurements: what the tests of choosing and calibrating use.

A sweep is one condition (source, setup, batch, context, data set) with its acceptance as measured. Speculation off
belongs to it: its speedup is 1 by definition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from toys import shipped

from specdec_cli.explore.validate_baselines import Predictor
from specdec_cli.explore.validate_points import PointResult, recreate
from specdec_cli.profiles.measurement import Measurement, Setup


@dataclass(frozen=True)
class Sweep:
    """Draft lengths of one condition."""

    source: Measurement
    setup: Setup
    results: tuple[PointResult, ...]
    """By draft length; off is not among them."""

    @property
    def name(self) -> str:
        first = self.results[0]
        return f"{self.source.name}/{self.setup.id} B={first.batch:g} L={first.context}"

    @property
    def of_steps(self) -> bool:
        """Whether its ratios are of steps or TPOT; those of throughputs hold prefill and queueing too."""
        return all(point.measured.speedup is not None for point in self.results)

    @property
    def tree(self) -> bool:
        wide = any(point.verify_width > point.draft_length + 1 for point in self.results)
        return wide or any(point.tree_branches > 1 for point in self.setup.points)

    def measured(self) -> dict[int, float]:
        """Draft length -> speedup, off included."""
        return {0: 1.0} | {point.draft_length: speed_of(point) or 0.0 for point in self.results}

    def predicted(self, predictor: Predictor) -> dict[int, float]:
        """The same as a predictor has it, at the acceptance that was measured."""
        found = {0: 1.0}
        for point in self.results:
            figures = point.predicted[predictor]
            found[point.draft_length] = figures.speedup or figures.serving_speedup or 0.0
        return found


def speed_of(point: PointResult) -> float | None:
    return point.measured.speedup or point.measured.serving_speedup


@cache
def sweeps() -> tuple[Sweep, ...]:
    """Every sweep with acceptance measured, faults left out."""
    found: list[Sweep] = []
    for loaded in shipped().every("measurement")[0]:
        source: Measurement = loaded.record
        results = recreate(shipped(), source)
        for setup in source.setups:
            if not setup.fault:
                own = [point for point in results if point.setup == setup.id]
                found += [Sweep(source, setup, tuple(points)) for points in _split(own)]
    return tuple(found)


def _split(points: Iterable[PointResult]) -> list[list[PointResult]]:
    """By condition; a draft length that returns under the same condition begins the next data set's sweep."""
    by_condition: dict[object, list[list[PointResult]]] = {}
    for point in points:
        usable = speed_of(point) is not None and point.acceptance_length is not None and point.acceptance_length > 1
        if point.draft_length == 0 or not usable:
            continue
        found = by_condition.setdefault(point.condition, [[]])
        if any(one.draft_length == point.draft_length for one in found[-1]):
            found.append([])
        found[-1].append(point)
    whole = [sorted(one, key=lambda p: p.draft_length) for found in by_condition.values() for one in found]
    return [one for one in whole if one]
