"""Formatting, lint and types hold over the whole tree: the linters run as tests, so one command checks everything."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import REPO


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy", "--strict", "specdec_cli"],
    ],
    ids=" ".join,
)
def test_linter_is_content(command: list[str]) -> None:
    run = subprocess.run([sys.executable, "-m", *command], cwd=REPO, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_modules_stay_small() -> None:
    """A module of much over 350 lines is two rooms without a wall."""
    lengths = {
        str(path.relative_to(REPO)): len(path.read_text("utf-8").splitlines())
        for path in (REPO / "specdec_cli").rglob("*.py")
    }
    long = {name: count for name, count in lengths.items() if count > 400 and not name.endswith("profiles/schema.py")}
    assert not long, long
