"""Wrong types, unknown and missing keys: each error names file, line, key, expectation, find and nearest right name."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from builders import (
    BUILDERS,
    Data,
    drop,
    put,
    toy_acceptance,
    toy_calibration,
    toy_drafter,
    toy_engine,
    toy_hardware,
    toy_head,
    toy_model,
    toy_moe_model,
    write_yaml,
)
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.convert import convert, number_hint, problems_of
from specdec_cli.profiles.kinds import RECORDS
from specdec_cli.profiles.load import check_file, load_file
from specdec_cli.profiles.yaml_reader import Document, parse

EACH_KIND = sorted(BUILDERS)


def error_of(tmp_path: Path, data: Data) -> ProfileError:
    """The error that a file of this data is refused with."""
    path = write_yaml(tmp_path / f"{data['name']}.yaml", data)
    with pytest.raises(ProfileError) as caught:
        load_file(path, data["kind"])
    assert caught.value.exit_code == 3
    assert caught.value.file == path
    assert str(check_file(path)[0]) == str(caught.value)
    return caught.value


def error_of_text(tmp_path: Path, data: Data, old: str, new: str) -> ProfileError:
    """The same after an edit by hand, for spellings that a YAML writer would quote."""
    path = write_yaml(tmp_path / f"{data['name']}.yaml", data)
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(ProfileError) as caught:
        load_file(path, data["kind"])
    assert caught.value.line is not None
    assert new.splitlines()[0] in path.read_text().splitlines()[caught.value.line - 1]
    return caught.value


@pytest.mark.parametrize("kind", EACH_KIND)
def test_toys_load(tmp_path: Path, kind: str) -> None:
    data = BUILDERS[kind]()
    loaded = load_file(write_yaml(tmp_path / f"{data['name']}.yaml", data), kind)
    assert loaded.record.name == data["name"]
    assert type(loaded.record) is RECORDS[kind]
    assert check_file(loaded.path) == []


# A slip in each kind: (data, wrong key, what the hint must name).
SLIPS = [
    (put(drop(toy_hardware(), "memory_gb"), "memory_gbs", 80), "memory_gbs", "did you mean memory_gb"),
    (
        put(toy_hardware(), "kernels.default.gemm.bf16.eta_k", 1.0),
        "kernels.default.gemm.bf16.eta_k",
        "did you mean eta_",
    ),
    (put(toy_hardware(), "link.gb_s", 1.0), "link.gb_s", "gb_per_s"),
    (put(toy_model(), "vocabulary_size", 1), "vocabulary_size", "did you mean vocabulary"),
    (put(toy_model(), "attention.full.kv_head", 2), "attention.full.kv_head", "did you mean kv_heads"),
    (put(toy_model(), "blocks[0].atention", "full"), "blocks[0].atention", "did you mean attention"),
    (put(toy_moe_model(), "ffn.moe.topk", 2), "ffn.moe.topk", "did you mean top_k"),
    (put(toy_drafter(), "head.draft_vocab", 2), "head.draft_vocab", "did you mean draft_vocabulary"),
    (put(toy_acceptance(), "points[1].acceptence_length", 2), "points[1].acceptence_length", "acceptance_length"),
    (put(toy_engine(), "overheads.steps_ms", 0.1), "overheads.steps_ms", "did you mean"),
    (put(toy_engine(), "sources.*.checkd", "2026-01-01"), "sources.*.checkd", "did you mean checked"),
]


@pytest.mark.parametrize(("data", "key", "hint"), SLIPS, ids=[slip[1] for slip in SLIPS])
def test_unknown_keys(tmp_path: Path, data: Data, key: str, hint: str) -> None:
    error = error_of(tmp_path, data)
    assert (error.key, error.message) == (key, "unknown key")
    assert hint in (error.hint or "")
    assert error.line is not None
    last = key.replace("]", "").replace("[", ".").split(".")[-1]
    assert last in (tmp_path / f"{data['name']}.yaml").read_text().splitlines()[error.line - 1]


def test_unknown_key_with_nothing_like_it_lists_the_keys(tmp_path: Path) -> None:
    error = error_of(tmp_path, put(toy_engine(), "memory.zzz", 1))
    assert error.hint == "the keys here are usable_fraction, reserve_gb"


def test_a_key_that_is_missing_is_suggested_first(tmp_path: Path) -> None:
    data = put(drop(toy_hardware(), "kernels.default.gemm.bf16.eta_m"), "kernels.default.gemm.bf16.eta_n", 0.9)
    assert "eta_m" in (error_of(tmp_path, data).hint or "")


MISSING = [
    (drop(toy_hardware(), "link"), None, "missing key `link`", "a mapping"),
    (drop(toy_hardware(), "fitted"), None, "missing key `fitted`", "true or false"),
    (drop(toy_model(), "hidden"), None, "missing key `hidden`", "a whole number of at least 1"),
    (drop(toy_model(), "maker"), None, "missing key `maker`", "text"),
    (drop(toy_model(), "blocks"), None, "missing key `blocks`", "a list"),
    (drop(toy_model(), "blocks[0].ffn"), "blocks[0]", "missing key `ffn`", "text or null"),
    (drop(toy_model(), "attention.full.type"), "attention.full", "missing key `type`", "one of gqa, mla"),
    (drop(toy_drafter(), "mechanism"), None, "missing key `mechanism`", "eagle3"),
    (drop(toy_acceptance(), "points[2].draft_length"), "points[2]", "missing key `draft_length`", "a whole number"),
    (drop(toy_engine(), "overheads.lookup_ms"), "overheads", "missing key `lookup_ms`", "a number of at least 0"),
    (drop(toy_engine(), "sources.*.from"), "sources.*", "missing key `from`", "text"),
]


@pytest.mark.parametrize(("data", "key", "message", "hint"), MISSING, ids=[case[2] for case in MISSING])
def test_missing_keys(tmp_path: Path, data: Data, key: str | None, message: str, hint: str) -> None:
    error = error_of(tmp_path, data)
    assert (error.key, error.message) == (key, message)
    assert hint in (error.hint or "")


# Wrong values: (data, key, message, part of the hint).
WRONG = [
    (
        put(toy_hardware(), "memory_gb", "80 GB"),
        "memory_gb",
        "expected a number above 0, found the text `80 GB`",
        "unit",
    ),
    (
        put(toy_hardware(), "memory_gb", "80"),
        "memory_gb",
        "expected a number above 0, found the text `80`",
        "without quotes",
    ),
    (put(toy_hardware(), "memory_gb", 0), "memory_gb", "expected a number above 0, found the number 0", None),
    (put(toy_hardware(), "memory_gb", True), "memory_gb", "expected a number above 0, found the boolean true", None),
    (put(toy_hardware(), "memory_gb", None), "memory_gb", "expected a number above 0, found nothing (null)", None),
    (put(toy_hardware(), "memory_gb", [1]), "memory_gb", "expected a number above 0, found a list", None),
    (
        put(toy_hardware(), "sm_count", 1.5),
        "sm_count",
        "expected a whole number of at least 1, found the number 1.5",
        None,
    ),
    (
        put(toy_hardware(), "sm_count", 132.0),
        "sm_count",
        "expected a whole number of at least 1, found the number 132.0",
        "132",
    ),
    # Limits against overflow alone: named where a figure lies past them.
    (
        toy_hardware(memory_bandwidth_gb_per_s=1e308),
        "memory_bandwidth_gb_per_s",
        "expected a number above 0 and at most 1e+15, found the number 1e+308",
        None,
    ),
    (
        toy_hardware(memory_bandwidth_gb_per_s=1e-308),
        "memory_bandwidth_gb_per_s",
        "expected a number above 1e-09, found the number 1e-308",
        None,
    ),
    (toy_hardware(sm_count=10**17), "sm_count", "expected a whole number of at least 1 and at most 1e+09", None),
    (
        put(toy_calibration(), "valid.draft_length", [0, 2, 2]),
        "valid.draft_length",
        "expected at most 2 entries, found 3",
        None,
    ),
    (put(toy_calibration(), "valid.batch", [1.0]), "valid.batch", "expected at least 2 entries, found 1", None),
    (put(toy_hardware(), "sm_count", 0), "sm_count", "expected a whole number of at least 1, found the number 0", None),
    (put(toy_hardware(), "fitted", "yes"), "fitted", "expected true or false, found the text `yes`", "true or false"),
    (put(toy_hardware(), "vendor", 4090), "vendor", "expected text, found the number 4090", '"4090" in quotes'),
    (put(toy_hardware(), "vendor", {"a": 1}), "vendor", "expected text, found a mapping", None),
    (put(toy_hardware(), "link", 900), "link", "expected a mapping, found the number 900", "technology, gb_per_s"),
    (put(toy_hardware(), "notes", "one"), "notes", "expected a list, found the text `one`", "- "),
    (put(toy_hardware(), "peak_tflops", 989), "peak_tflops", "expected a mapping, found the number 989", None),
    (
        put(toy_hardware(), "peak_tflops.bf17", 9),
        "peak_tflops.bf17",
        "expected a key among bf16, fp4",
        "did you mean bf16",
    ),
    (
        put(toy_hardware(), "kernels.default.all_reduce.two", {}),
        "kernels.default.all_reduce.two",
        "a whole number as key",
        None,
    ),
    (
        put(toy_hardware(), "kernels.default.gemm.bf16.eta_c", 85),
        "kernels.default.gemm.bf16.eta_c",
        "above 0 and at most 1.5",
        None,
    ),
    (
        put(toy_hardware(), "kernels.default.gemm.bf16.compute", "bf61"),
        "kernels.default.gemm.bf16.compute",
        "expected one of",
        "bf16",
    ),
    (
        put(toy_model(), "attention.full.type", "gqq"),
        "attention.full.type",
        "expected one of gqa, mla",
        "did you mean gqa",
    ),
    (put(toy_model(), "attention.full.type", 3), "attention.full.type", "found the number 3", None),
    (
        put(toy_model(), "attention.full", "gqa"),
        "attention.full",
        "expected a mapping, found the text `gqa`",
        "its `type` is one of",
    ),
    (put(toy_model(), "dtypes.weights", "bf-16"), "dtypes.weights", "found the text `bf-16`", "did you mean bf16"),
    (put(toy_model(), "ffn.dense.matrices", 4), "ffn.dense.matrices", "expected one of 2, 3, found the number 4", None),
    (put(toy_model(), "ffn.dense.matrices", "3"), "ffn.dense.matrices", "found the text `3`", "without quotes"),
    (put(toy_model(), "ffn.dense.matrices", True), "ffn.dense.matrices", "found the boolean true", None),
    (put(toy_drafter(), "mechanism", "eagle-3"), "mechanism", "found the text `eagle-3`", "did you mean eagle3"),
    (
        put(toy_drafter(), "head.ffn", {"type": "dense", "intermediate": 4}),
        "head.ffn.type",
        "expected moe, found",
        None,
    ),
    (put(toy_drafter(), "model", "My Model"), "model", "a name of lower-case letters", None),
    (put(toy_acceptance(), "points", []), "points", "expected at least 1 entry, found an empty list", None),
    (
        put(toy_acceptance(), "points[1].per_position[0]", 70),
        "points[1].per_position[0]",
        "of at least 0 and at most 1",
        None,
    ),
    (put(toy_engine(), "format", 0), "format", "expected 1, found the number 0", None),
    (put(toy_engine(), "format", True), "format", "expected 1, found the boolean true", None),
    (put(toy_engine(), "sources", {}) | {"sources": []}, "sources", "expected a mapping, found a list", None),
    (put(toy_engine(), "sources.*.kind", "measurd"), "sources.*.kind", "expected one of", "did you mean measured"),
]


@pytest.mark.parametrize(
    ("data", "key", "message", "hint"), WRONG, ids=[f"{case[1]}-{i}" for i, case in enumerate(WRONG)]
)
def test_wrong_values(tmp_path: Path, data: Data, key: str, message: str, hint: str | None) -> None:
    error = error_of(tmp_path, data)
    assert error.key == key
    assert message in error.message
    if hint is not None:
        assert hint in (error.hint or "")


def test_names(tmp_path: Path) -> None:
    path = write_yaml(tmp_path / "Toy Chip.yaml", toy_hardware("Toy Chip"))
    assert "a name of lower-case letters" in check_file(path)[0].message
    long = "x" * 101
    path = write_yaml(tmp_path / f"{long}.yaml", toy_hardware(long))
    assert f"found the text `{'x' * 57}...`" in check_file(path)[0].message


# YAML's own traps, as a hand writes them: (data, text in the file, what it becomes, message, hint).
TRAPS = [
    (
        toy_hardware(),
        "memory_bytes: 10000000000.0",
        "memory_bytes: 1e10",
        "expected a number above 0, found the text `1e10`",
        "YAML reads 1e10 as text: write 1.0e+10",
    ),
    (
        toy_hardware(),
        "memory_bytes: 10000000000.0",
        "memory_bytes: 3.35e12",
        "found the text `3.35e12`",
        "write 3.35e+12",
    ),
    (
        toy_acceptance(),
        "data_set: toy chat",
        "data_set: no",
        "expected text, found the boolean false (YAML reads no as false)",
        'write "no" in quotes',
    ),
    (
        toy_acceptance(),
        "measured_by: this test",
        "thinking: on\nmeasured_by: x",
        "expected one of off, on, found the boolean true (YAML reads on as true)",
        'write "on" in quotes',
    ),
    (toy_engine(), "checked_version: '1.0'", "checked_version: 0.10", "found the number 0.1", 'write "0.10" in quotes'),
    (
        toy_engine(),
        "cuda_graphs: true",
        "cuda_graphs: 1",
        "expected true or false, found the number 1",
        "true or false",
    ),
]


@pytest.mark.parametrize(
    ("data", "old", "new", "message", "hint"), TRAPS, ids=[trap[2].split("\n")[0] for trap in TRAPS]
)
def test_yaml_traps(tmp_path: Path, data: Data, old: str, new: str, message: str, hint: str) -> None:
    error = error_of_text(tmp_path, data, old, new)
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("1e9", "write 1.0e+9"),
        ("3.35e12", "write 3.35e+12"),
        ("-2E-3", "write -2.0e-3"),
        ("1e+5", "write 1.0e+5"),
        ("80", "without quotes"),
        ("-.5", "without quotes"),
        ("1,000", "write 1000"),
        ("3.35 TB/s", "its unit is in the key's name"),
        ("80GB", "its unit is in the key's name"),
        ("85%", "its unit is in the key's name"),
        ("~2 ms", "its unit is in the key's name"),
        ("nan", "only finite"),
        ("-Infinity", "only finite"),
    ],
)
def test_hints_for_numbers_written_as_text(written: str, hint: str) -> None:
    assert hint in (number_hint(written) or "")
    if hint.startswith("write ") and hint != "write 1000":
        assert isinstance(yaml.safe_load(hint.removeprefix("write ")), float)


def test_no_number_no_hint() -> None:
    assert number_hint("unknown") is None
    assert number_hint(None) is None


def test_several_problems_are_all_found(tmp_path: Path) -> None:
    data = put(put(drop(toy_engine(), "version"), "overheads.step_ms", "x"), "memory.usable_fraction", 2)
    errors = check_file(write_yaml(tmp_path / "toy-engine.yaml", data))
    assert [(error.key, error.message.split(",")[0]) for error in errors] == [
        (None, "missing key `version`"),
        ("overheads.step_ms", "expected a number of at least 0"),
        ("memory.usable_fraction", "expected a number above 0 and at most 1"),
    ]


def test_what_the_walk_does_not_know_keeps_the_converters_words(monkeypatch: pytest.MonkeyPatch) -> None:
    document = parse(yaml.safe_dump(put(toy_engine(), "version", 3)), Path("toy-engine.yaml"))
    monkeypatch.setattr("specdec_cli.profiles.convert._walk", lambda *_: iter(()))
    with pytest.raises(ProfileError, match=r"Expected `str`, got `int` - at `\$\.version`"):
        convert(document, document.data, RECORDS["engine"])


def _places(data: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here] if here else []
    if isinstance(data, dict):
        for key, value in data.items():
            found += _places(value, (*here, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            found += _places(value, (*here, index))
    return found


_FULL = [
    *(build() for build in BUILDERS.values()),
    toy_moe_model(),
    toy_drafter(head=toy_head(ffn={"type": "moe", "experts": 4, "top_k": 1, "intermediate": 10})),
    toy_model(mtp={"layers": 1, "attention": "full", "ffn": "dense"}),
]
_VALUES: list[Any] = [None, True, 0, 1, 2, -1, 1.5, 1e9, "x", "bf16", "gqa", "Name With Space", [], ["a"], {}, {"a": 1}]


@given(st.data())
def test_the_walk_and_the_converter_agree(draw: st.DataObject) -> None:
    """Whatever one place of a valid profile is changed to, both accept it or both refuse it."""
    data = copy.deepcopy(draw.draw(st.sampled_from(_FULL)))
    way = draw.draw(st.sampled_from(_places(data)))
    parent: Any = data
    for step in way[:-1]:
        parent = parent[step]
    parent[way[-1]] = draw.draw(st.sampled_from(_VALUES))
    record = RECORDS.get(str(data["kind"]), RECORDS["engine"])
    problems = problems_of(Document(Path("x"), data, {}), data, record)
    try:
        msgspec.convert(data, record, strict=True)
        fits = True
    except msgspec.ValidationError:
        fits = False
    assert fits == (not problems)
