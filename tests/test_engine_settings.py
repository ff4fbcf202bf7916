"""Settings for serving engines: each writer parses back with its own reader, and says what its engine cannot do."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.engines import llama_cpp, sglang, tensorrt_llm, vllm
from specdec_cli.engines.settings import (
    FAMILIES,
    OPEN_END,
    ReadSetting,
    ScheduleRange,
    Setting,
    normalised,
    read_settings,
    settings_for,
)
from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.profiles.schema import Mechanism

METHODS = {
    "vllm": vllm.METHODS,
    "sglang": sglang.METHODS,
    "tensorrt-llm": tensorrt_llm.METHODS,
    "llama-cpp": llama_cpp.METHODS,
}
SUPPORTED = [(family, mechanism) for family in FAMILIES for mechanism in METHODS[family]]
MISSING = [
    (family, mechanism) for family in FAMILIES for mechanism in get_args(Mechanism) if mechanism not in METHODS[family]
]
NATIVE = ("mtp", "ngram", "suffix")
# the example that the engines' pages share: 1-4: 4, 5-16: 3, 17-48: 1, 49-512: 0
EXAMPLE = [ScheduleRange(1, 4, 4), ScheduleRange(5, 16, 3), ScheduleRange(17, 48, 1), ScheduleRange(49, 512, 0)]


def ask(family: str, mechanism: str = "eagle3", draft_length: int = 3, **more: Any) -> Setting:
    drafter = None if mechanism in NATIVE else "acme/ex-8b-draft"
    arguments: dict[str, Any] = {"drafter_id": drafter, "target_id": "acme/ex-8b", "tp": 1} | more
    return settings_for(family, mechanism=mechanism, draft_length=draft_length, **arguments)


def back(family: str, setting: Setting, **more: bool) -> ReadSetting:
    """Reads what a user would paste: the text and the files that it names (TensorRT-LLM's text is its file)."""
    if family == "sglang":
        return read_settings(family, {"command": setting.text, **setting.files})
    return read_settings(family, setting.text, **more)


def codes(setting: Setting) -> set[str]:
    return {code for code, _ in setting.warnings}


def at(schedule: tuple[ScheduleRange, ...] | None, batch: int) -> int:
    assert schedule is not None
    return next(part.draft_length for part in schedule if part.batch_from <= batch <= part.batch_to)


@st.composite
def schedules(draw: st.DrawFn, least: int = 0, deepest_first: bool = False) -> list[ScheduleRange]:
    """Contiguous ranges from batch 1, two different draft lengths at least."""
    widths = draw(st.lists(st.integers(1, 60), min_size=2, max_size=6))
    depths = draw(st.lists(st.integers(least, 9), min_size=len(widths), max_size=len(widths)))
    if deepest_first:
        depths[0] = max(depths)
    if len(set(depths)) == 1:
        depths[-1] = depths[0] - 1 if depths[0] > least else depths[0]
        depths[0] = depths[-1] + 1
    ends = [sum(widths[: index + 1]) for index in range(len(widths))]
    starts = [1, *(end + 1 for end in ends[:-1])]
    return [ScheduleRange(*part) for part in zip(starts, ends, depths, strict=True)]


# --------------------------------------------------------------------------------------- every engine, one draft length


@pytest.mark.parametrize(("family", "mechanism"), SUPPORTED)
@pytest.mark.parametrize("draft_length", [1, 3, 15])
def test_one_draft_length_parses_back(family: str, mechanism: str, draft_length: int) -> None:
    setting = ask(family, mechanism, draft_length)
    assert back(family, setting) == (draft_length, None, mechanism)
    assert setting.text
    assert setting.engine_version
    assert "drafter_missing" not in codes(setting)
    json.dumps(setting.data, allow_nan=False)


@pytest.mark.parametrize(("family", "mechanism"), MISSING)
def test_a_mechanism_that_the_engine_lacks_gives_nothing_to_paste(family: str, mechanism: str) -> None:
    setting = ask(family, mechanism)
    assert (setting.text, setting.data, setting.files) == ("", {}, {})
    assert codes(setting) == {"mechanism_not_in_engine"}
    assert mechanism in setting.warnings[0][1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mechanism", ["eagle3", "medusa", "self"])
def test_off_says_how_to_run_without(family: str, mechanism: str) -> None:
    setting = ask(family, mechanism, 0)
    assert back(family, setting) == (0, None, None)
    assert "off" in setting.title
    assert not setting.warnings
    for flag in ("--speculative-config", "--speculative-algorithm", "decoding_type", "--spec-draft"):
        assert flag not in setting.text.replace("no --speculative", "")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_drafter_without_an_id_gets_a_placeholder_and_a_warning(family: str) -> None:
    setting = ask(family, drafter_id=None)
    assert "DRAFTER_ID" in setting.text
    assert "drafter_missing" in codes(setting)


def test_the_off_by_one_between_engines() -> None:
    config = ask("vllm").data["speculative_config"]
    assert config == {"method": "eagle3", "model": "acme/ex-8b-draft", "num_speculative_tokens": 3}
    flags = ask("sglang").data["flags"]
    assert (flags["--speculative-num-steps"], flags["--speculative-num-draft-tokens"]) == ("3", "4")
    assert flags["--speculative-eagle-topk"] == "1"
    assert ask("tensorrt-llm").data["speculative_config"]["max_draft_len"] == 3
    assert ask("llama-cpp", "mtp").text == "--spec-type draft-mtp --spec-draft-n-max 3"
    # a block drafter: 16 slots draft 15; SGLang counts the anchor for DFlash, not for DSpark
    assert ask("sglang", "dflash", 15, block=16).data["flags"]["--speculative-num-draft-tokens"] == "16"
    assert ask("sglang", "dspark", 7, block=7).data["flags"]["--speculative-dspark-block-size"] == "7"
    assert ask("sglang", "ngram", 4).data["flags"]["--speculative-num-draft-tokens"] == "5"


@pytest.mark.parametrize(
    ("mechanism", "block", "fits"), [("dflash", 16, 15), ("dspark", 7, 7)], ids=["dflash", "dspark"]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_past_the_trained_block(family: str, mechanism: str, block: int, fits: int) -> None:
    assert "beyond_trained_block" not in codes(ask(family, mechanism, fits, block=block))
    assert "beyond_trained_block" in codes(ask(family, mechanism, fits + 1, block=block))


def test_ids_are_quoted_for_the_shell() -> None:
    setting = ask("vllm", target_id="my models/ex 8b", drafter_id="it's #1")
    words = shlex.split(setting.text.replace("\\\n", " "))
    assert words[:3] == ["vllm", "serve", "my models/ex 8b"]
    assert json.loads(words[-1])["model"] == "it's #1"
    assert back("vllm", setting) == (3, None, "eagle3")


def test_parallelism_reaches_the_command() -> None:
    assert "--tensor-parallel-size 4" in ask("vllm", tp=4).text
    assert "--data-parallel-size 2" in ask("vllm", tp=4, data_parallel=2).text
    assert "--data-parallel-size" not in ask("vllm", tp=4).text
    attention = ask("sglang", tp=4, data_parallel=2).text
    assert "--tp-size 8" in attention
    assert "--dp-size 2 --enable-dp-attention" in attention
    standalone = ask("sglang", "draft_model", tp=4, data_parallel=2)
    assert "--tp-size 4" in standalone.text
    assert "--enable-dp-attention" not in standalone.text
    assert "no_data_parallel_attention" in codes(standalone)
    assert "--tp_size 4" in ask("tensorrt-llm", tp=4).text
    assert "one_rank_only" in codes(ask("tensorrt-llm", tp=4, data_parallel=2))
    ranks = ask("tensorrt-llm", tp=1, data_parallel=8)
    assert "--tp_size 8" in ranks.text
    assert yaml.safe_load(ranks.text)["enable_attention_dp"] is True
    assert "one_rank_only" not in codes(ranks)
    assert "parallelism_not_in_flags" in codes(ask("llama-cpp", tp=2))
    assert "parallelism_not_in_flags" not in codes(ask("llama-cpp"))


EXPERTS: dict[str, str] = {
    "vllm": "--enable-expert-parallel",
    "sglang": "--ep-size 8",
    "tensorrt-llm": "moe_expert_parallel_size: 8",
}
KV_DTYPES: dict[str, tuple[str, str]] = {
    "vllm": ("fp8", "--kv-cache-dtype fp8"),
    "sglang": ("fp8", "--kv-cache-dtype fp8_e4m3"),
    "tensorrt-llm": ("fp8", "kv_cache_config:\n  dtype: fp8"),
    "llama-cpp": ("q8_0", "--cache-type-k q8_0 --cache-type-v q8_0"),
}


@pytest.mark.parametrize("family", EXPERTS)
def test_expert_parallelism_reaches_the_text_where_the_engine_can_run_it(family: str) -> None:
    whole = ask(family, "mtp", tp=8, ep=8)
    assert EXPERTS[family] in whole.text
    assert "ep_not_pasted" not in codes(whole)
    assert EXPERTS[family] not in ask(family, "mtp", tp=8).text
    assert back(family, whole) == back(family, ask(family, "mtp", tp=8))


def test_an_expert_layout_that_the_engine_lacks_is_said() -> None:
    # vLLM divides experts among all GPUs or none; two servers of 4 GPUs share no experts
    assert "ep_not_pasted" in codes(ask("vllm", "mtp", tp=8, ep=4))
    assert "ep_not_pasted" in codes(ask("sglang", "draft_model", tp=4, data_parallel=2, ep=8))
    assert "ep_not_pasted" in codes(ask("tensorrt-llm", "mtp", tp=4, data_parallel=2, ep=8))
    assert "ep_not_pasted" not in codes(ask("tensorrt-llm", "mtp", tp=1, data_parallel=8, ep=8))


@pytest.mark.parametrize("family", KV_DTYPES)
def test_the_asked_kv_dtype_reaches_the_text(family: str) -> None:
    dtype, written = KV_DTYPES[family]
    for length in (0, 3):
        assert written in ask(family, draft_length=length, kv_dtype=dtype).text
    assert written not in ask(family).text
    lacking = ask(family, kv_dtype="int8")
    assert "kv_dtype_not_in_engine" in codes(lacking)
    assert lacking.text == ask(family).text


def test_sglang_is_told_of_batches_above_its_limit_when_it_speculates() -> None:
    assert "--max-running-requests 64" in ask("sglang", running_requests=64).text
    assert "--max-running-requests" not in ask("sglang", running_requests=48).text
    assert "--max-running-requests" not in ask("sglang", draft_length=0, running_requests=64).text


# ------------------------------------------------------------------------------------------------------- schedules


@given(schedules())
def test_vllm_schedules_parse_back(schedule: list[ScheduleRange]) -> None:
    setting = ask("vllm", schedule=schedule)
    deepest = max(part.draft_length for part in schedule)
    assert back("vllm", setting) == (deepest, normalised(schedule), "eagle3")
    ranges = setting.data["speculative_config"]["num_speculative_tokens_per_batch_size"]
    assert ranges[0][0] == 1
    assert ranges[-1][1] == OPEN_END
    assert all(following[0] == before[1] + 1 for before, following in pairwise(ranges))
    assert setting.data["speculative_config"]["num_speculative_tokens"] == deepest


@given(schedules(least=1))
def test_sglang_schedules_parse_back(schedule: list[ScheduleRange]) -> None:
    setting = ask("sglang", schedule=schedule)
    assert back("sglang", setting) == (max(part.draft_length for part in schedule), normalised(schedule), "eagle3")
    ladders = json.loads(setting.files[sglang.ADAPTIVE_FILE])
    assert all(len(ladders[key]["candidate_steps"]) == 1 for key in ladders if key.isdigit())


@given(schedules())
def test_sglang_leaves_zero_out_and_says_what_runs_instead(schedule: list[ScheduleRange]) -> None:
    setting = ask("sglang", schedule=schedule)
    read = back("sglang", setting)
    told = [message for code, message in setting.warnings if code == "schedule_cannot_express_zero"]
    silent = [part for part in normalised(schedule) if part.draft_length == 0]
    assert len(told) == len(silent)
    for part in normalised(schedule):
        runs = at(read.schedule, part.batch_from)
        if part.draft_length:
            assert runs == part.draft_length
        else:
            message = told[silent.index(part)]
            assert f"batch {part.batch_from} " in message
            assert f"it runs D = {runs} with" in message
    assert "zero_in_schedule_is_not_off" not in codes(setting) or not silent


@given(schedules())
def test_sglang_builds_that_take_zero(schedule: list[ScheduleRange]) -> None:
    setting = ask("sglang", schedule=schedule, zero_steps=True)
    assert back("sglang", setting).schedule == normalised(schedule)
    assert "schedule_cannot_express_zero" not in codes(setting)


@pytest.mark.parametrize("old", [False, True], ids=["present", "old"])
@given(schedule=schedules(deepest_first=True))
def test_tensorrt_llm_schedules_parse_back(old: bool, schedule: list[ScheduleRange]) -> None:
    setting = ask("tensorrt-llm", schedule=schedule, old_schedule=old)
    deepest = schedule[0].draft_length
    assert back("tensorrt-llm", setting, old_schedule=old) == (deepest, normalised(schedule), "eagle3")
    assert setting.files == {tensorrt_llm.FILE: setting.text}


def naive_present(table: dict[int, int], batch: int) -> int:
    """Pull request 10860: the first key that is not below the batch; 0 above the largest."""
    return next((table[key] for key in sorted(table) if batch <= key), 0)


def naive_old(table: dict[int, int], batch: int) -> int:
    """Before it: the last key that is not above the batch."""
    return [table[key] for key in sorted(table) if key <= batch][-1]


@given(schedules(deepest_first=True))
def test_both_tensorrt_llm_forms_mean_the_schedule(schedule: list[ScheduleRange]) -> None:
    forms = [
        (ask("tensorrt-llm", schedule=schedule), naive_present),
        (ask("tensorrt-llm", schedule=schedule, old_schedule=True), naive_old),
    ]
    for setting, meaning in forms:
        table = yaml.safe_load(setting.text)["speculative_config"]["draft_len_schedule"]
        for part in schedule:
            for batch in (part.batch_from, part.batch_to):
                assert meaning(table, batch) == part.draft_length


def test_the_two_tensorrt_llm_forms_of_one_schedule() -> None:
    present = ask("tensorrt-llm", "mtp", 4, schedule=EXAMPLE)
    assert present.data["speculative_config"] == {
        "decoding_type": "MTP",
        "max_draft_len": 4,
        "draft_len_schedule": {4: 4, 16: 3, 48: 1},
    }
    old = ask("tensorrt-llm", "mtp", 4, schedule=EXAMPLE, old_schedule=True)
    assert old.data["speculative_config"]["draft_len_schedule"] == {1: 4, 5: 3, 17: 1, 49: 0}
    assert present.engine_version != old.engine_version
    messages = [dict(setting.warnings)["schedule_meaning_depends_on_version"] for setting in (present, old)]
    assert "upper bounds and D is 0" in messages[0]
    assert "keys are lower bounds" in messages[1]
    # read with the other meaning the file says something else: the reason for the flag
    assert back("tensorrt-llm", old) != back("tensorrt-llm", old, old_schedule=True)


def test_tensorrt_llm_refuses_a_schedule_that_rises() -> None:
    setting = ask("tensorrt-llm", draft_length=2, schedule=[ScheduleRange(1, 8, 1), ScheduleRange(9, 64, 4)])
    assert "schedule_must_start_deepest" in codes(setting)
    assert back("tensorrt-llm", setting) == (2, None, "eagle3")
    assert back("vllm", ask("vllm", schedule=[ScheduleRange(1, 8, 1), ScheduleRange(9, 64, 4)])).schedule is not None


def test_vllm_schedule_and_its_traps() -> None:
    setting = ask("vllm", draft_length=4, schedule=EXAMPLE)
    assert setting.data["speculative_config"]["num_speculative_tokens_per_batch_size"] == [
        [1, 4, 4],
        [5, 16, 3],
        [17, 48, 1],
        [49, OPEN_END, 0],
    ]
    assert setting.text.startswith("VLLM_USE_V2_MODEL_RUNNER=0 vllm serve acme/ex-8b")
    assert codes(setting) == {"zero_in_schedule_is_not_off", "graphs_downgraded_with_schedule"}
    dflash = ask("vllm", "dflash", 4, schedule=EXAMPLE)
    assert "VLLM_USE_V2_MODEL_RUNNER" not in dflash.text
    assert codes(dflash) == {"zero_in_schedule_is_not_off"}
    assert "schedule_untested_for_mechanism" in codes(ask("vllm", "mtp", 4, schedule=EXAMPLE))
    ranks = ask("vllm", draft_length=2, schedule=EXAMPLE, data_parallel=2)
    assert codes(ranks) == {"schedule_ignored_with_data_parallel"}
    assert back("vllm", ranks) == (2, None, "eagle3")


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"data_parallel": 2}, "schedule_ignored_with_data_parallel"),
        ({"mechanism": "draft_model"}, "schedule_not_in_mechanism"),
        ({"tree_topk": 4, "verify_width": 8}, "schedule_needs_chain"),
    ],
)
def test_where_sglang_cannot_follow_a_schedule(more: dict[str, Any], code: str) -> None:
    setting = ask("sglang", draft_length=2, schedule=EXAMPLE, **more)
    assert code in codes(setting)
    assert not setting.files
    assert back("sglang", setting).draft_length == 2


def test_llama_cpp_has_no_schedule() -> None:
    setting = ask("llama-cpp", draft_length=2, schedule=EXAMPLE)
    assert "no_batch_schedule" in codes(setting)
    assert back("llama-cpp", setting) == (2, None, "eagle3")


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_draft_length_beside_it_the_largest_of_the_schedule_stands_in(family: str) -> None:
    assert back(family, ask(family, draft_length=0, schedule=EXAMPLE, data_parallel=2)).draft_length == 4


@pytest.mark.parametrize("family", FAMILIES)
def test_a_schedule_of_one_draft_length_is_that_draft_length(family: str) -> None:
    flat = [ScheduleRange(1, 8, 2), ScheduleRange(9, 64, 2)]
    assert back(family, ask(family, schedule=flat)) == (2, None, "eagle3")
    assert "off" in ask(family, schedule=[ScheduleRange(1, 64, 0)]).title


def test_carrying_the_last_range_on_is_said() -> None:
    rising = [ScheduleRange(1, 8, 3), ScheduleRange(9, 64, 2)]
    for family in ("vllm", "sglang", "tensorrt-llm"):
        setting = ask(family, schedule=rising)
        assert "batch 64" in dict(setting.warnings)["last_range_extended"]
        assert at(back(family, setting).schedule, 4096) == 2
    assert "last_range_extended" not in codes(ask("vllm", schedule=EXAMPLE))


# ------------------------------------------------------------------------------------------------------------ trees


def test_trees() -> None:
    tree: dict[str, Any] = {"tree_topk": 4, "verify_width": 12}
    flags = ask("sglang", draft_length=3, **tree).data["flags"]
    assert (flags["--speculative-num-steps"], flags["--speculative-eagle-topk"]) == ("3", "4")
    assert flags["--speculative-num-draft-tokens"] == "12"
    assert flags["--disable-overlap-schedule"] is True
    config = ask("tensorrt-llm", draft_length=3, **tree).data["speculative_config"]
    assert config["dynamic_tree_max_topK"] == 4
    assert config["max_total_draft_tokens"] == 11  # the verify width without its root
    for family, mechanism in (
        ("vllm", "eagle3"),
        ("llama-cpp", "eagle3"),
        ("tensorrt-llm", "mtp"),
        ("sglang", "ngram"),
    ):
        setting = ask(family, mechanism, 3, **tree)
        assert "tree_not_in_engine" in codes(setting)
        assert back(family, setting) == (3, None, mechanism)


@pytest.mark.parametrize("family", ["sglang", "tensorrt-llm"])
def test_a_tree_needs_a_width(family: str) -> None:
    with pytest.raises(UsageError, match="--verify-width"):
        ask(family, tree_topk=4)


@pytest.mark.parametrize("width", [3, 14])
def test_a_tree_that_tensorrt_llm_refuses(width: int) -> None:
    with pytest.raises(UsageError, match="4 to 13 verified tokens"):
        ask("tensorrt-llm", draft_length=3, tree_topk=4, verify_width=width)


# ----------------------------------------------------------------------------------------------------- wrong requests


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "vlm"}, "did you mean vllm"),
        ({"family": "ollama"}, "unknown engine 'ollama'"),
        ({"mechanism": "eagel3"}, "did you mean eagle3"),
        ({"draft_length": -1}, "draft_length must be 0 or more"),
        ({"tp": 0}, "tp must be 1 or more"),
        ({"data_parallel": 0}, "data_parallel must be 1 or more"),
        ({"old_schedule": True}, "only TensorRT-LLM"),
        ({"zero_steps": True}, "SGLang's"),
        ({"schedule": []}, "no ranges"),
        ({"schedule": [ScheduleRange(2, 4, 1)]}, "the first range must start at 1"),
        ({"schedule": [ScheduleRange(1, 4, 2), ScheduleRange(6, 9, 1)]}, "starts at batch 5, got 6"),
        ({"schedule": [ScheduleRange(1, 4, 2), ScheduleRange(4, 9, 1)]}, "starts at batch 5, got 4"),
        ({"schedule": [ScheduleRange(1, 0, 2)]}, "ends before it starts"),
        ({"schedule": [ScheduleRange(1, 4, -2)]}, "negative"),
    ],
)
def test_wrong_requests(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"family": "vllm"} | change
    with pytest.raises(UsageError, match=message):
        ask(**arguments)


def test_an_alias_of_a_family() -> None:
    assert ask("trtllm") == ask("tensorrt-llm")
    assert ask("vLLM") == ask("vllm")
    with pytest.raises(UsageError, match="only TensorRT-LLM"):
        read_settings("vllm", "{}", old_schedule=True)


# ------------------------------------------------------------------------------------------------------------ readers


def vllm_json(**more: Any) -> str:
    return json.dumps({"method": "eagle3", "num_speculative_tokens": 4} | more)


PER_BATCH = "num_speculative_tokens_per_batch_size"
TRT = "speculative_config: {decoding_type: MTP, max_draft_len: 4, draft_len_schedule: %s}"


@pytest.mark.parametrize(
    ("family", "text", "message"),
    [
        ("vllm", "{nonsense", "not JSON"),
        ("vllm", '{"method": "eagle3", "method": "mtp"}', "stands twice"),
        ("vllm", '{"method": "eagle3"}', "num_speculative_tokens: the key is missing"),
        ("vllm", vllm_json(num_speculative_tokens=2.5), "expected a whole number of at least 1, got 2.5"),
        ("vllm", vllm_json(num_speculative_tokens=True), "expected a whole number"),
        ("vllm", vllm_json(method="eagle4"), "did you mean"),
        ("vllm", vllm_json(**{PER_BATCH: {"1": 4}}), "list of"),
        ("vllm", vllm_json(**{PER_BATCH: [[1, 4, 4], [6, 9, 1]]}), "starts at batch 5, got 6"),
        ("vllm", vllm_json(**{PER_BATCH: [[1, 4, 5]]}), "above the configured maximum of 4"),
        ("vllm", "vllm serve m --speculative-config", "no value"),
        ("vllm", "vllm serve m --speculative-config '{", "not a command line"),
        ("vllm", "vllm serve m --speculative-config '[]'", "expected a JSON object, got list"),
        ("sglang", '{"ema_alpha": 0.2}', "batch size as a key"),
        ("sglang", '{"1": {"candidate_steps": []}}', "list of steps"),
        ("sglang", '{"1": {"candidate_steps": ["x"]}}', "whole number"),
        ("sglang", "--speculative-algorithm EAGLE5", "did you mean"),
        ("sglang", "--speculative-algorithm EAGLE3", "--speculative-num-steps: the flag is missing"),
        (
            "sglang",
            "--speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-num-draft-tokens 3",
            "verifies 4 tokens, got 3",
        ),
        ("sglang", "--speculative-algorithm EAGLE3 --speculative-adaptive", "without its file"),
        ("tensorrt-llm", "a: [", "not YAML"),
        ("tensorrt-llm", "[]", "expected a mapping, got list"),
        ("tensorrt-llm", "speculative_config: 4", "expected a mapping, got int"),
        ("tensorrt-llm", "speculative_config: {max_draft_len: 3}", "decoding_type: the key is missing"),
        ("tensorrt-llm", "speculative_config: {decoding_type: MTP}", "max_draft_len: the key is missing"),
        ("tensorrt-llm", TRT % "{4: 4, 4: 3}", "stands twice"),
        ("tensorrt-llm", TRT % "{4: 3, 8: 2}", "must map to max_draft_len = 4, got 3"),
        ("tensorrt-llm", TRT % "{4: 4, 8: 5}", "above the configured maximum"),
        ("tensorrt-llm", TRT % "{0: 4}", "at least 1"),
        ("tensorrt-llm", TRT % "[4]", "mapping of batch"),
        ("tensorrt-llm", TRT % "{4: 4}, max_concurrency: 8", "only one may"),
        ("llama-cpp", "--spec-type draft-mtp,ngram-mod", "several drafters"),
        ("llama-cpp", "--spec-type draft-mpt", "did you mean draft-mtp"),
        ("llama-cpp", "--spec-type ngram-simple", "--spec-ngram-simple-size-m: the flag is missing"),
    ],
)
def test_readers_refuse(family: str, text: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        read_settings(family, text)


@pytest.mark.parametrize("family", FAMILIES)
def test_readers_name_the_file_and_want_the_right_number_of_them(family: str) -> None:
    bad = "--speculative-algorithm X --spec-type X --speculative-config X"
    with pytest.raises(ProfileError, match=r"server\.txt"):
        read_settings(family, {"server.txt": "- 1" if family == "tensorrt-llm" else bad})
    for sources in ({}, {"a": "--x", "b": "--y"}, {"a": '{"1": {"candidate_steps": [1]}}'} | {"b": '{"1": {}}'}):
        with pytest.raises(ProfileError):
            read_settings(family, sources)


def test_readers_take_what_users_have() -> None:
    assert read_settings("vllm", "vllm serve m --speculative_config='{\"method\":\"deepseek_mtp\",\n"
                         '"num_speculative_tokens":2}\'') == (2, None, "mtp")  # fmt: skip
    assert read_settings("vllm", '{"speculative_config": {"num_speculative_tokens": 2}}') == (2, None, None)
    unsorted = vllm_json(**{PER_BATCH: [[5, 9, 1], [1, 4, 4]]})
    assert read_settings("vllm", unsorted).schedule == (ScheduleRange(1, 4, 4), ScheduleRange(5, OPEN_END, 1))
    eagle = "--speculative-algorithm EAGLE --speculative-num-steps 2"
    assert read_settings("sglang", eagle) == (2, None, "mtp")
    assert read_settings("sglang", f"{eagle} --speculative-draft-model-path m") == (2, None, "eagle")
    dflash = "--speculative-algorithm DFLASH --speculative-dflash-block-size 16"
    assert read_settings("sglang", dflash) == (15, None, "dflash")
    limited = "decoding_type: Eagle\nmax_draft_len: 3\nmax_concurrency: 32\n"
    assert read_settings("trtllm", limited) == (
        3,
        (ScheduleRange(1, 32, 3), ScheduleRange(33, OPEN_END, 0)),
        "eagle3",
    )
    older = "speculative_config: {decoding_type: MTP, num_nextn_predict_layers: 2}"
    assert read_settings("trtllm", older) == (2, None, "mtp")
    assert read_settings("llama-cpp", "llama-server -m t.gguf -md d.gguf --draft-max 8") == (8, None, "draft_model")
    assert read_settings("llama-cpp", "llama-server -m t.gguf --spec-type draft-mtp") == (3, None, "mtp")
    with pytest.raises(ProfileError, match="key 1 is required"):
        read_settings("trtllm", TRT % "{4: 4, 8: 2}", old_schedule=True)


# ----------------------------------------------------------------------------------------------- published samples


def test_samples(shared_data: Path) -> None:
    samples = {
        ("vllm", "out_vllm_speculative_config.json"): (4, normalised(EXAMPLE), "eagle3"),
        ("tensorrt-llm", "out_trtllm_extra.yaml"): (4, normalised(EXAMPLE), "mtp"),
        ("llama-cpp", "out_llamacpp_flags.txt"): (3, None, "mtp"),
        # ladders of several steps are read as their largest
        ("sglang", "out_sglang_adaptive.json"): (
            4,
            (ScheduleRange(1, 7, 4), ScheduleRange(8, 31, 3), ScheduleRange(32, OPEN_END, 1)),
            None,
        ),
    }
    for (family, name), expected in samples.items():
        text = (shared_data / "samples" / name).read_text(encoding="utf-8")
        assert read_settings(family, {name: text}) == expected, name
