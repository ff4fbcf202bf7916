"""Runs of the command line for tests: in this process, on a toy library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest
from builders import toy_acceptance, toy_drafter, toy_engine, toy_hardware, toy_model, write_library

from specdec_cli.cli.app import run

REPO = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Answer:
    """What a run left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """stdout as strict JSON: NaN and Infinity are refused."""

        def refuse(word: str) -> NoReturn:
            raise AssertionError(f"{word} is no JSON")

        found: dict[str, Any] = json.loads(self.out, parse_constant=refuse)
        return found


class Runner:
    """`specdec` on a toy chip, model, drafter and engine, unless told otherwise."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def raw(self, *arguments: str) -> Answer:
        """The arguments as they are."""
        self._capsys.readouterr()
        code = run(list(arguments))
        captured = self._capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    def __call__(self, command: str, *arguments: str, **options: str | None) -> Answer:
        """`command` on the toy library; an option None leaves the toy's own out."""
        asked = {
            "profiles": str(self.folder),
            "hardware": "toy-chip",
            "model": "toy-model",
            "engine": "toy-engine",
            **options,
        }
        given = [part for name, value in asked.items() if value is not None for part in (f"--{name}", value)]
        return self.raw(command, *given, *arguments)


def write_toys(folder: Path) -> Path:
    """The toy library, and a second chip."""
    return write_library(
        folder,
        toy_hardware(),
        toy_hardware("toy-chip-2", memory_bandwidth_gb_per_s=200.0),
        toy_model(aliases=["Toy/Model-165M"]),
        toy_drafter(aliases=["toy/eagle3-head"], default=True),
        toy_acceptance(default=True),
        toy_engine(),
    )


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
