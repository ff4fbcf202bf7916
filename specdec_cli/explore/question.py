"""What is asked, as it was put and as it was understood: options, defaults, scenarios, and what to warn about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from specdec_cli.explore.uncertainty import TimeBand
from specdec_cli.physics.acceptance import Acceptance
from specdec_cli.physics.drafting import DraftPlan
from specdec_cli.physics.layers import Dtypes, Layout
from specdec_cli.physics.memory import MemoryBill
from specdec_cli.physics.serving import Workload
from specdec_cli.physics.step import StepModel
from specdec_cli.physics.trees import Tree
from specdec_cli.profiles.calibration import Calibration
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.schema import AcceptanceProfile, Drafter, Engine, Hardware, Model

Origin = Literal["default", "option", "profile", "calibration"]

NO_DRAFTER = "none"
TYPICAL = "typical"


class Defaults(msgspec.Struct, frozen=True):
    """What every command assumes where nothing is said."""

    hardware: str = "h100-sxm"
    model: str = "llama-3.1-8b"
    engine: str = "vllm"
    context: int = 2048
    batches: str = "1..256:x2"
    assumed_draft_lengths: int = 8
    """Largest draft length swept where acceptance is assumed rather than measured."""
    tie: float = 0.03
    min_gain: float = 0.02
    compared_batches: str = "1,8,32,128"
    """Instead of `batches` where mechanisms stand side by side."""
    explained_batch: int = 8


DEFAULTS = Defaults()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A question as it was put; None: not said. Lists (`a,b`) are swept."""

    hardware: str | None = None
    tp: str | None = None
    gpus: int | None = None
    ep: int | None = None
    model: str | None = None
    drafter: str | None = None
    engine: str | None = None
    context: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    """Both: a replica that also prefills; `batches` then means concurrency."""
    weight_dtype: str | None = None
    kv_dtype: str | None = None
    acceptance: str | None = None
    acceptance_rate: float | None = None
    acceptance_length: str | None = None
    assume_acceptance: str | None = None
    """`typical`: the median of the measured pairs of the drafter's mechanism."""
    batches: str | None = None
    draft_lengths: str | None = None
    assume: bool = False
    """Use acceptance past the context, and past the block, that the drafter was trained on."""
    tree_topk: int | None = None
    """Tokens that each level of a draft tree expands; 1: a chain."""
    verify_width: int | None = None
    """Verified nodes of a tree, the root among them."""
    calibration: str | None = None
    """The user's own measurements (`specdec calibrate`); its scenario fills in what is not said here."""


class Input(msgspec.Struct, frozen=True):
    """A resolved input and where its value comes from."""

    value: Any
    origin: Origin


class Note(msgspec.Struct, frozen=True):
    """A warning with a stable code; it says why and what to do."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """One target on one layout of one chip, with one drafter or none."""

    hardware: Hardware
    engine: Engine
    model: Model
    drafter: Drafter | None
    layout: Layout
    dtypes: Dtypes
    step: StepModel
    memory: MemoryBill
    acceptance: Acceptance | None
    """None: no drafter, or no acceptance at this context."""
    acceptance_profile: AcceptanceProfile | None
    context: int
    workload: Workload | None
    """Prompt and answer lengths of a serving question."""
    batches: tuple[int, ...]
    draft_lengths: tuple[int, ...]
    beyond_window: bool
    """Whether the context passes the drafter's trained window and nobody vouched for it."""
    band: TimeBand
    calibration: Calibration | None = None
    """What its step model was calibrated with."""
    tree: Tree | None = None
    """The draft tree asked for; None: chains, or trees as the acceptance profile has them."""
    past_block: bool = False
    """Whether drafts longer than the drafter's trained block are taken over, as the user asked."""

    @property
    def drafter_name(self) -> str:
        """The drafter's name, or `none`."""
        return self.drafter.name if self.drafter is not None else NO_DRAFTER

    def largest_batch(self, draft_length: int) -> float:
        """Requests of one attention rank that fit while such drafts are made; below 1: not even one.

        A tree's drafts are its nodes but the root; where its width is not known, and of a chain, they are D.
        """
        known = self.acceptance.estimate(draft_length) if draft_length and self.acceptance is not None else None
        return self.memory.largest_batch(draft_length if known is None else known.verify_width - 1)

    @property
    def plan(self) -> DraftPlan | None:
        """The passes of the draft."""
        return self.step.plan


@dataclass(frozen=True, slots=True)
class Question:
    """Every scenario of a sweep, the inputs behind them, and what to warn about."""

    scenarios: tuple[Scenario, ...]
    inputs: dict[str, Input]
    notes: tuple[Note, ...]


@dataclass(slots=True)
class Resolver:
    """Collects inputs and notes while names become profiles."""

    library: Library
    options: Options
    inputs: dict[str, Input] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    acceptances: dict[str, tuple[Acceptance | None, AcceptanceProfile | None]] = field(default_factory=dict)
    """By drafter: what is known is looked up once for all chips and layouts."""

    def pick(self, name: str, said: Any, default: Any, origin: Origin = "default") -> Any:
        """The value said, else the default; remembered with its origin."""
        value, where = (default, origin) if said is None else (said, "option")
        self.inputs[name] = Input(value, where)
        return value

    def note(self, code: str, message: str) -> None:
        """Remember a warning once."""
        found = Note(code, message)
        if found not in self.notes:
            self.notes.append(found)
