"""Per-step traces: how many tokens each verify step accepted, position by position.

SpecDecode-Bench/simulator: `acc_*.acc_len[i]` = tokens that a step starting at output position i would yield; a draft
length D is replayed by walking the list, step = min(acc_len, D + 1). Detailed request lists: `per_step_accepted` (and
`per_step_drafted`), one entry a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specdec_cli.engines.read.json_objects import Entry, numbers_of
from specdec_cli.engines.read.pool import WindowPool, possible_draft_length, run_from
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import MeasuredRun

FORMAT = "trace"
LONGEST_DRAFT = 16
"""Draft lengths replayed; further ones cost time and interest nobody who decides between 0 and 8."""
REPEATED_SHARE = 0.5


def is_trace(data: dict[str, Any]) -> bool:
    """Whether the object holds accepted lengths step by step."""
    return "per_step_accepted" in data or any(_lengths(value) is not None for value in data.values())


def _lengths(value: object) -> tuple[float, ...] | None:
    return numbers_of(value.get("acc_len")) if isinstance(value, Mapping) else None


def read_traces(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """Recorded traces as one run for each drafter and draft length replayed; each request is a window.

    Raises ProfileError for a step that accepted more than was drafted.
    """
    replays: dict[str, list[tuple[int, tuple[float, ...]]]] = {}
    recorded: dict[int, WindowPool] = {}
    prompts: list[int] = []
    for line, data in entries:
        if (prompt := data.get("prompt_token_ids")) is not None:
            prompts.append(hash(str(prompt)))
        for name, value in data.items():
            lengths = _lengths(value)
            if lengths is not None:
                replays.setdefault(name.removeprefix("acc_"), []).append((line, lengths))
        accepted = numbers_of(data.get("per_step_accepted"))
        if accepted is not None:
            _recorded(file, line, accepted, numbers_of(data.get("per_step_drafted")), recorded)
    runs = [run for name, lists in replays.items() for run in _replayed(file, name, lists)]
    for length, pool in sorted(recorded.items()):
        runs.append(run_from(pool, file=file, format=FORMAT, draft_length=length))
    if len(prompts) > 1 and len(set(prompts)) < REPEATED_SHARE * len(prompts):
        message = f"{len(prompts)} requests, {len(set(prompts))} different prompts: the same text was measured again"
        runs = [run.found("repeated_prompts", message) for run in runs]
    return runs


def _recorded(
    file: str,
    line: int,
    accepted: tuple[float, ...],
    drafted: tuple[float, ...] | None,
    pools: dict[int, WindowPool],
) -> None:
    if drafted is not None and len(drafted) == len(accepted):
        if any(a > d for a, d in zip(accepted, drafted, strict=True)):
            raise ProfileError("a step accepted more tokens than were drafted", file=file, line=line)
        kept = [a for a, d in zip(accepted, drafted, strict=True) if d >= 0]
        length, total = possible_draft_length(max(drafted), file, line), sum(drafted)
    else:
        kept, length, total = list(accepted), possible_draft_length(max(accepted), file, line), 0.0
    if length < 1:
        return
    pool = pools.setdefault(length, WindowPool())
    pool.at(line)
    n = len(kept)
    rates = [sum(1 for a in kept if a >= i) / n for i in range(1, length + 1)]
    pool.accept(float(n), float(sum(kept)), total, rates)


def _replayed(file: str, name: str, lists: list[tuple[int, tuple[float, ...]]]) -> list[MeasuredRun]:
    longest = int(max(max(lengths) for _, lengths in lists)) - 1
    runs = []
    for draft_length in range(1, min(longest, LONGEST_DRAFT) + 1):
        pool = WindowPool()
        for line, lengths in lists:
            pool.at(line)
            counts = _walk(lengths, draft_length)
            n = sum(counts)
            accepted = sum(index * count for index, count in enumerate(counts))
            rates = [sum(counts[i:]) / n for i in range(1, draft_length + 1)]
            pool.accept(float(n), float(accepted), float(n * draft_length), rates)
        runs.append(run_from(pool, file=file, format=FORMAT, label=name, workload=name, draft_length=draft_length))
    return runs


def _walk(lengths: Sequence[float], draft_length: int) -> list[int]:
    """Steps by draft tokens accepted, at one draft length."""
    counts = [0] * (draft_length + 1)
    at, end = 0, len(lengths)
    while at < end:
        step = max(1, min(int(lengths[at]), draft_length + 1))
        counts[step - 1] += 1
        at += step
    return counts
