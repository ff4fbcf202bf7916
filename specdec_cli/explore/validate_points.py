"""Published points re-created: what was measured, and beside it what the model and the baselines say.

Like is compared with like: a setup that states prompt and answer lengths is a serving run, whose times between tokens
hold prefill; the model then predicts those (`physics.serving`) instead of steps alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import numpy as np

from specdec_cli.errors import ProfileError, SpecdecError
from specdec_cli.explore.scenario import NO_DRAFTER, Options, Scenario, resolve
from specdec_cli.explore.validate_baselines import Predictor, constant_cost, roofline_s, verify_free
from specdec_cli.physics.chip import resolve_chip
from specdec_cli.physics.roofline import Floats
from specdec_cli.physics.serving import serving_step_model, serving_times
from specdec_cli.physics.step import StepModel, pass_cost
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.measurement import MeasuredPoint, Measurement, Setup, Tier
from specdec_cli.profiles.schema import GatedDelta, Mamba2, Model
from specdec_cli.units import MS

Quantity = Literal["base_step", "verify", "draft", "step", "verify_ratio", "rho", "speedup", "serving_speedup"]
QUANTITIES: tuple[Quantity, ...] = (
    *("base_step", "verify", "draft", "step"),
    *("verify_ratio", "rho", "speedup", "serving_speedup"),
)

LONG_CONTEXT = 16_000
"""Tokens from which a point counts as long context (the sources' "16K" is 16,000 or 16,384)."""

NOT_DATA_CENTRE = ("rtx-", "rx-", "arc-", "apple-", "strix-", "dgx-spark", "jetson-", "epyc-", "xeon-")
"""How the names of chips begin that are sold for desks, cars and sockets; all others are data-centre accelerators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Times of one point, s, and its ratios; None: not stated, or not predicted."""

    base_step: float | None = None
    """One target pass with one token a request, the engine's step included; of a serving run: its TPOT."""
    verify: float | None = None
    """The target's forward pass on W tokens a request, alone: without the engine's step and the entry fee."""
    draft: float | None = None
    step: float | None = None
    """All of a speculative step, entry fee included; of a serving run: AL times its TPOT."""
    verify_ratio: float | None = None
    """The verify pass over the base step."""
    rho: float | None = None
    """The whole step over the base step: AL / speedup."""
    speedup: float | None = None
    """Of steps: AL / rho."""
    serving_speedup: float | None = None
    """Of throughputs, which also hold prefill and queueing; predicted from steps alone, so too high, where the source
    does not state prompt and answer lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    """One published point, measured and predicted."""

    source: str
    tier: Tier
    setup: str
    hardware: str
    model: str
    drafter: str
    batch: float
    draft_length: int
    verify_width: int
    context: int
    acceptance_length: float | None
    moe: bool
    hybrid: bool
    data_centre: bool
    assumed: bool
    """Whether its setup rests on assumptions."""
    fault: bool
    """Whether its source shows that software, not physics, made it."""
    fitted: bool
    """Whether figures of its engine or chip were fitted to its setup."""
    measured: Figures
    predicted: dict[Predictor, Figures]

    @property
    def long_context(self) -> bool:
        """Whether its context is long."""
        return self.context >= LONG_CONTEXT

    @property
    def condition(self) -> tuple[str, str, float, int]:
        """What the points of a sweep over D share."""
        return self.source, self.setup, self.batch, self.context

    def error(self, quantity: Quantity, predictor: Predictor = "model") -> float | None:
        """predicted / measured - 1; None where either is missing."""
        measured = getattr(self.measured, quantity)
        predicted = getattr(self.predicted[predictor], quantity)
        return None if measured is None or predicted is None else predicted / measured - 1.0


def recreate(library: Library, source: Measurement) -> list[PointResult]:
    """Every point of a source, measured and predicted.

    Raises:
        ProfileError: a setup names what the library lacks or cannot price; the message says which setup.
    """
    results: list[PointResult] = []
    for setup in source.setups:
        try:
            results += _setup(library, source, setup)
        except SpecdecError as error:
            raise ProfileError(f"measurement {source.name}, setup {setup.id} cannot be re-created: {error}") from error
    return results


def scenario_of(library: Library, setup: Setup) -> Scenario:
    """The scenario of a setup: the same path as a user's options take."""
    serving = setup.input_tokens is not None and setup.output_tokens is not None
    options = Options(
        hardware=setup.hardware,
        tp=str(setup.tp),
        gpus=setup.gpus,
        ep=setup.ep,
        model=setup.model,
        drafter=setup.drafter or NO_DRAFTER,
        engine=setup.engine,
        weight_dtype=setup.weight_dtype,
        kv_dtype=setup.kv_dtype,
        # Each point brings its own context and AL. What is said here keeps the resolver from refusing a model that was
        # stretched past its own context, and from asking for a profile of the pair.
        context=None if serving else 1,
        input_tokens=setup.input_tokens if serving else None,
        output_tokens=setup.output_tokens if serving else None,
        acceptance_rate=0.5 if setup.drafter is not None else None,
        batches="1",
        assume=True,
    )
    (scenario,) = resolve(library, options).scenarios
    if setup.cuda_graphs is None or setup.cuda_graphs == scenario.engine.cuda_graphs:
        return scenario
    engine = msgspec.structs.replace(scenario.engine, cuda_graphs=setup.cuda_graphs)
    chip = resolve_chip(scenario.hardware, engine, scenario.dtypes.kv)
    return replace(scenario, engine=engine, step=replace(scenario.step, chip=chip))


def _setup(library: Library, source: Measurement, setup: Setup) -> list[PointResult]:
    scenario = scenario_of(library, setup)
    model = scenario.model
    predictions = _predict(scenario, setup)
    fitted = is_fitted_on(source, setup, scenario)
    return [
        PointResult(
            source=source.name,
            tier=source.tier,
            setup=setup.id,
            hardware=scenario.hardware.name,
            model=model.name,
            drafter=scenario.drafter_name,
            batch=point.batch,
            draft_length=point.draft_length,
            verify_width=_width(point),
            context=_context(setup, point),
            acceptance_length=point.acceptance_length,
            moe=model.has_experts,
            hybrid=is_hybrid(model),
            data_centre=not scenario.hardware.name.startswith(NOT_DATA_CENTRE),
            assumed=bool(setup.assumptions),
            fault=bool(setup.fault),
            fitted=fitted,
            measured=_measured(point, base_ms),
            predicted={name: _with_speedup(figures, point) for name, figures in predicted.items()},
        )
        for point, base_ms, predicted in zip(setup.points, _base_steps(setup), predictions, strict=True)
    ]


FITTED_ON = "profiles/measurements:"
"""What begins the list of measurements in the source of a fitted figure: NAME, or NAME (setup ID)."""


def is_fitted_on(source: Measurement, setup: Setup, scenario: Scenario) -> bool:
    """Whether the host constants of its engine or kernel figures of its chip name it as what they were fitted to."""
    engine, hardware = scenario.engine, scenario.hardware
    kernels = engine.kernels if engine.kernels in hardware.kernels else "default"
    texts = [entry.from_ for entry in engine.sources.values()]
    sets = (f"kernels.{kernels}.", "kernels.default.")
    texts += [entry.from_ for key, entry in hardware.sources.items() if key.startswith(sets)]
    for text in texts:
        named = text.partition(FITTED_ON)[2]
        one = re.search(rf"(?<![\w.-]){re.escape(source.name)}(?![\w.-])( \(setup )?", named)
        if one and (one[1] is None or f"{source.name} (setup {setup.id})" in named):
            return True
    return False


def is_hybrid(model: Model) -> bool:
    """Whether any layer keeps a recurrent state instead of a KV cache."""
    return any(isinstance(attention, GatedDelta | Mamba2) for attention in model.attention.values())


def _width(point: MeasuredPoint) -> int:
    return point.verify_width or point.draft_length + 1


def _context(setup: Setup, point: MeasuredPoint) -> int:
    return setup.context_tokens if point.context_tokens is None else point.context_tokens


def _base_steps(setup: Setup) -> list[float | None]:
    """Each point's base step in ms: its own, else the last one stated above it at its batch and context, else the
    first below. A sweep often states it once, at D = 0; a setup may hold the sweeps of several data sets."""
    known: dict[tuple[float, int], float] = {}
    for point in reversed(setup.points):
        if point.base_step_ms is not None:
            known[point.batch, _context(setup, point)] = point.base_step_ms
    found = []
    for point in setup.points:
        condition = point.batch, _context(setup, point)
        if point.base_step_ms is not None:
            known[condition] = point.base_step_ms
        found.append(known.get(condition))
    return found


def _measured(point: MeasuredPoint, base_ms: float | None) -> Figures:
    """What was measured, and the ratios that follow from it; printed figures before computed ones."""
    length = point.acceptance_length
    printed = point.speedup if point.speedup_kind in ("step", "tpot") else None
    speedup, rho = printed, None
    if length is not None and printed is not None:
        rho = length / printed
    elif point.step_ms is not None and base_ms is not None and point.draft_length > 0:
        rho = point.step_ms / base_ms
        speedup = printed or (length / rho if length is not None else None)
    return Figures(
        base_step=_seconds(point.base_step_ms),
        verify=_seconds(point.verify_ms),
        draft=_seconds(point.draft_ms),
        step=_seconds(point.step_ms),
        verify_ratio=point.verify_ms / base_ms if point.verify_ms is not None and base_ms is not None else None,
        rho=rho,
        speedup=speedup,
        serving_speedup=point.speedup if point.speedup_kind == "throughput" else None,
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds * MS


def _predict(scenario: Scenario, setup: Setup) -> list[dict[Predictor, Figures]]:
    """The predictors' figures of every point; the points lie along the first of two axes."""
    points = setup.points
    step = replace(scenario.step, branches=_column([p.tree_branches for p in points]))
    batches = _column([p.batch for p in points])
    draft_lengths = _column([p.draft_length for p in points])
    widths = _column([_width(p) for p in points])
    context = _column([_context(setup, p) for p in points])
    # AL sets only how many tokens enter the draft's first pass: where it is not stated, the middle of 1 to 1 + D.
    lengths = _column(
        [p.acceptance_length if p.acceptance_length is not None else 1.0 + p.draft_length / 2.0 for p in points]
    )
    times = step.times(batches, draft_lengths, widths, lengths, context)
    verify = pass_cost(step.target, step.shape(batches, widths, context), step.chip).seconds
    floor_base, floor_verify, floor_draft = roofline_s(step, batches, draft_lengths, widths, lengths, context)
    columns: dict[Predictor, dict[str, Floats]] = {
        "model": _columns(times.target_s, verify, times.draft_s, times.step_s),
        "verify_free": {"rho": verify_free(draft_lengths)},
        "datasheet_roofline": _columns(floor_base, floor_verify, floor_draft, floor_verify + floor_draft),
        "constant_cost": {"rho": constant_cost(draft_lengths)},
    }
    columns["model"] |= _serving(scenario, step, batches, draft_lengths, widths, lengths)
    return [
        {
            name: Figures(**{key: float(values[row, 0]) for key, values in found.items()})
            for name, found in columns.items()
        }
        for row in range(len(points))
    ]


def _serving(
    scenario: Scenario, step: StepModel, batches: Floats, draft_lengths: Floats, widths: Floats, lengths: Floats
) -> dict[str, Floats]:
    """Base step, step and ratios of a serving run; empty where there is no workload."""
    workload = scenario.workload
    if workload is None:
        return {}
    step = replace(serving_step_model(step), branches=np.asarray(step.branches).T)

    def run(lengths: Floats, widths: Floats, accepted: Floats) -> tuple[Floats, Floats]:
        """TPOT and tokens/s of each point: the diagonal of the grid over loads and drafts."""
        found = serving_times(
            step, scenario.memory, workload, batches, lengths.T, widths.T, accepted.T, scenario.engine.prefill
        )
        tpot = np.diagonal(found.tpot_s)[:, None]
        return tpot, np.diagonal(found.decode_batch)[:, None] / tpot

    one = np.ones_like(widths)
    base, plain_throughput = run(np.zeros_like(draft_lengths), one, one)
    tpot, throughput = run(draft_lengths, widths, lengths)
    whole = tpot * lengths
    return {
        "base_step": base,
        "step": whole,
        "rho": whole / base,
        "serving_speedup": throughput / plain_throughput,
    }


def _columns(base: Floats, verify: Floats, draft: Floats, step: Floats) -> dict[str, Floats]:
    ratios = {"verify_ratio": verify / base, "rho": step / base}
    return {"base_step": base, "verify": verify, "draft": draft, "step": step, **ratios}


def _column(values: Sequence[float]) -> Floats:
    return np.asarray(values, dtype=np.float64)[:, None]


def _with_speedup(figures: Figures, point: MeasuredPoint) -> Figures:
    """The speedup at the AL that was measured; without drafts there is no round, so neither ratio."""
    if point.draft_length == 0:
        return replace(figures, rho=None, serving_speedup=None)
    if point.acceptance_length is None or figures.rho is None:
        return replace(figures, serving_speedup=None)
    speedup = point.acceptance_length / figures.rho
    return replace(figures, speedup=speedup, serving_speedup=figures.serving_speedup or speedup)
