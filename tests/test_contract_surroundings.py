"""Locale, terminal, time zone, hash seed and folder change not one byte of what programs read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPO
from contract_runs import FROZEN, GOLDEN, arguments

COMMANDS = (
    *(arguments(FROZEN[name]) for name in ("sweep", "recommend", "explain", "acceptance", "check")),
    arguments(FROZEN["sweep"], "csv"),
    arguments(FROZEN["compare"], "markdown"),
    arguments("profiles list --kind hardware --profiles profiles", "csv"),  # a vendor has letters beyond ASCII
    ["schema", "sweep"],
)
SCRIPT = f"""
from specdec_cli.cli.app import run
for command in {COMMANDS!r}:
    assert run(command) in (0, 3), command
"""
SURROUNDINGS = {
    "a narrow German terminal": {
        "LC_ALL": "de_DE.UTF-8",
        "LANG": "de_DE.UTF-8",
        "COLUMNS": "20",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "TZ": "Asia/Kathmandu",
        "PYTHONHASHSEED": "1",
    },
    "a wide Turkish one in an old encoding": {
        "LC_ALL": "tr_TR.ISO-8859-9",
        "COLUMNS": "200",
        "FORCE_COLOR": "1",
        "CLICOLOR_FORCE": "1",
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "iso8859-9",
        "TZ": "Pacific/Kiritimati",
        "PYTHONHASHSEED": "2",
    },
    "a bare machine": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONHASHSEED": "3"},
    "ASCII asked for": {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii", "PYTHONUNBUFFERED": "1", "COLUMNS": "0"},
}


def said(folder: Path, surroundings: dict[str, str]) -> bytes:
    """What the commands print, from a folder that reaches the frozen files by the same names."""
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    clean |= {"PYTHONPATH": str(REPO), "SPECDEC_PROFILES": "", **surroundings}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=folder, env=clean, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout


@pytest.fixture(scope="module")
def usual() -> bytes:
    """What they print in a usual place."""
    found = said(GOLDEN, {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"})
    assert "Zoë & Söhne".encode() in found
    return found


@pytest.mark.parametrize("surroundings", SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_what_programs_read_is_the_same_everywhere(surroundings: dict[str, str], usual: bytes, tmp_path: Path) -> None:
    for name in ("profiles", "files"):
        (tmp_path / name).symlink_to(GOLDEN / name)
    assert said(tmp_path, surroundings) == usual
