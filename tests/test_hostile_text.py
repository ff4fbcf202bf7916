"""Texts of others never steer a terminal, turn the direction of reading, or become a formula of a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from builders import toy_acceptance, toy_drafter, toy_engine, toy_hardware, toy_model, toy_source, write_library
from conftest import REPO

from specdec_cli.cli.app import run
from specdec_cli.errors import ProfileError, shown, visible
from specdec_cli.profiles.writer import flow
from specdec_cli.profiles.yaml_reader import parse
from specdec_cli.report import html
from specdec_cli.report.columns import Grid
from specdec_cli.report.csv import csv_table

# Clears the screen; sets a window's title; a lone C1 introducer; deletes; turns what follows; joins; ends a line.
STEERS = "a\x1b[2J\x1b]0;t\x07\x9b31m\x7f\u202eb\u2066c\u200bd\u2028e"
SHOWN = r"a\x1b[2J\x1b]0;t\x07\x9b31m\x7f\u202eb\u2066c\u200bd"
LOG = REPO / "tests" / "data" / "engine_files" / "vllm_response.jsonl"

COMMANDS = {
    "sweep": ["sweep", "--draft-lengths", "0,1,2", "--batches", "1,4"],
    "recommend": ["recommend", "--batch", "4", "--emit", "vllm"],
    "compare": ["compare", "--batches", "1"],
    "explain": ["explain", "--batch", "4", "--draft-length", "1"],
    "list": ["profiles", "list", "toy", "--kind", "model"],
    "plan": ["calibrate", "--plan"],
}
SHARED = ["--hardware", "toy-chip", "--model", "toy-model", "--engine", "toy-engine"]


def hostile_library(folder: Path) -> Path:
    """Every free text of a profile steers."""
    said = {"title": STEERS, "notes": [STEERS], "sources": {"*": toy_source(**{"from": STEERS})}}
    return write_library(
        folder,
        toy_hardware(vendor=STEERS, architecture=STEERS, **said),
        toy_model(maker=STEERS, aliases=[f"toy/{STEERS}"], **said),
        toy_drafter(default=True, **said),
        toy_acceptance(default=True, **{**said, "data_set": STEERS, "measured_by": STEERS}),
        toy_engine(version=STEERS, **said),
    )


def harmless(text: str) -> bool:
    """Nothing but letters and line feeds."""
    return text.replace("\n", "").isprintable()


@pytest.mark.parametrize("style", ["table", "markdown", "csv", "json"])
@pytest.mark.parametrize("command", COMMANDS)
def test_texts_of_profiles(command: str, style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = str(hostile_library(tmp_path))
    shared = [] if command == "list" else SHARED
    code = run([*COMMANDS[command], *shared, "--profiles", library, "--format", style])
    said = capsys.readouterr()
    assert code in (0, 2), said.err  # a format that the command does not have
    assert harmless(said.out)
    assert harmless(said.err)
    if code == 0 and style == "json":
        json.loads(said.out)


@pytest.mark.parametrize("kind", ["toy-chip", "toy-model", "toy-engine", "toy-model-eagle3-chat"])
def test_a_profile_shown(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = str(hostile_library(tmp_path))
    assert run(["profiles", "show", kind, "--sources", "--profiles", library]) == 0
    said = capsys.readouterr().out
    assert harmless(said)
    assert SHOWN in said


def test_text_of_a_page() -> None:
    grid = Grid(headers=(STEERS,), rows=(("<b>" + STEERS,),), numeric=(False,))
    for piece in (html.table(grid), html.bullets([STEERS]), html.to_copy(f"one\n{STEERS}", STEERS)):
        assert harmless(piece)
        assert SHOWN in piece
    assert "one\n" in html.to_copy("one\ntwo", "")


@pytest.mark.parametrize("style", ["table", "markdown", "csv", "json"])
def test_names_out_of_a_log(
    style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads(LOG.read_text("utf-8").splitlines()[0])
    monkeypatch.chdir(tmp_path)
    file = Path(f"log\n{STEERS}.jsonl".replace("/", ""))
    file.write_text(json.dumps({**data, "model": STEERS, "label": STEERS, STEERS: STEERS}), "utf-8")
    assert run(["acceptance", str(file), "--format", style]) == 0
    said = capsys.readouterr()
    assert harmless(said.out)
    assert harmless(said.err)
    if style == "json":
        assert json.loads(said.out)["files"][0]["file"] == str(file)


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "--hardware", STEERS],
        ["sweep", "--model", f"no/{STEERS}.yaml"],
        ["sweep", "--batches", STEERS],
        ["sweep", "--format", STEERS],
        ["sweep", f"--{STEERS}"],
        [STEERS],
        ["acceptance", STEERS],
        ["acceptance", "--from", STEERS, STEERS],
        ["calibrate", STEERS, "--off", STEERS],
        ["profiles", "check", f"{STEERS}.yaml"],
        ["profiles", "import", STEERS],
        ["profiles", "new", "hardware", STEERS],
        ["recommend", "--batch", "1", "-o", f"no/{STEERS}"],
    ],
    ids=lambda arguments: " ".join(arguments)[:20].encode("unicode_escape").decode(),
)
def test_words_of_the_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) in (2, 3)
    said = capsys.readouterr()
    assert harmless(said.err)
    assert harmless(said.out)


def test_values_of_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((REPO / "tests" / "data" / "readme" / "config.json").read_text("utf-8"))
    file = tmp_path / "config.json"
    for key in ("hidden_size", "num_hidden_layers", "torch_dtype", "architectures", "hidden_act"):
        file.write_text(json.dumps({**config, key: STEERS, "_name_or_path": f"x/{STEERS}"}), "utf-8")
        run(["profiles", "import", str(file)])
        said = capsys.readouterr()
        assert harmless(said.err), key
        assert harmless(said.out), key


@pytest.mark.parametrize("text", [STEERS, "\x85", "a\tb", 'q"\\', "\u00e9\u00a0x", "\U0001f600\x9b"])
def test_a_profile_that_we_write_is_read_back(text: str) -> None:
    written = f"format: 1\ntitle: {flow(text)}\n"
    assert harmless(written)
    assert parse(written, Path("x.yaml")).data["title"] == text


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("+1+1", "'+1+1"),
        ("-2", "'-2"),
        ("@sum", "'@sum"),
        ("a=b", "a=b"),
        ("two\nlines\x1b", "two\nlines\\x1b"),
    ],
)
def test_no_name_is_a_formula(name: str, cell: str) -> None:
    text = csv_table(("label", "change"), [{"label": name, "change": -2.5}])
    assert list(csv.reader(io.StringIO(text)))[1] == [cell, "-2.5"]


def test_what_is_shown() -> None:
    assert shown(STEERS) == SHOWN + r"\u2028e"
    assert shown("naïve 你好 🙂 a b") == "naïve 你好 🙂 a b"
    assert visible("one\ntwo\x1b") == "one\ntwo\\x1b"
    error = ProfileError("m\x1b", file="a\nb", key="k\x07", line=3, hint="h\x9b")
    assert str(error) == "a\\nb:3: k\\x07: m\\x1b\n  hint: h\\x9b"
