"""The answers about the library: profiles list, show and check, as they stand in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from specdec_cli.profiles.measurement import Tier
from specdec_cli.profiles.schema import Mechanism, SourceKind, WeightDtype
from specdec_cli.report.contract.common import Count, CountOrZero, Length, NonNegative, Positive, keyed_by

Kind = Literal["hardware", "model", "drafter", "acceptance", "engine", "measurement", "calibration"]


class Named(TypedDict):
    """Which profile."""

    name: str
    origin: str
    """`shipped`, or where a profile of the user's own lies."""


class Age(TypedDict):
    """How the figures came about."""

    source_kinds: list[SourceKind]
    """The most frequent first."""
    checked: str | None
    """Last look at a source, YYYY-MM-DD."""


class HardwareFacts(TypedDict):
    """What one chooses a chip by."""

    vendor: str
    memory_gb: Positive
    memory_bandwidth_gb_per_s: Positive
    peak_bf16_tflops: Positive | None
    """TFLOP/s, dense."""
    peak_fp8_tflops: Positive | None
    """TFLOP/s, dense."""
    peak_fp4_tflops: Positive | None
    """TFLOP/s, dense."""
    ridge_bf16_flop_per_byte: Positive | None
    link_gb_per_s: Positive
    """Per direction."""
    link_gpus: Count
    """How many GPUs the fabric joins."""
    kernels_fitted: bool
    confidence: Literal["high", "medium", "low"]


class ModelFacts(TypedDict):
    """What one chooses a model by."""

    maker: str
    parameters_b: Positive
    """1e9."""
    active_parameters_b: Positive
    """1e9."""
    layers: Count
    kv_kb_per_token: NonNegative
    state_mb_per_request: NonNegative
    weight_dtype: WeightDtype
    mtp_layers: CountOrZero
    max_context_tokens: Count


class DrafterFacts(TypedDict):
    """What one chooses a drafter by."""

    mechanism: Mechanism
    targets: list[str]
    """Empty: any."""
    parameters_m: Positive | None
    """1e6."""
    window_tokens: Count | None
    """Context that it was trained on."""


class AcceptanceFacts(TypedDict):
    """What one chooses measured acceptance by."""

    target: str
    drafter: str
    data_set: str
    draft_lengths: list[Count]
    acceptance_length_min: Length | None
    acceptance_length_max: Length | None
    temperature: NonNegative | None
    measured_by: str
    default: bool


class EngineFacts(TypedDict):
    """What one chooses an engine by."""

    family: str
    version: str
    date: str
    """YYYY-MM."""
    fitted_sweeps: CountOrZero


class MeasurementFacts(TypedDict):
    """What one chooses a published source by."""

    tier: Tier
    published: str
    setups: CountOrZero
    points: CountOrZero
    measured_on: list[str]
    models: list[str]


class CalibrationFacts(TypedDict):
    """What one chooses a calibration by."""

    measured_on: str
    tp: Count
    model: str
    drafter: str | None
    engine: str
    method: Literal["fit", "line", "curve"]
    rows: CountOrZero
    worst_error: NonNegative | None
    """|error| of a step, as a fraction."""


class HardwareSummary(Named, HardwareFacts, Age):
    """A chip."""

    kind: Literal["hardware"]


class ModelSummary(Named, ModelFacts, Age):
    """A model."""

    kind: Literal["model"]


class DrafterSummary(Named, DrafterFacts, Age):
    """A drafter."""

    kind: Literal["drafter"]


class AcceptanceSummary(Named, AcceptanceFacts, Age):
    """Measured acceptance."""

    kind: Literal["acceptance"]


class EngineSummary(Named, EngineFacts, Age):
    """An engine."""

    kind: Literal["engine"]


class MeasurementSummary(Named, MeasurementFacts, Age):
    """A published source."""

    kind: Literal["measurement"]


class CalibrationSummary(Named, CalibrationFacts, Age):
    """A calibration."""

    kind: Literal["calibration"]


SUMMARIES = (
    HardwareSummary,
    ModelSummary,
    DrafterSummary,
    AcceptanceSummary,
    EngineSummary,
    MeasurementSummary,
    CalibrationSummary,
)
Facts = HardwareFacts | ModelFacts | DrafterFacts | AcceptanceFacts | EngineFacts | MeasurementFacts | CalibrationFacts

if TYPE_CHECKING:
    Summary = (
        HardwareSummary
        | ModelSummary
        | DrafterSummary
        | AcceptanceSummary
        | EngineSummary
        | MeasurementSummary
        | CalibrationSummary
    )
    Computed = dict[str, Any]
else:

    class Summary:
        """Stands for any of SUMMARIES, which msgspec cannot tell apart; `contract` writes them out."""

    class Computed:
        """Stands for a part of any of SUMMARIES."""


class ListingAnswer(TypedDict):
    """`specdec profiles list`."""

    schema: Literal["specdec.profiles/1"]
    specdec_version: str
    profiles: list[Summary]
    not_listed: Annotated[dict[str, CountOrZero], keyed_by(Kind)]
    """Kinds left out, with their number of profiles."""
    problems: list[str]
    """What is wrong with files that do not load."""


SourceFrom = TypedDict("SourceFrom", {"from": str | None})  # no class can have a field of that name


class SourceRecord(SourceFrom):
    """One entry of `sources` and the keys that it covers; a number without a source stands under null."""

    entry: str | None
    keys: list[str]
    checked: str | None
    kind: SourceKind | None
    note: str | None


class ProfileAnswer(TypedDict):
    """`specdec profiles show`."""

    schema: Literal["specdec.profile/1"]
    specdec_version: str
    kind: Kind
    name: str
    origin: str
    file: str
    also_kinds: list[Kind]
    """Further kinds that have a profile of this name."""
    profile: dict[str, Any]
    """The file but for its sources, as `specdec profiles schema KIND` describes it."""
    computed: Computed
    """What follows from the facts."""
    sources: list[SourceRecord]


class CheckedFile(TypedDict):
    """A file that was looked at."""

    file: str
    problems: CountOrZero


class Problem(TypedDict):
    """One thing that is wrong."""

    file: str
    line: Count | None
    key: str | None
    message: str
    hint: str | None


class CheckAnswer(TypedDict):
    """`specdec profiles check`."""

    schema: Literal["specdec.check/1"]
    specdec_version: str
    files: list[CheckedFile]
    problems: list[Problem]
