"""Malformed inputs end in an answer or in a clear error: the right exit code, no traceback, soon, in little memory.

The catalogue lies in tests/bad_inputs; `python -m bad_inputs` there runs all of it, thousands of cases.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from bad_inputs import arguments, configs, libraries, profiles, texts
from bad_inputs.judge import Ended, answered, ended, faults
from bad_inputs.trees import Place, changed, one_of_each, put
from conftest import REPO
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdec_cli.profiles.kinds import KIND_FOLDERS

MEMORY = 500 * 2**20
"""Bytes that a bad input may take beyond what the program takes anyway."""


@pytest.fixture(autouse=True)
def _its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing outside the test's folder is written."""
    monkeypatch.chdir(tmp_path)


# ------------------------------------------------------------------------------------- values and keys

TREES = {names[0]: profiles.tree_of(names[0]) for names in profiles.SHIPPED.values()}
PROFILE_CASES = [
    (kind, names[0], place, change)
    for kind, names in profiles.SHIPPED.items()
    for place, change in one_of_each(TREES[names[0]], profiles.representative(TREES[names[0]]), first=3)
]


@pytest.mark.parametrize(
    ("kind", "name", "place", "change"),
    PROFILE_CASES,
    ids=[f"{kind}-{change}-{'.'.join(map(str, place))}" for kind, _, place, change in PROFILE_CASES],
)
def test_a_profile_with_one_thing_wrong(kind: str, name: str, place: Place, change: str, tmp_path: Path) -> None:
    assert profiles.judged(changed(TREES[name], place, change), kind, name, tmp_path, most=2) == []


CONFIGS = {**configs.MODELS, **configs.DRAFTERS}
CONFIG_CASES = [
    (name, place, change)
    for number, (name, config) in enumerate(CONFIGS.items())
    for place, change in islice(one_of_each(config, configs.first_places(config), first=number), number % 3, None, 3)
]


@pytest.mark.parametrize(
    ("name", "place", "change"),
    CONFIG_CASES,
    ids=[f"{name}-{change}-{'.'.join(map(str, place))}" for name, place, change in CONFIG_CASES],
)
def test_a_configuration_with_one_thing_wrong(name: str, place: Place, change: str, tmp_path: Path) -> None:
    tree = changed(CONFIGS[name], place, change)
    assert configs.judged(tree, tmp_path, drafter=name in configs.DRAFTERS) == []


# ------------------------------------------------------------------------------------ encoding and structure


@pytest.mark.parametrize("content", texts.ACCEPTED.values(), ids=texts.ACCEPTED)
def test_odd_text_that_is_a_profile(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "toy-chip.yaml").write_bytes(content)
    found = ended("profiles", "check", "toy-chip.yaml")
    assert (found.code, faults(found, (0,))) == (0, [])


@pytest.mark.parametrize("content", texts.YAML.values(), ids=texts.YAML)
def test_text_that_is_no_profile(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "toy-chip.yaml"
    file.write_bytes(content)
    assert faults(ended("profiles", "check", str(file)), (3,), str(file), report=True) == []
    assert faults(ended("sweep", "--hardware", str(file)), (3,), str(file)) == []
    assert faults(ended("sweep", "--hardware", "toy-chip", "--profiles", str(tmp_path)), (3,)) == []


@pytest.mark.parametrize(("name", "content"), texts.JSON.items(), ids=texts.JSON)
def test_text_that_is_no_configuration(name: str, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    codes = (0,) if name in texts.READ_ALL_THE_SAME else (3,)
    named = () if 0 in codes else (str(file),)
    assert faults(ended("profiles", "import", str(file)), codes, *named) == []
    assert faults(ended("sweep", "--model", str(file), "--drafter", "none", "--batches", "1"), codes, *named) == []


@pytest.mark.parametrize(("added", "command", "codes"), libraries.LIBRARIES.values(), ids=libraries.LIBRARIES)
def test_a_library_at_odds_with_itself(
    added: list[dict[str, object]], command: tuple[str, ...], codes: tuple[int, ...], tmp_path: Path
) -> None:
    folder = libraries.library(tmp_path / "library", *added)
    assert faults(ended(*command, "--profiles", str(folder)), codes) == []


def test_folders_that_are_not_what_they_seem(tmp_path: Path) -> None:
    for name, folder in libraries.twisted_folders(tmp_path).items():
        # Only two profiles of one name, and in one folder, leave no answer.
        wanted = (3,) if name == "twice" else (0,)
        assert faults(ended(*libraries.PLAIN, "--profiles", str(folder)), wanted) == [], name
        wanted = (3,) if name in ("huge", "bytes") else (0,)
        assert faults(ended("profiles", "check", str(folder)), wanted, report=True) == [], name


# -------------------------------------------------------------------------------------------- command lines


@pytest.mark.parametrize("words", arguments.lines(), ids=" ".join)
def test_options_at_odds(words: list[str], tmp_path: Path) -> None:
    arguments.furnish(tmp_path)
    before = set(tmp_path.iterdir())
    found = ended(*words)
    # A group without a command prints its help; `check` reports on stdout.
    assert faults(found, arguments.codes(words), report=words[:2] == ["profiles", "check"]) == []
    assert answered(found) == []
    if found.code:
        assert set(tmp_path.iterdir()) == before


# What was once taken, or refused in words that did not help: (arguments, exit code, part of the error).
ONCE_WRONG = [
    (["profiles", "import", "config.json", "--name", ""], 2, "--name: a profile's name is made of"),
    (["profiles", "new", "drafter", "none"], 2, "none names something else already"),
    (["profiles", "new", "model", "con"], 2, "con names something else already"),
    (["sweep", "--profiles", ""], 3, "--profiles expects a folder of profiles, found an empty name"),
    (["sweep", "--schedule"], 2, "no such option: --schedule; recommend has it"),
    (["recommend", "--batchs", "1"], 2, "did you mean --batches"),
    (["plot", "--max-tpot-ms", "1e308"], 2, "--max-tpot-ms must be above 0, at most 1e+12, got 1e+308"),
    (["sweep", "--hardware", "x" * 100_000], 3, "letters left out"),
    (["sweep", "--hardware", "\x07"], 3, "unknown hardware `\\x07`"),
]


@pytest.mark.parametrize(("words", "code", "message"), ONCE_WRONG, ids=[message for *_, message in ONCE_WRONG])
def test_what_was_once_wrong(words: list[str], code: int, message: str, tmp_path: Path) -> None:
    arguments.furnish(tmp_path)
    found = ended(*words)
    assert (found.code, found.out) == (code, "")
    assert message in found.err


AXES = ("--batches", "--draft-lengths", "--tp", "--context", "--acceptance-length", "--acceptance-rate", "--tree-topk")


def swept(option: str, value: str) -> Ended:
    """A small sweep with an option of that value."""
    grid = [axis for axis in ("--batches=1,8", "--draft-lengths=0,2") if not axis.startswith(option)]
    return ended("sweep", f"{option}={value}", *grid, "--format", "csv")


@pytest.mark.parametrize("option", AXES)
def test_an_axis_of_any_value(option: str) -> None:
    """Every second value of the catalogue; the error names the option, and what was found cut short."""
    for name, value in islice(arguments.VALUES.items(), AXES.index(option) % 2, None, 2):
        found = swept(option, value)
        named = () if found.code in (0, 4) or name == "not UTF-8" else (option,)
        assert faults(found, (0, 2, 4), *named) == [], name
        assert "nan" not in found.out, name
        assert "inf" not in found.out.replace("infeasible", ""), name


# ------------------------------------------------------------------------------------- anything at all

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(sorted(KIND_FOLDERS))
)
TREES_OF_ANYTHING = st.recursive(
    LEAVES,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=12), inside, max_size=4),
    max_leaves=20,
)
in_one_folder = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@in_one_folder
@given(kind=st.sampled_from(sorted(KIND_FOLDERS)), data=st.data())
def test_any_value_at_any_place_of_a_profile(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    name = profiles.SHIPPED[kind][0]
    place = data.draw(st.sampled_from(profiles.representative(TREES[name])))
    tree = put(TREES[name], place, data.draw(TREES_OF_ANYTHING))
    file = tmp_path / f"{name.rsplit('/', 1)[-1]}.yaml"
    file.write_text(json.dumps(tree), encoding="utf-8")
    assert faults(ended("profiles", "check", str(file)), (0, 3), str(file), report=True) == []


@in_one_folder
@given(base=st.sampled_from(sorted(configs.MODELS)), data=st.data())
def test_any_value_at_any_place_of_a_configuration(base: str, data: st.DataObject, tmp_path: Path) -> None:
    config = configs.MODELS[base]
    place = data.draw(st.sampled_from(configs.first_places(config)))
    file = tmp_path / "config.json"
    file.write_text(json.dumps(put(config, place, data.draw(TREES_OF_ANYTHING))), encoding="utf-8")
    assert faults(ended("profiles", "import", str(file), "--kind", "model"), (0, 3)) == []


@in_one_folder
@given(
    option=st.sampled_from(AXES),
    value=st.text(max_size=30)
    | st.from_regex(r"-?[0-9]{1,20}(\.\.[0-9]{1,20}(:x?[0-9]{1,20})?)?(,[0-9=.]{1,9})*", fullmatch=True),
)
def test_any_text_in_an_axis(option: str, value: str) -> None:
    assert faults(swept(option, value), (0, 2, 4)) == []


# --------------------------------------------------------------------------------- whole processes, and memory

HEAVY = {
    "95,000 keys": ("toy-chip.yaml", b"".join(b"k%d: 1\n" % number for number in range(95_000))),
    "a bomb": ("toy-chip.yaml", texts.YAML["aliases of aliases"]),
    "100 MB": ("toy-chip.yaml", b"#" * 10**8),
    "a config of 15 MiB": ("config.json", b'{"a": [' + b"[]," * (5 * 2**20) + b"1]}"),
    "layers in billions": ("config.json", texts.JSON["layers in billions"]),
}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process")
@pytest.mark.parametrize(("name", "content"), HEAVY.values(), ids=HEAVY)
def test_a_whole_process_in_bounded_memory(name: str, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    option = "--model" if name == "config.json" else "--hardware"
    command = [sys.executable, "-m", "specdec_cli", "sweep", option, str(file), "--drafter", "none", "-o", "out.json"]
    found = subprocess.run(
        command,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(REPO),
            "OPENBLAS_NUM_THREADS": "1",
            "COVERAGE_PROCESS_CONFIG": "",  # what measures coverage takes memory of its own
        },
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (found.returncode, found.stdout) == (3, ""), found.stderr
    assert str(file) in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_there_are_enough() -> None:
    """The count that the catalogue promises, each a case of its own."""
    listed: list[Any] = [*PROFILE_CASES, *CONFIG_CASES, *texts.ACCEPTED, *texts.YAML, *texts.JSON, *libraries.LIBRARIES]
    assert len(listed) + len(arguments.lines()) + len(AXES) * len(arguments.VALUES) // 2 >= 800
