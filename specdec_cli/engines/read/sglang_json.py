"""SGLang's benchmark JSON lines, and SpecForge's.

bench_speculative.py: `step_time` in seconds, `acc_length` with the bonus token, `speed` for one request. bench_serving:
`accept_length` null without speculation; its inter-token latency is spread over tokens, so the step = time per output
token x AL. bench_one_batch_server: `acc_length` -1 without. bench_one_batch: no speculation, a base curve.
SpecForge bench_eagle3: num_draft_tokens null = off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specdec_cli.engines.read.json_objects import Entry, number, objects_in, text_of
from specdec_cli.engines.read.vllm_json import context_of
from specdec_cli.profiles.measured_run import MeasuredRun, as_off

SPECULATIVE, SERVING, ONE_BATCH, SPECFORGE = (
    *("sglang-bench-speculative", "sglang-bench-serving", "sglang-bench-one-batch"),
    "specforge",
)


def read_bench_speculative(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """One run an object. Raises ProfileError for an off row that drafted."""
    runs = []
    for line, data in entries:
        batch, steps = number(data, "batch_size"), number(data, "steps")
        topk, width = number(data, "topk"), number(data, "num_draft_tokens")
        length, step = number(data, "acc_length"), number(data, "step_time")
        speed = number(data, "speed")
        run = MeasuredRun(
            **_facts(file, SPECULATIVE, line),
            batch=batch,
            draft_length=int(steps) if steps is not None else None,
            verify_width=int(width) if topk and topk > 1 and width else None,
            acceptance_length=length,
            step_s=step or None,
            step_basis="step_time, its 20th percentile",
            output_tokens_per_s=speed * batch if speed and batch else None,
        )
        runs.append(as_off(run) if steps == 0 else run)
    return runs


def read_bench_serving(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """One run an object."""
    runs = []
    for line, data in entries:
        length, tpot = number(data, "accept_length"), number(data, "mean_tpot_ms")
        inputs = "total_input_tokens" if "total_input_tokens" in data else "total_input"
        outputs = "total_output_tokens" if "total_output_tokens" in data else "total_output"
        run = MeasuredRun(
            **_facts(file, SERVING, line),
            label=text_of(data, "tag") or "",
            workload=text_of(data, "dataset_name"),
            model=text_of(data, "model_id", "model"),
            batch=number(data, "concurrency", "max_concurrency"),
            draft_length=None if length is not None else 0,
            acceptance_length=length if length is not None else 1.0,
            step_s=tpot * (length or 1.0) / 1e3 if tpot else None,
            step_basis="mean time per output token x AL; prompts of other requests are in it",
            output_tokens_per_s=number(data, "output_throughput"),
            context_tokens=context_of(data, inputs, outputs),
        )
        runs.append(run)
    return runs


def read_one_batch(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """One run an object, of bench_one_batch or bench_one_batch_server."""
    runs = []
    for line, data in entries:
        batch, speed = number(data, "batch_size"), number(data, "output_throughput")
        length, latency = number(data, "acc_length"), number(data, "median_decode_latency")
        taken, given = number(data, "input_len"), number(data, "output_len")
        off = latency is not None or length is None or length < 0
        step, basis = latency, "median decode latency"
        if step is None and batch and speed:
            step, basis = batch * (1.0 if off or not length else length) / speed, "batch x AL / output throughput"
        run = MeasuredRun(
            **_facts(file, ONE_BATCH, line),
            label=text_of(data, "run_name") or "",
            # Both draw random token ids unless a data set is named (sglang/bench_one_batch.py and its server twin).
            workload=text_of(data, "dataset_name") or "random",
            batch=batch,
            draft_length=0 if off else None,
            acceptance_length=1.0 if off else length,
            step_s=step,
            step_basis=basis,
            output_tokens_per_s=speed or number(data, "median_decode_throughput"),
            context_tokens=taken + given / 2 if taken is not None and given is not None else None,
            cached_prompt_share=number(data, "cache_hit_rate"),
        )
        runs.append(run)
    return runs


def read_specforge(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """One run for each bench and setting. Raises ProfileError for an off row that drafted."""
    runs = []
    for line, data in entries:
        for bench, settings in data.items():
            for setting in objects_in(settings):
                runs.append(_specforge(file, line, bench, setting))
    return runs


def is_specforge(data: dict[str, Any]) -> bool:
    """A model and, under the names of benches, settings with metrics."""
    return "model" in data and any("metrics" in one for value in data.values() for one in objects_in(value))


def _specforge(file: str, line: int, bench: str, setting: dict[str, Any]) -> MeasuredRun:
    metrics = list(objects_in(setting.get("metrics")))
    lengths = [value for one in metrics if (value := number(one, "accept_length")) is not None]
    speeds = [value for one in metrics if (value := number(one, "output_throughput")) is not None]
    batch, steps = number(setting, "batch_size"), number(setting, "steps")
    topk, width = number(setting, "topk"), number(setting, "num_draft_tokens")
    length = sum(lengths) / len(lengths) if lengths else None
    speed = sum(speeds) / len(speeds) if speeds else None
    run = MeasuredRun(
        **_facts(file, SPECFORGE, line),
        workload=bench,
        batch=batch,
        draft_length=int(steps) if width and steps is not None else None,
        verify_width=int(width) if width and topk and topk > 1 else None,
        acceptance_length=length,
        step_s=batch * length / speed if batch and length and speed else None,
        step_basis="batch x AL / output throughput; prompts are in it",
        output_tokens_per_s=speed,
    )
    return run if width else as_off(run)


def _facts(file: str, form: str, line: int) -> dict[str, Any]:
    return {"file": file, "format": form, "engine": "sglang", "first_line": line}
