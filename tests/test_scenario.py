"""Options -> scenarios: every default named with its origin, every contradiction refused with its exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import (
    Data,
    drop,
    put,
    toy_acceptance,
    toy_drafter,
    toy_engine,
    toy_hardware,
    toy_model,
    toy_moe_model,
    write_yaml,
)
from toys import shipped, toy_library, toy_options

from specdec_cli.errors import ProfileError, SpecdecError, UsageError
from specdec_cli.explore.grid import evaluate
from specdec_cli.explore.scenario import DEFAULTS, Options, Question, Scenario, parse_acceptance_lengths, resolve


def ask(root: Path, *more: Data, **options: Any) -> Question:
    return resolve(toy_library(root, *more), toy_options(**options))


def only(question: Question) -> Scenario:
    (scenario,) = question.scenarios
    return scenario


def codes(question: Question) -> list[str]:
    return [note.code for note in question.notes]


# -------------------------------------------------------------------------------------------------- defaults


def test_nothing_said_is_the_default_scenario() -> None:
    question = resolve(shipped(), Options())
    scenario = only(question)
    assert (scenario.hardware.name, scenario.model.name, scenario.engine.name) == ("h100-sxm", "llama-3.1-8b", "vllm")
    assert scenario.drafter_name == "llama-3.1-8b-eagle3"
    assert scenario.context == DEFAULTS.context == 2048
    assert scenario.batches == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert scenario.acceptance_profile is not None
    assert scenario.acceptance_profile.default
    largest = max(point.draft_length for point in scenario.acceptance_profile.points)
    assert scenario.draft_lengths == tuple(range(largest + 1))
    origins = {name: given.origin for name, given in question.inputs.items()}
    assert set(origins.values()) == {"default", "profile"}
    assert origins["weight_dtype"] == origins["kv_dtype"] == "profile"
    assert question.inputs["acceptance"].value == scenario.acceptance_profile.name


def test_every_input_is_echoed_with_its_origin(tmp_path: Path) -> None:
    question = ask(tmp_path, context=500, batches="1,2", tp="2", kv_dtype="bf16", draft_lengths="0..2")
    values = {name: (given.value, given.origin) for name, given in question.inputs.items()}
    assert values["context"] == (500, "option")
    assert values["batches"] == ("1,2", "option")
    assert values["tp"] == ([2], "option")
    assert values["gpus"] == ([2], "default")
    assert values["ep"] == (1, "default")
    assert values["kv_dtype"] == ("bf16", "option")
    assert values["weight_dtype"] == ("bf16", "profile")
    assert values["draft_lengths"] == ("0..2", "option")
    assert values["drafter"] == (["toy-model-eagle3"], "default")
    assert values["acceptance"] == ("toy-model-eagle3-chat", "default")
    assert values["hardware"] == (["toy-chip"], "option")


def test_names_files_and_aliases_become_names(tmp_path: Path) -> None:
    model = toy_model(aliases=["toys/Toy-Model-Instruct"])
    library = toy_library(tmp_path, model)
    file = tmp_path / "hardware" / "toy-chip.yaml"
    question = resolve(library, toy_options(model="TOYS/toy-model-instruct", hardware=str(file)))
    assert question.inputs["model"].value == "toy-model"
    assert question.inputs["hardware"].value == ["toy-chip"]


def test_draft_lengths_reach_the_largest_measured_or_eight(tmp_path: Path) -> None:
    assert only(ask(tmp_path)).draft_lengths == (0, 1, 2, 3, 4)
    assert only(ask(tmp_path, acceptance_rate=0.7)).draft_lengths == tuple(range(9))
    assert only(ask(tmp_path, acceptance_length="1=1.7,6=3.0")).draft_lengths == tuple(range(7))
    assert only(ask(tmp_path, drafter="none")).draft_lengths == (0,)
    assert only(ask(tmp_path, draft_lengths="2,5")).draft_lengths == (2, 5)
    with pytest.raises(UsageError, match="--draft-lengths 2,5 conflicts with --drafter none"):
        ask(tmp_path, drafter="none", draft_lengths="2,5")


def test_a_mechanism_names_the_targets_drafter(tmp_path: Path) -> None:
    assert only(ask(tmp_path, drafter="eagle3")).drafter_name == "toy-model-eagle3"
    assert only(ask(tmp_path, drafter="toy-ngram", acceptance_rate=0.3)).drafter_name == "toy-ngram"


def test_dtypes_asked_for_reach_the_operations(tmp_path: Path) -> None:
    scenario = only(ask(tmp_path, weight_dtype="fp8", context=100))
    assert scenario.dtypes.ffn == "fp8"
    assert scenario.dtypes.lm_head == "bf16"
    assert scenario.memory.target_weights == 145e6 + 2 * 20e6


# ------------------------------------------------------------------------------------------------------- lists


def test_lists_are_swept_together(tmp_path: Path) -> None:
    question = ask(
        tmp_path,
        toy_hardware("other-chip"),
        hardware="toy-chip,other-chip",
        tp="1,2",
        drafter="none,toy-model-eagle3",
        batches="1",
    )
    found = [(s.hardware.name, s.layout.tp, s.layout.gpus, s.drafter_name) for s in question.scenarios]
    assert len(found) == len(set(found)) == 8
    assert ("other-chip", 2, 2, "toy-model-eagle3") in found


def test_a_name_twice_is_one(tmp_path: Path) -> None:
    assert len(ask(tmp_path, hardware="toy-chip,toy-chip", drafter="none").scenarios) == 1


def test_gpus_beyond_tp_are_attention_ranks(tmp_path: Path) -> None:
    question = ask(tmp_path, tp="1,2,4", gpus=4, drafter="none")
    assert [(s.layout.tp, s.layout.ranks) for s in question.scenarios] == [(1, 4), (2, 2), (4, 1)]
    assert only(ask(tmp_path, gpus=4, drafter="none")).layout.tp == 4


# ------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acceptance_rate": 0.7, "acceptance_length": "1=1.7"}, "--acceptance-rate and --acceptance-length conflict"),
        (
            {"acceptance": "toy-model-eagle3-chat", "acceptance_rate": 0.7},
            "--acceptance and --acceptance-rate conflict",
        ),
        ({"acceptance_rate": 0.7, "drafter": "none"}, "--acceptance-rate conflicts with --drafter none"),
        ({"acceptance": "toy-model-eagle3-chat", "drafter": "eagle3,toy-ngram"}, "conflicts with a list of drafters"),
        ({"context": 0}, "--context must be at least 1 token, got 0"),
        ({"context": -5}, "--context must be at least 1 token, got -5"),
        ({"context": 8193}, r"--context 8193 exceeds what toy-model can hold \(8192 tokens\)"),
        ({"context": 100, "input_tokens": 10, "output_tokens": 10}, "--context conflicts with --input-tokens"),
        ({"input_tokens": 10}, "--output-tokens is missing"),
        ({"output_tokens": 10}, "--input-tokens is missing"),
        ({"input_tokens": 0, "output_tokens": 10}, "--input-tokens must be at least 1 token, got 0"),
        ({"weight_dtype": "bf1"}, "--weight-dtype 'bf1' is not known; did you mean bf16"),
        ({"kv_dtype": "int3"}, "--kv-dtype 'int3' is not known"),
        ({"batches": ""}, "--batches names no values"),
        ({"batches": "0,1"}, "--batches must be at least 1, got 0"),
        ({"batches": "-4"}, "--batches must be at least 1, got -4"),
        ({"draft_lengths": "-1..3"}, "--draft-lengths must be at least 0, got -1"),
        ({"draft_lengths": ""}, "--draft-lengths names no values"),
        ({"tp": "0"}, "--tp must be at least 1, got 0"),
        ({"tp": ""}, "--tp names no values"),
        ({"gpus": 0}, "--gpus must be at least 1, got 0"),
        ({"gpus": -1}, "must be at least 1, got -1"),
        ({"tp": "2", "gpus": 3}, "--gpus 3 is not a multiple of --tp 2"),
        ({"gpus": 4, "ep": 3}, "--ep 3 does not divide --gpus 4"),
        ({"ep": 0}, "--ep must be at least 1, got 0"),
        ({"tp": "8"}, r"8 GPUs exceed the scale-up domain of toy-chip \(4 GPUs\)"),
        ({"hardware": "toy-chip,"}, "--hardware holds an empty name"),
        ({"drafter": ",eagle3"}, "--drafter holds an empty name"),
        ({"acceptance_rate": 1.5}, "--acceptance-rate must lie between 0 and 1, got 1.5"),
        ({"acceptance_length": "2=3.5"}, "at D = 2 it lies between 1 and 3; got 3.5"),
        ({"acceptance_length": "0=1"}, "a draft length must be at least 1, got 0"),
        ({"acceptance_length": "1=1.5,1=1.6"}, "names draft length 1 twice"),
        ({"acceptance_length": "1:1.5"}, "cannot read '1:1.5'"),
        ({"acceptance_length": ""}, "cannot read ''"),
        ({"draft_lengths": "0..10000"}, "no engine drafts 10000 tokens"),
        ({"acceptance_length": "9999999999=3"}, "no engine drafts 9999999999 tokens"),
        ({"input_tokens": 1, "output_tokens": 10**7}, "--input-tokens 1 and --output-tokens 10000000 make"),
        ({"batches": "1..3000000", "draft_lengths": "0..3"}, "the sweep: 12,000,000 points"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        ask(tmp_path, **options)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hardware": "toy-chp"}, "unknown hardware `toy-chp`.*toy-chip"),
        ({"model": "toy-modle"}, "unknown model `toy-modle`.*toy-model"),
        ({"engine": "toy-engin"}, "unknown engine `toy-engin`.*toy-engine"),
        ({"drafter": "toy-model-eagle"}, "unknown drafter `toy-model-eagle`.*toy-model-eagle3"),
        ({"drafter": "mtp"}, "no mtp drafter is known for toy-model"),
        ({"drafter": "toy-ngram"}, "no measured acceptance is known for toy-ngram on toy-model: give"),
        ({"acceptance": "toy-model-eagle3-chta"}, "unknown acceptance `toy-model-eagle3-chta`.*toy-model-eagle3-chat"),
        ({"hardware": "./nowhere.yaml"}, "nowhere.yaml"),
        ({"drafter": "llama-3.1-8b-eagle3"}, "`llama-3.1-8b-eagle3` drafts for llama-3.1-8b, not for toy-model"),
    ],
)
def test_profiles_that_are_missing_are_profile_errors(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError, match=f"(?s){message}") as caught:
        ask(tmp_path, **options)
    assert caught.value.exit_code == 3


def test_a_model_nobody_drafts_for_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"(?s)no drafter is known for lone-model.*--drafter none"):
        ask(tmp_path, toy_model("lone-model"), model="lone-model")
    assert only(ask(tmp_path, toy_model("lone-model"), model="lone-model", drafter="none")).drafter is None


def test_a_chip_without_the_kernels_is_a_profile_error(tmp_path: Path) -> None:
    hardware = drop(toy_hardware(), "kernels.default.moe.bf16")
    moe = toy_moe_model(parameters={})
    question = ask(tmp_path, hardware, moe, model="toy-moe", drafter="none", batches="1")
    with pytest.raises(ProfileError, match="toy-chip has no figures for bf16 moe kernels") as caught:
        evaluate(only(question))
    assert caught.value.exit_code == 3


def test_every_users_mistake_has_a_code_of_its_own() -> None:
    assert {error.exit_code for error in SpecdecError.__subclasses__()} == {2, 3, 4}


# ------------------------------------------------------------------------------------------------------- notes


def test_what_rests_on_little_is_said(tmp_path: Path) -> None:
    question = ask(tmp_path)
    assert {"hardware_not_fitted", "engine_few_sweeps", "acceptance_source"} <= set(codes(question))
    solid = ask(tmp_path / "b", toy_hardware(fitted=True), toy_engine(fitted_sweeps=3))
    assert not {"hardware_not_fitted", "engine_few_sweeps"} & set(codes(solid))


def test_bands_widen_with_what_is_not_known(tmp_path: Path) -> None:
    # 8 % for a fitted chip, 15 % for another, 5 % more for an engine with fewer than three published sweeps
    def band(fitted: bool, sweeps: int) -> float:
        root = tmp_path / f"{fitted}{sweeps}"
        return only(ask(root, toy_hardware(fitted=fitted), toy_engine(fitted_sweeps=sweeps))).band.relative

    assert (band(True, 3), band(True, 2), band(False, 3), band(False, 0)) == pytest.approx((0.08, 0.13, 0.15, 0.20))


def test_a_chosen_drafter_is_named_beside_the_others(tmp_path: Path) -> None:
    said = [n.message for n in ask(tmp_path).notes if n.code == "drafter_chosen"]
    assert len(said) == 1
    assert "toy-model-eagle3" in said[0]
    assert "toy-ngram" in said[0]
    assert "drafter_chosen" not in codes(ask(tmp_path, drafter="eagle3"))


def test_measurements_of_another_pair_are_used_with_a_note(tmp_path: Path) -> None:
    question = ask(tmp_path, drafter="toy-ngram", acceptance="toy-model-eagle3-chat")
    assert "acceptance_pair" in codes(question)
    assert only(question).acceptance is not None
    assert "acceptance_pair" not in codes(ask(tmp_path, acceptance="toy-model-eagle3-chat"))


def test_past_the_trained_window_acceptance_is_unknown_unless_assumed(tmp_path: Path) -> None:
    windowed = toy_drafter(window_tokens=1000)
    inside, past = (ask(tmp_path, windowed, context=context) for context in (1000, 1001))
    assert not only(inside).beyond_window
    assert only(past).beyond_window
    assert "beyond_draft_window" in codes(past)
    assumed = ask(tmp_path, windowed, context=1001, assume=True)
    assert not only(assumed).beyond_window
    assert "beyond_draft_window" in codes(assumed)  # still said


def test_outside_a_table_by_context_there_is_no_acceptance(tmp_path: Path) -> None:
    points = [{"draft_length": 3, "acceptance_length": al, "context_tokens": c} for al, c in ((2.3, 1000), (1.4, 4000))]
    table = toy_acceptance(points=points)
    assert only(ask(tmp_path, table, context=2500)).acceptance is not None
    outside = only(ask(tmp_path, table, context=5000))
    assert outside.acceptance is None
    assert outside.draft_lengths == (0, 1, 2, 3)  # still asked for, and refused with a reason (test_sweep)


def test_other_data_sets_of_the_pair_widen_the_band(tmp_path: Path) -> None:
    default = toy_acceptance(default=True)
    code = toy_acceptance("toy-model-eagle3-code", points=[{"draft_length": 1, "acceptance_length": 1.9}])
    widened = only(ask(tmp_path, default, code)).acceptance
    assert widened is not None
    found = widened.estimate(1)
    assert found is not None
    assert (found.low, found.acceptance_length, found.high) == (1.7, 1.7, 1.9)
    # named, the profile stands for itself
    named = only(ask(tmp_path, default, code, acceptance="toy-model-eagle3-chat")).acceptance
    assert named is not None
    alone = named.estimate(1)
    assert alone is not None
    assert alone.high == 1.7


def test_notes_are_said_once(tmp_path: Path) -> None:
    question = ask(tmp_path, tp="1,2", drafter="eagle3")
    assert len(codes(question)) == len(set(question.notes))


def test_acceptance_lengths_as_written() -> None:
    assert parse_acceptance_lengths("1=1.91, 3=2.83") == {1: 1.91, 3: 2.83}
    for text in ("1=nan", "1=x", "x=1.5", "1", "1=1.5;2=2"):
        with pytest.raises(UsageError, match="--acceptance-length"):
            resolve(shipped(), Options(acceptance_length=text))


# ------------------------------------------------------------------------------------- the shipped profiles


MODELS = shipped().names("model")


@pytest.mark.parametrize("name", MODELS)
def test_every_shipped_model_can_be_priced(name: str) -> None:
    """On eight H200 in its own dtypes where they have such kernels, else in 16 bits."""
    dtype = None
    weights = shipped().model(name).record.dtypes
    held = shipped().hardware("h200-sxm").record.kernels["default"]
    needed = {weights.weights, weights.experts, weights.attention, weights.ffn, weights.lm_head} - {None, "fp16"}
    if not needed <= set(held.gemm) or not {weights.experts or weights.weights} <= set(held.moe):
        dtype = "bf16"
    options = Options(hardware="h200-sxm", model=name, gpus=8, drafter="none", context=1024, weight_dtype=dtype)
    grid = evaluate(only(resolve(shipped(), options)))
    assert np.all(np.isfinite(grid.times.target_s))
    assert np.all(grid.times.target_s > 1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_every_known_drafter_of_a_shipped_model_can_be_priced(name: str) -> None:
    library = shipped()
    for loaded in library.drafters_for(name):
        drafter = loaded.record.name
        if library.default_acceptance(name, drafter) is None:
            continue
        options = Options(hardware="h200-sxm", model=name, gpus=8, drafter=drafter, context=1024, weight_dtype="bf16")
        grid = evaluate(only(resolve(library, options)))
        speculating = grid.draft_lengths > 0
        assert speculating.any(), drafter
        assert np.all(np.isfinite(grid.speedup)), drafter
        assert np.all(grid.times.draft_s[:, speculating] > 0), drafter


def test_a_key_of_another_engine_changes_its_scenarios_alone(tmp_path: Path) -> None:
    slow = put(toy_engine("slow-engine"), "overheads.step_ms", 5.0)
    fast = only(ask(tmp_path, slow, drafter="none", batches="1"))
    other = only(ask(tmp_path, slow, drafter="none", batches="1", engine="slow-engine"))
    added = evaluate(other).times.target_s - evaluate(fast).times.target_s
    assert float(added[0, 0]) == pytest.approx(5e-3)


# -------------------------------------------------------------------------------------------- profiles of the user


def test_two_files_of_one_name_cannot_be_told_apart(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write_yaml(tmp_path / folder / "mine.yaml", toy_hardware("mine"))
    with pytest.raises(UsageError, match="--hardware: two profiles are named `mine`"):
        ask(tmp_path, hardware=f"{tmp_path}/one/mine.yaml,{tmp_path}/two/mine.yaml")


def test_one_chip_spelled_twice_is_one(tmp_path: Path) -> None:
    assert len(ask(tmp_path, hardware="toy-chip,TOY-CHIP").scenarios) == 1
    assert len(ask(tmp_path, drafter="eagle3,toy-model-eagle3").scenarios) == 1


def test_a_users_file_is_named_and_doubted(tmp_path: Path) -> None:
    file = write_yaml(tmp_path / "slow.yaml", toy_hardware("slow", memory_bandwidth_gb_per_s=3.35))
    said = {(note.code, note.message) for note in ask(tmp_path, hardware=str(file)).notes}
    assert ("profile_from", f"slow is read from {file}") in said
    (doubt,) = [message for code, message in said if code == "implausible" and "memory_bandwidth" in message]
    assert "GB/s: 3.35 TB/s is 3350.0" in doubt


def test_heads_that_tp_does_not_divide_are_warned_of(tmp_path: Path) -> None:
    assert "heads_not_divisible" in codes(ask(tmp_path, tp="3"))
    assert "heads_not_divisible" not in codes(ask(tmp_path, tp="2"))


def test_a_chip_names_the_engine_that_drives_it(tmp_path: Path) -> None:
    metal = write_yaml(tmp_path / "metal.yaml", toy_hardware("metal", default_engine="toy-other"))
    with pytest.raises(ProfileError, match="unknown engine `toy-other`"):
        ask(tmp_path, hardware=str(metal), engine=None)
    assert only(ask(tmp_path, hardware=str(metal), engine="toy-engine")).engine.name == "toy-engine"


def test_acceptance_that_falls_or_is_shared_is_doubted(tmp_path: Path) -> None:
    assert "acceptance_falls" in codes(ask(tmp_path, acceptance_length="1=1.8,3=1.7"))
    assert "acceptance_falls" not in codes(ask(tmp_path, acceptance_length="1=1.7,3=1.8"))
    both = ask(tmp_path, drafter="toy-ngram,eagle3", acceptance_length="1=1.7")
    assert "acceptance_shared" in codes(both)
