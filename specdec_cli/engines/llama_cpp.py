"""llama.cpp: the speculation flags of `llama-server`. It has no schedule by batch size.

Read at ggml-org/llama.cpp master 4df29be (2026-08-17), `llama-server --help`. --spec-draft-n-max = D, an upper bound
(drafting stops early below --spec-draft-p-min); n-gram drafts take their length from --spec-ngram-simple-size-m.
--draft, --draft-max and --draft-min are removed there; older builds know nothing else.
"""

from __future__ import annotations

from typing import Any

from specdec_cli.engines.setting_records import (
    Parts,
    ReadSetting,
    Request,
    Setting,
    Warnings,
    block_warnings,
    command,
    drafter_or_placeholder,
    flags_of,
    kv_dtype_of,
    mechanism_of,
    needed,
    only_part,
    tree_not_in_engine,
    whole,
)
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.schema import KvDtype, Mechanism

ENGINE = "llama.cpp"
VERSION = "master 4df29be (2026-08-17)"

METHODS: dict[Mechanism, str] = {
    "draft_model": "draft-simple",
    "eagle3": "draft-eagle3",
    "mtp": "draft-mtp",
    "dflash": "draft-dflash",
    "dspark": "draft-dspark",
    "ngram": "ngram-simple",
}
_READ: dict[str, Mechanism] = {name: mechanism for mechanism, name in METHODS.items()} | {
    "ngram-map-k": "ngram",
    "ngram-map-k4v": "ngram",
    "ngram-mod": "ngram",
    "ngram-cache": "ngram",
}
_KV_DTYPES: dict[KvDtype, str] = {"fp32": "f32", "bf16": "bf16", "fp16": "f16", "q8_0": "q8_0"}
_TYPE, _MAXIMUM = "--spec-type", "--spec-draft-n-max"
_DEFAULT_MAXIMUM = 3  # of --spec-draft-n-max at VERSION
_OLD_MAXIMUM = ("--draft-max", "--draft-n", "--draft")
_NGRAM_LENGTH = {
    "ngram-simple": "--spec-ngram-simple-size-m",
    "ngram-map-k": "--spec-ngram-map-k-size-m",
    "ngram-map-k4v": "--spec-ngram-map-k4v-size-m",
    "ngram-mod": "--spec-ngram-mod-n-max",
}


def write(request: Request) -> Setting:
    """The flags to add to `llama-server`."""
    warnings: Warnings = []
    if request.schedule is not None:
        request = request.without_schedule()
        warnings.append(
            (
                "no_batch_schedule",
                f"llama.cpp has no schedule by batch: D = {request.draft_length} holds at every batch. Set --parallel "
                "to the batch that this D was chosen for.",
            )
        )
    if request.tp > 1 or request.data_parallel > 1:
        warnings.append(
            (
                "parallelism_not_in_flags",
                f"The figures assume {request.tp} GPUs in tensor parallel a replica"
                f"{f' and {request.data_parallel} replicas' if request.data_parallel > 1 else ''}; llama.cpp splits by "
                "layer unless --split-mode says otherwise, which is slower for one request. The flags leave that to "
                "you.",
            )
        )
    if request.off:
        return _setting(request, {_TYPE: "none"}, warnings)
    flags = {_TYPE: METHODS[request.mechanism]}
    if request.mechanism == "ngram":
        flags[_NGRAM_LENGTH["ngram-simple"]] = str(request.draft_length)
    else:
        if request.mechanism != "mtp" or request.drafter_id:
            flags["--spec-draft-model"] = drafter_or_placeholder(request, warnings)
            warnings.append(
                (
                    "drafter_needs_gguf",
                    "llama.cpp reads GGUF files: replace the drafter's id by the path of its conversion.",
                )
            )
        flags[_MAXIMUM] = str(request.draft_length)
        warnings.append(
            (
                "draft_length_is_a_maximum",
                "--spec-draft-n-max is an upper bound: with --spec-draft-p-min above 0 (not the default here) drafts "
                "stop early and the measured D is shorter.",
            )
        )
    if request.tree:
        warnings.append(tree_not_in_engine(ENGINE, request))
    warnings += block_warnings(request)
    return _setting(request, flags, warnings)


def _setting(request: Request, flags: dict[str, str], warnings: Warnings) -> Setting:
    kv_dtype = kv_dtype_of(request, _KV_DTYPES, ENGINE, warnings)
    if kv_dtype is not None:
        flags |= {"--cache-type-k": kv_dtype, "--cache-type-v": kv_dtype}
    text = command([[word for pair in flags.items() for word in pair]])
    what = "speculation off" if request.off else f"{request.mechanism}, D = {request.draft_length}"
    data: dict[str, Any] = {"flags": flags}
    return Setting(ENGINE, VERSION, f"{ENGINE}: {what}", text, data, {}, warnings)


def read(parts: Parts) -> ReadSetting:
    """A `llama-server` command or its flags. Raises ProfileError."""
    file, text = only_part(parts)
    flags = flags_of(text, file=file)
    old = next((name for name in _OLD_MAXIMUM if name in flags), None)
    if _TYPE not in flags:
        if old is None:
            return ReadSetting(0, None, None)
        # builds before the type flag draft with a model wherever one is given
        return ReadSetting(whole(needed(flags, old, file=file), key=old, file=file), None, "draft_model")
    kind = needed(flags, _TYPE, file=file)
    if kind == "none":
        return ReadSetting(0, None, None)
    if "," in kind:
        raise ProfileError("several drafters together have no single draft length", file=file, key=_TYPE)
    mechanism = mechanism_of(kind, _READ, key=_TYPE, file=file)
    name = _NGRAM_LENGTH.get(kind, _MAXIMUM)
    if name not in flags and old is not None:
        name = old
    if name not in flags:
        if mechanism == "ngram":
            raise ProfileError("the flag is missing", file=file, key=name)
        return ReadSetting(_DEFAULT_MAXIMUM, None, mechanism)
    return ReadSetting(whole(needed(flags, name, file=file), key=name, file=file, least=1), None, mechanism)
