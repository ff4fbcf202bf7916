"""Trust checks of measured runs: what cannot be is refused, what may mislead is said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from specdec_cli.profiles.measured_run import CACHED_SHARE, MeasuredRun, as_off, has_drafts

ROUNDING = 0.006
"""Engines print acceptance lengths with two decimals."""
RATE_ROUNDING = 0.002
BOUND_TOLERANCE = 1.02
BATCH_TOLERANCE = 0.05
SHORT_DRAFTS = 0.95
"""Drafted tokens an iteration below this share of D: drafts are often shorter than D."""

_RANDOM = re.compile(r"\brandom", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What the user says about the runs."""

    draft_length: int | None = None
    """D of the runs whose file does not say it."""
    window_tokens: int | None = None
    """Context that the drafter was trained on."""
    cached_prompts: bool = False
    """The user knows that prompts came from the prefix cache, and why."""
    data_set: str | None = None


NOTHING_SAID = CheckOptions()


def checked(runs: Sequence[MeasuredRun], options: CheckOptions = NOTHING_SAID) -> list[MeasuredRun]:
    """The runs, each with what is to be said of it.

    Raises ProfileError: AL below 1 or above D + 1, a base that drafted, tokens/s above (D + 1) B / T0, repeated prompts
    out of the prefix cache, a draft length given that the file contradicts.
    """
    found = [_checked(with_draft_length(run, options), options) for run in runs]
    for run in found:
        _check_bound(run, found)
    return found


def speculates(run: MeasuredRun) -> bool:
    """Whether the run measured acceptance."""
    return run.measures == "step" and run.draft_length != 0 and run.acceptance_length is not None


def with_draft_length(run: MeasuredRun, options: CheckOptions) -> MeasuredRun:
    """The run with the draft length that its user states. Raises ProfileError where the file says otherwise."""
    said = options.draft_length
    if said is None or not speculates(run):
        return run
    if run.draft_length is None:
        return replace(run, draft_length=said).found("draft_length_given", f"D = {said} as given, not in the file")
    if run.draft_length != said:
        raise run.refused(f"drafts {run.draft_length} tokens, --draft-length says {said}", "leave the option out")
    return run


def _checked(run: MeasuredRun, options: CheckOptions) -> MeasuredRun:
    if run.draft_length == 0 and has_drafts(run):
        as_off(run)  # raises
    if run.cached_prompt_share is not None and run.cached_prompt_share >= CACHED_SHARE:
        share = f"{100 * run.cached_prompt_share:.0f} % of the prompt tokens came from the prefix cache"
        if not options.cached_prompts:
            raise run.refused(
                f"{share}: prompts were repeated, and repeats are accepted and timed unlike fresh text",
                "measure different prompts; --cached-prompts takes it, for long conversations that share their history",
            )
        run = run.found("repeated_prompts", f"{share}; taken as you asked")
    length, drafted = run.acceptance_length, run.draft_length
    if length is not None:
        if length < 1 - ROUNDING:
            raise run.refused(f"acceptance length {length:g} below 1", "it counts the bonus token: 1 is the least")
        if drafted is not None and length > 1 + drafted + ROUNDING:
            raise run.refused(
                f"acceptance length {length:g} above D + 1 = {1 + drafted}",
                "a step yields D accepted tokens and the bonus token: the counters or the draft length are wrong",
            )
    return _said(_rates(run), options) if speculates(run) else _graphs(run)


def _rates(run: MeasuredRun) -> MeasuredRun:
    """Per-position rates that are not unconditional ones are dropped, with a word."""
    rates, length = run.per_position, run.acceptance_length
    if rates is None:
        return run
    possible = min(rates) >= 0 and all(now <= before + RATE_ROUNDING for before, now in pairwise((1.0, *rates)))
    total = 1 + sum(rates)
    length = total if length is None else length
    if possible and abs(total - length) <= 0.02:
        return replace(run, per_position=tuple(min(rate, 1.0) for rate in rates))
    message = f"per-position rates give AL {total:.2f} beside {length:.2f}: not unconditional ones; left out"
    return replace(run, per_position=None).found("rates_inconsistent", message)


def _said(run: MeasuredRun, options: CheckOptions) -> MeasuredRun:
    length, drafted = run.acceptance_length or 1.0, run.draft_length
    if length <= 1 + ROUNDING:
        message = (
            f"AL = {length:.2f} with speculation on: nothing was accepted. The draft head is broken or was not loaded "
            "(or the server reports no acceptance); nothing is fitted to it"
        )
        run = run.found("draft_head_broken", message)
    workload = options.data_set or run.workload or ""
    if _RANDOM.search(workload):
        message = f"{workload}: random tokens are accepted far less than text (12 % against 52 % in one report)"
        run = run.found("random_prompts", f"{message}; measure with prompts of your own")
    if run.drafted_tokens and run.iterations and drafted and run.verify_width is None:
        mean = run.drafted_tokens / run.iterations
        if mean < SHORT_DRAFTS * drafted:
            message = (
                f"{mean:.2f} tokens drafted an iteration at D = {drafted}: drafts end early, D is their upper bound"
            )
            run = run.found("short_drafts", message)
        elif mean > drafted / SHORT_DRAFTS:
            message = f"{mean:.2f} tokens drafted an iteration at D = {drafted}: a tree, or D is not what ran"
            run = run.found("long_drafts", message)
    window, context = options.window_tokens, run.context_tokens
    if window is not None and context is not None and context > window:
        message = f"{context:.0f} tokens of context, the drafter was trained on {window}: acceptance falls beyond it"
        run = run.found("beyond_draft_window", message)
    return _graphs(run)


def _graphs(run: MeasuredRun) -> MeasuredRun:
    if run.cuda_graphs is False:
        return run.found("graphs_off", "CUDA graphs did not run: the steps are slower than they need be")
    return run


def _check_bound(run: MeasuredRun, runs: Sequence[MeasuredRun]) -> None:
    """A step with drafts takes no less than one without: tokens/s <= (D + 1) B / T0."""
    speed, batch, drafted = run.output_tokens_per_s, run.batch, run.draft_length
    if not speculates(run) or speed is None or batch is None or drafted is None:
        return
    for base in runs:
        if base.draft_length != 0 or not base.step_s or base.batch is None or base.measures != "step":
            continue
        alike = base.model == run.model and base.engine == run.engine
        if not alike or abs(base.batch - batch) > BATCH_TOLERANCE * batch:
            continue
        most = (drafted + 1) * batch / base.step_s
        if speed > BOUND_TOLERANCE * most:
            raise run.refused(
                f"{speed:.0f} tokens/s at batch {batch:g}, above (D + 1) B / T0 = {most:.0f} with T0 = "
                f"{1e3 * base.step_s:.3g} ms ({base.place})",
                "token accounting: tokens, requests or the base do not belong to the same run",
            )
