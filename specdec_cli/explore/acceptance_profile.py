"""A report -> an acceptance profile, the file that every command takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.explore.acceptance_report import AcceptanceReport, CurvePoint, named_workloads
from specdec_cli.profiles.schema import AcceptancePoint, AcceptanceProfile, Source

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
REFUSED = {
    "forced_acceptance": "the acceptance was forced: such a run measures cost, not acceptance",
    "draft_head_broken": "nothing was accepted: the draft head is broken or was not loaded",
}


def acceptance_profile(
    report: AcceptanceReport,
    *,
    name: str,
    target: str,
    drafter: str,
    data_set: str | None,
    measured_by: str,
    checked: str,
    temperature: float | None = None,
) -> AcceptanceProfile:
    """One profile of one workload.

    Args:
        name: the file's name without its ending. target, drafter: names of profiles. checked: today, YYYY-MM-DD.

    Raises:
        UsageError: several workloads, or a name that no profile may have. ProfileError: no point of a known draft
        length, forced acceptance, a broken draft head.
    """
    if NAME.fullmatch(name) is None:
        raise UsageError(
            f"--output {name}.yaml: a profile's name holds small letters, digits, dots, dashes and underscores only"
        )
    series = dict.fromkeys((point.model, point.workload) for point in report.curve)
    if len(series) > 1:
        raise UsageError(
            f"--output: {len(series)} workloads would share one profile ({named_workloads(series)}); "
            "--workload NAME chooses one"
        )
    points = _usable(report)
    workload = next(iter(series))[1]
    engines = sorted({run.engine for point in points for run in point.runs if run.engine})
    return AcceptanceProfile(
        format=1,
        name=name,
        target=target,
        drafter=drafter,
        data_set=data_set or workload or "not stated",
        temperature=temperature,
        measured_by=measured_by,
        engine=", ".join(engines) or None,
        points=[_point(point) for point in points],
        notes=_notes(report, points),
        sources={"*": Source(from_=_origin(report), checked=checked, kind="measured")},
    )


def _usable(report: AcceptanceReport) -> list[CurvePoint]:
    """The points that may go into a profile. Raises ProfileError where none may."""
    why = "no acceptance in the files"
    good = []
    for point in report.curve:
        refused = next((message for code, message in REFUSED.items() if point.has(code)), None)
        if refused is not None:
            why = refused
        elif not point.draft_length:
            why = "the draft length is not in the files: --draft-length N says it"
        else:
            good.append(point)
    chains = [point for point in good if point.verify_width is None]
    if chains:  # a tree's AL beside a chain's would be read as the same curve
        good = chains
    if not good:
        place = report.curve[0].runs[0].place if report.curve else report.files[0].file
        raise ProfileError(f"no profile can be written: {why}", file=place)
    return good


def _point(point: CurvePoint) -> AcceptancePoint:
    assert point.draft_length is not None
    rates = point.per_position if point.per_position and len(point.per_position) == point.draft_length else None
    return AcceptancePoint(
        draft_length=point.draft_length,
        acceptance_length=min(round(point.acceptance_length, 4), 1.0 + point.draft_length),
        per_position=[round(rate, 4) for rate in rates] if rates else None,
        per_position_kind="measured" if rates else None,
        verify_width=point.verify_width,
        iterations=round(point.iterations) if point.iterations and point.iterations >= 1 else None,
    )


def _origin(report: AcceptanceReport) -> str:
    parts = []
    for file in report.files:
        lines = [run.last_line for run in file.runs if run.last_line is not None]
        starts = [run.first_line for run in file.runs if run.first_line is not None]
        where = f", lines {min(starts)} to {max(lines)}" if lines and starts and max(lines) > min(starts) else ""
        parts.append(f"{file.file} ({file.format}{where})")
    return "; ".join(parts)


def _notes(report: AcceptanceReport, points: Sequence[CurvePoint]) -> list[str]:
    notes = ["Written by specdec acceptance."]
    trees = [point for point in report.curve if point.verify_width is not None]
    if trees and points[0].verify_width is None:
        notes.append(f"Trees were measured too and left out: {len(trees)}; they need a profile of their own.")
    for point in points:
        if point.interval is not None:
            low, high, method = point.interval.low, point.interval.high, point.interval.method
            notes.append(f"D = {point.draft_length}: AL {low:.3f} to {high:.3f} at 95 % ({method}).")
    batches = sorted({batch for point in points for batch in point.batches})
    if batches:
        notes.append("Measured at batch " + ", ".join(f"{batch:g}" for batch in batches[:12]) + ".")
    contexts = [run.context_tokens for point in points for run in point.runs if run.context_tokens is not None]
    if contexts:
        notes.append(f"Mean context {min(contexts):.0f} to {max(contexts):.0f} tokens.")
    notes += [f"{finding.code}: {finding.message}" for finding in report.findings]
    return notes
