"""Guidelines 4 and 5: how long to draft where latency rules, and which mechanism drafts.

Source: NVIDIA Technical Blog, 2026-09-02, "Co-Designing AI Models Using Speculative Decoding for Faster LLM
Inference"; the step rule is algebra from its speedup ~ AL / (1 + rho*D), rho = draft layers / target layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec

from specdec_cli.explore.guideline_records import (
    DEFAULT_THRESHOLDS,
    Choice,
    Guideline,
    Numbers,
    Scalar,
    Thresholds,
    compare,
    say,
)
from specdec_cli.units import GIGA, MS

POST_VIEW: dict[str, str] = {
    "draft_model": "not on GPUs, rather on dedicated decode hardware",
    "eagle3": "not recommended",
    "mtp": "for large targets on GPUs",
    "dflash": "for small targets at a batch of one",
    "dspark": "for small targets at a batch of one",
    "ngram": "for repetitive text",
    "suffix": "for repetitive text",
}
"""The post's opinion by mechanism, in our words: printed as its opinion, never used for ranking.

It says nothing of the mechanisms that are missing here.
"""

SEQUENTIAL = frozenset({"draft_model", "eagle", "eagle3", "mtp", "self"})
"""Mechanisms whose drafting takes one pass for each token."""
ONE_PASS = frozenset({"dflash", "dspark", "p_eagle", "pard", "medusa"})
"""Mechanisms that draft all tokens in one pass."""


class MechanismOption(msgspec.Struct, frozen=True):
    """One drafter at its own best draft length, all of them at the same batch."""

    drafter: str
    mechanism: str
    best_draft_length: int
    acceptance_length: float
    draft_s: float
    """T_draft at that D."""
    verify_s: float
    """T_verify at that D."""
    speedup: float
    memory_bytes: float
    """Weights and KV cache that drafting takes on one GPU."""
    training: str
    """Cost of training, as published."""


def speedup_by_layer_ratio(acceptance_length: float, draft_length: int, rho: float) -> float:
    """The post's estimate for sequential drafting: AL / (1 + rho*D). rho: draft layers over target layers."""
    return acceptance_length / (1 + rho * draft_length)


def step_pays(acceptance_from: float, d_from: int, acceptance_to: float, d_to: int, rho: float) -> bool:
    """Whether the gain in AL pays for more sequential passes: AL'/AL > (1 + rho*D') / (1 + rho*D).

    For D' = D + 1 this is (AL(D+1) - AL(D)) / AL(D) > rho / (1 + rho*D).
    """
    gain = (acceptance_to - acceptance_from) / acceptance_from
    return gain > rho * (d_to - d_from) / (1 + rho * d_from)


def layer_ratio_draft_length(acceptance_length: Sequence[float], rho: float, last: int, *, sequential: bool) -> int:
    """The D, at most `last`, where the step rule stops, going on from 0 while each step pays.

    A drafter that is not sequential runs one pass whatever D: its first token pays for it, the rest are free.
    """
    reached = 0
    while reached < last:
        passes, more = (reached, reached + 1) if sequential else (min(reached, 1), 1)
        if not step_pays(acceptance_length[reached], passes, acceptance_length[reached + 1], more, rho):
            break
        reached += 1
    return reached


def g4_low_latency(choice: Choice, limits: Thresholds = DEFAULT_THRESHOLDS) -> Guideline:
    """Guideline 4: at very low latency raise D only while the gain in AL pays for the added draft cost.

    Suggests where the published rule (by layer ratio) stops. Beside it stand the D of largest computed speedup
    (taken over all D: a walk by steps would stop at the entry fee of the first token) and the computed cost of a
    draft pass.
    """
    title = "Very low latency: a fast drafter, and each further token must pay"
    chosen, last = choice.draft_length, choice.evaluated_to
    rho = choice.draft_layers / choice.target_layers
    numbers: Numbers = {
        "batch": choice.batch,
        "small_batch": limits.small_batch,
        "launch_share": choice.launch_share,
        "launch_share_threshold": limits.launch_share,
        "draft_layers": choice.draft_layers,
        "target_layers": choice.target_layers,
        "rho": rho,
        "draft_length": chosen,
        "evaluated_to": last,
    }
    if last == 0:
        why = say("No draft is given past D = {evaluated_to}: there is no cost to weigh.", numbers)
        return Guideline("G4", title, False, why, numbers, None, "not_applicable")
    by_layers = layer_ratio_draft_length(choice.acceptance_length, rho, last, sequential=choice.sequential)
    shown = max(chosen, 1)
    passes = shown if choice.sequential else 1
    pass_ratio = choice.draft_s[shown] / passes / choice.target_s
    numbers |= {
        "rule_draft_length": by_layers,
        "computed_draft_length": max(range(last + 1), key=choice.speedup),
        "passes": passes,
        "layer_ratio_speedup": speedup_by_layer_ratio(choice.acceptance_length[shown], passes, rho),
        "draft_pass_ratio": pass_ratio,
        "draft_pass_over_rho": pass_ratio / rho if rho > 0 else None,
    }
    growth = choice.expert_growth(0, shown)
    if growth is not None:
        numbers |= {"expert_growth_from_off": growth, "expert_growth_at": shown}
    if choice.launch_share < limits.launch_share and choice.batch > limits.small_batch:
        text = (
            "At B = {batch} floors and overheads are {launch_share:%} of the step, below {launch_share_threshold:%}, "
            "and the batch is above {small_batch}: not the low-latency end of the frontier."
        )
        return Guideline("G4", title, False, say(text, numbers), numbers, None, "not_applicable")
    text = (
        "B = {batch} with {launch_share:%} of the step in floors and overheads is the low-latency end. By layers a "
        "draft pass costs {draft_layers}/{target_layers} = {rho} of a target pass, computed {draft_pass_ratio} of a "
        "step"
    )
    if rho > 0:
        text += " ({draft_pass_over_rho}x that)"
    text += (
        ": drafting pays up to D = {rule_draft_length} by the layer ratio and D = {computed_draft_length} by "
        "computed times."
    )
    if chosen < last:
        spent, further = _passes(chosen, choice), _passes(chosen + 1, choice) - _passes(chosen, choice)
        numbers |= {
            "next_gain": choice.acceptance_length[chosen + 1] / choice.acceptance_length[chosen] - 1,
            "next_cost_by_layers": rho * further / (1 + rho * spent),
            "next_cost": choice.step_s(chosen + 1) / choice.step_s(chosen) - 1,
        }
        text += (
            " From the chosen D = {draft_length} one more token brings {next_gain:+%} AL for {next_cost_by_layers:+%} "
            "by layers, {next_cost:+%} computed."
        )
    if growth is not None:
        text += " Experts read grow {expert_growth_from_off:+%} at D = {expert_growth_at}."
    found = compare(choice, by_layers, limits)
    numbers |= found.numbers
    return Guideline("G4", title, True, say(f"{text} {found.sentence}", numbers), numbers, by_layers, found.verdict)


def _passes(draft_length: int, choice: Choice) -> int:
    """Draft passes that a draft of that length takes."""
    return draft_length if choice.sequential else min(draft_length, 1)


def g5_mechanism(options: Sequence[MechanismOption], chosen: str, limits: Thresholds = DEFAULT_THRESHOLDS) -> Guideline:
    """Guideline 5: take the mechanism with the largest decode speedup here; the highest AL alone decides nothing.

    chosen: the drafter of the choice, or "none". Ranked by computed speedup, then by memory; suggests
    {drafter, mechanism, draft_length}, with drafter "none" where nothing beats plain decoding.
    Lists in `numbers` run in rank order. ValueError: a chosen drafter that is not among the options.
    """
    title = "Mechanism: rank by computed speedup, not by AL"
    ranked = sorted(options, key=lambda o: (-o.speedup, o.memory_bytes, o.drafter))
    by_name = {option.drafter: option for option in ranked}
    if chosen != "none" and chosen not in by_name:
        raise ValueError(f"{chosen} is not among the options {sorted(by_name)}")
    numbers: Numbers = {"options": len(ranked), "chosen": chosen, **_columns(ranked)}
    if len(ranked) < 2:
        why = say("There is nothing to choose between: drafters compared, {options}.", numbers)
        return Guideline("G5", title, False, why, numbers, None, "not_applicable")
    best = ranked[0]
    pays = best.speedup > 1
    text = _ranking_clause(ranked, numbers) + _acceptance_clause(ranked, limits, numbers)
    text += _crossing_clause(ranked, numbers) + _post_clause(best, numbers)
    suggests: dict[str, Scalar] = {
        "drafter": best.drafter if pays else "none",
        "mechanism": best.mechanism if pays else None,
        "draft_length": best.best_draft_length if pays else 0,
    }
    reached = 1.0 if chosen == "none" else by_name[chosen].speedup
    top = max(best.speedup, 1.0)
    numbers |= {"chosen_speedup": reached, "top_speedup": top, "chosen_loss": 1 - reached / top, "tie": limits.tie}
    if chosen == suggests["drafter"]:
        text += " That is the choice." if pays else " The choice is off."
    elif top / reached - 1 <= limits.tie:
        text += " The choice, {chosen}, is as good within {tie:%} ({chosen_speedup}x)."
    else:
        text += " The choice, {chosen}, reaches {chosen_speedup}x, {chosen_loss:%} less."
        return Guideline("G5", title, True, say(text, numbers), numbers, suggests, "departs")
    return Guideline("G5", title, True, say(text, numbers), numbers, suggests, "follows")


def _columns(ranked: Sequence[MechanismOption]) -> Numbers:
    """The side-by-side table, one list a column."""
    return {
        "drafters": [o.drafter for o in ranked],
        "mechanisms": [o.mechanism for o in ranked],
        "draft_lengths": [o.best_draft_length for o in ranked],
        "acceptance_lengths": [o.acceptance_length for o in ranked],
        "draft_ms": [o.draft_s / MS for o in ranked],
        "verify_ms": [o.verify_s / MS for o in ranked],
        "speedups": [o.speedup for o in ranked],
        "memory_gb": [o.memory_bytes / GIGA for o in ranked],
        "training": [o.training for o in ranked],
        "post_views": [POST_VIEW.get(o.mechanism) for o in ranked],
    }


def _step_ms(option: MechanismOption) -> float:
    return (option.draft_s + option.verify_s) / MS


def _ranking_clause(ranked: Sequence[MechanismOption], numbers: Numbers) -> str:
    best, second = ranked[:2]
    numbers |= {
        "best": best.drafter,
        "best_speedup": best.speedup,
        "best_draft_length": best.best_draft_length,
        "best_acceptance_length": best.acceptance_length,
        "best_draft_ms": best.draft_s / MS,
        "best_step_ms": _step_ms(best),
        "best_memory_gb": best.memory_bytes / GIGA,
        "second": second.drafter,
        "second_speedup": second.speedup,
    }
    text = (
        "{best} ranks first at {best_speedup}x (D = {best_draft_length}, AL {best_acceptance_length}, a step of "
        "{best_step_ms} ms with {best_draft_ms} ms of drafting, {best_memory_gb} GB a GPU), ahead of {second} at "
        "{second_speedup}x."
    )
    return text if best.speedup > 1 else f"{text} None of them beats plain decoding."


def _acceptance_clause(ranked: Sequence[MechanismOption], limits: Thresholds, numbers: Numbers) -> str:
    """Where AL and speedup part: the highest AL that does not win, and equal AL at unequal cost."""
    text = ""
    best = ranked[0]
    longest = max(ranked, key=lambda o: o.acceptance_length)
    if longest.acceptance_length > best.acceptance_length * (1 + limits.equal_acceptance):
        numbers |= {
            "longest": longest.drafter,
            "longest_acceptance_length": longest.acceptance_length,
            "longest_step_ms": _step_ms(longest),
        }
        text += (
            " {longest} has the highest AL, {longest_acceptance_length}, and loses it to a step of "
            "{longest_step_ms} ms."
        )
    equal = [
        pair
        for pair in combinations(ranked, 2)
        if _apart(pair[0].acceptance_length, pair[1].acceptance_length) <= limits.equal_acceptance
        and _apart(pair[0].speedup, pair[1].speedup) > limits.tie
    ]
    if equal:
        pair = max(equal, key=lambda two: _apart(two[0].speedup, two[1].speedup))
        numbers |= {
            "equal_acceptance": [o.drafter for o in pair],
            "equal_acceptance_lengths": [o.acceptance_length for o in pair],
            "equal_acceptance_step_ms": [_step_ms(o) for o in pair],
            "equal_acceptance_speedups": [o.speedup for o in pair],
        }
        text += (
            " {equal_acceptance} accept alike (AL {equal_acceptance_lengths}) at unequal cost: steps of "
            "{equal_acceptance_step_ms} ms, so {equal_acceptance_speedups}x."
        )
    return text


def _apart(a: float, b: float) -> float:
    return max(a, b) / min(a, b) - 1


def _crossing_clause(ranked: Sequence[MechanismOption], numbers: Numbers) -> str:
    """How many sequential passes cost as much as one parallel pass: past that D drafting in one pass is cheaper."""
    one_pass = next((o for o in ranked if o.mechanism in ONE_PASS and o.best_draft_length > 0), None)
    serial = next((o for o in ranked if o.mechanism in SEQUENTIAL and o.best_draft_length > 0), None)
    if one_pass is None or serial is None or serial.draft_s <= 0:
        return ""
    numbers |= {
        "one_pass": one_pass.drafter,
        "sequential": serial.drafter,
        "one_pass_in_sequential_passes": one_pass.draft_s / (serial.draft_s / serial.best_draft_length),
    }
    return " One pass of {one_pass} costs as much as {one_pass_in_sequential_passes} of {sequential}."


def _post_clause(best: MechanismOption, numbers: Numbers) -> str:
    view = POST_VIEW.get(best.mechanism)
    numbers |= {"best_mechanism": best.mechanism, "post_view": view}
    return " The post's opinion of {best_mechanism}, beside this rank: {post_view}." if view is not None else ""
