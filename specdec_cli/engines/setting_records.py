"""What every writer and reader of engine settings shares: the records, the checks of a schedule, the parsing of flags.

Draft lengths are tokens proposed per target iteration (D); batches are requests decoding together on one replica (B).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from specdec_cli.errors import ProfileError, did_you_mean
from specdec_cli.profiles.schema import KvDtype, Mechanism

OPEN_END = 65_536
"""Where the last range of a schedule is closed: above any engine's limit on running requests, so "and more"."""

DRAFTER_PLACEHOLDER = "DRAFTER_ID"
"""Stands where an engine wants a drafter's path and none is known; always with the warning `drafter_missing`."""

Warnings = list[tuple[str, str]]
"""(stable code, why it matters and what to do)."""


@dataclass(frozen=True)
class ScheduleRange:
    """One draft length for a range of batches."""

    batch_from: int
    batch_to: int
    """Inclusive."""
    draft_length: int
    """0: no draft tokens in this range."""


@dataclass(frozen=True)
class Setting:
    """What to paste into one serving engine."""

    engine: str
    engine_version: str
    """The version that the form was checked against."""
    title: str
    text: str
    """Exactly what to paste: a command, flags, or YAML. Empty where the engine cannot do it; `warnings` says why."""
    data: dict[str, Any]
    """The same as data."""
    files: dict[str, str]
    """Files that `text` names, by suggested name."""
    warnings: Warnings


@dataclass(frozen=True)
class Request:
    """What a setting is asked for, checked by `settings.settings_for`; the schedule is in normal form."""

    mechanism: Mechanism
    draft_length: int
    """The one D to use where no schedule is given, or the engine cannot take it."""
    drafter_id: str | None
    schedule: tuple[ScheduleRange, ...] | None
    computed_to: int | None
    """Largest batch that the schedule was computed for; the rest of its last range is carried forward."""
    target_id: str
    tp: int
    data_parallel: int
    block: int | None
    tree_topk: int | None
    verify_width: int | None
    ep: int = 1
    """Groups that the experts are divided among."""
    kv_dtype: KvDtype | None = None
    """Of the KV cache, where it was asked for; None: the engine's own choice."""
    running_requests: int | None = None
    """Requests that decode together, where the engine must be told to take so many."""
    old_schedule: bool = False
    """TensorRT-LLM: write draft_len_schedule for releases that read its keys as lower bounds."""
    zero_steps: bool = False
    """SGLang: write D = 0 as candidate_steps [0], for builds that take it."""

    @property
    def off(self) -> bool:
        return self.schedule is None and self.draft_length == 0

    @property
    def deepest(self) -> int:
        """Largest D that the engine must be ready for."""
        return max(part.draft_length for part in self.schedule) if self.schedule else self.draft_length

    @property
    def gpus(self) -> int:
        """GPUs of the replica."""
        return self.tp * self.data_parallel

    @property
    def tree(self) -> bool:
        return self.tree_topk is not None and self.tree_topk > 1

    def without_schedule(self) -> Request:
        return replace(self, schedule=None, computed_to=None)

    def without_tree(self) -> Request:
        return replace(self, tree_topk=None, verify_width=None)


class ReadSetting(NamedTuple):
    """What a reader found in an engine's settings."""

    draft_length: int
    """Largest D; 0: speculation is off."""
    schedule: tuple[ScheduleRange, ...] | None
    mechanism: Mechanism | None
    """None: off, or the file does not say (SGLang's adaptive file alone)."""


Parts = Sequence[tuple[str | None, str]]
"""(file name or None, content) of what a reader is given."""


# ------------------------------------------------------------------------------------------------ schedules


def schedule_fault(schedule: Sequence[ScheduleRange]) -> str | None:
    """What is wrong with a schedule, as a sentence; None: contiguous ranges from batch 1 with D >= 0."""
    if not schedule:
        return "the schedule has no ranges"
    expected = 1
    for part in schedule:
        if part.batch_from != expected:
            kind = "a gap or an overlap" if part is not schedule[0] else "the first range must start at 1"
            return f"expected a range that starts at batch {expected}, got {part.batch_from} ({kind})"
        if part.batch_to < part.batch_from:
            return f"range {part.batch_from} to {part.batch_to} ends before it starts"
        if part.draft_length < 0:
            return f"draft length {part.draft_length} of batches {part.batch_from} to {part.batch_to} is negative"
        expected = part.batch_to + 1
    return None


def normalised(schedule: Sequence[ScheduleRange]) -> tuple[ScheduleRange, ...]:
    """The normal form: neighbours of equal D merged, the last range closed at OPEN_END."""
    merged: list[ScheduleRange] = []
    for part in schedule:
        if merged and merged[-1].draft_length == part.draft_length:
            merged[-1] = replace(merged[-1], batch_to=part.batch_to)
        else:
            merged.append(part)
    merged[-1] = replace(merged[-1], batch_to=max(merged[-1].batch_to, OPEN_END))
    return tuple(merged)


def from_lower_bounds(bounds: Mapping[int, int]) -> tuple[ScheduleRange, ...]:
    """{first batch of a range: D} as ranges; the last one is closed at OPEN_END."""
    starts = sorted(bounds)
    ends = [start - 1 for start in starts[1:]] + [max(OPEN_END, starts[-1])]
    return tuple(ScheduleRange(start, end, bounds[start]) for start, end in zip(starts, ends, strict=True))


def checked(
    schedule: Sequence[ScheduleRange], *, deepest: int, key: str, file: str | None
) -> tuple[ScheduleRange, ...]:
    """The schedule in normal form. Raises ProfileError where it has a fault or passes the engine's own maximum."""
    fault = schedule_fault(schedule)
    if fault is None:
        for part in schedule:
            if part.draft_length > deepest:
                fault = f"draft length {part.draft_length} is above the configured maximum of {deepest}"
    if fault is not None:
        raise ProfileError(fault, file=file, key=key)
    return normalised(schedule)


def batches(part: ScheduleRange) -> str:
    return f"{part.batch_from} and more" if part.batch_to >= OPEN_END else f"{part.batch_from} to {part.batch_to}"


# ------------------------------------------------------------------------------------- warnings of several engines


def schedule_warnings(request: Request) -> Warnings:
    """What holds for a schedule in every engine that takes one. Measured tax: vLLM pull request 51575, 2026-08-24."""
    warnings: Warnings = []
    if request.schedule is None:
        return warnings
    last = request.schedule[-1]
    if request.computed_to is not None and request.computed_to < last.batch_to and last.draft_length > 0:
        warnings.append(
            (
                "last_range_extended",
                f"The schedule was computed up to batch {request.computed_to}; its last range is written up to "
                f"{last.batch_to}, so larger batches keep D = {last.draft_length}. Sweep larger batches if they occur.",
            )
        )
    if any(part.draft_length == 0 for part in request.schedule):
        warnings.append(
            (
                "zero_in_schedule_is_not_off",
                "D = 0 inside a schedule is not speculation off: the drafter keeps its memory and may keep its state "
                "in step (7 to 22 % slower than a server without speculation in one vLLM report, pull request 51575). "
                "Where load stays in those batches, run a server without speculation.",
            )
        )
    return warnings


def drafter_or_placeholder(request: Request, warnings: Warnings) -> str:
    """The drafter's id, or a placeholder with its warning."""
    if request.drafter_id:
        return request.drafter_id
    warnings.append(
        (
            "drafter_missing",
            f"No id or path is known for this {request.mechanism} drafter: replace {DRAFTER_PLACEHOLDER} with yours.",
        )
    )
    return DRAFTER_PLACEHOLDER


def block_warnings(request: Request) -> Warnings:
    """Block drafters asked for more than they were trained on: DFlash drafts block - 1 (the first slot is the anchor),
    DSpark drafts block."""
    if request.block is None or request.mechanism not in ("dflash", "dspark"):
        return []
    trained = request.block - 1 if request.mechanism == "dflash" else request.block
    if request.deepest <= trained:
        return []
    return [
        (
            "beyond_trained_block",
            f"The drafter was trained on blocks of {request.block}, which draft {trained} tokens; D = "
            f"{request.deepest} is beyond that and acceptance there is unknown. Use D = {trained} or less.",
        )
    ]


def kv_dtype_of(request: Request, names: Mapping[KvDtype, str], engine: str, warnings: Warnings) -> str | None:
    """The engine's name for the KV cache's dtype; None: nothing to write, with a warning where the engine lacks it."""
    if request.kv_dtype is None:
        return None
    name = names.get(request.kv_dtype)
    if name is None:
        warnings.append(
            (
                "kv_dtype_not_in_engine",
                f"computed with a KV cache in {request.kv_dtype}, which {engine} does not offer: the text leaves its "
                f"own choice. It has: {', '.join(names)}.",
            )
        )
    return name


def experts_not_in_text(engine: str, request: Request, why: str) -> tuple[str, str]:
    return ("ep_not_pasted", f"computed with experts over {request.ep} GPUs (--ep), which {engine} cannot run: {why}")


def tree_not_in_engine(engine: str, request: Request) -> tuple[str, str]:
    return (
        "tree_not_in_engine",
        f"{engine} verifies chains with this mechanism: the setting is a chain of D = {request.deepest}. Its "
        "acceptance length is below the tree's; ask again without --tree-topk for figures that fit.",
    )


def not_in_engine(engine: str, version: str, mechanism: str, known: Sequence[str]) -> Setting:
    """The setting of a mechanism that the engine lacks: nothing to paste, and which mechanisms it has."""
    message = (
        f"{engine} ({version}) has no {mechanism} drafting, so there is nothing to paste. It has: "
        f"{', '.join(sorted(known))}. Choose one of them, or another engine."
    )
    return Setting(engine, version, f"{engine}: no {mechanism}", "", {}, {}, [("mechanism_not_in_engine", message)])


# ---------------------------------------------------------------------------------------------------- parsing


def whole(value: object, *, key: str, file: str | None, least: int = 0) -> int:
    """A whole number of at least `least` from a file or flag. Raises ProfileError."""
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and value.isascii() and value.isdigit():
        number = int(value)
    if number is None or number < least:
        raise ProfileError(f"expected a whole number of at least {least}, got {value!r}", file=file, key=key)
    return number


def mechanism_of(name: object, table: Mapping[str, Mechanism], *, key: str, file: str | None) -> Mechanism:
    """The mechanism that an engine's own name stands for, case ignored. Raises ProfileError with the nearest names."""
    folded = {own.casefold(): mechanism for own, mechanism in table.items()}
    text = str(name)
    if text.casefold() not in folded:
        raise ProfileError(
            f"unknown method {text!r}",
            file=file,
            key=key,
            hint=did_you_mean(text, table) or f"known: {', '.join(sorted(table))}",
        )
    return folded[text.casefold()]


def json_object(text: str, *, file: str | None) -> dict[str, Any]:
    """A JSON object with no key twice. Raises ProfileError."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ProfileError("the key stands twice", file=file, key=key)
            found[key] = value
        return found

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ProfileError(f"not JSON: {error.msg}", file=file, line=error.lineno) from error
    if not isinstance(value, dict):
        raise ProfileError(f"expected a JSON object, got {type(value).__name__}", file=file)
    return value


def flags_of(text: str, *, file: str | None) -> dict[str, str | None]:
    """The flags of a command line (`--name value`, `--name=value`, `-n value`); None: a flag without a value.

    Underscores in names are read as hyphens and the last of equal flags counts, as the engines' own parsers do.
    """
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise ProfileError(f"not a command line: {error}", file=file) from error
    flags: dict[str, str | None] = {}
    name: str | None = None
    for word in words:
        if word.startswith("-") and not word[1:2].isdigit() and len(word) > 1:
            name, _, value = word.partition("=")
            name = name.replace("_", "-")
            flags[name] = value if "=" in word else None
            if "=" in word:
                name = None
        elif name is not None:
            flags[name] = word
            name = None
    return flags


def needed(flags: Mapping[str, str | None], name: str, *, file: str | None) -> str:
    """The value of a flag that must have one. Raises ProfileError."""
    value = flags.get(name)
    if value is None:
        raise ProfileError("the flag has no value" if name in flags else "the flag is missing", file=file, key=name)
    return value


def only_part(parts: Parts) -> tuple[str | None, str]:
    """The one text of an engine that takes one. Raises ProfileError."""
    if len(parts) != 1:
        names = ", ".join(str(name) for name, _ in parts) or "none"
        raise ProfileError(f"expected one file or text, got {len(parts)} ({names})")
    return parts[0]


def command(words: Sequence[Sequence[str]]) -> str:
    """A shell command, one group of words a line, quoted."""
    return " \\\n  ".join(" ".join(shlex.quote(word) for word in group) for group in words if group)
