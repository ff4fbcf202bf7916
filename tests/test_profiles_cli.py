"""`specdec profiles check`, `new`, `schema`, and `list` over the whole library."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import put, toy_acceptance, toy_hardware, toy_measurement, toy_model, write_yaml
from cli_runs import Runner, write_toys
from conftest import REPO

from specdec_cli.profiles.json_schema import json_schema
from specdec_cli.profiles.kinds import KINDS
from specdec_cli.profiles.library import Library

# What the whole library (670 profiles) may take to read and check, in seconds of one core. Measured: 0.28 to 0.43. A
# factor above it, since a test runs beside others on whatever machine there is.
MOST_SECONDS = 1.5


@pytest.fixture
def specdec(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.chdir(tmp_path)
    return Runner(write_toys(tmp_path / "toys"), capsys)


# ---------------------------------------------------------------------------------------------------- check


def test_check_of_good_files(specdec: Runner, tmp_path: Path) -> None:
    write_yaml(tmp_path / "toy-chip.yaml", toy_hardware())
    answer = specdec.raw("profiles", "check", "toy-chip.yaml")
    assert (answer.code, answer.out, answer.err) == (0, "1 file, nothing wrong\n", "")
    assert specdec.raw("profiles", "check", "toys", "toy-chip.yaml").out == "7 files, nothing wrong\n"


def test_check_names_every_problem_of_every_file(specdec: Runner, tmp_path: Path) -> None:
    write_yaml(tmp_path / "toy-chip.yaml", {**toy_hardware(), "memmory_gb": 1.0, "fitted": "no"})
    write_yaml(tmp_path / "toy-model.yaml", put(toy_model(), "blocks[0].attention", "ful"))
    answer = specdec.raw("profiles", "check", "toy-model.yaml", "toys", "toy-chip.yaml", "none.yaml")
    assert answer.code == 3
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert any(line.startswith("toy-chip.yaml:") and "memmory_gb: unknown key" in line for line in lines)
    assert any("fitted: expected true or false, found the text `no`" in line for line in lines)
    assert any("no entry `ful` in `attention`" in line for line in lines)
    assert "    hint: did you mean full?" in lines
    assert "none.yaml: no such file" in lines
    # `full` is not used by any block then: a problem of its own
    assert lines[-1] == "5 problems in 3 of 9 files"


def test_check_as_json(specdec: Runner, tmp_path: Path) -> None:
    write_yaml(tmp_path / "toy-chip.yaml", toy_hardware(memory_bandwidth_gb_per_s=3.35))
    answer = specdec.raw("profiles", "check", "toy-chip.yaml", "--format", "json")
    assert answer.code == 3
    data = answer.data
    assert data["schema"] == "specdec.check/1"
    assert data["files"] == [{"file": "toy-chip.yaml", "problems": 2}]
    slip = next(one for one in data["problems"] if one["key"] == "memory_bandwidth_gb_per_s")
    assert slip["line"] is not None
    assert slip["message"] == "expected 10 to 50000, found 3.35"
    assert slip["hint"] == "GB/s: 3.35 TB/s is 3350.0"


def test_check_writes_its_answer_to_a_file_too(specdec: Runner, tmp_path: Path) -> None:
    answer = specdec.raw("profiles", "check", "none.yaml", "-o", "answer.json")
    assert (answer.code, answer.out) == (3, "")
    assert json.loads((tmp_path / "answer.json").read_text("utf-8"))["problems"][0]["message"] == "no such file"


def test_check_of_nothing(specdec: Runner, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    answer = specdec.raw("profiles", "check", "empty")
    assert answer.code == 3
    assert "no profile (.yaml, .yml) below this folder" in answer.err
    assert specdec.raw("profiles", "check").code == 2
    assert specdec.raw("profiles", "check", "toys", "--format", "csv").code == 2


# ------------------------------------------------------------------------------------------------------ new


@pytest.mark.parametrize("kind", ["hardware", "model", "drafter", "acceptance"])
def test_new_writes_a_skeleton_and_check_leads_through_it(specdec: Runner, tmp_path: Path, kind: str) -> None:
    answer = specdec.raw("profiles", "new", kind, "mine")
    assert (answer.code, answer.out) == (0, "")
    assert "then `specdec profiles check mine.yaml`" in answer.err
    data: Any = yaml.safe_load((tmp_path / "mine.yaml").read_text("utf-8"))
    assert (data["kind"], data["name"]) == (kind, "mine")
    checked = specdec.raw("profiles", "check", "mine.yaml")
    assert checked.code == 3
    assert "found nothing (null)" in checked.out


def test_new_never_overwrites(specdec: Runner, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine", "utf-8")
    answer = specdec.raw("profiles", "new", "model", "mine")
    assert answer.code == 2
    assert "mine.yaml exists; --force replaces it" in answer.err
    assert (tmp_path / "mine.yaml").read_text("utf-8") == "mine"
    assert specdec.raw("profiles", "new", "model", "mine", "--force").code == 0


def test_new_to_stdout_and_like_another_chip(specdec: Runner) -> None:
    answer = specdec.raw("profiles", "new", "hardware", "mine", "--like", "l40s", "-o", "-")
    assert answer.code == 0
    assert yaml.safe_load(answer.out)["sources"]["kernels"]["from"].startswith("taken over from l40s")
    assert "taken over from h100-sxm" in specdec.raw("profiles", "new", "hardware", "mine", "-o", "-").out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["engine", "mine"], 2, "copy the engine nearest to yours"),
        (["hardwear", "mine"], 2, "kinds: hardware, model, drafter, acceptance"),
        (["model", "My Model"], 2, "my-model would do"),
        (["model", "mine", "--like", "l40s"], 2, "a model has none"),
        (["hardware", "mine", "--like", "l40"], 3, "did you mean l40s"),
    ],
)
def test_new_refuses(specdec: Runner, tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    answer = specdec.raw("profiles", "new", *arguments)
    assert answer.code == code
    assert words in answer.err
    assert not (tmp_path / "mine.yaml").exists()


# --------------------------------------------------------------------------------------------------- schema


@pytest.mark.parametrize("kind", list(KINDS))
def test_schema_is_the_one_that_ships(specdec: Runner, kind: str) -> None:
    answer = specdec.raw("profiles", "schema", kind)
    assert answer.code == 0
    assert answer.data == json_schema(kind)
    assert answer.out == (REPO / "profiles" / "schemas" / f"{kind}.json").read_text("utf-8")


def test_schema_of_no_kind(specdec: Runner) -> None:
    answer = specdec.raw("profiles", "schema", "modle")
    assert answer.code == 2
    assert "did you mean model" in answer.err


# ----------------------------------------------------------------------------------------------------- list


def rows(specdec: Runner, *arguments: str) -> list[dict[str, Any]]:
    answer = specdec.raw("profiles", "list", "--format", "json", *arguments)
    assert answer.code == 0
    found: list[dict[str, Any]] = answer.data["profiles"]
    return found


def test_list_tells_what_one_chooses_by_and_how_old_it_is(specdec: Runner) -> None:
    (chip,) = [row for row in rows(specdec, "--kind", "hardware", "h100-sxm") if row["name"] == "h100-sxm"]
    assert (chip["memory_gb"], chip["memory_bandwidth_gb_per_s"]) == (80.0, 3350.0)
    assert chip["ridge_bf16_flop_per_byte"] == pytest.approx(989e12 / 3350e9)
    (model,) = [row for row in rows(specdec, "--kind", "model", "deepseek-v3") if row["name"] == "deepseek-v3"]
    assert model["parameters_b"] == pytest.approx(671.0, abs=0.05)
    assert model["active_parameters_b"] == pytest.approx(37.55, abs=0.01)
    assert model["kv_kb_per_token"] == pytest.approx(70.272)
    for row in (chip, model):
        assert row["checked"] >= "2026-09-30"
        assert row["source_kinds"]
    table = specdec.raw("profiles", "list", "--kind", "hardware", "h100-sxm").out
    for header in ("memory GB", "GB/s", "ridge FLOP/byte", "sources", "checked"):
        assert header in table


def test_list_of_measurements_and_of_a_vendor(specdec: Runner, tmp_path: Path) -> None:
    write_yaml(specdec.folder / "measurements" / "toy-report.yaml", toy_measurement())
    found = rows(specdec, "--kind", "measurement", "toy-report", "--profiles", str(specdec.folder))
    assert [(row["tier"], row["setups"], row["points"], row["models"]) for row in found] == [("A", 1, 2, ["toy-model"])]
    vendors = {row["vendor"] for row in rows(specdec, "--kind", "hardware", "--vendor", "amd")}
    assert vendors == {"AMD"}
    shown = specdec.raw("profiles", "show", "toy-report", "--profiles", str(specdec.folder))
    assert shown.code == 0
    assert "a profile of kind measurement" in shown.out


def test_list_as_csv_has_every_profile_of_a_kind(specdec: Runner) -> None:
    answer = specdec.raw("profiles", "list", "--kind", "acceptance", "--format", "csv")
    names = [row["name"] for row in csv.DictReader(io.StringIO(answer.out))]
    assert names == Library().names("acceptance")
    assert len(names) >= 300


def test_list_names_acceptance_of_a_text(specdec: Runner) -> None:
    write_yaml(specdec.folder / "acceptance" / "mine.yaml", toy_acceptance("mine"))
    found = rows(specdec, "toy-model-eagle3", "--profiles", str(specdec.folder))
    assert {row["name"] for row in found} == {"toy-model-eagle3", "toy-model-eagle3-chat", "mine"}


def test_the_whole_library_loads_quickly() -> None:
    library = Library()
    before = time.process_time()
    found = sum(len(library.every(kind)[0]) for kind in KINDS)
    took = time.process_time() - before
    assert found >= 600
    assert took < MOST_SECONDS


def test_a_look_up_opens_what_is_asked_for_alone(tmp_path: Path) -> None:
    """From another folder, in a process of its own: a chip by name reads one profile."""
    program = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == 'open' else None)\n"
        "from specdec_cli.profiles.library import Library\n"
        "Library().hardware('h100-sxm')\n"
        "print(sum(name.endswith('.yaml') for name in opened))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPO), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == ("1\n", "")
