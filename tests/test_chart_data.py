"""What pictures are drawn from: the record's numbers, the step in parts, and thinning that leaves frontiers whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chart_toys import toy_answer, toy_sweep

from specdec_cli.report import chart_data as module
from specdec_cli.report.chart_data import STEP_PARTS, chart_data
from specdec_cli.report.chart_page import columns_of
from specdec_cli.report.records import sweep_record


def test_points_are_those_of_the_record(tmp_path: Path) -> None:
    sweep = toy_sweep(tmp_path)
    record = sweep_record(sweep)
    rows = chart_data(sweep, None).points
    assert len(rows) == len(record["points"])
    for row, point in zip(rows, record["points"], strict=True):
        assert {key: row[key] for key in point} == point


@pytest.mark.parametrize("drafter", ["toy-model-eagle3", "ngram"])
def test_parts_add_up_to_the_step(tmp_path: Path, drafter: str) -> None:
    sweep = toy_sweep(tmp_path, drafter=drafter, acceptance_rate=0.6)
    for row in chart_data(sweep, None).points:
        parts = [row[name] for name in STEP_PARTS]
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(row["step_ms"])
        assert row["ms_per_token"] == pytest.approx(1e3 / row["interactivity_tokens_per_s_per_user"])
        if row["draft_length"] == 0:
            assert row["verify_adds_ms"] == row["draft_kernels_ms"] == 0


def test_ridge_is_where_neighbours_lie_on_both_sides_of_one(tmp_path: Path) -> None:
    sweep = toy_sweep(tmp_path)
    rows = {(row["batch"], row["draft_length"]): row for row in chart_data(sweep, None).points if row["draft_length"]}
    batches = sweep.grids[0].scenario.batches
    seen = 0
    for (batch, length), row in rows.items():
        at = batches.index(batch)
        right = rows.get((batches[at + 1], length)) if at + 1 < len(batches) else None
        up = rows.get((batch, length + 1))
        for key, other in (("ridge_right", right), ("ridge_up", up)):
            crosses = other is not None and (row["speedup"] >= 1) != (other["speedup"] >= 1)
            assert row[key] == crosses
            seen += crosses
    assert seen > 2  # the toy's ridge is there to be found


def test_thinning_leaves_the_frontiers_whole_and_says_so(tmp_path: Path) -> None:
    found = toy_answer(tmp_path, 33, batches="1..3000", draft_lengths="0..16", acceptance_rate=0.6, context=16)
    sweep = found.sweep
    assert len(sweep.points) > 50_000
    data = chart_data(sweep, found.choice)
    drawn = {(row["batch"], row["draft_length"]): row for row in data.points}
    assert len(data.points) < 12_000
    for line in data.series:
        for index in line.frontier:
            key = int(sweep.points.batch[index]), int(sweep.points.draft_length[index])
            assert drawn[key]["on_line"]
    assert data.left_out == (
        f"{len(data.points):,} of {len(sweep.points):,} points are drawn: every point of the frontiers, and an even "
        "selection of the others"
    )
    page = json.dumps(columns_of(data.points), separators=(",", ":"))
    assert len(page) < 1.9e6  # beside 0.9 MB of JavaScript, in a file of at most 3 MB
    assert data.chosen is not None
    assert data.chosen["batch"] == 33
    assert {row["batch"] for row in data.points if row["on_grid"]} >= {1, 33}


def test_frontiers_too_long_for_a_page_are_thinned_evenly_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ON_LINES", 20)
    sweep = toy_sweep(tmp_path, batches="1..300", draft_lengths="0,2")
    data = chart_data(sweep, None)
    assert sum(row["on_line"] for row in data.points) <= 20
    assert data.left_out is not None
    assert "thinned evenly" in data.left_out
    for line in data.series:
        ends = {int(sweep.points.batch[line.frontier[at]]) for at in (0, -1)}
        assert ends <= {row["batch"] for row in data.points if row["on_line"] and row["series"] == line.name}


def test_nothing_is_said_where_nothing_is_left_out(tmp_path: Path) -> None:
    assert chart_data(toy_sweep(tmp_path), None).left_out is None


def test_refused_cells_have_their_reason(tmp_path: Path) -> None:
    data = chart_data(toy_sweep(tmp_path, batches="1,4096", draft_lengths="0..2"), None)
    assert [(cell["batch"], cell["draft_length"], cell["reason"]) for cell in data.refused] == [
        (4096, 1, "out_of_memory"),
        (4096, 2, "out_of_memory"),
    ]
    assert "GB" in data.refused[0]["detail"]


def test_acceptance_keeps_measured_and_extrapolated_apart(tmp_path: Path) -> None:
    rows = chart_data(toy_sweep(tmp_path, draft_lengths="0..9", assume=True), None).acceptance
    known = [row["draft_length"] for row in rows if row["known"]]
    beyond = [row["draft_length"] for row in rows if not row["known"]]
    assert known
    assert beyond
    assert max(known) < min(beyond)
    assert [row["draft_length"] for row in rows if row["joins"]] == [max(known)]
    assert all(row["acceptance_basis"] == "extrapolated" for row in rows if not row["known"])


def test_columns_come_back_as_the_rows(tmp_path: Path) -> None:
    rows = chart_data(toy_sweep(tmp_path), None).points
    table = columns_of(rows)
    back = [
        {
            key: table["texts"][key][values[at]] if key in table["texts"] else values[at]
            for key, values in table["columns"].items()
        }
        for at in range(table["length"])
    ]
    for row, other in zip(rows, back, strict=True):
        assert row.keys() == other.keys()
        for key, value in row.items():
            if isinstance(value, float):
                assert other[key] == pytest.approx(value, rel=5e-5)
            else:
                assert other[key] == value
