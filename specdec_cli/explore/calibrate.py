"""Measured steps -> a calibrated step model: the constants that explain them, and how far each row is missed.

    minimise over theta:  sum ((T(theta) - T_measured) / (NOISE T_measured))^2 + sum ((theta - prior) / spread)^2

theta: the logarithms of the scales of the kernels' memory and compute sides; the engine's step, per-request, entry and
per-pass times, at least 0. Where the target's pass is given as a curve the scales stay 1.
The prior's spreads stand in units of the plain step, so that one row moves the model and three are hit nearly exactly.
Where rows stay far off, the model is carried onto straight lines through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from specdec_cli.explore.least_squares import bounded_least_squares
from specdec_cli.physics.calibrated import (
    StepCorrection,
    VerifyCurve,
    constants_of,
    scaled_kernels,
    with_host_constants,
)
from specdec_cli.physics.roofline import Floats
from specdec_cli.physics.step import StepModel, StepTimes
from specdec_cli.profiles.calibration import Constants
from specdec_cli.units import MS, US

NOISE = 0.01
"""Relative error of a measured step that its user's runs repeat within."""
SCALE_SPREAD = 0.3
STEP_SPREAD = 0.2
ENTRY_SPREAD = 0.5
PASS_SPREAD = 0.2
REQUEST_SPREAD = 0.2
"""How far the constants may lie from the profiles': scales as logarithms, times relative to the plain step (for the
per-request time: of MANY requests, or of the largest batch measured where that is more)."""
MANY = 32.0
"""At a small batch a request's time and the step's cannot be told apart, and at a large one the request's would be
multiplied: a time that is not known to grow with the batch is taken to stay."""
SMALLEST_SCALE = 0.05
STILL = 1e-6  # spread of what is not fitted
LINE_FROM = 0.10
"""A residual from which the fitted form is not what was measured, and straight lines through the steps are better."""
ROUNDS = 12
SETTLED = 1e-4  # of the spreads
SMALL = 1e-4  # of a scale's logarithm
MOST_FOLDS = 16

NAMES = ("memory_scale", "compute_scale", "step_ms", "per_request_us", "speculation_ms", "draft_pass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured step, SI."""

    batch: float
    draft_length: int
    step_s: float
    context: float
    verify_width: int | None = None
    acceptance_length: float | None = None
    place: str = ""
    """File and lines."""

    @property
    def width(self) -> int:
        """Tokens of a request in the target's pass."""
        return self.verify_width or self.draft_length + 1

    @property
    def accepted(self) -> float:
        """AL; where it was not measured the middle of 1 to 1 + D, for it sets only the tokens of the first pass."""
        return self.acceptance_length or 1.0 + self.draft_length / 2.0


@dataclass(frozen=True, slots=True)
class Fit:
    """A calibrated model and its rows; times in s, one for each row."""

    rows: tuple[Row, ...]
    trees: bool
    prior: Constants
    fitted: Constants
    step: StepModel
    """With constants, curve and correction."""
    prior_s: Floats
    constants_s: Floats
    """As the constants alone have it."""
    fitted_s: Floats
    left_out_s: Floats | None
    """Each row as the model calibrated on the others has it; None: one row."""

    @property
    def measured_s(self) -> Floats:
        """The measured steps."""
        return np.array([row.step_s for row in self.rows])

    @property
    def method(self) -> Literal["fit", "line", "curve"]:
        """As the profile names it."""
        if self.step.curve is not None:
            return "curve"
        return "fit" if self.step.correction is None else "line"


def predict_s(step: StepModel, rows: Sequence[Row]) -> Floats:
    """The whole step of each row, s."""
    found: Floats = _times(step, rows).step_s[:, 0]
    return found


def _times(step: StepModel, rows: Sequence[Row]) -> StepTimes:
    """The rows' times, shape (rows, 1)."""

    def column(values: Sequence[float]) -> Floats:
        return np.array(values, dtype=np.float64)[:, None]

    return step.times(
        column([row.batch for row in rows]),
        column([row.draft_length for row in rows]),
        column([row.width for row in rows]),
        column([row.accepted for row in rows]),
        column([row.context for row in rows]),
    )


def calibrated(
    step: StepModel,
    fitted: Constants,
    *,
    trees: bool,
    drafts: bool = True,
    curve: VerifyCurve | None = None,
    correction: StepCorrection | None = None,
) -> StepModel:
    """The model with fitted constants in it.

    Args:
        drafts: whether its drafter is the one that was measured; else entry fee and passes stay, and of a correction
        only the plain step's holds.
    """
    kernels = scaled_kernels(step.chip.kernels, fitted.memory_scale, fitted.compute_scale)
    if correction is not None and not drafts:
        correction = StepCorrection({batch: factors[:1] for batch, factors in correction.factors.items()})
    return replace(
        step,
        chip=replace(step.chip, kernels=kernels),
        overheads=with_host_constants(step.overheads, fitted, trees=trees, drafts=drafts),
        curve=curve,
        correction=correction,
    )


def calibrate(step: StepModel, rows: Sequence[Row], curve: VerifyCurve | None = None) -> Fit:
    """Fit the constants to these rows (one or more).

    Args:
        step: as the profiles have it. curve: the target's pass as measured, followed as it is.
    """
    trees = bool(rows) and all(row.width > row.draft_length + 1 for row in rows if row.draft_length)
    trees = trees and any(row.draft_length for row in rows)
    left_out = _left_out(step, rows, curve, trees) if len(rows) > 1 else None
    fitted, model = _fit(step, rows, curve, trees)
    return Fit(
        rows=tuple(rows),
        trees=trees,
        prior=_prior(step, trees),
        fitted=fitted,
        step=model,
        prior_s=predict_s(step, rows),
        constants_s=predict_s(replace(model, correction=None), rows),
        fitted_s=predict_s(model, rows),
        left_out_s=left_out,
    )


def _left_out(step: StepModel, rows: Sequence[Row], curve: VerifyCurve | None, trees: bool) -> Floats:
    """Each row as the model fitted to the others has it; of many rows several are left out at a time."""
    found = np.empty(len(rows))
    folds = min(len(rows), MOST_FOLDS)
    for fold in range(folds):
        kept = [row for place, row in enumerate(rows) if place % folds != fold]
        found[fold::folds] = predict_s(_fit(step, kept, curve, trees)[1], rows[fold::folds])
    return found


def _fit(step: StepModel, rows: Sequence[Row], curve: VerifyCurve | None, trees: bool) -> tuple[Constants, StepModel]:
    fitted = fit_constants(step, rows, curve, trees)
    model = calibrated(step, fitted, trees=trees, curve=curve)
    missed = np.array([row.step_s for row in rows]) / predict_s(model, rows) - 1.0
    if np.max(np.abs(missed)) > LINE_FROM:
        model = replace(model, correction=lines_through(model, rows))
    return fitted, model


def _prior(step: StepModel, trees: bool) -> Constants:
    return constants_of(step.overheads, step.plan.mechanism if step.plan is not None else None, trees=trees)


# ------------------------------------------------------------------------------------------- the constants


def fit_constants(step: StepModel, rows: Sequence[Row], curve: VerifyCurve | None, trees: bool) -> Constants:
    """Gauss-Newton, each round a non-negative least squares over six unknowns."""
    prior = _prior(step, trees)
    by_fraction = prior.draft_pass_target_fraction > 0
    plain = _plain_step_s(step, rows)
    largest = max(MANY, *(row.batch for row in rows))
    start = _vector(prior, by_fraction)
    scale_spread = SCALE_SPREAD if curve is None else STILL
    spread = np.array(
        [
            scale_spread,
            scale_spread,
            STEP_SPREAD * plain / MS,
            REQUEST_SPREAD * plain / largest / US,
            ENTRY_SPREAD * plain / MS,
            PASS_SPREAD if by_fraction else PASS_SPREAD * plain / MS,
        ]
    )
    smallest = float(np.log(SMALLEST_SCALE))
    least = np.array([smallest, smallest, 0.0, 0.0, 0.0, 0.0])
    measured = np.array([row.step_s for row in rows])

    def model_at(theta: Floats) -> StepModel:
        return calibrated(step, _constants(theta, prior, by_fraction), trees=trees, curve=curve)

    theta = start
    for _ in range(ROUNDS):
        model = model_at(theta)
        times = _times(model, rows)
        steps = times.step_s[:, 0]
        here = steps / measured - 1.0
        scales = np.zeros((len(rows), 2))
        if curve is None:
            for place in (0, 1):
                aside = theta + SMALL * np.eye(6)[place]
                scales[:, place] = (predict_s(model_at(aside), rows) - steps) / SMALL
        host = _host_slopes(model, rows, times.target_s[:, 0], by_fraction)
        slopes = np.hstack([scales, host]) / measured[:, None]
        # here + slopes (next - theta) = 0 in units of NOISE, next - start = 0 in units of spread.
        matrix = np.vstack([slopes / NOISE, np.diag(1.0 / spread)])
        wanted = np.concatenate([(slopes @ theta - here) / NOISE, start / spread])
        then = bounded_least_squares(matrix, wanted, least)
        moved = np.max(np.abs(then - theta) / spread)
        theta = then
        if moved < SETTLED:
            break
    return _constants(theta, prior, by_fraction)


def _host_slopes(model: StepModel, rows: Sequence[Row], target_s: Floats, by_fraction: bool) -> Floats:
    """What a step takes longer for each ms of step, us of request, ms of entry fee, ms (or share of a plain step) of
    pass: shape (rows, 4), s. Host times add up, so these are exact."""
    lengths = np.array([float(row.draft_length) for row in rows])
    batches = np.array([row.batch for row in rows])
    passes = model.plan.passes(lengths) if model.plan is not None else np.zeros_like(lengths)
    # A pass that is a share of the plain step grows with what the plain step's host takes.
    share = 1.0 + passes * model.overheads.draft_pass_target_fraction
    each = passes * (target_s if by_fraction else MS)
    return np.stack([MS * share, US * batches * share, MS * (lengths > 0), each], axis=1)


def _vector(constants: Constants, by_fraction: bool) -> Floats:
    each = constants.draft_pass_target_fraction if by_fraction else constants.draft_pass_ms
    scales = np.log([constants.memory_scale, constants.compute_scale])
    return np.array([*scales, constants.step_ms, constants.per_request_us, constants.speculation_ms, each])


def _constants(theta: Floats, prior: Constants, by_fraction: bool) -> Constants:
    memory, compute, step, request, entry, each = (float(value) for value in theta)
    return Constants(
        memory_scale=float(np.exp(memory)),
        compute_scale=float(np.exp(compute)),
        step_ms=step,
        per_request_us=request,
        speculation_ms=entry,
        draft_pass_ms=prior.draft_pass_ms if by_fraction else each,
        draft_pass_target_fraction=each if by_fraction else prior.draft_pass_target_fraction,
    )


def _plain_step_s(step: StepModel, rows: Sequence[Row]) -> float:
    """The unit of times: the plain step of one request, off by as much as the smallest batch measured is.

    Of one request, for host times do not grow with a step that many requests or long contexts make long.
    """
    first = min(rows, key=lambda row: (row.draft_length > 0, row.batch))
    alone = replace(first, batch=1.0, draft_length=0, verify_width=None, acceptance_length=1.0)
    expected, own = predict_s(step, [alone, first])
    return float(expected * first.step_s / own)


# ---------------------------------------------------------------------------------------- lines through steps


def lines_through(model: StepModel, rows: Sequence[Row]) -> StepCorrection:
    """Measured over computed step by batch and draft length, on straight lines between the steps measured at a batch.

    Before the first and past the last measured draft length of a batch the factor there holds.
    """
    bare = replace(model, correction=None)
    factors: dict[float, tuple[float, ...]] = {}
    longest = max(row.draft_length for row in rows)
    for batch in sorted({row.batch for row in rows}):
        own = [row for row in rows if row.batch == batch]
        lengths = sorted({row.draft_length for row in own})
        steps = [float(np.mean([row.step_s for row in own if row.draft_length == d])) for d in lengths]
        grid = list(range(longest + 1))
        shapes = [_like(own, length) for length in grid]
        computed = predict_s(bare, shapes)
        line = np.interp(grid, lengths, steps)
        ratio = line / computed
        ratio[: lengths[0]] = ratio[lengths[0]]
        ratio[lengths[-1] + 1 :] = ratio[lengths[-1]]
        factors[batch] = tuple(float(value) for value in ratio)
    return StepCorrection(factors)


def _like(rows: Sequence[Row], length: int) -> Row:
    """The row at that draft length, or one between its neighbours: width, AL and context interpolated."""
    for row in rows:
        if row.draft_length == length:
            return row
    known = sorted(rows, key=lambda row: row.draft_length)
    lengths = [row.draft_length for row in known]

    def between(values: Sequence[float]) -> float:
        return float(np.interp(length, lengths, values))

    extra = between([row.width - row.draft_length - 1 for row in known])
    accepted = min(between([row.accepted for row in known]), 1.0 + length)
    return replace(
        known[0],
        draft_length=length,
        verify_width=length + 1 + round(extra) if length else None,
        acceptance_length=accepted if length else 1.0,
        context=between([row.context for row in known]),
    )
