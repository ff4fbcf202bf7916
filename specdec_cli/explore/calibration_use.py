"""A calibration taken into a question: what it says where the user does not, and the model that it changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specdec_cli.errors import UsageError
from specdec_cli.explore.calibrate import calibrated
from specdec_cli.explore.uncertainty import CalibratedBand
from specdec_cli.physics.calibrated import StepCorrection, VerifyCurve
from specdec_cli.physics.layers import resolve_dtypes
from specdec_cli.profiles.calibration import Calibration
from specdec_cli.units import MS

if TYPE_CHECKING:
    from specdec_cli.explore.question import Options, Scenario

CONTEXT_REACH = 2.0
"""Contexts within that factor of those measured count as measured, as batches do."""
LEAST_BAND = 0.03
"""Measured steps repeat within 1 %, and between measured draft lengths the calibrated model misses a median of 1 %."""


def filled_in(options: Options, calibration: Calibration) -> tuple[Options, tuple[str, ...]]:
    """The options with the calibration's scenario where they say nothing, and which were filled in."""
    said, own = options, calibration.scenario
    changes: dict[str, object] = {}
    for name in ("hardware", "model", "engine"):
        if getattr(said, name) is None:
            changes[name] = getattr(own, name)
    if said.tp is None and said.gpus is None and said.ep is None:
        changes |= {"tp": str(own.tp), "gpus": own.gpus, "ep": own.ep}
    if "model" in changes:
        for name in ("weight_dtype", "kv_dtype"):
            if getattr(said, name) is None and getattr(own, name) is not None:
                changes[name] = getattr(own, name)
        if said.drafter is None and own.drafter is not None:
            changes["drafter"] = own.drafter
    if said.context is None and said.input_tokens is None and said.output_tokens is None:
        changes["context"] = own.context_tokens
    return replace(options, **changes), tuple(changes)  # type: ignore[arg-type]


def differences(calibration: Calibration, scenario: Scenario) -> list[str]:
    """What is another machine or model than the one measured; empty: the calibration holds."""
    own, layout = calibration.scenario, scenario.layout
    pairs = (
        ("hardware", own.hardware, scenario.hardware.name),
        ("tp", own.tp, layout.tp),
        ("gpus", own.gpus, layout.gpus),
        ("ep", own.ep, layout.ep),
        ("model", own.model, scenario.model.name),
        ("engine", own.engine, scenario.engine.name),
    )
    found = [f"{name} {theirs} (measured: {ours})" for name, ours, theirs in pairs if ours != theirs]
    dtypes = resolve_dtypes(scenario.model.dtypes, weight_dtype=own.weight_dtype, kv_dtype=own.kv_dtype)
    if not found and dtypes != scenario.dtypes:
        measured = f"{own.weight_dtype or 'weights as shipped'}, {own.kv_dtype or 'KV cache as shipped'}"
        found.append(f"other dtypes (measured: {measured})")
    return found


def apply_all(
    calibration: Calibration, scenarios: Sequence[Scenario], note: Callable[[str, str], None]
) -> list[Scenario]:
    """The scenarios, those that were measured calibrated.

    Raises UsageError where the calibration is none of theirs.
    """
    found, others = [], []
    for scenario in scenarios:
        unlike = differences(calibration, scenario)
        if unlike:
            others.append(unlike)
            found.append(scenario)
        else:
            found.append(apply(calibration, scenario, note))
    if len(others) == len(scenarios):
        raise UsageError(
            f"--calibration {calibration.name} was measured on another setup: {', '.join(others[0])}; leave these "
            "options out, or calibrate again"
        )
    if others:
        note(
            "calibration_not_everywhere",
            f"{calibration.name} holds for {len(scenarios) - len(others)} of {len(scenarios)} setups; the others are "
            f"as the profiles have them ({'; '.join(', '.join(one) for one in others[:2])})",
        )
    return found


def apply(calibration: Calibration, scenario: Scenario, note: Callable[[str, str], None]) -> Scenario:
    """The scenario with the calibrated step model and its narrower band."""
    own = calibration.scenario
    drafts = scenario.drafter is not None and scenario.drafter.name == own.drafter
    if scenario.drafter is not None and not drafts:
        what = "without speculation" if own.drafter is None else f"with {own.drafter}"
        note(
            "calibration_other_drafter",
            f"{calibration.name} was measured {what}: the plain step is calibrated, entry fee and draft passes of "
            f"{scenario.drafter.name} are as the profiles have them",
        )
    lengths = calibration.valid.draft_length if drafts else [0, 0]
    errors = calibration.errors
    band = CalibratedBand(
        relative=scenario.band.relative,
        inside=scenario.band.relative if errors is None else max(LEAST_BAND, errors.worst),
        batches=(calibration.valid.batch[0], calibration.valid.batch[1]),
        longest=lengths[1],
        held=near(calibration.valid.context_tokens, scenario.context),
    )
    _say_extrapolated(calibration, scenario, band, note)
    step = calibrated(
        scenario.step,
        calibration.fitted,
        trees=calibration.trees,
        drafts=drafts,
        curve=curve_of(calibration),
        correction=correction_of(calibration),
    )
    return replace(scenario, step=step, band=band, calibration=calibration)


def near(contexts: Sequence[float], context: float) -> bool:
    """Whether a context counts as measured; contexts: the shortest and the longest, tokens."""
    return contexts[0] / CONTEXT_REACH <= context <= contexts[1] * CONTEXT_REACH


def _say_extrapolated(
    calibration: Calibration, scenario: Scenario, band: CalibratedBand, note: Callable[[str, str], None]
) -> None:
    valid = calibration.valid
    batches = [batch for batch in scenario.batches if not band.holds_batch(batch)]
    lengths = [length for length in scenario.draft_lengths if length > band.longest]
    parts = []
    if batches:
        outside = ([b for b in batches if b < valid.batch[0]], [b for b in batches if b > valid.batch[1]])
        parts.append("batch " + " and ".join(_some(side) for side in outside if side))
    if lengths and scenario.drafter is not None and scenario.drafter.name == calibration.scenario.drafter:
        parts.append(f"draft length {_some(lengths)}")
    if not band.held:
        parts.append(f"context {scenario.context}")
    if parts:
        note(
            "calibration_extrapolated",
            f"{calibration.name} was measured at batch {_span(valid.batch)}, D {_span(valid.draft_length)}, context "
            f"{_span(valid.context_tokens)}; {' and '.join(parts)} is beyond it: extrapolated, with the profiles' band",
        )


def _some(values: Sequence[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _span(pair: Sequence[float]) -> str:
    return f"{pair[0]:.6g}" if pair[0] == pair[1] else f"{pair[0]:.6g} to {pair[1]:.6g}"


def curve_of(calibration: Calibration) -> VerifyCurve | None:
    """The raw verify curve."""
    points = calibration.verify_curve
    if not points:
        return None
    return VerifyCurve(
        tuple(point.tokens for point in points),
        tuple(point.pass_ms * MS for point in points),
        calibration.verify_curve_context,
    )


def correction_of(calibration: Calibration) -> StepCorrection | None:
    """The lines through measured steps, as factors."""
    factors: dict[float, dict[int, float]] = {}
    for point in calibration.correction:
        factors.setdefault(point.batch, {})[point.draft_length] = point.factor
    if not factors:
        return None
    return StepCorrection({batch: tuple(own[d] for d in sorted(own)) for batch, own in factors.items()})
