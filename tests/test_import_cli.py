"""`specdec profiles import`, and a `config.json` given where a profile is expected."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import toy_acceptance, toy_drafter, toy_engine, toy_hardware, toy_model, write_library
from cli_runs import Runner

from specdec_cli.engines.read.gguf_width import bits_per_weight
from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.profiles.gguf import nearest_format
from specdec_cli.profiles.hf_config import repository_of
from specdec_cli.profiles.load import check_file, load_file

# The toy model of `builders`, as its config.json would say it.
TOY: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 10,
    "hidden_size": 1000,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 125,
    "intermediate_size": 4000,
    "vocab_size": 10000,
    "max_position_embeddings": 8192,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
HEAD: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "hidden_size": 1000,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 4000,
    "vocab_size": 10000,
    "draft_vocab_size": 2000,
    "max_position_embeddings": 2048,
    "torch_dtype": "float16",
}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]}


@pytest.fixture
def specdec(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.chdir(tmp_path)
    folder = write_library(
        tmp_path / "toys",
        toy_hardware(),
        toy_engine(),
        toy_model(aliases=["Toy/Model-165M"]),
        toy_drafter(default=True),
        toy_acceptance(default=True),
    )
    return Runner(folder, capsys)


def config(folder: Path, base: dict[str, Any] = TOY, **changes: Any) -> Path:
    """A folder with a config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**base, **changes}), "utf-8")
    return folder


def imported(specdec: Runner, *arguments: str) -> Any:
    answer = specdec.raw("profiles", "import", *arguments, "--profiles", str(specdec.folder))
    assert answer.code == 0, answer.err
    return yaml.safe_load(answer.out)


def refused(specdec: Runner, *arguments: str) -> tuple[int, str]:
    answer = specdec.raw("profiles", "import", *arguments, "--profiles", str(specdec.folder))
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    return answer.code, answer.err


# ---------------------------------------------------------------------------------------------------- models


def test_a_model_to_stdout_and_to_a_file(specdec: Runner, tmp_path: Path) -> None:
    folder = config(tmp_path / "Mine-Instruct")
    assert imported(specdec, str(folder))["name"] == "mine"
    assert imported(specdec, str(folder / "config.json"))["name"] == "mine"
    assert imported(specdec, str(folder), "--name", "other")["name"] == "other"
    answer = specdec.raw("profiles", "import", str(folder), "-o", "my-toy.yaml")
    assert (answer.code, answer.out) == (0, "")
    assert check_file(tmp_path / "my-toy.yaml", "model") == []
    record = load_file(tmp_path / "my-toy.yaml").record
    assert (record.name, record.hidden, record.blocks[0].repeat) == ("my-toy", 1000, 10)
    assert record.sources["*"].from_ == f"imported from {folder / 'config.json'}"


def test_assumptions_stand_in_the_profile_and_on_stderr(specdec: Runner, tmp_path: Path) -> None:
    folder = config(tmp_path / "mine", num_nextn_predict_layers=1)
    answer = specdec.raw("profiles", "import", str(folder))
    (said,) = yaml.safe_load(answer.out)["assumptions"]
    assert said == "num_nextn_predict_layers advertises 1 MTP layer(s); the file cannot show that the tensors exist."
    assert f"note [assumed]: {said}" in answer.err


def test_the_quantisation_file_beside_it_counts(specdec: Runner, tmp_path: Path) -> None:
    folder = config(tmp_path / "mine")
    side = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"], "kv_cache_quant_algo": "FP8"}}
    (folder / "hf_quant_config.json").write_text(json.dumps(side), "utf-8")
    assert imported(specdec, str(folder))["dtypes"] == {"weights": "nvfp4", "lm_head": "bf16", "kv": "fp8"}


def test_a_known_repository_takes_the_librarys_name(specdec: Runner, tmp_path: Path) -> None:
    folder = config(tmp_path / "x", _name_or_path="toy/model-165m")
    assert imported(specdec, str(folder))["name"] == "toy-model"


def test_a_copy_of_a_known_model_says_of_which(specdec: Runner, tmp_path: Path) -> None:
    """By name and by size: neither alone is enough."""
    copy = imported(specdec, str(config(tmp_path / "Toy-Model-FP8", quantization_config=FP8)))
    assert (copy["name"], copy["quantised_from"]) == ("toy-model-fp8", "toy-model")
    assert "taken as a quantised copy of it" in copy["assumptions"][-1]
    assert "quantised_from" not in imported(specdec, str(config(tmp_path / "other-fp8", quantization_config=FP8)))
    wider = config(tmp_path / "wide" / "toy-model-fp8", intermediate_size=5000, quantization_config=FP8)
    assert "quantised_from" not in imported(specdec, str(wider))


def test_repositories_are_known_by_key_by_cache_folder_and_by_file_name(tmp_path: Path) -> None:
    assert repository_of({"_name_or_path": "maker/model"}, tmp_path / "config.json") == "maker/model"
    cached = tmp_path / "models--maker--model" / "snapshots" / "0f3a" / "config.json"
    assert repository_of({"_name_or_path": "/home/me/model"}, cached) == "maker/model"
    assert repository_of({}, tmp_path / "maker__model.json") == "maker/model"
    assert repository_of({}, tmp_path / "my_model" / "config.json") is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"intermediate_size": None}, "missing key intermediate_size"),
        ({"hidden_size": "wide"}, 'hidden_size: expected a whole number, found "wide"'),
        ({"quantization_config": {"quant_method": "novel"}}, "unknown quantisation method 'novel'"),
        ({"num_key_value_heads": 3}, "attention.full.kv_heads: expected a divisor of heads = 8, found 3"),
    ],
)
def test_refusals_name_the_key(specdec: Runner, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    code, said = refused(specdec, str(config(tmp_path / "mine", **changes)))
    assert code == 3
    assert words in said


def test_what_is_no_configuration(specdec: Runner, tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("{", "utf-8")
    for path, words in (("text.json", "is not JSON"), ("none.json", "no such file"), ("toys", "no such file")):
        code, said = refused(specdec, path)
        assert code == 3
        assert words in said


def test_names_and_files_that_do_not_go_together(specdec: Runner, tmp_path: Path) -> None:
    folder = str(config(tmp_path / "mine"))
    for arguments, words in (
        (["--name", "one", "-o", "two.yaml"], "differ"),
        (["--name", "One Two"], "one-two would do"),
        (["-o", "My Model.yaml"], "--output: a profile's name is made of"),
        (["--kind", "engine"], "is not imported"),
        (["--kind", "modle"], "did you mean model"),
        (["--target", "toy-model"], "--kind drafter imports one"),
        (["--bits-per-weight", "4.5", "--llama-bench", "x"], "give one"),
        (["--bits-per-weight", "600"], "not a width of GGUF files"),
    ):
        code, said = refused(specdec, folder, *arguments)
        assert code == 2, arguments
        assert words in said, arguments


def test_an_output_that_exists_stays(specdec: Runner, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine", "utf-8")
    code, said = refused(specdec, str(config(tmp_path / "m")), "-o", "mine.yaml")
    assert code == 2
    assert "--force replaces it" in said
    assert (tmp_path / "mine.yaml").read_text("utf-8") == "mine"


# -------------------------------------------------------------------------------------------------- drafters


def test_a_drafter_is_seen_to_be_one(specdec: Runner, tmp_path: Path) -> None:
    head = str(config(tmp_path / "head", HEAD))
    data = imported(specdec, head, "--target", "TOY-model")
    assert (data["kind"], data["name"], data["mechanism"]) == ("drafter", "toy-model-eagle3", "eagle3")
    assert data["targets"] == ["toy-model"]
    assert data["head"]["attention_input"] == 2000
    code, said = refused(specdec, head)
    assert code == 2
    assert "--target MODEL is needed" in said
    code, said = refused(specdec, head, "--target", "toy-modle")
    assert code == 3
    assert "did you mean toy-model" in said


def test_a_mechanism_that_the_file_does_not_say(specdec: Runner, tmp_path: Path) -> None:
    one_layer = str(config(tmp_path / "head", TOY, num_hidden_layers=1))
    asked = ("--kind", "drafter", "--target", "toy-model", "--mechanism")
    assert imported(specdec, one_layer, *asked, "eagle")["mechanism"] == "eagle"
    code, said = refused(specdec, one_layer, *asked, "eagel")
    assert code == 2
    assert "did you mean eagle" in said


# ------------------------------------------------------------------------------------------------------ GGUF


@pytest.mark.parametrize(
    ("bits", "nearest"),
    [(4.5, "q4_k"), (4.89, "q4_k"), (5.1, "q5_k"), (5.69, "q5_k"), (6.56, "q6_k"), (8.5, "q8_0"), (16, "fp16")],
)
def test_the_nearest_format(bits: float, nearest: str) -> None:
    """Q4_K_M files have about 4.85 bits, Q5_K_M 5.69, Q6_K 6.56, Q8_0 8.5."""
    assert nearest_format(bits)[0] == nearest


@pytest.mark.parametrize("bits", [0.5, 0.0, -4.5, 35.0, float("nan")])
def test_what_is_no_width(bits: float) -> None:
    with pytest.raises(UsageError, match="not a width of GGUF files"):
        nearest_format(bits)


RUN = {"model_filename": "x.gguf", "model_size": 4500, "model_n_params": 8000, "n_gen": 128}
FORMS = {
    "json": json.dumps([RUN, RUN], indent=1),
    "jsonl": f"{json.dumps(RUN)}\n{json.dumps(RUN)}\n" + '{"model_size": 45',
    "csv": 'model_size,model_n_params\n"4500","8000"\n',
    "md": "| model | size | params |\n| --- | ---: | ---: |\n| x | 4.19 GiB | 8.00 B |\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_width_from_llama_bench(tmp_path: Path, form: str) -> None:
    """8 x 4500 / 8000 = 4.5; 4.19 GiB = 4.499e9."""
    path = tmp_path / f"bench.{form}"
    path.write_text(FORMS[form], "utf-8")
    assert bits_per_weight(path) == pytest.approx(4.5, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "expected llama-bench output"),
        ("", "the file is empty"),
        (json.dumps([RUN, {**RUN, "model_size": 8500}]), "runs of 2 files: 4.50, 8.50 bits"),
        (json.dumps([{**RUN, "model_n_params": 0}]), "model_n_params: expected a number above 0"),
        (json.dumps([{**RUN, "model_size": "big"}]), "model_size: expected a number above 0"),
    ],
)
def test_what_is_no_llama_bench_output(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bench"
    path.write_text(text, "utf-8")
    with pytest.raises(ProfileError, match=words):
        bits_per_weight(path)


def test_samples_of_llama_bench(shared_data: Path) -> None:
    """The samples are of an 8B model in Q4_K_M."""
    for form in ("json", "jsonl", "csv", "md"):
        assert bits_per_weight(shared_data / "samples" / f"llama_bench.{form}") == pytest.approx(4.894, abs=0.006)


def test_a_gguf_copy(specdec: Runner, tmp_path: Path) -> None:
    folder = str(config(tmp_path / "mine", quantization_config=FP8))
    by_flag = imported(specdec, folder, "--bits-per-weight", "4.85")
    assert by_flag["dtypes"] == {"weights": "q4_k"}
    assert by_flag["assumptions"] == [
        "GGUF of 4.85 bits per weight (--bits-per-weight): every part taken as q4_k, 4.5 bits, 7% fewer bytes than the "
        "file has."
    ]
    (tmp_path / "bench.json").write_text(FORMS["json"], "utf-8")
    by_file = imported(specdec, folder, "--llama-bench", "bench.json")
    assert "GGUF of 4.50 bits per weight (llama-bench, bench.json)" in by_file["assumptions"][0]
    head = str(config(tmp_path / "head", HEAD))
    assert "this is a drafter" in refused(specdec, head, "--target", "toy-model", "--bits-per-weight", "4.5")[1]


# ------------------------------------------------------------------------------------------- on the fly


def test_sweep_takes_a_config(specdec: Runner, tmp_path: Path) -> None:
    """The sizes are the toy's, so are its drafter and acceptance by name: the answer is the same."""
    folder = config(tmp_path / "toy-model", num_nextn_predict_layers=None)
    asked = {"batches": "1,4", "format": "json", "engine": "toy-engine"}
    profile = specdec("sweep", **asked).data
    for given in (f"toy-model{os.sep}config.json", str(folder), f".{os.sep}toy-model"):
        answer = specdec("sweep", model=given, **asked)
        assert answer.code == 0, answer.err
        assert answer.data["points"] == profile["points"]
        assert answer.data["inputs"]["model"] == {"value": "toy-model", "origin": "option"}
        assert "note [model_imported]" in answer.err


def test_assumptions_of_an_import_are_in_the_answer(specdec: Runner, tmp_path: Path) -> None:
    folder = config(tmp_path / "toy-model", num_nextn_predict_layers=1)
    warnings = specdec("sweep", model=str(folder), batches="1", format="json").data["warnings"]
    (said,) = [warning["message"] for warning in warnings if warning["code"] == "model_imported"]
    assert "assumed: num_nextn_predict_layers advertises 1 MTP layer(s)" in said


def test_a_quantised_config_takes_its_bases_drafters(specdec: Runner, tmp_path: Path) -> None:
    per_tensor = {**FP8, "weight_block_size": None}
    folder = config(tmp_path / "toy-model-fp8", quantization_config=per_tensor)
    data = specdec("sweep", model=str(folder), batches="1", format="json").data
    assert data["inputs"]["drafter"]["value"] == ["toy-model-eagle3"]
    codes = [warning["code"] for warning in data["warnings"]]
    assert "acceptance_of_base" in codes


def test_a_drafters_config_on_the_fly(specdec: Runner, tmp_path: Path) -> None:
    head = str(config(tmp_path / "head", HEAD) / "config.json")
    options = {"drafter": head, "batches": "1", "draft-lengths": "0..2", "format": "json"}
    answer = specdec("sweep", **{**options, "acceptance-rate": "0.7"})
    assert answer.code == 0, answer.err
    assert {point["drafter"] for point in answer.data["points"]} >= {"toy-model-eagle3"}
    assert "drafter_imported" in [warning["code"] for warning in answer.data["warnings"]]


def test_a_config_that_is_refused_ends_with_3(specdec: Runner, tmp_path: Path) -> None:
    answer = specdec("sweep", model=str(config(tmp_path / "mine", vocab_size=None)))
    assert (answer.code, answer.out) == (3, "")
    assert "missing key vocab_size" in answer.err
    answer = specdec("sweep", model="none.json")
    assert (answer.code, answer.err) == (3, "error: none.json: no such file\n")
