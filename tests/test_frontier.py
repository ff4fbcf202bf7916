"""The Pareto frontier against a naive oracle, and the gain at equal interactivity against closed forms."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.explore import frontier
from specdec_cli.explore.frontier import frontier_curve, pareto_mask, round_levels, uplift_at

# A coarse grid makes ties and duplicates common; the floats cover the rest.
coordinate = st.one_of(st.integers(0, 6).map(float), st.floats(-1e6, 1e6))
points = st.lists(st.tuples(coordinate, coordinate), max_size=40)
measured = st.floats(1e-3, 1e6)
measured_points = st.lists(st.tuples(measured, measured), max_size=20)


def naive_mask(x: list[float], y: list[float]) -> list[bool]:
    """Straight from the definition, O(n^2)."""
    pairs = list(zip(x, y, strict=True))
    return [not any(u >= a and v >= b and (u > a or v > b) for u, v in pairs) for a, b in pairs]


def split(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [a for a, _ in pairs], [b for _, b in pairs]


@given(points)
def test_mask_equals_the_naive_oracle(pairs: list[tuple[float, float]]) -> None:
    x, y = split(pairs)
    assert pareto_mask(x, y).tolist() == naive_mask(x, y)


@given(points)
def test_thinning_before_the_sort_changes_nothing(pairs: list[tuple[float, float]]) -> None:
    x, y = split(pairs)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(frontier, "STRIPES", 3)
        assert pareto_mask(x, y).tolist() == naive_mask(x, y)


@pytest.mark.parametrize(
    ("xs", "kept"),
    [
        ([5.0] * 4, [False, False, False, True]),  # no range to part into stripes
        ([-1e308, 1e308, 0.0, 1e308], [False, False, False, True]),  # a range past the largest double
        ([0.0, 5e-324, 0.0, 0.0], [False, True, False, True]),  # and the smallest there is
    ],
)
def test_stripes_of_extreme_ranges(monkeypatch: pytest.MonkeyPatch, xs: list[float], kept: list[bool]) -> None:
    monkeypatch.setattr(frontier, "STRIPES", 3)
    assert pareto_mask(xs, [1.0, 2.0, 3.0, 4.0]).tolist() == kept


@given(points, st.randoms(use_true_random=False))
def test_permutation_permutes_the_mask(pairs: list[tuple[float, float]], shuffler: random.Random) -> None:
    x, y = split(pairs)
    order = list(range(len(pairs)))
    shuffler.shuffle(order)
    mask = pareto_mask(x, y)
    shuffled = pareto_mask([x[i] for i in order], [y[i] for i in order])
    assert shuffled.tolist() == [bool(mask[i]) for i in order]


@given(points)
def test_duplicates_share_one_fate(pairs: list[tuple[float, float]]) -> None:
    x, y = split(pairs)
    doubled = pareto_mask(x + x, y + y).tolist()
    single = pareto_mask(x, y).tolist()
    assert doubled == single + single


@given(points)
def test_the_frontier_of_the_frontier_is_itself(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(split(pairs))
    mask = pareto_mask(x, y)
    assert pareto_mask(x[mask], y[mask]).all()


@settings(deadline=None)
@given(points.filter(bool))
def test_curve_rises_in_x_and_falls_in_y(pairs: list[tuple[float, float]]) -> None:
    xs, ys = frontier_curve(*split(pairs))
    assert (np.diff(xs) > 0).all()
    assert (np.diff(ys) < 0).all()
    assert set(zip(xs.tolist(), ys.tolist(), strict=True)) <= set(pairs)
    assert xs[-1] == max(x for x, _ in pairs)
    assert ys[0] == max(y for _, y in pairs)


def test_known_small_frontier() -> None:
    #  (1, 9) and (3, 5) twice stay; (2, 5) is beaten by (3, 5), (3, 4) by (3, 5), (1, 8) by (1, 9).
    x, y = [1, 2, 3, 3, 3, 1], [9, 5, 5, 5, 4, 8]
    assert pareto_mask(x, y).tolist() == [True, False, True, True, False, False]


def test_grids_keep_their_shape() -> None:
    x = np.array([[1.0, 2.0], [3.0, 0.0]])
    y = np.array([[3.0, 2.0], [1.0, 0.0]])
    assert pareto_mask(x, y).tolist() == [[True, True], [True, False]]


def test_empty_input_gives_an_empty_mask() -> None:
    assert pareto_mask([], []).shape == (0,)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_not_finite_is_refused_in_either_coordinate(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        pareto_mask([1.0, bad], [1.0, 2.0])
    with pytest.raises(ValueError, match="finite"):
        pareto_mask([1.0, 2.0], [bad, 2.0])


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="as many"):
        pareto_mask([1.0, 2.0], [1.0])


def frontier_of(al: float, a: float, b: float, batches: list[int]) -> tuple[list[float], list[float]]:
    """One draft length whose step takes a + b*B seconds, on one GPU."""
    speed = [al / (a + b * batch) for batch in batches]
    return speed, [batch * s for batch, s in zip(batches, speed, strict=True)]


def test_linear_interpolation_is_exact_for_a_step_affine_in_batch() -> None:
    # Off: step 10 ms + 0.1 ms * B. B = 60: 16 ms, 62.5 tokens/s/user, 3750 tokens/s; 60 is not in the sweep.
    # On: AL 2.4, step 14 ms + 0.2 ms * B. At 62.5 tokens/s/user: 38.4 ms, B = 122, 7625 tokens/s.
    batches = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    off, on = frontier_of(1.0, 10e-3, 0.1e-3, batches), frontier_of(2.4, 14e-3, 0.2e-3, batches)
    (row,) = uplift_at(on, off, [62.5])
    assert row.throughput_without == pytest.approx(3750)
    assert row.throughput_with == pytest.approx(7625)
    assert row.uplift == pytest.approx(7625 / 3750)
    assert row.users_per_gpu_without == pytest.approx(60)
    assert row.users_per_gpu_with == pytest.approx(122)


def test_gain_at_equal_interactivity_can_exceed_acceptance_length() -> None:
    # Step 10 ms + 0.1 ms * B off, 12 ms + 0.1 ms * B on, AL 2: at 83.3 tokens/s/user (12 ms and 24 ms)
    # B = 20 off and B = 120 on: six times the users from an AL of 2.
    batches = list(range(1, 257))
    (row,) = uplift_at(frontier_of(2.0, 12e-3, 0.1e-3, batches), frontier_of(1.0, 10e-3, 0.1e-3, batches), [1 / 12e-3])
    assert row.uplift == pytest.approx(6.0)


def test_a_slower_demand_is_served_by_the_slowest_point_and_a_faster_one_by_none() -> None:
    on, off = ([50.0, 200.0], [800.0, 300.0]), ([20.0, 100.0], [700.0, 100.0])
    below, left, both, right, above = uplift_at(on, off, [10, 30, 100, 150, 201])
    assert (below.throughput_with, below.throughput_without, below.uplift) == (800, 700, pytest.approx(8 / 7))
    # each of them gets 50 and 20 tokens/s, whatever slower speed is asked for
    assert (below.users_per_gpu_with, below.users_per_gpu_without) == (800 / 50, 700 / 20)
    assert left.throughput_with == 800
    assert left.throughput_without == pytest.approx(625)
    assert left.uplift == pytest.approx(1.28)
    # 800 - 500 * 50/150 on, the last point off
    assert both.uplift == pytest.approx((800 - 500 / 3) / 100)
    assert right.throughput_without is None
    assert right.uplift is None
    assert right.users_per_gpu_without is None
    assert right.throughput_with == pytest.approx(800 - 500 * 100 / 150)
    assert above.throughput_with is None


@given(measured_points, measured_points, st.lists(measured, max_size=5))
def test_rows_hold_no_nan_and_ignore_order_and_dominated_points(
    with_: list[tuple[float, float]], without: list[tuple[float, float]], levels: list[float]
) -> None:
    rows = uplift_at(split(with_), split(without), levels)
    assert rows == uplift_at(split(with_[::-1]), frontier_curve(*split(without)), levels)
    for row in rows:
        values = (row.throughput_with, row.throughput_without, row.uplift)
        assert all(value is None or math.isfinite(value) for value in values)
        assert row.uplift is None or (row.throughput_with is not None and row.throughput_without is not None)


def test_an_empty_frontier_reaches_nothing() -> None:
    (row,) = uplift_at(([], []), ([1.0], [2.0]), [1.0])
    assert row.throughput_with is None
    assert row.throughput_without == 2.0


@pytest.mark.parametrize("level", [0.0, -1.0, math.nan, math.inf])
def test_levels_must_be_positive_and_finite(level: float) -> None:
    with pytest.raises(ValueError, match="levels"):
        uplift_at(([1.0], [1.0]), ([1.0], [1.0]), [level])


@pytest.mark.parametrize(
    ("lo", "hi", "expected"),
    [
        (1, 100, [1, 2, 5, 10, 20, 50, 100]),
        (0.9, 21, [1, 2, 5, 10, 20]),
        (15, 140, [15, 20, 30, 50, 70, 100]),
        (101, 149, [110, 120, 130, 140]),
        (1.01, 1.49, [1.1, 1.2, 1.3, 1.4]),
        (110, 140, [110, 120, 130, 140]),
        (101, 149, [120, 140]),
        (0.02, 0.6, [0.02, 0.05, 0.1, 0.2, 0.5]),
        (40, 40, [40]),
    ],
)
def test_round_levels(lo: float, hi: float, expected: list[float]) -> None:
    assert round_levels(lo, hi, at_least=min(5, len(expected))) == expected
    if len(expected) >= 5:
        assert round_levels(lo, hi) == expected  # five, where nobody says how many


@given(st.floats(1e-3, 1e5), st.floats(1.001, 1e3), st.integers(1, 8))
def test_round_levels_stay_inside_rise_and_are_enough(lo: float, factor: float, at_least: int) -> None:
    levels = round_levels(lo, lo * factor, at_least=at_least)
    assert len(levels) >= at_least
    assert all(lo <= level <= lo * factor for level in levels)
    assert all(a < b for a, b in itertools.pairwise(levels))


def test_round_levels_of_neighbouring_doubles_end() -> None:
    lo = 100.0
    hi = math.nextafter(lo, math.inf)
    assert round_levels(lo, hi) == [lo, hi]


@pytest.mark.parametrize(("lo", "hi"), [(0, 1), (-1, 1), (2, 1), (math.nan, 1), (1, math.inf)])
def test_round_levels_refuse_senseless_bounds(lo: float, hi: float) -> None:
    with pytest.raises(ValueError, match="round levels"):
        round_levels(lo, hi)
