"""TensorRT-LLM: the report of `trtllm-bench` (tensorrt_llm/bench/dataclasses/reporting.py).

Drafted tokens are counted as max_draft_len x iterations, so D = (AL - 1) / draft acceptance rate. Averages are over
requests, unweighted. Time per output token leaves the first token out, so the step = avg_tpot x AL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specdec_cli.engines.read.json_objects import Entry, mean_of, number, text_of
from specdec_cli.profiles.measured_run import MeasuredRun

FORMAT = "trtllm-bench"
_FORCED_FROM = 10
"""Requests from which on one and the same acceptance length in all of them is no accident."""


def read_reports(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """One run an object."""
    return [_report(file, line, data) for line, data in entries]


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def _report(file: str, line: int, data: dict[str, Any]) -> MeasuredRun:
    requests, speed, streaming = (_part(data, name) for name in ("request_info", "performance", "streaming_metrics"))
    stats = _part(data, "decoding_stats")
    lengths = stats.get("acceptance_length_percentiles")
    length, rate = mean_of(lengths), mean_of(stats.get("draft_acceptance_rate_percentiles"))
    count = number(requests, "num_requests")
    drafted, accepted = (mean_of(stats.get(f"num_{name}_tokens_percentiles")) for name in ("draft", "accepted_draft"))
    tpot = number(streaming, "avg_tpot_ms")
    taken, given = number(requests, "avg_input_length"), number(requests, "avg_output_length")
    off = not stats
    draft_length = 0 if off else None
    if length is not None and length > 1 and rate:
        draft_length = round((length - 1) / rate)
    run = MeasuredRun(
        file=file,
        format=FORMAT,
        engine="tensorrt-llm",
        first_line=line,
        label=text_of(stats, "mode") or "",
        model=text_of(_part(data, "engine"), "model"),
        batch=number(requests, "avg_num_concurrent_requests"),
        draft_length=draft_length,
        acceptance_length=1.0 if off else length,
        iterations=drafted * count / draft_length if drafted and count and draft_length else None,
        accepted_tokens=accepted * count if accepted is not None and count else None,
        drafted_tokens=drafted * count if drafted is not None and count else None,
        step_s=tpot * (1.0 if off else length or 1.0) / 1e3 if tpot and (off or length) else None,
        step_basis="time per output token x AL; prompts of other requests are in it",
        output_tokens_per_s=number(speed, "system_output_throughput_tok_s"),
        context_tokens=taken + given / 2 if taken is not None and given is not None else None,
    )
    if off:
        return run
    if draft_length:
        run = run.found("draft_length_derived", f"D = {draft_length} from (AL - 1) / draft acceptance rate")
    run = run.found("unweighted_mean", "the AL is a mean over requests, short ones count as much as long ones")
    low, high = mean_of(lengths, "minimum"), mean_of(lengths, "maximum")
    if count and count >= _FORCED_FROM and low is not None and low == high and low > 1:
        message = f"all {count:.0f} requests have the same AL: it looks forced, not measured"
        run = run.found("forced_acceptance", message)
    return run
