"""What several answers share, as they stand in JSON: inputs, warnings, points, scenarios.

These types are the contract. The records are built as them, which mypy checks; `specdec schema` prints them, and the
tests hold every answer against what it prints. Key names carry the units; what they leave open stands under a field.
"""

# No `from __future__ import annotations` here: other modules inherit these types, and since Python 3.14 an annotation
# that is text is read with the names of the module that inherits it.

from typing import Annotated, Any, Generic, Literal, NotRequired, TypedDict, TypeVar, get_args

import msgspec

from specdec_cli.explore.question import Origin
from specdec_cli.explore.refusals import Reason
from specdec_cli.explore.uncertainty import StepBasis
from specdec_cli.physics.acceptance import Basis
from specdec_cli.profiles.schema import KvDtype, Mechanism, WeightDtype

Value = TypeVar("Value")

Bound = Literal["memory", "compute", "latency"]
Code = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]*$")]
"""A stable code: scripts may match on it, messages may change."""
Count = Annotated[int, msgspec.Meta(ge=1)]
CountOrZero = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Length = Annotated[float, msgspec.Meta(ge=1)]


def keyed_by(words: Any) -> msgspec.Meta:
    """The keys of a map, where they are the words of a Literal."""
    return msgspec.Meta(extra_json_schema={"propertyNames": {"enum": sorted(get_args(words))}})


class Resolved(TypedDict, Generic[Value]):
    """A resolved input and where its value comes from."""

    value: Value
    origin: Origin
    """option: said on the command line. default: assumed. profile, calibration: as that file states."""


class Warned(TypedDict):
    """A warning or a note."""

    code: Code
    message: str
    """Why, and what to do."""


class Given(TypedDict, total=False):
    """Acceptance that was said rather than measured: one of the three."""

    constant_conditional_rate: Fraction
    """--acceptance-rate: chance that a draft token is accepted where all before it were."""
    acceptance_length: dict[str, Length]
    """--acceptance-length: draft length -> tokens of one target pass, bonus token included."""
    typical: Annotated[dict[str, dict[str, Length]], keyed_by(Mechanism)]
    """--assume-acceptance typical: mechanism -> draft length -> the median of the measured pairs."""


GivenAcceptance = Annotated[Given, msgspec.Meta(extra_json_schema={"minProperties": 1, "maxProperties": 1})]


class SetupInputs(TypedDict):
    """The machine, the pair and the engine."""

    hardware: Resolved[list[str]]
    model: Resolved[str]
    engine: Resolved[str]
    context: Resolved[Count]
    """Mean tokens in the KV cache of a request."""
    weight_dtype: Resolved[WeightDtype]
    kv_dtype: Resolved[KvDtype]
    drafter: Resolved[list[str]]
    tp: Resolved[list[Count]]
    """GPUs of a tensor-parallel group."""
    gpus: Resolved[list[Count]]
    """GPUs of a replica."""
    ep: Resolved[Count]
    """Groups that the experts are divided among."""


class QuestionInputs(SetupInputs):
    """What every question about speculation holds."""

    acceptance: NotRequired[Resolved[str | list[str] | GivenAcceptance]]
    """A profile's name (names, where drafters have several), or what was said instead; absent without a drafter."""
    input_tokens: NotRequired[Resolved[Count]]
    output_tokens: NotRequired[Resolved[Count]]
    tree_topk: NotRequired[Resolved[Count]]
    """Tokens that each level of a draft tree expands."""
    verify_width: NotRequired[Resolved[Count | str]]
    """Verified tokens of a request; by default the rule `1 + K D`."""
    calibration: NotRequired[Resolved[str]]
    assume: NotRequired[Resolved[bool]]
    """Acceptance past the trained context and block is taken over; absent: it is not."""


class GridInputs(QuestionInputs):
    """A question about a grid."""

    batches: Resolved[str]
    """An axis: `1..256:x2`."""
    draft_lengths: NotRequired[Resolved[str]]
    """An axis; absent without a drafter."""


class Figures(TypedDict):
    """The figures of one (batch, draft length). Times are those of one step of one replica."""

    batch: Count
    """Requests decoding together on one replica; with prompt lengths given, the concurrency."""
    draft_length: CountOrZero
    """D, tokens drafted in a step; 0: no speculation."""
    verify_width: Count
    """Verified tokens of a request: 1 + D for a chain, the nodes of a tree."""
    acceptance_length: Length
    """AL, tokens of one target pass, bonus token included: from 1 to 1 + D."""
    acceptance_basis: Basis
    target_ms: Positive
    """A step without speculation, the engine's overhead included."""
    verify_ms: Positive
    """The target's pass over the draft, the engine's overhead and the entry fee included."""
    draft_ms: NonNegative
    step_ms: Positive
    """verify_ms + draft_ms."""
    speedup: Positive
    """Of decoding alone: acceptance_length x target_ms / step_ms."""
    speedup_low: Positive
    speedup_high: Positive
    interactivity_tokens_per_s_per_user: Positive
    throughput_tokens_per_s_per_gpu: Positive
    bound: Bound
    """What the step's time goes to most."""


class Place(TypedDict):
    """What figures belong to, what they cost, and how the replica serves."""

    drafter: str
    """`none` where the draft length is 0."""
    hardware: str
    tp: Count
    gpus: Count
    step_basis: NotRequired[StepBasis]
    """How the times are known; extrapolated: past what the calibration measured. Absent without a calibration."""
    cost_usd_per_million_tokens: NotRequired[Positive | None]
    """Output tokens, at the price of a GPU-hour; null: this chip's profile has none; absent: none of the chips has."""
    serving_tpot_ms: NotRequired[Positive]
    """Time for an output token with prefill between the steps. This key and those below: prompt lengths were given."""
    serving_throughput_tokens_per_s_per_gpu: NotRequired[Positive]
    serving_speedup: NotRequired[Positive]
    """serving_tpot_ms without speculation over that with it, at equal concurrency."""
    decode_batch: NotRequired[Positive]
    """Requests that decode together on average."""
    serving_cost_usd_per_million_tokens: NotRequired[Positive | None]


class Point(Figures, Place):
    """One (batch, draft length) of one scenario."""


class Marked(TypedDict):
    """Where a point stands in its sweep."""

    on_frontier: bool
    """Whether no other point of the sweep is better in both axes."""


class SweptPoint(Figures, Marked, Place):
    """A point of a sweep."""


class Infeasible(TypedDict):
    """A point that cannot be."""

    batch: Count
    draft_length: CountOrZero
    reason: Reason
    detail: str
    drafter: str
    hardware: str
    tp: Count
    gpus: Count


class FeedForwardDtypes(TypedDict, total=False):
    """The dtype of dense layers and of experts, where there are any."""

    ffn: WeightDtype
    experts: WeightDtype


class PartDtypes(FeedForwardDtypes):
    """The dtype of each part that the model has."""

    attention: WeightDtype
    lm_head: WeightDtype


class CalibrationUsed(TypedDict):
    """What step times were calibrated with, and where it was measured."""

    name: str
    method: Literal["fit", "line", "curve"]
    time_band: NonNegative
    """Half-width of step / target_ms inside the range, as a fraction."""
    batch_from: Positive
    batch_to: Positive
    longest_draft: CountOrZero
    """Draft length, tokens."""


class Memory(TypedDict):
    """What fills the memory of one GPU."""

    usable_gb_per_gpu: Positive
    target_weights_gb_per_gpu: Positive
    draft_weights_gb_per_gpu: NonNegative
    kv_mb_per_request: NonNegative
    """On one GPU."""
    draft_kv_mb_per_request: NonNegative
    """On one GPU."""
    state_mb_per_request: NonNegative
    """On one GPU."""
    largest_batch_off: int | None
    """Requests on one replica; null: memory sets no bound."""
    largest_batch_drafting: int | None
    """The same at the longest draft; null: no bound, or no drafts."""


class ScenarioRecord(TypedDict):
    """What the figures of one scenario rest on."""

    hardware: str
    tp: Count
    gpus: Count
    ep: Count
    model: str
    drafter: str
    """`none`: without."""
    mechanism: Mechanism | None
    weight_dtypes: PartDtypes
    engine: str
    engine_family: str
    engine_version: str
    context_tokens: Count
    draft_lengths: list[CountOrZero]
    """Those looked at."""
    acceptance: str | None
    """The acceptance profile; null: assumed, or no drafter."""
    data_set: str | None
    temperature: NonNegative | None
    acceptance_measured_by: str | None
    kernels_fitted: bool
    """Whether the chip's kernel figures were fitted to measured tables of its own."""
    price_usd_per_hour: Positive | None
    """Of one GPU."""
    price_checked: str | None
    """Date, YYYY-MM-DD."""
    input_tokens: Count | None
    output_tokens: Count | None
    time_band: NonNegative
    """Half-width of step / target_ms, as a fraction."""
    calibration: CalibrationUsed | None
    memory: Memory
