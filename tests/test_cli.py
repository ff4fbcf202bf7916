"""The command line: what goes to stdout and what to stderr, files written whole or not at all, help."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from cli_runs import Runner, outside, refused
from conftest import REPO

from specdec_cli import __version__
from specdec_cli.cli import app as cli_app
from specdec_cli.cli.output import BROKEN_PIPE, chosen_format
from specdec_cli.errors import UsageError
from specdec_cli.explore.scenario import DEFAULTS, Options

COMMANDS = ("sweep", "recommend")


# -------------------------------------------------------------------------------------- stdout, stderr


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


# ----------------------------------------------------------------------------------------------- files


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


# ------------------------------------------------------------------------------------------------ help


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
