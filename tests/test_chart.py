"""The chart in the terminal: it fits, it says where the points are, and the heat strip holds the speedups."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from chart_toys import toy_answer, toy_sweep

from specdec_cli.report.chart import MARKERS, Look, terminal_chart
from specdec_cli.report.page import columns_of
from specdec_cli.report.series import OFF, series_of

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def bare(text: str) -> str:
    return ESCAPES.sub("", text)


def drawing(text: str) -> list[str]:
    """The rows between the axes, without the gutter."""
    return [line[9:] for line in text.splitlines() if len(line) > 8 and line[8] in "│┤"]


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("letters", [False, True])
def test_every_line_fits(tmp_path: Path, width: int, log: bool, letters: bool) -> None:
    found = toy_answer(tmp_path, 8)
    text = terminal_chart(found.sweep, found.choice, Look(width=width, log=log, ascii=letters))
    assert max(map(columns_of, text.splitlines())) <= width
    assert text.isascii() == letters


@pytest.mark.parametrize("log", [False, True])
def test_colour_adds_colour_alone(tmp_path: Path, log: bool) -> None:
    found = toy_answer(tmp_path, 8)
    plain = terminal_chart(found.sweep, found.choice, Look(log=log))
    coloured = terminal_chart(found.sweep, found.choice, Look(log=log, colour=True))
    assert "\x1b" not in plain
    assert "\x1b[38;5;" in coloured
    stripped = [line.rstrip() for line in bare(coloured).splitlines()]
    assert stripped == plain.splitlines()


@pytest.mark.parametrize("log", [False, True])
def test_markers_stand_where_the_points_are(tmp_path: Path, log: bool) -> None:
    """Each line's markers, read back from the drawing, are its frontier in the same order."""
    sweep = toy_sweep(tmp_path, batches="1,4,16,64", draft_lengths="0,2")
    rows = drawing(terminal_chart(sweep, None, Look(width=160, log=log)))
    for at, line in enumerate(series_of(sweep)):
        spots = [(c, -r) for r, row in enumerate(rows) for c, letter in enumerate(row) if letter == MARKERS[at]]
        assert len(spots) == len(line.frontier)
        columns, heights = zip(*sorted(spots), strict=True)
        x, y = sweep.points.interactivity[line.frontier], sweep.points.throughput[line.frontier]
        if log:
            x, y = np.log(x), np.log(y)
        # Affine in x and y: a straight line through the cells, to within the rounding of a cell.
        for values, cells in ((x, columns), (y, heights)):
            slope, offset = np.polyfit(values, np.asarray(cells, dtype=float), 1)
            assert slope > 0
            assert np.abs(slope * values + offset - cells).max() <= 1.0


def test_points_are_labelled_with_their_draft_length_and_the_choice_is_marked(tmp_path: Path) -> None:
    found = toy_answer(tmp_path, 8, draft_lengths="0,3")
    text = terminal_chart(found.sweep, found.choice, Look())
    points = found.sweep.points
    (drafting,) = [line for line in series_of(found.sweep) if line.speculates]
    labels = "".join(drawing(text)).count("3")
    assert labels >= len(drafting.frontier) - 2  # the chosen has its own; one may find no room
    chosen = f"B=8 D={points.draft_length[found.choice]}"
    rows = drawing(text)
    (star,) = [at for at, row in enumerate(rows) if "★" in row]
    assert any(chosen in row for row in rows[max(star - 1, 0) : star + 2])
    assert f"★ chosen: batch 8, D = {points.draft_length[found.choice]}" in text


def test_off_can_be_the_choice(tmp_path: Path) -> None:
    found = toy_answer(tmp_path, 64, draft_lengths="0,4")
    assert found.choice is not None
    assert "★ chosen: batch 64, D = 0 (off)" in terminal_chart(found.sweep, found.choice, Look())


def test_axis_ticks_are_round_and_in_place(tmp_path: Path) -> None:
    sweep = toy_sweep(tmp_path)
    text = terminal_chart(sweep, None, Look(width=160))
    heights = [
        (at, float(line[:7].replace("k", "e3")))
        for at, line in enumerate(text.splitlines())
        if len(line) > 8 and line[8] == "┤"
    ]
    assert len(heights) >= 3
    rows, values = zip(*heights, strict=True)
    fit = np.polyfit(rows, values, 1)
    per_row = abs(fit[0])
    assert np.abs(np.polyval(fit, rows) - values).max() <= per_row


def test_strip_holds_the_speedups_and_the_ridge(tmp_path: Path) -> None:
    sweep = toy_sweep(tmp_path)
    lines = terminal_chart(sweep, None, Look(width=100)).splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("speedup over no speculation, EAGLE-3"))
    batches = [int(word) for word in lines[start + 1].split()]
    assert batches == list(sweep.grids[0].scenario.batches)
    grid = sweep.grids[0]
    for at, length in enumerate(grid.draft_lengths.tolist()):
        if length == 0:
            continue
        line = lines[start + 1 + at]
        assert line.startswith(f"D={length}")
        values = [float(word) for word in re.findall(r"\d+\.\d\d", line)]
        assert values == pytest.approx(grid.speedup[:, at], abs=0.01)
        # A bar before each batch at which the row changes sides; D = 0 is even, so the row starts above.
        sides = [True, *(grid.speedup[:, at] >= 1.0).tolist()]
        crossings = [i for i in range(len(batches)) if sides[i] != sides[i + 1]]
        bars = [match.start() for match in re.finditer("┃", line)]
        assert bars == [4 + 7 * i for i in crossings]
        for i, value in enumerate(grid.speedup[:, at]):
            best = value == grid.speedup[i, 1:].max() and value > 1
            assert (line[10 + 7 * i : 11 + 7 * i] == "*") == best


def test_a_loss_is_not_rounded_away(tmp_path: Path) -> None:
    sweep = toy_sweep(tmp_path)
    text = terminal_chart(sweep, None, Look(width=100))
    for row in re.findall(r"^D=.*$", text, re.MULTILINE):
        after = row.partition("┃")[2]
        assert all(float(value) < 1.0 for value in re.findall(r"\d+\.\d\d", after))


def test_what_does_not_fit_is_a_dot_and_the_choice_is_boxed(tmp_path: Path) -> None:
    found = toy_answer(tmp_path, 8, batches="8,64,4096", draft_lengths="0..2")
    lines = terminal_chart(found.sweep, found.choice, Look()).splitlines()
    row = next(line for line in lines if line.startswith(f"D={found.sweep.points.draft_length[found.choice]}"))
    assert re.search(r"\[1\.\d\d\]", row)
    assert row.endswith(".")


def test_more_batches_than_fit_are_counted(tmp_path: Path) -> None:
    text = terminal_chart(toy_sweep(tmp_path, batches="1..64"), None, Look(width=80))
    assert "54 of 64 batches not shown" in text


def test_without_a_drafter_there_is_one_line_and_no_strip(tmp_path: Path) -> None:
    text = terminal_chart(toy_sweep(tmp_path, drafter="none"), None, Look())
    assert OFF in text
    assert "speedup over" not in text
    assert "D beside" not in text


def test_lists_get_a_line_each(tmp_path: Path) -> None:
    sweep = toy_sweep(tmp_path, hardware="toy-chip,toy-chip-2")
    names = [line.name for line in series_of(sweep)]
    assert names == [
        "no speculation, 1 x toy-chip",
        "no speculation, 1 x toy-chip-2",
        "EAGLE-3, 1 x toy-chip",
        "EAGLE-3, 1 x toy-chip-2",
    ]
    text = terminal_chart(sweep, None, Look())
    assert all(name in text for name in names)


def test_drafters_of_one_mechanism_keep_their_names(tmp_path: Path) -> None:
    sweep = toy_sweep(tmp_path, drafter="ngram,suffix,toy-model-eagle3", acceptance_rate=0.5)
    assert [line.name for line in series_of(sweep)] == [OFF, "n-gram", "suffix", "EAGLE-3"]


def test_frontiers_of_lines_are_their_own(tmp_path: Path) -> None:
    """Against the definition: nothing of a line beats a point of its frontier, and something beats the rest."""
    sweep = toy_sweep(tmp_path)
    x, y = sweep.points.interactivity, sweep.points.throughput
    for line in series_of(sweep):
        kept = set(line.frontier.tolist())
        for i in line.points.tolist():
            beaten = any(x[j] >= x[i] and y[j] >= y[i] and (x[j] > x[i] or y[j] > y[i]) for j in line.points.tolist())
            assert beaten != (i in kept)
