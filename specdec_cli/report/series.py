"""The lines of a chart: no speculation, and one for each drafter on each layout, each with a frontier of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specdec_cli.explore.frontier import pareto_mask
from specdec_cli.explore.scenario import Scenario
from specdec_cli.explore.sweep import Sweep

OFF = "no speculation"
MECHANISMS = {
    "eagle": "EAGLE",
    "eagle3": "EAGLE-3",
    "mtp": "MTP",
    "draft_model": "draft model",
    "dflash": "DFlash",
    "dspark": "DSpark",
    "p_eagle": "P-EAGLE",
    "pard": "PARD",
    "medusa": "Medusa",
    "self": "self-speculation",
    "ngram": "n-gram",
    "suffix": "suffix",
}


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart."""

    name: str
    layout: str
    """Chip and parallelism; the same text joins a drafter's line to the line without speculation there."""
    speculates: bool
    points: NDArray[np.int64]
    """Indices into the sweep's points."""
    frontier: NDArray[np.int64]
    """Those that no other point of this line beats, by rising interactivity; equal ones once."""


def series_of(sweep: Sweep) -> list[Series]:
    """The lines of a sweep, those without speculation first; none is empty."""
    scenarios = [grid.scenario for grid in sweep.grids]
    layouts = [layout_name(scenario) for scenario in scenarios]
    names = _names(scenarios, layouts)
    points = sweep.points
    found = []
    for layout in dict.fromkeys(layouts):
        here = np.isin(points.scenario, [i for i, other in enumerate(layouts) if other == layout])
        name = OFF if len(set(layouts)) == 1 else f"{OFF}, {layout}"
        found.append(_line(sweep, name, layout, False, here & (points.draft_length == 0)))
    for index, name in enumerate(names):
        mask = (points.scenario == index) & (points.draft_length > 0)
        found.append(_line(sweep, name, layouts[index], True, mask))
    return [line for line in found if len(line.points)]


def layout_name(scenario: Scenario) -> str:
    """`8 x h200-sxm tp 4`: enough to tell two layouts of a sweep apart."""
    layout = scenario.layout
    tp = f" tp {layout.tp}" if layout.gpus > 1 else ""
    ep = f" ep {layout.ep}" if layout.ep > 1 else ""
    return f"{layout.gpus} x {scenario.hardware.name}{tp}{ep}"


def _names(scenarios: list[Scenario], layouts: list[str]) -> list[str]:
    """A mechanism's name where that tells drafters apart, else the drafter's; and the layout if there are several."""
    short = [MECHANISMS.get(s.drafter.mechanism, s.drafter.mechanism) if s.drafter else OFF for s in scenarios]
    drafters = dict.fromkeys((s.drafter_name, name) for s, name in zip(scenarios, short, strict=True))
    counts = Counter(name for _, name in drafters)
    names = [s.drafter_name if counts[name] > 1 else name for s, name in zip(scenarios, short, strict=True)]
    if len(set(layouts)) == 1:
        return names
    return [f"{name}, {layout}" for name, layout in zip(names, layouts, strict=True)]


def _line(sweep: Sweep, name: str, layout: str, speculates: bool, mask: NDArray[np.bool_]) -> Series:
    indices = np.flatnonzero(mask)
    x, y = sweep.points.interactivity[indices], sweep.points.throughput[indices]
    best = indices[pareto_mask(x, y)]
    # Points equal in both coordinates lie on one another: the shortest draft stands for them.
    order = np.lexsort((sweep.points.draft_length[best], sweep.points.interactivity[best]))
    best = best[order]
    distinct = np.ones(len(best), dtype=bool)
    distinct[1:] = np.diff(sweep.points.interactivity[best]) > 0
    return Series(name, layout, speculates, indices, best[distinct])
