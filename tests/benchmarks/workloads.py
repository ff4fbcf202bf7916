"""What is measured, each beside a yardstick: work of the same kind that has nothing of specdec's in it.

A slower machine slows both, so that their ratio stays. Times are CPU seconds, of this process or of those it starts.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml

from specdec_cli.engines.read.runs import read_runs
from specdec_cli.explore.scenario import Options, Question, resolve
from specdec_cli.explore.sweep import Sweep
from specdec_cli.profiles.kinds import KIND_FOLDERS
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.search import shipped_profiles_dir

SWEEPS: dict[str, dict[str, Any]] = {
    "1e4": {"batches": "1..100", "draft_lengths": "0..99"},
    "1e5": {"batches": "1..500", "draft_lengths": "0..49", "tp": "1,2", "hardware": "h100-sxm,b200-sxm"},
    "1e6": {"batches": "1..1000", "draft_lengths": "0..83", "tp": "1,2,4,8", "hardware": "h100-sxm,h200-sxm,b200-sxm"},
}
"""Options of grids of about so many points (batch, draft length, TP, chip)."""

KINDS = ("hardware", "engine", "drafter")
"""Those whose every file is loaded; the others hold too many for a check that is run often."""


def seconds(work: Callable[[], Any]) -> float:
    """CPU time of a call, of this process."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        gc.enable()


# ---------------------------------------------------------------------------------------------------- the sweep


def question(size: str) -> Question:
    """The question whose grid holds about `size` points."""
    return resolve(Library(()), Options(**SWEEPS[size]))


def asked_points(asked: Question) -> int:
    """Points of the grid, feasible or not."""
    return sum(len(one.batches) * len(one.draft_lengths) for one in asked.scenarios)


def numpy_yardstick(points: int) -> None:
    """For each point 40 multiplications, 8 powers and 4 look-ups in float64: half of them on a hundred thousand points
    at a time, which leave the processor's nearest cache, half on eight thousand, which do not."""
    for most in (100_000, 8_000):
        for start in range(0, points, most):
            values = np.linspace(0.1, 1.0, min(most, points - start))
            order = np.arange(values.size)[::-1].copy()
            for _ in range(2):
                for _ in range(10):
                    values = values * 1.0000001
                values = np.take(values**1.3, order) ** 0.77


def result_bytes(found: Sweep) -> int:
    """Bytes that the answer's arrays hold; memory that several share counts once."""
    held: dict[int, int] = {}
    columns = [getattr(found.points, name) for name in found.points.__struct_fields__]
    for grid in found.grids:
        columns += _arrays(grid)
    for column in columns:
        if isinstance(column, np.ndarray):
            owner = column
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            held[id(owner)] = owner.nbytes
    return sum(held.values())


def _arrays(record: msgspec.Struct) -> Iterator[Any]:
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, msgspec.Struct):
            yield from _arrays(value)


# -------------------------------------------------------------------------------------------------- the library


def load_library() -> int:
    """Every shipped profile of KINDS found, read and checked, by a library that has read nothing yet."""
    library = Library(())
    return sum(len(library.every(kind)[0]) for kind in KINDS)


def library_texts() -> list[str]:
    """The same files as text."""
    folder = shipped_profiles_dir()
    files = (path for kind in KINDS for path in sorted((folder / KIND_FOLDERS[kind]).glob("*.yaml")))
    return [path.read_text(encoding="utf-8") for path in files]


def yaml_yardstick(texts: list[str]) -> None:
    """The texts as plain data, by PyYAML's loader in C."""
    for text in texts:
        yaml.load(text, Loader=yaml.CSafeLoader)  # noqa: TID251  (what profiles.yaml_reader is held against)


# ----------------------------------------------------------------------------------------------------- the logs

_REQUEST = '(APIServer pid=77) INFO:     127.0.0.1:50000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
_WINDOW = (
    "(APIServer pid=77) INFO 09-20 11:{minute:02}:{second:02} [loggers.py:259] Engine 000: Avg prompt throughput: 0.0 "
    "tokens/s, Avg generation throughput: 880.0 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%, "
    "Prefix cache hit rate: 12.5%\n"
    "(APIServer pid=77) INFO 09-20 11:{minute:02}:{second:02} [metrics.py:101] SpecDecoding metrics: Mean acceptance "
    "length: 2.20, Accepted throughput: 120.00 tokens/s, Drafted throughput: 200.00 tokens/s, Accepted: 1200 tokens, "
    "Drafted: 2000 tokens, Per-position acceptance rate: 0.700, 0.500, Avg Draft acceptance rate: 60.0%\n"
)


def write_log(path: Path, megabytes: float) -> Path:
    """A vLLM log of that size: a window of figures every ten seconds, eighty requests between."""
    wanted = int(megabytes * 1e6)
    with path.open("w", encoding="utf-8") as out:
        at = 0
        while out.tell() < wanted:
            out.write(_WINDOW.format(minute=at // 60 % 60, second=at % 60) + _REQUEST * 80)
            at += 10
    return path


def read_log(path: Path) -> None:
    """The log as `specdec acceptance` reads it."""
    runs = read_runs([str(path)])
    assert runs[0].runs, "the generated log holds no run"


def lines_yardstick(path: Path) -> int:
    """The same file, line by line."""
    with path.open(encoding="utf-8") as lines:
        return sum(len(line) for line in lines)


# -------------------------------------------------------------------------------------------------- whole processes

SPECDEC = ("-m", "specdec_cli")
PROCESSES = {
    "help": (*SPECDEC, "--help"),
    "recommend": (*SPECDEC, "recommend", "--batch", "32"),
    "import typer": ("-c", "import typer"),
    "import numpy": ("-c", "import numpy"),
}


def process_seconds(name: str) -> float:
    """CPU time of a whole process, from its start to its end; elapsed time where a system does not tell."""
    keeps_modules = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started, clock = _children(), time.perf_counter()
    subprocess.run(
        [sys.executable, *PROCESSES[name]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
        env=keeps_modules,
    )
    return _children() - started or time.perf_counter() - clock


def _children() -> float:
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    taken = resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken.ru_utime + taken.ru_stime
