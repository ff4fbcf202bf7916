"""vLLM's JSON: the speculation metrics of a response, and the result of `vllm bench serve`.

Response field `metrics.speculative_decoding` (docs, acceptance metrics): index of `acceptance_histogram` = draft tokens
accepted, so a_i = sum of h_j for j >= i over the sum of h. `vllm bench serve --save-result` (vllm/benchmarks/serve.py):
`spec_decode_acceptance_rate` is a percentage, per-position rates are fractions; the keys are absent without speculation
and also where /metrics could not be read. Streaming inter-token latency is per chunk, a chunk is a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specdec_cli.engines.read.json_objects import Entry, number, numbers_of, text_of
from specdec_cli.engines.read.pool import WindowPool, possible_draft_length, run_from, whole_draft_length
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import MeasuredRun

REQUEST, SERVE = "vllm-request", "vllm-bench-serve"

# Chunks of more than one token: inter-token latency (of chunks) over time per output token is the tokens of a chunk.
CHUNK_RATIO = 1.15
# A mean inter-token latency this far above the median holds prompts of other requests that were taken in between.
PREFILL_RATIO = 1.1

_DRAFT_LENGTH_KEYS = ("num_speculative_tokens", "speculative_num_steps", "max_draft_len", "draft_length")


def speculation_of(data: dict[str, Any]) -> dict[str, Any] | None:
    """The speculation metrics of a response object; None where it has none."""
    metrics = data.get("metrics")
    inner = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    for found in (inner, data.get("speculative_decoding"), data):
        if isinstance(found, dict) and ("acceptance_histogram" in found or "num_spec_steps" in found):
            return found
    return None


def read_requests(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """Responses of one draft length as one run; each is a window.

    Raises ProfileError for a histogram that contradicts itself.
    """
    pools: dict[int, WindowPool] = {}
    for line, data in entries:
        found = speculation_of(data)
        if found is None:
            continue
        histogram = numbers_of(found.get("acceptance_histogram")) or ()
        steps = sum(histogram) if histogram else number(found, "num_spec_steps")
        accepted = number(found, "num_accepted_draft_tokens")
        if histogram:
            accepted = sum(index * count for index, count in enumerate(histogram))
        if not steps or accepted is None:
            continue
        drafted = number(found, "num_draft_tokens") or 0.0
        length = int(number(found, "num_spec_tokens") or 0) or len(histogram) - 1
        if length < 1:
            length = whole_draft_length(drafted, steps) or 0
        length = possible_draft_length(length, file, line)
        stated = number(found, "mean_acceptance_length")
        if stated is not None and abs(stated - 1 - accepted / steps) > 0.01:
            message = f"mean_acceptance_length {stated:g}, but its counters give {1 + accepted / steps:.3f}"
            raise ProfileError(
                message, file=file, line=line, hint="the object was edited, or its fields mean other things"
            )
        rates = [sum(histogram[index:]) / steps for index in range(1, length + 1)] if histogram else None
        pool = pools.setdefault(length, WindowPool())
        pool.at(line)
        pool.accept(steps, accepted, drafted, rates)
        usage = data.get("usage")
        if isinstance(usage, dict):
            prompt, answer = number(usage, "prompt_tokens"), number(usage, "completion_tokens")
            if prompt is not None and answer is not None:
                pool.held(prompt + answer / 2, steps)
    return [
        run_from(pool, file=file, format=REQUEST, engine="vllm", draft_length=length or None)
        for length, pool in sorted(pools.items())
    ]


def read_bench_serve(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """One run an object.

    Raises ProfileError for a rate alone, or an arm marked as off that drafted.
    """
    return [_serve(file, line, data) for line, data in entries]


def _serve(file: str, line: int, data: dict[str, Any]) -> MeasuredRun:
    itl, median = number(data, "mean_itl_ms"), number(data, "median_itl_ms")
    tpot = number(data, "mean_tpot_ms")
    rates = numbers_of(data.get("spec_decode_per_position_acceptance_rates"))
    drafts, drafted = number(data, "spec_decode_num_drafts"), number(data, "spec_decode_draft_tokens")
    accepted, length = number(data, "spec_decode_accepted_tokens"), number(data, "spec_decode_acceptance_length")
    said = number(data, *_DRAFT_LENGTH_KEYS)
    if drafts and accepted is not None:
        length = 1.0 + accepted / drafts
    step, basis = (itl, "mean inter-token latency: one chunk a step") if itl else (None, "")
    busy = bool(itl and median and itl > PREFILL_RATIO * median)
    if busy and median:
        step, basis = median, "median inter-token latency: one chunk a step"
    draft_length = len(rates) if rates else whole_draft_length(drafted, drafts)
    if draft_length is None and said is not None:
        draft_length = int(said)
    run = MeasuredRun(
        file=file,
        format=SERVE,
        engine=_engine(data),
        first_line=line,
        label=text_of(data, "label") or "",
        workload=text_of(data, "dataset_name", "dataset"),
        model=text_of(data, "model_id"),
        batch=_concurrency(data),
        draft_length=draft_length,
        acceptance_length=length,
        per_position=rates,
        iterations=drafts,
        accepted_tokens=accepted,
        drafted_tokens=drafted,
        step_s=step / 1e3 if step else None,
        step_basis=basis,
        output_tokens_per_s=number(data, "output_throughput"),
        context_tokens=context_of(data, "total_input_tokens", "total_output_tokens"),
    )
    if busy:
        message = f"mean inter-token latency {itl:.3g} ms over a median of {median:.3g}: prompts ran in between"
        run = run.found("prefill_heavy", f"{message}; the median was taken as the step")
    rate = number(data, "spec_decode_acceptance_rate")
    if length is None and rate is None and not drafts:
        return _without_counters(run, said, itl, tpot)
    if said == 0:
        raise run.refused("marked as draft length 0, but it counts drafts", "the base needs speculation off")
    return _with_rate(run, rate)


def _without_counters(run: MeasuredRun, said: float | None, itl: float | None, tpot: float | None) -> MeasuredRun:
    """No speculation keys: off, or /metrics could not be read. Chunks of several tokens tell."""
    if itl and tpot and itl > CHUNK_RATIO * tpot:
        run = replace(run, acceptance_length=itl / tpot)
        if said == 0:
            raise run.refused(f"marked as draft length 0, but a chunk held {itl / tpot:.2f} tokens")
        message = (
            f"no speculation keys, but a chunk held {itl / tpot:.2f} tokens: it speculated and /metrics could not be "
            "read; AL taken as inter-token latency / time per output token"
        )
        return run.found("chunks_counted", message)
    if said == 0:
        return replace(run, draft_length=0, acceptance_length=1.0)
    message = (
        "no speculation keys: it was off, or /metrics could not be read; `specdec calibrate --off FILE` takes it as off"
    )
    return run.found("speculation_not_stated", message)


def _with_rate(run: MeasuredRun, rate: float | None) -> MeasuredRun:
    """Percent or fraction: what the counters say decides; with no counters, D and AL do."""
    if rate is None:
        return run
    known = None
    if run.drafted_tokens and run.accepted_tokens is not None:
        known = run.accepted_tokens / run.drafted_tokens
    elif run.acceptance_length is not None and run.draft_length:
        known = (run.acceptance_length - 1) / run.draft_length
    if known is None:
        if run.acceptance_length is not None:
            return run
        if run.draft_length and rate > 1:
            return replace(run, acceptance_length=1 + run.draft_length * rate / 100)
        raise run.refused(
            f"a bare acceptance rate of {rate:g}: a percentage or a fraction, and without a draft length no AL",
            "spec_decode_acceptance_length or the counters beside it would do",
        )
    if abs(rate - known) < 0.01 and abs(rate / 100 - known) > 0.001:
        return run.found("rate_as_fraction", f"the rate {rate:g} is stored as a fraction, vLLM itself writes percent")
    if abs(rate / 100 - known) > 0.01:
        message = f"acceptance rate {rate:g} % beside counters that give {100 * known:.1f} %: the counters were taken"
        return run.found("rate_contradicts", message)
    return run


def _engine(data: dict[str, Any]) -> str | None:
    backend = (text_of(data, "backend") or "").casefold()
    for word, family in (("sglang", "sglang"), ("tensorrt", "tensorrt-llm"), ("vllm", "vllm")):
        if word in backend:
            return family
    return None


def _concurrency(data: dict[str, Any]) -> float | None:
    """The cap on concurrency where the prompts suffice to reach it, else Little's law over the decoding time."""
    most, prompts = number(data, "max_concurrency"), number(data, "num_prompts", "completed")
    if most:
        return min(most, prompts) if prompts else most
    speed, tpot = number(data, "output_throughput"), number(data, "mean_tpot_ms")
    return speed * tpot / 1e3 if speed and tpot else None


def context_of(data: dict[str, Any], inputs: str, outputs: str, requests: str = "completed") -> float | None:
    """Mean tokens in the cache of a decoding request: its prompt and half of its answer."""
    taken, given, count = number(data, inputs), number(data, outputs), number(data, requests)
    return (taken + given / 2) / count if taken is not None and given is not None and count else None
