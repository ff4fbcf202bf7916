"""Bands of step time: which grounds widen them, and where a calibration narrows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import Data, as_record, toy_engine, toy_hardware, toy_model, toy_moe_model
from toys import column, row

from specdec_cli.explore.uncertainty import CalibratedBand, TimeBand, time_band


@pytest.mark.parametrize(
    ("fitted", "sweeps", "model", "expected"),
    [
        (True, 3, toy_model(), 0.08),
        (False, 3, toy_model(), 0.15),
        (True, 2, toy_model(), 0.08 + 0.05),
        (True, 4, toy_moe_model(), 0.08 + 0.06),
        (False, 0, toy_moe_model(), 0.15 + 0.06 + 0.05),
    ],
)
def test_each_ground_for_doubt_adds_its_own(fitted: bool, sweeps: int, model: Data, expected: float) -> None:
    hardware, engine = as_record(toy_hardware(fitted=fitted)), as_record(toy_engine(fitted_sweeps=sweeps))
    assert time_band(hardware, engine, as_record(model)).relative == pytest.approx(expected)


def test_a_band_spans_the_grid() -> None:
    assert TimeBand(0.1).over(column(1, 2, 3), row(0, 1)).tolist() == [[0.1, 0.1]] * 3


def test_a_calibration_holds_to_twice_and_half_its_batches_and_to_its_longest_draft() -> None:
    band = CalibratedBand(0.2, inside=0.03, batches=(4.0, 16.0), longest=2)
    batches, lengths = [1.0, 2.0, 4.0, 32.0, 33.0], [0.0, 2.0, 3.0]
    held = [[2 <= batch <= 32 and length <= 2 for length in lengths] for batch in batches]
    grid: Any = (column(*batches), row(*lengths))
    assert band.holds(*grid).tolist() == held
    assert band.over(*grid) == pytest.approx(np.where(held, 0.03, 0.2))
    assert [band.holds_batch(batch) for batch in batches] == [False, True, True, True, False]
    assert (band.basis(32, 2), band.basis(32, 3)) == ("calibrated", "extrapolated")
    # at another context it holds nowhere, whatever the batch
    elsewhere = replace(band, held=False)
    assert not elsewhere.holds(*grid).any()
    assert [elsewhere.holds_batch(batch) for batch in (32.0, 33.0)] == [True, False]
    assert (band.basis(2, 2), band.basis(2, 3), band.basis(33, 0)) == ("calibrated", "extrapolated", "extrapolated")


def test_another_context_is_beyond_a_calibration_at_every_point() -> None:
    band = CalibratedBand(0.2, inside=0.03, batches=(4.0, 16.0), longest=2, held=False)
    assert band.over(column(4), row(0, 2)) == pytest.approx(0.2)
    assert band.basis(4, 0) == "extrapolated"
    assert band.holds_batch(4)  # it is not the batch that is strange
    assert TimeBand(0.2).basis(4, 0) == "computed"


def test_beyond_what_was_measured_a_calibration_is_trusted_no_more_than_within() -> None:
    band = CalibratedBand(0.2, inside=0.5, batches=(4.0, 16.0), longest=2)
    assert band.over(column(4, 64), row(2, 3)) == pytest.approx(0.5)
