"""Published measurements with everything needed to re-create them: what `specdec validate` is held against."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from specdec_cli.profiles.schema import (
    AcceptanceLength,
    Count,
    CountOrZero,
    DraftLengthOrZero,
    KvDtype,
    Name,
    NonNegative,
    Positive,
    Profile,
    Record,
    WeightDtype,
)

Tier = Literal["A", "B", "C"]
"""A: paired base and speculative runs on one stack, configuration printed, several points. B: good but a single rig.
C: single lines, unusual baselines; never a gate."""

SpeedupKind = Literal["step", "tpot", "throughput"]
"""What the printed ratio is made of. A decode-only prediction is compared with step and TPOT ratios; throughput ratios
of serving runs also hold prefill and queueing."""


class MeasuredPoint(Record, frozen=True, kw_only=True):
    """One measured operating point; what was not printed is left out."""

    batch: Positive
    """Requests decoding together on the replica."""
    draft_length: DraftLengthOrZero
    """0: speculation off, or a baseline curve."""
    verify_width: Count | None = None
    """Verified tokens a request, for a tree; None: a chain, 1 + D."""
    tree_branches: Count = 1
    """Tokens that each level of a draft tree expands (SGLang's top-k); 1: a chain."""
    context_tokens: CountOrZero | None = None
    """Mean tokens in the KV cache while decoding; overrides the setup's."""
    acceptance_length: AcceptanceLength | None = None
    base_step_ms: Positive | None = None
    """One decode step without speculation, at this batch and context."""
    verify_ms: Positive | None = None
    """The target's pass on W tokens a request, alone."""
    draft_ms: Positive | None = None
    """All drafting of a step."""
    step_ms: Positive | None = None
    """The whole speculative step."""
    speedup: Positive | None = None
    speedup_kind: SpeedupKind | None = None
    """Required with `speedup`."""
    derived: list[str] = []  # noqa: RUF012  (msgspec makes each record its own)
    """Names of the fields above that were computed from printed ones; the note says how."""
    note: str = ""


class Setup(Record, frozen=True, kw_only=True):
    """One configuration and its points. Names are names of shipped profiles."""

    id: Name
    hardware: Name
    gpus: Count = 1
    tp: Count = 1
    ep: Count = 1
    model: Name
    drafter: Name | None = None
    """None: a baseline curve, or verify times alone."""
    engine: Name
    """The dated profile nearest to the measurement."""
    weight_dtype: WeightDtype | None = None
    """None: as the model profile ships."""
    kv_dtype: KvDtype | None = None
    context_tokens: Count
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    """Where the run also prefilled: a serving point."""
    cuda_graphs: bool | None = None
    assumptions: dict[str, str] = {}  # noqa: RUF012
    """Field of this setup -> why this value, where the source does not state it. Empty: everything is stated."""
    fault: str = ""
    """Evidence that a software fault, not physics, made these numbers; such points are listed apart."""
    points: Annotated[list[MeasuredPoint], msgspec.Meta(min_length=1)]


class Expectation(Record, frozen=True, kw_only=True):
    """Errors that this source may have at most; they may only fall. Relative, median over the source's points."""

    base_step: NonNegative | None = None
    rho: NonNegative | None = None
    speedup: NonNegative | None = None


class Measurement(Profile, frozen=True, kw_only=True, tag_field="kind", tag="measurement"):
    """One published source."""

    tier: Tier
    published: str
    """YYYY, YYYY-MM or YYYY-MM-DD, as far as it is known."""
    origin: str
    """Where it can be read."""
    setups: Annotated[list[Setup], msgspec.Meta(min_length=1)]
    expected: Expectation = Expectation()
