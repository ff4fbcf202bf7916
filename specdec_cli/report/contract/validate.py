"""The answer of validate, as it stands in JSON."""

from __future__ import annotations

from typing import Literal, TypedDict

from specdec_cli.profiles.measurement import Tier
from specdec_cli.report.contract.common import Count, CountOrZero, Length, NonNegative, Positive, Resolved, Warned


class ValidateInputs(TypedDict):
    """The published sources."""

    sources: Resolved[list[str]]


class ErrorsOf(TypedDict):
    """predicted / measured - 1 of one quantity, as fractions."""

    points: Count
    median: NonNegative
    """Of |error|."""
    p90: NonNegative
    """90th percentile of |error|."""
    bias: float
    """Median of the signed error."""


class ErrorsByQuantity(TypedDict, total=False):
    """Quantities with a pair to compare."""

    base_step: ErrorsOf
    verify: ErrorsOf
    draft: ErrorsOf
    step: ErrorsOf
    verify_ratio: ErrorsOf
    rho: ErrorsOf
    speedup: ErrorsOf
    serving_speedup: ErrorsOf


class Sign(TypedDict):
    """Points whose clear measured gain or loss has the predicted sign."""

    agree: CountOrZero
    of: CountOrZero


class BestDraftLength(TypedDict):
    """How the predicted best draft length does in the measurements."""

    within_one: CountOrZero
    """Sweeps where it lies within 1 of the best measured one."""
    sweeps: CountOrZero
    mean_speed_lost: NonNegative | None
    """Fraction of the measured speed."""


class Score(TypedDict):
    """One predictor over some points."""

    points: CountOrZero
    errors: ErrorsByQuantity
    sign: Sign
    best_draft_length: BestDraftLength


class Expected(TypedDict):
    """What a source is held to: limits of the median |error|, as fractions; null: nothing."""

    base_step: NonNegative | None
    rho: NonNegative | None
    speedup: NonNegative | None


class SourceScore(Score):
    """One published source, without its fault points."""

    name: str
    title: str
    tier: Tier
    published: str
    origin: str
    assumed_points: CountOrZero
    fault_points: CountOrZero
    fitted_points: CountOrZero
    """Points that figures of their engine or chip were fitted to."""
    expected: Expected


class Baselines(TypedDict):
    """Three simpler predictors."""

    verify_free: Score
    datasheet_roofline: Score
    constant_cost: Score


class BaselineWords(TypedDict):
    """What each of them says."""

    verify_free: str
    datasheet_roofline: str
    constant_cost: str


class TotalScore(Score):
    """Points of several sources together."""

    name: str
    what: str
    baselines: Baselines


class FaultScore(Score):
    """A setup whose numbers a software fault made."""

    source: str
    setup: str
    evidence: str


class GateResult(TypedDict):
    """A limit, and what was found; fractions."""

    name: str
    limit: NonNegative
    relation: Literal["at_least", "at_most"]
    value: float | None
    passed: bool


class ValidatedPoint(TypedDict):
    """One published point, measured and predicted; null: not stated, or not predicted."""

    source: str
    tier: Tier
    setup: str
    hardware: str
    model: str
    drafter: str
    batch: Positive
    draft_length: CountOrZero
    verify_width: Count
    acceptance_length: Length | None
    moe: bool
    hybrid: bool
    data_centre: bool
    assumed: bool
    """Whether its setup rests on assumptions."""
    fault: bool
    """Whether its source shows that software made it."""
    fitted: bool
    """Whether figures of its engine or chip were fitted to its setup."""
    context_tokens: CountOrZero
    measured_base_step_ms: Positive | None
    measured_verify_ms: Positive | None
    measured_draft_ms: NonNegative | None
    measured_step_ms: Positive | None
    measured_verify_ratio: Positive | None
    """The verify pass over the base step."""
    measured_rho: Positive | None
    """The whole step over the base step: AL / speedup."""
    measured_speedup: Positive | None
    measured_serving_speedup: Positive | None
    predicted_base_step_ms: Positive | None
    predicted_verify_ms: Positive | None
    predicted_draft_ms: NonNegative | None
    predicted_step_ms: Positive | None
    predicted_verify_ratio: Positive | None
    predicted_rho: Positive | None
    predicted_speedup: Positive | None
    predicted_serving_speedup: Positive | None
    verify_free_rho: Positive | None
    datasheet_roofline_rho: Positive | None
    constant_cost_rho: Positive | None


class ValidateAnswer(TypedDict):
    """`specdec validate`."""

    schema: Literal["specdec.validate/1"]
    specdec_version: str
    inputs: ValidateInputs
    whole_library: bool
    sources: list[SourceScore]
    totals: list[TotalScore]
    faults: list[FaultScore]
    gates: list[GateResult]
    baselines: BaselineWords
    points: list[ValidatedPoint]
    warnings: list[Warned]
