"""`specdec explain`: the parts are the whole, in the JSON to 1e-9 and in every table to the last digit shown."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import put, toy_engine, toy_hardware, toy_kernels, toy_moe_model, toy_overheads, write_yaml
from cli_runs import Answer, Runner
from toys import toy_library, toy_options

from specdec_cli.explore.explain import Line
from specdec_cli.explore.explain import explain as take_apart
from specdec_cli.explore.scenario import DEFAULTS, Options, resolve
from specdec_cli.profiles.library import Library
from specdec_cli.report.columns import Grid
from specdec_cli.report.explain import explain_record
from specdec_cli.report.explain_page import HEADERS, pass_grids, render_explain, step_units
from specdec_cli.report.rounding import shown

REAL = {"profiles": None, "engine": None}
SHIPPED = {
    "dense": ({"model": "llama-3.1-8b", "hardware": "h100-sxm"}, ()),
    "moe": ({"model": "deepseek-v3", "hardware": "h200-sxm"}, ("--tp", "8", "--context", "8192")),
    "look-up": ({"model": "llama-3.1-8b", "hardware": "h100-sxm"}, ("--drafter", "ngram")),
    "block": ({"model": "qwen3-8b", "hardware": "b200-sxm"}, ("--drafter", "qwen3-8b-dflash-b16")),
}


@pytest.fixture(params=SHIPPED)
def explained(request: pytest.FixtureRequest, specdec: Runner) -> dict[str, Any]:
    """Points of shipped profiles: dense, latent attention with experts, a look-up, a block drafter."""
    names, options = SHIPPED[request.param]
    answer = specdec("explain", "--batch", "8", "--draft-length", "2", *options, format="json", **{**REAL, **names})
    assert answer.code == 0, answer.err
    return answer.data


# ------------------------------------------------------------------------------------------------- the record


def test_contract(specdec: Runner) -> None:
    data = specdec("explain", "--batch", "4", "--draft-length", "2", format="json").data
    assert list(data)[:8] == [
        *("schema", "specdec_version", "inputs", "point", "formula", "numbers", "result", "passes"),
    ]
    assert data["schema"] == "specdec.explain/1"
    assert [one["pass"] for one in data["passes"]] == ["target", "verify", "draft"]
    keys = {"flops", "bytes", "gemm_m", "peak_tflops_per_s", "achieved_tflops_per_s", "time_ms", "share", "bound"}
    for one in data["passes"]:
        for part in (*one["groups"], *one["operations"]):
            assert keys | {"lower_ms", "upper_ms"} <= set(part)
        for operation in one["operations"]:
            assert {"formula", "numbers", "compute_ms", "memory_ms", "fixed_ms"} <= set(operation)


def test_parts_add_up_unrounded(explained: dict[str, Any]) -> None:
    point = explained["point"]
    for one in explained["passes"]:
        assert one["time_ms"] == pytest.approx(point[f"{one['pass']}_ms"], rel=1e-9)
        for parts in (one["groups"], [*one["operations"], *one["overheads"]]):
            for key in ("time_ms", "lower_ms", "upper_ms"):
                assert math.fsum(part[key] for part in parts) == pytest.approx(one[key], rel=1e-9, abs=1e-12)
            assert math.fsum(part["share"] for part in parts) == pytest.approx(1, rel=1e-9)
    verify, draft = explained["passes"][1:]
    assert verify["time_ms"] + draft["time_ms"] == pytest.approx(point["step_ms"], rel=1e-9)


def test_the_formula_gives_the_result(explained: dict[str, Any]) -> None:
    numbers, point = explained["numbers"], explained["point"]
    step = numbers["verify_ms"] + numbers["draft_ms"]
    assert explained["result"] == pytest.approx(numbers["acceptance_length"] * numbers["target_ms"] / step)
    assert explained["result"] == point["speedup"]


def test_bounds_hold_the_time(explained: dict[str, Any]) -> None:
    for one in explained["passes"]:
        for part in (one, *one["groups"], *one["operations"]):
            assert part["lower_ms"] <= part["time_ms"] * (1 + 1e-9)
            assert part["time_ms"] <= part["upper_ms"] * (1 + 1e-9)


def test_achieved_is_work_over_time_and_below_the_peak(explained: dict[str, Any]) -> None:
    for one in explained["passes"]:
        for part in one["operations"]:
            assert part["achieved_gb_per_s"] == pytest.approx(part["bytes"] / part["time_ms"] / 1e6)
            assert part["achieved_tflops_per_s"] == pytest.approx(part["flops"] / part["time_ms"] / 1e9)
            if part["peak_tflops_per_s"] is not None:
                assert part["achieved_tflops_per_s"] <= part["peak_tflops_per_s"]
            largest = max(("memory", "compute", "fixed"), key=lambda side: part[f"{side}_ms"])
            assert part["bound"] == {"fixed": "latency"}.get(largest, largest)


def test_toy_figures_by_hand(specdec: Runner) -> None:
    # gate, up of 10 toy layers: N = 8000, K = 1000 in bf16; F = 2 x 4 tokens x 8e6 x 10 = 6.4e8, weights 1.6e8 bytes,
    # activations 4 x 9000 x 2 x 10 = 7.2e5; 1e12 FLOP/s and 1e11 B/s that add: 0.64 ms + 1.6072 ms
    data = specdec("explain", "--batch", "4", "--draft-length", "0", format="json").data
    (one,) = data["passes"]
    operation = next(part for part in one["operations"] if part["name"] == "gate, up")
    assert operation["flops"] == 6.4e8
    assert operation["bytes"] == 1.6072e8
    assert operation["gemm_m"] == 4
    assert operation["time_ms"] == pytest.approx(0.64 + 1.6072)
    assert operation["lower_ms"] == pytest.approx(1.6072)
    assert operation["upper_ms"] == pytest.approx(0.64 + 1.6072)
    assert operation["bound"] == "memory"
    assert operation["peak_tflops_per_s"] == 1.0


def lines_of(found: Sequence[Line]) -> dict[tuple[str, str], Line]:
    return {(line.phase, line.name): line for line in found}


def test_rows_and_repeats_of_each_line_by_hand(tmp_path: Path) -> None:
    # two requests, D = 3: 8 verified tokens; attention's rows are G = 4 times the width
    question = resolve(toy_library(tmp_path), toy_options(context=1000))
    found = take_apart(question, 2, 3)
    verify, draft = lines_of(found.verify), lines_of(found.draft)
    assert (verify["verify", "gate, up"].gemm_m, verify["verify", "attention"].gemm_m) == (8, 16)
    assert verify["verify", "logits"].gemm_m is None
    # one first pass, two further ones, the head three times; the layer counts once in each
    assert {phase: line.count for (phase, name), line in draft.items() if name in ("gate, up", "lm_head")} == {
        "first pass": 1,
        "further passes": 2,
        "head of each pass": 3,
    }
    numbers = verify["verify", "attention"].numbers
    assert {key: numbers[key] for key in ("requests", "width", "context", "group_size", "floor_us")} == {
        "requests": 2.0,
        "width": 4.0,
        "context": 1000.0,
        "group_size": 4.0,
        "floor_us": 0.0,
    }
    assert not {"name", "group", "count", "window"} & set(numbers)
    # a single draft token takes no further pass, a look-up none at all
    assert "further passes" not in {line.phase for line in take_apart(question, 2, 1).draft}
    lookup = toy_options(context=1000, drafter="toy-ngram", acceptance_rate=0.5)
    assert take_apart(resolve(toy_library(tmp_path / "b"), lookup), 2, 3).draft == ()
    assert found.grid.draft_lengths.tolist() == [0, 3]


def test_rows_of_experts_and_latent_attention_by_hand(tmp_path: Path) -> None:
    # 16 experts, 2 for each of 4 tokens: 16 (1 - (7/8)^4) of them get 8 rows together
    mla = {"type": "mla", "heads": 16, "q_lora_rank": 64, "kv_lora_rank": 512}
    mla |= {"nope_head_dim": 128, "rope_head_dim": 64, "v_head_dim": 128}
    model = toy_moe_model(attention={"full": mla})
    asked = toy_options(model="toy-moe", drafter="toy-ngram", acceptance_rate=0.5, context=1000)
    verify = lines_of(take_apart(resolve(toy_library(tmp_path, model), asked), 2, 1).verify)
    distinct = 16 * (1 - (7 / 8) ** 4)
    assert verify["verify", "experts"].gemm_m == pytest.approx(8 / distinct)
    assert verify["verify", "experts"].numbers["distinct_experts"] == pytest.approx(distinct)
    assert verify["verify", "attention (MLA)"].gemm_m == 16 * 2


def test_overheads_are_the_engines(specdec: Runner, tmp_path: Path) -> None:
    overheads = toy_overheads(step_ms=1.0, per_request_us=100.0, speculation_ms=0.5, draft_pass_ms=0.25)
    engine = write_yaml(tmp_path / "slow.yaml", toy_engine("slow", overheads=overheads))
    data = specdec("explain", "--batch", "4", "--draft-length", "2", engine=str(engine), format="json").data
    found = {one["pass"]: {part["name"]: part["time_ms"] for part in one["overheads"]} for one in data["passes"]}
    assert found["target"] == pytest.approx({"step": 1.0, "requests": 0.4})
    assert found["verify"] == pytest.approx({"step": 1.0, "requests": 0.4, "entry_fee": 0.5})
    assert found["draft"] == pytest.approx({"draft_passes": 0.5})  # two passes of 0.25 ms


# ------------------------------------------------------------------------------------------------- the tables


def numbers_of(grid: Grid, header: str) -> list[tuple[str, float | None]]:
    """(name, number) of each row in a column; None: the cell is empty."""
    at = grid.headers.index(header)
    cells = [row[at].replace(",", "").removesuffix(" %") for row in grid.rows]
    return [(row[0], float(cell) if cell else None) for row, cell in zip(grid.rows, cells, strict=True)]


def groups_of(rows: list[tuple[str, float | None]]) -> Iterator[tuple[float, list[float]]]:
    """Each group's number with those of the rows below it."""
    inside: list[float] = []
    whole: float | None = None
    for name, value in rows[:-1]:
        if not name.startswith("  "):
            if whole is not None:
                yield whole, inside
            whole, inside = value, []
        elif value is not None:
            inside.append(value)
    if whole is not None:
        yield whole, inside


def test_every_table_adds_up_to_the_last_digit(explained: dict[str, Any]) -> None:
    for _, grid in pass_grids(explained):
        for header in ("GFLOP", "GB", "ms", "share", "lower ms", "upper ms"):
            rows = numbers_of(grid, header)
            total = rows[-1][1]
            if total is None:  # a look-up moves nothing
                continue
            tops = [value for name, value in rows[:-1] if not name.startswith("  ") and value is not None]
            assert math.fsum(tops) == pytest.approx(total, abs=1e-9), header
            for whole, inside in groups_of(rows):
                assert math.fsum(inside) == pytest.approx(whole, abs=1e-9), header
        assert numbers_of(grid, "share")[-1] == ("all", 100.0)


def test_the_same_time_stands_everywhere(explained: dict[str, Any]) -> None:
    units, decimals = step_units(explained)
    assert units["verify"] + units["draft"] == units["step"]
    text = render_explain(explained, "table")
    formula = next(line for line in text.splitlines() if " ms / (" in line)
    for name, (title, grid) in zip(("target", "verify", "draft"), pass_grids(explained), strict=True):
        said = shown(units[name], decimals)
        assert f"{said} ms" in title
        assert said in formula
        assert grid.rows[-1][grid.headers.index("ms")] == said


def test_table_and_markdown_show_the_same(explained: dict[str, Any]) -> None:
    table, markdown = render_explain(explained, "table"), render_explain(explained, "markdown").replace("\\", "")
    for title, grid in pass_grids(explained):
        assert title in table
        assert title in markdown
        for row in grid.rows:
            assert [word for cell in row for word in cell.split()] in [line.split() for line in table.splitlines()]
            assert f"| {' | '.join(' '.join(cell.split()) for cell in row)} |" in markdown
    for one in explained["passes"][1:]:
        for operation in one["operations"]:
            assert operation["formula"] in table
            assert operation["formula"] in markdown
    assert "Rests on" in table


def test_csv_is_the_record(explained: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(render_explain(explained, "csv"))))
    parts = [part for one in explained["passes"] for part in (*one["operations"], *one["overheads"])]
    assert [float(row["time_ms"]) for row in rows] == [part["time_ms"] for part in parts]
    assert [row["name"] for row in rows] == [part["name"] for part in parts]


def test_lower_and_upper_come_from_the_launches(specdec: Runner, tmp_path: Path) -> None:
    kernels = toy_kernels(small_kernels_us_per_layer=100.0)
    chip = write_yaml(tmp_path / "slow.yaml", put(toy_hardware("slow"), "kernels.default", kernels))
    options = ("--batch", "4", "--draft-length", "0")
    fast = specdec("explain", *options, format="json").data["passes"][0]
    slow = specdec("explain", *options, hardware=str(chip), format="json").data["passes"][0]
    # ten layers of 0.1 ms: in the time and the upper bound, not in the lower one
    assert slow["time_ms"] - fast["time_ms"] == pytest.approx(1.0)
    assert slow["upper_ms"] - fast["upper_ms"] == pytest.approx(1.0)
    assert slow["lower_ms"] == pytest.approx(fast["lower_ms"])


# ------------------------------------------------------------------------------------------------ the question


def test_off_has_the_target_pass_alone(specdec: Runner) -> None:
    answer = specdec("explain", "--draft-length", "0", format="json")
    assert [one["pass"] for one in answer.data["passes"]] == ["target"]
    assert answer.data["result"] == 1
    assert "speculation off" in specdec("explain", "--draft-length", "0").out.splitlines()[0]


def test_defaults_are_the_batch_of_the_record_and_the_recommended_length(specdec: Runner) -> None:
    data = specdec("explain", format="json").data
    assert data["inputs"]["batch"] == {"value": DEFAULTS.explained_batch, "origin": "default"}
    batch = str(DEFAULTS.explained_batch)
    choice = specdec("recommend", "--batch", batch, format="json").data["choice"]
    assert data["inputs"]["draft_length"] == {"value": choice["draft_length"], "origin": "default"}
    assert data["point"]["step_ms"] == pytest.approx(choice["step_ms"])
    assert not {"batches", "draft_lengths"} & set(data["inputs"])


def test_axes_of_one_value_name_the_point_too(specdec: Runner) -> None:
    one = specdec("explain", "--batch", "4", "--draft-length", "2", format="json").data
    other = specdec("explain", "--batches", "4", "--draft-lengths", "2", format="json").data
    assert one == other


def test_point_is_the_sweeps(specdec: Runner) -> None:
    options = ("--batches", "4", "--draft-lengths", "2")
    (point,) = specdec("sweep", *options, format="json").data["points"]
    explained = specdec("explain", *options, format="json").data["point"]
    assert {**explained, "on_frontier": point["on_frontier"]} == point


def test_serving_figures_join(specdec: Runner) -> None:
    options = ("--batches", "4", "--draft-lengths", "2", "--input-tokens", "1000", "--output-tokens", "200")
    (point,) = specdec("sweep", *options, format="json").data["points"]
    answer = specdec("explain", *options, format="json")
    for key in ("serving_tpot_ms", "serving_speedup", "decode_batch", "serving_throughput_tokens_per_s_per_gpu"):
        assert answer.data["point"][key] == pytest.approx(point[key])
    text = specdec("explain", *options).out
    assert text.startswith("Concurrency 4, ")
    assert "serving        TPOT" in text


MISTAKES = {
    "two batches": (["--batches", "1,2"], 2, ["--batches names 2 values", "--batch 1"]),
    "batch twice": (["--batch", "1", "--batches", "1"], 2, ["--batch and --batches conflict"]),
    "length twice": (
        ["--draft-length", "1", "--draft-lengths", "1"],
        2,
        ["--draft-length and --draft-lengths conflict"],
    ),
    "negative batch": (["--batch", "-1"], 2, ["--batch must be at least 1, got -1"]),
    "negative length": (["--draft-length", "-1"], 2, ["--draft-length must be at least 0, got -1"]),
    "nothing drafts": (["--drafter", "none", "--draft-length", "3"], 2, ["--drafter none", "--draft-length 3"]),
    "several layouts": (["--tp", "1,2"], 2, ["one point apart", "--tp"]),
    "half a serving question": (["--input-tokens", "10"], 2, ["--output-tokens is missing"]),
    "out of memory": (["--batch", "1000000"], 4, ["batch 1000000", "out_of_memory", "GB usable"]),
}


@pytest.mark.parametrize(("arguments", "code", "fragments"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(specdec: Runner, arguments: list[str], code: int, fragments: list[str]) -> None:
    answer: Answer = specdec("explain", *arguments)
    assert (answer.code, answer.out) == (code, "")
    assert "Traceback" not in answer.err
    for fragment in fragments:
        assert fragment in answer.err


def test_headers_say_their_units() -> None:
    for word in ("GFLOP", "GB", "ms", "TFLOP/s", "GEMM-M"):
        assert any(re.fullmatch(rf"(\w+ )?{word}", header) for header in HEADERS)


def test_what_a_calibration_moves_is_a_part_of_its_own(toys: Path) -> None:
    question = resolve(Library([toys]), Options(hardware="toy-chip", model="toy-model", engine="toy-engine"))
    found = take_apart(question, 4, 2)
    times = msgspec.structs.replace(found.grid.times, verify_s=found.grid.times.verify_s * 0.9)
    record = explain_record(replace(found, grid=msgspec.structs.replace(found.grid, times=times)), inputs={})
    verify = record["passes"][1]
    assert verify["time_ms"] == record["point"]["verify_ms"]
    moved = {part["name"]: part["time_ms"] for part in verify["overheads"]}["calibration"]
    assert moved == pytest.approx(-verify["time_ms"] / 9)
    assert math.fsum(part["time_ms"] for part in verify["groups"]) == pytest.approx(verify["time_ms"])
    assert "calibration" not in {part["name"] for part in record["passes"][0]["overheads"]}
    grid = pass_grids(record)[1][1]
    rows = numbers_of(grid, "ms")
    assert math.fsum(value or 0 for name, value in rows[:-1] if name.startswith("  ")) == pytest.approx(rows[-1][1])


def test_a_draft_that_no_engine_drafts_is_refused_as_in_a_sweep(specdec: Runner) -> None:
    for length in ("1025", "1000000000000"):
        answer = specdec.raw("explain", "--batch", "1", "--draft-length", length, "--acceptance-rate", "1")
        assert answer.code == 2
        assert f"no engine drafts {length} tokens; at most 1024" in answer.err
