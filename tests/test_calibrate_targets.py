"""What three runs of one's own buy: published sweeps, calibrated on off, the smallest and the largest draft length.

Every sweep over draft lengths with acceptance, an off row and a length between the smallest and the largest. Ratios of
throughputs stand apart: they hold prefill and queueing, and one source prints them with 3 to 5 % of noise between
neighbouring lengths (Qwen3-235B at batch 8), which no line through its end points follows.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from published_sweeps import Sweep, speed_of, sweeps
from toys import shipped

from specdec_cli.explore.calibrate import Fit, Row, calibrate, predict_s
from specdec_cli.explore.validate_points import PointResult, recreate, scenario_of
from specdec_cli.physics.calibrated import VerifyCurve
from specdec_cli.physics.step import StepModel
from specdec_cli.profiles.measurement import Measurement

EXACT = 1e-9


@dataclass(frozen=True)
class Tried:
    """A sweep, calibrated and beside it a plain straight line through the same three."""

    sweep: Sweep
    rows: tuple[Row, ...]
    fit: Fit
    calibrated_s: np.ndarray
    line_s: np.ndarray

    @property
    def interior(self) -> list[int]:
        """Places of the rows that neither was given."""
        return list(range(2, len(self.rows) - 1))

    def loss(self, steps: np.ndarray) -> float:
        """Measured speed given up by the draft length that these steps rank first."""
        accepted = np.array([row.accepted for row in self.rows])
        measured = accepted / np.array([row.step_s for row in self.rows])
        return float(1.0 - measured[np.argmax(accepted / steps)] / measured.max())

    def errors(self, steps: np.ndarray) -> list[float]:
        measured = np.array([row.step_s for row in self.rows])
        return [float(abs(steps[at] / measured[at] - 1.0)) for at in self.interior]


def step_of(sweep: Sweep) -> StepModel:
    return scenario_of(shipped(), sweep.setup).step


def rows_of(sweep: Sweep) -> tuple[Row, ...]:
    """Off and every draft length. Where only ratios were printed the plain step is the model's own."""
    first = sweep.results[0]
    off = Row(batch=first.batch, draft_length=0, step_s=1.0, context=max(first.context, 1), acceptance_length=1.0)
    printed = next((p.measured.base_step for p in sweep.results if p.measured.base_step is not None), None)
    base = printed or next(
        (p.measured.step / p.measured.rho for p in sweep.results if p.measured.step and p.measured.rho), None
    )
    base = base or float(predict_s(step_of(sweep), [off])[0])
    rows = [Row(batch=off.batch, draft_length=0, step_s=base, context=off.context, acceptance_length=1.0)]
    for point in sweep.results:
        speed, length = speed_of(point), point.acceptance_length
        assert speed is not None
        assert length is not None
        rows.append(
            Row(
                batch=off.batch,
                draft_length=point.draft_length,
                step_s=base * length / speed,
                context=off.context,
                acceptance_length=length,
            )
        )
    return tuple(rows)


@cache
def tried() -> tuple[Tried, ...]:
    found = []
    for sweep in sweeps():
        if sweep.tree or len(sweep.results) < 3:
            continue
        rows = rows_of(sweep)
        three = (rows[0], rows[1], rows[-1])
        fit = calibrate(step_of(sweep), three)
        lengths = [row.draft_length for row in rows]
        line = np.interp(lengths, [row.draft_length for row in three], [row.step_s for row in three])
        found.append(Tried(sweep, rows, fit, predict_s(fit.step, rows), line))
    return tuple(found)


def of_steps() -> list[Tried]:
    return [one for one in tried() if one.sweep.of_steps]


def test_there_is_enough_to_judge_by() -> None:
    assert len(tried()) >= 25
    assert len(of_steps()) >= 12
    assert len({one.sweep.source.name for one in tried()}) >= 6


def test_the_three_runs_are_hit() -> None:
    worst = [float(np.abs(one.fit.fitted_s / one.fit.measured_s - 1.0).max()) for one in tried()]
    assert np.median(worst) < 0.001
    assert max(worst) < 0.02


def test_loss_on_ratios_of_steps() -> None:
    losses = [one.loss(one.calibrated_s) for one in of_steps()]
    assert np.mean(losses) < 0.005
    assert max(losses) < 0.03


def test_loss_on_all() -> None:
    """Worst 4.1 %, the one above 3 %: see the next test; then 2.3 %. The straight line: mean 0.5 %, worst 4.1 %."""
    losses = [one.loss(one.calibrated_s) for one in tried()]
    assert np.mean(losses) < 0.005
    assert max(losses) < 0.045
    assert sum(loss > 0.03 for loss in losses) <= 1


def test_the_worst_loss_is_the_sources_own() -> None:
    """Qwen3-235B on 8 H200, ratios of throughputs of one run each: 1.566, 1.543 and 1.609x at D = 3, 5 and 7.

    With the AL printed beside them a step takes 24.56, 27.92 and 27.90 ms: two more tokens drafted and verified would
    cost nothing. Through off, D = 3 and D = 7 every convex curve has at most 26.23 ms at D = 5 (the chord), chooses D
    = 5 and loses 4.1 %; the share that distinct experts add has 26.55 ms, the calibrated model 26.61. D = 7 is chosen
    from 26.78 ms on. What these steps repeat within: over six sweeps of this machine and model that differ in prompts
    and draft head alone, and so in AL, the step at D = 3 runs from 23.2 to 28.5 ms.
    """
    worst = max(tried(), key=lambda one: one.loss(one.calibrated_s))
    steps = [1e3 * row.step_s for row in worst.rows]
    assert steps == pytest.approx([15.19, 24.56, 27.92, 27.90], abs=0.01)
    assert not worst.sweep.of_steps
    assert worst.loss(worst.line_s) == pytest.approx(0.041, abs=0.001)
    chord = worst.line_s.copy()
    for below in (0.9, 0.95, 1.0):
        assert worst.loss(np.array([*chord[:2], below * chord[2], chord[3]])) == worst.loss(worst.line_s)
    alike = [1e3 * one.rows[1].step_s for one in tried() if one.sweep.setup.model == worst.sweep.setup.model]
    assert len(alike) == 6
    assert (min(alike), max(alike)) == pytest.approx((23.17, 28.51), abs=0.01)


def test_interior_steps_within_five_percent() -> None:
    errors = [error for one in tried() for error in one.errors(one.calibrated_s)]
    assert np.median(errors) < 0.05
    assert np.median(errors) < 0.02  # reached: 1.1 %
    line = [error for one in tried() for error in one.errors(one.line_s)]
    assert np.median(errors) <= np.median(line)


def test_no_sweep_is_worse_off_than_with_a_straight_line() -> None:
    for one in tried():
        assert one.loss(one.calibrated_s) <= one.loss(one.line_s) + EXACT, one.sweep.name


@pytest.mark.parametrize("name", sorted({sweep.source.name for sweep in sweeps()}))
def test_no_source_has_steps_worse_than_a_straight_line_has(name: str) -> None:
    """Median of the interior steps, by source: calibrated against a line.

    imp-rtx-5090 3.95 : 3.97 %, llama.cpp issue 28196 6.46 : 6.45, qwen38 community 2.29 : 2.26, SpecForge 0.76 : 0.70
    (its mean 1.31 : 1.75), vLLM issue 20780 1.42 : 1.42, TensorRT-LLM's blog 1.33 : 1.07. The last is the furthest
    behind, with three steps out of tokens/s printed in whole numbers (0.4 % of 250): there the fit shares its own
    residual of 0.2 % at the given steps between them, where a line goes through all.
    """
    own = [one for one in tried() if one.sweep.source.name == name]
    if own:
        calibrated = np.median([error for one in own for error in one.errors(one.calibrated_s)])
        line = np.median([error for one in own for error in one.errors(one.line_s)])
        assert calibrated <= line + 0.003


def test_profiles_alone_are_far_behind() -> None:
    """What calibrating is for: the same sweeps without it lose more and miss their steps by more."""
    prior = [(one, predict_s(step_of(one.sweep), one.rows)) for one in tried()]
    assert np.mean([one.loss(steps) for one, steps in prior]) > 2 * np.mean(
        [one.loss(one.calibrated_s) for one in tried()]
    )
    missed = [e for one, steps in prior for e in one.errors(steps * one.rows[0].step_s / steps[0])]
    assert np.median(missed) > 2 * np.median([e for one in tried() for e in one.errors(one.calibrated_s)])


# ----------------------------------------------------------------------------------------- curves of a pass

STAIRS = {"mi50-single-repack": [(8, 9), (32, 33)], "mi50x2-tensor-repack": [(8, 9)], "v100-7b-f16-batched": [(1, 2)]}
"""Published curves -> the stairs that their sources speak of, among others."""


def test_published_curves_are_kept_as_they_are(shared_data: Path) -> None:
    curves: dict[str, list[tuple[int, float]]] = {}
    with (shared_data / "verify_curves.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            curves.setdefault(line["curve"], []).append((int(line["n_tokens"]), float(line["value"])))
    assert len(curves) >= 12
    for name, points in curves.items():
        points.sort()
        curve = VerifyCurve(tuple(n for n, _ in points), tuple(v for _, v in points), 0.0)
        assert curve.at(np.array(curve.tokens)) == pytest.approx(curve.seconds), name
        assert set(STAIRS.get(name, [])) <= set(curve.risers()), (name, curve.risers())
        every = curve.at(np.arange(curve.tokens[0], curve.tokens[-1] + 1, dtype=np.float64))
        assert every.min() >= min(curve.seconds)
        assert every.max() <= max(curve.seconds)


# ------------------------------------------------------------------------------------- one batch for the others


def batch_sweeps() -> dict[str, dict[float, list[Row]]]:
    """Setup and context -> batch -> measured steps, plain and speculative; three batches and more."""
    found: dict[str, dict[float, list[Row]]] = {}
    for loaded in shipped().every("measurement")[0]:
        results = recreate(shipped(), loaded.record)
        for setup in loaded.record.setups:
            if setup.fault or setup.input_tokens is not None:
                continue
            for point in (one for one in results if one.setup == setup.id):
                rows = found.setdefault(f"{loaded.record.name}/{setup.id}/{point.context}", {})
                rows.setdefault(point.batch, []).extend(_measured_rows(point))
    known = {key: {b: rows for b, rows in sorted(own.items()) if len(rows) > 1} for key, own in found.items()}
    return {key: own for key, own in known.items() if len(own) >= 3}


def _measured_rows(point: PointResult) -> list[Row]:
    def row(length: int, seconds: float, accepted: float | None) -> Row:
        return Row(
            batch=point.batch,
            draft_length=length,
            step_s=seconds,
            context=max(point.context, 1),
            acceptance_length=accepted,
        )

    figures = point.measured
    rows = [] if figures.base_step is None else [row(0, figures.base_step, 1.0)]
    step = figures.step
    if step is None and figures.rho is not None and figures.base_step is not None:
        step = figures.rho * figures.base_step
    if point.draft_length and step is not None and point.verify_width == point.draft_length + 1:
        rows.append(row(point.draft_length, step, point.acceptance_length))
    return rows


def missed_elsewhere(rows: dict[float, list[Row]], step: StepModel, at: float) -> list[float]:
    """Errors of the steps at the other batches, calibrated at one."""
    fit = calibrate(step, rows[at])
    others: Sequence[Row] = [row for batch, own in rows.items() if batch != at for row in own]
    return [float(e) for e in np.abs(predict_s(fit.step, others) / np.array([r.step_s for r in others]) - 1.0)]


PLACES = {"smallest": 0.0, "middle": 0.5, "largest": 0.999}


@pytest.mark.parametrize("place", PLACES)
def test_one_batch_predicts_the_others(place: str) -> None:
    """Within 10 % in the median (reached: 4 % from the smallest batch, 6 % from the middle one, 9 % from the largest,
    where host times and kernels are told apart least)."""
    errors, medians = [], []
    setups = {(source.name, setup.id): setup for source in _sources() for setup in source.setups}
    for key, rows in batch_sweeps().items():
        name, setup, _ = key.split("/")
        step = scenario_of(shipped(), setups[name, setup]).step
        found = missed_elsewhere(rows, step, sorted(rows)[int(PLACES[place] * len(rows))])
        errors += found
        medians.append(float(np.median(found)))
    assert len(medians) >= 8
    assert np.median(medians) < 0.10
    assert np.median(errors) < 0.10


def _sources() -> list[Measurement]:
    return [loaded.record for loaded in shipped().every("measurement")[0]]
