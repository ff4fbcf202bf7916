"""Parts that add up to the whole, to the last digit shown."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.report.rounding import apportioned, decimals_for, in_units, shown

PARTS = st.lists(st.floats(0, 1e4, allow_nan=False), min_size=1, max_size=12)
DECIMALS = st.integers(0, 4)


def test_largest_remainders_get_the_missing_units() -> None:
    # 0.4 + 0.4 + 0.2 = 1.0: rounded alone they would be 0, 0, 0; the first of the two largest remainders gets the 1
    assert apportioned([0.4, 0.4, 0.2], 1, 0) == [1, 0, 0]
    # thirds of 100.0 %: 33.3 three times is 99.9, the missing 0.1 goes to the first
    assert apportioned([100 / 3] * 3, 1000, 1) == [334, 333, 333]
    assert apportioned([1.26, 2.58, 6.16], 100, 1) == [
        12,
        26,
        62,
    ]  # remainders .6, .8, .6; floors 12, 25, 61: two short


def test_parts_of_a_part_add_up_to_what_it_was_given() -> None:
    # 2.5 shown as 3 (its sister's 2.5 as 2): its own parts must make 3
    halves = apportioned([2.5, 2.5], 5, 0)
    assert halves == [3, 2]
    assert sum(apportioned([0.8, 0.8, 0.9], halves[0], 0)) == 3
    assert sum(apportioned([0.8, 0.8, 0.9], halves[1], 0)) == 2


@given(PARTS, DECIMALS)
def test_sum_is_the_rounded_whole_and_no_part_is_off_by_a_unit(parts: list[float], decimals: int) -> None:
    whole = in_units(math.fsum(parts), decimals)
    found = apportioned(parts, whole, decimals)
    assert sum(found) == whole
    for part, units in zip(parts, found, strict=True):
        assert abs(units - part * 10**decimals) < 1 + 1e-6
        assert units >= 0


@given(st.lists(PARTS, min_size=1, max_size=5), DECIMALS)
def test_nested_parts_add_up_at_every_level(groups: list[list[float]], decimals: int) -> None:
    sums = [math.fsum(group) for group in groups]
    shares = apportioned(sums, in_units(math.fsum(sums), decimals), decimals)
    for group, share in zip(groups, shares, strict=True):
        found = apportioned(group, share, decimals)
        assert sum(found) == share
        assert all(abs(units - part * 10**decimals) < 1 + 1e-6 for part, units in zip(group, found, strict=True))


def test_negative_part_is_taken_off() -> None:
    assert sum(apportioned([3.7, -0.6], 31, 1)) == 31
    assert apportioned([3.7, -0.6], 31, 1) == [37, -6]


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (7.11663, 4, "7.1166"),
        (37.847, 3, "37.847"),
        (0.0234, 4, "0.0234"),
        (123456.0, 0, "123,456"),
        (0.0, 4, "0.0000"),
    ],
)
def test_digits_of_a_whole(value: float, decimals: int, text: str) -> None:
    assert decimals_for(value) == decimals
    assert shown(in_units(value, decimals), decimals) == text
