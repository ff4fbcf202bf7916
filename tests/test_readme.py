"""The README tells the truth: every command runs, every output shown is what comes out today."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import REPO
from readme import DATA, README, Example, examples, run, tidy

TEXT = README.read_text("utf-8")
EXAMPLES = examples(TEXT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: later commands use what earlier ones write."""
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.command for example in EXAMPLES])
def test_command_runs_and_shows_what_the_readme_shows(example: Example, folder: Path) -> None:
    for earlier in EXAMPLES[: EXAMPLES.index(example)]:
        written = re.search(r"-o (\S+)", earlier.command)
        if written and written[1] in example.command.split() and not (folder / written[1]).exists():
            run(earlier.command, folder)  # where tests run apart from each other, or one alone
    done = run(example.command, folder)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if example.shown is not None:
        assert tidy(done.stdout) == tidy(example.shown), "python tests/update_readme.py writes it anew"


def test_files_shown_are_the_files_used() -> None:
    for name, content in re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", TEXT, re.DOTALL):
        assert (DATA / name).read_text("utf-8") == content


def test_every_command_group_has_an_example() -> None:
    from specdec_cli.cli.app import app

    names = {info.name for info in [*app.registered_commands, *app.registered_groups] if info.name}
    shown = {example.command.split()[1] for example in EXAMPLES}
    assert names - shown == set()


def test_first_screen_is_short() -> None:
    (shown,) = [e for e in EXAMPLES if e.command.startswith("specdec recommend --batch 32 |")]
    assert shown.shown is not None
    assert len(shown.shown.splitlines()) <= 15


def test_json_examples_are_json(tmp_path: Path) -> None:
    for example in EXAMPLES:
        if "--format json" in example.command:
            plain = re.sub(r"\s*\|.*", "", example.command)
            assert json.loads(run(plain, tmp_path).stdout)["schema"].startswith("specdec.")


def test_ci_runs_the_readmes_test_command() -> None:
    script = (REPO / ".ci" / "run").read_text("utf-8")
    assert "<!-- test-command -->" in script
    assert re.search(r"<!-- test-command -->\n```bash\n.*pytest.*\n```", TEXT)
