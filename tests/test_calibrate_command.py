"""`specdec calibrate` and `--calibration`: files in, a calibration out, the plan of runs, exit codes, all formats."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from builders import toy_calibration, write_yaml
from cli_runs import Answer, Runner
from conftest import REPO

from specdec_cli.cli import app
from specdec_cli.engines.calibration_plan import FORCED_NOTE, Plan, PlanRequest, plan_runs
from specdec_cli.engines.read.plain_table import COLUMNS, is_plain_table
from specdec_cli.engines.read.runs import read_runs
from specdec_cli.engines.settings import FAMILIES, read_settings
from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.profiles.load import load_file

# The toy engine has no overheads: at a context of 1000 tokens a plain step of the toy model takes 3.1 ms of weights,
# 0.1 of KV and 0.32 of arithmetic.
TABLE = """\
# three runs of my own
batch,draft_length,acceptance_length,step_ms,context
1,0,,5.0,1000
1,1,1.7,7.0,1000
1,4,2.8,10.0,1000
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return written(tmp_path, TABLE)


def written(folder: Path, text: str, name: str = "runs.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(answer: Answer, code: int, *fragments: str) -> None:
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    for fragment in ("error: ", *fragments):
        assert fragment in answer.err


# ------------------------------------------------------------------------------------------------ the answer


def test_three_runs_settle_it(specdec: Runner, table: Path) -> None:
    answer = specdec("calibrate", str(table), "--context", "1000", "--format", "json")
    assert answer.code == 0, answer.err
    data = answer.data
    assert data["schema"] == "specdec.calibration/1"
    assert [row["step_ms"] for row in data["rows"]] == [5.0, 7.0, 10.0]
    assert all(abs(row["error"]) < 0.01 for row in data["rows"])
    assert all(row["place"] == f"{table}:{line}" for row, line in zip(data["rows"], (3, 4, 5), strict=True))
    assert data["errors"]["prior_median"] > 0.2
    assert data["errors"]["worst"] < 0.01
    assert data["errors"]["left_out_median"] > data["errors"]["median"]
    assert data["valid"] == {"batch": [1.0, 1.0], "draft_length": [0, 4], "context_tokens": [1000.0, 1000.0]}
    names = {one["name"]: (one["prior"], one["fitted"]) for one in data["constants"]}
    assert names["step_ms"][0] == 0.0 < names["step_ms"][1]
    split = data["plain_step"]
    assert split["step_ms"] == 5.0
    assert split["over_ideal"] == pytest.approx(5.0 / split["ideal_ms"])
    assert split["unexplained_ms"] == pytest.approx(5.0 - split["prior_ms"])
    assert data["inputs"]["model"] == {"value": "toy-model", "origin": "option"}
    assert data["inputs"]["drafter"]["origin"] == "default"
    assert data["profile"] is None


def test_every_format_says_the_same(specdec: Runner, table: Path) -> None:
    arguments = (str(table), "--context", "1000")
    said = specdec("calibrate", *arguments).out
    for words in (
        "measured ms",
        "left out",
        "What moved",
        "entry fee",
        "weights and cache need",
        "errors of steps",
        "holds for batches 1 to 2, D up to 4",
        "Nothing was written",
    ):
        assert words in said
    rows = list(csv.DictReader(io.StringIO(specdec("calibrate", *arguments, "--format", "csv").out)))
    assert [(row["batch"], row["draft_length"], row["step_ms"]) for row in rows] == [
        ("1.0", "0", "5.0"),
        ("1.0", "1", "7.0"),
        ("1.0", "4", "10.0"),
    ]
    markdown = specdec("calibrate", *arguments, "--format", "markdown").out
    assert "### Steps" in markdown
    assert "| batch |" in markdown


def test_what_is_written_every_command_takes(specdec: Runner, table: Path, tmp_path: Path) -> None:
    made = tmp_path / "mine.yaml"
    answer = specdec("calibrate", str(table), "--context", "1000", "-o", str(made))
    assert answer.code == 0, answer.err
    assert f"--calibration {made}" in answer.out
    assert "--acceptance-length 1=1.7,4=2.8" in answer.out
    record = load_file(made, "calibration").record
    assert (record.scenario.hardware, record.scenario.drafter, record.method) == ("toy-chip", "toy-model-eagle3", "fit")
    own = ("--calibration", str(made), "--profiles", str(specdec.folder), "--format", "json")
    swept = specdec.raw("sweep", *own, "--batches", "1", "--draft-lengths", "0,1,4")
    assert swept.code == 0, swept.err
    assert [p["step_ms"] for p in swept.data["points"]] == pytest.approx([5.0, 7.0, 10.0], rel=0.01)
    inputs = swept.data["inputs"]
    assert (inputs["hardware"]["origin"], inputs["calibration"]["value"]) == ("calibration", "mine")
    assert "default scenario" not in swept.err
    picked = specdec.raw("recommend", *own, "--batch", "1")
    assert picked.code == 0, picked.err
    # 1.7 / 7, 2.8 / 10 and, between, AL 2.2 at D = 2: 2.8 x 5 / 10 = 1.4x is the best of those measured.
    assert picked.data["choice"]["draft_length"] in (2, 3, 4)
    assert picked.data["choice"]["speedup"] == pytest.approx(1.4, rel=0.03)
    compared = specdec.raw("compare", *own, "--batches", "1")
    assert compared.code == 0, compared.err
    explained = specdec.raw("explain", *own, "--batch", "1", "--draft-length", "4")
    assert explained.code == 0, explained.err


def test_the_measured_context_is_asked_with_where_the_default_lies_beyond(specdec: Runner, tmp_path: Path) -> None:
    """Else every answer to a user who follows the README would be extrapolated. The default is 2048 tokens."""
    for contexts, wanted in (((600, 640, 700), 640), ((1500, 1500, 1500), 2048)):
        rows = zip((0, 1, 4), (5.0, 7.0, 10.0), contexts, strict=True)
        lines = "".join(f"1,{length},{1 + length / 2},{step},{context}\n" for length, step, context in rows)
        runs = written(tmp_path, f"batch,draft_length,acceptance_length,step_ms,context\n{lines}")
        made = tmp_path / "mine.yaml"
        assert specdec("calibrate", str(runs), "-o", str(made), "--force").code == 0
        asked = ("sweep", "--calibration", str(made), "--profiles", str(specdec.folder), "--batches", "1")
        swept = specdec.raw(*asked, "--format", "json").data
        assert swept["inputs"]["context"] == {"value": wanted, "origin": "calibration"}
        assert {p["step_basis"] for p in swept["points"] if p["draft_length"] <= 4} == {"calibrated"}


def test_points_past_the_calibration_are_marked_one_by_one(specdec: Runner, table: Path, tmp_path: Path) -> None:
    """Measured at batch 1, D 0 to 4 and 1000 tokens of context: it holds to batch 2."""
    made = tmp_path / "mine.yaml"
    assert specdec("calibrate", str(table), "--context", "1000", "-o", str(made)).code == 0
    own = ("--calibration", str(made), "--profiles", str(specdec.folder))
    grid = ("sweep", *own, "--batches", "1,2,4", "--draft-lengths", "0,4,5", "--assume")
    points = specdec.raw(*grid, "--format", "json").data["points"]
    held = {(p["batch"], p["draft_length"]): p["step_basis"] for p in points}
    assert held == {(b, d): "calibrated" if b <= 2 and d <= 4 else "extrapolated" for b in (1, 2, 4) for d in (0, 4, 5)}
    rows = list(csv.DictReader(io.StringIO(specdec.raw(*grid, "--format", "csv").out)))
    assert {(int(r["batch"]), int(r["draft_length"])): r["step_basis"] for r in rows} == held
    for style in ("table", "markdown"):
        out = specdec.raw(*grid, "--format", style).out.replace("\\", "")
        assert out.count("^") == list(held.values()).count("extrapolated") + 1
        assert "^ step past what the calibration measured" in out
    afar = [specdec.raw("recommend", *own, "--batch", "64", "--format", style) for style in ("table", "markdown")]
    assert all("; extrapolated, past what the calibration measured" in answer.out for answer in afar)
    near = specdec.raw("recommend", *own, "--batch", "1")
    assert "extrapolated, past" not in near.out
    assert "^" in specdec.raw("compare", *own, "--batches", "64").out
    elsewhere = specdec.raw(*grid, "--context", "2500", "--format", "json").data["points"]
    assert {p["step_basis"] for p in elsewhere} == {"extrapolated"}
    plain = specdec.raw("sweep", "--profiles", str(specdec.folder), "--batches", "1", "--format", "json")
    assert all("step_basis" not in p for p in plain.data["points"])


def test_an_off_file_joins(specdec: Runner, tmp_path: Path) -> None:
    on = written(tmp_path, "batch,draft_length,acceptance_length,step_ms\n1,1,1.7,7.0\n", "on.csv")
    off = written(tmp_path, "batch,draft_length,step_ms\n1,0,5.0\n", "off.csv")
    data = specdec("calibrate", str(on), "--off", str(off), "--format", "json").data
    assert sorted(row["draft_length"] for row in data["rows"]) == [0, 1]
    assert "no_off_run" not in {one["code"] for one in data["warnings"]}
    assert "one_draft_length" in {one["code"] for one in data["warnings"]}


def test_tokens_per_second_will_do(specdec: Runner, tmp_path: Path) -> None:
    """4 requests x AL 1.7 in 8 ms: 850 tokens/s."""
    path = written(tmp_path, "batch;draft_length;acceptance_length;tokens_per_s\n4;1;1.7;850\n")
    (row,) = specdec("calibrate", str(path), "--format", "json").data["rows"]
    assert row["step_ms"] == pytest.approx(8.0)
    assert row["left_out_error"] is None


def test_a_curve_keeps_its_stairs(specdec: Runner, tmp_path: Path) -> None:
    made = tmp_path / "curve.yaml"
    path = written(tmp_path, "tokens,pass_ms,context\n1,20,1\n2,21,1\n3,50,1\n4,51,1\n")
    answer = specdec("calibrate", str(path), "--context", "1", "--format", "json", "-o", str(made))
    assert answer.code == 0, answer.err
    assert answer.data["risers"] == [[2, 3]]
    assert (answer.data["method"], answer.data["errors"]) == ("curve", None)
    swept = specdec.raw(
        "sweep",
        "--calibration",
        str(made),
        "--profiles",
        str(specdec.folder),
        "--format",
        "json",
        "--batches",
        "1,2",
        "--draft-lengths",
        "0..3",
        "--acceptance-rate",
        "0.5",
    )
    verify = {(p["batch"], p["draft_length"]): p["verify_ms"] for p in swept.data["points"]}
    assert [verify[1, d] for d in range(4)] == pytest.approx([20, 21, 50, 51], rel=1e-3)
    assert [verify[2, d] for d in range(2)] == pytest.approx([21, 51], rel=1e-3)


def test_ratios_of_passes_need_a_plain_step(specdec: Runner, tmp_path: Path) -> None:
    head = "batch,draft_length,step_ms,tokens,pass_ratio\n"
    whole = written(tmp_path, f"{head}1,0,10,,\n,,,1,1\n,,,4,1.5\n", "whole.csv")
    curve = specdec("calibrate", str(whole), "--format", "json").data["verify_curve"]
    assert [point["pass_ms"] for point in curve] == [10.0, 15.0]
    bare = written(tmp_path, "tokens,pass_ratio\n1,1\n4,1.5\n", "bare.csv")
    refused(specdec("calibrate", str(bare)), 3, "pass_ratio", "draft_length 0 and step_ms")


def test_engine_files_are_read_too(specdec: Runner, tmp_path: Path) -> None:
    bench = written(
        tmp_path,
        "\n".join(
            json.dumps(
                {
                    "batch_size": 1,
                    "steps": d,
                    "topk": 1 if d else 0,
                    "num_draft_tokens": d + 1 if d else 0,
                    "acc_length": al,
                    "step_time": t,
                    "speed": al / t,
                }
            )
            for d, al, t in ((0, 1.0, 0.005), (1, 1.7, 0.007), (4, 2.8, 0.010))
        ),
        "bench.jsonl",
    )
    data = specdec("calibrate", str(bench), "--context", "1000", "--format", "json").data
    assert [row["step_ms"] for row in data["rows"]] == pytest.approx([5.0, 7.0, 10.0])
    assert data["files"][0]["format"] == "sglang-bench-speculative"


def test_warnings_go_to_stderr_where_the_answer_is_data(specdec: Runner, tmp_path: Path) -> None:
    path = written(tmp_path, "batch,draft_length,step_ms\n1,0,30\n")
    answer = specdec("calibrate", str(path), "--format", "json")
    assert "[step_above_prior]" in answer.err
    assert "x what the weights need" in specdec("calibrate", str(path)).out


# -------------------------------------------------------------------------------------------------- mistakes

FILES_REFUSED = {
    "nothing accepted": ("batch,draft_length,acceptance_length,step_ms\n1,2,1.0,9\n", ["nothing was accepted"]),
    "AL above D + 1": ("batch,draft_length,acceptance_length,step_ms\n1,2,3.2,9\n", [":2", "above D + 1 = 3"]),
    "off with drafts": ("batch,draft_length,acceptance_length,step_ms\n1,0,1.8,9\n", ["drafted"]),
    "more tokens than steps give": (
        "batch,draft_length,acceptance_length,step_ms,tokens_per_s\n1,0,,10,100\n1,1,1.9,12,400\n",
        ["400 tokens/s", "(D + 1) B / T0 = 200"],
    ),
    "column that is not known": ("batch,draft_length,step_s\n1,0,9\n", ["step_s", "did you mean step_ms"]),
    "column twice": ("batch,draft_length,step_ms,step_ms\n1,0,9,9\n", ["stands twice"]),
    "text for a number": ("batch,draft_length,step_ms\n1,0,fast\n", [":2", "step_ms", "`fast`"]),
    "negative": ("batch,draft_length,step_ms\n1,0,-3\n", ["above 0"]),
    "half a draft": ("batch,draft_length,step_ms\n1,1.5,9\n", ["whole number"]),
    "too few cells": ("batch,draft_length,step_ms\n1,0\n", ["2 cells under 3 columns"]),
    "no step": ("batch,draft_length,step_ms,tokens_per_s\n1,0,,\n", ["step_ms", "tokens_per_s"]),
    "no rows": ("batch,draft_length,step_ms\n", ["no rows"]),
    "no acceptance for tokens": ("batch,draft_length,tokens_per_s\n1,2,100\n", ["acceptance length"]),
    "something else": ("hello\n", ["no format recognised"]),
}


@pytest.mark.parametrize(("text", "fragments"), FILES_REFUSED.values(), ids=FILES_REFUSED)
def test_files_that_cannot_be_are_exit_3(specdec: Runner, tmp_path: Path, text: str, fragments: list[str]) -> None:
    refused(specdec("calibrate", str(written(tmp_path, text))), 3, *fragments)


USAGE = {
    "no file": ([], ["needs FILE", "--plan"]),
    "plan and file": (["FILE", "--plan"], ["--plan and FILE conflict"]),
    "output of another kind": (["FILE", "-o", "mine.json"], ["ends in .yaml"]),
    "draft length of nothing": (["FILE", "--draft-length", "0"], ["--draft-length must be at least 1"]),
    "batch of nothing": (["FILE", "--batch", "0"], ["--batch must be at least 1"]),
    "drafts without a drafter": (["FILE", "--drafter", "none"], ["name the drafter"]),
    "a list": (["FILE", "--tp", "1,2"], ["one setup"]),
    "a file twice": (["FILE", "FILE"], ["given twice"]),
    "a name that no profile may have": (["FILE", "-o", "My Machine.yaml"], ["small letters"]),
    "plan without a drafter": (["--plan", "--drafter", "none"], ["with a drafter"]),
    "plan for an engine without commands": (["--plan"], ["toy-engine", "known: vllm"]),
}


@pytest.mark.parametrize(("arguments", "fragments"), USAGE.values(), ids=USAGE)
def test_wrong_usage_is_exit_2(
    specdec: Runner, table: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], fragments: list[str]
) -> None:
    monkeypatch.chdir(table.parent)
    refused(specdec("calibrate", *(str(table) if one == "FILE" else one for one in arguments)), 2, *fragments)
    assert not list(table.parent.glob("*.part"))


def test_a_file_that_is_not_there(specdec: Runner, tmp_path: Path) -> None:
    refused(specdec("calibrate", str(tmp_path / "nope.csv")), 3, "nope.csv")


def test_an_existing_calibration_stays(specdec: Runner, table: Path, tmp_path: Path) -> None:
    made = written(tmp_path, "mine", "mine.yaml")
    refused(specdec("calibrate", str(table), "-o", str(made)), 2, "--force")
    assert made.read_text("utf-8") == "mine"
    assert specdec("calibrate", str(table), "-o", str(made), "--force").code == 0
    assert load_file(made).record.name == "mine"


def test_a_calibration_of_another_setup_is_refused(specdec: Runner, tmp_path: Path) -> None:
    path = write_yaml(tmp_path / "toy-machine.yaml", toy_calibration())
    refused(specdec("sweep", "--calibration", str(path), "--tp", "2"), 2, "another setup", "tp 2")
    refused(specdec("sweep", "--calibration", "toy-machin"), 3, "unknown calibration")
    other = write_yaml(tmp_path / "chip.yaml", {**toy_calibration("chip"), "kind": "engine"})
    refused(specdec("sweep", "--calibration", str(other)), 3)


# ------------------------------------------------------------------------------------------------ the table


def test_every_column_is_explained_and_known(tmp_path: Path) -> None:
    path = written(tmp_path, f"{','.join(COLUMNS)}\n4,2,2.5,12,800,1000,7,,,\n")
    (run,) = read_runs([path], tables=True)[0].runs
    assert (run.batch, run.draft_length, run.verify_width, run.context_tokens) == (4.0, 2, 7, 1000.0)
    assert (run.step_s, run.output_tokens_per_s) == (pytest.approx(0.012), 800.0)
    readme_of_columns = set(COLUMNS)
    assert {"batch", "draft_length", "acceptance_length", "step_ms", "tokens_per_s", "context"} <= readme_of_columns


def test_what_looks_like_a_table(tmp_path: Path) -> None:
    assert is_plain_table(b"# mine\n\nbatch\tdraft_length\tstep_ms\n")
    assert is_plain_table(b"tokens,pass_ms\n")
    assert not is_plain_table(b"n_prompt,n_gen,avg_ts\n")
    with pytest.raises(ProfileError, match="a header and no rows"):
        read_runs([written(tmp_path, "\ufeffbatch,draft_length,step_ms\n# nothing\n")], tables=True)


# ------------------------------------------------------------------------------------------------- the plan


def plan_of(family: str, **changes: Any) -> Plan:
    asked: dict[str, Any] = {
        "family": family,
        "mechanism": "eagle3",
        "target_id": "maker/target",
        "drafter_id": "maker/head",
        "tp": 2,
        "data_parallel": 1,
        "batch": 8,
        "draft_lengths": (0, 1, 5),
        "accepted": (1.0, 1.8, 3.2),
        "interactivity": (100.0, 150.0, 200.0),
    }
    return plan_runs(PlanRequest(**{**asked, **changes}))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_plan_speaks_each_engines_language(family: str) -> None:
    plan = plan_of(family)
    assert [run.draft_length for run in plan.runs] == [0, 1, 5]
    assert [run.result for run in plan.runs] == sorted(
        {run.result for run in plan.runs}, key=[r.result for r in plan.runs].index
    )
    for run in plan.runs:
        text = run.server
        if family == "tensorrt-llm":
            text = run.server.partition("<<'EOF'\n")[2].rpartition("\nEOF")[0]
        elif family == "sglang":
            text = run.server.partition(" \\\n  --decode-log-interval")[0]
        elif family == "llama-cpp":
            text = run.server.partition("--port 8080 ")[2]
        found = read_settings(family, text)
        assert found.draft_length == run.draft_length
        assert "maker/target" in run.server + run.client or family == "llama-cpp"
        assert run.result in run.server + run.client
        assert run.result in plan.feed_back
    assert plan.feed_back == f"{plan.runs[1].result} {plan.runs[2].result} --off {plan.runs[0].result}"
    assert plan.notes


FORCED = {
    "vllm": '"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 3.20',
    "sglang": "SGLANG_SIMULATE_ACC_LEN=3.20 python3",
    "tensorrt-llm": "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=2 trtllm-bench",
    "llama-cpp": "--spec-draft-n-max 5 --spec-synth-len 3.20",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_acceptance_is_forced_in_each_engines_own_way(family: str) -> None:
    """AL 3.2 with the bonus token; TensorRT-LLM counts without it, in whole tokens."""
    plan = plan_of(family)
    off, _, deep = plan.runs
    assert off.forced == ""
    assert FORCED[family] in deep.forced
    assert FORCED_NOTE in plan.notes
    assert ("PR 27711" in " ".join(plan.notes)) == (family == "llama-cpp")
    if family == "vllm":
        (config,) = [part for part in shlex.split(deep.forced.replace("\\\n", " ")) if part.startswith("{")]
        assert json.loads(config)["synthetic_acceptance_length"] == 3.2


def test_how_long_a_run_takes() -> None:
    """Three minutes of start, then 4 x 512 tokens at 100 and 200 tokens/s: 20.5 and 10.2 s."""
    plan = plan_of("vllm")
    assert [run.seconds for run in plan.runs] == pytest.approx([200.48, 193.65, 190.24], abs=0.01)


def test_a_mechanism_that_the_engine_lacks() -> None:
    with pytest.raises(UsageError):
        plan_of("llama-cpp", mechanism="medusa")


def test_the_plan_as_printed(specdec: Runner) -> None:
    arguments = ("--plan", "--model", "llama-3.1-8b", "--batch", "4")
    said = specdec.raw("calibrate", *arguments)
    assert said.code == 0, said.err
    assert said.out.count("vllm serve meta-llama/Llama-3.1-8B-Instruct") == 5  # three runs, two of them forced too
    assert "--max-concurrency 4" in said.out
    assert (
        "specdec calibrate vllm-d1.json vllm-d7.json --off vllm-off.json --model llama-3.1-8b -o mine.yaml" in said.out
    )
    data = specdec.raw("calibrate", *arguments, "--format", "json").data
    assert data["schema"] == "specdec.calibration_plan/1"
    assert [run["draft_length"] for run in data["runs"]] == [0, 1, 7]
    assert data["inputs"]["batch"] == {"value": 4, "origin": "option"}
    rows = list(csv.DictReader(io.StringIO(specdec.raw("calibrate", *arguments, "--format", "csv").out)))
    assert [row["result"] for row in rows] == ["vllm-off.json", "vllm-d1.json", "vllm-d7.json"]
    assert "```sh" in specdec.raw("calibrate", *arguments, "--format", "markdown").out


@pytest.mark.parametrize("path", sorted((REPO / "profiles" / "calibrations").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_calibrations_run(specdec: Runner, path: Path) -> None:
    answer = specdec.raw("sweep", "--calibration", path.stem, "--batches", "1", "--format", "json")
    assert answer.code == 0, answer.err
    record = load_file(path).record
    speeds = {p["draft_length"]: p["step_ms"] for p in answer.data["points"]}
    for row in record.rows:
        if row.draft_length in speeds:
            assert speeds[row.draft_length] == pytest.approx(row.fitted_ms, rel=0.02)


def test_a_plan_needs_no_measured_acceptance(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is how a user comes to measure it."""
    assert app.run(["calibrate", "--plan", "--engine", "vllm", "--model", "qwen3-32b", "--tp", "2"]) == 0
    said = capsys.readouterr()
    assert "vllm serve Qwen/Qwen3-32B" in said.out


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        ("vllm", ("--enable-expert-parallel", "--kv-cache-dtype fp8")),
        ("sglang", ("--ep-size 8", "--kv-cache-dtype fp8_e4m3")),
        ("tensorrt-llm", ("moe_expert_parallel_size: 8", "dtype: fp8")),
    ],
)
def test_the_planned_runs_are_of_the_setup_that_was_asked_for(
    specdec: Runner, engine: str, flags: tuple[str, str]
) -> None:
    asked = ("--model", "deepseek-v3", "--hardware", "h200-sxm", "--gpus", "8", "--ep", "8", "--kv-dtype", "fp8")
    answer = specdec.raw("calibrate", "--plan", "--engine", engine, "--batch", "16", *asked, "--format", "json")
    assert answer.code == 0, answer.err
    assert len(answer.data["runs"]) == 3
    for run in answer.data["runs"]:
        assert all(flag in run["server"] for flag in flags), run["server"]


def test_a_step_in_another_unit_is_refused_before_a_profile_is_written(specdec: Runner, tmp_path: Path) -> None:
    runs, mine = tmp_path / "runs.csv", tmp_path / "mine.yaml"
    runs.write_text("batch,draft_length,acceptance_length,step_ms\n16,0,1,1e9\n16,4,2.8,1e10\n", "utf-8")
    answer = specdec.raw("calibrate", str(runs), "-o", str(mine))
    assert answer.code == 3
    assert "mind the unit" in answer.err
    assert not mine.exists()
