"""Axes as users write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.errors import UsageError
from specdec_cli.explore.axes import MOST_POINTS, check_points, parse_axis, parse_contexts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4", (4,)),
        ("1,2,4", (1, 2, 4)),
        ("4, 2 ,1,2", (1, 2, 4)),
        ("1..4", (1, 2, 3, 4)),
        ("3..3", (3,)),
        ("1..10:4", (1, 5, 9)),
        ("0..8:4", (0, 4, 8)),
        ("1..256:x2", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        ("1..300:x10", (1, 10, 100)),
        ("3..20:x2", (3, 6, 12)),
        ("1..4,8,16..32:8", (1, 2, 3, 4, 8, 16, 24, 32)),
        ("0", (0,)),
    ],
)
def test_axes(text: str, expected: tuple[int, ...]) -> None:
    assert parse_axis(text, "--batches", minimum=0) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no values"),
        (" ", "names no values"),
        ("1,,2", "names no values"),
        ("1,2,", "names no values"),
        ("8..1", "the range 8..1 runs backwards"),
        ("1..8:0", "the step of 1..8:0 must be at least 1"),
        ("0..8:x2", "must start at 1 or more"),
        ("1..8:x1", "a factor of 2 or more"),
        ("1..8:x0", "a factor of 2 or more"),
        ("one", "cannot read 'one'"),
        ("1.5", "cannot read '1.5'"),
        ("1...4", "cannot read '1...4'"),
        ("1-4", "cannot read '1-4'"),
        ("1..4:x", "cannot read '1..4:x'"),
        ("1..4:2:2", "cannot read"),
        ("4:1", "cannot read"),
        ("0x10", "cannot read"),
        ("nan", "cannot read"),
        ("-1", "must be at least 0, got -1"),
        ("-3..2", "must be at least 0, got -3"),
    ],
)
def test_axes_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_axis(text, "--draft-lengths", minimum=0)
    assert "--draft-lengths" in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_number_of_thousands_of_digits_is_no_crash() -> None:
    with pytest.raises(UsageError, match="--batches"):
        parse_axis("9" * 5000, "--batches", minimum=1)


def test_the_minimum_is_named() -> None:
    with pytest.raises(UsageError, match="--batches must be at least 1, got 0"):
        parse_axis("0,1", "--batches", minimum=1)


@pytest.mark.parametrize("text", ["1..10000000", "1..5000001", "1..999999999999", f"0..{MOST_POINTS}"])
def test_too_many_points_are_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(UsageError, match=r"more than 5,000,000; shorten an axis or use a factor, as in 1\.\.256:x2"):
        parse_axis(text, "--batches", minimum=0)


def test_points_are_counted_between_the_ends() -> None:
    assert parse_axis("4999999..5000000", "--batches", minimum=0) == (4999999, 5000000)
    assert parse_axis("8000000..16000000:4000000", "--batches", minimum=0) == (8000000, 12000000, 16000000)
    with pytest.raises(UsageError, match=r"--batches: 5,000,001 points"):
        parse_axis("1..10000001:2", "--batches", minimum=0)


@pytest.mark.parametrize(
    ("text", "expected"), [("1", (1,)), ("1k,8K, 32k", (1024, 8192, 32768)), ("8192,100,8k", (100, 8192))]
)
def test_contexts(text: str, expected: tuple[int, ...]) -> None:
    assert parse_contexts(text, "--contexts") == expected


@pytest.mark.parametrize("text", ["", "0", "0k", "-1", "1.5k", "1m", "1k,", "1k,,2k", "k", "1..4", "9" * 19])
def test_contexts_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"--contexts: cannot read .*; write tokens, k for 1024"):
        parse_contexts(text, "--contexts")


def test_points_up_to_the_bound_pass() -> None:
    check_points(MOST_POINTS, "the sweep")
    with pytest.raises(UsageError, match=r"the sweep: 5,000,001 points"):
        check_points(MOST_POINTS + 1, "the sweep")


def test_factors_reach_far_without_many_points() -> None:
    assert len(parse_axis("1..1000000000000:x2", "--batches", minimum=1)) == 40


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_a_list_is_its_sorted_set(values: list[int]) -> None:
    assert parse_axis(",".join(map(str, values)), "--batches", minimum=0) == tuple(sorted(set(values)))


@settings(deadline=None)
@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 60))
def test_a_range_is_pythons(first: int, length: int, step: int) -> None:
    found = parse_axis(f"{first}..{first + length}:{step}", "--batches", minimum=0)
    assert found == tuple(range(first, first + length + 1, step))
