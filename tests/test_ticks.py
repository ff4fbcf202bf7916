"""Round numbers on axes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.report.ticks import evenly, linear_ticks, log_ticks, short


def test_linear_ticks_take_the_smallest_round_step_that_fits() -> None:
    assert linear_ticks(0, 360, 4) == [0, 100, 200, 300]
    assert linear_ticks(0, 360, 8) == [0, 50, 100, 150, 200, 250, 300, 350]
    assert linear_ticks(0.11, 0.19, 5) == [0.12, 0.14, 0.16, 0.18]
    assert linear_ticks(5, 5, 4) == [5]


def test_log_ticks_thin_out() -> None:
    assert log_ticks(30, 700, 9) == [50, 100, 200, 500]
    assert log_ticks(1, 10_000, 9) == [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000]
    assert log_ticks(1, 10_000, 5) == [1, 10, 100, 1000, 10_000]


@given(st.floats(1e-3, 1e6), st.floats(1.01, 1e4), st.integers(2, 12))
def test_ticks_lie_inside_and_are_few(low: float, factor: float, most: int) -> None:
    high = low * factor
    for ticks in (linear_ticks(low, high, most), log_ticks(low, high, most)):
        assert len(ticks) <= most
        assert all(low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) for tick in ticks)
        assert ticks == sorted(set(ticks))


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.5, "0.5"), (120.0, "120"), (1500.0, "1.5k"), (12e3, "12k"), (2e6, "2M")]
)
def test_short(value: float, text: str) -> None:
    assert short(value) == text


def test_evenly_keeps_ends_and_the_one_wanted() -> None:
    assert evenly(range(5), 9) == [0, 1, 2, 3, 4]
    assert evenly(range(101), 5) == [0, 25, 50, 75, 100]
    assert evenly(range(101), 5, keep=30) == [0, 30, 50, 75, 100]
    assert evenly(range(101), 5, keep=1) == [0, 1, 50, 75, 100]
    assert evenly(range(101), 1) == [0]
