"""The five guidelines: published vectors, the numbers behind each sentence, and the reasons for departing.

Source of the vectors: NVIDIA Technical Blog, 2026-09-02, "Co-Designing AI Models Using Speculative Decoding for
Faster LLM Inference", and algebra from it; arXiv 2604.09557 (SPEED-Bench) for equal AL at unequal cost.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from specdec_cli.explore.guideline_mechanisms import (
    POST_VIEW,
    MechanismOption,
    g4_low_latency,
    g5_mechanism,
    layer_ratio_draft_length,
    speedup_by_layer_ratio,
    step_pays,
)
from specdec_cli.explore.guideline_records import (
    AttentionGroup,
    Choice,
    Guideline,
    LinearGroup,
    Thresholds,
    compare,
    distinct_experts,
    say,
)
from specdec_cli.explore.guidelines import (
    _weighted_median,
    aligned_draft_lengths,
    d_attention,
    d_gemm,
    g1_linear_layers,
    g2_attention_start,
    g3_tile_alignment,
    m_ridge,
    ridge_batch,
)

# Toy chip: 1e12 FLOP/s, 1e11 B/s: ridge 10 FLOP per byte.
P, BETA = 1e12, 1e11
LINEAR = LinearGroup("qkv", 0.6, 1.0, 4096, 4096, 2.0, 2.0, P, BETA)
GQA = AttentionGroup("attention", 0.6, 8, 128, 2.0, 70.0)
MLA = AttentionGroup("mla", 0.7, 128, 128, 2.0, 107.0, is_mla=True)


def make_choice(
    draft_length: int = 3,
    *,
    batch: int = 1,
    al: Sequence[float] = (1.0, 1.7, 2.2, 2.5, 2.6, 2.65, 2.68, 2.69, 2.695),
    verify_ms: Callable[[int], float] = lambda d: 10.0 + (1.0 + 0.2 * d if d else 0.0),
    draft_ms: Callable[[int], float] = lambda d: 0.5 * d,
    **changes: Any,
) -> Choice:
    """Target step 10 ms; verify 11 ms + 0.2 ms per D; 0.5 ms a draft pass: speedups 1.45, 1.77, 1.91, 1.88, ..."""
    lengths = range(len(al))
    fields: dict[str, Any] = {
        "batch": batch,
        "draft_length": draft_length,
        "acceptance_length": al,
        "verify_s": [verify_ms(d) * 1e-3 for d in lengths],
        "draft_s": [draft_ms(d) * 1e-3 for d in lengths],
        "target_s": 10e-3,
        "launch_share": 0.3,
        "draft_layers": 1,
        "target_layers": 32,
        "sequential": True,
    }
    return Choice(**{**fields, **changes})


def growing(last: int, rate: float = 0.999) -> list[float]:
    """AL by D at a constant conditional acceptance rate."""
    return [math.fsum(rate**i for i in range(d + 1)) for d in range(last + 1)]


# ------------------------------------------------------------------------- every number in `why` is in `numbers`


def flat(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        for item in value:
            yield from flat(item)
    else:
        yield value


def assert_numbers_back_the_sentence(guideline: Guideline) -> None:
    """Read the sentence as a person does: each number in it is one of `numbers`, as printed there or in percent."""
    values = list(flat(list(guideline.numbers.values())))
    text = guideline.why
    for name in sorted((v for v in values if isinstance(v, str)), key=len, reverse=True):
        text = text.replace(name, " ") if name else text
    known = [float(v) for v in values if isinstance(v, int | float)]
    found = re.findall(r"(?<![\w.])([-+]?\d+(?:\.(\d+))?)( %)?", text)
    assert found, guideline.why
    for token, decimals, percent in found:
        printed = float(token) / (100 if percent else 1)
        slack = 0.5 * 10.0 ** -len(decimals) / (100 if percent else 1) * (1 + 1e-6)
        assert any(abs(value - printed) <= slack for value in known), f"{token}{percent} in: {guideline.why}"


def assert_sound(guideline: Guideline) -> None:
    assert_numbers_back_the_sentence(guideline)
    json.dumps(guideline.numbers, allow_nan=False)
    json.dumps(guideline.suggests, allow_nan=False)
    assert guideline.applies == (guideline.verdict != "not_applicable")
    if not guideline.applies:
        assert guideline.suggests is None


def test_the_sentence_check_notices_a_number_from_nowhere() -> None:
    honest = g2_attention_start([GQA], make_choice())
    assert_numbers_back_the_sentence(honest)
    with pytest.raises(AssertionError, match="17"):
        assert_numbers_back_the_sentence(replace(honest, why=honest.why + " Expect 17 %."))


# ---------------------------------------------------------------------------------------------- the vectors


def test_ridge_with_free_activations_is_half_the_weight_bytes_times_ops_per_byte() -> None:
    # w * P / (2 * beta) = 2 * 10 / 2
    assert m_ridge(4096, 4096, 2.0, 0.0, P, BETA) == pytest.approx(10.0)
    assert m_ridge(1000, 50, 0.5, 0.0, P, BETA) == pytest.approx(2.5)


def test_ridge_with_activations_balances_time() -> None:
    # n = 600, k = 200, bf16: weights 2.4e-6 s; a row computes 2.4e-7 s and moves 800 * 2 B = 1.6e-8 s:
    # 2.4e-6 / (2.4e-7 - 0.16e-7) = 10.714 rows.
    ridge = m_ridge(600, 200, 2.0, 2.0, P, BETA)
    assert ridge == pytest.approx(2.4 / 0.224)
    compute = 2 * ridge * 600 * 200 / P
    assert compute == pytest.approx((600 * 200 * 2 + ridge * 800 * 2) / BETA)


def test_small_k_expert_never_turns_compute_bound() -> None:
    # Part 1's expert, K = 512 and N = 8192, at 9e15 FLOP/s against 8e12 B/s: a row computes in 0.93 ns
    # and moves 8704 * 2 B in 2.18 ns.
    ridge = m_ridge(8192, 512, 0.5625, 2.0, 9e15, 8e12)
    assert ridge == math.inf
    assert d_gemm(ridge, 1.0) is None


@pytest.mark.parametrize(
    ("ridge", "m", "expected"), [(295.0, 1, 294), (295.9, 32, 8), (295.0, 295, 0), (295.0, 400, 0), (8.0, 1, 7)]
)
def test_d_gemm(ridge: float, m: float, expected: int) -> None:
    assert d_gemm(ridge, m) == expected


def test_seven_drafts_need_an_eighth_of_the_batch() -> None:
    for activation_bytes in (0.0, 2.0):
        ridge = m_ridge(14336, 4096, 2.0, activation_bytes, 989e12, 3.35e12)
        assert ridge_batch(ridge, 1.0, 7) == ridge_batch(ridge, 1.0, 0) / 8
    numbers = g1_linear_layers([LINEAR], make_choice(7)).numbers
    assert numbers["ridge_batch"] == pytest.approx(numbers["ridge_batch_off"] / 8)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("group_size", "expected"), [(1, 127), (2, 63), (4, 31), (8, 15), (16, 7), (32, 3), (64, 1), (128, 0), (256, 0)]
)
def test_attention_start_table(group_size: int, expected: int) -> None:
    assert d_attention(group_size) == expected
    choice = make_choice(1)
    assert g2_attention_start([replace(GQA, group_size=group_size)], choice).suggests == expected


def test_attention_start_follows_the_kernels_tile() -> None:
    assert d_attention(8, tile=64) == 7
    assert d_attention(6) == 20


@pytest.mark.parametrize(
    ("group_size", "expected"),
    [(8, [15, 31, 47]), (6, [63, 127, 191]), (1, [127, 255, 383]), (64, [1, 3, 5]), (128, [1, 2, 3])],
)
def test_aligned_draft_lengths(group_size: int, expected: list[int]) -> None:
    assert aligned_draft_lengths(group_size) == expected


@given(st.integers(1, 160), st.sampled_from([64, 128]), st.integers(1, 300))
def test_aligned_draft_lengths_fill_tiles_and_none_is_missed(group_size: int, tile: int, at_least: int) -> None:
    found = aligned_draft_lengths(group_size, tile, at_least=at_least)
    naive = [d for d in range(at_least, at_least + 400) if group_size * (1 + d) % tile == 0]
    assert found == naive[:3]


def test_layer_ratio_speedups() -> None:
    assert speedup_by_layer_ratio(6, 9, 0.1) == pytest.approx(3.158, abs=5e-4)
    assert speedup_by_layer_ratio(4, 7, 0.05) == pytest.approx(2.963, abs=5e-4)
    assert speedup_by_layer_ratio(5, 7, 0.1) == pytest.approx(2.94, abs=5e-3)
    assert speedup_by_layer_ratio(5.2, 14, 0.1) == pytest.approx(2.17, abs=5e-3)


def test_doubling_the_draft_for_a_fifth_of_a_token_is_refused() -> None:
    assert not step_pays(5, 7, 5.2, 14, 0.1)
    assert step_pays(5, 7, 5.2, 14, 0.001)


@given(st.floats(1, 10), st.floats(0, 2), st.integers(0, 20), st.floats(0.001, 1))
def test_step_rule_is_the_sign_of_the_change_in_speedup(al: float, more: float, d: int, rho: float) -> None:
    before, after = speedup_by_layer_ratio(al, d, rho), speedup_by_layer_ratio(al + more, d + 1, rho)
    if abs(after / before - 1) > 1e-9:
        assert step_pays(al, d, al + more, d + 1, rho) == (after > before)


def test_layer_ratio_walk_stops_where_the_next_token_no_longer_pays() -> None:
    # rho 0.1, gains 0.7, 0.294, 0.136, 0.04 against costs 0.1, 0.0909, 0.0833, 0.0769: three tokens pay.
    al = [1.0, 1.7, 2.2, 2.5, 2.6]
    assert layer_ratio_draft_length(al, 0.1, 4, sequential=True) == 3
    assert layer_ratio_draft_length(al, 0.01, 4, sequential=True) == 4
    assert layer_ratio_draft_length(al, 0.1, 2, sequential=True) == 2
    # One pass of rho 0.5 is paid by the first token's 0.7; with 0.8 it is not.
    assert layer_ratio_draft_length(al, 0.5, 4, sequential=False) == 4
    assert layer_ratio_draft_length(al, 0.8, 4, sequential=False) == 0
    # a free token that is never accepted is not worth its row
    assert layer_ratio_draft_length([1.0, 1.7, 2.0, 2.2, 2.2, 2.4], 0.5, 5, sequential=False) == 3


def option(
    drafter: str, mechanism: str, al: float, verify_ms: float, draft_ms: float, **changes: Any
) -> MechanismOption:
    """At a target step of 10 ms."""
    fields: dict[str, Any] = {
        "drafter": drafter,
        "mechanism": mechanism,
        "best_draft_length": 3,
        "acceptance_length": al,
        "draft_s": draft_ms * 1e-3,
        "verify_s": verify_ms * 1e-3,
        "speedup": al * 10 / (verify_ms + draft_ms),
        "memory_bytes": 2e9,
        "training": "",
    }
    return MechanismOption(**{**fields, **changes})


# AL 2.44 for both; 1.90x and 1.60x measured, so steps of 1.284 and 1.525 target steps (SPEED-Bench).
EAGLE3 = option("head", "eagle3", 2.44, 11.9, 0.942)
DRAFT_MODEL = option("small", "draft_model", 2.44, 11.9, 3.35)


def test_equal_acceptance_at_unequal_cost_is_ranked_by_cost() -> None:
    found = g5_mechanism([DRAFT_MODEL, EAGLE3], "small")
    assert found.suggests == {"drafter": "head", "mechanism": "eagle3", "draft_length": 3}
    assert found.numbers["speedups"] == pytest.approx([1.90, 1.60], abs=5e-4)
    assert found.numbers["equal_acceptance"] == ["head", "small"]
    assert "accept alike" in found.why
    assert "1.9 and 1.6x" in found.why
    assert found.verdict == "departs"
    # of three alike, the two whose costs lie furthest apart
    middle = option("middle", "mtp", 2.44, 11.9, 1.8)
    assert g5_mechanism([DRAFT_MODEL, middle, EAGLE3], "head").numbers["equal_acceptance"] == ["head", "small"]


# ------------------------------------------------------------------------------------------------------ G1


def test_g1_counts_the_choice_against_the_ridge_of_the_group_that_decides() -> None:
    # Ridge 10 rows and a bit (activations): M = 1 -> D = 9.
    found = g1_linear_layers([LINEAR], make_choice(3))
    assert found.applies
    assert found.suggests == 9
    assert found.verdict == "departs"
    assert found.numbers["cause"] == "acceptance_flat"
    assert found.numbers["gemm_m_verify"] == 4
    assert "D = 9 itself lies past D = 8" in found.why


def test_g1_is_decided_by_time_and_not_by_one_layer() -> None:
    early = replace(LINEAR, name="small", gemm_m=5.0, time_share=0.1)  # turns at D = 1
    late = replace(LINEAR, name="large", time_share=0.5)
    choice = make_choice(3)
    assert g1_linear_layers([early, late], choice).suggests == 9
    found = g1_linear_layers([replace(early, time_share=0.51), late], choice)
    assert found.suggests == 1
    assert found.numbers["d_gemm_by_group"] == [1, 9]
    assert found.numbers["group"] == "small"


@pytest.mark.parametrize(
    ("weights", "values", "index"),
    [
        ([0.5, 0.2, 0.3], [None, 3, 7], 2),  # 3 at 0.2, 7 at 0.5: half; the unbounded come last
        ([0.6, 0.2, 0.2], [None, 3, 7], 0),
        ([0.5, 0.5], [0, None], 0),  # a bound of 0 is one
        ([0.1, 0.9], [5, 2], 1),
        ([1.0], [4], 0),
    ],
)
def test_the_middle_is_where_half_of_the_time_is_reached(
    weights: list[float], values: list[int | None], index: int
) -> None:
    assert _weighted_median(weights, values) == index


def test_g1_sets_no_bound_where_no_ridge_exists() -> None:
    endless = replace(LINEAR, name="w13", n=8192, k=512, weight_bytes=0.5625, peak_flops_per_s=9e15)
    endless = replace(endless, bandwidth_bytes_per_s=8e12)
    found = g1_linear_layers([endless], make_choice(3))
    assert found.suggests is None
    assert found.numbers["m_ridge"] is None
    assert "no bound on D" in found.why
    assert found.verdict == "follows"
    costly = g1_linear_layers([endless], make_choice(1, draft_ms=lambda d: 8.0 * d))
    assert (costly.verdict, costly.numbers["cause"]) == ("follows", "draft_cost")
    assert g1_linear_layers([endless], make_choice(0, al=(1.0, 1.02))).verdict == "departs"


def test_g1_never_lets_half_filled_experts_bind() -> None:
    # B = 2, 8 of 128 experts: 0.125 rows each, and the published advice holds from B = 128 / 16 = 8 on.
    routed = replace(LINEAR, name="experts", gemm_m=2 * 8 / 128, experts=(128, 8))
    found = g1_linear_layers([routed], make_choice(3, batch=2, moe=(128, 8)))
    assert found.suggests is None
    assert found.numbers["m_ridge"] is not None
    assert found.numbers["moe_pays_from_batch"] == 8
    # 128 (1 - (120/128)^T): 15.5 experts at T = 2, 51.6 at T = 8
    assert found.numbers["expert_growth_from_off"] == pytest.approx((1 - 0.9375**8) / (1 - 0.9375**2) - 1)
    assert "B = 2 lies below" in found.why
    many = g1_linear_layers([replace(routed, gemm_m=64 * 8 / 128)], make_choice(3, batch=64, moe=(128, 8)))
    assert many.suggests == 1  # ridge 10.2 over 4 rows
    assert "B = 64 lies past that" in many.why
    assert many.why.startswith("Linear layers take 60 % of the target pass")
    assert (many.numbers["rows_per_expert"], many.numbers["expert_growth_at"]) == (4, 3)
    # from one row on they count, and at E / (2 k) the advice begins to hold
    one = replace(routed, gemm_m=1.0)
    edge = g1_linear_layers([one], make_choice(3, batch=16, moe=(128, 4)))
    assert edge.suggests == 9
    assert "B = 16 lies past that" in edge.why
    # off: one draft token at 16 requests would read (1 - p^32) / (1 - p^16) - 1 = p^16 more, p = 1 - 4/128
    off = g1_linear_layers([one], make_choice(0, batch=16, moe=(128, 4)))
    assert (off.numbers["expert_growth_at"], off.numbers["expert_growth_from_off"]) == (1, pytest.approx(0.96875**16))
    below = g1_linear_layers([routed], make_choice(3, batch=2, moe=(128, 8)))
    assert below.why.startswith("Linear layers take 60 % of the target pass")


def test_g1_needs_linear_layers_to_matter() -> None:
    found = g1_linear_layers([replace(LINEAR, time_share=0.2)], make_choice())
    assert (found.applies, found.verdict) == (False, "not_applicable")
    assert "20 %" in found.why
    for none in ([], [replace(LINEAR, time_share=0.0)]):
        assert g1_linear_layers(none, make_choice()).why == "No linear layer takes time in the target pass (0 %)."
    assert g1_linear_layers([replace(LINEAR, time_share=0.2)], make_choice(), Thresholds(linear_share=0.1)).applies


# --------------------------------------------------------------------------------------------------- G2, G3


def test_g2_shows_the_computed_free_length_beside_the_published_one() -> None:
    found = g2_attention_start([GQA], make_choice(3))
    assert found.suggests == 15
    assert found.numbers["d_free"] == 7  # 70 rows hold W = 8
    assert found.numbers["rows"] == 8 * 4
    assert "8 query heads share a KV head" in found.why
    assert "128 query heads share the latent cache" in g2_attention_start([MLA], make_choice(3)).why
    narrow = g2_attention_start([replace(GQA, free_rows=8.0)], make_choice(3))
    assert narrow.numbers["d_free"] == 0  # one token's rows and no more
    assert found.numbers["flop_per_byte_off"] == 8.0  # 2G / 2 bytes
    assert found.numbers["flop_per_byte"] == 32.0
    assert "D = 15" in found.why
    assert "D = 7" in found.why
    assert found.verdict == "departs"


def test_g2_is_a_start_and_not_a_maximum() -> None:
    found = g2_attention_start([replace(GQA, group_size=64)], make_choice(3))
    assert (found.suggests, found.verdict) == (1, "follows")
    assert g2_attention_start([MLA], make_choice(3)).suggests == 0
    # MLA under TP 8: 16 query heads on a GPU
    assert g2_attention_start([replace(MLA, group_size=16)], make_choice(3)).suggests == 7


def test_g2_takes_the_group_that_takes_most_time() -> None:
    window = replace(GQA, name="window", time_share=0.2, group_size=4)
    found = g2_attention_start([window, replace(GQA, time_share=0.4)], make_choice(3))
    assert found.applies
    assert found.suggests == 15
    assert found.numbers["d_attention_by_group"] == [31, 15]


def test_attention_guidelines_apply_from_the_threshold_on() -> None:
    for function in (g2_attention_start, g3_tile_alignment):
        below = function([replace(GQA, time_share=0.49, group_size=64)], make_choice(3))
        assert (below.applies, below.verdict, below.suggests) == (False, "not_applicable", None)
        assert "49 %" in below.why
        assert function([replace(GQA, time_share=0.5, group_size=64)], make_choice(3)).applies
        none = function([], make_choice(3))
        assert not none.applies
        assert_sound(none)


def test_free_rows_without_an_end_are_said_so() -> None:
    found = g2_attention_start([replace(GQA, free_rows=None)], make_choice(3))
    assert found.numbers["d_free"] is None
    assert "never leaves the floor" in found.why


def test_g3_speaks_only_above_the_start() -> None:
    assert not g3_tile_alignment([GQA], make_choice(3)).applies
    assert not g3_tile_alignment([GQA], make_choice(15, al=growing(20))).applies


def test_g3_wants_whole_tiles() -> None:
    al = growing(40)
    aligned = g3_tile_alignment([GQA], make_choice(31, al=al))
    assert (aligned.suggests, aligned.verdict) == ([31, 47, 63], "follows")
    assert aligned.numbers["tile_fill"] == 1.0
    # 8 * 21 = 168 rows on two tiles of 128; D = 31 costs no more in verification and yields more.
    parted = g3_tile_alignment([GQA], make_choice(20, al=al, verify_ms=lambda d: 11.0, draft_ms=lambda d: 0.1))
    assert parted.numbers["tile_fill"] == pytest.approx(168 / 256)
    assert (parted.suggests, parted.verdict) == ([15, 31, 47], "departs")
    assert parted.numbers["cause"] == "other_is_faster"
    assert parted.numbers["compared_draft_length"] == 31


def test_g3_says_when_no_aligned_length_was_computed() -> None:
    six = replace(GQA, group_size=6)  # start at 20, first whole tiles at 63
    found = g3_tile_alignment([six], make_choice(30, al=growing(40)))
    assert (found.suggests, found.verdict) == ([63, 127, 191], "departs")
    assert "D = 40" in found.why


# ------------------------------------------------------------------------------------------------------ G4


def test_g4_puts_the_computed_pass_beside_the_layer_ratio() -> None:
    found = g4_low_latency(make_choice(3))
    assert found.numbers["rho"] == 1 / 32
    assert found.numbers["draft_pass_ratio"] == pytest.approx(0.05)  # 0.5 of 10 ms
    assert found.numbers["draft_pass_over_rho"] == pytest.approx(1.6)
    # Gains .70 .29 .14 .04 against .031 .030 .029 .029, then .019 against .028.
    assert found.suggests == 4
    assert found.numbers["computed_draft_length"] == 3
    assert found.verdict == "follows"  # 1.91x at D = 3 and 1.88x at D = 4: a tie
    assert found.numbers["cause"] == "tie"


def test_g4_departs_where_a_real_pass_costs_more_than_its_layers() -> None:
    found = g4_low_latency(make_choice(1, draft_ms=lambda d: 4.0 * d))
    assert (found.suggests, found.verdict) == (4, "departs")
    assert found.numbers["cause"] == "draft_cost"
    assert "Drafting costs more than it brings" in found.why


def test_g4_computed_length_is_not_stopped_by_the_entry_fee() -> None:
    # AL 1.3, 1.9, 2.4 against steps of 14, 14.5, 15 ms: 0.93x at D = 1 and 1.6x at D = 3.
    choice = make_choice(3, al=(1.0, 1.3, 1.9, 2.4), verify_ms=lambda d: 13.5 if d else 10.0)
    assert choice.speedup(1) < 1
    assert g4_low_latency(choice).numbers["computed_draft_length"] == 3


def test_g4_applies_to_small_batches_or_launch_bound_steps() -> None:
    assert g4_low_latency(make_choice(batch=4, launch_share=0.0)).applies
    assert g4_low_latency(make_choice(batch=5, launch_share=0.25)).applies
    found = g4_low_latency(make_choice(batch=5, launch_share=0.24))
    assert (found.applies, found.verdict) == (False, "not_applicable")


def test_g4_has_nothing_to_weigh_without_a_draft() -> None:
    found = g4_low_latency(make_choice(0, al=(1.0,)))
    assert (found.applies, found.verdict) == (False, "not_applicable")
    assert_sound(found)


def test_g4_weighs_one_more_token_by_layers_and_by_times() -> None:
    # D = 3 to 4: AL 2.5 to 2.6; one pass more of 1/32 on 1 + 3/32; steps of 13.1 and 13.8 ms.
    numbers = g4_low_latency(make_choice(3)).numbers
    assert numbers["next_gain"] == pytest.approx(0.04)
    assert numbers["next_cost_by_layers"] == pytest.approx(1 / 35)
    assert numbers["next_cost"] == pytest.approx(13.8 / 13.1 - 1)


def test_g4_computes_what_experts_add() -> None:
    found = g4_low_latency(make_choice(3, moe=(128, 8)))
    # One token reads 8 experts, four read 128 (1 - (15/16)^4) = 29.1
    assert found.numbers["expert_growth_from_off"] == pytest.approx(128 * (1 - 0.9375**4) / 8 - 1)
    assert "Experts read grow +264 %" in found.why


def test_g4_of_one_pass_and_of_a_look_up() -> None:
    block = g4_low_latency(make_choice(3, sequential=False, draft_layers=5, draft_ms=lambda d: 1.2 if d else 0.0))
    assert block.numbers["draft_pass_ratio"] == pytest.approx(0.12)
    assert block.numbers["next_cost_by_layers"] == 0.0
    assert block.suggests == 8
    lookup = g4_low_latency(make_choice(3, sequential=False, draft_layers=0))
    assert lookup.numbers["draft_pass_over_rho"] is None


# ------------------------------------------------------------------------------------------------------ G5


def test_g5_ranks_by_speedup_and_prints_the_posts_view_as_an_opinion() -> None:
    mtp = option("mtp-layer", "mtp", 2.2, 11.5, 0.6)
    found = g5_mechanism([DRAFT_MODEL, mtp, EAGLE3], "head")
    assert found.numbers["drafters"] == ["head", "mtp-layer", "small"]
    assert (found.numbers["best_memory_gb"], found.numbers["memory_gb"]) == (2.0, [2.0, 2.0, 2.0])
    assert found.numbers["training"] == ["", "", ""]
    assert "None of them beats plain decoding" not in found.why
    assert found.numbers["post_views"] == [POST_VIEW["eagle3"], POST_VIEW["mtp"], POST_VIEW["draft_model"]]
    assert "The post's opinion of eagle3, beside this rank: not recommended." in found.why
    assert found.verdict == "follows"


def test_g5_highest_acceptance_alone_does_not_win() -> None:
    deep = option("deep", "draft_model", 3.4, 12.0, 9.0)
    found = g5_mechanism([deep, EAGLE3], "deep")
    assert "deep has the highest AL, 3.4" in found.why
    assert found.suggests == {"drafter": "head", "mechanism": "eagle3", "draft_length": 3}
    assert found.numbers["chosen_loss"] == pytest.approx(1 - (34 / 21) / (24.4 / 12.842))


def test_g5_counts_a_block_pass_in_sequential_passes() -> None:
    # 5 layers once cost what 5 single-layer passes do.
    block = option("block", "dflash", 2.5, 11.9, 1.0, best_draft_length=7)
    chain = option("chain", "mtp", 2.3, 11.9, 0.6)
    found = g5_mechanism([block, chain], "block")
    assert found.numbers["one_pass_in_sequential_passes"] == pytest.approx(5.0)
    assert "One pass of block costs as much as 5 of chain." in found.why


def test_g5_off_is_an_answer() -> None:
    slow = [option("a", "eagle3", 1.1, 12, 1), option("b", "medusa", 1.05, 12, 1)]
    found = g5_mechanism(slow, "none")
    assert found.suggests == {"drafter": "none", "mechanism": None, "draft_length": 0}
    assert found.verdict == "follows"
    assert "None of them beats plain decoding" in found.why
    assert "opinion" in found.why
    assert found.why.endswith("The choice is off.")
    even = [replace(one, speedup=1.0) for one in slow]
    assert g5_mechanism(even, "none").suggests == found.suggests  # as fast as plain decoding is no gain
    assert "None of them beats plain decoding" in g5_mechanism(even, "none").why
    assert g5_mechanism(slow, "b").verdict == "departs"
    assert "opinion" not in g5_mechanism([slow[1], replace(slow[1], drafter="c")], "none").why


def test_g5_ties_are_no_departure_and_go_to_the_smaller_memory() -> None:
    light = option("light", "mtp", 2.44, 11.9, 0.942, memory_bytes=1e9)
    assert g5_mechanism([EAGLE3, light], "head").suggests == {
        "drafter": "light",
        "mechanism": "mtp",
        "draft_length": 3,
    }
    assert g5_mechanism([EAGLE3, light], "head").verdict == "follows"


def test_g5_needs_two_and_knows_the_chosen() -> None:
    assert g5_mechanism([EAGLE3], "head").verdict == "not_applicable"
    with pytest.raises(ValueError, match="not among"):
        g5_mechanism([EAGLE3, DRAFT_MODEL], "other")


# ----------------------------------------------------------------------------- reasons for departing, computed


@pytest.mark.parametrize(
    ("cause", "follows", "choice", "target"),
    [
        ("same", True, make_choice(3), 3),
        ("tie", True, make_choice(3), 4),
        ("beyond_evaluated", True, make_choice(8, draft_ms=lambda d: 0), 15),
        ("memory", True, make_choice(2, memory_draft_limit=2), 15),
        ("acceptance_flat", False, make_choice(3, al=(1.0, 1.7, 2.2, 2.5, 2.51, 2.52, 2.52)), 6),
        ("draft_cost", False, make_choice(1, draft_ms=lambda d: 4.0 * d), 4),
        ("verify_cost", False, make_choice(1, verify_ms=lambda d: 10 + 4.0 * d), 4),
        ("expert_reads", False, make_choice(1, verify_ms=lambda d: 10 + 4.0 * d, moe=(128, 8)), 4),
        ("longer_pays", False, make_choice(3), 1),
        ("other_is_faster", False, make_choice(1), 3),
        ("other_is_faster", False, make_choice(8), 3),
    ],
)
def test_each_cause_is_found_from_the_numbers(cause: str, follows: bool, choice: Choice, target: int) -> None:
    found = compare(choice, target, Thresholds())
    assert (found.numbers["cause"], found.follows) == (cause, follows)
    if follows or cause in ("longer_pays", "other_is_faster"):
        return
    numbers = {key: value for key, value in found.numbers.items() if isinstance(value, int | float)}
    assert numbers["step_growth"] == pytest.approx(numbers["verify_growth"] + numbers["draft_growth"])
    assert (1 + numbers["acceptance_gain"]) / (1 + numbers["step_growth"]) == pytest.approx(
        numbers["compared_speedup"] / numbers["speedup"]
    )


def test_a_tile_edge_is_named_only_where_one_is_crossed_and_attention_dominates() -> None:
    choice = make_choice(15, al=growing(20, 0.95), verify_ms=lambda d: 10.0 if d <= 15 else 20.0, draft_ms=lambda d: 0)
    crossing = compare(choice, 20, Thresholds(), attention=GQA)
    assert crossing.numbers["cause"] == "tile_edge"
    assert (crossing.numbers["tiles"], crossing.numbers["compared_tiles"]) == (1, 2)
    for other in (None, replace(GQA, time_share=0.2), replace(GQA, group_size=4)):
        assert compare(choice, 20, Thresholds(), attention=other).numbers["cause"] == "verify_cost"


def test_experts_already_all_read_are_no_reason() -> None:
    choice = make_choice(1, batch=256, verify_ms=lambda d: 10 + 4.0 * d, moe=(128, 8))
    assert compare(choice, 4, Thresholds()).numbers["cause"] == "verify_cost"


def test_memory_stops_what_the_curve_would_allow() -> None:
    choice = make_choice(2, memory_draft_limit=2)
    found = g2_attention_start([GQA], choice)
    assert found.verdict == "follows"
    assert "Memory holds drafts up to D = 2" in found.why


def test_distinct_experts() -> None:
    assert distinct_experts((128, 8), 1) == pytest.approx(8)
    assert distinct_experts((8, 2), 2) == pytest.approx(3.5)  # 8 (1 - 0.75^2)
    assert distinct_experts((8, 8), 3) == 8


@pytest.mark.parametrize(
    "changes",
    [
        {"draft_length": 9},
        {"draft_length": -1},
        {"batch": 0},
        {"target_s": 0.0},
        {"draft_s": [0.0]},
        {"memory_draft_limit": 2},
    ],
)
def test_a_choice_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        make_choice(**{"draft_length": 3, **changes})


@pytest.mark.parametrize(("items", "said"), [([1.5], "1.5"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")])
def test_lists_are_said_as_people_do(items: list[Any], said: str) -> None:
    assert say("{items}", {"items": items}) == said


def test_missing_numbers_cannot_be_said() -> None:
    with pytest.raises(ValueError, match="missing"):
        say("{x}", {"x": None})
    assert say("{x} {y:%} {z:+%} {w}", {"x": 12345.6, "y": 0.1234, "z": 0.5, "w": [1, 2.5, "c"]}) == (
        "12346 12.3 % +50 % 1, 2.5 and c"
    )


# ------------------------------------------------------------------ inputs move the numbers and the sentence


def unlike(before: Guideline, after: Guideline) -> bool:
    assert_sound(before)
    assert_sound(after)
    return before.numbers != after.numbers and before.why != after.why


@pytest.mark.parametrize(
    "change",
    [
        {"time_share": 0.5},
        {"gemm_m": 2.0},
        {"n": 600, "k": 200},
        {"weight_bytes": 1.0},
        {"activation_bytes": 100.0},
        {"peak_flops_per_s": 2 * P},
        {"bandwidth_bytes_per_s": 2 * BETA},
    ],
    ids=str,
)
def test_g1_moves_with_its_inputs(change: dict[str, Any]) -> None:
    choice = make_choice(3)
    assert unlike(g1_linear_layers([LINEAR], choice), g1_linear_layers([replace(LINEAR, **change)], choice))


def test_g1_moves_with_the_mixture() -> None:
    routed = replace(LINEAR, experts=(128, 8))
    for moe in ((128, 4), (64, 8)):
        before, after = make_choice(3, moe=(128, 8)), make_choice(3, moe=moe)
        assert unlike(g1_linear_layers([routed], before), g1_linear_layers([routed], after))


@pytest.mark.parametrize("change", [{"time_share": 0.7}, {"group_size": 4}, {"tile": 64}, {"free_rows": 40.0}], ids=str)
def test_g2_and_g3_move_with_their_inputs(change: dict[str, Any]) -> None:
    for function, d in ((g2_attention_start, 3), (g3_tile_alignment, 33)):
        choice = make_choice(d, al=growing(40))
        assert unlike(function([GQA], choice), function([replace(GQA, **change)], choice))


def test_g2_kv_bytes_move_the_intensity() -> None:
    narrow = g2_attention_start([replace(GQA, kv_bytes=1.0)], make_choice(3))
    assert narrow.numbers["flop_per_byte_off"] == 16.0


@pytest.mark.parametrize(
    "change",
    [
        {"batch": 2},
        {"launch_share": 0.5},
        {"draft_layers": 5},
        {"target_layers": 80},
        {"al": (1.0, 1.6, 2.0, 2.2, 2.3)},
        {"draft_ms": lambda d: 1.5 * d},
        {"verify_ms": lambda d: 10 + 1.5 * d},
        {"moe": (128, 8)},
        {"sequential": False},
        {"target_s": 8e-3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_g4_moves_with_its_inputs(change: dict[str, Any]) -> None:
    assert unlike(g4_low_latency(make_choice(3)), g4_low_latency(make_choice(3, **change)))


@pytest.mark.parametrize(
    "change",
    [
        {"speedup": 1.7},
        {"acceptance_length": 2.9},
        {"draft_s": 2e-3},
        {"verify_s": 13e-3},
        {"best_draft_length": 5},
        {"memory_bytes": 5e9},
        {"mechanism": "mtp"},
    ],
    ids=str,
)
def test_g5_moves_with_its_inputs(change: dict[str, Any]) -> None:
    after = replace(EAGLE3, **change)
    assert unlike(g5_mechanism([EAGLE3, DRAFT_MODEL], "head"), g5_mechanism([after, DRAFT_MODEL], "head"))


# -------------------------------------------------------------------------------- all of it, on random points

share = st.floats(0.01, 1.0)
linear = st.builds(
    LinearGroup,
    name=st.sampled_from(["qkv", "layer.0.w13"]),
    time_share=share,
    gemm_m=st.floats(0.01, 4096),
    n=st.integers(64, 65536),
    k=st.integers(64, 65536),
    weight_bytes=st.sampled_from([0.5625, 1.0, 2.0]),
    activation_bytes=st.sampled_from([0.0, 1.0, 2.0]),
    peak_flops_per_s=st.floats(1e12, 1e16),
    bandwidth_bytes_per_s=st.floats(1e11, 1e13),
    experts=st.sampled_from([None, (128, 8)]),
)
attention = st.builds(
    AttentionGroup,
    name=st.just("attention"),
    time_share=share,
    group_size=st.integers(1, 160),
    tile=st.sampled_from([64, 128]),
    kv_bytes=st.sampled_from([1.0, 2.0]),
    free_rows=st.none() | st.floats(1, 4096),
    is_mla=st.booleans(),
)


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    last = draw(st.integers(0, 40))
    rates = draw(st.lists(st.floats(0, 1), min_size=last, max_size=last))
    al = [1.0]
    for i in range(last):
        al.append(al[-1] + math.prod(rates[: i + 1]))
    times = st.lists(st.floats(1e-4, 1.0), min_size=last, max_size=last)
    target = draw(st.floats(1e-4, 1.0))
    limit = draw(st.none() | st.integers(0, last))
    return Choice(
        batch=draw(st.integers(1, 512)),
        draft_length=draw(st.integers(0, last if limit is None else limit)),
        acceptance_length=al,
        verify_s=[target, *draw(times)],
        draft_s=[0.0, *draw(times)],
        target_s=target,
        launch_share=draw(st.floats(0, 1)),
        draft_layers=draw(st.integers(0, 40)),
        target_layers=draw(st.integers(1, 100)),
        sequential=draw(st.booleans()),
        moe=draw(st.sampled_from([None, (128, 8), (8, 2)])),
        memory_draft_limit=limit,
    )


@given(st.lists(linear, max_size=4), st.lists(attention, max_size=3), choices())
def test_every_guideline_is_sound_anywhere(
    linears: list[LinearGroup], attentions: list[AttentionGroup], choice: Choice
) -> None:
    found = [
        g1_linear_layers(linears, choice),
        g2_attention_start(attentions, choice),
        g3_tile_alignment(attentions, choice),
        g4_low_latency(choice),
    ]
    assert [guideline.id for guideline in found] == ["G1", "G2", "G3", "G4"]
    for guideline in found:
        assert_sound(guideline)


options = st.builds(
    MechanismOption,
    drafter=st.just(""),
    mechanism=st.sampled_from(["eagle3", "mtp", "dflash", "draft_model", "ngram", "medusa"]),
    best_draft_length=st.integers(0, 16),
    acceptance_length=st.floats(1, 9),
    draft_s=st.just(0.0) | st.floats(1e-6, 0.1),
    verify_s=st.floats(1e-3, 0.1),
    speedup=st.floats(0.3, 6),
    memory_bytes=st.floats(0, 1e11),
    training=st.sampled_from(["", "1-10B tokens"]),
)


@given(st.lists(options, max_size=5), st.data())
def test_g5_is_sound_and_ignores_the_order(found: list[MechanismOption], data: st.DataObject) -> None:
    named = [replace(o, drafter=f"drafter-{chr(97 + i)}") for i, o in enumerate(found)]
    chosen = data.draw(st.sampled_from(["none", *(o.drafter for o in named)]))
    guideline = g5_mechanism(named, chosen)
    assert_sound(guideline)
    assert guideline == g5_mechanism(named[::-1], chosen)
