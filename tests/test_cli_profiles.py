"""`specdec profiles list` and `show` on the toys."""

from __future__ import annotations

from pathlib import Path

from builders import put, toy_drafter, toy_hardware, write_yaml
from cli_runs import Runner, refused


def test_profiles_list_filters(specdec: Runner) -> None:
    def names(*arguments: str) -> set[str]:
        answer = specdec.raw("profiles", "list", "--profiles", str(specdec.folder), "--format", "json", *arguments)
        assert answer.code == 0
        return {f"{profile['kind']}/{profile['name']}" for profile in answer.data["profiles"]}

    toys = {"hardware/toy-chip", "hardware/toy-chip-2", "model/toy-model", "drafter/toy-model-eagle3"}
    assert toys | {"engine/toy-engine", "hardware/h100-sxm"} <= names()
    assert "acceptance/toy-model-eagle3-chat" not in names()
    assert names("TOY-CHIP") == {"hardware/toy-chip", "hardware/toy-chip-2"}
    assert names("--vendor", "toy") == {"hardware/toy-chip", "hardware/toy-chip-2", "model/toy-model"}
    assert names("toy chat") == {"acceptance/toy-model-eagle3-chat"}
    assert names("--kind", "engine", "toy") == {"engine/toy-engine"}
    assert names("no such thing anywhere") == set()


def test_profiles_list_says_what_it_left_out(specdec: Runner) -> None:
    answer = specdec.raw("profiles", "list", "--profiles", str(specdec.folder), "--format", "json")
    assert answer.data["not_listed"]["acceptance"] >= 1
    assert "acceptance profiles are not listed; --kind acceptance" in answer.err


def test_profiles_list_names_what_does_not_load(specdec: Runner, tmp_path: Path) -> None:
    write_yaml(tmp_path / "hardware" / "bad.yaml", put(toy_hardware("bad"), "memory_gb", -1.0))
    answer = specdec.raw("profiles", "list", "--kind", "hardware", "--profiles", str(tmp_path))
    assert answer.code == 0
    assert "bad.yaml" in answer.err
    assert "memory_gb" in answer.out


def test_unknown_kind(specdec: Runner) -> None:
    refused(specdec.raw("profiles", "list", "--kind", "modle"), 2, "--kind 'modle'", "did you mean model?")


def test_show_gives_facts_origin_and_what_follows(specdec: Runner) -> None:
    answer = specdec.raw("profiles", "show", "toy-model", "--profiles", str(specdec.folder))
    assert answer.code == 0
    for line in ("hidden: 1000", "vocabulary: 10000", f"from --profiles {specdec.folder}", "kv_kb_per_token: 10"):
        assert line in answer.out
    assert "--sources names them" in answer.out


def test_show_by_alias_and_by_file(specdec: Runner, tmp_path: Path) -> None:
    folder = ("--profiles", str(specdec.folder))
    assert specdec.raw("profiles", "show", "toy/model-165m", *folder).out.startswith("toy-model, a profile of kind")
    file = write_yaml(tmp_path / "my-chip.yaml", toy_hardware("my-chip"))
    assert specdec.raw("profiles", "show", str(file)).out.startswith("my-chip, a profile of kind hardware")


def test_name_of_several_kinds_is_said(specdec: Runner, tmp_path: Path) -> None:
    write_yaml(tmp_path / "hardware" / "twin.yaml", toy_hardware("twin"))
    write_yaml(tmp_path / "drafters" / "twin.yaml", toy_drafter("twin"))
    both = specdec.raw("profiles", "show", "twin", "--profiles", str(tmp_path))
    assert both.code == 0
    assert "profiles of several kinds (hardware, drafter)" in both.err
    assert "also the name of a profile of kind drafter" in both.out
    one = specdec.raw("profiles", "show", "twin", "--kind", "drafter", "--profiles", str(tmp_path))
    assert one.out.startswith("twin, a profile of kind drafter")
    assert one.err == ""


def test_show_of_an_unknown_name(specdec: Runner) -> None:
    folder = ("--profiles", str(specdec.folder))
    refused(specdec.raw("profiles", "show", "toy-modle", *folder), 3, "`toy-modle`", "toy-model")
    refused(specdec.raw("profiles", "show", "toy-model", "--kind", "engine", *folder), 3, "toy-model", "kind model")
    refused(specdec.raw("profiles", "show", "toy-model", "--format", "csv", *folder), 2, "table or json")


def test_sources_reach_the_output_for_every_number(specdec: Runner, tmp_path: Path) -> None:
    data = toy_hardware("sourced")
    places = {
        "memory_gb": "box label",
        "kernels.default": "kernel study",
        "kernels.default.gemm.fp8": "fp8 study",
        "*": "data sheet 7",
    }
    data["sources"] = {
        key: {"from": text, "checked": "2026-03-04", "kind": "measured", "note": f"note on {text}"}
        for key, text in places.items()
    }
    write_yaml(tmp_path / "hardware" / "sourced.yaml", data)
    folder = ("--profiles", str(tmp_path))
    text = specdec.raw("profiles", "show", "sourced", "--sources", *folder).out
    for key, said in places.items():
        assert f"{said} (measured, checked 2026-03-04)" in text
        assert f"note on {said}" in text
        assert key == "*" or f"  {key}\n" in text
    sources = specdec.raw("profiles", "show", "sourced", "--format", "json", *folder).data["sources"]
    covered = {key: source["from"] for source in sources for key in source["keys"]}
    assert covered["memory_gb"] == "box label"
    assert covered["memory_bytes"] == "data sheet 7"
    assert covered["peak_tflops.bf16"] == "data sheet 7"
    assert covered["kernels.default.gemm.bf16.eta_c"] == "kernel study"
    assert covered["kernels.default.gemm.fp8.eta_c"] == "fp8 study"
    assert None not in covered.values()


def test_an_option_given_twice_is_refused(specdec: Runner) -> None:
    twice = specdec.raw("recommend", "--acceptance-length", "1=1.8", "--acceptance-length", "3=2.6")
    refused(twice, 2, "--acceptance-length is given twice")
