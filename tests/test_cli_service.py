"""Serving questions, costs, users at a floor, schedules by context: what they add to sweep and recommend."""

from __future__ import annotations

import csv
import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from builders import put, toy_acceptance, toy_drafter, toy_hardware, toy_model, write_library, write_yaml
from cli_runs import Runner, write_toys

from specdec_cli.engines.settings import read_settings
from specdec_cli.report.columns import context_grid, point_grid, uplift_grid
from specdec_cli.report.render import render_recommend, render_sweep
from specdec_cli.report.words import guideline_reasons, number, uplift_sentence

SERVING = ("--input-tokens", "1000", "--output-tokens", "400")
SERVING_KEYS = {"serving_tpot_ms", "serving_throughput_tokens_per_s_per_gpu", "serving_speedup", "decode_batch"}
COST = "cost_usd_per_million_tokens"


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_toys(tmp_path_factory.mktemp("toys"))
    priced = put(put(toy_hardware("toy-priced"), "price_usd_per_hour", 3.6), "price_checked", "2026-01-02")
    return write_library(folder, priced)


# ------------------------------------------------------------------------------------------------- serving


@pytest.fixture
def served(specdec: Runner) -> dict[str, Any]:
    return specdec("sweep", *SERVING, "--batches", "2,16", "--draft-lengths", "0..2", format="json").data


def test_points_gain_the_serving_figures_only_when_asked(specdec: Runner, served: dict[str, Any]) -> None:
    assert all(set(point) >= SERVING_KEYS for point in served["points"])
    plain = specdec("sweep", "--batches", "2", format="json").data["points"]
    assert not any(SERVING_KEYS & set(point) for point in plain)
    assert served["inputs"]["input_tokens"] == {"value": 1000, "origin": "option"}
    assert served["inputs"]["output_tokens"] == {"value": 400, "origin": "option"}
    assert served["inputs"]["context"]["value"] == 1200


def test_serving_figures_are_what_their_names_say(served: dict[str, Any]) -> None:
    off = {point["batch"]: point for point in served["points"] if not point["draft_length"]}
    for point in served["points"]:
        plain = off[point["batch"]]
        assert point["serving_speedup"] == pytest.approx(plain["serving_tpot_ms"] / point["serving_tpot_ms"])
        rate = 1000 * point["decode_batch"] / point["serving_tpot_ms"] / point["gpus"]
        assert point["serving_throughput_tokens_per_s_per_gpu"] == pytest.approx(rate)
        assert point["decode_batch"] <= point["batch"]
        assert 1000 / point["serving_tpot_ms"] < point["interactivity_tokens_per_s_per_user"]
        if point["draft_length"]:
            assert 1 < point["serving_speedup"] < point["speedup"], point


def test_both_speedups_are_named_apart(served: dict[str, Any]) -> None:
    headers = point_grid(served["points"]).headers
    assert {"batch (concurrency)", "decode speedup", "serving speedup", "decode batch"} <= set(headers)
    for style in ("table", "markdown"):
        text = render_sweep(served, style).replace("\\", "")
        assert "batch is the concurrency: requests in flight on a replica" in text
        assert "prompts of 1,000 and answers of 400 tokens (1,200 tokens of context on average)" in text


def test_columns_of_a_plain_sweep_stay(specdec: Runner) -> None:
    data = specdec("sweep", "--batches", "2", format="json").data
    assert {"batch", "speedup"} <= set(point_grid(data["points"]).headers)
    assert "concurrency" not in render_sweep(data, "table")


@pytest.mark.parametrize("command", ["sweep", "recommend"])
def test_csv_has_every_key_of_the_points(specdec: Runner, command: str) -> None:
    limit = ("--batch", "2") if command == "recommend" else ()
    options = (*SERVING, *limit)
    data = specdec(command, *options, hardware="toy-priced", format="json").data
    rows = list(csv.DictReader(io.StringIO(specdec(command, *options, hardware="toy-priced", format="csv").out)))
    point = data["choice"] if command == "recommend" else data["points"][0]
    assert SERVING_KEYS | {COST, f"serving_{COST}"} <= set(rows[0])
    assert set(rows[0]) - {"role"} == set(point) - {"speculate"}
    assert {key: float(rows[0][key]) for key in SERVING_KEYS} == {key: point[key] for key in SERVING_KEYS}


def test_recommend_says_both_speedups(specdec: Runner) -> None:
    data = specdec("recommend", *SERVING, "--batch", "16", format="json").data
    choice = data["choice"]
    text = specdec("recommend", *SERVING, "--batch", "16").out
    first = text.splitlines()[0]
    assert first.startswith(f"At concurrency 16: draft length {choice['draft_length']} with toy-model-eagle3, decode")
    assert f"{choice['speedup']:.2f}x as fast" in first
    assert f"{choice['serving_speedup']:.2f}x with prefill between them" in first
    assert f"TPOT {number(choice['serving_tpot_ms'])} ms" in text


LOADS = {
    "off, though decoding gains": "--hardware h200-sxm --model qwen3-8b --drafter ngram --acceptance-rate 0.15 "
    "--input-tokens 8000 --output-tokens 16 --batch 4",
    "on, at another D than decoding alone": "--gpus 8 --input-tokens 1 --output-tokens 256 --batch 128",
    "short answers": "--input-tokens 1500 --output-tokens 8 --batch 64",
    "answers as usual": "--input-tokens 1000 --output-tokens 400 --batch 16",
}


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_under_load_every_answer_goes_by_the_same_figure(specdec: Runner, load: str) -> None:
    asked = load.split()
    batch = int(asked[-1])
    found = specdec.raw("recommend", *asked, "--format", "json").data
    choice, length = found["choice"], found["choice"]["draft_length"]
    assert specdec.raw("explain", *asked, "--format", "json").data["point"]["draft_length"] == length
    at = next(e for e in found["schedule"] if e["batch_from"] <= batch <= e["batch_to"])
    assert (at["draft_length"] in found["plateau"]) if length else at["draft_length"] == 0
    tie, gain = found["inputs"]["tie"]["value"], found["inputs"]["min_gain"]["value"]
    grid = specdec.raw("sweep", *asked[:-2], "--batches", str(batch), "--format", "json").data
    rivals = grid["points"]
    key = "serving_throughput_tokens_per_s_per_gpu"
    best = max(rivals, key=lambda point: float(point[key]))
    off = next(point for point in rivals if not point["draft_length"])
    assert choice[key] >= best[key] * (1 - tie) if length else best[key] <= off[key] * (1 + gain)
    runner_up = found["runner_up"]
    second = next(point for point in rivals if point["draft_length"] == runner_up["draft_length"])
    assert runner_up["margin"] == pytest.approx(choice[key] / second[key] - 1)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (("--input-tokens", "100"), "--output-tokens is missing"),
        (("--output-tokens", "100"), "--input-tokens is missing"),
        (("--input-tokens", "0", "--output-tokens", "1"), "--input-tokens must be at least 1"),
        ((*SERVING, "--context", "100"), "--context conflicts with --input-tokens"),
    ],
)
def test_serving_mistakes(specdec: Runner, options: tuple[str, ...], fragment: str) -> None:
    for command in ("sweep", "recommend", "compare", "explain"):
        answer = specdec(command, *options)
        assert (answer.code, answer.out) == (2, "")
        assert fragment in answer.err


# ---------------------------------------------------------------------------------------------------- cost


def test_cost_is_price_over_throughput(specdec: Runner) -> None:
    data = specdec("sweep", *SERVING, "--tp", "1,2", hardware="toy-priced", format="json").data
    for point in data["points"]:
        # 3.6 USD a GPU-hour is 1e-3 USD a second: 1e3 / (tokens/s/GPU) for a million tokens
        assert point[COST] == pytest.approx(1e3 / point["throughput_tokens_per_s_per_gpu"])
        rate = point["serving_throughput_tokens_per_s_per_gpu"]
        assert point[f"serving_{COST}"] == pytest.approx(1e3 / rate)


def test_no_price_no_cost(specdec: Runner) -> None:
    data = specdec("sweep", format="json").data
    assert COST not in data["points"][0]
    assert "USD" not in specdec("recommend", "--batch", "2").out


def test_where_only_one_chip_has_a_price_the_others_cost_is_null(specdec: Runner) -> None:
    options = ("--batches", "2")
    data = specdec("sweep", *options, hardware="toy-chip,toy-priced", format="json").data
    assert {(p["hardware"], p[COST] is None) for p in data["points"]} == {("toy-chip", True), ("toy-priced", False)}
    grid = point_grid(data["points"])
    cells = {row[grid.headers.index("hardware")]: row[grid.headers.index("USD/M tokens")] for row in grid.rows}
    assert cells["toy-chip"] == "-"
    assert cells["toy-priced"] != "-"


def test_price_and_its_date_are_said(specdec: Runner) -> None:
    for command in ("sweep", "recommend"):
        text = specdec(command, hardware="toy-priced").out
        assert "an example price for a GPU-hour, toy-priced 3.6 USD (checked 2026-01-02)" in text
    data = specdec("recommend", "--batch", "2", hardware="toy-priced", format="json").data
    assert data["scenarios"][0]["price_usd_per_hour"] == 3.6
    text = specdec("recommend", "--batch", "2", hardware="toy-priced").out
    assert f"{number(data['choice'][COST], 3)} USD for a million output tokens" in text


# --------------------------------------------------------------------------------------------------- users


def test_users_at_a_floor(specdec: Runner) -> None:
    """The largest batch whose users all get the floor, against a sweep of every batch."""
    data = specdec("recommend", "--min-interactivity", "60", "--tp", "2", format="json").data
    choice = data["choice"]
    everything = specdec("sweep", "--batches", "1..256", "--tp", "2", format="json").data["points"]

    def most(length: int) -> int:
        speed = "interactivity_tokens_per_s_per_user"
        return max((p["batch"] for p in everything if p["draft_length"] == length and p[speed] >= 60), default=0)

    assert data["users_per_replica"] == most(choice["draft_length"]) >= choice["batch"]
    assert data["users_per_replica_without"] == most(0)
    assert data["users_per_replica_without"] < data["users_per_replica"] < 256
    assert data["users_per_gpu"] == data["users_per_replica"] / 2
    assert data["users_per_gpu_without"] == data["users_per_replica_without"] / 2
    assert data["users_at_least"] is False
    said = specdec("recommend", "--min-interactivity", "60", "--tp", "2").out
    assert f"60 tokens/s each for up to {data['users_per_replica']} a replica" in said


def test_users_under_a_tpot_are_those_of_the_same_floor(specdec: Runner) -> None:
    floor = specdec("recommend", "--min-interactivity", "50", format="json").data
    tpot = specdec("recommend", "--max-tpot-ms", "20", format="json").data
    for key in ("users_per_replica", "users_per_gpu", "users_per_replica_without"):
        assert tpot[key] == floor[key]
    assert tpot["users_floor_tokens_per_s_per_user"] == pytest.approx(50)


def test_users_up_to_the_largest_batch_looked_at(specdec: Runner) -> None:
    data = specdec("recommend", "--min-interactivity", "10", "--batches", "1..8", format="json").data
    assert (data["users_per_replica"], data["users_at_least"]) == (8, True)
    assert "for at least 8 a replica" in render_recommend(data, "table")


def test_without_a_floor_users_are_null(specdec: Runner) -> None:
    data = specdec("recommend", "--batch", "4", format="json").data
    assert {key: value for key, value in data.items() if key.startswith("users")} == dict.fromkeys(
        (
            *("users_per_replica", "users_per_gpu", "users_per_replica_without", "users_per_gpu_without"),
            *("users_floor_tokens_per_s_per_user", "users_at_least"),
        )
    )
    assert "users" not in render_recommend(data, "table")


def test_uplift_shows_users_and_why_the_gain_can_exceed_al(specdec: Runner) -> None:
    names = dict.fromkeys(("profiles", "hardware", "model", "engine"))
    data = specdec("sweep", "--batches", "1..128:x2", format="json", **names).data
    grid = uplift_grid(data["uplift"])
    assert grid.headers[-2:] == ("users/GPU without", "with")
    for row, cells in zip(data["uplift"], grid.rows, strict=True):
        assert cells[-2:] == (number(row["users_per_gpu_without"], 3), number(row["users_per_gpu_with"], 3))
    most = max((row for row in data["uplift"] if row["uplift"]), key=lambda row: row["uplift"])
    longest = max(point["acceptance_length"] for point in data["points"])
    assert most["uplift"] > longest
    said = uplift_sentence(data)
    assert said is not None
    for part in (f"{longest:.2f}", number(most["users_per_gpu_with"], 3), number(most["users_per_gpu_without"], 3)):
        assert part in said
    for style in ("table", "markdown"):
        assert said in render_sweep(data, style).replace("\\", "")
    below = {**data, "uplift": [{**most, "uplift": longest - 0.01}]}
    assert uplift_sentence(below) is None
    assert uplift_sentence({**data, "uplift": []}) is None


# ------------------------------------------------------------------------------------------------ contexts


def test_schedule_by_context_is_the_schedule_at_each(specdec: Runner) -> None:
    data = specdec("recommend", "--schedule", "--contexts", "1k,4k,8k", format="json").data
    found = data["schedule_by_context"]
    assert data["inputs"]["contexts"] == {"value": [1024, 4096, 8192], "origin": "option"}
    assert [one["context_from"] for one in found] == [1, *(one["context_to"] + 1 for one in found[:-1])]
    assert found[-1]["context_to"] == 8192
    assert len(found) == 3
    for one in found:
        alone = specdec("recommend", "--schedule", "--context", str(one["context_to"]), format="json").data
        assert one["schedule"] == alone["schedule"]
        assert one["acceptance_known"] is True
    assert "schedule_by_context" not in specdec("recommend", "--schedule", format="json").data


def test_context_table_has_every_cell(specdec: Runner) -> None:
    data = specdec("recommend", "--schedule", "--contexts", "1k,4k,8k", "--batches", "1..600", format="json").data
    grid = context_grid(data["schedule_by_context"])
    assert len(grid.headers) == 5
    assert "1,025-4,096" in grid.headers[3]
    for row in grid.rows:
        first, last = int(row[0]), int(row[1])
        for one, cell in zip(data["schedule_by_context"], row[2:], strict=True):
            lengths = {
                entry["draft_length"]
                for batch in (first, last)
                for entry in one["schedule"]
                if entry["batch_from"] <= batch <= entry["batch_to"]
            }
            assert len(lengths) <= 1
            length = lengths.pop() if lengths else None
            assert cell == {None: "does not fit", 0: "0 (off)"}.get(length, str(length))
    assert "does not fit" in {cell for row in grid.rows for cell in row}
    edges = [(int(row[0]), int(row[1])) for row in grid.rows]
    assert all(later[0] == earlier[1] + 1 for earlier, later in pairwise(edges))
    for style in ("table", "markdown"):
        text = render_recommend(data, style).replace("\\", "")
        assert "Schedule by batch and context" in text
        assert "those of 2,048 tokens" in text


def test_unknown_acceptance_is_not_off(specdec: Runner, tmp_path: Path) -> None:
    drafter = write_yaml(tmp_path / "toy-model-eagle3.yaml", toy_drafter(window_tokens=2048))
    options = ("--schedule", "--contexts", "2k,4k")
    data = specdec("recommend", *options, drafter=str(drafter), format="json").data
    assert [one["acceptance_known"] for one in data["schedule_by_context"]] == [True, False]
    text = render_recommend(data, "table")
    assert "0 (unknown)" in text
    assert "--assume takes over" in text
    asked = specdec("recommend", *options, "--assume", drafter=str(drafter), format="json").data
    assert all(one["acceptance_known"] for one in asked["schedule_by_context"])


def test_contexts_conflict_with_a_context(specdec: Runner) -> None:
    for also in (("--context", "100"), SERVING):
        answer = specdec("recommend", "--contexts", "1k", *also)
        assert (answer.code, answer.out) == (2, "")
        assert "--contexts conflicts with --context" in answer.err


def test_schedule_says_that_ties_keep_a_range(specdec: Runner) -> None:
    text = specdec("recommend", "--schedule", "--tie", "0.05").out
    assert "A range keeps its D while that stays within the tie (5 %) of the best" in text


# ---------------------------------------------------------------------------------------------- guidelines


def test_full_working_shows_every_number(specdec: Runner) -> None:
    data = specdec("recommend", "--batch", "4", format="json").data
    for style in ("table", "markdown"):
        short = render_recommend(data, style).replace("\\", "")
        full = render_recommend(data, style, working=True).replace("\\", "")
        for rule in data["guidelines"]:
            for name, value in rule["numbers"].items():
                said = number(value) if isinstance(value, int | float) else str(value)
                if not isinstance(value, list) and value is not None:
                    assert any(name in line and said in line for line in full.splitlines()), (style, name)
        assert "acceptance_gain" in full
        assert "acceptance_gain" not in short
    assert specdec("recommend", "--batch", "4", "--explain-guidelines").out == render_recommend(
        data, "table", working=True
    )


def test_full_working_needs_a_point(specdec: Runner) -> None:
    answer = specdec("recommend", "--explain-guidelines")
    assert (answer.code, answer.out) == (2, "")
    assert "--explain-guidelines speaks of one point" in answer.err


def test_a_reason_is_given_once() -> None:
    rules = [{"id": "G1", "why": "a"}, {"id": "G2", "why": "b"}, {"id": "G3", "why": "b"}, {"id": "G4", "why": "c"}]
    assert guideline_reasons(rules) == ["a", "b", "As for G2.", "c"]


# ------------------------------------------------------------------------------------------- id to paste


@pytest.mark.parametrize(
    ("changes", "drafter", "options", "expected"),
    [
        ({}, {}, {}, "Toy/Base-165M"),
        ({"draft_checkpoint": "toy/eagle3-Base-165M-Instruct"}, {}, {}, "Toy/Base-165M-Instruct"),
        ({"notes": ["Measured on Base-165M-Instruct in bf16."]}, {}, {}, "Toy/Base-165M-Instruct"),
        ({"notes": ["It was a chat with Instruct models, or so it says."]}, {}, {}, "Toy/Base-165M"),
        ({}, {"aliases": ["toy/EAGLE3-165M-Chat"]}, {}, "Toy/Base-165M-Instruct"),
        ({"notes": ["On Base-165M-Instruct."]}, {}, {"model": "toy/base-165m"}, "Toy/Base-165M"),
    ],
)
def test_target_to_paste_is_the_one_whose_acceptance_was_measured(
    specdec: Runner,
    tmp_path: Path,
    changes: dict[str, Any],
    drafter: dict[str, Any],
    options: dict[str, str],
    expected: str,
) -> None:
    folder = write_library(
        tmp_path,
        toy_model(aliases=["Toy/Base-165M", "Toy/Base-165M-Instruct"]),
        toy_drafter(default=True, **{"aliases": ["toy/head"], **drafter}),
        toy_acceptance(default=True, **changes),
    )
    answer = specdec(
        "recommend",
        "--batch",
        "2",
        "--emit",
        "vllm",
        "--profiles",
        str(specdec.folder),
        profiles=str(folder),
        **options,
    )
    assert answer.code == 0, answer.err
    assert f"vllm serve {expected} " in answer.out
    assert read_settings("vllm", answer.out).mechanism == "eagle3"


def test_shipped_default_pastes_the_instruct_model(specdec: Runner) -> None:
    names = dict.fromkeys(("profiles", "hardware", "model", "engine"))
    assert "vllm serve meta-llama/Llama-3.1-8B-Instruct " in specdec("recommend", "--batch", "32", **names).out
