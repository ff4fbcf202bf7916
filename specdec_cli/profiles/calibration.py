"""A calibration: what a user's own measurements changed of the model, and what it rests on. `specdec calibrate` writes
it, `--calibration` takes it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from specdec_cli.profiles.schema import (
    AcceptanceLength,
    Count,
    DraftLengthOrZero,
    KvDtype,
    Name,
    NonNegative,
    Positive,
    Profile,
    Record,
    WeightDtype,
)


class CalibratedScenario(Record, frozen=True, kw_only=True):
    """What was measured. Names are names of profiles."""

    hardware: Name
    tp: Count
    gpus: Count
    ep: Count
    model: Name
    drafter: Name | None
    """None: without speculation alone."""
    engine: Name
    weight_dtype: WeightDtype | None = None
    """None: as the model profile ships."""
    kv_dtype: KvDtype | None = None
    """None: likewise."""
    context_tokens: Count
    """Of the rows that state none."""


class CalibratedRow(Record, frozen=True, kw_only=True):
    """One measured step, and what the model says of it before and after."""

    batch: Positive
    draft_length: DraftLengthOrZero
    verify_width: Count | None = None
    """Verified tokens a request, for a tree; None: a chain, 1 + D."""
    acceptance_length: AcceptanceLength | None = None
    context_tokens: Positive
    step_ms: Positive
    prior_ms: Positive
    """As the profiles alone predict it."""
    fitted_ms: Positive
    """As the calibrated model predicts it."""
    left_out_ms: Positive | None = None
    """As the model predicts it when calibrated on the other rows; None: there are no others."""


class Constants(Record, frozen=True, kw_only=True):
    """What is fitted: two scales of the kernels, and the engine's host constants."""

    memory_scale: Positive = 1.0
    """Time of the memory side of every kernel, over what the chip's profile says."""
    compute_scale: Positive = 1.0
    """The same of the compute side."""
    step_ms: NonNegative
    per_request_us: NonNegative
    speculation_ms: NonNegative
    """The entry fee."""
    draft_pass_ms: NonNegative
    """For each sequential draft pass, beyond its kernels."""
    draft_pass_target_fraction: NonNegative = 0.0
    """For each sequential draft pass, as a share of the target's step."""


class CorrectionPoint(Record, frozen=True, kw_only=True):
    """Measured over fitted step."""

    batch: Positive
    draft_length: DraftLengthOrZero
    factor: Positive


class CurvePoint(Record, frozen=True, kw_only=True):
    """One target pass over so many tokens of one request."""

    tokens: Count
    pass_ms: Positive


class CalibratedRange(Record, frozen=True, kw_only=True):
    """Where the calibration was measured."""

    batch: Annotated[list[Positive], msgspec.Meta(min_length=2, max_length=2)]
    """Smallest, largest."""
    draft_length: Annotated[list[DraftLengthOrZero], msgspec.Meta(min_length=2, max_length=2)]
    context_tokens: Annotated[list[Positive], msgspec.Meta(min_length=2, max_length=2)]


class FitErrors(Record, frozen=True, kw_only=True):
    """Relative errors of step times."""

    prior_median: NonNegative
    median: NonNegative
    worst: NonNegative
    left_out_median: NonNegative | None = None
    """Each row predicted from the others; None: one row."""
    left_out_worst: NonNegative | None = None


class Calibration(Profile, frozen=True, kw_only=True, tag_field="kind", tag="calibration"):
    """One machine's own numbers."""

    scenario: CalibratedScenario
    method: Literal["fit", "line", "curve"]
    """fit: the constants alone. line: the fit, carried onto straight lines through the measured steps. curve: the
    target's pass as measured, token by token, the constants beside it."""
    trees: bool = False
    """Whether the drafts measured were trees: entry fee and pass are then a tree's."""
    prior: Constants
    """What the profiles said."""
    fitted: Constants
    correction: list[CorrectionPoint] = []  # noqa: RUF012  (msgspec makes each record its own)
    """method `line`: by batch, for every draft length from 0 to the largest measured."""
    verify_curve: list[CurvePoint] = []  # noqa: RUF012
    """method `curve`: raw, by rising tokens."""
    verify_curve_context: NonNegative = 0.0
    """Tokens in the KV cache before those passes."""
    rows: list[CalibratedRow] = []  # noqa: RUF012
    errors: FitErrors | None = None
    """None: a curve without a measured step."""
    valid: CalibratedRange
