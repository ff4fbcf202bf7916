"""Files of the serving engines: recognised from content, read into runs whose figures are worked out here.

All files under data/engine_files tell of one invented run: D = 2, a = (0.7, 0.5), so AL = 2.2; 1000 iterations accept
1200 of 2000 drafted tokens; at batch 4 a step takes 10 ms (4 x 2.2 / 0.010 = 880 tokens/s) and 8 ms without
speculation (4 / 0.008 = 500 tokens/s). llama.cpp's: batch 1, 220 tokens in 1 s after the first, which comes with the
prompt; 120 of 200 drafted tokens accepted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from conftest import REPO

from specdec_cli.engines.read import detect
from specdec_cli.engines.read.runs import read_runs
from specdec_cli.errors import ProfileError, SpecdecError, UsageError
from specdec_cli.profiles.measured_run import MeasuredRun, RunFile, as_off

FILES = REPO / "tests" / "data" / "engine_files"
SHARED = Path(os.environ.get("SPECDEC_SHARED_DATA") or REPO.parent / "shared" / "data") / "samples"

COUNTED: dict[str, Any] = {"iterations": 1000, "accepted_tokens": 1200, "drafted_tokens": 2000}
CHAIN: dict[str, Any] = {"draft_length": 2, "acceptance_length": 2.2}
RATES: dict[str, Any] = {**CHAIN, "per_position": (0.7, 0.5)}
BATCH_4: dict[str, Any] = {"batch": 4, "step_s": 0.010}
OFF_4: dict[str, Any] = {"draft_length": 0, "acceptance_length": 1, "batch": 4, "step_s": 0.008}
ONE: dict[str, Any] = {**CHAIN, "batch": 1, "step_s": 0.010, "iterations": 100, "output_tokens_per_s": 220}
OFF_ONE: dict[str, Any] = {"draft_length": 0, "acceptance_length": 1, "batch": 1, "step_s": 0.008}

# file -> format, runs in the file, which one (its index), and what it must say.
EXPECTED: list[tuple[str, str, int, int, dict[str, Any]]] = [
    # Batch 4: 1000 iterations each at 2.2, 2.1 (with prompts: no step time) and 2.2: 1200 + 1100 + 1200 accepted.
    ("vllm_current.log", "vllm-log", 2, 1, {**BATCH_4, "acceptance_length": 1 + 3500 / 3000, "iterations": 3000}),
    (
        "vllm_current.log",
        "vllm-log",
        2,
        0,
        {"batch": 1, "step_s": 2.3 / 230, "acceptance_length": 2.3, "iterations": 100},
    ),
    ("vllm_0_9.log", "vllm-log", 1, 0, {**RATES, **COUNTED, **BATCH_4, "cached_prompt_share": 0.005}),
    # Counters since the start: 1000 draft tokens, 2000, then 400 after a restart, at k = 2; emitted 1100, 2200, 440.
    ("vllm_v0.log", "vllm-log", 1, 0, {**CHAIN, **BATCH_4, "iterations": 1200, "accepted_tokens": 1440}),
    # Three lines of 40 steps at batch 4; the first came after a prompt: 4 x 2.2 / 880 from the other two.
    (
        *("sglang_2026.log", "sglang-log", 2, 1),
        {
            **CHAIN,
            **BATCH_4,
            "iterations": 480,
            "context_tokens": 1100,
            "cuda_graphs": True,
            "cached_prompt_share": 0.25,
        },
    ),
    ("sglang_2026.log", "sglang-log", 2, 0, {"batch": 2, "acceptance_length": 2.4, "step_s": 2 * 2.4 / 480}),
    ("sglang_2025.log", "sglang-log", 1, 0, {**BATCH_4, "acceptance_length": 2.2, "draft_length": None}),
    # Draft time: 150 ms over 100 rounds. Context: 90 tokens of prompt and half of 220.
    ("llama_2026.log", "llama-cpp-log", 2, 0, {**ONE, **RATES, "draft_s": 0.0015, "context_tokens": 200.5}),
    ("llama_positions.log", "llama-cpp-log", 1, 0, {**ONE, **RATES, "draft_s": 0.0015, "context_tokens": 200.5}),
    ("llama_2026.log", "llama-cpp-log", 2, 1, {**OFF_ONE, "context_tokens": 190.5}),
    ("llama_mean_len.log", "llama-cpp-log", 1, 0, ONE),
    ("llama_rate.log", "llama-cpp-log", 1, 0, ONE),
    # A lifetime: 1200 iterations, 1400 accepted.
    ("vllm_after.prom", "prometheus", 1, 0, {"acceptance_length": 1 + 1400 / 1200, "draft_length": 2, "batch": 4}),
    ("sglang.prom", "prometheus", 1, 0, {**BATCH_4, "acceptance_length": 2.2, "draft_length": None}),
    ("trtllm.prom", "prometheus", 1, 0, {**CHAIN, **COUNTED}),
    ("max.prom", "prometheus", 1, 0, RATES),
    ("llama_metrics.prom", "prometheus", 1, 0, {**RATES, "iterations": 1000, "accepted_tokens": 1200, "step_s": None}),
    ("vllm_response.jsonl", "vllm-request", 1, 0, {**RATES, **COUNTED, "context_tokens": 650}),
    ("vllm_serve.json", "vllm-bench-serve", 1, 0, {**RATES, **COUNTED, **BATCH_4, "context_tokens": 127.5}),
    ("vllm_serve_lines.jsonl", "vllm-bench-serve", 2, 0, {"draft_length": None, "step_s": 0.008, "batch": 4}),
    ("vllm_serve_lines.jsonl", "vllm-bench-serve", 2, 1, {**RATES, **BATCH_4}),
    ("vllm_offline.txt", "vllm-offline", 1, 0, {**RATES, **COUNTED}),
    ("sglang_speculative.jsonl", "sglang-bench-speculative", 3, 0, OFF_4),
    ("sglang_speculative.jsonl", "sglang-bench-speculative", 3, 1, {**CHAIN, **BATCH_4, "output_tokens_per_s": 880}),
    (
        "sglang_speculative.jsonl",
        "sglang-bench-speculative",
        3,
        2,
        {"draft_length": 2, "verify_width": 8, "step_s": 0.011},
    ),
    (
        "sglang_serving.jsonl",
        "sglang-bench-serving",
        2,
        0,
        {"draft_length": 0, "step_s": 0.008, "context_tokens": 127.5},
    ),
    ("sglang_serving.jsonl", "sglang-bench-serving", 2, 1, {"acceptance_length": 2.2, "step_s": 0.010, "batch": 3.9}),
    ("sglang_one_batch.jsonl", "sglang-bench-one-batch", 1, 0, {**OFF_4, "context_tokens": 125}),
    ("sglang_one_batch_server.jsonl", "sglang-bench-one-batch", 2, 0, OFF_4),
    ("sglang_one_batch_server.jsonl", "sglang-bench-one-batch", 2, 1, {**BATCH_4, "acceptance_length": 2.2}),
    ("specforge.json", "specforge", 3, 0, {**CHAIN, **BATCH_4, "workload": "mtbench"}),
    ("specforge.json", "specforge", 3, 1, OFF_4),
    # D = (2.2 - 1) / 0.6; the step 4.545 ms x 2.2.
    ("trtllm_report.json", "trtllm-bench", 1, 0, {**CHAIN, **COUNTED, **BATCH_4, "context_tokens": 127.5}),
    ("llama_timings.jsonl", "llama-cpp-timings", 2, 0, {**ONE, "context_tokens": 210.5, "cached_prompt_share": 0.05}),
    ("llama_timings.jsonl", "llama-cpp-timings", 2, 1, OFF_ONE),
    ("llama_speculative.txt", "llama-speculative", 1, 0, ONE),
    # pp1024 exceeds the micro-batch of 512: two passes, so no verify pass.
    *[
        (f"llama_bench.{ending}", "llama-bench", 4, index, wanted)
        for ending in ("json", "jsonl", "csv", "md")
        for index, wanted in (
            (0, OFF_ONE),
            (2, {"measures": "verify_pass", "verify_width": 4, "step_s": 0.009, "acceptance_length": None}),
            (3, {"step_s": 0.010, "context_tokens": 4096 + 32}),
        )
    ],
    *[
        (f"llama_batched.{ending}", "llama-batched-bench", 2, 1, {**OFF_4, "context_tokens": 125})
        for ending in ("jsonl", "md")
    ],
    ("guidellm.json", "guidellm", 2, 0, {**BATCH_4, "acceptance_length": 2.2, "draft_length": None}),
    ("guidellm.json", "guidellm", 2, 1, {"batch": 2, "acceptance_length": None, "step_s": None}),
    ("inferencex.json", "inferencex", 2, 0, {**OFF_4, "output_tokens_per_s": 500, "context_tokens": 125}),
    ("inferencex.json", "inferencex", 2, 1, {"draft_length": None, "acceptance_length": None}),
    (
        "golden.yaml",
        "inferencex-golden",
        4,
        3,
        {"draft_length": 2, "acceptance_length": 2.25, "workload": "thinking_off"},
    ),
    # [3 1 2 2 1 3 1 1] at D = 1: positions 0, 2, 4, 5, 7 yield 2 2 1 2 1; at D = 2: 0, 3, 5 yield 3 2 3.
    ("trace_replay.jsonl", "trace", 3, 0, {"draft_length": 1, "acceptance_length": 8 / 5, "iterations": 5}),
    (
        "trace_replay.jsonl",
        "trace",
        3,
        1,
        {"acceptance_length": 8 / 3, "per_position": (1, 2 / 3), "workload": "eagle"},
    ),
    # Steps that accepted 2 0 1 2 and 2 1.
    ("trace_steps.jsonl", "trace", 1, 0, {"acceptance_length": 1 + 8 / 6, "per_position": (5 / 6, 3 / 6)}),
]


def read(*names: str | Path, **options: Any) -> list[RunFile]:
    return read_runs([FILES / name for name in names], **options)


def runs(*names: str | Path, **options: Any) -> list[MeasuredRun]:
    return [run for file in read(*names, **options) for run in file.runs]


def codes(file: RunFile) -> set[str]:
    return {finding.code for finding in file.findings} | {f.code for run in file.runs for f in run.findings}


def written(tmp_path: Path, text: str | bytes, name: str = "file.log") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(("name", "form", "count", "index", "wanted"), EXPECTED, ids=lambda value: str(value)[:40])
def test_a_file_gives_its_run(name: str, form: str, count: int, index: int, wanted: dict[str, Any]) -> None:
    (file,) = read(name)
    assert file.format == form
    assert len(file.runs) == count
    run = file.runs[index]
    for key, value in wanted.items():
        found = getattr(run, key)
        if value is None or isinstance(value, str | bool):
            assert found == value, key
        else:
            assert found == pytest.approx(value, rel=1e-3), key


def test_every_format_has_a_file_and_every_file_a_test() -> None:
    assert {form for _, form, *_ in EXPECTED} == set(detect.FORMATS)
    tested = {name for name, *_ in EXPECTED} | {"vllm_before.prom"}
    assert {path.name for path in FILES.iterdir()} == tested


@pytest.mark.parametrize("name", sorted({name for name, *_ in EXPECTED}))
def test_forcing_the_right_format_changes_nothing(name: str) -> None:
    (found,) = read(name)
    assert read(name, forced=found.format) == [found]


def test_a_forced_format_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match=r"--from 'vllm-logs' is no format; did you mean vllm-log"):
        read("vllm_0_9.log", forced="vllm-logs")


def test_a_file_given_twice() -> None:
    with pytest.raises(UsageError, match="given twice"):
        read("vllm_0_9.log", "vllm_0_9.log")


# ---------------------------------------------------------------------------------------------------- logs


def test_windows_left_out_of_a_vllm_log_are_counted() -> None:
    (file,) = read("vllm_current.log")
    assert [(one.reason, one.count, one.first_line) for one in file.skipped] == [("idle windows", 1, 11)]
    assert codes(file) == {"prefill_heavy", "idle_windows"}
    assert [(run.first_line, run.last_line) for run in file.runs] == [(10, 10), (3, 8)]


def test_a_vllm_log_inside_a_containers_json(tmp_path: Path) -> None:
    lines = (FILES / "vllm_0_9.log").read_text("utf-8").splitlines()
    import json

    text = "".join(json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-09-20"}) + "\n" for line in lines)
    (run,) = read_runs([written(tmp_path, text)])[0].runs
    assert (run.acceptance_length, run.batch, run.per_position) == (2.2, 4, (0.7, 0.5))


@pytest.mark.parametrize("codec", ["utf-16", "utf-8-sig"])
def test_a_log_as_powershell_writes_it(tmp_path: Path, codec: str) -> None:
    text = (FILES / "vllm_0_9.log").read_text("utf-8").replace("\n", "\r\n")
    (run,) = read_runs([written(tmp_path, text.encode(codec))])[0].runs
    assert run.acceptance_length == pytest.approx(2.2)


def test_engines_of_one_server_are_paired_with_their_own_line(tmp_path: Path) -> None:
    one = (FILES / "vllm_0_9.log").read_text("utf-8")
    two = one.replace("Engine 000", "Engine 001").replace("Running: 4", "Running: 2").replace("880.0", "440.0")
    found = read_runs([written(tmp_path, one + two)])[0].runs
    assert [(run.batch, run.step_s) for run in found] == [(2, pytest.approx(0.010)), (4, pytest.approx(0.010))]


def test_lines_of_two_processes_that_cross_are_paired_by_process(tmp_path: Path) -> None:
    load, spec = (FILES / "vllm_0_9.log").read_text("utf-8").splitlines()
    other = load.replace("Running: 4", "Running: 9")
    text = "\n".join(f"(APIServer pid={pid}) {line}" for pid, line in ((1, load), (2, other), (1, spec))) + "\n"
    assert [run.batch for run in read_runs([written(tmp_path, text)])[0].runs] == [4]


def test_aggregated_engines_share_the_load(tmp_path: Path) -> None:
    text = (FILES / "vllm_0_9.log").read_text("utf-8").replace("Engine 000: ", "2 Engines Aggregated: ")
    (run,) = read_runs([written(tmp_path, text)])[0].runs
    assert (run.batch, run.output_tokens_per_s) == (2, 440)


def test_drafts_shorter_than_d_are_counted_by_the_printed_al(tmp_path: Path) -> None:
    # N-gram at D = 4: 500 iterations, 600 tokens drafted, 250 accepted: AL 1.50, drafted / D would give 150 iterations.
    line = (
        "INFO 09-20 11:00:00 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.50, Accepted throughput: "
        "25.00 tokens/s, Drafted throughput: 60.00 tokens/s, Accepted: 250 tokens, Drafted: 600 tokens, Per-position "
        "acceptance rate: 0.300, 0.100, 0.060, 0.040, Avg Draft acceptance rate: 41.7%\n"
    )
    (run,) = read_runs([written(tmp_path, line)])[0].runs
    assert (run.iterations, run.acceptance_length) == (pytest.approx(500), pytest.approx(1.5))


def test_sglang_ranks_keep_their_own_prompts(tmp_path: Path) -> None:
    text = (FILES / "sglang_2026.log").read_text("utf-8").replace(" TP0]", " DP1 TP0]")
    other = text.splitlines()[3].replace("DP1", "DP0").replace("880.00", "440.00")
    (_, run) = read_runs([written(tmp_path, f"{text}{other}\n")])[0].runs
    # Two clean lines of DP1 at 10 ms and one of DP0, which took no prompt, at 20 ms.
    assert run.step_s == pytest.approx((0.010 + 0.010 + 0.020) / 3)


def test_sglang_without_speculation_is_a_base(tmp_path: Path) -> None:
    text = (
        "[2026-09-20 11:00:02 TP0] Decode batch. #running-req: 4, #token: 4000, token usage: 0.03, cuda graph: True, "
    )
    text += "gen throughput (token/s): 500.00, #queue-req: 0\n"
    (run,) = read_runs([written(tmp_path, text)])[0].runs
    assert (run.draft_length, run.step_s) == (0, pytest.approx(0.008))


def test_sglang_lines_of_any_order(tmp_path: Path) -> None:
    text = "[2026-09-20 11:00:02] Decode batch, accept len: 2.20, #running-req: 4, #full token: 4000, #queue-req: 0, "
    text += "gen throughput (token/s): 880.00\n"
    (run,) = read_runs([written(tmp_path, text)])[0].runs
    assert (run.acceptance_length, run.step_s, run.context_tokens) == (2.2, pytest.approx(0.010), 1000)


def test_llama_slots_at_once_leave_the_batch_open(tmp_path: Path) -> None:
    text = (FILES / "llama_2026.log").read_text("utf-8")
    (file,) = read_runs([written(tmp_path, text + text.replace("id  0", "id  1"))])
    assert {run.batch for run in file.runs} == {None}
    assert "parallel_slots" in codes(file)


def test_llama_acceptance_that_the_server_invents(tmp_path: Path) -> None:
    text = (FILES / "llama_positions.log").read_text("utf-8")
    said = "0.00.373.343 W spec common_specu: synthetic speculative acceptance is enabled for benchmarking; "
    (plain,) = read_runs([written(tmp_path, text, "plain.log")])[0].runs
    (run,) = read_runs([written(tmp_path, f"{said}generated output is not valid\n{text}", "forced.log")])[0].runs
    assert "forced_acceptance" not in {finding.code for finding in plain.findings}
    assert "forced_acceptance" in {finding.code for finding in run.findings}
    assert run.step_s == plain.step_s


def test_llama_rates_of_rounds_that_drafted(tmp_path: Path) -> None:
    # 231 tokens: 110 rounds after the first; the rates are of the 100 that drafted: 0.7 x 100 / 110.
    text = (FILES / "llama_positions.log").read_text("utf-8").replace("221 tokens", "231 tokens")
    (run,) = read_runs([written(tmp_path, text)])[0].runs
    assert run.iterations == 110
    assert run.per_position == pytest.approx((70 / 110, 50 / 110))
    assert run.acceptance_length == pytest.approx(1 + 120 / 110)


def test_llama_totals_alone_will_do(tmp_path: Path) -> None:
    line = (FILES / "llama_2026.log").read_text("utf-8").splitlines()[3]
    (run,) = read_runs([written(tmp_path, line + "\n")], forced="llama-cpp-log")[0].runs
    assert (run.draft_length, run.acceptance_length, run.iterations) == (2, pytest.approx(2.2), 100)


def test_llama_graphs_built_anew(tmp_path: Path) -> None:
    text = (FILES / "llama_rate.log").read_text("utf-8")
    (file,) = read_runs([written(tmp_path, text + "llama_perf_context_print:    graphs reused =         20\n")])
    assert "graphs_off" in codes(file)
    (file,) = read_runs([written(tmp_path, text + "llama_perf_context_print:    graphs reused =         98\n")])
    assert "graphs_off" not in codes(file)


# ------------------------------------------------------------------------------------------------- scrapes


@pytest.mark.parametrize("order", [("vllm_before.prom", "vllm_after.prom"), ("vllm_after.prom", "vllm_before.prom")])
def test_two_scrapes_are_their_difference(order: tuple[str, str]) -> None:
    files = read(*order)
    (run,) = [run for file in files for run in file.runs]
    # Counters of two engines: 1200 - 200 drafts, 1400 - 200 accepted, 820 - 120 and 580 - 80 by position.
    assert run.acceptance_length == pytest.approx(2.2)
    assert run.per_position == pytest.approx((0.7, 0.5))
    assert (run.iterations, run.batch, run.step_s) == (1000, 4, pytest.approx(0.010))
    assert {finding.code for finding in run.findings} == {"scrape_delta", "batch_snapshot"}


def test_one_scrape_says_that_it_is_a_lifetime() -> None:
    assert "lifetime_scrape" in codes(read("vllm_after.prom")[0])


def test_scrapes_one_after_the_other_in_a_file(tmp_path: Path) -> None:
    text = (FILES / "vllm_before.prom").read_text("utf-8") + (FILES / "vllm_after.prom").read_text("utf-8")
    (run,) = read_runs([written(tmp_path, text)])[0].runs
    assert (run.iterations, run.acceptance_length) == (1000, pytest.approx(2.2))


def test_scrapes_without_work_between_them(tmp_path: Path) -> None:
    text = (FILES / "vllm_after.prom").read_text("utf-8")
    with pytest.raises(ProfileError, match="nothing happened"):
        read_runs([written(tmp_path, text, "a.prom"), written(tmp_path, text, "b.prom")])


# ---------------------------------------------------------------------------------------------------- json


def edited(tmp_path: Path, name: str, **changes: Any) -> Path:
    """The file's one JSON object with keys changed, or taken out (None)."""
    import json

    data = json.loads((FILES / name).read_text("utf-8"))
    data = {key: value for key, value in {**data, **changes}.items() if value is not None}
    return written(tmp_path, json.dumps(data), "edited.json")


def test_a_rate_as_a_fraction_is_told_from_percent(tmp_path: Path) -> None:
    (file,) = read_runs([edited(tmp_path, "vllm_serve.json", spec_decode_acceptance_rate=0.6)])
    assert codes(file) == {"rate_as_fraction"}
    assert file.runs[0].acceptance_length == pytest.approx(2.2)


def test_a_rate_that_contradicts_its_counters(tmp_path: Path) -> None:
    (file,) = read_runs([edited(tmp_path, "vllm_serve.json", spec_decode_acceptance_rate=40.0)])
    assert codes(file) == {"rate_contradicts"}


WITHOUT_COUNTERS: dict[str, Any] = {
    f"spec_decode_{part}": None
    for part in (
        *("acceptance_rate", "acceptance_length", "num_drafts", "draft_tokens", "accepted_tokens"),
        "per_position_acceptance_rates",
    )
}


def test_a_bare_rate_is_refused(tmp_path: Path) -> None:
    path = edited(tmp_path, "vllm_serve.json", **{**WITHOUT_COUNTERS, "spec_decode_acceptance_rate": 0.6})
    with pytest.raises(ProfileError, match=r"bare acceptance rate of 0\.6"):
        read_runs([path])


def test_absent_keys_are_not_off(tmp_path: Path) -> None:
    # A chunk held 10 / 4.545 = 2.2 tokens: it speculated, whatever the keys say.
    (file,) = read_runs([edited(tmp_path, "vllm_serve.json", **WITHOUT_COUNTERS)])
    assert codes(file) == {"chunks_counted"}
    assert file.runs[0].draft_length is None
    assert file.runs[0].acceptance_length == pytest.approx(2.2, rel=1e-3)
    (file,) = read_runs([edited(tmp_path, "vllm_serve.json", **WITHOUT_COUNTERS, mean_tpot_ms=9.9)])
    assert codes(file) == {"speculation_not_stated"}
    assert file.runs[0].acceptance_length is None


def test_metadata_says_off(tmp_path: Path) -> None:
    path = edited(tmp_path, "vllm_serve.json", **WITHOUT_COUNTERS, mean_tpot_ms=9.9, num_speculative_tokens="0")
    assert read_runs([path])[0].runs[0].draft_length == 0


def test_prompts_in_between_leave_the_median(tmp_path: Path) -> None:
    (file,) = read_runs([edited(tmp_path, "vllm_serve.json", mean_itl_ms=20.0, mean_tpot_ms=9.1)])
    assert codes(file) == {"prefill_heavy"}
    assert file.runs[0].step_s == pytest.approx(0.0099)


def test_a_response_that_contradicts_itself(tmp_path: Path) -> None:
    text = (
        (FILES / "vllm_response.jsonl")
        .read_text("utf-8")
        .replace('"mean_acceptance_length": 2.2', '"mean_acceptance_length": 2.9')
    )
    with pytest.raises(ProfileError, match=r"mean_acceptance_length 2\.9, but its counters give 2\.200"):
        read_runs([written(tmp_path, text)])


def test_bare_infinity_is_read() -> None:
    assert "Infinity" in (FILES / "sglang_serving.jsonl").read_text("utf-8")
    assert len(runs("sglang_serving.jsonl")) == 2


def test_objects_of_several_formats_in_one_file(tmp_path: Path) -> None:
    text = (FILES / "vllm_serve.json").read_text("utf-8") + (FILES / "trtllm_report.json").read_text("utf-8")
    (file,) = read_runs([written(tmp_path, text)])
    assert [run.format for run in file.runs] == ["vllm-bench-serve", "trtllm-bench"]


def test_repeated_prompts_in_traces(tmp_path: Path) -> None:
    line = '{"prompt_token_ids": [1, 2], "acc_eagle": {"acc_len": [2, 1, 1]}}\n'
    (file,) = read_runs([written(tmp_path, line * 3)])
    assert codes(file) == {"repeated_prompts"}


def test_a_trace_that_accepts_more_than_it_drafts(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="more tokens than were drafted"):
        read_runs([written(tmp_path, '{"per_step_accepted": [3], "per_step_drafted": [2]}')])


# ------------------------------------------------------------------------------------- what cannot be read


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"\x1f\x8b\x08rest", "gzip-compressed"),
        (b"abc\x00\x01\x02def", "not a text file"),
        (b"once upon a time\n", "no format recognised"),
        (b'{"a": 1, "b": 2}\n', r"no format recognised by its keys \(a, b\)"),
        (b'{"a": ', "no JSON object"),
        (b"[1, 2]", "no format recognised"),
        (b"[[[[" * 100_000, "no JSON object"),
        (b"# HELP up whether it is\nup 1\n", "no metric of vLLM"),
        (b"a: &x {1: 1.5}\nb: *x\n  1: 1.2\n", "not readable as YAML"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_file_of_no_use_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(ProfileError, match=words) as caught:
        read_runs([written(tmp_path, content)])
    assert "file.log" in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        with pytest.raises(ProfileError):
            read_runs([path])


# ------------------------------------------------------------------------------------------- the off arm


def test_an_off_arm_with_drafts_is_refused() -> None:
    (run,) = runs("vllm_serve.json")
    with pytest.raises(ProfileError, match=r"without speculation drafted: AL = 2\.20, 2000 draft tokens"):
        as_off(run)
    assert as_off(runs("vllm_serve_lines.jsonl")[0]).draft_length == 0


# ------------------------------------------------------------------------------------------ shared samples

SAMPLES = (
    sorted(path for path in SHARED.iterdir() if path.is_file() and not path.name.startswith("out_"))
    if SHARED.is_dir()
    else []
)


@pytest.mark.skipif(not SAMPLES, reason="the collected samples are not here")
def test_every_collected_sample_is_read() -> None:
    found = {}
    for path in SAMPLES:
        (file,) = read_runs([path])
        found[file.format] = file
        for run in file.runs:
            if run.acceptance_length is not None and run.draft_length:
                assert 1 <= run.acceptance_length <= run.draft_length + 1, path.name
    assert set(found) >= set(detect.FORMATS) - {"trace"}


@pytest.mark.skipif(not SAMPLES, reason="the collected samples are not here")
def test_collected_samples_give_what_their_page_says() -> None:
    def first(name: str, index: int = 0) -> MeasuredRun:
        return read_runs([SHARED / name])[0].runs[index]

    (delta,) = [r for f in read_runs([SHARED / f"vllm_metrics_{w}.prom" for w in ("before", "after")]) for r in f.runs]
    assert delta.acceptance_length == pytest.approx(1 + 14480 / 8000)
    response = first("vllm_per_request_spec.json")
    assert (response.acceptance_length, response.per_position) == (2.0, pytest.approx((0.6, 0.3, 0.1)))
    assert first("vllm_server_v0_legacy.log").acceptance_length == pytest.approx(1920 / (2400 / 4))
    assert first("trtllm_bench_report.json").draft_length == 3
    assert first("sglang_server_new.log").acceptance_length == pytest.approx(2.78)
    assert first("llama_server.log").draft_s == pytest.approx(118.3e-3 / 91)
    assert first("llama_bench.json", 3).step_s == pytest.approx(0.01385)


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.iterdir()))
def test_a_file_cut_anywhere_gives_what_it_holds_or_says_why_not(tmp_path: Path, name: str) -> None:
    whole = (FILES / name).read_bytes()
    most = max((run.acceptance_length or 1.0) for run in runs(name))
    step = max(1, len(whole) // 60)
    for end in range(1, len(whole), step):
        try:
            (file,) = read_runs([written(tmp_path, whole[:end], name)])
        except SpecdecError:
            continue
        for run in file.runs:
            assert (run.acceptance_length or 1.0) <= most + 0.25, end
