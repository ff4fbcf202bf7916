"""Measured runs -> what a calibration is fitted to: rows of steps, the target's own passes, what to know of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.explore.calibrate import Row
from specdec_cli.explore.run_checks import CheckOptions, checked, speculates, with_draft_length
from specdec_cli.physics.calibrated import VerifyCurve
from specdec_cli.profiles.measured_run import Finding, MeasuredRun, RunFile, as_off

FEWEST_WIDTHS = 2
SAME_BATCH = 0.05
"""Batches that differ by less are one (a mean over a run is not a whole number)."""
LONGEST_STEP_S = 1000.0
"""Five thousand times the longest step of `profiles/measurements`: what lies past it is in another unit."""
FASTER = 0.99
"""A step with drafts below this share of the plain one cannot be."""


Say = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """What the files hold."""

    rows: tuple[Row, ...]
    curve: VerifyCurve | None
    findings: tuple[Finding, ...]


def off_files(files: Sequence[RunFile]) -> list[RunFile]:
    """Files of the arm without speculation. Raises ProfileError where one holds drafts."""
    return [replace(file, runs=tuple(_off(run) for run in file.runs)) for file in files]


def _off(run: MeasuredRun) -> MeasuredRun:
    """That speculation was off is said now: a word that the file does not say so has had its answer."""
    answered = tuple(finding for finding in run.findings if finding.code != "speculation_not_stated")
    return replace(as_off(run) if run.measures == "step" else run, findings=answered)


def measured(files: Sequence[RunFile], options: CheckOptions, *, batch: float | None, context: float) -> Measured:
    """Check the runs and turn them into rows.

    Args:
        batch: requests decoding together, for runs whose file does not say it. context: tokens, likewise.

    Raises:
        ProfileError: what cannot be (`run_checks.checked`), nothing accepted with speculation on, or no step at all.
    """
    runs = checked([run for file in files for run in file.runs], options)
    findings: dict[tuple[str, str], Finding] = {}
    rows: list[Row] = []
    passes: list[MeasuredRun] = []

    def say(code: str, message: str) -> None:
        findings.setdefault((code, message), Finding(code, message))

    for file in files:
        for finding in file.findings:
            say(finding.code, finding.message)
    for run in runs:
        for finding in run.findings:
            if finding.code == "draft_head_broken":
                raise run.refused(finding.message, "measure with a draft head that works; the off run alone calibrates")
            say(finding.code, finding.message)
        if run.measures == "verify_pass":
            passes.append(run)
            continue
        row = _row(run, batch, context, say)
        if row is not None:
            rows.append(row)
    curve = _curve(passes, context, say)
    if not rows and curve is None:
        place = runs[0].place if runs else files[0].file
        why = "; ".join(f"{finding.message}" for finding in findings.values()) or "no step time in it"
        raise ProfileError(f"nothing to calibrate with: {why}", file=place)
    _about(rows, say)
    return Measured(tuple(rows), curve, tuple(findings.values()))


def _row(run: MeasuredRun, batch: float | None, context: float, say: Say) -> Row | None:
    requests = run.batch if run.batch is not None else batch
    if requests is None:
        say("row_without_batch", f"{run.place}: no batch size in the file, left out; --batch N says it")
        return None
    if run.draft_length is None:
        say("row_without_draft_length", f"{run.place}: no draft length in the file, left out; --draft-length N says it")
        return None
    seconds, length = run.step_s, run.acceptance_length
    if seconds is None and run.output_tokens_per_s and length is not None:
        seconds = length * requests / run.output_tokens_per_s
    if seconds is None:
        lacking = (
            "its tokens/s need an acceptance length" if run.output_tokens_per_s else "no step time and no tokens/s"
        )
        say("row_without_step", f"{run.place}: {lacking}, left out")
        return None
    if seconds > LONGEST_STEP_S:
        raise run.refused(
            f"a step of {seconds:.3g} s", f"no engine takes more than {LONGEST_STEP_S:g} s: mind the unit"
        )
    if speculates(run) or run.draft_length:
        length = length if length is None else min(length, 1.0 + run.draft_length)
    return Row(
        batch=requests,
        draft_length=run.draft_length,
        step_s=seconds,
        context=run.context_tokens or context,
        verify_width=run.verify_width,
        acceptance_length=length,
        place=run.place,
    )


def _curve(passes: Sequence[MeasuredRun], context: float, say: Say) -> VerifyCurve | None:
    """The median of each width. llama-bench measures at an empty cache unless told otherwise."""
    times: dict[int, list[float]] = {}
    contexts: list[float] = []
    for run in passes:
        if run.verify_width is not None and run.step_s is not None:
            times.setdefault(run.verify_width, []).append(run.step_s)
            # The mean over the pass: what was cached before it, and half of its own tokens.
            contexts.append(max(0.0, (run.context_tokens or context) - run.verify_width / 2))
    if not times:
        return None
    if len(times) < FEWEST_WIDTHS:
        say("curve_too_short", "one pass is no curve: measure several widths, from 1 token on; left out")
        return None
    widths = sorted(times)
    return VerifyCurve(tuple(widths), tuple(float(np.median(times[w])) for w in widths), float(np.median(contexts)))


def _about(rows: Sequence[Row], say: Say) -> None:
    """What the rows lack, and what in them contradicts itself."""
    plain = [row for row in rows if row.draft_length == 0]
    drafting = [row for row in rows if row.draft_length]
    if rows and not plain:
        say("no_off_run", "no run without speculation: speedups rest on the profiles' plain step; measure one")
    if plain and not drafting:
        say("only_off_run", "no run with speculation: entry fee and draft passes stay as the profiles have them")
    if drafting and len({row.draft_length for row in drafting}) == 1:
        say(
            "one_draft_length",
            f"D = {drafting[0].draft_length} alone: entry fee and passes cannot be told apart, other draft lengths "
            "rest on the profiles' share; add D = 1 or the longest that you would use",
        )
    for row in drafting:
        base = [one.step_s for one in plain if abs(one.batch - row.batch) <= SAME_BATCH * row.batch]
        if base and row.step_s < FASTER * float(np.mean(base)):
            say(
                "step_below_plain",
                f"{row.place}: a step with D = {row.draft_length} takes {1e3 * row.step_s:.3g} ms, less than a plain "
                f"one ({1e3 * float(np.mean(base)):.3g} ms) at batch {row.batch:g}: the two are not the same setup, or "
                "the acceptance length is too low",
            )


def with_draft_lengths(files: Sequence[RunFile], lengths: Sequence[int]) -> list[RunFile]:
    """The files with the draft lengths that their user states: one for all, or one for each file.

    Raises UsageError for another number of them, ProfileError for a file that says otherwise.
    """
    if not lengths:
        return list(files)
    if len(lengths) not in (1, len(files)):
        raise UsageError(f"--draft-length stands {len(lengths)} times for {len(files)} files: once, or once for each")
    each = list(lengths) * (len(files) if len(lengths) == 1 else 1)
    return [
        replace(file, runs=tuple(with_draft_length(run, CheckOptions(draft_length=length)) for run in file.runs))
        for file, length in zip(files, each, strict=True)
    ]
