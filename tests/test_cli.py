"""The command line: exit codes, what goes to stdout and what to stderr, files written whole or not at all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from builders import put, toy_acceptance, toy_drafter, toy_hardware, toy_model, write_yaml
from cli_runs import Answer, Runner, write_toys
from conftest import REPO

from specdec_cli import __version__
from specdec_cli.cli import app as cli_app
from specdec_cli.cli.output import BROKEN_PIPE, chosen_format
from specdec_cli.engines.setting_records import flags_of
from specdec_cli.engines.settings import read_settings
from specdec_cli.errors import UsageError
from specdec_cli.explore.scenario import DEFAULTS, Options

COMMANDS = ("sweep", "recommend")


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture
def specdec(toys: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(toys, capsys)


def outside(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m specdec_cli` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "specdec_cli", *arguments],
        cwd=REPO,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def refused(answer: Answer, code: int, *fragments: str) -> None:
    """The run failed as it should: its code, its words, nothing on stdout, no traceback."""
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert "error: " in answer.err
    for fragment in fragments:
        assert fragment in answer.err


# ----------------------------------------------------------------------------------------------- mistakes

USAGE_MISTAKES = {
    "empty axis": (["--batches", ""], ["--batches names no values"]),
    "empty part of an axis": (["--batches", "1,,2"], ["--batches names no values"]),
    "axis that runs backwards": (["--draft-lengths", "5..2"], ["--draft-lengths", "backwards"]),
    "axis of words": (["--batches", "many"], ["--batches", "1..256:x2"]),
    "negative batch": (["--batches", "-1"], ["--batches must be at least 1, got -1"]),
    "zero batch": (["--batches", "0,1"], ["--batches must be at least 1, got 0"]),
    "negative draft length": (["--draft-lengths", "-2..3"], ["--draft-lengths must be at least 0"]),
    "grid of too many points": (["--batches", "1..9000000"], ["9,000,000 points", "5,000,000", "1..256:x2"]),
    "AL above 1 + D": (["--acceptance-length", "1=2.5"], ["--acceptance-length", "D = 1", "between 1 and 2", "2.5"]),
    "AL below 1": (["--acceptance-length", "2=0.9"], ["between 1 and 3", "0.9"]),
    "AL of another form": (["--acceptance-length", "3"], ["cannot read '3'", "1=1.91"]),
    "AL given twice": (["--acceptance-length", "1=1.5,1=1.6"], ["draft length 1 twice"]),
    "rate above 1": (["--acceptance-rate", "1.2"], ["--acceptance-rate", "between 0 and 1"]),
    "rate that is no number": (["--acceptance-rate", "nan"], ["--acceptance-rate", "between 0 and 1"]),
    "two acceptances": (
        ["--acceptance-rate", "0.7", "--acceptance-length", "1=1.5"],
        ["--acceptance-rate and --acceptance-length conflict"],
    ),
    "acceptance without a drafter": (["--drafter", "none", "--acceptance-rate", "0.7"], ["--drafter none"]),
    "no context": (["--context", "0"], ["--context must be at least 1"]),
    "context past the model's": (["--context", "9000"], ["--context 9000", "8192"]),
    "no GPUs": (["--gpus", "0"], ["--gpus must be at least 1"]),
    "ranks that do not divide": (["--tp", "2", "--gpus", "3"], ["tp", "3"]),
    "experts that do not divide": (["--gpus", "4", "--ep", "3"], ["ep", "3"]),
    "more GPUs than the link joins": (["--gpus", "8"], ["4"]),
    "unknown dtype": (["--weight-dtype", "bf61"], ["--weight-dtype 'bf61'", "bf16"]),
    "unknown KV dtype": (["--kv-dtype", "fp88"], ["--kv-dtype 'fp88'", "fp8"]),
    "unknown format": (["--format", "jason"], ["--format 'jason'", "did you mean json?"]),
    "option with a typo": (["--draft-length", "3"], ["no such option: --draft-length", "--draft-lengths"]),
    "text for a number": (["--gpus", "two"], ["--gpus", "two"]),
    "argument too many": (["extra"], ["extra"]),
    "empty name in a list": (["--tp", "1,"], ["--tp"]),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("arguments", "fragments"), USAGE_MISTAKES.values(), ids=USAGE_MISTAKES)
def test_wrong_usage_is_exit_2(specdec: Runner, command: str, arguments: list[str], fragments: list[str]) -> None:
    refused(specdec(command, *arguments), 2, *fragments)


RECOMMEND_MISTAKES = {
    "negative batch": (["--batch", "-4"], ["--batch must be at least 1, got -4"]),
    "interactivity of nothing": (["--min-interactivity", "0"], ["--min-interactivity must be above 0"]),
    "infinite throughput": (["--min-throughput", "inf"], ["--min-throughput"]),
    "negative TPOT": (["--max-tpot-ms", "-1"], ["--max-tpot-ms must be above 0"]),
    "tie of 1": (["--batch", "1", "--tie", "1"], ["--tie is a fraction"]),
    "gain that is no number": (["--batch", "1", "--min-gain", "nan"], ["--min-gain is a fraction"]),
    "unknown engine to emit": (["--emit", "vlm"], ["--emit 'vlm'", "vllm"]),
    "emit and format": (["--emit", "vllm", "--format", "json"], ["--emit and --format conflict"]),
    "schedule over a list": (["--tp", "1,2"], ["schedule", "--batch"]),
}


@pytest.mark.parametrize(("arguments", "fragments"), RECOMMEND_MISTAKES.values(), ids=RECOMMEND_MISTAKES)
def test_wrong_usage_of_recommend(specdec: Runner, arguments: list[str], fragments: list[str]) -> None:
    refused(specdec("recommend", *arguments), 2, *fragments)


@pytest.mark.parametrize(
    ("option", "name", "near"),
    [
        ("hardware", "toy-chop", "toy-chip"),
        ("model", "toy-modle", "toy-model"),
        ("engine", "toy-engin", "toy-engine"),
        ("drafter", "toy-model-eagel3", "toy-model-eagle3"),
        ("acceptance", "toy-model-eagle3-chta", "toy-model-eagle3-chat"),
    ],
)
def test_unknown_profile_names_the_nearest(specdec: Runner, option: str, name: str, near: str) -> None:
    refused(specdec("sweep", **{option: name}), 3, option, f"`{name}`", near)


def test_missing_file(specdec: Runner, tmp_path: Path) -> None:
    refused(specdec("sweep", hardware=str(tmp_path / "nowhere.yaml")), 3, "nowhere.yaml")


def test_missing_profiles_folder(specdec: Runner, tmp_path: Path) -> None:
    refused(specdec("sweep", profiles=str(tmp_path / "nowhere")), 3, "--profiles", "nowhere")


def test_wrong_key_in_a_profile(specdec: Runner, tmp_path: Path) -> None:
    data = put(toy_hardware("my-chip"), "memory_gbb", 80.0)
    file = write_yaml(tmp_path / "my-chip.yaml", data)
    line = file.read_text().splitlines().index("memory_gbb: 80.0") + 1
    refused(specdec("sweep", hardware=str(file)), 3, f"my-chip.yaml:{line}", "memory_gbb", "memory_gb")


def test_wrong_type_in_a_profile(specdec: Runner, tmp_path: Path) -> None:
    file = write_yaml(tmp_path / "my-chip.yaml", put(toy_hardware("my-chip"), "memory_gb", "eighty"))
    refused(specdec("sweep", hardware=str(file)), 3, "my-chip.yaml", "memory_gb", "eighty")


def test_acceptance_above_the_draft_length_in_a_profile(specdec: Runner, tmp_path: Path) -> None:
    data = put(toy_acceptance("mine"), "points[0].acceptance_length", 2.5)
    file = write_yaml(tmp_path / "mine.yaml", data)
    refused(specdec("sweep", acceptance=str(file)), 3, "mine.yaml", "acceptance_length", "2.5")


def test_nothing_fits(specdec: Runner) -> None:
    # 10 GB hold 0.33 GB of weights and fewer than 1000 requests of 10 kB x 8192 tokens
    refused(specdec("sweep", "--batches", "100000", "--context", "8192"), 4, "no feasible point", "GB usable")


def test_no_point_satisfies_the_limits(specdec: Runner) -> None:
    refused(specdec("recommend", "--min-interactivity", "1e9"), 4, "no feasible point", "the fastest reaches")


def test_unknown_command(specdec: Runner) -> None:
    refused(specdec.raw("swep"), 2, "no such command: swep", "did you mean sweep?")


def test_commands_are_listed_where_none_is_near(specdec: Runner) -> None:
    refused(specdec.raw("zzz"), 2, "commands: sweep, recommend")


def test_no_command_prints_the_help_on_stderr(specdec: Runner) -> None:
    answer = specdec.raw()
    assert answer.code == 2
    assert "Commands:" in answer.err


def test_internal_error_is_one_line_and_debug_shows_where(specdec: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr("specdec_cli.explore.sweep.run_sweep", fail)
    answer = specdec("sweep")
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.strip().splitlines() == [
        "error: internal error, ZeroDivisionError: a fault of ours; --debug shows where"
    ]
    assert "Traceback" in specdec("sweep", "--debug").err
    assert "Traceback" in specdec.raw("--debug", "sweep", "--profiles", str(specdec.folder)).err


def test_debug_shows_where_a_users_mistake_was_found(specdec: Runner) -> None:
    answer = specdec("sweep", "--debug", "--batches", "0")
    assert answer.code == 2
    assert "Traceback" in answer.err


def test_interrupt_is_130(specdec: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("specdec_cli.explore.sweep.run_sweep", interrupt)
    answer = specdec("sweep", output=str(tmp_path / "x.json"))
    assert answer.code == 130
    assert answer.err.strip() == "interrupted"
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------- stdout, stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_answer_on_stdout_and_notes_on_stderr(specdec: Runner, command: str) -> None:
    answer = specdec(command, format="json")
    assert answer.code == 0
    codes = [warning["code"] for warning in answer.data["warnings"]]
    assert "hardware_not_fitted" in codes
    said = re.findall(r"^(?:warning|note) \[(\w+)\]: ", answer.err, re.MULTILINE)
    assert said == codes
    assert "warning [hardware_not_fitted]: " in answer.err
    assert "note [acceptance_source]: " in answer.err


def test_default_scenario_is_said_in_one_line() -> None:
    answer = outside("recommend", "--batch", "32", "--format", "json")
    assert answer.returncode == 0
    lines = [line for line in answer.stderr.splitlines() if "default scenario" in line]
    assert len(lines) == 1
    for word in (DEFAULTS.model, DEFAULTS.hardware, DEFAULTS.engine):
        assert word in lines[0]


def test_default_scenario_is_not_said_where_another_was_asked_for(specdec: Runner) -> None:
    assert "default scenario" not in specdec("sweep").err


def test_off_is_an_answer(specdec: Runner) -> None:
    answer = specdec("recommend", "--batch", "4", "--acceptance-length", "1=1,2=1", format="json")
    assert answer.code == 0
    assert answer.data["choice"]["speculate"] is False
    assert answer.data["choice"]["draft_length"] == 0
    assert answer.data["plateau"] == []
    assert (answer.data["pays_from_batch"], answer.data["pays_to_batch"]) == (None, None)
    assert "speculation off" in specdec("recommend", "--batch", "4", "--acceptance-length", "1=1,2=1").out


def test_closed_pipe_is_quiet(toys: Path) -> None:
    command = [sys.executable, "-m", "specdec_cli", "sweep", "--profiles", str(toys), "--hardware", "toy-chip"]
    command += ["--model", "toy-model", "--engine", "toy-engine", "--batches", "1..600", "--format", "json"]
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait() == BROKEN_PIPE
    assert "Traceback" not in errors
    assert "Broken" not in errors
    assert "Exception" not in errors


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_full_disk_under_stdout_is_said(toys: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "specdec_cli", "profiles", "list", "toy-chip", "--profiles", str(toys)],
            cwd=REPO,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "error: stdout: " in done.stderr
    assert "Traceback" not in done.stderr


def test_closed_stdout_is_said(toys: Path) -> None:
    command = f"{sys.executable} -m specdec_cli profiles list toy-chip --profiles {toys} >&-"
    done = subprocess.run(["sh", "-c", command], cwd=REPO, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: stdout is closed")


def test_ascii_terminal_gets_the_whole_answer() -> None:
    answer = outside("profiles", "show", "h100-sxm", "--sources", PYTHONIOENCODING="ascii")
    assert answer.returncode == 0
    assert answer.stdout.isascii()


# ------------------------------------------------------------------------------------------------ files


def test_format_follows_the_ending(specdec: Runner, tmp_path: Path) -> None:
    starts = {"a.json": "{", "a.csv": "batch,", "a.md": "| batch |", "a.txt": "batch ", "a": "batch "}
    for name, start in starts.items():
        answer = specdec("sweep", output=str(tmp_path / name))
        assert (answer.code, answer.out) == (0, "")
        assert (tmp_path / name).read_text().startswith(start)
    assert chosen_format("csv", "a.json") == "csv"
    with pytest.raises(UsageError):
        chosen_format("", "a.json")


def test_written_file_holds_what_stdout_gets(specdec: Runner, tmp_path: Path) -> None:
    written = specdec("recommend", "--batch", "4", "-o", str(tmp_path / "a.json"))
    assert written.code == 0
    assert (tmp_path / "a.json").read_text() == specdec("recommend", "--batch", "4", format="json").out
    assert specdec("recommend", "--batch", "4", "-o", "-", format="json").data["schema"] == "specdec.recommend/1"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_output_is_checked_before_the_work(specdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("worked before the output was checked")

    monkeypatch.setattr("specdec_cli.explore.sweep.run_sweep", fail)
    (tmp_path / "there").write_text("mine")
    for name, fragment in {
        "no/such/folder/a.json": "does not exist",
        ".": "is a folder",
        "there": "exists; --force replaces it",
        "there/a.json": "Not a directory",
        "": "expects a file's name",
    }.items():
        refused(specdec("sweep", output=str(tmp_path / name) if name else ""), 2, "--output", fragment)
    assert (tmp_path / "there").read_text() == "mine"


def test_folder_that_cannot_be_written(specdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", deny)
    refused(specdec("sweep", output=str(tmp_path / "a.json")), 2, "cannot write in", "Permission denied")


def test_read_only_file_is_kept(specdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    file.write_text("mine")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # whoever runs the tests may write anything
    refused(specdec("sweep", "--force", output=str(file)), 2, "read-only")
    assert file.read_text() == "mine"


def test_force_replaces_and_keeps_mode_and_link(specdec: Runner, tmp_path: Path) -> None:
    file, link = tmp_path / "a.json", tmp_path / "link.json"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    assert specdec("sweep", "--force", output=str(link)).code == 0
    assert file.read_text().startswith("{")
    assert file.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "link.json"]


def test_new_file_has_the_usual_mode(specdec: Runner, tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        specdec("sweep", output=str(tmp_path / "a.json"))
    finally:
        os.umask(mask)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o640


def test_failed_run_leaves_the_old_file(specdec: Runner, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("old")
    refused(specdec("sweep", "--force", model="nope", output=str(file)), 3)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_full_disk_leaves_the_old_file(specdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    file.write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    refused(specdec("sweep", "--force", output=str(file)), 2, "No space left on device")
    monkeypatch.undo()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_device_takes_the_answer_and_stays_a_device(specdec: Runner) -> None:
    before = Path(os.devnull).stat().st_mode
    assert specdec("sweep", output=os.devnull).code == 0
    assert Path(os.devnull).stat().st_mode == before


# ------------------------------------------------------------------------------------------------ options

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


# ------------------------------------------------------------------------------------------------- help


def help_of(specdec: Runner, *words: str) -> str:
    answer = specdec.raw(*words, "--help")
    assert (answer.code, answer.err) == (0, "")
    return " ".join(answer.out.split())


SHARED_OPTIONS = (
    *("--hardware", "--tp", "--gpus", "--ep", "--model", "--drafter", "--engine", "--context", "--weight-dtype"),
    *("--kv-dtype", "--acceptance", "--acceptance-rate", "--acceptance-length", "--batches", "--draft-lengths"),
    *(
        "--input-tokens",
        "--output-tokens",
        "--assume-acceptance",
        "--assume",
        "--format",
        "--output",
        "-o",
        "--force",
        "--profiles",
        "--debug",
    ),
)
LIMITS = ("--batch", "--min-interactivity", "--min-throughput", "--max-tpot-ms", "--schedule", "--emit", "--tie")


def test_options_have_their_exact_spellings_and_help() -> None:
    root = typer.main.get_command(cli_app.app)
    expected = {
        "sweep": {*SHARED_OPTIONS, "--frontier-only"},
        "recommend": {*SHARED_OPTIONS, *LIMITS, "--min-gain", "--contexts", "--explain-guidelines"},
        "compare": {*SHARED_OPTIONS},
        "explain": {*SHARED_OPTIONS, "--batch", "--draft-length"},
    }
    for name, spellings in expected.items():
        command = root.get_command(None, name)  # type: ignore[attr-defined]
        assert spellings <= {spelling for parameter in command.params for spelling in parameter.opts}
        for parameter in command.params:
            assert parameter.help, (name, parameter.name)
            assert parameter.help.endswith("."), (name, parameter.name)


@pytest.mark.parametrize("command", ["sweep", "recommend", "compare", "explain"])
def test_every_part_of_a_question_has_its_option(command: str) -> None:
    root = typer.main.get_command(cli_app.app)
    found = {parameter.name for parameter in root.get_command(None, command).params}  # type: ignore[attr-defined]
    assert {field.name for field in fields(Options)} <= found


def test_help_states_the_defaults(specdec: Runner) -> None:
    for command in COMMANDS:
        text = help_of(specdec, command)
        for stated in (
            f"Default: {DEFAULTS.hardware}.",
            f"Default: {DEFAULTS.model}.",
            f"Default: {DEFAULTS.engine}.",
            f"Default: {DEFAULTS.context}.",
            f"Default: {DEFAULTS.batches}.",
            f"{DEFAULTS.assumed_draft_lengths} where acceptance is assumed",
        ):
            assert stated in text
    assert f"Default: {DEFAULTS.tie}." in help_of(specdec, "recommend")
    assert f"Default: {DEFAULTS.min_gain}." in help_of(specdec, "recommend")
    assert f"Default: {DEFAULTS.compared_batches}." in help_of(specdec, "compare")
    assert f"Default: {DEFAULTS.explained_batch}." in help_of(specdec, "explain")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["sweep", "--help"], ["recommend", "--help"], ["profiles", "--help"]]
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from specdec_cli.cli.app import run\n"
        f"code = run({arguments!r})\n"
        "heavy = {'numpy', 'rich', 'yaml', 'msgspec'} & {name.partition('.')[0] for name in sys.modules}\n"
        "sys.exit(f'{code} {sorted(heavy)}' if code or heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_top_level_help_loads_no_command() -> None:
    program = (
        "import sys\n"
        "from specdec_cli.cli.app import COMMANDS, run\n"
        "run(['--help'])\n"
        "sys.exit(any(entry.module in sys.modules for entry in COMMANDS.values()))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, check=False).returncode == 0


def test_every_command_is_listed_and_loads(specdec: Runner) -> None:
    listing = help_of(specdec)
    for name, entry in cli_app.COMMANDS.items():
        assert f"{name} {' '.join(entry.help.split())}" in listing
        assert help_of(specdec, name).startswith(f"Usage: specdec {name}")


def test_version(specdec: Runner) -> None:
    assert specdec.raw("--version").out == f"specdec {__version__}\n"
    assert outside("--version").stdout == f"specdec {__version__}\n"


# ---------------------------------------------------------------------------------------------- profiles


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
