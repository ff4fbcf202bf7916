"""TensorRT-LLM: the `speculative_config` of its YAML file, with `draft_len_schedule`.

Read at NVIDIA/TensorRT-LLM: API pages 1.3.0rc27 to 1.4.0rc4, tensorrt_llm/llmapi/llm_args.py, pull request 10860.
max_draft_len = D. Since that pull request (2026-03-13) a key of draft_len_schedule is the inclusive upper bound of a
batch range and the draft length above the largest key is 0; before it a key was a lower bound and key 1 was required.
In both the smallest key must map to max_draft_len and none may pass it.
"""

from __future__ import annotations

from typing import Any

import yaml

from specdec_cli.engines.setting_records import (
    OPEN_END,
    Parts,
    ReadSetting,
    Request,
    ScheduleRange,
    Setting,
    Warnings,
    block_warnings,
    checked,
    command,
    drafter_or_placeholder,
    experts_not_in_text,
    from_lower_bounds,
    kv_dtype_of,
    mechanism_of,
    only_part,
    schedule_warnings,
    tree_not_in_engine,
    whole,
)
from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.profiles.schema import KvDtype, Mechanism

ENGINE = "TensorRT-LLM"
VERSION = "1.4.0rc4"
OLD_VERSION = "releases before pull request 10860 (2026-03-13)"
FILE = "specdec-trtllm.yaml"

METHODS: dict[Mechanism, str] = {
    "eagle3": "Eagle3",
    "mtp": "MTP",
    "draft_model": "DraftTarget",
    "pard": "PARD",
    "dflash": "DFlash",
    "dspark": "DSpark",
    "ngram": "NGram",
    "suffix": "SA",
}
# `Eagle` is kept by TensorRT-LLM as another name of Eagle3 (EAGLE-1 checkpoints do not load)
_READ: dict[str, Mechanism] = {name: mechanism for mechanism, name in METHODS.items()} | {"Eagle": "eagle3"}
_WITHOUT_MODEL: tuple[Mechanism, ...] = ("mtp", "ngram", "suffix")
_ONE_MODEL_LATER: tuple[Mechanism, ...] = ("mtp", "pard", "dflash", "draft_model", "suffix")
"""Mechanisms that follow a schedule in later sources only: pull request 10860 itself began with EAGLE-3."""
_KV_DTYPES: dict[KvDtype, str] = {"fp8": "fp8"}
_SCHEDULE, _MAXIMUM = "draft_len_schedule", "max_draft_len"


def write(request: Request) -> Setting:
    """The YAML file of `trtllm-serve --config`."""
    version = OLD_VERSION if request.old_schedule else VERSION
    warnings: Warnings = []
    if request.off:
        return _setting(request, None, version, warnings)
    if request.tree and request.mechanism != "eagle3":
        warnings.append(tree_not_in_engine(ENGINE, request))
        request = request.without_tree()
    request = _schedule_it_takes(request, warnings)
    config: dict[str, Any] = {"decoding_type": METHODS[request.mechanism], _MAXIMUM: request.deepest}
    if request.mechanism not in _WITHOUT_MODEL:
        config["speculative_model"] = drafter_or_placeholder(request, warnings)
    if request.tree:
        config |= _tree(request)
    if request.schedule is not None:
        config[_SCHEDULE] = _old(request.schedule) if request.old_schedule else _present(request.schedule)
        warnings += schedule_warnings(request)
        warnings += _about_schedule(request)
    warnings += block_warnings(request)
    return _setting(request, config, version, warnings)


def _schedule_it_takes(request: Request, warnings: Warnings) -> Request:
    """The request without its schedule where TensorRT-LLM would refuse it."""
    if request.schedule is None:
        return request
    plain = request.without_schedule()
    if request.data_parallel > 1:
        warnings.append(
            (
                "schedule_ignored_with_data_parallel",
                "draft_len_schedule goes by the batch of one attention rank, and no source read says that ranks agree "
                f"on D under enable_attention_dp: it is left out and D = {plain.draft_length} holds at every batch.",
            )
        )
        return plain
    if request.tree:
        warnings.append(
            (
                "schedule_needs_chain",
                f"draft_len_schedule is for chains: the tree keeps D = {plain.draft_length} at every batch.",
            )
        )
        return plain
    if request.schedule[0].draft_length != request.deepest:
        warnings.append(
            (
                "schedule_must_start_deepest",
                f"TensorRT-LLM refuses a schedule whose smallest batches do not use the largest D: this one starts "
                f"with {request.schedule[0].draft_length} and reaches {request.deepest}. It is left out and D = "
                f"{plain.draft_length} holds at every batch; vLLM takes this schedule.",
            )
        )
        return plain
    return request


def _present(schedule: tuple[ScheduleRange, ...]) -> dict[int, int]:
    """{inclusive upper bound: D}; a last range of 0 is what holds above the largest key anyway."""
    bounds = {part.batch_to: part.draft_length for part in schedule}
    if schedule[-1].draft_length == 0:
        del bounds[schedule[-1].batch_to]
    return bounds


def _old(schedule: tuple[ScheduleRange, ...]) -> dict[int, int]:
    """{lower bound: D}."""
    return {part.batch_from: part.draft_length for part in schedule}


def _about_schedule(request: Request) -> Warnings:
    if request.old_schedule:
        meaning = (
            f"draft_len_schedule is written for {OLD_VERSION}: keys are lower bounds, and only n-gram and two-model "
            "drafters follow them. Later releases read keys as inclusive upper bounds and would run other draft "
            "lengths: ask for the present form there."
        )
    else:
        meaning = (
            "draft_len_schedule is written for releases since pull request 10860 (2026-03-13): keys are inclusive "
            "upper bounds and D is 0 above the largest. Earlier releases read keys as lower bounds, with a required "
            "key 1: ask for the old form there."
        )
    warnings: Warnings = [("schedule_meaning_depends_on_version", meaning)]
    if not request.old_schedule and request.mechanism not in ("eagle3", "ngram"):
        late = request.mechanism in _ONE_MODEL_LATER
        since = "later sources list it too" if late else "no source read lists it"
        warnings.append(
            (
                "schedule_untested_for_mechanism",
                f"The release that gave draft_len_schedule its present meaning follows it with EAGLE-3; for "
                f"{request.mechanism} {since}. Check that the drafted tokens follow the batch.",
            )
        )
    return warnings


def _tree(request: Request) -> dict[str, Any]:
    """A dynamic tree: max_total_draft_tokens leaves the root out, so it is the verify width less 1."""
    if request.verify_width is None or request.tree_topk is None:
        raise UsageError("a tree needs its verify width: give --verify-width beside --tree-topk")
    total, depth = request.verify_width - 1, request.draft_length
    if not depth <= total <= request.tree_topk * depth:
        raise UsageError(
            f"TensorRT-LLM takes trees of {depth + 1} to {request.tree_topk * depth + 1} verified tokens at depth "
            f"{depth} and topk {request.tree_topk}, got a verify width of {request.verify_width}"
        )
    return {
        "use_dynamic_tree": True,
        "dynamic_tree_max_topK": request.tree_topk,
        "max_total_draft_tokens": total,
    }


def _setting(request: Request, config: dict[str, Any] | None, version: str, warnings: Warnings) -> Setting:
    server, gpus = _server(request, warnings)
    serve = command([["trtllm-serve", request.target_id, "--tp_size", str(gpus), "--config", FILE]])
    lines = [f"# {ENGINE} {version}", f"# {serve}"]
    if config is None:
        lines.append("# speculation off: the same as leaving the key out")
    elif _SCHEDULE in config:
        meaning = "first batch of a range" if request.old_schedule else "last batch of a range, D = 0 above the largest"
        lines.append(f"# {_SCHEDULE}: {meaning}")
    data: dict[str, Any] = {"speculative_config": config, **server}
    text = "\n".join([*lines, yaml.safe_dump(data, sort_keys=False)])
    what = "speculation off" if config is None else f"{request.mechanism}, D = {request.deepest}"
    if config is not None and _SCHEDULE in config:
        what += " at most, by batch"
    return Setting(ENGINE, version, f"{ENGINE}: {what}", text, data, {FILE: text}, warnings)


def server_gpus(tp: int, data_parallel: int) -> int:
    """GPUs of one server: attention data parallelism is over all of them or none."""
    return data_parallel if tp == 1 else tp


def _server(request: Request, warnings: Warnings) -> tuple[dict[str, Any], int]:
    """What the figures were computed with beside the draft, and the GPUs of one server."""
    found: dict[str, Any] = {}
    gpus = server_gpus(request.tp, request.data_parallel)
    if request.data_parallel > 1 and gpus == request.gpus:
        found["enable_attention_dp"] = True
    elif request.data_parallel > 1:
        warnings.append(
            (
                "one_rank_only",
                f"The file describes one rank of {request.tp} GPUs, because enable_attention_dp gives each GPU an "
                f"attention of its own: run {request.data_parallel} such servers behind a router.",
            )
        )
    if request.ep > 1 and gpus % request.ep == 0:
        found["moe_expert_parallel_size"] = request.ep
    elif request.ep > 1:
        warnings.append(experts_not_in_text(ENGINE, request, f"each of its servers here has {gpus} GPUs"))
    kv_dtype = kv_dtype_of(request, _KV_DTYPES, ENGINE, warnings)
    if kv_dtype is not None:
        found["kv_cache_config"] = {"dtype": kv_dtype}
    return found, gpus


class _UniqueKeys(yaml.SafeLoader):
    """A second equal key would silently change the schedule."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise ProfileError("the key stands twice", key=str(key), line=node.start_mark.line + 1)
        return super().construct_mapping(node, deep=deep)


def read(parts: Parts, *, old_schedule: bool = False) -> ReadSetting:
    """The YAML file, or its speculative_config alone. Raises ProfileError.

    old_schedule: read the keys of draft_len_schedule as lower bounds; the file cannot say which it means.
    """
    file, text = only_part(parts)
    config = _speculative_config(text, file)
    if config is None:
        return ReadSetting(0, None, None)
    if "decoding_type" not in config:
        raise ProfileError("the key is missing", file=file, key="decoding_type")
    mechanism = mechanism_of(config["decoding_type"], _READ, key="decoding_type", file=file)
    schedule_keys = config.get(_SCHEDULE)
    # MTP's older spelling of the draft length
    maximum = config.get(_MAXIMUM, config.get("num_nextn_predict_layers"))
    if maximum is None:
        raise ProfileError("the key is missing", file=file, key=_MAXIMUM)
    deepest = whole(maximum, key=_MAXIMUM, file=file, least=1)
    concurrency = config.get("max_concurrency")
    if concurrency is not None:
        if schedule_keys is not None:
            raise ProfileError("stands beside draft_len_schedule; only one may", file=file, key="max_concurrency")
        # the same as a schedule of one range
        limit = whole(concurrency, key="max_concurrency", file=file, least=1)
        return ReadSetting(deepest, _upper({limit: deepest}, deepest, file), mechanism)
    if schedule_keys is None:
        return ReadSetting(deepest, None, mechanism)
    bounds = _bounds(schedule_keys, deepest, file)
    if not old_schedule:
        return ReadSetting(deepest, _upper(bounds, deepest, file), mechanism)
    if 1 not in bounds:
        raise ProfileError("keys are lower bounds in this release: key 1 is required", file=file, key=_SCHEDULE)
    schedule = checked(from_lower_bounds(bounds), deepest=deepest, key=_SCHEDULE, file=file)
    return ReadSetting(deepest, schedule, mechanism)


def _speculative_config(text: str, file: str | None) -> dict[Any, Any] | None:
    """The mapping under speculative_config; None: the file leaves speculation off."""
    try:
        loader = _UniqueKeys(text)
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else None
        raise ProfileError(f"not YAML: {error.problem}", file=file, line=line) from error
    except ProfileError as error:
        raise ProfileError(error.message, file=file, key=error.key, line=error.line) from error
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ProfileError(f"expected a mapping, got {type(value).__name__}", file=file)
    config = value if "decoding_type" in value else value.get("speculative_config")
    if config is not None and not isinstance(config, dict):
        raise ProfileError(f"expected a mapping, got {type(config).__name__}", file=file, key="speculative_config")
    return config


def _bounds(keys: object, deepest: int, file: str | None) -> dict[int, int]:
    if not isinstance(keys, dict) or not keys:
        raise ProfileError("expected a mapping of batch to draft length", file=file, key=_SCHEDULE)
    bounds = {
        whole(batch, key=_SCHEDULE, file=file, least=1): whole(depth, key=f"{_SCHEDULE}.{batch}", file=file)
        for batch, depth in keys.items()
    }
    smallest = min(bounds)
    if bounds[smallest] != deepest:
        raise ProfileError(
            f"the smallest key must map to {_MAXIMUM} = {deepest}, got {bounds[smallest]}",
            file=file,
            key=f"{_SCHEDULE}.{smallest}",
        )
    return bounds


def _upper(bounds: dict[int, int], deepest: int, file: str | None) -> tuple[ScheduleRange, ...]:
    ends = sorted(bounds)
    starts = [1, *(end + 1 for end in ends[:-1])]
    schedule = [ScheduleRange(start, end, bounds[end]) for start, end in zip(starts, ends, strict=True)]
    if ends[-1] < OPEN_END:
        schedule.append(ScheduleRange(ends[-1] + 1, OPEN_END, 0))
    return checked(schedule, deepest=deepest, key=_SCHEDULE, file=file)
