"""The runs to make for a calibration, as each engine's own commands: off, the shortest draft, the longest.

Forced acceptance measures what a step costs without a drafter that is worth its name: step time does not depend on
which tokens are accepted. vLLM: rejection_sample_method synthetic (config/speculative.py @002e77c); SGLang: the
variable SGLANG_SIMULATE_ACC_LEN (its page of environment variables); TensorRT-LLM:
TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS (_torch/speculative/interface.py), which counts without the bonus token, in
whole tokens (newer release candidates take fractions, older ones read those as 0); llama.cpp: --spec-synth-len, with
the bonus token, of llama-server since PR 27711 (2026-08, build b10734 by one account). Checked 2026-11-30.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specdec_cli.engines.settings import FAMILIES, settings_for
from specdec_cli.engines.tensorrt_llm import server_gpus
from specdec_cli.errors import UsageError, did_you_mean

PROMPTS = "prompts.jsonl"
ANSWER_TOKENS = 512
"""Of each request: long enough that decoding outlasts the prompt."""
ROUNDS = 4
"""Requests of the batch one after the other: the first warms up."""
FORCED_NOTE = (
    "A forced run measures what a step costs and nothing else: its acceptance length is invented, so take that from "
    "elsewhere."
)
_NOT_IN_TEXT = ("ep_not_pasted", "kv_dtype_not_in_engine", "one_rank_only", "no_data_parallel_attention")
"""Warnings of a setting whose runs would measure another layout than the one that was asked for."""
START_S = 180.0
"""Loading weights and capturing graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What is to be measured."""

    family: str
    mechanism: str
    target_id: str
    drafter_id: str | None
    tp: int
    data_parallel: int
    batch: int
    draft_lengths: tuple[int, ...]
    """Rising, 0 first."""
    accepted: tuple[float, ...]
    """The AL to force at each, 1 for off."""
    interactivity: tuple[float, ...]
    """Tokens/s/user that the profiles expect at each."""
    block: int | None = None
    ep: int = 1
    kv_dtype: str | None = None
    """Of the KV cache, where it was asked for."""


@dataclass(frozen=True, slots=True)
class PlanRun:
    """One run."""

    draft_length: int
    server: str
    """Command, or flags and file as the engine takes them."""
    client: str
    """What to run beside it, and what writes the result; empty: the server's command does both."""
    forced: str
    """Change that forces an acceptance; empty: the engine has none, or speculation is off."""
    result: str
    """File to feed back."""
    seconds: float
    """About how long it takes, start included."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs, how to feed them back, and what to know."""

    engine: str
    runs: tuple[PlanRun, ...]
    notes: tuple[str, ...]

    @property
    def feed_back(self) -> str:
        """The files as `specdec calibrate` takes them."""
        on = [run for run in self.runs if run.draft_length]
        off = [f"--off {run.result}" for run in self.runs if not run.draft_length]
        return " ".join([*(run.result for run in on), *off])


def plan_runs(request: PlanRequest) -> Plan:
    """The plan for an engine. Raises UsageError for one without commands, or a mechanism that it lacks."""
    if request.family not in _WRITERS:
        hint = did_you_mean(request.family, _WRITERS) or f"known: {', '.join(FAMILIES)}"
        raise UsageError(f"--plan has no commands for the engine {request.family!r}; {hint}")
    runs, said = [], []
    for length, accepted, speed in zip(request.draft_lengths, request.accepted, request.interactivity, strict=True):
        setting = settings_for(
            request.family,
            mechanism=request.mechanism,
            draft_length=length,
            drafter_id=request.drafter_id,
            target_id=request.target_id,
            tp=request.tp,
            data_parallel=request.data_parallel,
            block=request.block,
            ep=request.ep,
            kv_dtype=request.kv_dtype,
            running_requests=request.batch,
        )
        said += [message for code, message in setting.warnings if code in _NOT_IN_TEXT]
        if not setting.text:
            raise UsageError("; ".join(message for _, message in setting.warnings))
        server, client, forced, result = _WRITERS[request.family](request, setting.text, length, accepted)
        seconds = START_S + ROUNDS * ANSWER_TOKENS / speed
        runs.append(PlanRun(length, server, client, forced if length else "", result, seconds))
    notes = (*_NOTES[request.family], *dict.fromkeys(said))
    if any(run.forced for run in runs):
        notes = (*notes, FORCED_NOTE)
    return Plan(request.family, tuple(runs), notes)


Commands = tuple[str, str, str, str]


def _name(length: int) -> str:
    return f"d{length}" if length else "off"


def _vllm(request: PlanRequest, text: str, length: int, accepted: float) -> Commands:
    result = f"vllm-{_name(length)}.json"
    client = (
        f"vllm bench serve --model {request.target_id} --dataset-name custom --dataset-path {PROMPTS} "
        f"--custom-output-len {ANSWER_TOKENS} --ignore-eos --max-concurrency {request.batch} "
        f"--num-prompts {ROUNDS * request.batch} --save-result --result-filename {result} "
        f"--metadata num_speculative_tokens={length}"
    )
    forced = text.replace(
        f'"num_speculative_tokens": {length}',
        f'"num_speculative_tokens": {length}, "rejection_sample_method": "synthetic", '
        f'"synthetic_acceptance_length": {accepted:.2f}',
    )
    return text, client, forced, result


def _sglang(request: PlanRequest, text: str, length: int, accepted: float) -> Commands:
    result = f"sglang-{_name(length)}.log"
    client = (
        f"python3 -m sglang.bench_serving --backend sglang --dataset-name custom --dataset-path {PROMPTS} "
        f"--max-concurrency {request.batch} --num-prompts {ROUNDS * request.batch}"
    )
    server = f"{text.rstrip()} \\\n  --decode-log-interval 20 2>&1 | tee {result}"
    lines = server.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("python3"))
    forced = "\n".join([*lines[:at], f"SGLANG_SIMULATE_ACC_LEN={accepted:.2f} {lines[at]}", *lines[at + 1 :]])
    return server, client, forced, result


def _tensorrt_llm(request: PlanRequest, text: str, length: int, accepted: float) -> Commands:
    result, config = f"trtllm-{_name(length)}.json", f"trtllm-{_name(length)}.yaml"
    body = "\n".join(line for line in text.splitlines() if not line.startswith("# trtllm-serve"))
    gpus = server_gpus(request.tp, request.data_parallel)
    server = f"cat > {config} <<'EOF'\n{body.rstrip()}\nEOF"
    client = (
        f"trtllm-bench --model {request.target_id} throughput --dataset {PROMPTS} --tp {gpus} "
        f"--concurrency {request.batch} --num_requests {ROUNDS * request.batch} --streaming --config {config} "
        f"--report_json {result}"
    )
    # It counts accepted drafts, without the bonus token, and whole ones.
    forced = f"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS={max(1, round(accepted - 1))} {client}"
    return server, client, forced, result


def _llama_cpp(request: PlanRequest, text: str, length: int, accepted: float) -> Commands:
    result = f"llama-{_name(length)}.jsonl"
    flags = re.sub(r"\s*\\?\n\s*", " ", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    server = f"llama-server -m TARGET.gguf --port 8080 {flags.strip()}"
    body = f"{{prompt: $p, n_predict: {ANSWER_TOKENS}, cache_prompt: false}}"
    client = (
        f"while IFS= read -r prompt; do jq -nc --arg p \"$prompt\" '{body}' | "
        f"curl -s http://localhost:8080/completion -d @- >> {result}; echo >> {result}; done < prompts.txt"
    )
    forced = f"{server} --spec-synth-len {accepted:.2f}"
    return server, client, forced, result


_WRITERS: dict[str, Callable[[PlanRequest, str, int, float], Commands]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt-llm": _tensorrt_llm,
    "llama-cpp": _llama_cpp,
}
_PROMPTS_NOTE = (
    f"{PROMPTS} holds your own prompts, all different: random tokens are hardly accepted, and repeated prompts come "
    "from the prefix cache."
)
_NOTES: dict[str, tuple[str, ...]] = {
    "vllm": (
        _PROMPTS_NOTE,
        'Each line of it: {"prompt": "..."}. The mean inter-token latency of the result is the step.',
    ),
    "sglang": (
        _PROMPTS_NOTE,
        "The server's own log is the result: batch, accept length, throughput and graphs of every interval.",
    ),
    "tensorrt-llm": (
        _PROMPTS_NOTE,
        "trtllm-bench's file of prompts has one JSON object a line with task_id, prompt and output_tokens.",
    ),
    "llama-cpp": (
        "prompts.txt holds a prompt a line, all different. The server answers one request at a time: batch 1.",
        "--spec-synth-len needs a build since PR 27711 (end of August 2026, about b10734); an older one refuses it.",
        "The target's passes alone, as a curve that keeps its stairs: llama-bench -m TARGET.gguf -p "
        "1,2,3,4,5,6,8,12,16 -n 128 -o jsonl > llama-bench.jsonl; specdec calibrate takes that file beside the three "
        "runs. Where kernels have stairs (CPUs) the steps between the measured draft lengths come out nearer with it.",
    ),
}


def whole_plan_s(runs: Sequence[PlanRun]) -> float:
    """About how long all of them take."""
    return sum(run.seconds for run in runs)
