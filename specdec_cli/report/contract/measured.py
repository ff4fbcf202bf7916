"""The answers about measurements: acceptance, calibrate and its plan, as they stand in JSON."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import msgspec

from specdec_cli.explore.acceptance_interval import Method
from specdec_cli.profiles.measured_run import Measures
from specdec_cli.report.contract.common import (
    Code,
    Count,
    CountOrZero,
    Fraction,
    Length,
    NonNegative,
    Positive,
    Resolved,
    SetupInputs,
    Warned,
)

# ---------------------------------------------------------------------------------------------- acceptance

AcceptanceInputs = TypedDict(
    "AcceptanceInputs",
    {  # `from` cannot be a field's name in a class
        "files": Resolved[list[str]],
        "from": Resolved[str | None],
        "target": Resolved[str | None],
        "drafter": Resolved[str | None],
        "draft_length": Resolved[Count | None],
        "workload": Resolved[str | None],
        "data_set": Resolved[str | None],
        "temperature": Resolved[NonNegative | None],
        "cached_prompts": Resolved[bool],
    },
)


class AcceptanceFile(TypedDict):
    """A file that was read."""

    file: str
    format: str
    """As --from names it."""
    bytes: CountOrZero
    runs: CountOrZero


class CurvePoint(TypedDict):
    """Acceptance at one draft length, pooled over the runs of one model and workload."""

    model: str | None
    workload: str | None
    draft_length: CountOrZero | None
    """Null: the files do not say it."""
    verify_width: Count | None
    """Null: a chain."""
    acceptance_length: Length
    """Tokens of one target pass, bonus token included."""
    acceptance_length_low: NonNegative | None
    """Of the interval at `confidence`; null: too little is known."""
    acceptance_length_high: NonNegative | None
    interval_method: Method | None
    per_position: list[Fraction] | None
    """Unconditional a_i: share of iterations in which positions 1 to i were all accepted."""
    per_position_interval: list[Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)]] | None
    """Low and high of each."""
    conditional: list[NonNegative | None] | None
    """c_i = a_i / a_(i-1); null: nothing reached the position."""
    iterations: CountOrZero | None
    windows: CountOrZero | None
    batches: list[NonNegative]
    step_ms: Positive | None
    """Null: not stated, or several batches are pooled."""
    runs: Count


class MeasuredRun(TypedDict):
    """One (batch, draft length) of one file."""

    file: str
    format: str
    engine: str | None
    first_line: Count | None
    last_line: Count | None
    label: str
    """Which part of the file; empty: all of it."""
    model: str | None
    workload: str | None
    measures: Measures
    """step: the engine's whole iteration. verify_pass: one target pass alone."""
    batch: NonNegative | None
    """Requests decoding together on one replica."""
    draft_length: CountOrZero | None
    verify_width: Count | None
    acceptance_length: NonNegative | None
    per_position: list[NonNegative] | None
    """Unconditional a_i."""
    iterations: CountOrZero | None
    windows: CountOrZero | None
    step_ms: Positive | None
    step_basis: str | None
    """How `step_ms` follows from the file's own fields."""
    draft_ms: NonNegative | None
    output_tokens_per_s: NonNegative | None
    """All requests of the replica together."""
    context_tokens: NonNegative | None
    """Mean tokens in the KV cache of a request."""
    cuda_graphs: bool | None
    warnings: list[Code]


class Skipped(TypedDict):
    """Part of a file that was left out."""

    file: str
    reason: str
    count: CountOrZero
    first_line: Count | None


class AcceptanceAnswer(TypedDict):
    """`specdec acceptance`."""

    schema: Literal["specdec.acceptance/1"]
    specdec_version: str
    inputs: AcceptanceInputs
    confidence: Fraction
    """Of the intervals: 0.95."""
    files: list[AcceptanceFile]
    curve: list[CurvePoint]
    runs: list[MeasuredRun]
    skipped: list[Skipped]
    formula: str
    profile: str | None
    """The file that was written."""
    warnings: list[Warned]


# --------------------------------------------------------------------------------------------- calibration

CalibrationFiles = TypedDict(
    "CalibrationFiles",
    {
        "files": Resolved[list[str] | None],
        "off": Resolved[list[str] | None],
        "from": Resolved[str | None],
        "draft_length": Resolved[list[Count] | None],
        "batch": Resolved[Count | None],
        "cached_prompts": Resolved[bool],
    },
)


class CalibrationInputs(SetupInputs, CalibrationFiles):
    """What was measured, and the files."""


class RunsOfFile(TypedDict):
    """A file that was read."""

    file: str
    format: str
    runs: CountOrZero


ConstantName = Literal[
    "memory_scale",
    "compute_scale",
    "step_ms",
    "per_request_us",
    "speculation_ms",
    "draft_pass_ms",
    "draft_pass_target_fraction",
]


class Constant(TypedDict):
    """One figure that is fitted; the unit stands in its name, scales and fractions have none."""

    name: ConstantName
    prior: NonNegative
    """As the profiles have it."""
    fitted: NonNegative
    """As the measurements have it."""


class CalibratedStep(TypedDict):
    """One measured step, and what the model says of it."""

    batch: Positive
    draft_length: CountOrZero
    verify_width: Count
    acceptance_length: NonNegative | None
    context_tokens: Positive
    step_ms: Positive
    prior_ms: Positive
    """By the profiles alone."""
    fitted_ms: Positive
    error: float
    """fitted_ms / step_ms - 1."""
    left_out_ms: Positive | None
    """Predicted from the other rows; null: there are none."""
    left_out_error: float | None
    place: str
    """File and lines."""


class StepErrors(TypedDict):
    """|error| of step times, as fractions."""

    prior_median: NonNegative
    median: NonNegative
    worst: NonNegative
    left_out_median: NonNegative | None
    left_out_worst: NonNegative | None


class PlainStep(TypedDict):
    """A step without speculation, beside what it could be."""

    batch: Positive
    context_tokens: Positive
    measured: bool
    """False: calibrated, none was measured."""
    step_ms: Positive
    ideal_ms: Positive
    """Weights and cache at the datasheet's bandwidth."""
    prior_ms: Positive
    unexplained_ms: float
    """step_ms - prior_ms."""
    over_ideal: Positive
    """step_ms / ideal_ms."""


class CurvePass(TypedDict):
    """One target pass over so many tokens of one request."""

    tokens: Count
    pass_ms: Positive
    ratio: Positive
    """Over the first pass of the curve."""


Pair = Annotated[list[Positive], msgspec.Meta(min_length=2, max_length=2)]


class Range(TypedDict):
    """Where it was measured: smallest, largest."""

    batch: Pair
    draft_length: Annotated[list[CountOrZero], msgspec.Meta(min_length=2, max_length=2)]
    context_tokens: Pair


class CalibrationAnswer(TypedDict):
    """`specdec calibrate`."""

    schema: Literal["specdec.calibration/1"]
    specdec_version: str
    inputs: CalibrationInputs
    files: list[RunsOfFile]
    method: Literal["fit", "line", "curve"]
    formula: str
    constants: list[Constant]
    rows: list[CalibratedStep]
    errors: StepErrors | None
    """Null: a curve without a measured step."""
    plain_step: PlainStep | None
    verify_curve: list[CurvePass]
    risers: list[Annotated[list[Count], msgspec.Meta(min_length=2, max_length=2)]]
    """Tokens between which the curve steps up."""
    valid: Range
    time_band: NonNegative | None
    """Half-width of step / target_ms inside the range, as a fraction."""
    profile: str | None
    """The file that was written."""
    warnings: list[Warned]


class PlanInputs(SetupInputs):
    """The setup to measure."""

    batch: Resolved[Count]


class PlannedRun(TypedDict):
    """One run to make."""

    draft_length: CountOrZero
    minutes: Positive
    server: str
    """Commands of the engine; empty: the client starts it."""
    client: str
    forced: str | None
    """The client without a trained drafter, acceptance forced: the cost alone."""
    result: str
    """The file that the run writes."""


class PlanAnswer(TypedDict):
    """`specdec calibrate --plan`."""

    schema: Literal["specdec.calibration_plan/1"]
    specdec_version: str
    inputs: PlanInputs
    engine: str
    runs: list[PlannedRun]
    feed_back: str
    """The command that takes the results."""
    notes: list[str]
    warnings: list[Warned]
