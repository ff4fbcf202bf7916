"""The answers about a question: sweep, recommend, compare, explain, as they stand in JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec

from specdec_cli.explore.guideline_records import GuidelineId, Verdict
from specdec_cli.profiles.schema import Mechanism
from specdec_cli.report.contract.common import (
    Bound,
    Count,
    CountOrZero,
    Fraction,
    GridInputs,
    Infeasible,
    Length,
    NonNegative,
    Point,
    Positive,
    QuestionInputs,
    Resolved,
    ScenarioRecord,
    SweptPoint,
    Warned,
)

Number = float | str | bool | None


class Uplift(TypedDict):
    """The gain at one interactivity, along the two frontiers."""

    interactivity_tokens_per_s_per_user: Positive
    throughput_without_tokens_per_s_per_gpu: Positive | None
    throughput_with_tokens_per_s_per_gpu: Positive | None
    uplift: Positive | None
    """Throughput with speculation over that without."""
    users_per_gpu_without: NonNegative | None
    users_per_gpu_with: NonNegative | None
    reason: str | None
    """Why figures are null."""


class SweepAnswer(TypedDict):
    """`specdec sweep`."""

    schema: Literal["specdec.sweep/1"]
    specdec_version: str
    inputs: GridInputs
    points: list[SweptPoint]
    frontier: list[CountOrZero]
    """Indices into `points`: where no other point is better in both axes."""
    baseline_frontier: list[CountOrZero]
    """The same among the points without speculation."""
    infeasible: list[Infeasible]
    warnings: list[Warned]
    points_left_out: CountOrZero
    """Feasible points that --frontier-only leaves out."""
    uplift: list[Uplift]
    scenarios: list[ScenarioRecord]


class RecommendInputs(GridInputs):
    """A question for one answer."""

    batch: NotRequired[Resolved[Count]]
    min_interactivity: NotRequired[Resolved[Positive]]
    """Tokens/s/user."""
    min_throughput: NotRequired[Resolved[Positive]]
    """Tokens/s/GPU."""
    max_tpot_ms: NotRequired[Resolved[Positive]]
    contexts: NotRequired[Resolved[list[Count]]]
    """Tokens."""
    tie: Resolved[Fraction]
    min_gain: Resolved[Fraction]


class Choice(SweptPoint):
    """The answer."""

    speculate: bool


class SuggestedDrafter(TypedDict):
    """What guideline 5 suggests."""

    drafter: str
    """`none`: off."""
    mechanism: Mechanism | None
    draft_length: CountOrZero


class Guideline(TypedDict):
    """One of the five published guidelines, worked out."""

    id: GuidelineId
    title: str
    applies: bool
    why: str
    numbers: dict[str, Number | list[Number]]
    """Quantities by name; shares, gains and growths are fractions, lists run parallel."""
    suggests: int | list[int] | SuggestedDrafter | None
    """Draft length, the set of them, or a drafter and its draft length; null: no bound."""
    verdict: Verdict


class ScheduleRange(TypedDict):
    """One draft length for a range of batch sizes, both ends inside."""

    batch_from: Count
    batch_to: Count
    draft_length: CountOrZero


class ContextRange(TypedDict):
    """The schedule of one range of contexts, both ends inside."""

    context_from: CountOrZero
    """Tokens."""
    context_to: Count
    """Tokens."""
    acceptance_known: bool
    schedule: list[ScheduleRange]


class EngineSetting(TypedDict):
    """What to paste into one engine."""

    engine: str
    engine_version: str
    """The version that the form was checked against; empty where there is nothing to paste."""
    title: str
    text: str
    """Empty: the engine cannot do it, and `warnings` says why."""
    data: dict[str, Any]
    """The same as data, in the engine's own words."""
    files: dict[str, str]
    """Files that `text` names: name -> content."""
    warnings: list[Warned]


EngineSettings = TypedDict(
    "EngineSettings",
    {"vllm": EngineSetting, "sglang": EngineSetting, "tensorrt-llm": EngineSetting, "llama-cpp": EngineSetting},
)


class Split(TypedDict):
    """The step of the choice: three parts that add up to it, and the share of each."""

    target_ms: Positive
    verify_adds_ms: float
    draft_ms: NonNegative
    step_ms: Positive
    target_share: Positive
    verify_adds_share: float
    draft_share: Fraction


class RunnerUp(TypedDict):
    """The best of the alternatives."""

    drafter: str
    batch: Count
    draft_length: CountOrZero
    maximised: Literal["interactivity", "throughput"]
    margin: float
    """The choice over it by what was maximised, less 1; below 0: within the tie it is ahead."""
    within_tie: bool


class UsersServed(TypedDict):
    """Users served at the floor interactivity; null where none was asked for."""

    users_per_replica: CountOrZero | None
    users_per_gpu: NonNegative | None
    users_per_replica_without: CountOrZero | None
    users_per_gpu_without: NonNegative | None
    users_floor_tokens_per_s_per_user: Positive | None
    users_at_least: bool | None
    """Whether the largest batch looked at still holds the floor, so that there may be more users."""


class ByContext(TypedDict, total=False):
    """Where --contexts asks for it."""

    schedule_by_context: list[ContextRange]


class RecommendAnswer(UsersServed, ByContext):
    """`specdec recommend`."""

    schema: Literal["specdec.recommend/1"]
    specdec_version: str
    inputs: RecommendInputs
    choice: Choice | None
    """Null: only a schedule was asked for."""
    plateau: list[Count]
    """Draft lengths within the tie of the best."""
    alternatives: list[SweptPoint]
    guidelines: list[Guideline]
    pays_from_batch: Count | None
    """Smallest batch of the schedule where speculation pays; null: at none."""
    pays_to_batch: Count | None
    schedule: list[ScheduleRange]
    engine_settings: EngineSettings
    warnings: list[Warned]
    off_because: str | None
    split: Split | None
    runner_up: RunnerUp | None
    swept_batches: Annotated[list[Count], msgspec.Meta(min_length=2, max_length=2)]
    """Smallest, largest."""
    scenarios: list[ScenarioRecord]


class ComparedPoint(Point):
    """A drafter at its best draft length at one batch."""

    rank: Count
    """1: the fastest at this batch."""
    mechanism: Mechanism
    draft_memory_gb_per_gpu: NonNegative
    """Weights and KV cache of drafting at this batch."""
    kv_tokens: NonNegative
    """Tokens of KV cache that one GPU holds beside the weights."""
    kv_tokens_lost: NonNegative
    """How many fewer that is than without a drafter."""
    post_view: str | None
    """The published opinion of the mechanism."""


class Best(TypedDict):
    """The fastest at one batch."""

    batch: Count
    drafter: str
    draft_length: CountOrZero
    speedup: Positive


class CompareAnswer(TypedDict):
    """`specdec compare`."""

    schema: Literal["specdec.compare/1"]
    specdec_version: str
    inputs: GridInputs
    rows: list[ComparedPoint]
    best: list[Best]
    warnings: list[Warned]
    scenarios: list[ScenarioRecord]


class ExplainInputs(QuestionInputs):
    """A question about one point."""

    batch: Resolved[Count]
    draft_length: Resolved[CountOrZero]


class ExplainNumbers(TypedDict):
    """What the formula takes."""

    acceptance_length: Length
    target_ms: Positive
    verify_ms: Positive
    draft_ms: NonNegative


class Timed(TypedDict):
    """A part of a pass, and its share of it."""

    time_ms: float
    """Below 0 only for what a calibration takes away."""
    share: float
    bound: Bound
    lower_ms: NonNegative
    """At the datasheet's peaks, without launches."""
    upper_ms: float
    """At achieved rates, nothing overlapping."""


class Worked(Timed):
    """A part that computes and moves bytes on one GPU."""

    group: str
    gemm_m: NonNegative | None
    """Rows of the matrix multiplication; null: none, or several."""
    flops: NonNegative
    bytes: NonNegative
    peak_tflops_per_s: Positive | None
    achieved_tflops_per_s: NonNegative
    achieved_gb_per_s: NonNegative


class Operation(Worked):
    """One operation, all its layers together."""

    phase: str
    """`target`, `verify`, or a phase of drafting."""
    name: str
    count: Positive
    """Layers, times the passes where a draft repeats it."""
    compute_ms: NonNegative
    memory_ms: NonNegative
    fixed_ms: NonNegative
    """Launches, latencies, floors."""
    formula: str
    numbers: dict[str, Number]
    """Sizes of the operation on one GPU, and its kernel's figures as the chip's profile names them."""


OverheadName = Literal["step", "requests", "entry_fee", "draft_passes", "calibration"]


class Overhead(Timed):
    """What the engine's host adds, or a calibration."""

    name: OverheadName
    what: str


PassName = Literal["target", "verify", "draft"]
# `pass` cannot be a field's name in a class.
PassNamed = TypedDict("PassNamed", {"pass": PassName})


class Pass(PassNamed):
    """One pass: its groups add up to its time, and so do its operations and overheads."""

    tokens_per_request: Count | None
    """Null: drafting."""
    time_ms: NonNegative
    lower_ms: NonNegative
    upper_ms: float
    groups: list[Worked]
    operations: list[Operation]
    overheads: list[Overhead]


class ExplainAnswer(TypedDict):
    """`specdec explain`."""

    schema: Literal["specdec.explain/1"]
    specdec_version: str
    inputs: ExplainInputs
    point: Point
    formula: str
    numbers: ExplainNumbers
    result: Positive
    """The speedup."""
    passes: list[Pass]
    memory_bandwidth_gb_per_s: Positive
    """Of one GPU, by its datasheet."""
    warnings: list[Warned]
    scenarios: list[ScenarioRecord]
