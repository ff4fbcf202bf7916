"""Whether anything has become slower: what specdec takes over what a yardstick takes, against ratios on record.

    python tests/benchmarks/ratios.py            fails (exit code 1) where a ratio is 30 % above the recorded one
    python tests/benchmarks/ratios.py --record   writes ratios.json anew: on a quiet machine, after a change on purpose

Both sides of a ratio are measured in turns in one run and the least of each counts, so that neither a slower machine
nor a busy one changes much. What fails is measured once more before it counts. Start-up beside importing numpy
varies by a fifth between quiet runs: the record holds the largest of three measurements.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import workloads
from specdec_cli.explore.sweep import run_sweep

RECORD = Path(__file__).with_name("ratios.json")
ALLOWED = 1.3
"""How far above its recorded value a ratio may be: 30 %."""

Numbers = dict[str, float]
Timer = Callable[[], float]


class Pair(NamedTuple):
    """A ratio of times: how each side is timed, s, and how often."""

    specdec: Timer
    yardstick: Timer
    rounds: int


def pairs(scratch: Path) -> dict[str, Pair]:
    """Every ratio of times; scratch: a folder for what is generated."""
    found: dict[str, Pair] = {}
    for size, rounds in (("1e4", 30), ("1e5", 20), ("1e6", 5)):
        asked = workloads.question(size)
        points = workloads.asked_points(asked)
        found[f"sweep of {size} points / numpy"] = Pair(
            partial(workloads.seconds, partial(run_sweep, asked)),
            partial(workloads.seconds, partial(workloads.numpy_yardstick, points)),
            rounds,
        )
    found["library / yaml"] = Pair(
        partial(workloads.seconds, workloads.load_library),
        partial(workloads.seconds, partial(workloads.yaml_yardstick, workloads.library_texts())),
        6,
    )
    log = workloads.write_log(scratch / "server.log", 8.0)
    found["log / its lines"] = Pair(
        partial(workloads.seconds, partial(workloads.read_log, log)),
        partial(workloads.seconds, partial(workloads.lines_yardstick, log)),
        6,
    )
    for command, module in (("help", "typer"), ("recommend", "numpy")):
        found[f"{command} / import {module}"] = Pair(
            partial(workloads.process_seconds, command),
            partial(workloads.process_seconds, f"import {module}"),
            8,
        )
    return found


def sizes() -> Numbers:
    """Bytes a point: the same whenever and wherever they are counted."""
    found = {}
    for size in workloads.SWEEPS:
        asked = workloads.question(size)
        found[f"bytes a point of {size}"] = workloads.result_bytes(run_sweep(asked)) / workloads.asked_points(asked)
    return found


def ratio(pair: Pair) -> float:
    """The least of each side over rounds in which they take turns, after one that warms up."""
    pair.specdec()
    pair.yardstick()
    taken = [(pair.specdec(), pair.yardstick()) for _ in range(pair.rounds)]
    return min(ours for ours, _ in taken) / min(theirs for _, theirs in taken)


def worsened(recorded: Mapping[str, float], measured: Mapping[str, float]) -> list[str]:
    """Ratios measured more than 30 % above the recorded ones, and those that nothing is recorded for."""
    return [name for name, value in measured.items() if value > ALLOWED * recorded.get(name, 0.0)]


def measured_again(measure: Callable[[str], float], measured: Numbers, names: Collection[str]) -> Numbers:
    """The numbers with those named measured once more, the lower of the two kept."""
    return {name: min(value, measure(name)) if name in names else value for name, value in measured.items()}


def check(recorded: Mapping[str, float], measure: Callable[[str], float], names: Collection[str]) -> int:
    """Measure, print beside what is recorded, and answer with the exit code."""
    measured = {name: measure(name) for name in names}
    measured = measured_again(measure, measured, worsened(recorded, measured))
    slower = worsened(recorded, measured)
    for name, value in measured.items():
        known = recorded.get(name)
        said = "not recorded" if known is None else f"recorded {known:8.3f}, {100 * (value / known - 1):+.0f} %"
        print(f"{name:28} {value:8.3f}  {said}{'  WORSE' if name in slower else ''}")
    gone = sorted(set(recorded) - set(measured))
    if slower:
        print(f"worse by more than {100 * (ALLOWED - 1):.0f} %: {', '.join(slower)}", file=sys.stderr)
    if gone:
        print(f"recorded, but measured no more: {', '.join(gone)}", file=sys.stderr)
    return int(bool(slower or gone))


def main(arguments: list[str]) -> int:
    """Check, or record."""
    parser = argparse.ArgumentParser(description="Ratios of times against those on record.")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name} anew")
    record = parser.parse_args(arguments).record
    with tempfile.TemporaryDirectory() as scratch:
        timed, counted = pairs(Path(scratch)), sizes()
        names = [*timed, *counted]

        def measure(name: str) -> float:
            return counted[name] if name in counted else ratio(timed[name])

        if record:
            found = {name: round(max(measure(name) for _ in range(3)), 3) for name in names}
            RECORD.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
            print(RECORD.read_text(encoding="utf-8"), end="")
            return 0
        return check(json.loads(RECORD.read_text(encoding="utf-8")), measure, names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
