"""The five guidelines: published vectors, the numbers behind each sentence, and the reasons for departing.

Source of the vectors: NVIDIA Technical Blog, 2026-09-02, "Co-Designing AI Models Using Speculative Decoding for
Faster LLM Inference", and algebra from it; arXiv 2604.09557 (SPEED-Bench) for equal AL at unequal cost.
"""

from __future__ import annotations

import math

import pytest
from guideline_toys import (
    BETA,
    DRAFT_MODEL,
    EAGLE3,
    GQA,
    LINEAR,
    P,
    assert_numbers_back_the_sentence,
    assert_sound,
    make_choice,
    option,
)
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from specdec_cli.explore.guideline_mechanisms import (
    MechanismOption,
    g4_low_latency,
    g5_mechanism,
    layer_ratio_draft_length,
    speedup_by_layer_ratio,
    step_pays,
)
from specdec_cli.explore.guideline_records import AttentionGroup, Choice, LinearGroup
from specdec_cli.explore.guidelines import (
    aligned_draft_lengths,
    d_attention,
    d_gemm,
    g1_linear_layers,
    g2_attention_start,
    g3_tile_alignment,
    m_ridge,
    ridge_batch,
)

# ----------------------------------------------------------------------------------------- the vectors


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


# AL 2.44 for both; 1.90x and 1.60x measured, so steps of 1.284 and 1.525 target steps (SPEED-Bench).


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


# --------------------------------------------------------------- every number in `why` is in `numbers`


def test_the_sentence_check_notices_a_number_from_nowhere() -> None:
    honest = g2_attention_start([GQA], make_choice())
    assert_numbers_back_the_sentence(honest)
    with pytest.raises(AssertionError, match="17"):
        assert_numbers_back_the_sentence(replace(honest, why=honest.why + " Expect 17 %."))


# ------------------------------------------------------------------------- all of it, on random points


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
