"""Every command and option is documented, every one that is documented exists, and what help and README show runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import REPO
from readme import DATA, README, examples

from specdec_cli.cli import validate
from specdec_cli.cli.app import INTERNAL, INTERRUPTED, USAGE, app, run
from specdec_cli.errors import InfeasibleError, ProfileError
from specdec_cli.explore.scenario import DEFAULTS

TEXT = README.read_text("utf-8")
CONTRIBUTING = (REPO / "CONTRIBUTING.md").read_text("utf-8")


def _walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for word in command.list_commands(None):
        below = command.get_command(None, word)
        if hasattr(below, "list_commands"):
            yield from _walk(below, f"{name}{word} ")
        else:
            yield name + word, below


ROOT: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = dict(_walk(ROOT, ""))
"""By name, as typed: `sweep`, `profiles show`."""

OPTIONS = [
    pytest.param(name, option, id=f"{name} {option.opts[0]}")
    for name, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option"
]


def spellings(command: Any) -> set[str]:
    """The long options of a command."""
    return {one for option in command.params for one in option.opts if one.startswith("--")}


# ------------------------------------------------------------------------------------------------- --help

UNITS = r"GPUs?\b|tokens?\b|requests\b|\bms\b|fraction|chance|bits|columns|temperature|the same as --"
COUNTED = {"N", "D", "AXIS", "TOKENS", "TOKENS,...", "D=AL,..."}
"""Metavars of options that take a number, or several, as text."""

WITHOUT_DEFAULT = {
    *("--batch", "--min-interactivity", "--min-throughput", "--max-tpot-ms", "--contexts", "--emit"),
    *("--input-tokens", "--output-tokens", "--acceptance-rate", "--acceptance-length", "--assume-acceptance"),
    *("--batches", "--draft-lengths", "--draft-length", "--calibration", "--profiles", "--drafter", "--workload"),
    *("--data-set", "--temperature", "--off", "--vendor", "--target", "--bits-per-weight", "--llama-bench"),
}
"""Left out, these ask nothing, or another option speaks for them (`explain --batches`)."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_its_arguments_say_what_they_are_for(name: str) -> None:
    assert COMMANDS[name].help
    for argument in COMMANDS[name].params:
        assert argument.help, argument.name
        assert argument.help.endswith("."), argument.help


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_an_option_says_its_unit(name: str, option: Any) -> None:
    numeric = option.type.name in ("integer", "float", "integer range", "float range")
    if numeric or option.metavar in COUNTED:
        assert re.search(UNITS, f"{option.help} {option.metavar}", re.IGNORECASE)


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_an_option_says_its_default(name: str, option: Any) -> None:
    if not option.is_flag and not option.required and option.opts[0] not in WITHOUT_DEFAULT:
        assert re.search(r"Default|default\.|1 is a chain", option.help)


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the examples of the help name."""
    for file in DATA.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "my-model").mkdir()
    shutil.copy(DATA / "config.json", tmp_path / "my-model")
    chip = (REPO / "profiles" / "hardware" / "h100-sxm.yaml").read_text("utf-8")
    (tmp_path / "my-gpu.yaml").write_text(chip.replace("name: h100-sxm", "name: my-gpu"), "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


EXAMPLES = {
    name: found[1]
    for name, command in COMMANDS.items()
    for found in re.finditer(r"Example: specdec (.*)", command.help)
}
IN_THE_README = {example.command.removeprefix("specdec ") for example in examples(TEXT)}


def test_every_help_has_one_example_of_its_command() -> None:
    assert {name for name, line in EXAMPLES.items() if line.startswith(name)} == set(COMMANDS)


@pytest.mark.parametrize("line", sorted(set(EXAMPLES.values()) - IN_THE_README))  # the README's run in test_readme.py
def test_the_example_of_a_help_runs(line: str, prepared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if "profiles new" in line:
        (prepared / "my-gpu.yaml").unlink()  # which it writes
    code = run(line.split())
    said = capsys.readouterr()
    assert code == 0, said.err
    written = re.search(r"-o (\S+)", line)
    assert (prepared / written[1]).stat().st_size if written else said.out + said.err


# ------------------------------------------------------------------------------------------- the README

_ROW = re.compile(r"^\| `([a-z]+(?: [a-z]+)?)[^`]*` \|[^|]*\|([^|]*)\|$", re.MULTILINE)
ROWS = {name: set(re.findall(r"`(--[a-z-]+)`", options)) for name, options in _ROW.findall(TEXT)}
"""The table of commands: the options of each that its row names."""

ALL_TAKE = {"--output", "--force", "--debug"}
NEARLY_ALL_TAKE = {"--format", "--profiles"}


def test_the_table_of_commands_is_whole() -> None:
    assert set(ROWS) == set(COMMANDS)


def question() -> set[str]:
    """The options that the README lists once for all commands that ask a question."""
    (paragraph,) = re.findall(r"^They share the question: (.*?)\n\n", TEXT, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"--[a-z-]+", paragraph))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_row_names_the_options_of_its_command(name: str) -> None:
    own = spellings(COMMANDS[name]) - ALL_TAKE - NEARLY_ALL_TAKE
    asks = "--hardware" in own
    assert ROWS[name] == (own - question() if asks else own)


def test_the_question_is_what_a_sweep_asks() -> None:
    own = ROWS["sweep"] | ALL_TAKE | NEARLY_ALL_TAKE
    assert question() == spellings(COMMANDS["sweep"]) - own


def test_what_all_commands_take_they_take() -> None:
    for command in COMMANDS.values():
        assert spellings(command) >= ALL_TAKE
    for option in (*ALL_TAKE, *NEARLY_ALL_TAKE, *spellings(ROOT)):
        assert f"`{option}`" in TEXT or f"specdec {option}" in TEXT, option


OTHERS = ("uv run", "python tests/", ".venv/bin/pytest")
"""Programs with options of their own; a paragraph or item that names one is about those."""


@pytest.mark.parametrize("text", [TEXT, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_option_named_exists(text: str) -> None:
    known = {one for command in COMMANDS.values() for one in spellings(command)} | spellings(ROOT) | {"--help"}
    ours = "\n".join(part for part in re.split(r"\n(?:- |\n)", text) if not any(other in part for other in OTHERS))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", ours)) - known == set()


@pytest.mark.parametrize("text", [TEXT, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_commands_in_a_sentence_exist_with_their_options(text: str) -> None:
    for line in re.findall(r"`specdec ([a-z][^`\n]*)`", text):
        words = line.split()
        name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
        assert name in COMMANDS, line
        assert {word for word in words if word.startswith("--")} <= spellings(COMMANDS[name]) | {"--help"}, line


def test_the_exit_codes_are_those_of_the_readme() -> None:
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)]
    assert codes == [
        0,
        INTERNAL,
        USAGE,
        ProfileError.exit_code,
        InfeasibleError.exit_code,
        validate.MISSED,
        INTERRUPTED,
    ]


def test_the_tolerances_are_those_of_the_readme() -> None:
    assert f"within {100 * DEFAULTS.tie:g} % of the best" in TEXT
    assert f"must gain more than {100 * DEFAULTS.min_gain:g} %" in TEXT
