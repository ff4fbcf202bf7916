"""Runs -> acceptance by draft length: pooling, intervals, and the cases that are refused or warned about."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import REPO
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.engines.read.pool import WindowPool
from specdec_cli.engines.read.runs import read_runs
from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.explore.acceptance_interval import (
    cluster_variance,
    interval_of,
    iteration_variance,
    largest_variance,
    t_quantile,
    wilson,
    window_spread,
)
from specdec_cli.explore.acceptance_profile import acceptance_profile
from specdec_cli.explore.acceptance_report import AcceptanceReport, report_acceptance
from specdec_cli.explore.run_checks import CheckOptions, checked
from specdec_cli.profiles.measured_run import Finding, MeasuredRun, RunFile, Windows

FILES = REPO / "tests" / "data" / "engine_files"


def windows_of(pairs: Sequence[tuple[float, float]]) -> Windows:
    """Windows of (iterations, accepted tokens)."""
    pool = WindowPool()
    for n, a in pairs:
        pool.accept(n, a)
    found = pool.windows()
    assert found is not None
    return found


def run_of(**facts: Any) -> MeasuredRun:
    return MeasuredRun(
        **{"file": "run.log", "format": "vllm-log", "draft_length": 2, "acceptance_length": 2.2, **facts}
    )


def report_of(*runs: MeasuredRun, options: CheckOptions | None = None, workload: str | None = None) -> AcceptanceReport:
    files = [RunFile("run.log", "vllm-log", runs)]
    return report_acceptance(files, options or CheckOptions(), workload=workload)


def codes(report: AcceptanceReport) -> set[str]:
    return {finding.code for finding in report.findings}


# ----------------------------------------------------------------------------------------------- intervals


def test_variance_of_an_iteration_by_hand() -> None:
    # a = (0.7, 0.5): 0, 1, 2 accepted with 0.3, 0.2, 0.5; mean 1.2, E[x^2] = 0.2 + 2.0 = 2.2, variance 2.2 - 1.44.
    assert iteration_variance((0.7, 0.5)) == pytest.approx(0.76)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_no_rates_vary_more_than_the_bound(rates: list[float]) -> None:
    falling = sorted(rates, reverse=True)
    assert iteration_variance(falling) <= largest_variance(sum(falling), len(falling)) + 1e-9


def test_window_variance_is_what_a_bootstrap_finds() -> None:
    random.seed(7)
    pairs = [(n := random.randint(50, 400), n * random.uniform(0.8, 1.6)) for _ in range(40)]
    draws = []
    for _ in range(4000):
        sample = random.choices(pairs, k=len(pairs))
        draws.append(sum(a for _, a in sample) / sum(n for n, _ in sample))
    mean = sum(draws) / len(draws)
    bootstrap = sum((one - mean) ** 2 for one in draws) / len(draws)
    assert cluster_variance(windows_of(pairs)) == pytest.approx(bootstrap, rel=0.1)


def test_sums_of_windows_add_up() -> None:
    pairs = [(100.0, 120.0), (50.0, 70.0), (80.0, 60.0), (10.0, 12.0)]
    assert windows_of(pairs[:2]) + windows_of(pairs[2:]) == windows_of(pairs)


def test_windows_alike_fold_into_the_same_sums() -> None:
    folded = WindowPool()
    folded.accept_alike(3, 100.0, 120.0)
    assert folded.windows() == windows_of([(100.0, 120.0)] * 3)


@pytest.mark.parametrize(("degrees", "table"), [(4, 2.776), (9, 2.262), (29, 2.045), (120, 1.980)])
def test_t_quantile_is_the_tables(degrees: int, table: float) -> None:
    assert t_quantile(0.975, degrees) == pytest.approx(table, rel=0.005)


def t_by_integration(probability: float, degrees: int) -> float:
    """Student's t from its density: Simpson's rule, then bisection."""
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)

    def above_half(t: float, steps: int = 400) -> float:
        weights = [1, *[4, 2] * (steps // 2 - 1), 4, 1]
        heights = [(1 + (i * t / steps) ** 2 / degrees) ** (-(degrees + 1) / 2) for i in range(steps + 1)]
        return scale * t / steps / 3 * sum(w * h for w, h in zip(weights, heights, strict=True))

    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 + above_half(middle) < probability else (low, middle)
    return low


@pytest.mark.parametrize("degrees", [4, 8, 12, 20, 40])
def test_t_quantile_misses_by_the_first_power_left_out(degrees: int) -> None:
    assert t_quantile(0.975, degrees) == pytest.approx(t_by_integration(0.975, degrees), abs=degrees**-5)


@pytest.mark.parametrize(("count", "method"), [(4, "iterations"), (5, "windows")])
def test_five_windows_have_a_spread(count: int, method: str) -> None:
    windows = windows_of([(100.0, 80.0), (100.0, 160.0), *[(100.0, 120.0)] * 3][:count])
    found = interval_of(2.2, draft_length=2, per_position=(0.7, 0.5), iterations=1000, windows=windows)
    assert found is not None
    assert found.method == method


def test_interval_of_counted_iterations_by_hand() -> None:
    found = interval_of(2.2, draft_length=2, per_position=(0.7, 0.5), iterations=1000, windows=None)
    half = 1.95996 * (0.76 / 1000) ** 0.5
    assert found is not None
    assert (found.low, found.high, found.method) == (pytest.approx(2.2 - half), pytest.approx(2.2 + half), "iterations")


def test_interval_without_rates_is_the_bound() -> None:
    found = interval_of(2.2, draft_length=2, per_position=None, iterations=1000, windows=None)
    half = 1.95996 * (1.2 * 0.8 / 1000) ** 0.5
    assert found is not None
    assert (found.high - found.low, found.method) == (pytest.approx(2 * half, rel=1e-5), "bound")


def test_windows_that_differ_widen_the_interval() -> None:
    pairs = [(100.0, 80.0), (100.0, 160.0)] * 5
    found = interval_of(2.2, draft_length=2, per_position=(0.7, 0.5), iterations=1000, windows=windows_of(pairs))
    # Each window is 0.4 off: variance of the mean 0.16 / 10 * 10 / 9; t with 9 degrees of freedom 2.262.
    assert found is not None
    assert found.method == "windows"
    assert found.high - 2.2 == pytest.approx(2.262 * (0.16 / 9) ** 0.5, rel=0.001)


def test_windows_rounded_alike_do_not_shrink_it() -> None:
    pairs = [(100.0, 120.0)] * 10
    found = interval_of(2.2, draft_length=2, per_position=(0.7, 0.5), iterations=1000, windows=windows_of(pairs))
    assert found is not None
    assert found.high - 2.2 == pytest.approx(2.262 * (0.76 / 1000) ** 0.5, rel=0.001)


@given(st.floats(1, 4), st.floats(1, 1e9))
def test_an_interval_stays_between_1_and_d_plus_1(length: float, iterations: float) -> None:
    found = interval_of(length, draft_length=3, per_position=None, iterations=iterations, windows=None)
    assert found is not None
    assert 1 <= found.low <= length <= found.high <= 4


def test_nothing_counted_has_no_interval() -> None:
    assert interval_of(2.2, draft_length=2, per_position=None, iterations=None, windows=None) is None


def test_wilson_by_hand() -> None:
    # 50 of 100: 0.5 +- z / (2 sqrt(n + z^2)).
    low, high = wilson(0.5, 100)
    assert (low, high) == (pytest.approx(0.4038, abs=1e-4), pytest.approx(0.5962, abs=1e-4))


def test_spread_between_windows_leaves_chance_out() -> None:
    pairs = [(100.0, 80.0), (100.0, 160.0)] * 5
    # Between windows 0.4^2; chance within them 0.76 * 9 / 1000.
    assert window_spread(windows_of(pairs), 0.76) == pytest.approx((0.16 - 0.76 * 9 / 1000) ** 0.5)
    assert window_spread(windows_of([(100.0, 120.0)] * 10), 0.76) == 0


# ------------------------------------------------------------------------------------------------- pooling


def test_files_are_pooled_by_iterations() -> None:
    report = report_of(
        run_of(per_position=(0.7, 0.5), iterations=1000, batch=4),
        run_of(acceptance_length=2.5, per_position=(0.9, 0.6), iterations=3000, batch=16),
    )
    (point,) = report.curve
    assert point.acceptance_length == pytest.approx((2.2 + 3 * 2.5) / 4)
    assert point.per_position == pytest.approx((0.85, 0.575))
    assert point.conditional == pytest.approx((0.85, 0.575 / 0.85))
    assert (point.iterations, point.batches) == (4000, (4, 16))


def test_runs_that_count_no_iterations_weigh_alike() -> None:
    report = report_of(run_of(batch=4, step_s=0.010), run_of(acceptance_length=2.6, batch=4, step_s=0.014))
    (point,) = report.curve
    assert point.acceptance_length == pytest.approx(2.4)
    assert (point.iterations, point.interval, point.windows, point.per_position) == (None, None, None, None)
    assert point.step_s == pytest.approx(0.012)
    # steps of different batches have no mean
    (point,) = report_of(run_of(batch=4, step_s=0.010), run_of(batch=8, step_s=0.014)).curve
    assert (point.step_s, point.batches) == (None, (4, 8))


def test_windows_of_all_runs_or_of_none() -> None:
    five = windows_of([(100.0, 120.0)] * 5)
    assert report_of(run_of(windows=five), run_of(windows=five)).curve[0].windows == 10
    assert report_of(run_of(windows=five), run_of()).curve[0].windows is None


def test_the_curve_rises_in_draft_length_and_ends_with_the_unknown() -> None:
    runs = [run_of(draft_length=d, acceptance_length=1.5) for d in (4, None, 1)]
    assert [point.draft_length for point in report_of(*runs).curve] == [1, 4, None]


def test_draft_lengths_trees_workloads_and_targets_stay_apart() -> None:
    report = report_of(
        run_of(),
        run_of(draft_length=1, acceptance_length=1.7),
        run_of(verify_width=8),
        run_of(workload="gsm8k"),
        run_of(model="other"),
        run_of(draft_length=0, acceptance_length=1.0),
    )
    assert len(report.curve) == 5
    (kept,) = [finding.message for finding in report.findings if finding.code == "several_workloads"]
    assert kept == "kept apart: unnamed, gsm8k, other; --workload chooses one"
    only = report_of(run_of(), run_of(workload="gsm8k", acceptance_length=2.5), workload="gsm8k")
    assert [point.acceptance_length for point in only.curve] == [2.5]
    with pytest.raises(UsageError, match="did you mean gsm8k"):
        report_of(run_of(workload="gsm8k"), workload="gsm8")


def test_a_draft_length_given_fills_the_gap() -> None:
    unknown = report_of(run_of(draft_length=None))
    assert "draft_length_unknown" in codes(unknown)
    told = report_of(run_of(draft_length=None), options=CheckOptions(draft_length=2))
    assert [point.draft_length for point in told.curve] == [2]
    assert "draft_length_unknown" not in codes(told)
    with pytest.raises(ProfileError, match="drafts 2 tokens, --draft-length says 3"):
        report_of(run_of(), options=CheckOptions(draft_length=3))


def test_a_file_without_acceptance_says_so() -> None:
    report = report_acceptance(read_runs([FILES / "llama_bench.json"]))
    assert report.curve == ()
    assert "no_acceptance" in codes(report)


def test_what_several_files_say_carries_their_names() -> None:
    files = [RunFile(name, "vllm-log", (run_of(file=name).found("queued", "slow"),)) for name in ("a.log", "b.log")]
    assert Finding("queued", "a.log, b.log: slow") in report_acceptance(files).findings
    more = [replace(files[0], file=name, runs=(replace(files[0].runs[0], file=name),)) for name in "abcd"]
    assert Finding("queued", "a, b: slow") in report_acceptance(more[:2]).findings
    assert Finding("queued", "a, b and 1 more: slow") in report_acceptance(more[:3]).findings
    assert Finding("queued", "a, b and 2 more: slow") in report_acceptance(more).findings


# ---------------------------------------------------------------------------------------- negative cases


def test_al_of_one_with_speculation_on_is_a_broken_head() -> None:
    report = report_of(run_of(acceptance_length=1.0))
    assert "draft_head_broken" in codes(report)
    with pytest.raises(ProfileError, match="draft head is broken"):
        profile_of(report)


@pytest.mark.parametrize("length", [3.02, 0.98])
def test_al_out_of_its_range_is_refused(length: float) -> None:
    with pytest.raises(ProfileError, match=r"acceptance length .* (above D \+ 1 = 3|below 1)"):
        report_of(run_of(acceptance_length=length))


def test_al_at_its_end_is_taken() -> None:
    assert report_of(run_of(acceptance_length=3.0)).curve[0].acceptance_length == 3.0


def base(**facts: Any) -> MeasuredRun:
    return run_of(draft_length=0, acceptance_length=1.0, batch=4.0, step_s=0.008, **facts)


def test_more_tokens_than_can_be_is_refused() -> None:
    # (D + 1) B / T0 = 3 * 4 / 0.008 = 1500 tokens/s.
    fast = run_of(batch=4.0, output_tokens_per_s=1600.0)
    with pytest.raises(ProfileError, match=r"1600 tokens/s at batch 4, above \(D \+ 1\) B / T0 = 1500"):
        report_of(base(), fast)
    report_of(base(), replace(fast, output_tokens_per_s=1490.0))
    report_of(base(), replace(fast, batch=8.0))  # no base at that batch
    report_of(base(model="other"), fast)


def test_sglangs_accept_rate_alone_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "[2025-01-01 10:00:00 TP0] Decode batch. #running-req: 4, #token: 4000, token usage: 0.03, accept rate: 0.60, "
        "gen throughput (token/s): 880.00, #queue-req: 0\n",
        "utf-8",
    )
    with pytest.raises(ProfileError, match=r"only an accept rate(.|\n)*accept len"):
        read_runs([log])
    scrape = tmp_path / "server.prom"
    scrape.write_text('sglang:spec_accept_rate{model_name="m"} 0.6\n', "utf-8")
    with pytest.raises(ProfileError, match="only an accept rate"):
        read_runs([scrape])


def test_a_bare_rate_of_llama_cpp_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("draft acceptance rate = 0.60000 (  120 accepted /   200 generated)\n", "utf-8")
    with pytest.raises(ProfileError, match="bare acceptance rate"):
        read_runs([log])


def test_context_beyond_the_drafters_training_is_said() -> None:
    run = run_of(context_tokens=3000.0)
    assert "beyond_draft_window" in codes(report_of(run, options=CheckOptions(window_tokens=2048)))
    assert "beyond_draft_window" not in codes(report_of(run, options=CheckOptions(window_tokens=4096)))


@pytest.mark.parametrize("how", ["random", "random-ids", "Random tokens"])
def test_random_prompts_are_said(how: str) -> None:
    assert "random_prompts" in codes(report_of(run_of(workload=how)))
    assert "random_prompts" in codes(report_of(run_of(), options=CheckOptions(data_set=how)))
    assert "random_prompts" not in codes(report_of(run_of(workload="sharegpt")))


def test_an_off_row_that_drafted_is_refused(tmp_path: Path) -> None:
    text = (FILES / "sglang_speculative.jsonl").read_text("utf-8")
    path = tmp_path / "bench.jsonl"
    path.write_text(text.replace('"acc_length": 1.0', '"acc_length": 1.9'), "utf-8")
    with pytest.raises(ProfileError, match=r"should be without speculation drafted: AL = 1\.90"):
        read_runs([path])
    with pytest.raises(ProfileError, match="drafted"):
        checked([base(drafted_tokens=10.0)])


def test_inferencex_points_without_speculation_must_not_draft(tmp_path: Path) -> None:
    text = (FILES / "inferencex.json").read_text("utf-8").replace('"mean_itl": 0.008', '"mean_itl": 0.016')
    path = tmp_path / "agg.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ProfileError, match=r"spec_decoding is none, but a chunk held 2\.00 tokens"):
        read_runs([path])


def test_repeated_prompts_are_refused() -> None:
    run = run_of(cached_prompt_share=0.97)
    with pytest.raises(
        ProfileError, match=r"97 % of the prompt tokens came from the prefix cache(.|\n)*--cached-prompts"
    ):
        report_of(run)
    assert "repeated_prompts" in codes(report_of(run, options=CheckOptions(cached_prompts=True)))
    report_of(run_of(cached_prompt_share=0.5))


def test_mixed_workloads_are_said() -> None:
    mixed = windows_of([(1000.0, 700.0), (1000.0, 1500.0)] * 4)
    facts = {"per_position": (0.65, 0.45), "acceptance_length": 2.1, "iterations": 8000.0}
    assert "mixed_workloads" in codes(report_of(run_of(windows=mixed, **facts)))
    alike = windows_of([(1000.0, 1080.0), (1000.0, 1120.0)] * 4)
    assert "mixed_workloads" not in codes(report_of(run_of(windows=alike, **facts)))


@pytest.mark.parametrize(
    ("windows", "facts", "mixed"),
    [
        # (iterations, accepted) eight times in turns; AL 2.1 unless said, so a spread above 0.11 is several workloads'
        ([(1000, 900), (1000, 1300)], {}, True),  # 0.2 apart, chance 7 x 0.99 / 8000
        ([(1e6, 1.08e6), (1e6, 1.12e6)], {}, False),  # 0.02 apart
        ([(1000, 400), (1000, 800)], {"acceptance_length": 1.6}, True),  # 0.2, above 0.06
        # ten iterations a window scatter by chance: 0.16 between them, of which D = 2 explains 1.1 x 0.9 x 7 / 80 =
        # 0.087, D = 3 1.1 x 1.9 x 7 / 80 = 0.183, and drafts without an end 1.1 x 2.1 x 7 / 80 = 0.202
        ([(10, 7), (10, 15)], {}, True),
        ([(10, 7), (10, 15)], {"draft_length": 3}, False),
        ([(10, 7), (10, 15)], {"draft_length": None}, False),
        ([(1000, 700), (1000, 1500)], {"draft_length": None}, True),
    ],
)
def test_windows_further_apart_than_chance_are_mixed(
    windows: list[tuple[float, float]], facts: dict[str, Any], mixed: bool
) -> None:
    run = run_of(**{"acceptance_length": 2.1, "windows": windows_of(windows * 4), **facts})
    assert ("mixed_workloads" in codes(report_of(run))) is mixed
    few = replace(run, windows=windows_of(windows * 2))
    assert "mixed_workloads" not in codes(report_of(few))  # four windows tell nothing


def spec_line(length: str, accepted: int, rates: str) -> str:
    return (
        "INFO 06-06 14:20:44 [metrics.py:86] SpecDecoding metrics: Draft acceptance rate: 60.0%, "
        f"Mean acceptance length: {length}, "
        f"Accepted: {accepted} tokens, Drafted: 2000 tokens, Per-position acceptance rate: {rates}\n"
    )


def forced_log(tmp_path: Path, text: str) -> AcceptanceReport:
    path = tmp_path / "server.log"
    path.write_text(text, "utf-8")
    return report_acceptance(read_runs([path]))


def test_forced_acceptance_is_said_and_makes_no_profile(tmp_path: Path) -> None:
    line = spec_line("2.20", 1200, "0.700, 0.500")
    config = (
        "INFO 06-06 14:00:00 config: {'rejection_sample_method': 'synthetic', 'synthetic_acceptance_length': 2.2}\n"
    )
    named = forced_log(tmp_path, config + line)
    assert "forced_acceptance" in codes(named)
    with pytest.raises(ProfileError, match="acceptance was forced"):
        profile_of(named)
    assert "forced_acceptance" in codes(forced_log(tmp_path, line * 5))  # five windows to the last token alike
    assert "forced_acceptance" not in codes(forced_log(tmp_path, line * 4))
    other = spec_line("2.21", 1210, "0.705, 0.505")
    assert "forced_acceptance" not in codes(forced_log(tmp_path, line * 4 + other))
    unset = config.replace("2.2}", "None}")
    assert "forced_acceptance" not in codes(forced_log(tmp_path, unset + line))


def test_sglang_and_tensorrt_forced_acceptance(tmp_path: Path) -> None:
    sglang = "SGLANG_SIMULATE_ACC_LEN=2.2 python -m sglang.launch_server\n" + (FILES / "sglang_2026.log").read_text(
        "utf-8"
    )
    assert "forced_acceptance" in codes(forced_log(tmp_path, sglang))
    report = (FILES / "trtllm_report.json").read_text("utf-8")
    alike = report.replace('"minimum": 1.8', '"minimum": 2.2').replace('"maximum": 2.6', '"maximum": 2.2')
    assert "forced_acceptance" in codes(forced_log(tmp_path, alike))
    assert "forced_acceptance" not in codes(forced_log(tmp_path, report))


def test_a_log_line_above_d_plus_1_is_refused_with_its_line(tmp_path: Path) -> None:
    good = spec_line("2.20", 1200, "0.700, 0.500")
    with pytest.raises(ProfileError, match=r"server\.log:2: acceptance length 3\.4 above D \+ 1 = 3"):
        forced_log(tmp_path, good + spec_line("3.40", 2400, "1.000, 1.000"))


def test_a_line_that_contradicts_itself_is_left_out(tmp_path: Path) -> None:
    report = forced_log(tmp_path, spec_line("2.20", 1200, "0.700, 0.500") + spec_line("2.20", 1200, "0.700, 0.100"))
    ((_, skipped),) = report.skipped
    assert (skipped.reason, skipped.count, skipped.first_line) == (
        "windows whose rates do not add up to their AL",
        1,
        2,
    )
    assert report.curve[0].iterations == 1000


def test_a_line_glued_to_the_next_is_left_out(tmp_path: Path) -> None:
    good = spec_line("2.20", 1200, "0.700, 0.500")
    report = forced_log(tmp_path, good + good[:-30] + good)
    ((_, skipped),) = report.skipped
    assert (skipped.reason, skipped.count) == ("unreadable lines", 1)
    assert report.curve[0].iterations == 2000


def test_drafts_that_end_early_are_said() -> None:
    assert "short_drafts" in codes(report_of(run_of(iterations=1000.0, drafted_tokens=1500.0)))
    assert "long_drafts" in codes(report_of(run_of(iterations=1000.0, drafted_tokens=6000.0)))
    assert not {"short_drafts", "long_drafts"} & codes(report_of(run_of(iterations=1000.0, drafted_tokens=2000.0)))


def test_graphs_off_are_said() -> None:
    assert "graphs_off" in codes(report_acceptance(read_runs([FILES / "sglang_2025.log"])))


def test_conditional_rates_are_left_out() -> None:
    report = report_of(run_of(per_position=(0.7, 0.71)))  # 1 + 1.41 is not 2.2
    assert "rates_inconsistent" in codes(report)
    assert report.curve[0].per_position is None


# ------------------------------------------------------------------------------------------------ profile


def profile_of(report: AcceptanceReport, **changes: Any) -> Any:
    about = {
        "name": "own-run",
        "target": "toy-model",
        "drafter": "toy-model-eagle3",
        "data_set": None,
        "measured_by": "us",
    }
    return acceptance_profile(report, **{**about, "checked": "2026-09-20", **changes})


def test_a_profile_holds_the_curve() -> None:
    profile = profile_of(report_acceptance(read_runs([FILES / "sglang_speculative.jsonl"])))
    assert [(p.draft_length, p.acceptance_length, p.verify_width) for p in profile.points] == [(2, 2.2, None)]
    assert any("Trees were measured too" in note for note in profile.notes)
    profile = profile_of(report_acceptance(read_runs([FILES / "vllm_0_9.log"])), data_set="our chats")
    (point,) = profile.points
    assert (point.per_position, point.per_position_kind, point.iterations) == ([0.7, 0.5], "measured", 1000)
    assert (profile.data_set, profile.engine) == ("our chats", "vllm")
    assert "vllm_0_9.log (vllm-log)" in profile.sources["*"].from_


def test_a_point_is_rounded_and_kept_within_its_bounds() -> None:
    report = report_of(run_of(acceptance_length=2.123456, per_position=(0.7, 0.423456), iterations=1.4, batch=4))
    found = profile_of(report, temperature=0.7)
    (point,) = found.points
    assert (point.acceptance_length, point.per_position, point.per_position_kind) == (
        2.1235,
        [0.7, 0.4235],
        "measured",
    )
    assert (point.iterations, found.temperature, found.format) == (1, 0.7, 1)
    assert "Measured at batch 4." in found.notes
    assert not any("Trees" in note for note in found.notes)
    above = replace(report, curve=(replace(report.curve[0], acceptance_length=3.00004, iterations=0.4),))
    assert (profile_of(above).points[0].acceptance_length, profile_of(above).points[0].iterations) == (3.0, None)
    # rates of fewer positions than were drafted say nothing of D = 2
    shorter = replace(report, curve=(replace(report.curve[0], per_position=(0.7,)),))
    assert (profile_of(shorter).points[0].per_position, profile_of(shorter).points[0].per_position_kind) == (None, None)


def test_a_profile_names_the_lines_that_it_rests_on() -> None:
    runs = (run_of(first_line=3, last_line=9), run_of(first_line=20, last_line=40), run_of())
    assert profile_of(report_of(*runs)).sources["*"].from_ == "run.log (vllm-log, lines 3 to 40)"
    assert profile_of(report_of(run_of(first_line=3, last_line=3))).sources["*"].from_ == "run.log (vllm-log)"
    with pytest.raises(ProfileError, match="forced") as caught:
        profile_of(report_of(run_of(first_line=3, last_line=9).found("forced_acceptance", "forced")))
    assert caught.value.file == "run.log:3-9"


def test_a_profile_of_two_workloads_is_refused() -> None:
    report = report_acceptance(read_runs([FILES / "golden.yaml"]))
    with pytest.raises(UsageError, match=r"2 workloads would share one profile \(.*thinking_on.*\)"):
        profile_of(report)
    one = report_acceptance(read_runs([FILES / "golden.yaml"]), workload="thinking_on")
    assert [p.acceptance_length for p in profile_of(one).points] == [1.7, 2.2]


def test_a_profile_without_draft_length_is_refused() -> None:
    with pytest.raises(ProfileError, match="--draft-length N says it"):
        profile_of(report_acceptance(read_runs([FILES / "sglang_serving.jsonl"])))
    with pytest.raises(ProfileError, match="no acceptance in the files"):
        profile_of(report_acceptance(read_runs([FILES / "llama_bench.md"])))
    with pytest.raises(UsageError, match="small letters"):
        profile_of(report_of(run_of()), name="Own Run")
