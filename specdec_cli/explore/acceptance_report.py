"""Measured runs -> acceptance by draft length: pooled, with intervals, and what to know before trusting it.

AL = 1 + accepted tokens / target iterations, pooled over windows and files of one target and workload; a_i are the
iteration-weighted shares; c_i = a_i / a_(i-1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specdec_cli.errors import UsageError, did_you_mean
from specdec_cli.explore.acceptance_interval import (
    Interval,
    interval_of,
    iteration_variance,
    largest_variance,
    window_spread,
)
from specdec_cli.explore.run_checks import NOTHING_SAID, CheckOptions, checked, speculates
from specdec_cli.profiles.measured_run import Finding, MeasuredRun, RunFile, Skipped, Windows

FORMULA = "AL = 1 + accepted tokens / target iterations (bonus token included); a_i = share of iterations in which"
FORMULA_REST = "positions 1..i were all accepted; AL = 1 + a_1 + ... + a_D"

# Acceptance that differs between windows by more than this share of AL - 1, chance taken off, is more than one
# workload: data sets of one target and drafter differ by 10 to 40 % of it (acceptance profiles of this library).
MIXED_SPREAD = 0.1
FEWEST_MIXED = 5


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Acceptance at one draft length, pooled."""

    model: str | None
    workload: str | None
    draft_length: int | None
    verify_width: int | None
    """Trees only."""
    acceptance_length: float
    interval: Interval | None
    per_position: tuple[float, ...] | None
    iterations: float | None
    windows: int | None
    batches: tuple[float, ...]
    step_s: float | None
    """Where all runs pooled share one batch."""
    runs: tuple[MeasuredRun, ...]

    @property
    def conditional(self) -> tuple[float | None, ...] | None:
        """c_i = a_i / a_(i-1); None where a_(i-1) is 0."""
        if self.per_position is None:
            return None
        before = (1.0, *self.per_position)
        return tuple(rate / last if last > 0 else None for last, rate in zip(before, self.per_position, strict=False))

    def has(self, code: str) -> bool:
        """Whether a run of it carries this finding."""
        return any(finding.code == code for run in self.runs for finding in run.findings)


@dataclass(frozen=True, slots=True)
class AcceptanceReport:
    """Everything that the files say about acceptance."""

    files: tuple[RunFile, ...]
    runs: tuple[MeasuredRun, ...]
    """Checked; base rows and verify passes included."""
    curve: tuple[CurvePoint, ...]
    findings: tuple[Finding, ...]
    """Each once, with the file where there are several."""
    skipped: tuple[tuple[str, Skipped], ...]

    @property
    def workloads(self) -> tuple[str, ...]:
        """The workloads of the curve, in the order of the files."""
        return tuple(dict.fromkeys(point.workload or "" for point in self.curve))


def report_acceptance(
    files: Sequence[RunFile], options: CheckOptions = NOTHING_SAID, *, workload: str | None = None
) -> AcceptanceReport:
    """Check, choose the workload asked for, pool.

    Raises ProfileError for what cannot be (`run_checks.checked`), UsageError for a workload that is not there.
    """
    spread = [_shared(run, file) for file in files for run in file.runs]
    if workload is not None:
        known = list(dict.fromkeys(run.workload for run in spread if run.workload))
        if workload not in known:
            hint = did_you_mean(workload, known) or f"known: {', '.join(known) or 'none, the files name no workload'}"
            raise UsageError(f"--workload {workload!r} is not in the files; {hint}")
        spread = [run for run in spread if run.workload == workload]
    runs = checked(spread, options)
    groups: dict[tuple[str | None, str | None, int | None, int | None], list[MeasuredRun]] = {}
    for run in runs:
        if speculates(run):
            key = (run.model, run.workload, run.draft_length, run.verify_width)
            groups.setdefault(key, []).append(run)
    curve = tuple(_pooled(key, group) for key, group in sorted(groups.items(), key=_order))
    skipped = tuple((file.file, one) for file in files for one in file.skipped)
    return AcceptanceReport(tuple(files), tuple(runs), curve, _findings(files, runs, curve), skipped)


def _shared(run: MeasuredRun, file: RunFile) -> MeasuredRun:
    """What is true of a whole file is true of its runs: a forced acceptance, a broken scrape."""
    for finding in file.findings:
        if finding.code == "forced_acceptance":
            return run.found(finding.code, finding.message)
    return run


def _order(item: tuple[tuple[str | None, str | None, int | None, int | None], list[MeasuredRun]]) -> tuple[object, ...]:
    model, workload, length, width = item[0]
    return (model or "", workload or "", length if length is not None else math.inf, width or 0)


def _pooled(key: tuple[str | None, str | None, int | None, int | None], runs: Sequence[MeasuredRun]) -> CurvePoint:
    model, workload, draft_length, verify_width = key
    counts = [run.iterations for run in runs]
    counted = all(counts)
    weights = [float(count) for count in counts if count] if counted else [1.0] * len(runs)
    total = math.fsum(weights)
    length = math.fsum(w * (run.acceptance_length or 1.0) for w, run in zip(weights, runs, strict=True)) / total
    rates = [run.per_position for run in runs]
    per_position = None
    if all(rates) and len({len(one) for one in rates if one is not None}) == 1:
        columns = zip(*(one for one in rates if one is not None), strict=True)
        per_position = tuple(
            math.fsum(w * a for w, a in zip(weights, column, strict=True)) / total for column in columns
        )
    windows = _windows(runs)
    batches = tuple(sorted({run.batch for run in runs if run.batch is not None}))
    steps = [run.step_s for run in runs if run.step_s is not None]
    return CurvePoint(
        model=model,
        workload=workload,
        draft_length=draft_length,
        verify_width=verify_width,
        acceptance_length=length,
        interval=interval_of(
            length,
            draft_length=draft_length,
            per_position=per_position,
            iterations=total if counted else None,
            windows=windows,
        ),
        per_position=per_position,
        iterations=total if counted else None,
        windows=windows.count if windows is not None else None,
        batches=batches,
        step_s=math.fsum(steps) / len(steps) if steps and len(batches) == 1 else None,
        runs=tuple(runs),
    )


def _windows(runs: Sequence[MeasuredRun]) -> Windows | None:
    total: Windows | None = None
    for run in runs:
        if run.windows is None:
            return None
        total = run.windows if total is None else total + run.windows
    return total


def _findings(
    files: Sequence[RunFile], runs: Sequence[MeasuredRun], curve: Sequence[CurvePoint]
) -> tuple[Finding, ...]:
    where: dict[tuple[str, str], list[str]] = {}
    for file in files:
        for finding in file.findings:
            where.setdefault((finding.code, finding.message), []).append(file.file)
    for run in runs:
        for finding in run.findings:
            places = where.setdefault((finding.code, finding.message), [])
            if run.file not in places:
                places.append(run.file)
    several = len(files) > 1
    found = [
        Finding(code, f"{_named(places)}: {message}" if several else message)
        for (code, message), places in where.items()
    ]
    return (*found, *_about_curve(curve, runs))


def _named(places: Sequence[str]) -> str:
    return ", ".join(places[:2]) + (f" and {len(places) - 2} more" if len(places) > 2 else "")


def _about_curve(curve: Sequence[CurvePoint], runs: Sequence[MeasuredRun]) -> list[Finding]:
    found = []
    for point in curve:
        spread = _mixed(point)
        if spread is not None:
            message = (
                f"AL differs between windows by +-{spread:.2f} beyond chance, around {point.acceptance_length:.2f}: "
                "several workloads are mixed; measure each apart"
            )
            found.append(Finding("mixed_workloads", message))
        if point.draft_length is None:
            message = f"AL {point.acceptance_length:.2f} at a draft length that the file does not say: --draft-length N"
            found.append(Finding("draft_length_unknown", message))
    if not curve:
        held = "step times" if any(run.step_s is not None for run in runs) else "nothing else of use"
        found.append(
            Finding("no_acceptance", f"no acceptance in what was read, {held}; `specdec calibrate` takes times")
        )
    workloads = dict.fromkeys((point.model, point.workload) for point in curve)
    if len(workloads) > 1:
        message = f"kept apart: {named_workloads(workloads)}; --workload chooses one"
        found.append(Finding("several_workloads", message))
    return found


def named_workloads(pairs: Iterable[tuple[str | None, str | None]]) -> str:
    """(model, workload) pairs in words."""
    return ", ".join(" ".join(part for part in pair if part) or "unnamed" for pair in pairs)


def _mixed(point: CurvePoint) -> float | None:
    """Spread of AL between windows, where it is more than one workload's."""
    windows = _windows(point.runs)
    gain = point.acceptance_length - 1.0
    if windows is None or windows.count < FEWEST_MIXED or gain <= 0:
        return None
    if point.per_position:
        variance = iteration_variance(point.per_position)
    elif point.draft_length is not None:
        variance = largest_variance(gain, point.draft_length)
    else:
        variance = gain * (1 + gain)  # a geometric run of acceptances without an end
    spread = window_spread(windows, variance)
    return spread if spread > MIXED_SPREAD * gain else None
