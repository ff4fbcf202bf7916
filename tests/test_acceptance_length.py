"""AL by draft length: measured, truncated, interpolated, extrapolated, assumed, by context, and the bands around it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import shipped

from specdec_cli.errors import InfeasibleError, UsageError
from specdec_cli.physics.acceptance import (
    INTERPOLATION_BAND,
    ONE_POINT_BAND_DOWN,
    TWO_POINT_BAND,
    AcceptanceCurve,
    AcceptanceEstimate,
    AssumedLengths,
    ConstantRate,
    acceptance_from_rate,
    check_acceptance_length,
    curve_at_context,
    geometric_sum,
    rate_for_gain,
    widened,
)
from specdec_cli.profiles.schema import AcceptancePoint

rates = st.floats(0.0, 1.0)


def at(curve: Any, draft_length: int) -> AcceptanceEstimate:
    found = curve.estimate(draft_length)
    assert isinstance(found, AcceptanceEstimate)
    return found


def al(curve: Any, draft_length: int) -> float:
    return at(curve, draft_length).acceptance_length


def point(draft_length: int, length: float | None = None, **more: Any) -> AcceptancePoint:
    return AcceptancePoint(draft_length=draft_length, acceptance_length=length, **more)


def curve_of(*points: AcceptancePoint, context: float | None = None) -> AcceptanceCurve:
    found = curve_at_context(points, context)
    assert found is not None
    return found


# --------------------------------------------------------------------------------------------- constant rate


def test_constant_rate_by_hand() -> None:
    # 1 + 0.5 + 0.25 + 0.125 = 1.875; 1 + 0.7 + 0.49 = 2.19 (a known slip elsewhere: 2.0, the bonus token dropped)
    assert acceptance_from_rate(0.5, 3) == 1.875
    assert acceptance_from_rate(0.7, 2) == pytest.approx(2.19)
    assert acceptance_from_rate(1.0, 7) == 8.0
    assert acceptance_from_rate(0.0, 7) == 1.0
    assert acceptance_from_rate(0.8, 0) == 1.0


@settings(deadline=None)
@given(rates, st.integers(0, 200))
def test_constant_rate_stays_between_one_and_one_more_than_d(rate: float, draft_length: int) -> None:
    found = at(ConstantRate(rate), draft_length)
    assert 1.0 <= found.acceptance_length <= 1.0 + draft_length + 1e-9
    assert (found.low, found.high) == (found.acceptance_length, found.acceptance_length)
    assert found.basis == "assumed"
    assert found.verify_width == 1 + draft_length


@settings(deadline=None)
@given(rates, rates, st.integers(0, 64))
def test_higher_acceptance_never_gives_fewer_tokens(one: float, other: float, draft_length: int) -> None:
    low, high = sorted((one, other))
    assert acceptance_from_rate(low, draft_length) <= acceptance_from_rate(high, draft_length) * (1 + 1e-12)
    assert acceptance_from_rate(low, draft_length) <= acceptance_from_rate(low, draft_length + 1)


@settings(deadline=None)
@given(st.floats(0.01, 2.0), st.integers(1, 30))
def test_the_rate_behind_a_gain(rate: float, terms: int) -> None:
    assert geometric_sum(rate_for_gain(geometric_sum(rate, terms), terms), terms) == pytest.approx(
        geometric_sum(rate, terms), rel=1e-9
    )


def test_every_token_accepted_and_none_are_rates_too() -> None:
    assert (al(ConstantRate(1.0), 3), al(ConstantRate(0.0), 3)) == (4.0, 1.0)


@pytest.mark.parametrize("rate", [-0.1, 1.01, float("nan")])
def test_a_rate_is_a_share(rate: float) -> None:
    with pytest.raises(UsageError, match="--acceptance-rate must lie between 0 and 1"):
        ConstantRate(rate)


# --------------------------------------------------------------------------------------------------- measured


def test_measured_values_are_taken_as_they_are() -> None:
    # AL of separate runs may fall with D: the data stay
    curve = AcceptanceCurve({1: 1.7, 2: 2.2, 3: 2.1})
    for length, value in ((1, 1.7), (2, 2.2), (3, 2.1)):
        assert at(curve, length) == AcceptanceEstimate(value, "measured", value, value, length + 1)
    assert curve.largest_measured == 3


def test_off_accepts_the_bonus_token_alone() -> None:
    assert at(AcceptanceCurve({3: 2.5}), 0) == AcceptanceEstimate(1.0, "measured", 1.0, 1.0, 1)
    assert al(ConstantRate(0.9), 0) == 1.0
    assert al(AssumedLengths({2: 2.0}), 0) == 1.0


def test_rates_measured_at_the_length_add_up() -> None:
    # 1 + 0.7 + 0.5 + 0.3
    curve = curve_of(point(3, per_position=[0.7, 0.5, 0.3], per_position_kind="measured"))
    assert at(curve, 3).basis == "measured"
    assert al(curve, 3) == pytest.approx(2.5)


def test_a_measured_length_goes_before_its_rates() -> None:
    curve = curve_of(point(2, 2.25, per_position=[0.7, 0.5], per_position_kind="measured"))
    assert al(curve, 2) == 2.25


def test_measured_rates_truncate_to_shorter_drafts_as_interpolation() -> None:
    curve = curve_of(point(3, per_position=[0.7, 0.5, 0.3], per_position_kind="measured"))
    assert at(curve, 1).basis == at(curve, 2).basis == "interpolated"
    assert (al(curve, 1), al(curve, 2)) == pytest.approx((1.7, 2.2))
    # the band: 11 % of AL - 1
    assert (at(curve, 1).low, at(curve, 1).high) == pytest.approx((1 + 0.7 * 0.89, 1 + 0.7 * 1.11))


def test_the_shortest_covering_run_lends_its_rates() -> None:
    # position 1 was .681 at D = 1 and .588 at D = 10 on one trace: D = 2 takes the rates of the run at 3, not at 5
    curve = curve_of(
        point(5, per_position=[0.60, 0.40, 0.30, 0.2, 0.1], per_position_kind="measured"),
        point(3, per_position=[0.65, 0.45, 0.35], per_position_kind="measured"),
    )
    assert al(curve, 2) == pytest.approx(2.1)
    assert al(curve, 4) == pytest.approx(2.5)  # 1 + .6 + .4 + .3 + .2: only the run at 5 covers it


def test_the_longest_truncated_length_is_not_an_extrapolation() -> None:
    # a run at D = 5 whose log names the first three positions: AL(2) = 1 + 0.6 + 0.4 is known, no AL at 5 is
    curve = curve_of(point(5, per_position=[0.6, 0.4, 0.3], per_position_kind="measured"))
    assert at(curve, 2).basis == "interpolated"
    assert al(curve, 2) == pytest.approx(2.0)
    assert at(curve, 3).basis == "extrapolated"


def test_derived_rates_are_not_truncated() -> None:
    curve = curve_of(point(3, 2.5, per_position=[0.9, 0.4, 0.2], per_position_kind="derived"))
    assert al(curve, 1) != pytest.approx(1.9)


# ----------------------------------------------------------------------------------------------- interpolation


def test_interpolation_from_off_is_a_constant_rate() -> None:
    # 1 + c + c^2 + c^3 = 1.875 at c = 1/2: AL(1) = 1.5, AL(2) = 1.75
    curve = AcceptanceCurve({3: 1.875})
    assert (al(curve, 1), al(curve, 2)) == pytest.approx((1.5, 1.75))
    assert at(curve, 2).basis == "interpolated"
    assert (at(curve, 2).low, at(curve, 2).high) == pytest.approx((1 + 0.75 * 0.89, 1 + 0.75 * 1.11))
    assert INTERPOLATION_BAND == 0.11


def test_interpolation_keeps_the_bend() -> None:
    # after AL(1) = 1.8 (last increment 0.8) the gain to AL(3) is 0.6 = 0.8 (r + r^2): r = 0.5: AL(2) = 2.2
    assert al(AcceptanceCurve({1: 1.8, 3: 2.4}), 2) == pytest.approx(2.2)


def test_interpolation_where_the_bend_cannot_be_kept() -> None:
    # from 1.2 to 2.2 in two steps: increments grow, so they are taken equal; and where AL falls
    assert al(AcceptanceCurve({1: 1.2, 3: 2.2}), 2) == pytest.approx(1.7)
    assert al(AcceptanceCurve({1: 1.8, 3: 1.6}), 2) == pytest.approx(1.7)
    # from 1.2 to 2.7 in three steps of 0.5
    assert al(AcceptanceCurve({1: 1.2, 4: 2.7}), 3) == pytest.approx(2.2)


# ----------------------------------------------------------------------------------------------- extrapolation


def test_one_point_goes_on_at_its_constant_rate() -> None:
    # AL(1) = 1.5: c = 1/2: AL(3) = 1.875; a rate fitted at one point over-predicts, so the band reaches down to half
    found = at(AcceptanceCurve({1: 1.5}), 3)
    assert found.basis == "extrapolated"
    assert found.acceptance_length == pytest.approx(1.875)
    assert (found.low, found.high) == pytest.approx((1 + 0.875 * 0.5, 1 + 0.875 * 1.05))
    assert ONE_POINT_BAND_DOWN == 0.5


def test_two_points_go_on_at_the_rate_after_the_first() -> None:
    # first rate 0.8; 0.8 (r + r^2) = 0.6 gives r = 1/2; last increment 0.2: AL(4) = 2.4 + 0.1, AL(5) = 2.4 + 0.15
    curve = AcceptanceCurve({1: 1.8, 3: 2.4})
    assert (al(curve, 4), al(curve, 5)) == pytest.approx((2.5, 2.55))
    assert at(curve, 5).basis == "extrapolated"
    assert (at(curve, 5).low, at(curve, 5).high) == pytest.approx((1 + 1.55 * 0.85, 1 + 1.55 * 1.15))
    assert TWO_POINT_BAND == 0.15


def test_a_curve_that_has_levelled_off_stays_level() -> None:
    assert al(AcceptanceCurve({1: 1.8, 2: 2.4, 3: 2.4}), 9) == 2.4
    assert al(AcceptanceCurve({1: 1.8, 2: 2.4, 3: 2.3}), 9) == 2.3


def test_increments_that_grow_go_on_at_the_last_one() -> None:
    # 0.2, then 0.5 (half of 1.0 over two positions): no conditional rate is above 1, so 0.5 goes on
    assert al(AcceptanceCurve({1: 1.2, 3: 2.2}), 5) == pytest.approx(2.2 + 2 * 0.5)


def test_a_first_token_never_accepted_is_no_crash() -> None:
    # a first rate of 0 says nothing of the rate after it; what was measured bounds the answer
    found = at(AcceptanceCurve({1: 1.0, 3: 1.5}), 5)
    assert 1.5 <= found.acceptance_length <= 2.0  # the last increment, 0.25, at most twice more
    assert found.basis == "extrapolated"


def test_nothing_known_is_no_answer() -> None:
    with pytest.raises(InfeasibleError, match="no acceptance is known"):
        AcceptanceCurve({}).estimate(1)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.integers(1, 16), rates, min_size=1, max_size=5), st.integers(0, 24))
def test_any_curve_stays_between_one_and_one_more_than_d(shares: dict[int, float], draft_length: int) -> None:
    curve = AcceptanceCurve({d: 1.0 + share * d for d, share in shares.items()})
    found = at(curve, draft_length)
    assert 1.0 - 1e-9 <= found.acceptance_length <= 1.0 + draft_length + 1e-9
    assert found.low <= found.acceptance_length + 1e-9
    assert found.acceptance_length <= found.high + 1e-9
    assert found.low >= 1.0 - 1e-9
    assert found.high <= 1.0 + draft_length + 1e-9
    assert found.verify_width == draft_length + 1


@settings(deadline=None)
@given(st.dictionaries(st.integers(1, 16), rates, min_size=1, max_size=5))
def test_what_was_measured_is_always_returned(shares: dict[int, float]) -> None:
    lengths = {d: 1.0 + share * d for d, share in shares.items()}
    curve = AcceptanceCurve(lengths)
    assert {d: al(curve, d) for d in lengths} == lengths


@settings(deadline=None)
@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=8))
def test_interpolation_of_a_concave_curve_is_monotone(conditional: list[float]) -> None:
    # rates that fall from position to position: AL measured at every second length
    falling = sorted(conditional, reverse=True)
    lengths, value, share = {}, 1.0, 1.0
    for d, rate in enumerate(falling, start=1):
        share *= rate
        value += share
        lengths[d] = value
    known = {d: v for d, v in lengths.items() if d % 2 == 0 or d == len(lengths)}
    curve = AcceptanceCurve(known)
    values = [al(curve, d) for d in range(len(lengths) + 4)]
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("name", ["llama-3.1-8b-eagle3-cnn-dailymail-replay", "llama-3.1-8b-eagle3-gsm8k-replay"])
def test_two_measured_points_predict_five_within_eleven_percent_of_the_truth(name: str) -> None:
    """SpecDecode-Bench traces (arXiv 2601.11580), replayed at each D: a constant rate fitted at D = 1 over-predicts
    AL at D = 8 by 9 % or more; D = 1 and 3 together stay within 11 % at D = 5 (GUIDELINES, measured curves)."""
    full = curve_of(*shipped().acceptance(name).record.points)
    one, two = AcceptanceCurve({1: al(full, 1)}), AcceptanceCurve({1: al(full, 1), 3: al(full, 3)})
    assert al(one, 8) > 1.09 * al(full, 8)
    assert at(one, 8).low <= al(full, 8)
    assert al(two, 5) == pytest.approx(al(full, 5), rel=0.11)
    assert at(two, 5).low <= al(full, 5) <= at(two, 5).high


# ----------------------------------------------------------------------------------------------------- assumed


def test_assumed_lengths_are_marked_inside_and_extrapolated_outside() -> None:
    curve = AssumedLengths({1: 1.5, 3: 1.875})
    assert [at(curve, d).basis for d in (1, 2, 3, 4)] == ["assumed", "assumed", "assumed", "extrapolated"]
    assert al(curve, 2) == pytest.approx(1.75)
    assert curve.largest_measured == 3


@pytest.mark.parametrize(("draft_length", "value"), [(1, 2.01), (3, 4.5), (2, 0.99)])
def test_an_impossible_length_is_refused(draft_length: int, value: float) -> None:
    said = f"^--acceptance-length: AL .* at D = {draft_length} it lies between 1 and {1 + draft_length}; got"
    with pytest.raises(UsageError, match=said):
        AssumedLengths({draft_length: value})


def test_nothing_accepted_and_everything_accepted_are_possible() -> None:
    curve = AssumedLengths({1: 1.0, 3: 4.0})
    assert (al(curve, 1), al(curve, 3)) == (1.0, 4.0)


def test_a_length_of_no_draft_is_refused() -> None:
    with pytest.raises(UsageError, match="a draft length must be at least 1, got 0"):
        check_acceptance_length(0, 1.0, "--acceptance-length")


# ------------------------------------------------------------------------------------------------- by context


TABLE = [
    point(3, 2.3, context_tokens=2000),
    point(3, 1.4, context_tokens=10000),
    point(3, 1.1, context_tokens=20000),
]


def test_a_table_by_context_interpolates_inside_and_stops_outside() -> None:
    # halfway from 2000 to 10,000: (2.3 + 1.4) / 2
    assert al(curve_at_context(TABLE, 6000.0), 3) == pytest.approx(1.85)
    assert al(curve_at_context(TABLE, 10000.0), 3) == pytest.approx(1.4)
    assert al(curve_at_context(TABLE, 15000.0), 3) == pytest.approx(1.25)
    assert al(curve_at_context(TABLE, 20000.0), 3) == pytest.approx(1.1)
    assert al(curve_at_context(TABLE, 2000.0), 3) == pytest.approx(2.3)
    assert curve_at_context(TABLE, 1999.0) is None
    assert curve_at_context(TABLE, 20001.0) is None


def test_between_two_contexts_acceptance_is_interpolated_and_not_measured() -> None:
    assert at(curve_at_context(TABLE, 2000.0), 3).basis == "measured"
    between = at(curve_at_context(TABLE, 6000.0), 3)
    assert between.basis == "interpolated"
    assert between.low < 1.85 < between.high


def test_points_without_a_context_hold_at_any() -> None:
    free = [point(1, 1.6), point(3, 2.2)]
    for context in (1.0, 5000.0, 1e6):
        assert al(curve_at_context(free, context), 3) == 2.2
    mixed = [*TABLE, point(1, 1.6)]
    assert al(curve_at_context(mixed, 50000.0), 1) == 1.6
    assert al(curve_at_context(mixed, 6000.0), 1) == 1.6


def test_one_stated_context_is_a_condition_and_no_table() -> None:
    curve = curve_at_context([point(3, 2.3, context_tokens=2000)], 8000.0)
    assert curve is not None
    assert al(curve, 3) == 2.3


def test_only_lengths_measured_at_both_contexts_are_interpolated() -> None:
    points = [
        point(1, 1.6, context_tokens=1000),
        point(3, 2.3, context_tokens=1000),
        point(3, 1.9, context_tokens=3000),
    ]
    curve = curve_of(*points, context=2000.0)
    assert al(curve, 3) == pytest.approx(2.1)
    assert at(curve, 1).basis == "interpolated"


# -------------------------------------------------------------------------------------------- trees, other data


def test_a_tree_is_known_at_its_measured_shapes_alone() -> None:
    curve = curve_of(point(5, 3.0, verify_width=16), point(7, 3.4, verify_width=32))
    assert at(curve, 5) == AcceptanceEstimate(3.0, "measured", 3.0, 3.0, 16)
    assert at(curve, 7).verify_width == 32
    assert curve.estimate(6) is None
    assert curve.estimate(8) is None


def test_a_tree_between_two_contexts_keeps_its_width() -> None:
    points = [point(5, al, verify_width=16, context_tokens=tokens) for al, tokens in ((3.0, 1000), (2.0, 3000))]
    found = at(curve_of(*points, context=2000.0), 5)
    assert (found.acceptance_length, found.basis, found.verify_width) == (2.5, "interpolated", 16)
    assert curve_of(*points, context=2000.0).estimate(4) is None


def test_other_data_sets_widen_the_band_and_leave_the_value() -> None:
    own = AcceptanceCurve({1: 1.7, 3: 2.5})
    lower, higher = AcceptanceCurve({1: 1.5, 3: 2.0}), AcceptanceCurve({1: 1.8})
    found = at(widened(own, [lower, higher]), 3)
    assert (found.acceptance_length, found.basis) == (2.5, "measured")
    assert (found.low, found.high) == (2.0, 2.5)  # the other reaches to D = 1 only
    assert (at(widened(own, [lower, higher]), 1).low, at(widened(own, [lower, higher]), 1).high) == (1.5, 1.8)
    assert widened(own, [lower]).largest_measured == 3


def test_other_trees_do_not_speak_of_a_chain() -> None:
    own, tree = AcceptanceCurve({5: 2.5}), AcceptanceCurve({5: 4.0}, tree_widths={5: 60})
    assert at(widened(own, [tree]), 5).high == 2.5


# --------------------------------------------------------------------------------------------- shipped curves


@pytest.mark.parametrize("name", shipped().names("acceptance"))
def test_shipped_curves_stay_in_their_bounds(name: str) -> None:
    points = shipped().acceptance(name).record.points
    curve = curve_at_context(points, None)
    assert curve is not None
    assert curve.largest_measured >= 1
    for draft_length in range(curve.largest_measured + 5):
        found = curve.estimate(draft_length)
        if found is None:
            assert any(p.verify_width is not None for p in points)
            continue
        assert 1.0 <= found.low <= found.acceptance_length <= found.high <= 1.0 + draft_length


# --------------------------------------------------------------------------------------------- other data sets


def test_the_band_of_other_data_sets_does_not_end_with_the_last_measurement() -> None:
    own, low, high = (AcceptanceCurve({1: 1.6, 2: 2.0}), AcceptanceCurve({2: 1.5}), AcceptanceCurve({2: 2.5}))
    curve = widened(own, [low, high])
    assert (at(curve, 2).low, at(curve, 2).high) == (1.5, 2.5)
    # c = 0.4/0.6, so AL(3) = 2 + 0.4 * 2/3 = 2.2667: the gain over 1 grows by 1.2667, and the band with it
    assert al(curve, 3) == pytest.approx(2 + 0.4 * 2 / 3)
    assert at(curve, 3).low == pytest.approx(1 + 0.5 * (1 + 0.4 * 2 / 3))
    assert at(curve, 3).high == pytest.approx(1 + 1.5 * (1 + 0.4 * 2 / 3))


@pytest.mark.parametrize(
    ("own", "other", "draft_length", "band"),
    [
        # one point, c = 1/2: the gain grows from 0.5 to 0.75, 1.5 times; its own band reaches to half, 1.375
        ({1: 1.5}, {1: 1.2}, 2, (1.3, 1 + 0.75 * 1.05)),
        ({1: 1.5}, {1: 1.9}, 2, (1.375, 1 + 1.5 * 0.9)),
        # the gain grows from 1.2 to 2.2 (0.5 a token), more than the lengths do: no more than all 5 are accepted
        ({1: 1.2, 3: 2.2}, {3: 4.0}, 5, (1 + 2.2 * 0.85, 6.0)),
        # nothing accepted here: no gain to scale with
        ({1: 1.0}, {1: 1.5}, 2, (1.0, 1.0)),
    ],
)
def test_past_the_last_measurement_the_band_grows_as_the_gain_does(
    own: dict[int, float], other: dict[int, float], draft_length: int, band: tuple[float, float]
) -> None:
    found = at(widened(AcceptanceCurve(own), [AcceptanceCurve(other)]), draft_length)
    assert (found.low, found.high) == pytest.approx(band)
