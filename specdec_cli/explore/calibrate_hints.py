"""What a calibration moved, and what that suggests: rules over measured steps, each with its numbers in the message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from specdec_cli.explore.calibrate import Fit, Row, predict_s
from specdec_cli.explore.device_words import device_words
from specdec_cli.explore.scenario import Scenario
from specdec_cli.physics.operations import RecurrentState, SmallKernels
from specdec_cli.physics.step import pass_lower_bound_s
from specdec_cli.profiles.calibration import Constants
from specdec_cli.profiles.measured_run import Finding
from specdec_cli.units import MS, US

FAR = 1.3
"""Measured over expected from which it is worth saying: chips and engine versions differ by less (10 to 20 %)."""
IMPOSSIBLE = 0.97
EAGER = (0.4, 2.5)
"""Extra time over that of eager launches for which these are the likely cause."""
FEE_SHARE = 0.3
"""Of a plain step: an entry fee above it is more than any healthy engine's (1.08 to 1.3 plain steps at D = 1)."""
PASS_SHARE = 0.1
"""Of a plain step, likewise for what a pass costs beyond its kernels."""
REQUEST_SHARE = 0.3
SLOPE = 0.5
"""Of a plain step for each further draft token: healthy GPUs pay 0.05 to 0.3."""
FEW_ACCEPTED = 1.25


@dataclass(frozen=True, slots=True)
class Split:
    """A plain step taken apart, s."""

    batch: float
    context: float
    measured: bool
    """False: no plain step was measured, `step_s` is the calibrated model's."""
    step_s: float
    ideal_s: float
    """Weights and cache read once at the datasheet's bandwidth, nothing else."""
    prior_s: float


def plain_split(scenario: Scenario, fit: Fit) -> Split:
    """Of the smallest batch measured, a plain run where there is one."""
    first = min(fit.rows, key=lambda row: (row.draft_length > 0, row.batch))
    plain = Row(batch=first.batch, draft_length=0, step_s=first.step_s, context=first.context)
    model = scenario.step
    shape = model.shape(*(np.asarray(float(value)) for value in (first.batch, 1.0, first.context)))
    measured = first.draft_length == 0
    return Split(
        batch=first.batch,
        context=first.context,
        measured=measured,
        step_s=first.step_s if measured else float(predict_s(fit.step, [plain])[0]),
        ideal_s=float(pass_lower_bound_s(model.target, shape, model.chip)),
        prior_s=float(predict_s(model, [plain])[0]),
    )


def hints(scenario: Scenario, fit: Fit, split: Split) -> list[Finding]:
    """What the user should look at, the plain step first.

    Args:
        scenario: with the profiles' own step model. fit: over its rows.
    """
    return [
        *_plain(scenario, split),
        *_requests(scenario, fit, split),
        *_drafting(scenario, fit, split),
        *_accepted(fit),
    ]


def _plain(scenario: Scenario, split: Split) -> Iterator[Finding]:
    step, ideal, prior = split.step_s, split.ideal_s, split.prior_s
    if not split.measured:
        return
    if step < IMPOSSIBLE * ideal:
        yield Finding(
            "faster_than_possible",
            f"the plain step takes {_ms(step)}, less than the weights and cache need at the datasheet's bandwidth "
            f"({_ms(ideal)}): batch, model, dtype or --tp is not what ran",
        )
        return
    if step < prior / FAR:
        yield Finding(
            "step_below_prior",
            f"the plain step takes {_ms(step)} where the profiles expect {_ms(prior)}: smaller weights than "
            "--weight-dtype says, another chip, or an engine whose kernels do better",
        )
    if step <= prior * FAR:
        return
    said = f"your step is {step / ideal:.1f}x what the weights need ({_ms(step)}; they need {_ms(ideal)}, the profiles "
    said += f"expect {_ms(prior)})"
    words, eager = device_words(scenario.hardware), _eager_s(scenario)
    if words.graphs is not None and eager > 0 and EAGER[0] <= (step - prior) / eager <= EAGER[1]:
        yield Finding(
            "graphs_off",
            f"{said}: the {_ms(step - prior)} more are about what eager launches cost ({_ms(eager)}): are "
            f"{words.graphs} on, and do they cover this batch?",
        )
    else:
        yield Finding(
            "step_above_prior",
            f"{said}: look for {words.step}, weights in a wider dtype, or prompts that are prefilled between the steps",
        )


def _eager_s(scenario: Scenario) -> float:
    """What eager launches would add to the target's pass; 0 where the engine is eager anyway."""
    chip = scenario.step.chip
    if not scenario.engine.cuda_graphs:
        return 0.0
    layers = sum(op.count for op in scenario.step.target if isinstance(op, SmallKernels))
    return float(max(0.0, layers * (chip.kernels.eager_us_per_layer * US - chip.small_kernels_s)))


def _requests(scenario: Scenario, fit: Fit, split: Split) -> Iterator[Finding]:
    more = (fit.fitted.per_request_us - fit.prior.per_request_us) * US
    largest = max(row.batch for row in fit.rows)
    if more * largest > REQUEST_SHARE * split.step_s:
        yield Finding(
            "requests_cost_host_time",
            f"each request adds {more / US:.0f} us to a step beyond the profiles' ({_ms(more * largest)} at batch "
            f"{largest:g}): a busy host (sampling, detokenising, structured output); speculation spreads it over more "
            f"tokens and then gains more than the {device_words(scenario.hardware).device}'s work says",
        )


def _drafting(scenario: Scenario, fit: Fit, split: Split) -> Iterator[Finding]:
    drafting = [row for row in fit.rows if row.draft_length]
    if not drafting:
        return
    plain, words = split.step_s, device_words(scenario.hardware)
    lengths = {row.draft_length for row in drafting}
    if len(lengths) == 1:
        yield from _together(scenario, fit, plain, lengths.pop())
        return
    entry, usual = fit.fitted.speculation_ms * MS, fit.prior.speculation_ms * MS
    hybrid = any(isinstance(op, RecurrentState) for op in scenario.step.target)
    if entry > FEE_SHARE * plain and entry > 2 * usual:
        if hybrid and scenario.engine.recurrent_rollback == "saved_states":
            yield Finding(
                "state_replay",
                f"speculation costs {_ms(entry)} before the first draft token ({entry / plain:.0%} of a plain step): "
                "with recurrent layers a rejected draft may be replayed instead of restored from saved states",
            )
        else:
            yield Finding(
                "entry_fee_high",
                f"speculation costs {_ms(entry)} before the first draft token ({entry / plain:.0%} of a plain step; "
                f"the profiles say {_ms(usual)}): {words.entry}",
            )
    yield from _passes(scenario, fit, plain)
    slope = _slope(drafting)
    if slope is not None and slope > SLOPE * plain:
        yield Finding(
            "verify_does_not_amortise",
            f"each further draft token costs {_ms(slope)}, {slope / plain:.0%} of a plain step: "
            f"{words.slope}; short drafts only, if any",
        )


def _together(scenario: Scenario, fit: Fit, plain: float, length: int) -> Iterator[Finding]:
    """Entry fee and passes at the only draft length measured."""
    plan = scenario.step.plan
    passes = float(plan.passes(np.asarray(float(length)))) if plan is not None else 0.0
    more = fit.fitted.speculation_ms * MS + passes * _pass_s(fit.fitted, plain)
    usual = fit.prior.speculation_ms * MS + passes * _pass_s(fit.prior, plain)
    if more > FEE_SHARE * plain and more > 2 * usual:
        words = device_words(scenario.hardware)
        causes = [words.entry, words.passes]
        if scenario.layout.tp > 1:
            causes.append(f"a draft on too many {words.device}s")
        if any(isinstance(op, RecurrentState) for op in scenario.step.target):
            causes.append("states replayed after a rejection")
        yield Finding(
            "speculation_dear",
            f"at D = {length} speculation costs {_ms(more)} beyond the kernels ({more / plain:.0%} of a plain step; "
            f"the profiles say {_ms(usual)}): {'; '.join(causes)}? A second draft length tells a fee from a cost of "
            "each pass",
        )


def _pass_s(constants: Constants, plain: float) -> float:
    """One draft pass beyond its kernels, s."""
    return constants.draft_pass_ms * MS + constants.draft_pass_target_fraction * plain


def _passes(scenario: Scenario, fit: Fit, plain: float) -> Iterator[Finding]:
    plan = scenario.step.plan
    if plan is None or not plan.sequential:
        return
    words = device_words(scenario.hardware)
    each, usual = _pass_s(fit.fitted, plain), _pass_s(fit.prior, plain)
    if each > PASS_SHARE * plain and each > 2 * usual:
        said = (
            f"each draft pass costs {_ms(each)} beyond its kernels ({each / plain:.0%} of a plain step, the profiles "
        )
        said += f"say {_ms(usual)})"
        if scenario.layout.tp > 1:
            yield Finding(
                "draft_on_many_gpus",
                f"{said}: a draft spread over {scenario.layout.tp} {words.device}s pays all-reduces for little work; "
                "try draft_tensor_parallel_size 1 or the like",
            )
        else:
            yield Finding("draft_pass_slow", f"{said}: {words.passes}")


def _slope(rows: Sequence[Row]) -> float | None:
    """Measured seconds for each further draft token, the steepest of the batches."""
    found = []
    for batch in {row.batch for row in rows}:
        own = sorted((row for row in rows if row.batch == batch), key=lambda row: row.draft_length)
        if own[-1].draft_length > own[0].draft_length:
            found.append((own[-1].step_s - own[0].step_s) / (own[-1].draft_length - own[0].draft_length))
    return max(found, default=None)


def _accepted(fit: Fit) -> Iterator[Finding]:
    low = [row for row in fit.rows if row.draft_length and 1 < (row.acceptance_length or 9.0) < FEW_ACCEPTED]
    if low:
        worst = min(low, key=lambda row: row.acceptance_length or 9.0)
        yield Finding(
            "few_accepted",
            f"AL = {worst.acceptance_length:.2f} at D = {worst.draft_length}: hardly a token is accepted: another "
            "checkpoint than the head was trained for, another prompt template, or random prompts?",
        )


def _ms(seconds: float) -> str:
    return f"{seconds / MS:.3g} ms"
