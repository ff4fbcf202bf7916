"""The README's commands, and what they printed when it was last written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
README = REPO / "README.md"
DATA = REPO / "tests" / "data" / "readme"

_BLOCK = re.compile(r"(?P<mark><!-- output -->\n)?```console\n(?P<body>.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One command of a console block."""

    command: str
    shown: str | None
    """What the README shows of its output; None: it shows none."""


def examples(text: str) -> list[Example]:
    """Every command of every console block, in order."""
    found: list[Example] = []
    for block in _BLOCK.finditer(text):
        for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Example(command, output if block["mark"] else None))
    return found


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a README command in `folder` with this interpreter's `specdec` first on the path.

    Without jq its filter is left out: the rest of the command still runs.
    """
    if shutil.which("jq") is None:
        command = re.sub(r"\| jq '[^']*'", "| cat", command)
    for file in DATA.iterdir():
        shutil.copy(file, folder / file.name)
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    shim = bin_folder / "specdec"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m specdec_cli "$@"\n', "utf-8")
    shim.chmod(0o755)
    environment = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "PYTHONPATH": str(REPO)}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def rewritten(text: str, folder: Path) -> str:
    """The README with every shown output made anew."""

    def anew(block: re.Match[str]) -> str:
        if not block["mark"]:
            return block[0]
        parts = re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]
        commands = [part.partition("\n")[0] for part in parts]
        outputs = [f"$ {command}\n{tidy(run(command, folder).stdout)}" for command in commands]
        return f"<!-- output -->\n```console\n{''.join(outputs)}```"

    return _BLOCK.sub(anew, text)


def tidy(output: str) -> str:
    """Output as a README holds it: no trailing blanks, one newline at the end."""
    lines = [line.rstrip() for line in output.rstrip().splitlines()]
    return "\n".join(lines) + "\n"
