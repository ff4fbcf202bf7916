"""The check that nothing has become slower: what it lets pass, what it refuses, and that it sees a slower program."""

from __future__ import annotations

import json
from functools import partial

import msgspec
import numpy as np
import pytest
from benchmarks import ratios, workloads

from specdec_cli.explore.sweep import run_sweep
from specdec_cli.physics import step

RECORDED = {"sweep": 10.0, "log": 4.0}


@pytest.mark.parametrize(
    ("measured", "worse"),
    [
        ({"sweep": 10.0, "log": 4.0}, []),
        ({"sweep": 12.9, "log": 5.1}, []),  # 29 % and 28 % above
        ({"sweep": 13.1, "log": 1.0}, ["sweep"]),  # 31 %; what has become quicker makes up for nothing
        ({"sweep": 13.1, "log": 5.3}, ["sweep", "log"]),
        ({"sweep": 10.0, "new": 0.1}, ["new"]),  # nothing is known of it: --record
    ],
)
def test_thirty_percent_are_the_limit(measured: dict[str, float], worse: list[str]) -> None:
    assert ratios.worsened(RECORDED, measured) == worse


@pytest.mark.parametrize(
    ("readings", "code"),
    [
        ({"sweep": [10.0], "log": [4.0]}, 0),
        ({"sweep": [14.0, 11.0], "log": [4.0]}, 0),  # a neighbour's moment: the second reading counts
        ({"sweep": [14.0, 15.0], "log": [4.0]}, 1),
        ({"sweep": [10.0]}, 1),  # recorded, and measured no more
    ],
)
def test_only_what_fails_twice_fails_the_check(
    readings: dict[str, list[float]], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    left = {name: list(values) for name, values in readings.items()}
    assert ratios.check(RECORDED, lambda name: left[name].pop(0), list(readings)) == code
    assert not any(left.values())  # each as often as it had to be, and no more
    assert ("WORSE" in capsys.readouterr().out) == (code == 1 and len(readings) == 2)


def test_a_slower_sweep_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass evaluated three times: the ratio itself rises past the limit."""
    asked = workloads.question("1e4")
    pair = ratios.Pair(
        partial(workloads.seconds, partial(run_sweep, asked)),
        partial(workloads.seconds, partial(workloads.numpy_yardstick, workloads.asked_points(asked))),
        10,
    )
    before = ratios.ratio(pair)
    once = step.pass_cost

    def thrice(*arguments: object) -> step.PassTimes:
        once(*arguments)  # type: ignore[arg-type]
        once(*arguments)  # type: ignore[arg-type]
        return once(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(step, "pass_cost", thrice)
    assert ratios.worsened({"sweep": before}, {"sweep": ratios.ratio(pair)}) == ["sweep"]


def test_a_heavier_answer_is_seen() -> None:
    """Less than two hundred bytes a point, its grid with it; a column twice as wide counts."""
    asked = workloads.question("1e4")
    found, points = run_sweep(asked), workloads.asked_points(asked)
    held = workloads.result_bytes(found)
    assert held < 200 * points
    wide = msgspec.structs.replace(found.points, throughput=found.points.throughput.astype(np.complex128))
    assert workloads.result_bytes(msgspec.structs.replace(found, points=wide)) == held + 8 * points


def test_what_is_recorded_is_what_is_measured() -> None:
    recorded = json.loads(ratios.RECORD.read_text(encoding="utf-8"))
    counted = {f"bytes a point of {size}" for size in workloads.SWEEPS}
    timed = {f"sweep of {size} points / numpy" for size in workloads.SWEEPS}
    others = {"library / yaml", "log / its lines", "help / import typer", "recommend / import numpy"}
    assert set(recorded) == counted | timed | others
    assert all(recorded[name] < 200 for name in counted)  # DESIGN: bytes a point
    assert recorded["help / import typer"] < 1.7
    assert recorded["recommend / import numpy"] < 3.0
