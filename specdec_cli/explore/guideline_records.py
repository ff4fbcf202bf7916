"""What the five guidelines take and return, and how a choice is held against what a guideline suggests.

Plain numbers in, plain numbers out: no profile is read and nothing is printed here.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

Scalar = float | int | str | None
Numbers = dict[str, float | int | str | list[Any] | None]
"""Quantities by name; lists run parallel (one entry per layer group or option). Never NaN or infinite."""
Suggestion = int | list[int] | dict[str, Scalar] | None
Verdict = Literal["follows", "departs", "not_applicable"]
GuidelineId = Literal["G1", "G2", "G3", "G4", "G5"]


class Guideline(msgspec.Struct, frozen=True):
    """One guideline worked out at one operating point."""

    id: GuidelineId
    title: str
    applies: bool
    why: str
    """One or two sentences; every number in them is in `numbers`."""
    numbers: Numbers
    suggests: Suggestion
    """The draft length, the set of them, or for G5 the drafter and its draft length; None: no bound."""
    verdict: Verdict


class Thresholds(msgspec.Struct, frozen=True):
    """Where a guideline starts to apply and when two things count as equal: conventions of this tool.

    The source gives words ("dominates", "very low latency"); the figures are ours and are shown in `numbers`.
    """

    linear_share: float = 1 / 3
    """G1: share of the target pass above which linears turning compute-bound moves the step."""
    attention_share: float = 0.5
    """G2, G3: share of the target pass above which attention dominates."""
    launch_share: float = 0.25
    """G4: share of the step in fixed floors and overheads above which launches set the latency."""
    small_batch: int = 4
    """G4: batches up to this one are the right end of the frontier."""
    tie: float = 0.03
    """Speedups closer than this fraction are equally good."""
    flat_gain: float = 0.02
    """Acceptance growing by less than this fraction per further token is flat: no measured token costs so little."""
    expert_growth: float = 0.05
    """Distinct experts growing by more than this fraction explain a dearer verification."""
    equal_acceptance: float = 0.02
    """G5: acceptance lengths closer than this fraction are equal."""


DEFAULT_THRESHOLDS = Thresholds()


class LinearGroup(msgspec.Struct, frozen=True):
    """A group of GEMMs of one shape and dtype on one GPU."""

    name: str
    time_share: float
    """Fraction of T_target spent in the group."""
    gemm_m: float
    """GEMM rows at D = 0: tokens; for experts the mean rows per expert, batch * top_k / experts."""
    n: int
    """Outputs of one GEMM."""
    k: int
    """Inputs of one GEMM."""
    weight_bytes: float
    """Bytes of one weight."""
    activation_bytes: float
    """Bytes of one element of input and output."""
    peak_flops_per_s: float
    """Peak of the dtype that the GEMM computes in."""
    bandwidth_bytes_per_s: float
    experts: tuple[int, int] | None = None
    """(experts, top_k) of routed experts; None: dense."""


class AttentionGroup(msgspec.Struct, frozen=True):
    """Attention layers of one kind on one GPU."""

    name: str
    time_share: float
    """Fraction of T_target spent in the group."""
    group_size: int
    """G: query heads per KV head on one GPU; absorbed MLA: query heads on that GPU."""
    tile: int
    """Rows of a full tile of the attention kernel."""
    kv_bytes: float
    """Bytes of one element of the KV cache."""
    free_rows: float | None
    """Rows G(1+D) up to which the computed attention time stays within 5 % of its floor; None: no end found."""
    is_mla: bool = False


class Choice(msgspec.Struct, frozen=True):
    """The chosen draft length at one batch, with the computed curves around it. Chains only: W = 1 + D."""

    batch: int
    draft_length: int
    """The chosen D; 0: off."""
    acceptance_length: Sequence[float]
    """AL by D; index 0 is 1."""
    verify_s: Sequence[float]
    """Time of the verify pass by D with all overheads; index 0 is T_target."""
    draft_s: Sequence[float]
    """Time of drafting by D; index 0 is 0."""
    target_s: float
    """T_target: a step without speculation, overheads included."""
    launch_share: float
    """Fraction of the step that is fixed floors and overheads."""
    draft_layers: int
    target_layers: int
    sequential: bool
    """Whether drafting takes D passes, one after the other, rather than one pass."""
    moe: tuple[int, int] | None = None
    """(experts, top_k) of the target; None: dense."""
    memory_draft_limit: int | None = None
    """Largest D that memory holds at this batch; None: memory refuses none that was asked for."""

    def __post_init__(self) -> None:
        lengths = {len(self.acceptance_length), len(self.verify_s), len(self.draft_s)}
        if len(lengths) != 1 or not 0 <= self.draft_length <= self.evaluated_to:
            raise ValueError("AL, verify and draft times must cover the same draft lengths, the choice included")
        if self.batch < 1 or self.target_s <= 0 or self.target_layers < 1:
            raise ValueError("batch, target time and target layers must be positive")

    @property
    def evaluated_to(self) -> int:
        """The largest D with computed figures that memory holds."""
        last = len(self.acceptance_length) - 1
        return last if self.memory_draft_limit is None else min(last, self.memory_draft_limit)

    def step_s(self, draft_length: int) -> float:
        """T_verify + T_draft at that D."""
        return self.verify_s[draft_length] + self.draft_s[draft_length]

    def speedup(self, draft_length: int) -> float:
        """AL * T_target / (T_verify + T_draft) at that D."""
        return self.acceptance_length[draft_length] * self.target_s / self.step_s(draft_length)

    def expert_growth(self, from_length: int, to_length: int) -> float | None:
        """Fraction by which the distinct experts that one pass reads grow between two D; None for dense.

        Uniform independent routing: E * (1 - (1 - k/E)^T) of T = B * (1 + D) tokens.
        """
        if self.moe is None:
            return None
        before = distinct_experts(self.moe, self.batch * (1 + from_length))
        return distinct_experts(self.moe, self.batch * (1 + to_length)) / before - 1


def distinct_experts(moe: tuple[int, int], tokens: float) -> float:
    """Expected number of distinct experts that so many tokens reach under uniform independent routing."""
    experts, top_k = moe
    untouched = math.pow(1 - top_k / experts, tokens)
    return experts * (1 - untouched)


class Comparison(msgspec.Struct, frozen=True):
    """The choice beside a suggested draft length: whether it follows, and what parts them, computed."""

    follows: bool
    sentence: str
    """A template for `say`."""
    numbers: Numbers

    @property
    def verdict(self) -> Verdict:
        """The verdict on a guideline that applies."""
        return "follows" if self.follows else "departs"


def compare(choice: Choice, target: int, limits: Thresholds, *, attention: AttentionGroup | None = None) -> Comparison:
    """Hold the chosen D against a suggested one.

    It follows where it is the suggested D, the largest D with computed figures below it, or equally fast
    within the tie. Otherwise `cause` says what parts them: acceptance_flat, draft_cost, verify_cost,
    expert_reads, tile_edge, longer_pays, or other_is_faster where the computed speedup favours the suggestion.
    """
    chosen, reach = choice.draft_length, choice.evaluated_to
    other = min(target, reach)
    numbers: Numbers = {
        "draft_length": chosen,
        "evaluated_to": reach,
        "suggested_draft_length": target,
        "compared_draft_length": other,
        "speedup": choice.speedup(chosen),
        "compared_speedup": choice.speedup(other),
        "tie": limits.tie,
    }
    if chosen == target:
        return _found("same", True, "The choice is that length, D = {draft_length}.", numbers)
    if chosen == other:
        if choice.memory_draft_limit == reach:
            numbers["memory_draft_limit"] = reach
            text = "Memory holds drafts up to D = {memory_draft_limit} at this batch, and that is the choice."
            return _found("memory", True, text, numbers)
        text = "No acceptance is given past D = {evaluated_to}, and that is the choice."
        return _found("beyond_evaluated", True, text, numbers)

    gain = choice.acceptance_length[other] / choice.acceptance_length[chosen] - 1
    step = choice.step_s(chosen)
    verify = (choice.verify_s[other] - choice.verify_s[chosen]) / step
    draft = (choice.draft_s[other] - choice.draft_s[chosen]) / step
    numbers |= {
        "acceptance_length": choice.acceptance_length[chosen],
        "compared_acceptance_length": choice.acceptance_length[other],
        "acceptance_gain": gain,
        "step_growth": verify + draft,
        "verify_growth": verify,
        "draft_growth": draft,
    }
    ratio = choice.speedup(other) / choice.speedup(chosen) - 1
    if abs(ratio) <= limits.tie:
        text = (
            "D = {draft_length} and D = {compared_draft_length} are equally fast "
            "({speedup}x and {compared_speedup}x, within {tie:%})."
        )
        return _found("tie", True, text, numbers)
    if ratio > 0:
        text = (
            "The computed speedup favours D = {compared_draft_length}: {compared_speedup}x, "
            "against {speedup}x at the chosen D = {draft_length}."
        )
        return _found("other_is_faster", False, text, numbers)
    if other < chosen:
        text = (
            "Going on to D = {draft_length} still pays: {speedup}x, against {compared_speedup}x at "
            "D = {compared_draft_length}, where AL is {compared_acceptance_length} instead of "
            "{acceptance_length}."
        )
        return _found("longer_pays", False, text, numbers)
    return _longer_loses(choice, other, limits, attention, numbers)


def _longer_loses(
    choice: Choice, other: int, limits: Thresholds, attention: AttentionGroup | None, numbers: Numbers
) -> Comparison:
    """Why a longer draft is slower: the largest of what was computed, named by its cause."""
    chosen = choice.draft_length
    ratio = choice.acceptance_length[other] / choice.acceptance_length[chosen]
    per_token = max(ratio, 0.0) ** (1 / (other - chosen)) - 1
    growth = choice.expert_growth(chosen, other)
    numbers["acceptance_gain_per_token"] = per_token
    if growth is not None:
        numbers["expert_growth"] = growth
    both = (
        "from D = {draft_length} to {compared_draft_length} AL goes {acceptance_gain:+%} "
        "({acceptance_length} to {compared_acceptance_length}) and the step {step_growth:+%} "
        "(verify {verify_growth:+%}, draft {draft_growth:+%})"
    )
    if per_token < limits.flat_gain:
        text = f"Acceptance is flat there, {{acceptance_gain_per_token:+%}} a token: {both}."
        return _found("acceptance_flat", False, text, numbers)
    if _number(numbers, "draft_growth") >= _number(numbers, "verify_growth"):
        return _found("draft_cost", False, f"Drafting costs more than it brings: {both}.", numbers)
    if growth is not None and growth > limits.expert_growth:
        text = f"Further draft tokens read new experts, {{expert_growth:+%}}: {both}."
        return _found("expert_reads", False, text, numbers)
    if attention is not None and attention.time_share >= limits.attention_share:
        tiles, more = (-(-attention.group_size * (1 + d) // attention.tile) for d in (chosen, other))
        if more > tiles:
            numbers |= {"tiles": tiles, "compared_tiles": more}
            text = f"Verification crosses a tile edge, {{tiles}} to {{compared_tiles}} tiles: {both}."
            return _found("tile_edge", False, text, numbers)
    return _found("verify_cost", False, f"Verification is no longer free: {both}.", numbers)


def _found(cause: str, follows: bool, sentence: str, numbers: Numbers) -> Comparison:
    if not follows and numbers["suggested_draft_length"] != numbers["compared_draft_length"]:
        sentence += (
            " (D = {suggested_draft_length} itself lies past D = {evaluated_to}, the last that can be computed.)"
        )
    return Comparison(follows, sentence, {**numbers, "cause": cause})


def _number(numbers: Numbers, key: str) -> float:
    value = numbers[key]
    if not isinstance(value, int | float):
        raise TypeError(f"{key} is not a number")
    return value


class _Speaker(string.Formatter):
    """Formats numbers as an engineer writes them: three significant digits, `%` and `+%` for fractions."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            raise ValueError("a missing number cannot be said")
        if isinstance(value, list):
            words = [self.format_field(item, format_spec) for item in value]
            return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
        if format_spec in ("%", "+%"):
            sign = "+" if format_spec == "+%" and value >= 0 else ""
            return f"{sign}{_three_digits(100 * value)} %"
        return _three_digits(value) if isinstance(value, float) else str(value)


def _three_digits(value: float) -> str:
    text = f"{value:.3g}"
    return f"{value:.0f}" if "e" in text else text


def say(template: str, numbers: Numbers) -> str:
    """The template's {name}, {name:%} and {name:+%} filled from `numbers`; templates hold no digits themselves."""
    return _Speaker().vformat(template, (), numbers)
