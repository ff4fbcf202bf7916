"""Points that cannot be, and why: kept as columns, put into words where one is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from specdec_cli.explore.grid import Grid, bytes_needed
from specdec_cli.explore.question import Scenario
from specdec_cli.physics.drafting import longest_draft
from specdec_cli.physics.roofline import Floats
from specdec_cli.units import GIGA

Reason = Literal["out_of_memory", "beyond_draft_window", "not_measured", "below_limit"]


class Infeasible(msgspec.Struct, frozen=True):
    """A point that cannot be, and why."""

    scenario: Scenario
    batch: int
    draft_length: int
    reason: Reason
    detail: str


class Refusals(Sequence[Infeasible]):
    """Every point of some grids that is not usable, grid by grid, row by row."""

    def __init__(self, grids: Sequence[Grid], kept: Sequence[NDArray[np.bool_]]) -> None:
        """kept: which columns of each grid count."""
        self._grids = tuple(grids)
        self._places = [np.flatnonzero(~grid.usable & columns) for grid, columns in zip(grids, kept, strict=True)]
        self._starts = np.cumsum([0, *(len(places) for places in self._places)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, at: int) -> Infeasible: ...

    @overload
    def __getitem__(self, at: slice) -> list[Infeasible]: ...

    def __getitem__(self, at: int | slice) -> Infeasible | list[Infeasible]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        at %= len(self)
        grid = int(np.searchsorted(self._starts, at, side="right")) - 1
        at_place = self._places[grid][at - self._starts[grid]]
        return next(_infeasible(self._grids[grid], np.array([at_place])))

    def __iter__(self) -> Iterator[Infeasible]:
        for grid, places in zip(self._grids, self._places, strict=True):
            yield from _infeasible(grid, places)


def _infeasible(grid: Grid, places: NDArray[np.intp]) -> Iterator[Infeasible]:
    scenario = grid.scenario
    rows, columns = np.divmod(places, len(scenario.draft_lengths))
    needed = _needed(grid, rows, columns)
    for row, column, bytes_ in zip(rows.tolist(), columns.tolist(), needed.tolist(), strict=True):
        reason, detail = _why_not(grid, row, column, bytes_)
        yield Infeasible(scenario, scenario.batches[row], scenario.draft_lengths[column], reason, detail)


def _needed(grid: Grid, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
    """Bytes on the fullest GPU at points of a grid."""
    widths = grid.verify_width[columns].astype(np.float64)
    return bytes_needed(grid.scenario, grid.batches[rows, 0], grid.draft_lengths[columns].astype(np.float64), widths)


def why_not(grid: Grid, row: int, column: int) -> tuple[Reason, str]:
    """The reason that a point is not usable, and a sentence that says it with numbers."""
    return _why_not(grid, row, column, float(_needed(grid, np.array([row]), np.array([column]))[0]))


def _why_not(grid: Grid, row: int, column: int, needed: float) -> tuple[Reason, str]:
    scenario, memory = grid.scenario, grid.scenario.memory
    length = scenario.draft_lengths[column]
    if not grid.fits[row, column]:
        return "out_of_memory", (
            f"needs {needed / GIGA:.1f} GB of {memory.usable / GIGA:.1f} GB usable on each GPU "
            f"({memory.target_weights / GIGA:.1f} GB target weights"
            + (f", {memory.draft_weights / GIGA:.1f} GB drafter" if length else "")
            + ")"
        )
    assert scenario.drafter is not None  # only a drafter's points can fail otherwise
    limit = longest_draft(scenario.drafter)
    if limit is not None and length > limit and not scenario.past_block:
        return "not_measured", (
            f"{scenario.drafter.name} drafts at most {limit} tokens, as it was trained; --assume lets longer drafts in"
        )
    if scenario.beyond_window:
        return "beyond_draft_window", (
            f"{scenario.drafter.name} was trained on {scenario.drafter.window_tokens} tokens of context, "
            f"asked for {scenario.context}"
        )
    if scenario.acceptance is not None:
        wide = f" and {scenario.tree.width(length)} verified tokens" if scenario.tree is not None else ""
        return "not_measured", f"no tree of depth {length}{wide} was measured for {scenario.drafter.name}"
    return "not_measured", f"no acceptance was measured at a context of {scenario.context} tokens"


def nothing_fits(infeasible: Sequence[Infeasible]) -> str:
    """What to say where every point is refused."""
    first = infeasible[0]
    return (
        f"no feasible point: {len(infeasible)} refused; at batch {first.batch}, draft length {first.draft_length} on "
        f"{first.scenario.hardware.name} with tp {first.scenario.layout.tp}: {first.detail}. "
        f"Try {_more_memory(first.scenario)}a smaller --weight-dtype or --context, or smaller --batches"
    )


def _more_memory(scenario: Scenario) -> str:
    return "more --gpus, " if scenario.layout.gpus < scenario.hardware.link.domain_gpus else ""
