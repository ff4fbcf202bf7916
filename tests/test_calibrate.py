"""Calibration on toys whose arithmetic fits in a line: the fit, and the straight lines where it fails."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import toy_drafter, toy_engine, toy_overheads
from calibration_toys import clock, measured_row, ms
from toys import column, row, step_of

from specdec_cli.explore.calibrate import (
    LINE_FROM,
    Row,
    _host_slopes,
    _like,
    _plain_step_s,
    calibrate,
    calibrated,
    lines_through,
    predict_s,
)
from specdec_cli.physics.calibrated import StepCorrection, constants_of
from specdec_cli.profiles.calibration import Constants
from specdec_cli.units import MS

# --------------------------------------------------------------------------------------------- the fit


def test_prior_rows_move_nothing() -> None:
    step = clock()
    rows = [measured_row(1, 0, 10.1), measured_row(4, 2, 10 + 1 + 0.1 * 4 * 3, al=2.0)]
    fit = calibrate(step, rows)
    assert fit.method == "fit"
    assert ms(fit.prior_s) == pytest.approx([10.1, 12.2], rel=1e-3)
    for name in ("memory_scale", "compute_scale", "step_ms", "speculation_ms"):
        assert getattr(fit.fitted, name) == pytest.approx(getattr(fit.prior, name), rel=2e-3)


@pytest.mark.parametrize("overheads", [{"draft_pass_ms": 0.7}, {"draft_pass_ms_by_mechanism": {"eagle3": 0.7}}])
def test_rows_as_predicted_leave_every_constant_where_it_was(overheads: dict[str, Any]) -> None:
    engine = toy_engine(overheads=toy_overheads(step_ms=0.3, speculation_ms=0.2, per_request_us=9.0, **overheads))
    step = step_of(drafter=toy_drafter(), engine=engine)
    shapes = [measured_row(b, d, 1.0, al=1 + d / 2) for b, d in ((1, 0), (1, 1), (1, 4), (16, 0))]
    rows = [replace(one, step_s=float(s)) for one, s in zip(shapes, predict_s(step, shapes), strict=True)]
    found = calibrate(step, rows).fitted
    expected = Constants(step_ms=0.3, per_request_us=9.0, speculation_ms=0.2, draft_pass_ms=0.7)
    for name in expected.__struct_fields__:
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-6), name


def test_the_unit_of_times_is_the_plain_step_of_one_request() -> None:
    # computed: 10.1 ms for one request, 10.4 for four, 11 + 0.3 at D = 2; measured twice that, and three times
    step = clock()
    four_off, drafting = measured_row(4, 0, 20.8), measured_row(1, 2, 33.9, al=2)
    assert _plain_step_s(step, [drafting, four_off]) == pytest.approx(20.2 * MS, rel=1e-3)
    assert _plain_step_s(step, [drafting]) == pytest.approx(30.3 * MS, rel=1e-3)


def test_one_row_helps_everywhere() -> None:
    """A plain step 20 % above the prior is taken over, and the other batches rise with it."""
    step = clock()
    fit = calibrate(step, [measured_row(1, 0, 12.12)])
    assert ms(fit.fitted_s) == pytest.approx([12.12], rel=1e-3)
    assert fit.left_out_s is None
    assert fit.fitted.step_ms > fit.prior.step_ms + 1.5
    before, after = (predict_s(one, [measured_row(8, 2, 1.0, al=2.0)])[0] for one in (step, fit.step))
    assert after > 1.1 * before


def test_a_fee_shows_in_speculative_steps_alone() -> None:
    """Off as predicted, D = 1 and D = 4 each 3 ms late: the entry fee took 3 ms more, 1 -> 4."""
    step = clock()
    rows = [measured_row(1, 0, 10.1), measured_row(1, 1, 11.2 + 3, al=1.5), measured_row(1, 4, 11.5 + 3, al=2.0)]
    fit = calibrate(step, rows)
    assert fit.fitted.speculation_ms == pytest.approx(4.0, abs=0.05)
    assert fit.fitted.step_ms == pytest.approx(10.0, abs=0.05)
    assert ms(fit.fitted_s) == pytest.approx([10.1, 14.2, 14.5], rel=2e-3)


def test_a_host_that_grows_with_the_batch_is_found() -> None:
    """Each request 500 us: off at 1, 16 and 64 requests takes 10.6, 19.6 and 48.4 ms instead of 10.1, 11.6, 16.4."""
    step = clock()
    rows = [measured_row(b, 0, 10 + 0.1 * b + 0.5 * b) for b in (1, 16, 64)]
    fit = calibrate(step, rows)
    grown = fit.fitted.per_request_us + 100 * fit.fitted.compute_scale  # c = 100 us a token, which the scale may take
    assert grown == pytest.approx(600, rel=0.01)
    assert ms(fit.fitted_s) == pytest.approx([10.6, 19.6, 48.4], rel=0.01)


def test_constants_never_fall_below_nothing() -> None:
    """Off as predicted, drafting free of its fee and more: the fee ends at 0, not below."""
    step = clock()
    fit = calibrate(step, [measured_row(1, 0, 10.1), measured_row(1, 1, 10.12, al=1.5)])
    assert fit.fitted.speculation_ms >= 0.0
    assert fit.fitted.speculation_ms < 0.1
    assert min(fit.fitted.step_ms, fit.fitted.per_request_us, fit.fitted.draft_pass_ms) >= 0.0


def test_memory_side_is_scaled_where_the_bytes_take_the_time() -> None:
    """Bandwidth halved: 3.1 ms of weights take 6.2; no host, so that nothing else can have done it."""
    step = step_of()
    # B = 1: 3.1 + 0.31; B = 8: 3.1 + 2.48. Memory side doubled: + 3.1 each.
    at = [measured_row(b, 0, 1.0) for b in (1, 8)]
    prior = ms(predict_s(step, at))
    rows = [replace(one, step_s=(p + 3.1) * MS) for one, p in zip(at, prior, strict=True)]
    fit = calibrate(step, rows)
    assert ms(fit.fitted_s) == pytest.approx([p + 3.1 for p in prior], rel=0.01)
    assert fit.fitted.memory_scale > 1.3


def test_leaving_a_row_out_predicts_it_from_the_others() -> None:
    step = clock()
    rows = [measured_row(1, 0, 10.1), measured_row(1, 1, 14.2, al=1.5), measured_row(1, 4, 14.5, al=2.0)]
    fit = calibrate(step, rows)
    assert fit.left_out_s is not None
    # Without D = 4 the fee is known from D = 1, so D = 4 is predicted well; without both nothing would know it.
    assert float(fit.left_out_s[2]) == pytest.approx(14.5 * MS, rel=0.02)
    alone = predict_s(calibrate(step, rows[:2]).step, [rows[2]])[0]
    assert float(fit.left_out_s[2]) == pytest.approx(float(alone))


def test_a_tree_is_fitted_with_a_trees_constants() -> None:
    overheads = toy_overheads(step_ms=10.0, speculation_ms=1.0, tree_speculation_ms=2.0, draft_pass_ms=0.5)
    step = step_of(drafter=toy_drafter(), engine=toy_engine(overheads=overheads))
    wide = [measured_row(1, 0, 14), measured_row(1, 2, 20, al=2.0, width=8)]
    fit = calibrate(step, wide)
    assert fit.trees
    assert fit.prior.speculation_ms == 2.0
    moved = fit.fitted.speculation_ms - 2.0
    changed = fit.step.overheads
    assert changed.tree_speculation_ms == pytest.approx(fit.fitted.speculation_ms)
    assert changed.speculation_ms == pytest.approx(max(0.0, 1.0 + moved))
    chain = calibrate(step, [measured_row(1, 0, 14), measured_row(1, 2, 20, al=2.0)])
    assert not chain.trees
    assert chain.prior.speculation_ms == 1.0


def test_a_pass_that_is_a_share_of_the_target_stays_one() -> None:
    overheads = toy_overheads(step_ms=10.0, draft_pass_target_fraction=0.1)
    step = step_of(drafter=toy_drafter(), engine=toy_engine(overheads=overheads))
    rows = [measured_row(1, d, t, al=1.0 + d / 2) for d, t in ((0, 13.41), (1, 20.0), (4, 38.0))]
    fit = calibrate(step, rows)
    assert fit.fitted.draft_pass_ms == 0.0
    assert fit.fitted.draft_pass_target_fraction > 0.2


@pytest.mark.parametrize("fraction", [0.0, 0.1])
def test_slopes_of_host_times_are_what_a_small_change_does(fraction: float) -> None:
    overheads = {"step_ms": 2.0, "per_request_us": 10.0, "speculation_ms": 1.0, "draft_pass_ms": 0.5}
    engine = toy_engine(overheads=toy_overheads(**overheads, draft_pass_target_fraction=fraction))
    step = step_of(drafter=toy_drafter(), engine=engine)
    rows = [measured_row(b, d, 1.0, al=1 + d / 2) for b, d in ((1, 0), (1, 3), (16, 0), (16, 2))]
    own = constants_of(step.overheads, "eagle3", trees=False)
    plain = step.times(
        column(1, 1, 16, 16), column(0, 3, 0, 2), column(1, 4, 1, 3), column(1, 2.5, 1, 2), np.asarray(1.0)
    )
    slopes = _host_slopes(step, rows, plain.target_s[:, 0], fraction > 0)
    last = "draft_pass_target_fraction" if fraction else "draft_pass_ms"
    for place, name in enumerate(("step_ms", "per_request_us", "speculation_ms", last)):
        moved = msgspec.structs.replace(own, **{name: getattr(own, name) + 0.01})
        change = predict_s(calibrated(step, moved, trees=False), rows) - predict_s(
            calibrated(step, own, trees=False), rows
        )
        assert slopes[:, place] == pytest.approx(change / 0.01, rel=1e-6, abs=1e-12)


def test_many_rows_are_left_out_in_turns() -> None:
    step = clock()
    rows = [measured_row(b, 0, 10.0 + 0.1 * b) for b in range(1, 41)]
    fit = calibrate(step, rows)
    assert fit.left_out_s is not None
    assert fit.left_out_s == pytest.approx(fit.measured_s, rel=2e-3)


# -------------------------------------------------------------------------------------- straight lines


def stair_rows() -> list[Row]:
    """A step that falls by half and doubles, which no constant makes."""
    return [
        measured_row(1, 0, 10),
        measured_row(1, 1, 30, al=1.5),
        measured_row(1, 2, 12, al=1.8),
        measured_row(1, 4, 40, al=2),
    ]


def test_where_constants_fail_the_line_is_followed() -> None:
    fit = calibrate(clock(), stair_rows())
    assert fit.method == "line"
    assert np.abs(fit.constants_s / fit.measured_s - 1).max() > LINE_FROM
    assert ms(fit.fitted_s) == pytest.approx([10, 30, 12, 40])
    between = predict_s(fit.step, [measured_row(1, 3, 1.0, al=1.9)])[0]
    assert between == pytest.approx(26 * MS)  # half way from 12 to 40


def test_parts_of_a_corrected_step_add_up_and_off_is_plain_decoding() -> None:
    step = calibrate(clock(lookup_ms=1.0), stair_rows()).step
    times = step.times(column(1), row(0, 1, 2, 4), row(1, 2, 3, 5), row(1, 1.5, 1.8, 2), np.asarray(1.0))
    assert ms(times.step_s[0]) == pytest.approx([10, 30, 12, 40])
    assert np.all(times.verify_s >= times.target_s - 1e-12)
    assert times.draft_s[0, 0] == 0
    assert times.verify_s[0, 0] == times.target_s[0, 0]
    assert ms(times.target_s[0]) == pytest.approx([10] * 4)
    # what bounds the step is scaled as the step is
    computed = replace(step, correction=None).times(column(1), row(0, 2), row(1, 3), row(1, 1.8), np.asarray(1.0))
    scaled = step.times(column(1), row(0, 2), row(1, 3), row(1, 1.8), np.asarray(1.0))
    factors = [10.0, 12.0] / np.array(ms(computed.step_s[0]))
    for part in ("compute_s", "memory_s", "fixed_s"):
        assert getattr(scaled, part)[0] == pytest.approx(getattr(computed, part)[0] * factors), part


def test_lines_of_two_batches() -> None:
    step = clock()
    rows = [
        measured_row(1, 0, 20.2),
        measured_row(1, 2, 22.6, al=2),
        measured_row(4, 0, 41.6),
        measured_row(4, 2, 48.8, al=2),
    ]
    # Computed: 10.1, 11.3 at batch 1; 10.4, 12.2 at batch 4: factors 2 and 4.
    correction = lines_through(step, rows)
    assert correction.factors[1.0] == pytest.approx((2.0, 21.4 / 11.2, 2.0), rel=1e-3)
    assert correction.factors[4.0] == pytest.approx((4.0, 45.2 / 11.8, 4.0), rel=1e-3)
    at_two = correction.at(column(2), row(0, 2))
    assert at_two[0] == pytest.approx([math.sqrt(8)] * 2, rel=1e-3)  # half way on the logarithm


def test_past_what_a_batch_was_measured_at_its_last_factor_holds() -> None:
    # computed at batch 1: 10.1, 11.2, 11.3; at 4: 10.4, 11.8, 12.2; at 8: 10.8, 12.6, 13.4
    rows = [
        *(measured_row(1, d, t, al=1 + d / 2) for d, t in ((0, 10.1), (2, 11.3))),
        *(measured_row(4, d, t, al=1 + d / 2) for d, t in ((0, 20.8), (1, 35.4))),
        measured_row(8, 1, 50.4, al=1.5),
    ]
    factors = lines_through(clock(), rows).factors
    assert factors[4.0] == pytest.approx((2.0, 3.0, 3.0), rel=1e-3)
    assert factors[8.0] == pytest.approx((4.0, 4.0, 4.0), rel=1e-3)


def test_a_row_between_two_measured_ones() -> None:
    # D = 2 half way from off to D = 4 with a tree of 9 nodes (4 more than a chain), AL 3, at 500 tokens
    rows = [measured_row(1, 0, 10, context=100), measured_row(1, 4, 20, al=3.0, width=9, context=500)]
    found = _like(rows, 2)
    assert (found.draft_length, found.width, found.accepted, found.context) == (2, 3 + 2, 2.0, 300)
    assert _like(rows, 4) is rows[1]
    # before the first measured length no more than all is accepted
    assert _like([measured_row(1, 3, 20, al=3.5)], 1).accepted == 2.0
    assert _like([measured_row(1, 3, 20, al=3.5, width=9)], 0).width == 1


def test_a_correction_holds_at_its_ends_beyond_them() -> None:
    correction = StepCorrection({2.0: (1.0, 1.5), 8.0: (1.0, 6.0)})
    found = correction.at(column(1, 2, 4, 8, 64), row(0, 1, 7))
    assert found[:, 0] == pytest.approx([1.0] * 5)
    assert found[:, 1] == pytest.approx([1.5, 1.5, 3.0, 6.0, 6.0])  # 4 is half way from 2 to 8: sqrt(1.5 x 6) = 3
    assert found[:, 2] == pytest.approx(found[:, 1])


def test_between_measured_batches_the_factor_runs_along_the_logarithm() -> None:
    # batch 1 was measured to D = 1, 4 to D = 2: the last factor holds. 2 lies half way from 1 to 4, 8 from 4 to 16.
    correction = StepCorrection({1.0: (1.0, 2.0), 4.0: (1.0, 8.0, 16.0), 16.0: (1.0, 32.0, 64.0, 256.0)})
    found = correction.at(column(0, 1, 2, 8), row(1, 2, 3))
    root = math.sqrt
    assert found[:2].tolist() == pytest.approx(np.full((2, 3), 2.0))
    assert found[2:] == pytest.approx(np.array([[root(16), root(32), root(32)], [root(256), root(1024), root(4096)]]))
    # a mean of fewer than one running request is a batch too: 1 lies half way from 1/2 to 2
    assert float(StepCorrection({0.5: (1.0,), 2.0: (4.0,)}).at(column(0.5), row(0))[0, 0]) == pytest.approx(1.0)
