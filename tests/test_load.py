"""One file into one record: format, kind, name, inherited kernels, sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import (
    BUILDERS,
    Data,
    drop,
    put,
    toy_engine,
    toy_gemm,
    toy_hardware,
    toy_kernels,
    toy_model,
    toy_source,
    write_yaml,
)

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.load import check_file, load_file, sources_for, whole_kernels
from specdec_cli.profiles.yaml_reader import dotted


def written(tmp_path: Path, data: Data) -> Path:
    return write_yaml(tmp_path / f"{data['name']}.yaml", data)


def refusal(path: Path, kind: str | None = None) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        load_file(path, kind)
    assert str(check_file(path, kind)[0]) == str(caught.value)
    return caught.value


@pytest.mark.parametrize("kind", sorted(BUILDERS))
def test_kind_is_taken_from_the_file_or_held_against_it(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, BUILDERS[kind]())
    assert load_file(path).record == load_file(path, kind).record
    other = "engine" if kind != "engine" else "model"
    error = refusal(path, other)
    assert (error.line, error.key) == (2, "kind")
    assert error.message == f"expected a profile of kind {other}, found one of kind {kind}"


def test_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.yaml").message == "no such file"


def test_format(tmp_path: Path) -> None:
    error = refusal(written(tmp_path, drop(toy_engine(), "format")))
    assert (error.message, error.hint) == ("missing key `format`", "write `format: 1`")
    error = refusal(written(tmp_path, toy_engine(format=2)))
    assert (error.line, error.key) == (1, "format")
    assert error.message == "format 2 is newer than this specdec, which reads format 1"
    assert "upgrade" in (error.hint or "")
    assert "expected 1, found the text `one`" in refusal(written(tmp_path, toy_engine(format="one"))).message


def test_a_newer_format_is_not_read_any_further(tmp_path: Path) -> None:
    errors = check_file(written(tmp_path, put(toy_engine(format=2), "new_key", 1)))
    assert [error.key for error in errors] == ["format"]


def test_kind(tmp_path: Path) -> None:
    error = refusal(written(tmp_path, drop(toy_engine(), "kind")))
    assert (error.message, error.hint) == (
        "missing key `kind`",
        "it is one of hardware, model, drafter, acceptance, engine, measurement, calibration",
    )
    error = refusal(written(tmp_path, toy_engine(kind="engin")))
    assert error.message.endswith("found `engin`")
    assert error.hint == "did you mean engine?"
    assert "found `3`" in refusal(written(tmp_path, toy_engine(kind=3))).message


def test_name_is_the_files(tmp_path: Path) -> None:
    path = write_yaml(tmp_path / "other.yaml", toy_engine())
    error = refusal(path)
    assert (error.line, error.key) == (3, "name")
    assert error.message == "expected the file's name `other`, found `toy-engine`"


def test_error_text_reads_as_a_path(tmp_path: Path) -> None:
    path = written(tmp_path, put(toy_hardware(), "kernels.default.gemm.bf16.eta_c", "0.8x"))
    line = path.read_text().splitlines().index("        eta_c: 0.8x") + 1
    assert str(refusal(path)) == (
        f"{path}:{line}: kernels.default.gemm.bf16.eta_c: "
        "expected a number above 0 and at most 1.5, found the text `0.8x`\n"
        "  hint: write the number alone: its unit is in the key's name"
    )


# --------------------------------------------------------------------------------------- inherited kernels


def test_an_engine_overrides_default_key_by_key(tmp_path: Path) -> None:
    override = {
        "gemm": {"bf16": {"eta_c": 0.5}, "int8": toy_gemm(tau_us=3.0)},
        "attention": {"fp8": {"floor_us": 9.0, "eta_m": 0.7, "eta_c": 0.5}},
        "all_reduce": {4: {"latency_us": 7.0}, 8: {"latency_us": 9.0, "efficiency": 0.6}},
        "linear_attention": None,
        "small_kernels_us_per_layer": 8.0,
    }
    path = written(tmp_path, put(toy_hardware(), "kernels.vllm", override))
    kernels = load_file(path).record.kernels
    default, vllm = kernels["default"], kernels["vllm"]

    assert (default.gemm["bf16"].eta_c, vllm.gemm["bf16"].eta_c) == (1.0, 0.5)
    assert vllm.gemm["bf16"].eta_m == 1.0  # inherited beside an overridden key
    assert vllm.gemm["fp8"] == default.gemm["fp8"]  # inherited whole
    assert vllm.gemm["int8"].tau_us == 3.0  # its own
    assert "int8" not in default.gemm
    assert set(vllm.attention) == {"bf16", "fp8"}
    assert (vllm.all_reduce[2].latency_us, vllm.all_reduce[4].latency_us) == (10.0, 7.0)
    assert vllm.all_reduce[4].efficiency == 1.0
    assert vllm.all_reduce[8].efficiency == 0.6
    assert vllm.linear_attention is None
    assert default.linear_attention is not None
    assert (default.small_kernels_us_per_layer, vllm.small_kernels_us_per_layer) == (0.0, 8.0)
    assert vllm.moe == default.moe


def test_merging_leaves_the_file_alone(tmp_path: Path) -> None:
    loaded = load_file(written(tmp_path, put(toy_hardware(), "kernels.vllm", {"gemm": {"bf16": {"eta_c": 0.5}}})))
    assert loaded.document.data["kernels"]["vllm"] == {"gemm": {"bf16": {"eta_c": 0.5}}}


def test_only_kernels_are_inherited() -> None:
    for data in (
        toy_model(),
        toy_hardware(kernels=[]),
        toy_hardware(kernels={"vllm": {}}),
        toy_hardware(kernels={"default": 1}),
    ):
        assert whole_kernels(data) == data


def test_errors_in_an_override_point_at_it(tmp_path: Path) -> None:
    wrong = put(toy_hardware(), "kernels.vllm", {"gemm": {"bf16": {"eta_cc": 0.5}}})
    error = refusal(written(tmp_path, wrong))
    assert error.key == "kernels.vllm.gemm.bf16.eta_cc"
    assert error.line == len(error_lines(error))  # it is the file's last line
    partial = put(toy_hardware(), "kernels.vllm", {"gemm": {"int4": {"eta_c": 0.5}}})
    error = refusal(written(tmp_path, partial))
    assert (error.key, error.message) == ("kernels.vllm.gemm.int4", "missing key `compute`")
    assert (
        "expected a mapping, found the number 3"
        in refusal(written(tmp_path, put(toy_hardware(), "kernels.vllm", 3))).message
    )


def error_lines(error: ProfileError) -> list[str]:
    return Path(str(error.file)).read_text().splitlines()


def test_an_error_in_default_points_at_default(tmp_path: Path) -> None:
    kernels = {"vllm": {"small_kernels_us_per_layer": 1.0}, "default": toy_kernels(small_kernels_us_per_layer=-1.0)}
    error = refusal(written(tmp_path, toy_hardware(kernels=kernels)))
    assert error.key == "kernels.default.small_kernels_us_per_layer"


# -------------------------------------------------------------------------------------------------- sources


def test_sources_survive_loading(tmp_path: Path) -> None:
    sources = {
        "*": toy_source(),
        "memory_gb": toy_source(**{"from": "data sheet DS-1", "kind": "datasheet", "note": "the label"}),
        "kernels.default": toy_source(**{"from": "table A"}),
        "kernels.default.gemm": toy_source(**{"from": "table B", "kind": "fitted"}),
        "kernels.vllm": toy_source(**{"from": "table C"}),
    }
    data = put(put(toy_hardware(), "sources", sources), "kernels.vllm", {"gemm": {"bf16": {"eta_c": 0.5}}})
    loaded = load_file(written(tmp_path, data))

    def origin(key: str) -> str:
        source = sources_for(loaded, key)
        assert source is not None
        return source.from_

    memory = sources_for(loaded, "memory_gb")
    assert memory is not None
    assert (memory.from_, memory.checked, memory.kind, memory.note) == (
        "data sheet DS-1",
        "2026-01-31",
        "datasheet",
        "the label",
    )
    assert origin("memory_bytes") == "a made-up figure of this test"
    assert origin("kernels.default.moe.bf16.eta_c") == "table A"
    assert origin("kernels.default.gemm.bf16.eta_c") == "table B"
    assert origin("kernels.vllm.gemm.bf16.eta_c") == "table C"
    # Inherited, so its figure is the default's.
    assert origin("kernels.vllm.gemm.bf16.eta_m") == "table B"
    assert origin("kernels.vllm.all_reduce.2.latency_us") == "table A"


@pytest.mark.parametrize("kind", sorted(BUILDERS))
def test_every_key_of_the_file_has_its_source(tmp_path: Path, kind: str) -> None:
    loaded = load_file(written(tmp_path, BUILDERS[kind]()))
    keys = [dotted(key) for key in loaded.document.marks if key]
    assert len(keys) > 20
    assert {sources_for(loaded, key) for key in keys} == {loaded.record.sources["*"]}


def test_text_may_have_no_source(tmp_path: Path) -> None:
    sources = {key: toy_source() for key in ("overheads", "memory", "fitted_sweeps")}
    loaded = load_file(written(tmp_path, toy_engine(sources=sources)))
    assert sources_for(loaded, "version") is None
    assert sources_for(loaded, "overheads.step_ms") is not None


def test_a_source_of_no_key_is_refused(tmp_path: Path) -> None:
    loaded = load_file(written(tmp_path, toy_hardware()))
    for key, hint in (("memory_gbs", "memory_gb"), ("kernels.vllm.gem", None), ("kernels.vllm", None)):
        with pytest.raises(ProfileError, match=f"no key `{key}` in this file") as caught:
            sources_for(loaded, key)
        assert hint is None or hint in (caught.value.hint or "")
