"""Files of measurements -> a calibration with everything to judge it by, and the profile that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from specdec_cli.errors import UsageError
from specdec_cli.explore.acceptance_profile import NAME
from specdec_cli.explore.calibrate import Fit, Row, calibrate
from specdec_cli.explore.calibrate_hints import Split, hints, plain_split
from specdec_cli.explore.calibrate_rows import Measured, measured, off_files
from specdec_cli.explore.calibration_use import LEAST_BAND, near
from specdec_cli.explore.run_checks import CheckOptions
from specdec_cli.explore.scenario import Input, Options, Question, Scenario, resolve
from specdec_cli.physics.calibrated import constants_of
from specdec_cli.physics.drafting import longest_draft
from specdec_cli.profiles.calibration import (
    CalibratedRange,
    CalibratedRow,
    CalibratedScenario,
    Calibration,
    Constants,
    CorrectionPoint,
    CurvePoint,
    FitErrors,
)
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.measured_run import Finding, RunFile
from specdec_cli.profiles.schema import Source
from specdec_cli.units import MS

DIGITS = 6
UNSAID = ("beyond_draft_window", "drafter_chosen")
"""Notes of a question that say nothing of a calibration."""


@dataclass(frozen=True, slots=True)
class CalibrateReport:
    """The answer of `specdec calibrate`."""

    files: tuple[RunFile, ...]
    question: Question
    scenario: Scenario
    measured: Measured
    fit: Fit | None
    """None: a verify curve alone."""
    split: Split | None
    findings: tuple[Finding, ...]
    """About the files, then about what moved."""

    @property
    def inputs(self) -> dict[str, Input]:
        """What was measured, resolved."""
        wanted = ("hardware", "tp", "gpus", "ep", "model", "drafter", "engine", "context", "weight_dtype", "kv_dtype")
        return {name: self.question.inputs[name] for name in wanted if name in self.question.inputs}


def report_calibration(
    library: Library,
    options: Options,
    files: Sequence[RunFile],
    off: Sequence[RunFile] = (),
    *,
    checks: CheckOptions | None = None,
    batch: float | None = None,
) -> CalibrateReport:
    """Check the files, fit, and say what that means.

    Args:
        options: what was measured; one scenario. off: files of the arm without speculation. batch: requests decoding
        together, for runs whose file does not say it.

    Raises:
        UsageError: lists, or drafts measured where the drafter is `none`. ProfileError: as `calibrate_rows.measured`.
    """
    # Acceptance is the rows' own: a rate, which the step's cost hardly feels, spares a look-up for the pair.
    asked = options if options.drafter == "none" else replace(options, acceptance_rate=0.5)
    question = resolve(library, replace(asked, batches="1", assume=True))
    if len(question.scenarios) != 1:
        raise UsageError("a calibration is of one setup: give one --hardware, one --tp and one --drafter")
    scenario = question.scenarios[0]
    told = checks or CheckOptions()
    if scenario.drafter is not None and told.window_tokens is None:
        told = replace(told, window_tokens=scenario.drafter.window_tokens)
    everything = (*off_files(off), *files)
    found = measured(everything, told, batch=batch, context=float(scenario.context))
    _check(scenario, found.rows)
    fit = calibrate(scenario.step, found.rows, found.curve) if found.rows else None
    split = plain_split(scenario, fit) if fit is not None else None
    about = hints(scenario, fit, split) if fit is not None and split is not None else []
    notes = [Finding(note.code, note.message) for note in question.notes if note.code not in UNSAID]
    return CalibrateReport(
        files=everything,
        question=question,
        scenario=scenario,
        measured=found,
        fit=fit,
        split=split,
        findings=(*notes, *found.findings, *about),
    )


def _check(scenario: Scenario, rows: Sequence[Row]) -> None:
    drafting = [row for row in rows if row.draft_length]
    if drafting and scenario.drafter is None:
        raise UsageError(f"{drafting[0].place} drafts, --drafter none says it does not: name the drafter that ran")
    limit = longest_draft(scenario.drafter) if scenario.drafter is not None else None
    for row in drafting:
        if limit is not None and row.draft_length > limit:
            raise UsageError(f"{row.place}: D = {row.draft_length}, {scenario.drafter_name} drafts at most {limit}")


def errors_of(fit: Fit) -> FitErrors:
    """Relative errors of step times, as the profiles have them, fitted, and each row left out."""
    steps = fit.measured_s
    prior, fitted = np.abs(fit.prior_s / steps - 1.0), np.abs(fit.fitted_s / steps - 1.0)
    left = None if fit.left_out_s is None else np.abs(fit.left_out_s / steps - 1.0)
    return FitErrors(
        prior_median=_rounded(float(np.median(prior))),
        median=_rounded(float(np.median(fitted))),
        worst=_rounded(float(np.max(fitted))),
        left_out_median=None if left is None else _rounded(float(np.median(left))),
        left_out_worst=None if left is None else _rounded(float(np.max(left))),
    )


def range_of(report: CalibrateReport) -> CalibratedRange:
    """Where it was measured; of a curve alone: one request with drafts of all widths on it."""
    rows, curve = report.measured.rows, report.measured.curve
    batches = [row.batch for row in rows] or [1.0]
    lengths = [row.draft_length for row in rows]
    contexts = [row.context for row in rows]
    if curve is not None and not rows:
        lengths = [0, curve.tokens[-1] - 1]
        contexts = [max(1.0, curve.context)]
    return CalibratedRange(
        batch=[min(batches), max(batches)],
        draft_length=[min(lengths), max(lengths)],
        context_tokens=[round(min(contexts), 1), round(max(contexts), 1)],
    )


def calibration_profile(report: CalibrateReport, *, name: str, checked: str) -> Calibration:
    """The report as a profile. Raises UsageError for a name that no profile may have."""
    if NAME.fullmatch(name) is None:
        raise UsageError(
            f"--output {name}.yaml: a profile's name holds small letters, digits, dots, dashes and underscores only"
        )
    scenario, fit, curve = report.scenario, report.fit, report.measured.curve
    inputs = report.question.inputs
    origin = "; ".join(f"{file.file} ({file.format})" for file in report.files)
    mechanism = scenario.drafter.mechanism if scenario.drafter is not None else None
    prior = fit.prior if fit is not None else constants_of(scenario.engine.overheads, mechanism, trees=False)
    return Calibration(
        format=1,
        name=name,
        title=f"{scenario.model.name} on {scenario.hardware.name}, {scenario.engine.name}",
        scenario=CalibratedScenario(
            hardware=scenario.hardware.name,
            tp=scenario.layout.tp,
            gpus=scenario.layout.gpus,
            ep=scenario.layout.ep,
            model=scenario.model.name,
            drafter=scenario.drafter.name if scenario.drafter is not None else None,
            engine=scenario.engine.name,
            weight_dtype=inputs["weight_dtype"].value if inputs["weight_dtype"].origin == "option" else None,
            kv_dtype=inputs["kv_dtype"].value if inputs["kv_dtype"].origin == "option" else None,
            context_tokens=_context(report),
        ),
        method=fit.method if fit is not None else "curve",
        trees=fit.trees if fit is not None else False,
        prior=_constants(prior),
        fitted=_constants(fit.fitted if fit is not None else prior),
        correction=_correction(fit),
        verify_curve=[]
        if curve is None
        else [CurvePoint(tokens=n, pass_ms=_rounded(s / MS)) for n, s in zip(curve.tokens, curve.seconds, strict=True)],
        verify_curve_context=0.0 if curve is None else curve.context,
        rows=[] if fit is None else [_row(fit, place) for place in range(len(fit.rows))],
        errors=None if fit is None else errors_of(fit),
        valid=range_of(report),
        notes=["Written by specdec calibrate.", *(f"{one.code}: {one.message}" for one in report.findings)],
        sources={
            "*": Source(from_=origin, checked=checked, kind="measured"),
            "prior": Source(from_=f"engine profile {scenario.engine.name}", checked=checked, kind="derived"),
            "fitted": Source(from_=f"specdec calibrate over {origin}", checked=checked, kind="fitted"),
        },
    )


def _context(report: CalibrateReport) -> int:
    """What questions take where they say nothing: the context asked with, or the middle one of the measured where none
    was given and the default lies beyond them."""
    contexts = [row.context for row in report.measured.rows]
    given = report.question.inputs["context"].origin != "default" if "context" in report.question.inputs else True
    if given or not contexts or near((min(contexts), max(contexts)), report.scenario.context):
        return report.scenario.context
    return round(float(np.median(contexts)))


def _row(fit: Fit, place: int) -> CalibratedRow:
    row = fit.rows[place]
    left = None if fit.left_out_s is None else float(fit.left_out_s[place])
    return CalibratedRow(
        batch=row.batch,
        draft_length=row.draft_length,
        verify_width=row.verify_width,
        acceptance_length=None if row.acceptance_length is None else _rounded(max(1.0, row.acceptance_length)),
        context_tokens=round(row.context, 1),
        step_ms=_rounded(row.step_s / MS),
        prior_ms=_rounded(float(fit.prior_s[place]) / MS),
        fitted_ms=_rounded(float(fit.fitted_s[place]) / MS),
        left_out_ms=None if left is None else _rounded(left / MS),
    )


def _correction(fit: Fit | None) -> list[CorrectionPoint]:
    if fit is None or fit.step.correction is None:
        return []
    return [
        CorrectionPoint(batch=batch, draft_length=length, factor=_rounded(factor))
        for batch, factors in fit.step.correction.factors.items()
        for length, factor in enumerate(factors)
    ]


def _constants(constants: Constants) -> Constants:
    values = {name: _rounded(getattr(constants, name)) for name in constants.__struct_fields__}
    return Constants(**values)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def band_of(report: CalibrateReport) -> float | None:
    """The half-width of step / T_target inside the range; None: nothing was measured to know it by."""
    return None if report.fit is None else max(LEAST_BAND, errors_of(report.fit).worst)
