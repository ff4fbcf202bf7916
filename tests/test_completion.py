"""The Tab key: what the shells are offered for commands, options, profiles and the words that options know."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import write_toys
from conftest import REPO

from specdec_cli.cli.app import COMMANDS, run
from specdec_cli.cli.completion import SHELLS
from specdec_cli.cli.profiles import KINDS
from specdec_cli.engines.read.detect import FORMATS
from specdec_cli.engines.settings import FAMILIES


def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str) -> list[str]:
    """What bash is told where a Tab follows `specdec ` and these words; a trailing blank begins a new one."""
    words = ["specdec", *typed.split(" ")]
    monkeypatch.setenv("_SPECDEC_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    code = run([])
    said = capsys.readouterr()
    assert (code, said.err) == (0, "")
    return said.out.split()


CASES: list[tuple[str, list[str]]] = [
    ("", list(COMMANDS)),
    ("re", ["recommend", "report"]),
    ("--ver", ["--version"]),
    ("--show-completion ", ["bash", "zsh", "fish", "powershell"]),
    ("sweep --draft", ["--drafter", "--draft-lengths"]),
    ("sweep --profiles TOYS --hardware toy", ["toy-chip", "toy-chip-2"]),
    ("sweep --profiles TOYS --hardware toy-chip-2,toy", ["toy-chip-2,toy-chip"]),  # not what stands there already
    ("sweep --profiles TOYS --model toy", ["toy-model"]),
    ("sweep --profiles TOYS --acceptance toy", ["toy-model-eagle3-chat"]),
    ("recommend --profiles TOYS --engine toy", ["toy-engine"]),
    ("recommend --drafter non", ["none"]),
    ("recommend --profiles TOYS --drafter none,toy", ["none,toy-model-eagle3"]),
    ("recommend --batch 8 --emit ", list(FAMILIES)),
    ("recommend --kv-dtype fp", ["fp32", "fp16", "fp8"]),
    ("recommend --batch ", []),
    ("explain --assume-acceptance ", ["typical"]),
    ("compare --format j", ["json"]),
    ("plot --view s", ["speedup", "step"]),
    ("plot --format p", ["png", "pdf"]),
    ("acceptance --from ", list(FORMATS)),
    ("validate vllm-issue-20780", ["vllm-issue-20780"]),
    ("profiles ", ["list", "show", "check", "import", "new", "schema"]),
    ("profiles list --kind ", list(KINDS)),
    ("profiles schema me", ["measurement"]),
    ("profiles show --profiles TOYS --kind engine toy", ["toy-engine"]),
    ("profiles show --profiles TOYS toy-ch", ["toy-chip", "toy-chip-2"]),
    ("profiles new hardware my-chip --profiles TOYS --like toy-chip-", ["toy-chip-2"]),
    ("profiles import c", []),  # nothing of ours: bash offers files
    ("profiles check c", []),
    ("bogus --hard", []),
    ("sweep --profiles /no/such/folder --hardware ", []),
]


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toys(tmp_path_factory.mktemp("toys"))


@pytest.mark.parametrize(("typed", "expected"), CASES, ids=[typed or "nothing" for typed, _ in CASES])
def test_a_tab_offers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], toys: Path, typed: str, expected: list[str]
) -> None:
    assert offered(monkeypatch, capsys, typed.replace("TOYS", str(toys))) == expected


def test_the_commands_are_offered_without_loading_them() -> None:
    program = (
        "import sys\n"
        "from specdec_cli.cli.app import COMMANDS, run\n"
        "run([])\n"
        "sys.exit(any(entry.module in sys.modules for entry in COMMANDS.values()))\n"
    )
    asked = {"_SPECDEC_COMPLETE": "complete_bash", "COMP_WORDS": "specdec\n", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, env=os.environ | asked, capture_output=True)
    assert done.returncode == 0
    assert done.stdout.split() == [name.encode() for name in COMMANDS]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_its_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert run(["--show-completion", shell]) == 0
    said = capsys.readouterr()
    assert f"complete_{shell}" in said.out
    assert said.err == ""


def test_a_shell_that_is_not_known_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--show-completion", "fisch"]) == 2
    assert capsys.readouterr().err == "error: --show-completion 'fisch' is not known; did you mean fish?\n"


IN_SHELL = {
    "bash": "COMP_WORDS=(specdec sweep --hardware h200) COMP_CWORD=3; _specdec_completion specdec; echo $COMPREPLY",
    "fish": "complete -C 'specdec sweep --hardware h200'",
}


@pytest.mark.parametrize("shell", [name for name in IN_SHELL if shutil.which(name)])
def test_the_script_works_in_the_shell(shell: str, tmp_path: Path) -> None:
    program = tmp_path / "specdec"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m specdec_cli "$@"\n', "utf-8")
    program.chmod(0o755)
    script = tmp_path / "completion"
    done = subprocess.run(
        [shell, "-c", f"specdec --show-completion {shell} > {script}; source {script}; {IN_SHELL[shell]}"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["h200-sxm"], "")
