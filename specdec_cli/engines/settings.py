"""Settings to paste into serving engines, and their readers: one table of functions over the engines.

D means the same everywhere: vLLM num_speculative_tokens = SGLang speculative-num-steps (topk 1, and draft tokens D + 1)
= TensorRT-LLM max_draft_len = llama.cpp --spec-draft-n-max.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast, get_args

from specdec_cli.engines import llama_cpp, sglang, tensorrt_llm, vllm
from specdec_cli.engines.setting_records import (
    OPEN_END,
    Parts,
    ReadSetting,
    Request,
    ScheduleRange,
    Setting,
    normalised,
    not_in_engine,
    schedule_fault,
)
from specdec_cli.errors import UsageError, did_you_mean
from specdec_cli.profiles.schema import KvDtype, Mechanism

__all__ = [
    "FAMILIES",
    "OPEN_END",
    "ReadSetting",
    "ScheduleRange",
    "Setting",
    "normalised",
    "read_settings",
    "settings_for",
]

_WRITERS: dict[str, Callable[[Request], Setting]] = {
    "vllm": vllm.write,
    "sglang": sglang.write,
    "tensorrt-llm": tensorrt_llm.write,
    "llama-cpp": llama_cpp.write,
}
_READERS: dict[str, Callable[[Parts], ReadSetting]] = {
    "vllm": vllm.read,
    "sglang": sglang.read,
    "tensorrt-llm": tensorrt_llm.read,
    "llama-cpp": llama_cpp.read,
}
_HAVE: dict[str, tuple[str, str, dict[Mechanism, str]]] = {
    "vllm": (vllm.ENGINE, vllm.VERSION, vllm.METHODS),
    "sglang": (sglang.ENGINE, sglang.VERSION, sglang.METHODS),
    "tensorrt-llm": (tensorrt_llm.ENGINE, tensorrt_llm.VERSION, tensorrt_llm.METHODS),
    "llama-cpp": (llama_cpp.ENGINE, llama_cpp.VERSION, llama_cpp.METHODS),
}
_ALIASES = {"trtllm": "tensorrt-llm"}
FAMILIES = tuple(_WRITERS)


def settings_for(
    family: str,
    *,
    mechanism: str,
    draft_length: int,
    drafter_id: str | None,
    schedule: Sequence[ScheduleRange] | None = None,
    target_id: str,
    tp: int,
    data_parallel: int = 1,
    block: int | None = None,
    tree_topk: int | None = None,
    verify_width: int | None = None,
    ep: int = 1,
    kv_dtype: str | None = None,
    running_requests: int | None = None,
    old_schedule: bool = False,
    zero_steps: bool = False,
) -> Setting:
    """The setting of one engine for a chosen draft length, or for a schedule of them.

    draft_length: D in tokens, 0 for off; beside a schedule it is what holds where the engine cannot take the schedule
    (0 there: the schedule's largest). drafter_id: Hugging Face id, path or name; None for native MTP and look-ups.
    tp: GPUs a rank; data_parallel: ranks. block: tokens in a block drafter's trained block. tree_topk above 1: a tree
    of that breadth with `verify_width` verified tokens (root included); a chain's width is D + 1 whatever is given.
    ep: groups that the experts are divided among. kv_dtype: of the KV cache, None for the engine's own choice.
    running_requests: the batch, where it is known.
    old_schedule: TensorRT-LLM only, draft_len_schedule for releases before pull request 10860. zero_steps: SGLang only,
    D = 0 as candidate_steps [0], for builds with pull request 23994.

    Raises UsageError for an unknown engine or mechanism, a schedule with gaps, numbers out of range. A mechanism that
    the engine lacks is no error: the setting's text is empty and its warning `mechanism_not_in_engine` says so.
    """
    name = _family(family)
    _check_numbers(draft_length=(draft_length, 0), tp=(tp, 1), data_parallel=(data_parallel, 1), ep=(ep, 1))
    if old_schedule and name != "tensorrt-llm":
        raise UsageError(f"only TensorRT-LLM has an older form of the schedule, not {name}")
    if zero_steps and name != "sglang":
        raise UsageError(f"candidate_steps of 0 are SGLang's, not {name}'s")
    merged, computed_to, fixed = _schedule(schedule, draft_length)
    request = Request(
        mechanism=_mechanism(mechanism),
        draft_length=fixed,
        drafter_id=drafter_id,
        schedule=merged,
        computed_to=computed_to,
        target_id=target_id,
        tp=tp,
        data_parallel=data_parallel,
        block=block,
        tree_topk=tree_topk,
        verify_width=verify_width,
        ep=ep,
        kv_dtype=cast(KvDtype | None, kv_dtype),
        running_requests=running_requests,
        old_schedule=old_schedule,
        zero_steps=zero_steps,
    )
    engine, version, methods = _HAVE[name]
    if not request.off and request.mechanism not in methods:
        return not_in_engine(engine, version, request.mechanism, list(methods))
    return _WRITERS[name](request)


def read_settings(family: str, source: str | Mapping[str, str], *, old_schedule: bool = False) -> ReadSetting:
    """What an engine's settings say: (largest D, schedule or None, mechanism or None).

    source: one text, or {file name: content} (SGLang: a command and its adaptive file). A schedule is in normal form:
    neighbours of equal D merged, its last range closed at OPEN_END. old_schedule: TensorRT-LLM files for releases that
    read the keys as lower bounds. Raises UsageError for an unknown engine, ProfileError for settings that the engine
    would refuse or that cannot be read.
    """
    name = _family(family)
    parts: Parts = [(None, source)] if isinstance(source, str) else list(source.items())
    if old_schedule:
        if name != "tensorrt-llm":
            raise UsageError(f"only TensorRT-LLM has an older form of the schedule, not {name}")
        return tensorrt_llm.read(parts, old_schedule=True)
    return _READERS[name](parts)


def _family(family: str) -> str:
    folded = family.casefold()
    name = _ALIASES.get(folded, folded)
    if name not in _WRITERS:
        raise UsageError(_unknown("engine", family, FAMILIES))
    return name


def _mechanism(mechanism: str) -> Mechanism:
    known: tuple[str, ...] = get_args(Mechanism)
    if mechanism not in known:
        raise UsageError(_unknown("mechanism", mechanism, known))
    return cast(Mechanism, mechanism)


def _unknown(kind: str, name: str, known: Sequence[str]) -> str:
    return f"unknown {kind} {name!r}; {did_you_mean(name, known) or 'known: ' + ', '.join(known)}"


def _check_numbers(**numbers: tuple[int, int]) -> None:
    for name, (value, least) in numbers.items():
        if value < least:
            raise UsageError(f"{name} must be {least} or more, got {value}")


def _schedule(
    schedule: Sequence[ScheduleRange] | None, draft_length: int
) -> tuple[tuple[ScheduleRange, ...] | None, int | None, int]:
    """(merged schedule, the batch it was computed to, the D without it); one range alone is no schedule."""
    if schedule is None:
        return None, None, draft_length
    fault = schedule_fault(schedule)
    if fault is not None:
        raise UsageError(fault)
    merged = normalised(schedule)
    if len(merged) == 1:
        return None, None, merged[0].draft_length
    return merged, schedule[-1].batch_to, draft_length or max(part.draft_length for part in merged)
