"""A calibrated step on toys: the verify curve, the scales of kernels, the constants of the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import toy_drafter, toy_engine, toy_kernels, toy_overheads
from calibration_toys import clock, measured_row, ms
from toys import column, row, step_of

from specdec_cli.explore.calibrate import calibrate, calibrated, predict_s
from specdec_cli.physics.calibrated import (
    StepCorrection,
    VerifyCurve,
    constants_of,
    scaled_kernels,
    with_host_constants,
)
from specdec_cli.profiles.calibration import Constants
from specdec_cli.profiles.schema import KernelSet, Overheads
from specdec_cli.units import MS

# ------------------------------------------------------------------------------------ the verify curve


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


# -------------------------------------------------------------------------------- scales and constants


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
