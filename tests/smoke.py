"""Every command once, as an installed `specdec` answers it: what the tests of the wheel and of clean installs run.

Standard library only, so that any interpreter with nothing but `specdec` can be put through it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data" / "readme"
INPUTS = ("config.json", "runs.csv", "server.log")


@dataclass(frozen=True)
class Case:
    """One command line, and what shows that it did its work."""

    line: str
    shows: str
    """Part of what it prints."""
    code: int = 0
    writes: str | None = None


COMMANDS = (
    Case("--version", "specdec "),
    Case("--help", "validate"),
    Case("sweep --batches 1,8 --format json", '"specdec.sweep/1"'),
    Case("recommend --batch 32", "At batch 32: "),
    Case("compare --batches 8", "eagle3"),
    Case("explain --batch 8 --draft-length 3", "speedup"),
    Case("plot --batch 32", "tokens/s/GPU"),
    Case("validate vllm-issue-20780", "gates hold"),
    Case("schema sweep", '"$schema"'),
    Case("schema recommend", '"$schema"'),  # types that inherit across modules
    Case("profiles list h100 --kind hardware", "h100-sxm"),
    Case("profiles show h100-sxm --sources", "datasheet"),
    Case("profiles schema hardware", '"$schema"'),
    Case("profiles new hardware my-chip", "my-chip.yaml", writes="my-chip.yaml"),
    Case("profiles check my-chip.yaml", "problems in 1 of 1 file", code=3),
    Case("profiles import config.json --name my-model -o my-model.yaml", "my-model", writes="my-model.yaml"),
    Case("profiles check my-model.yaml", "nothing wrong"),
    Case("sweep --model my-model.yaml --drafter none --batches 1", "tokens/s/GPU"),
    Case(
        "acceptance server.log --target llama-3.1-8b --drafter llama-3.1-8b-eagle3 -o ours.yaml",
        "ours.yaml",
        writes="ours.yaml",
    ),
    Case("recommend --batch 16 --acceptance ours.yaml", "At batch 16: "),
    Case("calibrate --plan", "vllm"),
    Case("calibrate runs.csv -o mine.yaml", "mine.yaml", writes="mine.yaml"),
    Case("recommend --batch 16 --calibration mine.yaml", "At batch 16: "),
)
"""In order: later ones use what earlier ones write. None needs an extra."""

PICTURES = (
    Case("plot -o frontier.html", "", writes="frontier.html"),
    Case("plot -o frontier.svg", "", writes="frontier.svg"),
    Case("plot -o frontier.png", "", writes="frontier.png"),
    Case("sweep --batches 1,8 --plot -o sweep.pdf", "", writes="sweep.pdf"),
    Case("report --batch 32 -o report.html", "", writes="report.html"),
)
"""With the `plot` extra."""

ASKS_FOR_EXTRA = "pip install 'specdec-cli[plot]'"
WITHOUT_EXTRA = tuple(Case(case.line, ASKS_FOR_EXTRA, code=2) for case in PICTURES)


def prepare(folder: Path) -> None:
    """Lay the files that the commands read."""
    for name in INPUTS:
        shutil.copy(DATA / name, folder / name)


def complaint(case: Case, code: int, out: str, err: str, folder: Path) -> str | None:
    """What is wrong with an answer to one command; None where nothing is."""
    if code != case.code:
        return f"`{case.line}` left with {code}, not {case.code}: {out}{err}"
    if case.shows not in out + err:
        return f"`{case.line}` does not show {case.shows!r}: {out}{err}"
    if "Traceback" in err or "Warning:" in err:
        return f"`{case.line}`: {err}"
    if case.writes is not None and not (folder / case.writes).stat().st_size:
        return f"`{case.line}` wrote an empty {case.writes}"
    return None


def each_by_itself(
    cases: Sequence[Case], programs: Sequence[Sequence[str]], folder: Path, environment: Mapping[str, str]
) -> list[str]:
    """Run the cases in `folder`, a process each, by each of the programs in turn; what is wrong.

    programs: the words before a command's own: the console script, or an interpreter and `-m specdec_cli`.
    """
    found = []
    for number, case in enumerate(cases):
        done = subprocess.run(
            [*programs[number % len(programs)], *case.line.split()],
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        found.append(complaint(case, done.returncode, done.stdout, done.stderr, folder))
    return [one for one in found if one is not None]


_ALL_IN_ONE = """
import io, json, sys
from specdec_cli.cli.app import run
answers, stdout = [], sys.stdout
for line in json.load(sys.stdin):
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    try:
        code = run(line.split())
    except SystemExit as left:
        code = left.code
    said = []
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        said.append(stream.buffer.getvalue().decode())
    answers.append((code, *said))
json.dump(answers, stdout)
"""


def all_in_one(cases: Sequence[Case], python: Sequence[str], folder: Path, environment: Mapping[str, str]) -> list[str]:
    """As `each_by_itself`, but in one process, which loads its modules once; python: an interpreter and its options."""
    done = subprocess.run(
        [*python, "-c", _ALL_IN_ONE],
        input=json.dumps([case.line for case in cases]),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        return [done.stderr]
    found = [complaint(case, *answer, folder) for case, answer in zip(cases, json.loads(done.stdout), strict=True)]
    return [one for one in found if one is not None]
