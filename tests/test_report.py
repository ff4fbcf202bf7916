"""Answers as records and as text: the contract's keys, one record behind every format, nothing cut or misread."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import toy_acceptance, toy_drafter, toy_hardware, write_yaml
from cli_runs import Runner
from conftest import REPO

from specdec_cli.report.columns import Grid, point_grid, schedule_grid, uplift_grid
from specdec_cli.report.json import render_json
from specdec_cli.report.markdown import escape
from specdec_cli.report.page import Page, columns_of
from specdec_cli.report.records import finite
from specdec_cli.report.render import render_recommend, render_sweep
from specdec_cli.report.words import answer_sentence, number, percent, plateau, runner_up_sentence, times

STYLES = ("table", "json", "csv", "markdown")

SWEEP_KEYS = [
    "schema",
    "specdec_version",
    "inputs",
    "points",
    "frontier",
    "baseline_frontier",
    "infeasible",
    "warnings",
]
POINT_KEYS = [
    *("batch", "draft_length", "verify_width", "acceptance_length", "acceptance_basis", "target_ms", "verify_ms"),
    *("draft_ms", "step_ms", "speedup", "speedup_low", "speedup_high", "interactivity_tokens_per_s_per_user"),
    *("throughput_tokens_per_s_per_gpu", "bound", "on_frontier", "drafter", "hardware", "tp"),
]
RECOMMEND_KEYS = [
    *("schema", "specdec_version", "inputs", "choice", "plateau", "alternatives", "guidelines", "pays_from_batch"),
    *("pays_to_batch", "schedule", "engine_settings", "warnings"),
]


@pytest.fixture
def swept(specdec: Runner) -> dict[str, Any]:
    """A sweep of two layouts with interpolated and extrapolated acceptance, and points that do not fit."""
    options = ("--batches", "1,8,64,20000", "--draft-lengths", "0..6", "--tp", "1,2")
    return specdec("sweep", *options, format="json").data


@pytest.fixture
def recommended(specdec: Runner) -> dict[str, Any]:
    return specdec("recommend", "--batch", "4", format="json").data


# ---------------------------------------------------------------------------------------------- the contract


def test_sweep_holds_the_contract(swept: dict[str, Any]) -> None:
    assert list(swept)[: len(SWEEP_KEYS)] == SWEEP_KEYS
    assert swept["schema"] == "specdec.sweep/1"
    for entry in swept["inputs"].values():
        assert set(entry) == {"value", "origin"}
        assert entry["origin"] in ("default", "option", "profile", "calibration")
    for point in swept["points"]:
        assert list(point)[: len(POINT_KEYS)] == POINT_KEYS
    assert {point["acceptance_basis"] for point in swept["points"]} == {"measured", "interpolated", "extrapolated"}
    for entry in swept["infeasible"]:
        assert list(entry)[:4] == ["batch", "draft_length", "reason", "detail"]
        assert {"drafter", "hardware", "tp"} <= set(entry)
    assert {entry["reason"] for entry in swept["infeasible"]} == {"out_of_memory"}
    for warning in swept["warnings"]:
        assert list(warning) == ["code", "message"]


def test_points_are_what_their_names_say(swept: dict[str, Any]) -> None:
    for point in swept["points"]:
        length, step = point["draft_length"], point["step_ms"]
        assert point["verify_width"] == 1 + length
        assert 1 <= point["acceptance_length"] <= 1 + length
        assert step == pytest.approx(point["verify_ms"] + point["draft_ms"])
        assert point["speedup"] == pytest.approx(point["acceptance_length"] * point["target_ms"] / step)
        assert point["speedup_low"] <= point["speedup"] <= point["speedup_high"]
        each = point["interactivity_tokens_per_s_per_user"]
        assert each == pytest.approx(1000 * point["acceptance_length"] / step)
        assert point["throughput_tokens_per_s_per_gpu"] == pytest.approx(point["batch"] * each / point["tp"])
        assert point["bound"] in ("memory", "compute", "latency")
        if length == 0:
            assert (point["draft_ms"], point["speedup"], point["drafter"]) == (0, 1, "none")
            assert point["verify_ms"] == point["target_ms"] == step
        else:
            assert point["drafter"] == "toy-model-eagle3"


def test_frontiers_are_indices_of_what_nothing_beats(swept: dict[str, Any]) -> None:
    def of(index: int) -> tuple[float, float]:
        point = swept["points"][index]
        return point["interactivity_tokens_per_s_per_user"], point["throughput_tokens_per_s_per_gpu"]

    plain = [index for index, point in enumerate(swept["points"]) if point["draft_length"] == 0]
    for indices, among in ((swept["frontier"], range(len(swept["points"]))), (swept["baseline_frontier"], plain)):
        unbeaten = {
            index
            for index in among
            if not any(
                of(other) != of(index) and of(other)[0] >= of(index)[0] and of(other)[1] >= of(index)[1]
                for other in among
            )
        }
        assert set(indices) == unbeaten
        speeds = [of(index)[0] for index in indices]
        assert speeds == sorted(speeds)
    marked = {index for index, point in enumerate(swept["points"]) if point["on_frontier"]}
    assert marked == set(swept["frontier"])


def test_frontier_only_keeps_the_frontier(specdec: Runner) -> None:
    whole = specdec("sweep", format="json").data
    only = specdec("sweep", "--frontier-only", format="json").data
    kept = [only["points"][index] for index in only["frontier"]]
    assert kept == [whole["points"][index] for index in whole["frontier"]]
    assert len(only["points"]) == len(only["frontier"])
    assert only["points_left_out"] == len(whole["points"]) - len(only["points"])
    assert all(only["points"][index]["draft_length"] == 0 for index in only["baseline_frontier"])
    assert only["uplift"] == whole["uplift"]


def test_uplift_compares_equal_speeds(swept: dict[str, Any]) -> None:
    assert swept["uplift"]
    for row in swept["uplift"]:
        with_, without = row["throughput_with_tokens_per_s_per_gpu"], row["throughput_without_tokens_per_s_per_gpu"]
        speed = row["interactivity_tokens_per_s_per_user"]
        if with_ is None or without is None:
            assert row["uplift"] is None
            assert "does not reach" in row["reason"]
        else:
            assert row["reason"] is None
            assert row["uplift"] == pytest.approx(with_ / without)
            assert row["users_per_gpu_with"] == pytest.approx(with_ / speed)


def test_recommend_holds_the_contract(recommended: dict[str, Any]) -> None:
    assert list(recommended)[: len(RECOMMEND_KEYS)] == RECOMMEND_KEYS
    assert recommended["schema"] == "specdec.recommend/1"
    choice = recommended["choice"]
    assert choice["speculate"] is True
    assert set(POINT_KEYS) <= set(choice)
    assert choice["draft_length"] in recommended["plateau"]
    assert [rule["id"] for rule in recommended["guidelines"]] == ["G1", "G2", "G3", "G4", "G5"]
    for rule in recommended["guidelines"]:
        assert list(rule) == ["id", "title", "applies", "why", "numbers", "suggests", "verdict"]
        assert rule["verdict"] in ("follows", "departs", "not_applicable")
        assert rule["numbers"]
    for entry in recommended["schedule"]:
        assert list(entry) == ["batch_from", "batch_to", "draft_length"]


def test_split_adds_up_to_the_step(recommended: dict[str, Any]) -> None:
    split, choice = recommended["split"], recommended["choice"]
    assert split["target_ms"] + split["verify_adds_ms"] + split["draft_ms"] == pytest.approx(choice["step_ms"])
    assert split["target_share"] + split["verify_adds_share"] + split["draft_share"] == pytest.approx(1)
    assert split["target_ms"] == pytest.approx(choice["target_ms"])


def test_runner_up_and_its_margin(recommended: dict[str, Any]) -> None:
    second, first = recommended["alternatives"][0], recommended["choice"]
    margin = first["throughput_tokens_per_s_per_gpu"] / second["throughput_tokens_per_s_per_gpu"] - 1
    assert recommended["runner_up"]["margin"] == pytest.approx(margin)
    assert recommended["runner_up"]["draft_length"] == second["draft_length"]
    assert recommended["runner_up"]["maximised"] == "throughput"


def test_no_number_is_infinite() -> None:
    record = {"points": [{"draft_ms": math.nan, "ok": 1.0}], "deep": {"list": [1.0, math.inf]}, "warnings": []}
    cleaned = finite(record)
    assert cleaned["points"] == [{"draft_ms": None, "ok": 1.0}]
    assert cleaned["deep"]["list"] == [1.0, None]
    (warning,) = cleaned["warnings"]
    assert warning["code"] == "not_finite"
    assert "points[0].draft_ms" in warning["message"]
    assert "deep.list[1]" in warning["message"]
    assert math.isnan(record["points"][0]["draft_ms"])  # type: ignore[index]
    with pytest.raises(ValueError, match="JSON"):
        render_json({"x": math.nan})


# -------------------------------------------------------------------------------------- formats that agree


def csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def as_csv(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)


def markdown_tables(text: str) -> list[list[list[str]]]:
    """Each table's rows of cells, the rule left out, escapes undone."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("| "):
            inside = False
            continue
        if not inside:
            tables.append([])
        inside = True
        cells = [cell.replace("\\", "") for cell in line.removeprefix("| ").removesuffix(" |").split(" | ")]
        if set(cells[0]) - set("-:"):
            tables[-1].append(cells)
    return tables


def test_csv_has_the_json_in_full(swept: dict[str, Any]) -> None:
    rows = csv_rows(render_sweep(swept, "csv"))
    assert [list(row) for row in rows] == [list(point) for point in swept["points"]]
    for row, point in zip(rows, swept["points"], strict=True):
        assert row == {key: as_csv(value) for key, value in point.items()}


def test_recommend_csv_has_the_json_in_full(specdec: Runner, recommended: dict[str, Any]) -> None:
    rows = csv_rows(render_recommend(recommended, "csv"))
    points = [recommended["choice"], *recommended["alternatives"]]
    assert [row.pop("role") for row in rows] == ["choice", *["alternative"] * (len(points) - 1)]
    for row, point in zip(rows, points, strict=True):
        assert row == {key: as_csv(value) for key, value in point.items() if key != "speculate"}
    schedule = specdec("recommend", format="json").data
    assert csv_rows(render_recommend(schedule, "csv")) == [
        {key: str(value) for key, value in entry.items()} for entry in schedule["schedule"]
    ]


def grids_of(record: dict[str, Any]) -> Iterator[Grid]:
    if "points" in record:
        yield point_grid(record["points"])
        yield uplift_grid(record["uplift"])
    else:
        yield schedule_grid(record["schedule"])


@pytest.mark.parametrize("which", ["swept", "recommended"])
def test_table_and_markdown_show_the_same_cells(which: str, request: pytest.FixtureRequest) -> None:
    record = request.getfixturevalue(which)
    render = render_sweep if which == "swept" else render_recommend
    grids = list(grids_of(record))
    tables = markdown_tables(render(record, "markdown"))
    assert tables == [[[cell.strip() for cell in row] for row in (grid.headers, *grid.rows)] for grid in grids]
    lines = [line.split() for line in render(record, "table").splitlines()]
    for grid in grids:
        for row in (grid.headers, *grid.rows):
            assert [word for cell in row for word in cell.split()] in lines


def test_table_cells_are_the_records_values_rounded(swept: dict[str, Any]) -> None:
    grid = point_grid(swept["points"])
    assert grid.headers[:3] == ("tp", "gpus", "batch")
    assert "drafter" not in grid.headers
    keys = {
        "batch": "batch",
        "D": "draft_length",
        "tokens/s/user": "interactivity_tokens_per_s_per_user",
        "tokens/s/GPU": "throughput_tokens_per_s_per_gpu",
        "target ms": "target_ms",
        "verify ms": "verify_ms",
        "draft ms": "draft_ms",
        "speedup": "speedup",
    }
    for row, point in zip(grid.rows, swept["points"], strict=True):
        cells = dict(zip(grid.headers, row, strict=True))
        for header, key in keys.items():
            shown = float(cells[header].replace(",", "").removesuffix("x"))
            assert shown == pytest.approx(point[key], rel=6e-3, abs=5.1e-3)
        mark = {"measured": " ", "interpolated": "~", "extrapolated": "!"}[point["acceptance_basis"]]
        assert cells["AL"] == f"{point['acceptance_length']:.2f}{mark}"
        assert cells["frontier"] == ("*" if point["on_frontier"] else "")


def test_table_counts_what_cannot_be_and_says_what_it_rests_on(swept: dict[str, Any]) -> None:
    text = render_sweep(swept, "table")
    count = len(swept["infeasible"])
    assert f"{count} infeasible points, not listed:" in text
    assert f"{count} out of memory, from batch 20000" in text
    assert "~ interpolated, ! extrapolated" in text
    assert "acceptance measured on toy chat, temperature 0 by this test" in text
    assert "[acceptance_extrapolated]" in text
    assert "by default: context" in text


def test_drafter_and_hardware_columns_stand_where_they_differ(specdec: Runner) -> None:
    options = ("--acceptance-rate", "0.6", "--drafter", "eagle3,ngram", "--batches", "1")
    data = specdec("sweep", *options, hardware="toy-chip,toy-chip-2", format="json").data
    assert point_grid(data["points"]).headers[:3] == ("hardware", "drafter", "batch")
    assert {point["drafter"] for point in data["points"]} == {"none", "toy-model-eagle3", "ngram"}
    assert "acceptance assumed (each token 0.6 likely" in render_sweep(data, "table")


def test_recommend_says_the_answer_first(recommended: dict[str, Any]) -> None:
    for style in ("table", "markdown"):
        text = render_recommend(recommended, style)
        first = text.splitlines()[0]
        length, gain = recommended["choice"]["draft_length"], recommended["choice"]["speedup"]
        for part in (f"draft length {length} with", f"{gain:.2f}x"):
            assert part in first
        for rule in recommended["guidelines"]:
            assert f"{rule['id']} {rule['verdict'].replace('_', ' ')}" in text
        assert number(recommended["split"]["target_ms"]) in text
        assert percent(recommended["split"]["draft_share"]) in text
    table = render_recommend(recommended, "table")
    for rule in recommended["guidelines"]:
        assert table.count(rule["why"]) == 1


def test_settings_to_paste_are_those_of_the_answers_engine(specdec: Runner) -> None:
    data = specdec("recommend", "--batch", "4", engine="vllm", format="json").data
    text = render_recommend(data, "table")
    for line in data["engine_settings"]["vllm"]["text"].splitlines():
        assert f"  {line}\n" in text
    assert "sglang" not in text
    fenced = render_recommend(data, "markdown").split("```")[1].strip("\n")
    assert fenced == data["engine_settings"]["vllm"]["text"].strip("\n")


# ------------------------------------------------------------------------------------------- nothing cut

NASTY = "[red]bold[/red] | `x` <b> $(rm) \u4f60\u597d e\u0301"


@pytest.mark.parametrize("style", STYLES)
def test_names_are_never_read_as_markup(specdec: Runner, tmp_path: Path, style: str) -> None:
    measured = write_yaml(tmp_path / "nasty.yaml", toy_acceptance("nasty", data_set=NASTY))
    answer = specdec("sweep", acceptance=str(measured), format=style)
    assert answer.code == 0
    if style == "json":
        assert answer.out.isascii()
        assert answer.data["scenarios"][0]["data_set"] == NASTY
    elif style == "table":
        assert NASTY in answer.out
    elif style == "markdown":
        assert escape(NASTY) in answer.out
    assert NASTY in answer.err


def test_control_letters_do_not_reach_a_terminal(specdec: Runner, tmp_path: Path) -> None:
    measured = write_yaml(tmp_path / "nasty.yaml", toy_acceptance("nasty", data_set="a\x1b[2Jb\nc"))
    answer = specdec("sweep", acceptance=str(measured))
    assert answer.code == 0
    assert "\x1b" not in answer.out
    assert "a\\x1b[2Jb c" in answer.out
    assert "\x1b" not in answer.err


@pytest.mark.parametrize("columns", ["1", "20", "80", "300"])
def test_piped_table_is_whole_at_any_width(toys: Path, columns: str, specdec: Runner) -> None:
    command = [sys.executable, "-m", "specdec_cli", "sweep", "--profiles", str(toys), "--hardware", "toy-chip"]
    command += ["--model", "toy-model", "--engine", "toy-engine"]
    environment = {**os.environ, "COLUMNS": columns, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(command, cwd=REPO, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == specdec("sweep").out
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) > 100
    assert "\u2026" not in done.stdout


def test_long_names_are_whole(specdec: Runner, tmp_path: Path) -> None:
    name = "a-chip-with-a-name-" + "x" * 80
    chip = write_yaml(tmp_path / f"{name}.yaml", toy_hardware(name))
    answer = specdec("sweep", "--batches", "1", hardware=f"toy-chip,{chip}")
    assert f"{name}   " in answer.out


def test_prose_wraps_on_a_terminal_and_tables_do_not(swept: dict[str, Any]) -> None:
    lines = render_sweep(swept, "table", width=50, colour=False).splitlines()
    piped = render_sweep(swept, "table").splitlines()
    grid_lines = len(swept["points"]) + 2
    assert lines[:grid_lines] == piped[:grid_lines]
    prose = [line for line in lines[grid_lines:] if not line.startswith("-") and "   " not in line.strip()]
    assert max(len(line) for line in prose if " " in line.strip()) <= 50  # a path alone on its line is not broken
    assert " ".join("".join(lines).split()).replace(" ", "") == " ".join("".join(piped).split()).replace(" ", "")


def test_colour_only_adds_colour(swept: dict[str, Any], recommended: dict[str, Any]) -> None:
    for render, record in ((render_sweep, swept), (render_recommend, recommended)):
        coloured = render(record, "table", width=None, colour=True)
        assert "\x1b[1m" in coloured
        assert re.sub(r"\x1b\[\d*m", "", coloured) == render(record, "table")


def test_columns_line_up_whatever_the_letters() -> None:
    page = Page(None, False)
    page.table(Grid(("name", "n"), (False, True), (("\u4f60\u597d", "1"), ("e\u0301tat", "22"), ("ab", "333"))))
    rows = page.text.splitlines()
    assert {columns_of(row) for row in (rows[0], *rows[2:])} == {columns_of(rows[1])}


# ---------------------------------------------------------------------------------------------- wording


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.123456, "0.1235"),
        (12.3456, "12.35"),
        (999.96, "1,000.0"),
        (1234.5, "1,234"),
        (123456.0, "123,456"),
        (7, "7"),
        (123456, "123,456"),
        (-3.25, "-3.250"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert number(value) == text


def test_small_words() -> None:
    assert plateau([3, 4, 5, 7]) == "3-5, 7"
    assert plateau([2]) == "2"
    assert percent(0.5) == "50 %"
    assert percent(0.1234) == "12.3 %"
    assert times(2.2459) == "2.25x"
    assert times(None) == "-"


def test_sentences_of_a_choice(recommended: dict[str, Any]) -> None:
    assert answer_sentence(recommended).startswith("At batch 4: draft length ")
    off = {**recommended["choice"], "speculate": False, "draft_length": 0}
    said = answer_sentence({**recommended, "choice": off, "off_because": "no draft length gains more than 2 %"})
    assert said == "At batch 4: speculation off (no draft length gains more than 2 %)."
    without = {**recommended, "choice": None, "pays_from_batch": 2, "pays_to_batch": 64}
    assert answer_sentence(without) == "Speculation pays from batch 2 to 64."
    never = {**without, "pays_from_batch": None, "pays_to_batch": None}
    assert answer_sentence(never) == f"Speculation does not pay at any batch up to {recommended['swept_batches'][1]}."


def test_runner_up_in_words(recommended: dict[str, Any]) -> None:
    second = {"drafter": "toy-model-eagle3", "batch": 4, "draft_length": 3, "maximised": "throughput"}
    ahead = {**recommended, "runner_up": {**second, "margin": -0.012, "within_tie": True}}
    assert runner_up_sentence(ahead) == ("D = 3, 1.2 % ahead in throughput, within the tie: the shorter draft is taken")
    behind = {**second, "drafter": "ngram", "batch": 8, "margin": 0.25, "within_tie": False}
    assert runner_up_sentence({**recommended, "runner_up": behind}) == (
        "D = 3 with ngram at batch 8, 25 % behind in throughput"
    )
    assert runner_up_sentence({**recommended, "runner_up": None}) is None


def test_drafter_of_any_kind_is_listed(specdec: Runner, tmp_path: Path) -> None:
    drafter = write_yaml(tmp_path / "toy-dflash.yaml", toy_drafter("toy-dflash", "dflash"))
    options = ("--acceptance-length", "1=1.8,4=3", "--batches", "1")
    data = specdec("sweep", *options, drafter=str(drafter), format="json").data
    assert data["scenarios"][0]["mechanism"] == "dflash"
    assert "? assumed" in render_sweep(data, "table")
