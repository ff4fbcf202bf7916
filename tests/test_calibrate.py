"""Calibration on toys whose arithmetic fits in a line: the fit, the lines, the curve, the hints, and their use."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import (
    as_record,
    toy_calibration,
    toy_drafter,
    toy_engine,
    toy_hardware,
    toy_kernels,
    toy_model,
    toy_overheads,
    write_yaml,
)
from hypothesis import given
from hypothesis import strategies as st
from toys import clockwork, column, row, shipped, step_of, toy_library, toy_options

from specdec_cli.errors import ProfileError, UsageError
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
from specdec_cli.explore.calibrate_hints import hints, plain_split
from specdec_cli.explore.calibrate_report import band_of, calibration_profile, report_calibration
from specdec_cli.explore.calibrate_rows import measured, off_files, with_draft_lengths
from specdec_cli.explore.calibration_use import LEAST_BAND, correction_of, curve_of
from specdec_cli.explore.device_words import device_words
from specdec_cli.explore.grid import evaluate
from specdec_cli.explore.least_squares import bounded_least_squares
from specdec_cli.explore.run_checks import CheckOptions
from specdec_cli.explore.scenario import Question, Scenario, resolve
from specdec_cli.physics.calibrated import (
    StepCorrection,
    VerifyCurve,
    constants_of,
    scaled_kernels,
    with_host_constants,
)
from specdec_cli.physics.step import StepModel
from specdec_cli.profiles.calibration import Constants
from specdec_cli.profiles.load import load_file
from specdec_cli.profiles.measured_run import MeasuredRun, RunFile
from specdec_cli.profiles.schema import KernelSet, Overheads
from specdec_cli.profiles.writer import to_yaml
from specdec_cli.units import MS

# Toy model, one token of context: weights 165e6 x 2 bytes; the embedding (20e6 bytes) is not read: 310e6 bytes take
# 3.1 ms at 1e11 B/s, a token's 310e6 FLOP 0.31 ms at 1e12 FLOP/s. Parts add up (exponent 1).


def measured_row(
    batch: float, length: int, step_ms: float, *, al: float | None = None, context: float = 1, width: int | None = None
) -> Row:
    accepted = 1.0 if length == 0 else al
    return Row(
        batch=batch,
        draft_length=length,
        step_s=step_ms * MS,
        context=context,
        acceptance_length=accepted,
        verify_width=width,
    )


def clock(
    *, host_ms: float = 10.0, fee_ms: float = 1.0, lookup_ms: float = 0.0, per_token_ms: float = 0.1
) -> StepModel:
    """T_target(B) = host + c B; T_step(B, D) = host + fee + look-up + c B (1 + D)."""
    hardware, engine = clockwork(host_ms=host_ms, fee_ms=fee_ms, lookup_ms=lookup_ms, per_token_ms=per_token_ms)
    return step_of(drafter=toy_drafter("toy-ngram", "ngram"), hardware=hardware, engine=engine)


def ms(values: Any) -> list[float]:
    return [float(value) / MS for value in values]


# ---------------------------------------------------------------------------------------- bounded least squares


def test_without_a_bound_in_the_way_it_is_least_squares() -> None:
    # x + y = 3, x - y = 1: x = 2, y = 1.
    found = bounded_least_squares(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([3.0, 1.0]), np.zeros(2))
    assert found == pytest.approx([2.0, 1.0])


def test_a_bound_holds_and_the_rest_makes_the_best_of_it() -> None:
    # x + y = 1, x - y = 3 would want y = -1; at y = 0 the best x is the mean of 1 and 3.
    found = bounded_least_squares(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([1.0, 3.0]), np.zeros(2))
    assert found == pytest.approx([2.0, 0.0])


def test_bounds_other_than_zero() -> None:
    found = bounded_least_squares(np.eye(2), np.array([5.0, 1.0]), np.array([0.0, 2.0]))
    assert found == pytest.approx([5.0, 2.0])


@given(
    st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=3, max_size=6),
    st.lists(st.floats(-5, 5), min_size=6, max_size=6),
)
def test_no_step_from_the_answer_does_better(rows: list[list[float]], wanted: list[float]) -> None:
    """Karush-Kuhn-Tucker: the gradient vanishes where an unknown is free and points inward where it is at its bound."""
    matrix = np.vstack([np.array(rows), np.eye(3) * 0.1])  # full rank, as the ridge makes it
    right = np.array((wanted * 2)[: len(matrix)])
    found = bounded_least_squares(matrix, right, np.zeros(3))
    gradient = matrix.T @ (matrix @ found - right)
    assert np.all(found >= 0)
    assert np.all(gradient > -1e-6)
    assert np.all(np.abs(gradient[found > 1e-9]) < 1e-6)


# ----------------------------------------------------------------------------------------------------- the fit


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


# --------------------------------------------------------------------------------------------- straight lines


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


# ------------------------------------------------------------------------------------------- the verify curve

MI50 = VerifyCurve((1, 2, 4, 8, 9, 16), (31.0, 36.2, 42.3, 68.7, 110.0, 115.6), 0.0)
"""Two MI50 (github mxxm-t/mx-llama.cpp issue 10): flat, then a stair at nine tokens; its last two points made up."""


def test_a_curve_is_interpolated_on_a_tread_alone() -> None:
    tokens = np.array([1.0, 2.0, 6.0, 8.0, 9.0, 12.0, 16.0])
    # 6 lies half way from 4 to 8: (42.3 + 68.7)/2; 12 at 3/7 of the tread from 9 to 16.
    assert MI50.at(tokens) == pytest.approx([31.0, 36.2, 55.5, 68.7, 110.0, 112.4, 115.6])
    assert MI50.risers() == [(8, 9)]


def test_as_much_longer_as_there_are_more_tokens_is_a_tread() -> None:
    proportional = VerifyCurve((1, 2, 4, 12), (0.1, 0.2, 0.4, 1.2), 0.0)
    assert proportional.at(np.array([3.0, 8.0])) == pytest.approx([0.3, 0.8])
    assert proportional.risers() == []
    # a stair right after the first width leaves that width where it was measured
    assert VerifyCurve((1, 2), (10.0, 30.0), 0.0).at(np.array([1.0, 1.5])) == pytest.approx([10.0, 30.0])


def test_between_two_stairs_the_upper_one_counts() -> None:
    """From 4 to 16 tokens 10 becomes 60 ms: more than fourfold, so a riser stands somewhere between."""
    curve = VerifyCurve((1, 4, 16), (9.0, 10.0, 60.0), 0.0)
    assert curve.at(np.array([4.0, 5.0, 15.0, 16.0])) == pytest.approx([10.0, 60.0, 60.0, 60.0])


def test_the_target_pass_follows_the_curve_at_any_batch() -> None:
    host = 2.0
    step = step_of(drafter=toy_drafter("toy-ngram", "ngram"), engine=toy_engine(overheads=toy_overheads(step_ms=host)))
    curved = replace(step, curve=VerifyCurve(MI50.tokens, tuple(s * MS for s in MI50.seconds), 0.0))
    times = curved.times(column(1, 2, 4), row(0, 1, 3), row(1, 2, 4), row(1, 1.5, 2), np.asarray(1.0))
    # Tokens: 1, 2, 4; 2, 4, 8; 4, 8, 16.
    wanted = [[31.0, 36.2, 42.3], [36.2, 42.3, 68.7], [42.3, 68.7, 115.6]]
    assert times.verify_s / MS - host == pytest.approx(np.array(wanted), rel=2e-4)  # a token of KV a request more
    assert times.target_s[:, 0] / MS - host == pytest.approx([31.0, 36.2, 42.3], rel=2e-4)


def test_a_measured_pass_over_more_tokens_takes_no_less_than_a_plain_one() -> None:
    """Measured passes scatter: 29 ms for two tokens after 30 for one."""
    step = replace(step_of(drafter=toy_drafter("toy-ngram", "ngram")), curve=VerifyCurve((1, 2), (0.030, 0.029), 0.0))
    times = step.times(column(1), row(0, 1), row(1, 2), row(1, 1.5), np.asarray(1.0))
    assert ms(times.verify_s[0]) == pytest.approx([30.0, 30.0], rel=1e-3)


def test_past_its_end_a_curve_scales_the_computed_pass() -> None:
    step = step_of()
    alone = step.target_pass(step.shape(np.ones(()), np.array([1.0, 16.0]), np.zeros(()))).seconds
    assert ms(alone) == pytest.approx([3.41, 8.06], rel=0.02)  # 3.1 + 0.31 n, and the activations
    curved = replace(step, curve=VerifyCurve((1, 16), (2 * float(alone[0]), 2 * float(alone[1])), 0.0))
    plain, seen = (
        one.times(column(64), row(0), row(1), row(1), np.asarray(1.0)).target_s[0, 0] for one in (step, curved)
    )
    assert seen == pytest.approx(2 * plain, rel=1e-3)


def test_beside_a_curve_the_kernels_keep_their_scale() -> None:
    step = step_of(engine=toy_engine(overheads=toy_overheads(step_ms=1.0)))
    curve = VerifyCurve((1, 8), (20 * MS, 40 * MS), 0.0)
    fit = calibrate(step, [measured_row(1, 0, 23.0)], curve)
    assert fit.method == "curve"
    assert (fit.fitted.memory_scale, fit.fitted.compute_scale) == pytest.approx((1.0, 1.0), abs=1e-6)
    assert fit.fitted.step_ms > 2.0
    assert ms(fit.fitted_s) == pytest.approx([23.0], rel=0.01)
    # a row left out is predicted beside the curve too
    rows = [measured_row(1, 0, 23.0), measured_row(8, 0, 43.0)]
    alone = predict_s(calibrate(step, rows[:1], curve).step, rows[1:])
    assert calibrate(step, rows, curve).left_out_s[1] == pytest.approx(float(alone[0]))  # type: ignore[index]


# --------------------------------------------------------------------------------------- scales and constants


def test_kernels_slow_down_side_by_side() -> None:
    kernels: KernelSet = msgspec.convert(toy_kernels(indexer={"floor_us": 1.0, "eta_m": 0.8}), KernelSet)
    slower = scaled_kernels(kernels, 2.0, 4.0)
    assert (slower.gemm["bf16"].eta_m, slower.gemm["bf16"].eta_c) == (0.5, 0.25)
    assert slower.gemm["bf16"].eta_q is None
    assert slower.gemm["fp8"].eta_q == 0.5
    assert (slower.attention["bf16"].eta_m, slower.mla["bf16"].eta_c) == (0.5, 0.25)
    assert (slower.moe["bf16"].eta_a, slower.moe["bf16"].eta_c) == (0.5, 0.25)
    assert slower.linear_attention is not None
    assert slower.indexer is not None
    assert (slower.linear_attention.eta_m, slower.indexer.eta_m) == (0.5, 0.4)
    assert slower.all_reduce == kernels.all_reduce
    assert scaled_kernels(kernels, 1.0, 1.0) == kernels
    bare = msgspec.structs.replace(kernels, linear_attention=None, indexer=None)
    assert (scaled_kernels(bare, 2.0, 4.0).linear_attention, scaled_kernels(bare, 2.0, 4.0).indexer) == (None, None)


def overheads_of(**changes: Any) -> Overheads:
    return msgspec.convert(toy_overheads(**changes), Overheads)


def test_serving_steps_move_by_as_much() -> None:
    own = overheads_of(step_ms=1.0, serving_step_ms=1.5, per_request_us=20.0, serving_per_request_us=30.0)
    fitted = Constants(step_ms=3.0, per_request_us=15.0, speculation_ms=0.0, draft_pass_ms=0.0)
    changed = with_host_constants(own, fitted, trees=False, drafts=True)
    assert (changed.step_ms, changed.serving_step_ms) == (3.0, 3.5)
    assert (changed.per_request_us, changed.serving_per_request_us) == (15.0, 25.0)
    assert overheads_of(step_ms=1.0).serving_per_request_us is None


@pytest.mark.parametrize(
    ("trees", "fitted", "chain", "tree"),
    [
        # (entry, pass) in ms; the profile says 1 and 0.5 for chains, 2.5 and 0.8 for trees
        (False, (3.0, 0.6), (3.0, 0.6), (2.5 + 2.0, 0.8 + 0.1)),
        (True, (3.0, 0.6), (1.0 + 0.5, 0.5 - 0.2), (3.0, 0.6)),
        (False, (0.0, 0.0), (0.0, 0.0), (1.5, 0.3)),
        (True, (0.2, 0.1), (0.0, 0.0), (0.2, 0.1)),  # 1 - 2.3 and 0.5 - 0.7: nothing is as little as it gets
    ],
)
def test_what_was_not_measured_moves_by_as_much(
    trees: bool, fitted: tuple[float, float], chain: tuple[float, float], tree: tuple[float, float]
) -> None:
    own = overheads_of(speculation_ms=1.0, draft_pass_ms=0.5, tree_speculation_ms=2.5, tree_draft_pass_ms=0.8)
    constants = Constants(step_ms=0.0, per_request_us=0.0, speculation_ms=fitted[0], draft_pass_ms=fitted[1])
    found = with_host_constants(own, constants, trees=trees, drafts=True)
    assert (found.speculation_ms, found.draft_pass_ms) == pytest.approx(chain)
    assert (found.tree_speculation_ms, found.tree_draft_pass_ms) == pytest.approx(tree)


def test_no_constant_falls_below_nothing_with_the_others() -> None:
    chain = overheads_of(speculation_ms=1.0, draft_pass_ms=0.5, tree_speculation_ms=0.7, tree_draft_pass_ms=0.2)
    free = Constants(step_ms=0.0, per_request_us=0.0, speculation_ms=0.0, draft_pass_ms=0.0)
    found = with_host_constants(chain, free, trees=False, drafts=True)
    assert (found.tree_speculation_ms, found.tree_draft_pass_ms) == (0.0, 0.0)
    served = overheads_of(step_ms=5.0, serving_step_ms=2.0, per_request_us=30.0, serving_per_request_us=20.0)
    found = with_host_constants(served, free, trees=False, drafts=True)
    assert (found.serving_step_ms, found.serving_per_request_us) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("tree", "expected"), [({}, (1.0, 0.7)), ({"tree_speculation_ms": 2.5, "tree_draft_pass_ms": 0.8}, (2.5, 0.8))]
)
def test_a_tree_has_the_chains_constants_where_it_has_none_of_its_own(
    tree: dict[str, float], expected: tuple[float, float]
) -> None:
    own = overheads_of(speculation_ms=1.0, draft_pass_ms=0.5, draft_pass_ms_by_mechanism={"eagle3": 0.7}, **tree)
    found = constants_of(own, "eagle3", trees=True)
    assert (found.speculation_ms, found.draft_pass_ms) == expected
    chain = constants_of(own, "eagle3", trees=False)
    assert (chain.speculation_ms, chain.draft_pass_ms) == (1.0, 0.7)


def test_another_drafter_keeps_its_own_fee() -> None:
    own = overheads_of(step_ms=1.0, speculation_ms=0.5, draft_pass_ms=0.2, draft_pass_ms_by_mechanism={"mtp": 0.7})
    fitted = Constants(step_ms=3.0, per_request_us=0.0, speculation_ms=2.0, draft_pass_ms=0.9)
    same = with_host_constants(own, fitted, trees=False, drafts=True)
    other = with_host_constants(own, fitted, trees=False, drafts=False)
    assert (same.speculation_ms, same.draft_pass_ms, same.draft_pass_ms_by_mechanism) == (2.0, 0.9, {})
    assert (other.speculation_ms, other.draft_pass_ms) == (0.5, 0.2)
    assert other.draft_pass_ms_by_mechanism == {"mtp": 0.7}
    assert (same.step_ms, other.step_ms) == (3.0, 3.0)
    assert constants_of(own, "mtp", trees=False).draft_pass_ms == 0.7


def test_another_drafter_is_corrected_as_the_plain_step_is() -> None:
    correction = StepCorrection({1.0: (2.0, 5.0, 9.0)})
    fitted = constants_of(clock().overheads, "ngram", trees=False)
    step = calibrated(clock(), fitted, trees=False, drafts=False, correction=correction)
    assert step.correction is not None
    assert step.correction.factors == {1.0: (2.0,)}


# --------------------------------------------------------------------------------------------- runs into rows


def run_of(**changes: Any) -> MeasuredRun:
    facts = {
        "file": "x.log",
        "format": "toy",
        "batch": 4.0,
        "draft_length": 2,
        "acceptance_length": 2.0,
        "step_s": 0.012,
    }
    return MeasuredRun(**{**facts, **changes})


def files_of(*runs: MeasuredRun) -> list[RunFile]:
    return [RunFile("x.log", "toy", runs)]


def rows_from(*runs: MeasuredRun, batch: float | None = None) -> Any:
    return measured(files_of(*runs), CheckOptions(), batch=batch, context=512.0)


def test_rows_take_what_the_runs_say() -> None:
    (found,) = rows_from(run_of(context_tokens=700.0)).rows
    assert (found.batch, found.draft_length, found.step_s, found.context) == (4.0, 2, 0.012, 700.0)
    (stated,) = rows_from(run_of(batch=None), batch=8.0).rows
    assert (stated.batch, stated.context) == (8.0, 512.0)


def test_tokens_per_second_become_a_step() -> None:
    """AL 2 x 4 requests in each step at 500 tokens/s: 16 ms."""
    (found,) = rows_from(run_of(step_s=None, output_tokens_per_s=500.0)).rows
    assert found.step_s == pytest.approx(0.016)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"batch": None}, "row_without_batch"),
        ({"draft_length": None}, "row_without_draft_length"),
        ({"step_s": None}, "row_without_step"),
        ({"step_s": None, "acceptance_length": None, "output_tokens_per_s": 9.0}, "row_without_step"),
    ],
)
def test_a_row_that_lacks_something_is_left_out_with_a_word(changes: dict[str, Any], code: str) -> None:
    found = rows_from(run_of(), run_of(**changes))
    assert len(found.rows) == 1
    assert code in [one.code for one in found.findings]
    with pytest.raises(ProfileError, match="nothing to calibrate with"):
        rows_from(run_of(**changes))


def test_what_the_rows_lack_is_said() -> None:
    codes = [one.code for one in rows_from(run_of()).findings]
    assert codes == ["no_off_run", "one_draft_length"]
    off = run_of(draft_length=0, acceptance_length=1.0, step_s=0.010)
    assert [one.code for one in rows_from(off).findings] == ["only_off_run"]
    whole = rows_from(off, run_of(draft_length=1, acceptance_length=1.5, step_s=0.011), run_of())
    assert [one.code for one in whole.findings] == []


def test_a_step_below_the_plain_one_is_said() -> None:
    off = run_of(draft_length=0, acceptance_length=1.0, step_s=0.013)
    found = rows_from(off, run_of(draft_length=1, acceptance_length=1.5, step_s=0.014), run_of())
    assert [one.code for one in found.findings] == ["step_below_plain"]


REFUSED = {
    "nothing accepted": ({"acceptance_length": 1.0}, "nothing was accepted"),
    "more accepted than drafted": ({"acceptance_length": 3.5}, "above D \\+ 1 = 3"),
    "off that drafted": ({"draft_length": 0, "drafted_tokens": 10.0}, "drafted"),
    "repeated prompts": ({"cached_prompt_share": 0.95}, "prefix cache"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        rows_from(run_of(**changes))


def test_tokens_above_what_steps_can_give_are_refused() -> None:
    """(D + 1) B / T0 = 3 x 4 / 10 ms = 1200 tokens/s."""
    off = run_of(draft_length=0, acceptance_length=1.0, step_s=0.010)
    assert len(rows_from(off, run_of(output_tokens_per_s=1100.0)).rows) == 2
    with pytest.raises(ProfileError, match="1300 tokens/s"):
        rows_from(off, run_of(output_tokens_per_s=1300.0))


def test_rounding_never_accepts_more_than_was_drafted() -> None:
    assert rows_from(run_of(acceptance_length=3.004)).rows[0].acceptance_length == 3.0
    assert rows_from(run_of(acceptance_length=None)).rows[0].acceptance_length is None


@pytest.mark.parametrize(("batch", "said"), [(4.1, True), (4.3, False)])  # within 5 % it is the same batch
def test_plain_and_drafting_steps_of_one_batch_are_compared(batch: float, said: bool) -> None:
    off = run_of(draft_length=0, acceptance_length=1.0, step_s=0.013, batch=batch)
    found = [one.message for one in rows_from(off, run_of(step_s=0.009)).findings if one.code == "step_below_plain"]
    assert bool(found) is said
    for message in found:
        assert "a step with D = 2 takes 9 ms, less than a plain one (13 ms) at batch 4" in message


def test_what_cannot_be_used_is_named_with_its_place() -> None:
    with pytest.raises(ProfileError, match=r"x\.log:3-9: no step time and no tokens/s, left out") as caught:
        rows_from(run_of(step_s=None, first_line=3, last_line=9))
    assert caught.value.file == "x.log:3-9"
    with pytest.raises(ProfileError, match="its tokens/s need an acceptance length"):
        rows_from(run_of(step_s=None, acceptance_length=None, output_tokens_per_s=9.0))
    with pytest.raises(ProfileError, match="no batch size in the file, left out; --batch N says it"):
        rows_from(run_of(batch=None))
    with pytest.raises(ProfileError, match="no step time in it") as caught:
        rows_from()
    assert caught.value.file == "x.log"


def test_a_pass_holds_half_of_its_own_tokens_in_its_mean_context() -> None:
    passes = [
        run_of(
            measures="verify_pass",
            verify_width=n,
            draft_length=None,
            acceptance_length=None,
            step_s=n / 100,
            context_tokens=100 + n / 2,
        )
        for n in (1, 2, 8)
    ]
    assert rows_from(*passes).curve.context == 100.0
    # a pass of the off arm stays a pass
    (file,) = off_files(files_of(*passes))
    assert {run.measures for run in file.runs} == {"verify_pass"}
    assert {run.draft_length for run in file.runs} == {None}


def test_passes_become_a_curve() -> None:
    passes = [
        run_of(
            measures="verify_pass",
            verify_width=n,
            draft_length=None,
            acceptance_length=None,
            step_s=t,
            batch=1.0,
            context_tokens=n / 2,
        )
        for n, t in ((4, 0.04), (1, 0.01), (1, 0.03), (1, 0.02))
    ]
    found = rows_from(*passes)
    assert found.rows == ()
    assert found.curve == VerifyCurve((1, 4), (0.02, 0.04), 0.0)  # the median of one token's
    with pytest.raises(ProfileError, match="no curve"):
        rows_from(passes[0])


def test_an_off_file_without_a_word_is_off_and_one_with_drafts_is_refused() -> None:
    bare = run_of(draft_length=None, acceptance_length=None).found("speculation_not_stated", "said nothing")
    (file,) = off_files(files_of(bare))
    assert (file.runs[0].draft_length, file.runs[0].acceptance_length, file.runs[0].findings) == (0, 1.0, ())
    with pytest.raises(ProfileError, match="should be without speculation drafted"):
        off_files(files_of(run_of()))


def test_draft_lengths_by_file() -> None:
    files = [*files_of(run_of(draft_length=None)), *files_of(run_of(draft_length=None))]
    assert [f.runs[0].draft_length for f in with_draft_lengths(files, [3])] == [3, 3]
    assert [f.runs[0].draft_length for f in with_draft_lengths(files, [1, 5])] == [1, 5]
    assert with_draft_lengths(files, []) == files
    with pytest.raises(UsageError, match="3 times for 2 files"):
        with_draft_lengths(files, [1, 2, 3])
    with pytest.raises(ProfileError, match="--draft-length says 4"):
        with_draft_lengths(files_of(run_of()), [4])


# ------------------------------------------------------------------------------------------------------ hints


def hinted(rows: list[Row], *more: Any, **options: Any) -> dict[str, str]:
    scenario = scenario_of(*more, **options)
    fit = calibrate(scenario.step, rows)
    return {one.code: one.message for one in hints(scenario, fit, plain_split(scenario, fit))}


def scenario_of(*more: Any, **options: Any) -> Scenario:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        asked = toy_options(**{"context": 1, "acceptance_rate": 0.5, "batches": "1", **options})
        return resolve(toy_library(Path(folder), *more), asked).scenarios[0]


def engine_of(**overheads: float) -> dict[str, Any]:
    return toy_engine(overheads=toy_overheads(**overheads))


def test_a_healthy_machine_gets_no_hints() -> None:
    scenario = scenario_of(engine_of(step_ms=1.0, speculation_ms=0.3, draft_pass_ms=0.1))
    shapes = [measured_row(1, d, 1.0, al=1 + d / 2) for d in (0, 1, 4)]
    rows = [replace(one, step_s=float(s)) for one, s in zip(shapes, predict_s(scenario.step, shapes), strict=True)]
    assert hinted(rows, engine_of(step_ms=1.0, speculation_ms=0.3, draft_pass_ms=0.1)) == {}


def test_a_slow_plain_step_is_measured_against_the_weights() -> None:
    """Weights, activations and a token of KV: 3.11 ms at 1e11 B/s. 9.3 ms are 3.0x that."""
    found = hinted([measured_row(1, 0, 9.3)])
    assert list(found) == ["step_above_prior"]
    assert "3.0x what the weights need (9.3 ms; they need 3.11 ms" in found["step_above_prior"]


def test_eager_launches_are_recognised_by_their_size() -> None:
    """Ten layers x 500 us: 5 ms more than in graphs; the step is 5.6 ms late."""
    kernels = toy_kernels(eager_us_per_layer=500.0)
    found = hinted([measured_row(1, 0, 9.0)], toy_hardware(kernels={"default": kernels}))
    assert list(found) == ["graphs_off"]
    assert "5 ms" in found["graphs_off"]
    eager = hinted([measured_row(1, 0, 30.0)], toy_hardware(kernels={"default": kernels}))
    assert list(eager) == ["step_above_prior"]  # five times what eager launches would cost


def test_steps_that_cannot_be_and_steps_too_quick() -> None:
    assert list(hinted([measured_row(1, 0, 2.0)])) == ["faster_than_possible"]
    slow = toy_hardware(
        kernels={
            "default": toy_kernels(
                gemm={"bf16": {"compute": "bf16", "eta_c": 0.5, "eta_m": 0.5, "tau_us": 0.0, "overlap_exponent": 1.0}}
            )
        }
    )
    assert list(hinted([measured_row(1, 0, 4.0)], slow)) == ["step_below_prior"]


def test_a_fee_and_a_pass_are_told_apart() -> None:
    fee = hinted([measured_row(1, 0, 3.41), measured_row(1, 1, 8.0, al=1.5), measured_row(1, 4, 10.5, al=2.5)])
    assert "entry_fee_high" in fee
    each = hinted([measured_row(1, 0, 3.41), measured_row(1, 1, 5.5, al=1.5), measured_row(1, 4, 12.5, al=2.5)])
    assert "draft_pass_slow" in each
    assert "verify_does_not_amortise" in each  # 2.3 ms a token on 3.4


DEVICES = {
    "cpu": (("AMD", "Zen4 AVX512-BF16"), {"cpus", "gpu", "graphs", "eager", "clock"}, "matrix-vector to matrix-matrix"),
    "a CPU of the user's own": (("as measured", "CPU"), {"gpu", "graphs", "eager"}, "matrix-vector to matrix-matrix"),
    "apple": (("Apple", "Apple GPU"), {"graphs", "cuda", "eager"}, "matrix-vector to matrix-matrix"),
    "nvidia": (("NVIDIA", "Hopper sm90 + Grace"), {"cpu", "hip"}, "CUDA graphs"),
    "amd": (("AMD", "CDNA3 gfx942"), {"cuda", "cpu"}, "HIP graphs"),
    "tpu": (("Google", "TPU"), {"cuda", "hip", "gpu", "cpu"}, "recorded graphs"),
}
"""Vendor and architecture -> words that would be strange, and what a dear first token is put down to."""


@pytest.mark.parametrize("device", DEVICES)
def test_hints_fit_the_device(device: str) -> None:
    (vendor, architecture), strange, entry = DEVICES[device]
    chip = toy_hardware(
        vendor=vendor, architecture=architecture, kernels={"default": toy_kernels(eager_us_per_layer=500.0)}
    )
    late = [measured_row(1, 0, 9.0), measured_row(1, 1, 19.0, al=1.5), measured_row(1, 4, 44.0, al=2.5)]
    dear = [measured_row(1, 0, 3.41), measured_row(1, 1, 8.0, al=1.5), measured_row(1, 4, 10.5, al=2.5)]
    alone = [measured_row(1, 0, 3.41), measured_row(1, 3, 12.0, al=2.0)]
    found = [hinted(rows, chip) for rows in (late, dear, alone)]
    said = " ".join(message for one in found for message in one.values())
    assert not strange & set(re.findall(r"[a-z]+", said.lower())), said
    assert entry in found[1]["entry_fee_high"]
    assert entry in found[2]["speculation_dear"]
    assert "verify_does_not_amortise" in found[0]
    assert ("graphs_off" in found[0]) == (device in ("nvidia", "amd", "tpu"))


def test_shipped_cpus_are_taken_for_cpus() -> None:
    chips = [loaded.record for loaded in shipped().every("hardware")[0]]
    assert {chip.name for chip in chips if device_words(chip).device == "CPU"} == {"epyc-9654", "xeon-8480"}


def test_a_draft_on_many_gpus() -> None:
    rows = [measured_row(1, 0, 3.0), measured_row(1, 1, 5.5, al=1.5), measured_row(1, 4, 12.5, al=2.5)]
    assert "draft_on_many_gpus" in hinted(rows, tp="2")


def test_recurrent_states_suggest_a_replay() -> None:
    delta = {
        "type": "gated_delta",
        "key_heads": 4,
        "value_heads": 4,
        "key_head_dim": 64,
        "value_head_dim": 64,
        "conv_width": 4,
    }
    hybrid = toy_model(
        attention={"full": {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 125}, "delta": delta},
        blocks=[
            {"repeat": 5, "attention": "full", "ffn": "dense"},
            {"repeat": 5, "attention": "delta", "ffn": "dense"},
        ],
        parameters={},
    )
    scenario = scenario_of(hybrid)
    base = ms(predict_s(scenario.step, [measured_row(1, 0, 1.0)]))[0]
    found = hinted(
        [measured_row(1, 0, base), measured_row(1, 1, base + 5, al=1.5), measured_row(1, 4, base + 7.5, al=2.5)], hybrid
    )
    assert "state_replay" in found
    assert "entry_fee_high" not in found


def test_one_draft_length_blames_neither() -> None:
    found = hinted([measured_row(1, 0, 3.41), measured_row(1, 3, 12.0, al=2.0)])
    assert "speculation_dear" in found
    assert not {"entry_fee_high", "draft_pass_slow"} & set(found)


@pytest.mark.parametrize(
    ("fitted", "usual", "message"),
    [
        # (entry, pass) in ms at D = 2, two passes, beside a plain step of 10 ms: from 3 ms on, and from twice the usual
        ((1.2, 0.95), (0.5, 0.5), "costs 3.1 ms beyond the kernels (31% of a plain step; the profiles say 1.5 ms)"),
        ((1.2, 0.85), (0.5, 0.5), None),
        ((1.2, 0.95), (0.6, 0.5), None),
        ((1.2, 0.0), (0.5, 0.5), "costs 3.2 ms"),  # and 0.1 of a plain step for each pass
    ],
)
def test_one_draft_length_tells_of_fee_and_passes_together(
    fitted: tuple[float, float], usual: tuple[float, float], message: str | None
) -> None:
    scenario = scenario_of()
    rows = [measured_row(1, 0, 10.0), measured_row(1, 2, 14.0, al=2.0)]
    fit = calibrate(scenario.step, rows)
    share = 0.1 if not fitted[1] else 0.0
    made = [
        Constants(step_ms=0, per_request_us=0, speculation_ms=entry, draft_pass_ms=each, draft_pass_target_fraction=f)
        for (entry, each), f in ((fitted, share), (usual, 0.0))
    ]
    fit = replace(fit, fitted=made[0], prior=made[1])
    found = {one.code: one.message for one in hints(scenario, fit, plain_split(scenario, fit))}
    assert ("speculation_dear" in found) is (message is not None)
    if message is not None:
        assert message in found["speculation_dear"]


def test_the_steepest_batch_says_what_a_token_costs() -> None:
    # 2.5 ms a token at one request, 3 at eight, whatever was measured between
    rows = [
        *(measured_row(1, d, t, al=2.0) for d, t in ((1, 5.5), (4, 13.0))),
        *(measured_row(8, d, t, al=2.0) for d, t in ((3, 16.0), (1, 10.0), (2, 11.0))),
    ]
    found = hinted([measured_row(1, 0, 4.0), *rows])
    assert "each further draft token costs 3 ms, 75% of a plain step" in found["verify_does_not_amortise"]


def test_a_plain_step_goes_before_a_smaller_batch_that_drafts() -> None:
    scenario = scenario_of()
    fit = calibrate(scenario.step, [measured_row(1, 2, 9.0, al=2.0), measured_row(4, 0, 10.0)])
    split = plain_split(scenario, fit)
    assert (split.batch, split.measured, split.step_s) == (4, True, 0.010)


def test_requests_are_held_against_the_profiles() -> None:
    scenario = scenario_of(engine_of(per_request_us=200.0))
    fit = calibrate(scenario.step, [measured_row(1, 0, 10.0), measured_row(64, 0, 80.0)])
    fit = replace(fit, fitted=msgspec.structs.replace(fit.fitted, per_request_us=1200.0))
    found = {one.code: one.message for one in hints(scenario, fit, plain_split(scenario, fit))}
    assert (
        "each request adds 1000 us to a step beyond the profiles' (64 ms at batch 64)"
        in found["requests_cost_host_time"]
    )


def test_a_busy_host_and_few_accepted_tokens() -> None:
    """1 ms a request; a verify pass of four tokens each costs no more than its FLOPs, so these are not what grows."""
    shapes = [measured_row(b, d, 1.0, al=2.0) for b, d in ((1, 0), (16, 0), (64, 0), (64, 3))]
    computed = ms(predict_s(scenario_of().step, shapes))
    rows = [replace(one, step_s=(t + one.batch) * MS) for one, t in zip(shapes, computed, strict=True)]
    assert "requests_cost_host_time" in hinted(rows)
    low = hinted([measured_row(1, 0, 3.41), measured_row(1, 4, 6.5, al=1.2), measured_row(1, 1, 4.5, al=1.1)])
    assert "AL = 1.10 at D = 1" in low["few_accepted"]


# ------------------------------------------------------------------------------------------ the profile, used


def asked(folder: Path, calibration: dict[str, Any], *more: Any, **options: Any) -> Question:
    path = write_yaml(folder / "mine" / f"{calibration['name']}.yaml", calibration)
    library = toy_library(folder / "lib", *more)
    return resolve(library, replace(toy_options(**options), calibration=str(path)))


def codes(question: Question) -> list[str]:
    return [note.code for note in question.notes]


def test_a_calibration_moves_every_step(tmp_path: Path) -> None:
    """An engine without overheads; calibrated 2 ms a step, 1 ms of entry, 0.5 ms a pass: D = 2 pays 2 + 1 + 2 x 0.5."""
    own = asked(tmp_path, toy_calibration(), batches="1", draft_lengths="0,2", context=1000)
    plain = resolve(toy_library(tmp_path / "plain"), toy_options(batches="1", draft_lengths="0,2", context=1000))
    with_own, without = (evaluate(q.scenarios[0]).times.step_s[0] / MS for q in (own, plain))
    assert with_own - without == pytest.approx([2.0, 4.0])
    assert own.inputs["calibration"].value == "toy-machine"


def test_what_is_not_said_comes_from_the_calibration(tmp_path: Path) -> None:
    path = write_yaml(tmp_path / "toy-machine.yaml", toy_calibration())
    bare = replace(toy_options(), hardware=None, model=None, engine=None, calibration=str(path))
    question = resolve(toy_library(tmp_path / "lib"), bare)
    (scenario,) = question.scenarios
    assert (scenario.hardware.name, scenario.model.name, scenario.drafter_name) == (
        "toy-chip",
        "toy-model",
        "toy-model-eagle3",
    )
    assert scenario.context == 1000
    origins = {
        name: question.inputs[name].origin for name in ("hardware", "model", "engine", "drafter", "context", "tp")
    }
    assert set(origins.values()) == {"calibration"}
    said = resolve(toy_library(tmp_path / "lib2"), replace(bare, hardware="toy-chip", context=700))
    assert (said.inputs["hardware"].origin, said.inputs["context"].origin) == ("option", "option")


@pytest.mark.parametrize(
    ("options", "more", "words"),
    [
        ({"tp": "2"}, (), "tp 2 \\(measured: 1\\)"),
        ({"kv_dtype": "fp8"}, (), "other dtypes"),
        ({"hardware": "toy-chip-2"}, (toy_hardware("toy-chip-2"),), "hardware toy-chip-2"),
    ],
)
def test_another_machine_is_refused(tmp_path: Path, options: dict[str, Any], more: tuple[Any, ...], words: str) -> None:
    if "kv_dtype" in options:
        kernels = toy_kernels()
        kernels["attention"]["fp8"] = dict(kernels["attention"]["bf16"])
        more = (toy_hardware(kernels={"default": kernels}),)
    with pytest.raises(UsageError, match=words):
        asked(tmp_path, toy_calibration(), *more, **options)


def test_in_a_list_it_holds_where_it_was_measured(tmp_path: Path) -> None:
    question = asked(tmp_path, toy_calibration(), tp="1,2", batches="1")
    assert [one.calibration is not None for one in question.scenarios] == [True, False]
    assert "calibration_not_everywhere" in codes(question)


def test_another_drafter_has_the_plain_step_alone(tmp_path: Path) -> None:
    options: dict[str, Any] = {"drafter": "toy-ngram", "acceptance_rate": 0.5, "draft_lengths": "0,2", "batches": "1"}
    question = asked(tmp_path, toy_calibration(), context=1000, **options)
    plain = resolve(toy_library(tmp_path / "plain"), toy_options(context=1000, **options))
    with_own, without = (evaluate(q.scenarios[0]).times.step_s[0] / MS for q in (question, plain))
    assert with_own - without == pytest.approx([2.0, 2.0])  # no fee, no pass
    (said,) = [note.message for note in question.notes if note.code == "calibration_other_drafter"]
    assert said == (
        "toy-machine was measured with toy-model-eagle3: the plain step is calibrated, entry fee and draft passes of "
        "toy-ngram are as the profiles have them"
    )
    band = question.scenarios[0].band
    assert [band.basis(1, length) for length in (0, 1)] == ["calibrated", "extrapolated"]
    none = asked(tmp_path / "off", toy_calibration(), context=1000, drafter="none", batches="1")
    assert "calibration_other_drafter" not in codes(none)


def test_the_band_is_narrow_where_it_was_measured(tmp_path: Path) -> None:
    question = asked(tmp_path, toy_calibration(), batches="1,2,4", draft_lengths="0,2,4", context=1000)
    grid = evaluate(question.scenarios[0])
    wide = grid.scenario.band.relative
    ratio = grid.speedup_high[:, 1:] / grid.speedup[:, 1:]
    # Acceptance as measured has no band of its own at D = 2; inside 3 %, else the profiles'.
    assert ratio[0, 0] == pytest.approx(1 / 0.97)
    assert ratio[1, 0] == pytest.approx(1 / 0.97)  # twice the batch measured
    assert ratio[2, 0] == pytest.approx(1 / (1 - wide))
    assert ratio[0, 1] > 1 / (1 - 0.05)  # past the longest draft measured
    note = next(one.message for one in question.notes if one.code == "calibration_extrapolated")
    assert note == (
        "toy-machine was measured at batch 1, D 0 to 2, context 1000; batch 4 and draft length 4 is beyond it: "
        "extrapolated, with the profiles' band"
    )
    far = asked(tmp_path / "far", toy_calibration(), batches="1,4,8,16", draft_lengths="0..4", context=1000)
    note = next(one.message for one in far.notes if one.code == "calibration_extrapolated")
    assert "; batch 4 to 16 and draft length 3 to 4 is beyond it" in note


def test_inside_nothing_is_extrapolated(tmp_path: Path) -> None:
    question = asked(tmp_path, toy_calibration(), batches="1,2", draft_lengths="0..2", context=1000)
    assert "calibration_extrapolated" not in codes(question)
    far = asked(tmp_path / "far", toy_calibration(), batches="1", draft_lengths="0..2", context=4000)
    assert "context 4000" in next(one.message for one in far.notes if one.code == "calibration_extrapolated")


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    library = toy_library(tmp_path / "lib")
    off = MeasuredRun(file="m.csv", format="table", batch=1.0, draft_length=0, acceptance_length=1.0, step_s=0.012)
    runs = (
        off,
        *(replace(off, draft_length=d, acceptance_length=1 + d / 2, step_s=s) for d, s in ((1, 0.03), (2, 0.013))),
    )
    report = report_calibration(library, toy_options(context=1000), [RunFile("m.csv", "table", runs)])
    assert report.fit is not None
    assert report.fit.method == "line"
    made = calibration_profile(report, name="mine", checked="2026-01-31")
    path = tmp_path / "mine.yaml"
    path.write_text(to_yaml(made), encoding="utf-8")
    loaded = load_file(path, "calibration").record
    assert loaded == made
    assert correction_of(loaded) is not None
    question = resolve(
        library, replace(toy_options(context=1000, batches="1", draft_lengths="0..2"), calibration=str(path))
    )
    assert ms(evaluate(question.scenarios[0]).times.step_s[0]) == pytest.approx([12, 30, 13], rel=1e-3)


def told(root: Path, *runs: MeasuredRun, drafter: str = "toy-ngram", **options: Any) -> Any:
    """What a calibration on the clockwork makes of these runs: (report, profile)."""
    library = toy_library(root, *clockwork())
    asked = toy_options(**{"drafter": drafter, "context": 1, **options})
    report = report_calibration(library, asked, [RunFile("m.csv", "table", runs)])
    return report, calibration_profile(report, name="mine", checked="2026-01-31")


def test_a_profile_says_what_was_measured_and_how_far_off_it_is(tmp_path: Path) -> None:
    # computed: 10.1 ms off at one request; 11 + 0.1 x 4 x 3 = 12.2 at four with D = 2
    off = MeasuredRun(file="m.csv", format="table", batch=1.0, draft_length=0, acceptance_length=1.0, step_s=0.01212)
    on = replace(off, batch=4.0, draft_length=2, acceptance_length=2.25, step_s=0.0122, context_tokens=3.0)
    report, made = told(tmp_path, off, on)
    first, second = made.rows
    assert (first.step_ms, first.prior_ms) == (12.12, pytest.approx(10.1, rel=1e-3))
    assert (second.step_ms, second.prior_ms) == (12.2, pytest.approx(12.2, rel=2e-3))
    assert (second.batch, second.draft_length, second.acceptance_length, second.context_tokens) == (4.0, 2, 2.25, 3.0)
    errors = made.errors
    assert errors.prior_median == pytest.approx((1 - 10.1 / 12.12) / 2, rel=0.01)  # the other row is as computed

    def worst(name: str) -> float:
        return max(abs(getattr(one, name) / one.step_ms - 1) for one in made.rows)

    assert (errors.worst, errors.left_out_worst) == pytest.approx((worst("fitted_ms"), worst("left_out_ms")), rel=1e-3)
    assert band_of(report) == max(LEAST_BAND, errors.worst)
    assert (made.valid.batch, made.valid.draft_length, made.valid.context_tokens) == ([1.0, 4.0], [0, 2], [1.0, 3.0])
    assert (made.trees, made.scenario.drafter, made.scenario.weight_dtype) == (False, "toy-ngram", None)
    # one row alone has nothing to be left out of
    report, made = told(tmp_path / "one", off, weight_dtype="bf16")
    assert (made.rows[0].left_out_ms, made.errors.left_out_worst, made.errors.left_out_median) == (None, None, None)
    assert made.scenario.weight_dtype == "bf16"


def test_a_profile_of_a_tree_is_marked(tmp_path: Path) -> None:
    off = MeasuredRun(file="m.csv", format="table", batch=1.0, draft_length=0, acceptance_length=1.0, step_s=0.0101)
    tree = replace(off, draft_length=2, verify_width=8, acceptance_length=2.0, step_s=0.013)
    _, made = told(tmp_path, off, tree, drafter="toy-model-eagle3")
    assert made.trees
    assert [one.verify_width for one in made.rows] == [None, 8]


def test_a_profile_of_passes_alone_holds_for_one_request(tmp_path: Path) -> None:
    passes = [
        MeasuredRun(file="b", format="bench", measures="verify_pass", batch=1.0, verify_width=n, step_s=s)
        for n, s in ((1, 0.02), (6, 0.03))
    ]
    report, made = told(tmp_path, *passes)
    assert (made.valid.batch, made.valid.draft_length, made.valid.context_tokens) == ([1.0, 1.0], [0, 5], [1.0, 1.0])
    assert (made.rows, made.errors, band_of(report)) == ([], None, None)
    assert made.fitted == made.prior
    assert made.prior.speculation_ms == 1.0  # the clockwork's fee


def test_a_context_past_the_drafters_window_is_said_of_a_calibration(tmp_path: Path) -> None:
    off = MeasuredRun(file="m.csv", format="table", batch=1.0, draft_length=0, acceptance_length=1.0, step_s=0.012)
    on = replace(off, draft_length=2, acceptance_length=2.0, step_s=0.02, context_tokens=3000.0)
    library = toy_library(tmp_path, toy_drafter(window_tokens=2048))
    report = report_calibration(library, toy_options(context=3000), [RunFile("m.csv", "table", (off, on))])
    # once, by the rows that say it; what the question takes for granted (a drafter, a rate of acceptance) is no finding
    found = [one.code for one in report.findings]
    assert found.count("beyond_draft_window") == 1
    assert not [code for code in found if code.startswith(("acceptance", "drafter"))]


def test_a_curve_survives_its_file(tmp_path: Path) -> None:
    library = toy_library(tmp_path / "lib")
    passes = tuple(
        MeasuredRun(file="b.json", format="llama-bench", measures="verify_pass", batch=1.0, verify_width=n, step_s=s)
        for n, s in ((1, 0.02), (2, 0.021), (3, 0.05))
    )
    report = report_calibration(library, toy_options(context=2), [RunFile("b.json", "llama-bench", passes)])
    made = calibration_profile(report, name="curve", checked="2026-01-31")
    path = tmp_path / "curve.yaml"
    path.write_text(to_yaml(made), encoding="utf-8")
    loaded = load_file(path).record
    assert (loaded.method, loaded.errors, loaded.rows) == ("curve", None, [])
    assert curve_of(loaded) == VerifyCurve((1, 2, 3), (0.02, 0.021, 0.05), loaded.verify_curve_context)
    question = resolve(
        library, replace(toy_options(context=2, batches="1", draft_lengths="0..2"), calibration=str(path))
    )
    assert ms(evaluate(question.scenarios[0]).times.verify_s[0]) == pytest.approx([20, 21, 50], rel=1e-3)


def test_lists_and_missing_drafters_are_refused(tmp_path: Path) -> None:
    library = toy_library(tmp_path / "lib")
    off = MeasuredRun(file="m.csv", format="table", batch=1.0, draft_length=0, acceptance_length=1.0, step_s=0.012)
    on = replace(off, draft_length=9, acceptance_length=3.0, step_s=0.02)
    with pytest.raises(UsageError, match="one setup"):
        report_calibration(library, toy_options(tp="1,2"), [RunFile("m.csv", "table", (off,))])
    with pytest.raises(UsageError, match="name the drafter"):
        report_calibration(library, toy_options(drafter="none"), [RunFile("m.csv", "table", (off, on))])
    block = toy_library(tmp_path / "block", toy_drafter("toy-dflash", "dflash"))
    with pytest.raises(UsageError, match="drafts at most 7"):
        report_calibration(block, toy_options(drafter="toy-dflash"), [RunFile("m.csv", "table", (off, on))])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "line"}, "expected `correction`"),
        ({"method": "curve"}, "expected `verify_curve`"),
        ({"correction": [{"batch": 1.0, "draft_length": 1, "factor": 1.1}]}, "draft lengths 0, 1, 2"),
        ({"verify_curve": [{"tokens": 2, "pass_ms": 1.0}, {"tokens": 1, "pass_ms": 1.0}]}, "rising numbers of tokens"),
        ({"valid": {"batch": [8.0, 1.0], "draft_length": [0, 1], "context_tokens": [1.0, 1.0]}}, "smallest, largest"),
    ],
)
def test_a_calibration_that_contradicts_itself(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = write_yaml(tmp_path / "toy-machine.yaml", toy_calibration(**changes))
    with pytest.raises(ProfileError, match=words):
        load_file(path)


def test_the_toy_calibration_is_one() -> None:
    assert as_record(toy_calibration()).scenario.model == "toy-model"
