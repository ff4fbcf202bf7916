"""Points of a grid as plain records: the contract's keys and units, whichever command they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from specdec_cli.explore.grid import Grid
from specdec_cli.explore.scenario import NO_DRAFTER, Scenario
from specdec_cli.explore.sweep import SERVING_COLUMNS, Sweep
from specdec_cli.physics.step import BOUNDS
from specdec_cli.units import MS

if TYPE_CHECKING:
    from specdec_cli.physics.acceptance import Basis
    from specdec_cli.report.contract.common import Figures, Place, Point, SweptPoint

Record = dict[str, Any]

POINT_COLUMNS = (
    *("batch", "draft_length", "verify_width", "acceptance_length", "target_s", "verify_s", "draft_s"),
    *("speedup", "speedup_low", "speedup_high", "interactivity", "throughput", "bound"),
)
MILLION, SECONDS_PER_HOUR = 1e6, 3600.0


def point_records(sweep: Sweep, indices: Sequence[int]) -> list[SweptPoint]:
    """These points of the sweep, keys in the contract's order, ms and tokens/s.

    The four serving figures join where prompt lengths were given, the cost where any chip of the sweep has a price.
    """
    points = sweep.points
    scenarios = [grid.scenario for grid in sweep.grids]
    bases = [grid.basis for grid in sweep.grids]
    columns = {
        name: getattr(points, name)[list(indices)].tolist()
        for name in ("scenario", "column", *POINT_COLUMNS, "on_frontier", *SERVING_COLUMNS)
        if getattr(points, name) is not None
    }
    columns["bound"] = [BOUNDS[place] for place in columns["bound"]]
    priced = any(scenario.hardware.price_usd_per_hour is not None for scenario in scenarios)
    calibrated = any(scenario.calibration is not None for scenario in scenarios)
    records: list[SweptPoint] = []
    for row in range(len(indices)):
        at = {name: column[row] for name, column in columns.items()}
        scenario = scenarios[at["scenario"]]
        figures = _figures(at, bases[at["scenario"]][at["column"]])
        records.append({**figures, "on_frontier": at["on_frontier"], **_place(at, scenario, priced, calibrated)})
    return records


def grid_point_record(
    grid: Grid, row: int, column: int, *, priced: bool | None = None, calibrated: bool | None = None
) -> Point:
    """One point of one scenario's grid, as `point_records` gives it but for the frontier.

    priced: whether the cost joins; None: where the chip has a price. calibrated: likewise, how the step is known; None:
    where there is a calibration.
    """
    scenario, times = grid.scenario, grid.times
    at: Record = {
        "batch": scenario.batches[row],
        "draft_length": scenario.draft_lengths[column],
        "verify_width": int(grid.verify_width[column]),
        "acceptance_length": float(grid.acceptance_length[column]),
        **{name: float(getattr(times, name)[row, column]) for name in ("target_s", "verify_s", "draft_s")},
        **{name: float(getattr(grid, name)[row, column]) for name in ("speedup", "speedup_low", "speedup_high")},
        "interactivity": float(grid.interactivity[row, column]),
        "throughput": float(grid.throughput[row, column]),
        "bound": BOUNDS[grid.bound[row, column]],
    }
    if grid.serving is not None:
        found = (grid.serving.tpot_s, grid.serving.decode_batch, grid.serving.speedup, grid.serving.throughput)
        at |= {name: float(values[row, column]) for name, values in zip(SERVING_COLUMNS, found, strict=True)}
    known = scenario.hardware.price_usd_per_hour is not None
    return {
        **_figures(at, grid.basis[column]),
        **_place(
            at,
            scenario,
            known if priced is None else priced,
            scenario.calibration is not None if calibrated is None else calibrated,
        ),
    }


def _figures(at: Mapping[str, Any], basis: str) -> Figures:
    """From SI values by the names of the sweep's columns to the contract's keys and units."""
    return {
        "batch": at["batch"],
        "draft_length": at["draft_length"],
        "verify_width": at["verify_width"],
        "acceptance_length": at["acceptance_length"],
        "acceptance_basis": cast("Basis", basis),
        "target_ms": at["target_s"] / MS,
        "verify_ms": at["verify_s"] / MS,
        "draft_ms": at["draft_s"] / MS,
        "step_ms": (at["verify_s"] + at["draft_s"]) / MS,
        "speedup": at["speedup"],
        "speedup_low": at["speedup_low"],
        "speedup_high": at["speedup_high"],
        "interactivity_tokens_per_s_per_user": at["interactivity"],
        "throughput_tokens_per_s_per_gpu": at["throughput"],
        "bound": at["bound"],
    }


def _place(at: Mapping[str, Any], scenario: Scenario, priced: bool, calibrated: bool) -> Place:
    """What the figures belong to; cost and serving figures where there are any."""
    record: Place = {
        "drafter": scenario.drafter_name if at["draft_length"] else NO_DRAFTER,
        "hardware": scenario.hardware.name,
        "tp": scenario.layout.tp,
        "gpus": scenario.layout.gpus,
    }
    if calibrated:
        record["step_basis"] = scenario.band.basis(at["batch"], at["draft_length"])
    if priced:
        record["cost_usd_per_million_tokens"] = _cost(scenario, at["throughput"])
    if "serving_tpot_s" in at:
        record["serving_tpot_ms"] = at["serving_tpot_s"] / MS
        record["serving_throughput_tokens_per_s_per_gpu"] = at["serving_throughput"]
        record["serving_speedup"] = at["serving_speedup"]
        record["decode_batch"] = at["decode_batch"]
        if priced:
            record["serving_cost_usd_per_million_tokens"] = _cost(scenario, at["serving_throughput"])
    return record


def _cost(scenario: Scenario, tokens_per_s_per_gpu: float) -> float | None:
    """USD for a million output tokens at the price of a GPU-hour; None: the chip's profile has no price."""
    price = scenario.hardware.price_usd_per_hour
    return None if price is None else price * MILLION / (SECONDS_PER_HOUR * tokens_per_s_per_gpu)
