"""Bounded least squares against hand-worked answers and a search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.explore.least_squares import bounded_least_squares


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
