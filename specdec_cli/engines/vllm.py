"""vLLM: `--speculative-config`, with its schedule by batch size.

Read at vllm-project/vllm: vllm/config/{speculative,cache}.py (002e77c), docs/features/speculative_decoding (015a47e),
docs/serving/expert_parallel_deployment, vllm/v1/spec_decode/dynamic/utils.py. num_speculative_tokens = D.
In num_speculative_tokens_per_batch_size a range [first, last, K] is inclusive, the first starts at 1,
K <= num_speculative_tokens; past the last K is kept.
"""

from __future__ import annotations

import json
from typing import Any

from specdec_cli.engines.setting_records import (
    Parts,
    ReadSetting,
    Request,
    ScheduleRange,
    Setting,
    Warnings,
    batches,
    block_warnings,
    checked,
    command,
    drafter_or_placeholder,
    experts_not_in_text,
    flags_of,
    json_object,
    kv_dtype_of,
    mechanism_of,
    needed,
    only_part,
    schedule_warnings,
    tree_not_in_engine,
    whole,
)
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.schema import KvDtype, Mechanism

ENGINE = "vLLM"
VERSION = "main 002e77c, docs 015a47e (2026-09)"

METHODS: dict[Mechanism, str] = {
    "eagle": "eagle",
    "eagle3": "eagle3",
    "mtp": "mtp",
    "draft_model": "draft_model",
    "dflash": "dflash",
    "dspark": "dspark",
    "medusa": "medusa",
    "pard": "draft_model",  # with parallel_drafting
    "p_eagle": "eagle3",  # with parallel_drafting
    "ngram": "ngram",
    "suffix": "suffix",
}

_READ: dict[str, Mechanism] = {
    "eagle": "eagle",
    "eagle3": "eagle3",
    "mtp": "mtp",
    "draft_model": "draft_model",
    "dflash": "dflash",
    "dspark": "dspark",
    "medusa": "medusa",
    "ngram": "ngram",
    "ngram_gpu": "ngram",
    "suffix": "suffix",
}
_IN_PARALLEL: dict[Mechanism, Mechanism] = {"draft_model": "pard", "eagle": "p_eagle", "eagle3": "p_eagle"}
_WITHOUT_MODEL: tuple[Mechanism, ...] = ("mtp", "ngram", "suffix")
_SCHEDULE_TESTED: tuple[Mechanism, ...] = ("eagle", "eagle3", "dflash")
_RUNNER_V1: tuple[Mechanism, ...] = ("eagle", "eagle3", "mtp")
"""Whose schedule wants the first model runner: the documented EAGLE and EAGLE-3 commands set it, and the second one
drafts the full length whatever the schedule says for sequential drafters (issue 51510, seen with MTP)."""
_RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
_KV_DTYPES: dict[KvDtype, str] = {"bf16": "bfloat16", "fp16": "float16", "fp8": "fp8"}
_TOKENS = "num_speculative_tokens"
_SCHEDULE = "num_speculative_tokens_per_batch_size"


def write(request: Request) -> Setting:
    """The command of one vLLM server."""
    warnings: Warnings = []
    if request.off:
        return _setting(request, None, {}, warnings)
    if request.schedule is not None and request.data_parallel > 1:
        request = request.without_schedule()
        warnings.append(
            (
                "schedule_ignored_with_data_parallel",
                "vLLM switches the schedule off when --data-parallel-size is above 1 (ranks would disagree on D), so "
                f"it is left out and D = {request.draft_length} holds at every batch. For a schedule, run one server "
                "a rank behind a router.",
            )
        )
    config: dict[str, Any] = {"method": METHODS[request.mechanism]}
    if request.mechanism not in _WITHOUT_MODEL:
        config["model"] = drafter_or_placeholder(request, warnings)
    elif request.mechanism == "mtp" and request.drafter_id:
        config["model"] = request.drafter_id
    config[_TOKENS] = request.deepest
    if request.mechanism in ("pard", "p_eagle"):
        config["parallel_drafting"] = True
    environment: dict[str, str] = {}
    if request.schedule is not None:
        config[_SCHEDULE] = [[part.batch_from, part.batch_to, part.draft_length] for part in request.schedule]
        if request.mechanism in _RUNNER_V1:
            environment[_RUNNER_VARIABLE] = "0"
        warnings += _about_schedule(request)
    if request.tree:
        warnings.append(tree_not_in_engine(ENGINE, request))
    if request.mechanism == "suffix":
        warnings.append(
            (
                "draft_length_is_a_maximum",
                "Suffix decoding drafts as many tokens as its match allows, at most this D; the second model runner "
                "always verifies all D.",
            )
        )
    warnings += block_warnings(request)
    return _setting(request, config, environment, warnings)


def _about_schedule(request: Request) -> Warnings:
    warnings = schedule_warnings(request)
    if request.mechanism in _RUNNER_V1:
        warnings.append(
            (
                "graphs_downgraded_with_schedule",
                f"The command sets {_RUNNER_VARIABLE}=0: the second model runner ignores the schedule of sequential "
                "drafters in versions seen (issue 51510). With a schedule the first one captures piecewise CUDA graphs "
                "only, which slows every step; compare with a fixed D, and drop the variable once your version has "
                "pull request 51575.",
            )
        )
    if request.mechanism not in _SCHEDULE_TESTED:
        warnings.append(
            (
                "schedule_untested_for_mechanism",
                f"vLLM has tested its schedule with EAGLE, EAGLE-3 and DFlash, not with {request.mechanism}: check "
                "that vllm:spec_decode_num_draft_tokens_total follows the batch.",
            )
        )
    return warnings


def _setting(
    request: Request, config: dict[str, Any] | None, environment: dict[str, str], warnings: Warnings
) -> Setting:
    words = [
        [*(f"{name}={value}" for name, value in environment.items()), "vllm", "serve", request.target_id],
        ["--tensor-parallel-size", str(request.tp)],
    ]
    if request.data_parallel > 1:
        words.append(["--data-parallel-size", str(request.data_parallel)])
    experts = request.ep > 1 and request.ep == request.gpus
    if experts:
        words.append(["--enable-expert-parallel"])
    elif request.ep > 1:
        why = f"it divides them among all {request.gpus} GPUs of the replica or slices each over all"
        warnings.append(experts_not_in_text(ENGINE, request, why))
    kv_dtype = kv_dtype_of(request, _KV_DTYPES, ENGINE, warnings)
    if kv_dtype is not None:
        words.append(["--kv-cache-dtype", kv_dtype])
    if config is not None:
        words.append(["--speculative-config", json.dumps(config, allow_nan=False)])
    text = command(words)
    if config is None:
        text = f"# speculation off: no --speculative-config\n{text}"
    data: dict[str, Any] = {
        "speculative_config": config,
        "environment": environment,
        "tensor_parallel_size": request.tp,
        "data_parallel_size": request.data_parallel,
        "enable_expert_parallel": experts,
        "kv_cache_dtype": kv_dtype,
    }
    what = "speculation off" if config is None else f"{request.mechanism}, {_title(request)}"
    return Setting(ENGINE, VERSION, f"{ENGINE}: {what}", text, data, {}, warnings)


def _title(request: Request) -> str:
    if request.schedule is None:
        return f"D = {request.draft_length}"
    return "; ".join(f"batch {batches(part)}: D = {part.draft_length}" for part in request.schedule)


def read(parts: Parts) -> ReadSetting:
    """A `vllm serve` command, its flags, or the JSON of --speculative-config alone. Raises ProfileError."""
    file, text = only_part(parts)
    if text.lstrip().startswith("{"):
        config = json_object(text, file=file)
        config = config["speculative_config"] if isinstance(config.get("speculative_config"), dict) else config
    else:
        flags = flags_of(text, file=file)
        if "--speculative-config" not in flags:
            return ReadSetting(0, None, None)
        config = json_object(needed(flags, "--speculative-config", file=file), file=file)
    if _TOKENS not in config:
        raise ProfileError("the key is missing", file=file, key=_TOKENS)
    deepest = whole(config[_TOKENS], key=_TOKENS, file=file, least=1)
    mechanism: Mechanism | None = None
    if "method" in config:
        method = str(config["method"])
        # per-model names such as deepseek_mtp are kept as aliases of mtp
        name = "mtp" if method.endswith("_mtp") else method
        mechanism = mechanism_of(name, _READ, key="method", file=file)
        if config.get("parallel_drafting") is True:
            mechanism = _IN_PARALLEL.get(mechanism, mechanism)
    if config.get(_SCHEDULE) is None:
        return ReadSetting(deepest, None, mechanism)
    return ReadSetting(deepest, _read_schedule(config[_SCHEDULE], deepest, file), mechanism)


def _read_schedule(entries: object, deepest: int, file: str | None) -> tuple[ScheduleRange, ...]:
    if not isinstance(entries, list) or not all(isinstance(entry, list) and len(entry) == 3 for entry in entries):
        raise ProfileError("expected a list of [first batch, last batch, draft length]", file=file, key=_SCHEDULE)
    numbers = [[whole(value, key=_SCHEDULE, file=file) for value in entry] for entry in entries]
    # vLLM sorts by the first batch before it checks
    schedule = sorted((ScheduleRange(*entry) for entry in numbers), key=lambda part: part.batch_from)
    return checked(schedule, deepest=deepest, key=_SCHEDULE, file=file)
