"""Options that change an answer, and what is pasted into engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import put, toy_drafter, toy_model, write_yaml
from cli_runs import Answer, Runner, outside, refused

from specdec_cli.engines.setting_records import flags_of
from specdec_cli.engines.settings import read_settings
from specdec_cli.explore.scenario import DEFAULTS

ECHOED = {
    "hardware": ("toy-chip-2", ["toy-chip-2"]),
    "model": ("Toy/Model-165M", "toy-model"),
    "engine": ("toy-engine", "toy-engine"),
    "drafter": ("eagle3", ["toy-model-eagle3"]),
    "tp": ("1,2", [1, 2]),
    "gpus": ("2", [2]),
    "ep": ("1", 1),
    "context": ("512", 512),
    "weight-dtype": ("fp8", "fp8"),
    "kv-dtype": ("bf16", "bf16"),
    "acceptance": ("toy-model-eagle3-chat", "toy-model-eagle3-chat"),
    "acceptance-rate": ("0.5", {"constant_conditional_rate": 0.5}),
    "acceptance-length": ("1=1.5", {"acceptance_length": {"1": 1.5}}),
    "batches": ("1,2", "1,2"),
    "draft-lengths": ("0..2", "0..2"),
}


@pytest.mark.parametrize("option", ECHOED)
def test_every_option_is_echoed_with_its_origin(specdec: Runner, option: str) -> None:
    said, resolved = ECHOED[option]
    answer = specdec("sweep", format="json", **{option: said})
    assert answer.code == 0, answer.err
    name = "acceptance" if option.startswith("acceptance") else option.replace("-", "_")
    assert answer.data["inputs"][name] == {"value": resolved, "origin": "option"}


def test_defaults_are_echoed_as_defaults() -> None:
    inputs = Answer(0, outside("recommend", "--batch", "32", "--format", "json").stdout, "").data["inputs"]
    assert inputs["hardware"] == {"value": [DEFAULTS.hardware], "origin": "default"}
    assert inputs["model"] == {"value": DEFAULTS.model, "origin": "default"}
    assert inputs["engine"] == {"value": DEFAULTS.engine, "origin": "default"}
    assert inputs["context"] == {"value": DEFAULTS.context, "origin": "default"}
    assert inputs["batches"] == {"value": DEFAULTS.batches, "origin": "default"}
    assert inputs["tie"] == {"value": DEFAULTS.tie, "origin": "default"}
    assert inputs["min_gain"] == {"value": DEFAULTS.min_gain, "origin": "default"}
    assert inputs["weight_dtype"]["origin"] == "profile"
    assert inputs["batch"] == {"value": 32, "origin": "option"}


def test_assume_goes_past_the_drafters_window(specdec: Runner, tmp_path: Path) -> None:
    drafter = write_yaml(tmp_path / "toy-model-eagle3.yaml", toy_drafter(window_tokens=1000))
    kept = specdec("sweep", drafter=str(drafter), format="json").data
    assert {entry["reason"] for entry in kept["infeasible"]} == {"beyond_draft_window"}
    assert {point["draft_length"] for point in kept["points"]} == {0}
    asked = specdec("sweep", "--assume", drafter=str(drafter), format="json").data
    assert {point["draft_length"] for point in asked["points"]} == {0, 1, 2, 3, 4}


def test_recommend_limits_hold(specdec: Runner) -> None:
    powers = ("--batches", "1..256:x2")  # said, so that no batch between them is looked at
    everything = specdec("sweep", format="json").data["points"]
    middle = sorted(point["interactivity_tokens_per_s_per_user"] for point in everything)[len(everything) // 2]
    chosen = specdec("recommend", *powers, "--min-interactivity", str(middle), "--tie", "0", format="json").data[
        "choice"
    ]
    assert chosen["interactivity_tokens_per_s_per_user"] >= middle
    within = [p for p in everything if p["interactivity_tokens_per_s_per_user"] >= middle]
    assert chosen["throughput_tokens_per_s_per_gpu"] == max(p["throughput_tokens_per_s_per_gpu"] for p in within)
    tpot = 1000 / middle
    capped = specdec("recommend", *powers, "--max-tpot-ms", str(tpot * 1.001), format="json").data["choice"]
    assert 1000 / capped["interactivity_tokens_per_s_per_user"] <= tpot * 1.001
    wide = sorted(point["throughput_tokens_per_s_per_gpu"] for point in everything)[len(everything) // 2]
    fast = specdec("recommend", *powers, "--min-throughput", str(wide), "--tie", "0", format="json").data["choice"]
    assert fast["throughput_tokens_per_s_per_gpu"] >= wide
    within = [p for p in everything if p["throughput_tokens_per_s_per_gpu"] >= wide]
    best = max(p["interactivity_tokens_per_s_per_user"] for p in within)
    assert fast["interactivity_tokens_per_s_per_user"] == best


def test_batch_joins_the_batches_swept(specdec: Runner) -> None:
    assert specdec("recommend", "--batch", "37", format="json").data["choice"]["batch"] == 37


def test_tie_and_min_gain_move_the_choice(specdec: Runner) -> None:
    tight = specdec("recommend", "--batch", "1", "--tie", "0", format="json").data
    loose = specdec("recommend", "--batch", "1", "--tie", "0.9", format="json").data
    assert tight["plateau"] == [tight["choice"]["draft_length"]]
    assert loose["choice"]["draft_length"] == 1
    assert loose["plateau"] == [1, 2, 3, 4]
    greedy = specdec("recommend", "--batch", "1", "--min-gain", "0.99", "--acceptance-length", "1=1.2", format="json")
    assert greedy.data["choice"]["speculate"] is False


@pytest.mark.parametrize("flags", [[], ["--schedule"]])
def test_without_limits_the_schedule_is_the_answer(specdec: Runner, flags: list[str]) -> None:
    data = specdec("recommend", *flags, format="json").data
    assert data["choice"] is None
    assert data["schedule"][0]["batch_from"] == 1
    for earlier, later in zip(data["schedule"], data["schedule"][1:], strict=False):
        assert later["batch_from"] == earlier["batch_to"] + 1
        assert later["draft_length"] != earlier["draft_length"]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "trtllm", "llama-cpp"])
def test_emit_prints_only_what_to_paste(specdec: Runner, engine: str) -> None:
    chosen = specdec("recommend", "--batch", "4", format="json").data["choice"]["draft_length"]
    answer = specdec("recommend", "--batch", "4", "--emit", engine)
    assert answer.code == 0, answer.err
    found = read_settings(engine, answer.out)
    assert (found.draft_length, found.mechanism) == (chosen, "eagle3")
    assert "toy/eagle3-head" in answer.out


def test_emitted_schedule_is_the_schedule(specdec: Runner) -> None:
    data = specdec("recommend", format="json").data["schedule"]
    found = read_settings("vllm", specdec("recommend", "--emit", "vllm").out)
    assert found.schedule is not None
    assert [part.draft_length for part in found.schedule] == [entry["draft_length"] for entry in data]
    assert [part.batch_from for part in found.schedule] == [entry["batch_from"] for entry in data]


def test_emit_computes_for_the_engine_it_writes_for(specdec: Runner) -> None:
    answer = specdec("recommend", "--batch", "4", "--emit", "sglang", engine=None)
    assert answer.code == 0, answer.err
    assert "overheads of sglang" in answer.err


def test_emit_carries_the_layout_and_the_kv_dtype_that_were_asked(specdec: Runner) -> None:
    question = ("--model", "deepseek-r1", "--hardware", "b200-sxm", "--gpus", "8", "--tp", "1", "--ep", "8")
    answer = specdec.raw("recommend", *question, "--batch", "64", "--kv-dtype", "fp8", "--emit", "sglang")
    assert answer.code == 0, answer.err
    flags = flags_of(answer.out, file=None)
    assert {name: flags[name] for name in ("--tp-size", "--dp-size", "--ep-size", "--kv-cache-dtype")} == {
        "--tp-size": "8",
        "--dp-size": "8",
        "--ep-size": "8",
        "--kv-cache-dtype": "fp8_e4m3",
    }
    assert flags["--max-running-requests"] == "64"
    assert "not_pasted" not in answer.err


def test_experts_of_a_dense_model_are_neither_pasted_nor_passed_over_in_silence(specdec: Runner) -> None:
    answer = specdec("recommend", "--batch", "4", "--tp", "2", "--ep", "2", "--emit", "vllm")
    assert answer.code == 0, answer.err
    assert "--enable-expert-parallel" not in answer.out
    assert "ep_without_experts" in answer.err


def test_a_name_that_is_no_checkpoint_is_said_to_be_none(specdec: Runner, tmp_path: Path) -> None:
    named = specdec("recommend", "--batch", "4", "--emit", "vllm")
    assert "vllm serve Toy/Model-165M" in named.out
    assert "target_unnamed" not in named.err
    file = write_yaml(tmp_path / "our-model.yaml", put(toy_model("our-model"), "aliases", []))
    drafting = ("--drafter", "ngram", "--acceptance-rate", "0.8")
    ours = specdec.raw("recommend", "--batch", "4", "--emit", "vllm", "--model", str(file), *drafting)
    assert "vllm serve our-model" in ours.out
    assert "[target_unnamed]: no checkpoint is known for our-model" in ours.err


@pytest.mark.parametrize(("option", "command"), [("--acceptance", "acceptance"), ("--calibration", "calibrate")])
def test_an_engines_own_file_in_a_profiles_place_names_the_command_that_reads_it(
    specdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.log").write_text("SpecDecoding metrics: Mean acceptance length: 2.1\n", "utf-8")
    answer = specdec.raw("recommend", "--batch", "4", option, "server.log")
    assert answer.code == 3
    assert f"specdec {command} server.log -o mine.yaml" in answer.err


@pytest.mark.parametrize("option", ["--hardware", "--model", "--drafter", "--engine", "--acceptance", "--calibration"])
@pytest.mark.parametrize("name", ["a" * 300, "a" * 5000, "no\0name"], ids=["long", "longer", "null"])
def test_a_name_that_no_file_can_have_is_unknown(specdec: Runner, option: str, name: str) -> None:
    answer = specdec.raw("recommend", "--batch", "4", option, name)
    assert answer.code in (2, 3)
    assert "unknown" in answer.err or "no drafter" in answer.err


def test_emit_goes_to_a_file_too(specdec: Runner, tmp_path: Path) -> None:
    answer = specdec("recommend", "--batch", "4", "--emit", "tensorrt-llm", output=str(tmp_path / "spec.yaml"))
    assert (answer.code, answer.out) == (0, "")
    assert read_settings("tensorrt-llm", (tmp_path / "spec.yaml").read_text()).mechanism == "eagle3"


def test_emit_of_a_mechanism_the_engine_lacks_is_infeasible(specdec: Runner, tmp_path: Path) -> None:
    drafter = write_yaml(tmp_path / "toy-medusa.yaml", toy_drafter("toy-medusa", "medusa"))
    answer = specdec(
        "recommend", "--batch", "4", "--emit", "llama-cpp", "--acceptance-length", "1=1.9,2=2.8", drafter=str(drafter)
    )
    refused(answer, 4, "no medusa drafting")


def test_engine_settings_are_in_the_json_for_every_engine(specdec: Runner) -> None:
    data = specdec("recommend", "--batch", "4", format="json").data
    assert set(data["engine_settings"]) == {"vllm", "sglang", "tensorrt-llm", "llama-cpp"}
    for engine, setting in data["engine_settings"].items():
        assert setting["engine_version"]
        assert read_settings(engine, setting["text"]).draft_length == data["choice"]["draft_length"]
