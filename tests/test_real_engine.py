"""A real engine end to end, on this CPU: llama.cpp decodes with a draft model, its own logs and counters are read,
and the steps that were not given are predicted. Opt-in: it takes minutes and one core.

    python -m venv engine && engine/bin/pip install xllamacpp gguf
    SPECDEC_REAL_ENGINE=engine/bin/python pytest tests/test_real_engine.py -s

SPECDEC_REAL_ENGINE names the Python that has the engine, or is 1 for this one; SPECDEC_REAL_ENGINE_FIFO=1 gives the
engine real-time priority where that is allowed, for a machine that does other things too; SPECDEC_REAL_ENGINE_OUT=DIR
keeps what the engine wrote.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import REPO
from real_engine.journey import DRAFT_LENGTHS, GIVEN, Point, journey, table

ASKED = os.environ.get("SPECDEC_REAL_ENGINE", "")
PYTHON = sys.executable if ASKED == "1" else ASKED
FIFO = bool(os.environ.get("SPECDEC_REAL_ENGINE_FIFO"))
if not ASKED:
    pytest.skip("a real engine runs only where SPECDEC_REAL_ENGINE names its Python", allow_module_level=True)
if subprocess.run([PYTHON, "-c", "import gguf, xllamacpp"], capture_output=True, check=False).returncode:
    pytest.skip(f"{PYTHON} has no xllamacpp and gguf", allow_module_level=True)

STORES = ("f32", "q8_0")
"""Where verified tokens partly ride along with the weights, and where they do not."""


def specdec(arguments: Sequence[str]) -> str:
    """The command line, in a process of its own as a user has it."""
    command = [sys.executable, "-m", "specdec_cli", *arguments]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module", params=STORES)
def points(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    """What was measured and predicted at each draft length."""
    kept = os.environ.get("SPECDEC_REAL_ENGINE_OUT")
    folder = Path(kept).resolve() / request.param if kept else tmp_path_factory.mktemp(request.param)
    found = journey(PYTHON, folder, request.param, specdec, fifo=FIFO)
    print(f"\n{request.param}\n{table(found)}")
    return found


def test_drafts_are_accepted_sometimes(points: list[Point]) -> None:
    # Else the rest would say nothing: a draft model that is always right, or never.
    deepest = points[-1]
    assert 2.0 < deepest.counted < deepest.draft_length


def test_acceptance_is_what_the_engine_counted(points: list[Point]) -> None:
    assert [point.draft_length for point in points] == list(DRAFT_LENGTHS)
    for point in points:
        # The engine counts rounds with drafts; a request's last round may go without.
        assert point.acceptance_length == pytest.approx(point.counted, rel=0.03)


def test_three_runs_predict_the_others(points: list[Point]) -> None:
    errors = {point.draft_length: abs(point.calibrated_ms / point.measured_ms - 1) for point in points}
    assert max(errors[length] for length in GIVEN) < 0.05
    inside = [error for length, error in errors.items() if length not in GIVEN]
    # Kernels have steps between tile sizes that three runs cannot show: over three runs 4.8 to 6 % off in the median,
    # 17 % at worst.
    assert statistics.median(inside) < 0.15
    assert max(inside) < 0.30


def test_the_targets_own_passes_show_the_stairs(points: list[Point]) -> None:
    """Three runs and the passes: 3.3 % off in the median of both stores, 7 % at worst, three runs alone 4.8."""
    inside = [abs(point.curve_ms / point.measured_ms - 1) for point in points if point.draft_length not in GIVEN]
    assert statistics.median(inside) < 0.10
    assert max(inside) < 0.20


def test_the_choice_made_of_predictions_is_nearly_the_best_measured(points: list[Point]) -> None:
    chosen = max(points, key=lambda point: point.speed(point.calibrated_ms))
    best = max(point.speed(point.measured_ms) for point in points)
    # Lost by the stairs between tiles: 7 and 8 % in f32, 0 in q8_0, where off is best and chosen.
    assert chosen.speed(chosen.measured_ms) > 0.85 * best


def test_calibration_comes_nearer_than_the_profiles(points: list[Point]) -> None:
    def missed(by: str) -> float:
        return statistics.fmean(abs(getattr(point, by) / point.measured_ms - 1) for point in points)

    assert missed("calibrated_ms") < missed("prior_ms")
