"""SGLang: flags, and the file of adaptive speculation with one-step ladders as a fixed schedule by batch size.

Read at sgl-project/sglang 16974b8: docs_new/docs/advanced_features/{speculative_decoding,adaptive_speculative_decoding,
server_arguments} and python/sglang/srt/speculative/adaptive_spec_params.py. For a chain (topk 1)
--speculative-num-steps = D and --speculative-num-draft-tokens = D + 1 (the verify width); DFLASH takes its verify block
D + 1, DSPARK its block D. In the adaptive file a key is the lower bound of a batch range; candidate_steps must be
positive: D = 0 has no form.
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
    from_lower_bounds,
    json_object,
    kv_dtype_of,
    mechanism_of,
    needed,
    schedule_warnings,
    tree_not_in_engine,
    whole,
)
from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.profiles.schema import KvDtype, Mechanism

ENGINE = "SGLang"
VERSION = "main 16974b8 (2026-09)"
ADAPTIVE_FILE = "specdec-sglang-adaptive.json"

METHODS: dict[Mechanism, str] = {
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",  # alias of EAGLE that needs no draft path
    "draft_model": "STANDALONE",
    "dflash": "DFLASH",
    "dspark": "DSPARK",
    "ngram": "NGRAM",
}
_READ: dict[str, Mechanism] = {name: mechanism for mechanism, name in METHODS.items()}
_ADAPTIVE: tuple[Mechanism, ...] = ("eagle", "eagle3", "mtp")
_STEPPED: tuple[Mechanism, ...] = ("eagle", "eagle3", "mtp", "draft_model")
"""Take --speculative-num-steps and --speculative-eagle-topk."""
_WITHOUT_MODEL: tuple[Mechanism, ...] = ("mtp", "dspark", "ngram")
_KV_DTYPES: dict[KvDtype, str] = {"bf16": "bf16", "fp8": "fp8_e4m3"}
_REQUESTS_WHEN_SPECULATING = 48  # its server arguments lower max-running-requests to this unless told
_ALGORITHM, _STEPS, _TOKENS = (
    "--speculative-algorithm",
    "--speculative-num-steps",
    "--speculative-num-draft-tokens",
)
_TOPK, _ADAPTIVE_FLAG, _ADAPTIVE_CONFIG = (
    "--speculative-eagle-topk",
    "--speculative-adaptive",
    "--speculative-adaptive-config",
)
_BLOCK_ALIASES = ("--speculative-dflash-block-size", "--speculative-dspark-block-size")


def write(request: Request) -> Setting:
    """The command of one SGLang server, and its adaptive file where there is a schedule."""
    warnings: Warnings = []
    if request.off:
        return _setting(request, {}, None, warnings)
    if request.tree and request.mechanism not in _STEPPED:
        warnings.append(tree_not_in_engine(ENGINE, request))
        request = request.without_tree()
    request = _schedule_it_takes(request, warnings)
    adaptive = None
    if request.schedule is not None:
        adaptive = _adaptive(request.schedule, zero_steps=request.zero_steps)
        warnings += _about_schedule(request)
    flags = _flags(request, warnings)
    if adaptive is not None:
        flags |= {_ADAPTIVE_FLAG: None, _ADAPTIVE_CONFIG: ADAPTIVE_FILE}
    if request.data_parallel > 1 and request.mechanism not in _ADAPTIVE:
        warnings.append(
            (
                "no_data_parallel_attention",
                f"SGLang does not run {METHODS[request.mechanism]} with --enable-dp-attention: the command is one rank "
                f"of {request.tp} GPUs; run {request.data_parallel} of them behind a router.",
            )
        )
    warnings += block_warnings(request)
    return _setting(request, flags, adaptive, warnings)


def _schedule_it_takes(request: Request, warnings: Warnings) -> Request:
    """The request without its schedule where adaptive mode is not available."""
    if request.schedule is None:
        return request
    reason = None
    if request.mechanism not in _ADAPTIVE:
        code, reason = "schedule_not_in_mechanism", "adaptive mode runs EAGLE and EAGLE3 (with MTP) only"
    elif request.tree:
        code, reason = "schedule_needs_chain", "adaptive mode needs --speculative-eagle-topk 1"
    elif request.data_parallel > 1:
        code, reason = "schedule_ignored_with_data_parallel", "adaptive mode does not run with data-parallel attention"
    if reason is None:
        return request
    plain = request.without_schedule()
    warnings.append(
        (code, f"SGLang cannot follow the schedule here ({reason}): D = {plain.draft_length} holds at every batch.")
    )
    return plain


def _adaptive(schedule: tuple[ScheduleRange, ...], *, zero_steps: bool) -> dict[str, Any]:
    ladders = {
        str(part.batch_from): {"candidate_steps": [part.draft_length]}
        for part in schedule
        if part.draft_length > 0 or zero_steps
    }
    return {"ema_alpha": 0.2, "warmup_batches": 10, "update_interval": 5, **ladders}


def _about_schedule(request: Request) -> Warnings:
    warnings = schedule_warnings(request)
    warnings.append(
        (
            "batch_rounded_to_graph_size",
            "SGLang rounds the batch up to the next captured CUDA-graph size before it looks up the range: where "
            "range ends matter, capture graphs at them.",
        )
    )
    silent = [part for part in request.schedule or () if part.draft_length == 0]
    if not silent or request.zero_steps:
        return warnings
    # the tax of a configured 0 does not apply to a 0 that cannot be configured
    warnings = [warning for warning in warnings if warning[0] != "zero_in_schedule_is_not_off"]
    for part in silent:
        warnings.append(
            (
                "schedule_cannot_express_zero",
                f"SGLang at {VERSION} needs candidate_steps of 1 or more, so its file cannot switch speculation off. "
                f"At batch {batches(part)}, where the schedule says D = 0, it runs D = "
                f"{_instead(request, part)} with this file. Keep the batch out of that range "
                "(--max-running-requests), or serve it without speculation; builds with pull request 23994 take "
                "candidate_steps [0], which still keeps the drafter in step.",
            )
        )
    return warnings


def _instead(request: Request, silent: ScheduleRange) -> int:
    """The D that SGLang runs in a range that its file leaves out: the ladder below it, else the lowest one."""
    spoken = [part for part in request.schedule or () if part.draft_length > 0]
    below = [part for part in spoken if part.batch_from < silent.batch_from]
    return (below[-1] if below else spoken[0]).draft_length


def _flags(request: Request, warnings: Warnings) -> dict[str, str | None]:
    depth, mechanism = request.deepest, request.mechanism
    flags: dict[str, str | None] = {_ALGORITHM: METHODS[mechanism]}
    if mechanism not in _WITHOUT_MODEL:
        flags["--speculative-draft-model-path"] = drafter_or_placeholder(request, warnings)
    elif mechanism in ("mtp", "dspark") and request.drafter_id:
        flags["--speculative-draft-model-path"] = request.drafter_id
    if mechanism == "dspark":
        flags["--speculative-dspark-block-size"] = str(depth)
        warnings.append(
            ("dspark_checkpoints_only", "SGLang runs DSpark on DeepSeek-V4 checkpoints that ship it, and on no other.")
        )
    elif mechanism in _STEPPED:
        flags[_STEPS] = str(depth)
        flags[_TOPK] = str(request.tree_topk if request.tree else 1)
        flags[_TOKENS] = str(_tree_width(request) if request.tree else depth + 1)
        if request.tree:
            flags["--disable-overlap-schedule"] = None
            warnings.append(
                (
                    "tree_disables_overlap",
                    "Trees (--speculative-eagle-topk above 1) do not run under the overlap scheduler, so the command "
                    "switches it off; compare with a chain.",
                )
            )
    else:
        flags[_TOKENS] = str(depth + 1)
        if mechanism == "ngram":
            flags["--speculative-ngram-max-bfs-breadth"] = "1"  # a chain, as the figures assume
    return flags


def _tree_width(request: Request) -> int:
    if request.verify_width is None:
        raise UsageError("a tree needs its verify width: give --verify-width beside --tree-topk")
    return request.verify_width


def _setting(
    request: Request, flags: dict[str, str | None], adaptive: dict[str, Any] | None, warnings: Warnings
) -> Setting:
    attention_ranks = request.data_parallel > 1 and (request.mechanism in _ADAPTIVE or not flags)
    words = [["python3", "-m", "sglang.launch_server"], ["--model-path", request.target_id]]
    if attention_ranks:
        words.append(["--tp-size", str(request.gpus)])
        words.append(["--dp-size", str(request.data_parallel), "--enable-dp-attention"])
    else:
        words.append(["--tp-size", str(request.tp)])
    server = _server_flags(request, request.gpus if attention_ranks else request.tp, bool(flags), warnings)
    words += [[name, value] for name, value in server.items()]
    words += [[name] if value is None else [name, value] for name, value in flags.items()]
    text = command(words)
    if not flags:
        text = f"# speculation off: no --speculative-algorithm\n{text}"
    data: dict[str, Any] = {
        "flags": {name: True if value is None else value for name, value in flags.items()},
        "adaptive_config": adaptive,
        "server_flags": server,
        "tp_size": request.gpus if attention_ranks else request.tp,
        "dp_size": request.data_parallel if attention_ranks else 1,
    }
    files = {} if adaptive is None else {ADAPTIVE_FILE: json.dumps(adaptive, indent=2, allow_nan=False) + "\n"}
    what = "speculation off" if not flags else f"{request.mechanism}, D = {request.deepest}"
    if adaptive is not None:
        what += " at most, by batch"
    return Setting(ENGINE, VERSION, f"{ENGINE}: {what}", text, data, files, warnings)


def _server_flags(request: Request, gpus: int, speculates: bool, warnings: Warnings) -> dict[str, str]:
    """What the figures were computed with beside the draft, for a server of so many GPUs."""
    flags = {}
    if request.ep > 1 and gpus % request.ep == 0:
        flags["--ep-size"] = str(request.ep)
    elif request.ep > 1:
        warnings.append(experts_not_in_text(ENGINE, request, f"each of its servers here has {gpus} GPUs"))
    kv_dtype = kv_dtype_of(request, _KV_DTYPES, ENGINE, warnings)
    if kv_dtype is not None:
        flags["--kv-cache-dtype"] = kv_dtype
    if speculates and (request.running_requests or 0) > _REQUESTS_WHEN_SPECULATING:
        flags["--max-running-requests"] = str(request.running_requests)
    return flags


def read(parts: Parts) -> ReadSetting:
    """A launch command or flags, an adaptive file, or both. Raises ProfileError.

    A ladder of several steps is read as its largest: the engine may go that deep.
    """
    adaptive: tuple[ScheduleRange, ...] | None = None
    flags: dict[str, str | None] | None = None
    flags_file: str | None = None
    for file, text in parts:
        if text.lstrip().startswith("{"):
            if adaptive is not None:
                raise ProfileError("a second adaptive file", file=file)
            adaptive = _read_adaptive(text, file)
        else:
            if flags is not None:
                raise ProfileError("a second command", file=file)
            flags, flags_file = flags_of(text, file=file), file
    if flags is None:
        if adaptive is None:
            raise ProfileError("expected a command or an adaptive file, got neither")
        return ReadSetting(max(part.draft_length for part in adaptive), adaptive, None)
    if _ALGORITHM not in flags:
        return ReadSetting(0, None, None)
    mechanism = mechanism_of(needed(flags, _ALGORITHM, file=flags_file), _READ, key=_ALGORITHM, file=flags_file)
    if mechanism == "eagle" and "--speculative-draft-model-path" not in flags:
        mechanism = "mtp"
    if _ADAPTIVE_FLAG in flags:
        if adaptive is None:
            raise ProfileError(
                "adaptive speculation without its file (the built-in ladders differ between versions)",
                file=flags_file,
                key=_ADAPTIVE_CONFIG,
                hint="give the file beside the command",
            )
        return ReadSetting(max(part.draft_length for part in adaptive), adaptive, mechanism)
    return ReadSetting(_read_depth(flags, mechanism, flags_file), None, mechanism)


def _read_depth(flags: dict[str, str | None], mechanism: Mechanism, file: str | None) -> int:
    if mechanism in _STEPPED:
        depth = whole(needed(flags, _STEPS, file=file), key=_STEPS, file=file, least=1)
        topk = whole(flags.get(_TOPK) or "1", key=_TOPK, file=file, least=1)
        if topk == 1 and _TOKENS in flags:
            width = whole(needed(flags, _TOKENS, file=file), key=_TOKENS, file=file, least=2)
            if width != depth + 1:
                raise ProfileError(
                    f"a chain of {depth} steps verifies {depth + 1} tokens, got {width}", file=file, key=_TOKENS
                )
        return depth
    name = next((alias for alias in (*_BLOCK_ALIASES, _TOKENS) if alias in flags), _TOKENS)
    if mechanism == "dspark":
        return whole(needed(flags, name, file=file), key=name, file=file, least=1)
    return whole(needed(flags, name, file=file), key=name, file=file, least=2) - 1


def _read_adaptive(text: str, file: str | None) -> tuple[ScheduleRange, ...]:
    ladders: dict[int, int] = {}
    for key, entry in json_object(text, file=file).items():
        if not (key.isascii() and key.isdigit()):
            continue  # settings of the moving average
        steps = entry.get("candidate_steps") if isinstance(entry, dict) else None
        if not isinstance(steps, list) or not steps:
            raise ProfileError("expected a list of steps in candidate_steps", file=file, key=key)
        ladders[whole(key, key=key, file=file, least=1)] = max(
            whole(step, key=f"{key}.candidate_steps", file=file) for step in steps
        )
    if not ladders:
        raise ProfileError('expected a batch size as a key, such as "1"', file=file)
    # below the lowest key SGLang uses that key's ladder
    lowest = min(ladders)
    ladders[1] = ladders.pop(lowest) if lowest != 1 else ladders[1]
    return checked(from_lower_bounds(ladders), deepest=max(ladders.values()), key="candidate_steps", file=file)
