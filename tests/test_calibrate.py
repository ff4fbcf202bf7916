"""Calibration on toys whose arithmetic fits in a line: the fit, the lines, the curve, the hints, and their use."""

from __future__ import annotations

import math
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
from toys import clockwork, column, row, step_of, toy_library, toy_options

from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.explore.calibrate import (
    LINE_FROM,
    Row,
    _host_slopes,
    calibrate,
    calibrated,
    lines_through,
    predict_s,
)
from specdec_cli.explore.calibrate_hints import hints, plain_split
from specdec_cli.explore.calibrate_report import calibration_profile, report_calibration
from specdec_cli.explore.calibrate_rows import measured, off_files, with_draft_lengths
from specdec_cli.explore.calibration_use import correction_of, curve_of
from specdec_cli.explore.least_squares import bounded_least_squares
from specdec_cli.explore.run_checks import CheckOptions
from specdec_cli.explore.scenario import Question, Scenario, resolve
from specdec_cli.explore.sweep import evaluate
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
        change = predict_s(calibrated(step, moved), rows) - predict_s(calibrated(step, own), rows)
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


def test_a_correction_holds_at_its_ends_beyond_them() -> None:
    correction = StepCorrection({2.0: (1.0, 1.5), 8.0: (1.0, 6.0)})
    found = correction.at(column(1, 2, 4, 8, 64), row(0, 1, 7))
    assert found[:, 0] == pytest.approx([1.0] * 5)
    assert found[:, 1] == pytest.approx([1.5, 1.5, 3.0, 6.0, 6.0])  # 4 is half way from 2 to 8: sqrt(1.5 x 6) = 3
    assert found[:, 2] == pytest.approx(found[:, 1])


# ------------------------------------------------------------------------------------------- the verify curve

MI50 = VerifyCurve((1, 2, 4, 8, 9, 16), (31.0, 36.2, 42.3, 68.7, 110.0, 115.6), 0.0)
"""Two MI50 (github mxxm-t/mx-llama.cpp issue 10): flat, then a stair at nine tokens; its last two points made up."""


def test_a_curve_is_interpolated_on_a_tread_alone() -> None:
    tokens = np.array([1.0, 2.0, 6.0, 8.0, 9.0, 12.0, 16.0])
    # 6 lies half way from 4 to 8: (42.3 + 68.7)/2; 12 at 3/7 of the tread from 9 to 16.
    assert MI50.at(tokens) == pytest.approx([31.0, 36.2, 55.5, 68.7, 110.0, 112.4, 115.6])
    assert MI50.risers() == [(8, 9)]


def test_between_two_stairs_the_upper_one_counts() -> None:
    """From 4 to 16 tokens 10 becomes 60 ms: more than fourfold, so a riser stands somewhere between."""
    curve = VerifyCurve((1, 4, 16), (9.0, 10.0, 60.0), 0.0)
    assert curve.at(np.array([4.0, 5.0, 15.0, 16.0])) == pytest.approx([10.0, 60.0, 60.0, 60.0])


def test_the_target_pass_follows_the_curve_at_any_batch() -> None:
    host = 2.0
    step = step_of(drafter=toy_drafter("toy-ngram", "ngram"), engine=toy_engine(overheads=toy_overheads(step_ms=host)))
    curved = replace(step, curve=replace(MI50, seconds=tuple(s * MS for s in MI50.seconds)))
    times = curved.times(column(1, 2, 4), row(0, 1, 3), row(1, 2, 4), row(1, 1.5, 2), np.asarray(1.0))
    # Tokens: 1, 2, 4; 2, 4, 8; 4, 8, 16.
    wanted = [[31.0, 36.2, 42.3], [36.2, 42.3, 68.7], [42.3, 68.7, 115.6]]
    assert times.verify_s / MS - host == pytest.approx(np.array(wanted), rel=2e-4)  # a token of KV a request more
    assert times.target_s[:, 0] / MS - host == pytest.approx([31.0, 36.2, 42.3], rel=2e-4)


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


def overheads_of(**changes: Any) -> Overheads:
    return msgspec.convert(toy_overheads(**changes), Overheads)


def test_serving_steps_move_by_as_much() -> None:
    own = overheads_of(step_ms=1.0, serving_step_ms=1.5, per_request_us=20.0, serving_per_request_us=30.0)
    fitted = Constants(step_ms=3.0, per_request_us=15.0, speculation_ms=0.0, draft_pass_ms=0.0)
    changed = with_host_constants(own, fitted, trees=False, drafts=True)
    assert (changed.step_ms, changed.serving_step_ms) == (3.0, 3.5)
    assert (changed.per_request_us, changed.serving_per_request_us) == (15.0, 25.0)
    assert overheads_of(step_ms=1.0).serving_per_request_us is None


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
    step = calibrated(clock(), fitted, drafts=False, correction=correction)
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


def test_a_busy_host_and_few_accepted_tokens() -> None:
    """1 ms a request; a verify pass of four tokens each costs no more than its FLOPs, so these are not what grows."""
    shapes = [measured_row(b, d, 1.0, al=2.0) for b, d in ((1, 0), (16, 0), (64, 0), (64, 3))]
    computed = ms(predict_s(scenario_of().step, shapes))
    rows = [replace(one, step_s=(t + one.batch) * MS) for one, t in zip(shapes, computed, strict=True)]
    assert "requests_cost_host_time" in hinted(rows)
    low = hinted([measured_row(1, 0, 3.41), measured_row(1, 1, 4.5, al=1.1), measured_row(1, 4, 6.5, al=1.2)])
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
    assert "calibration_other_drafter" in codes(question)


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
    assert "batch 4 and draft length 4" in note


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
