"""Each kernel's time by hand on toy hardware: 1e12 FLOP/s and 1e11 B/s, so 1e6 FLOP or 1e5 bytes take 1 us."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from builders import toy_gemm, toy_kernels
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.physics import roofline
from specdec_cli.physics.roofline import Cost, distinct_experts, p_norm, padded_rows
from specdec_cli.profiles.schema import AllReduce, AttentionKernel, GemmKernel, MlaKernel, MoeKernel, TileKernel

P, BETA, US = 1e12, 1e11, 1e-6

seconds = st.floats(0.0, 1e3)
fractions = st.floats(0.05, 1.5)


def gemm(
    m: Any, n: float = 1000, k: float = 2000, weight_bytes: float = 2.0, *, peak: float = P, **kernel: Any
) -> Cost:
    record = GemmKernel(**toy_gemm(**kernel))
    return roofline.gemm_seconds(m, n, k, weight_bytes, peak=peak, bandwidth=BETA, kernel=record)


def attention(requests: Any, rows: Any, context: Any, **changes: Any) -> Cost:
    kernel = {"floor_us": 0.0, "eta_m": 1.0, "eta_c": 1.0, **changes.pop("kernel", {})}
    sizes = {"kv_heads": 2, "kv_dim": 250, "kv_element_bytes": 2.0, "tile": 128, **changes}
    return roofline.attention_seconds(
        requests, rows, context, peak=P, bandwidth=BETA, kernel=AttentionKernel(**kernel), **sizes
    )


def mla(requests: Any, rows: Any, context: Any, *, cache_reads: Any = 1.0, **kernel: Any) -> Cost:
    figures = {"eta_m": 1.0, "eta_c": 1.0, "tau_us": 0.0, "tau_l_us": 0.0, "overlap_exponent": 1.0, **kernel}
    return roofline.mla_seconds(
        requests,
        rows,
        context,
        latent_dim=512,
        rope_dim=64,
        kv_element_bytes=2.0,
        peak=P,
        bandwidth=BETA,
        kernel=MlaKernel(**figures),
        cache_reads=cache_reads,
    )


def moe(tokens: Any, touched_by: Any = None, *, expert_parallel: int = 1, experts: int = 8, **kernel: Any) -> Cost:
    """8 experts, 2 for a token, hidden 1000, width 500, gated, bf16: a matrix triple has 1.5e6 weights."""
    return roofline.moe_seconds(
        tokens,
        tokens if touched_by is None else touched_by,
        experts=experts,
        top_k=2,
        hidden=1000,
        intermediate=500,
        matrices=3,
        weight_bytes=2.0,
        expert_parallel=expert_parallel,
        peak=P,
        bandwidth=BETA,
        kernel=MoeKernel(**{**toy_kernels()["moe"]["bf16"], **kernel}),
    )


# ------------------------------------------------------------------------------------------------- overlap


@settings(deadline=None)
@given(seconds, seconds, st.floats(1.0, 50.0))
def test_overlap_lies_between_the_longer_side_and_the_sum(a: float, b: float, p: float) -> None:
    together = float(p_norm(a, b, p))
    assert max(a, b) * (1 - 1e-12) <= together <= (a + b) * (1 + 1e-12)
    assert together == float(p_norm(b, a, p))


def test_overlap_exponents() -> None:
    assert float(p_norm(3.0, 4.0, 1.0)) == 7.0
    assert float(p_norm(3.0, 4.0, 2.0)) == pytest.approx(5.0, rel=1e-15)
    assert float(p_norm(3.0, 4.0, 500.0)) == pytest.approx(4.0, rel=1e-12)  # (3/4)^500 is nothing
    assert float(p_norm(0.0, 0.0, 2.5)) == 0.0


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e300])
def test_overlap_neither_under_nor_overflows(scale: float) -> None:
    assert float(p_norm(3 * scale, 4 * scale, 2.0)) == pytest.approx(5 * scale, rel=1e-14)
    assert float(p_norm(1e-300, scale, 8.0)) >= scale


# --------------------------------------------------------------------------------------------- dense linear


def test_gemm_by_hand() -> None:
    # F = 2 x 10 x 1000 x 2000 = 4e7 -> 40 us
    # Q = 1000 x 2000 x 2 + 10 (2000 x 2 + 1000 x 2) = 4e6 + 6e4 = 4.06e6 -> 40.6 us
    for p, expected_us in ((1.0, 80.6), (2.0, math.sqrt(40**2 + 40.6**2)), (5000.0, 40.6)):
        found = gemm(10, overlap_exponent=p)
        assert float(found.seconds) == pytest.approx(expected_us * US, rel=1e-4 if p > 100 else 1e-12)
        assert float(found.compute_s) == pytest.approx(40 * US)
        assert float(found.memory_s) == pytest.approx(40.6 * US)
        assert float(found.flops) == 4e7
        assert float(found.bytes) == 4.06e6
        assert float(found.fixed_s) == pytest.approx(0.0, abs=1e-18)


def test_gemm_at_achieved_fractions() -> None:
    # 40 us / 0.8 + 40.6 us / 0.7 = 50 + 58 = 108 us
    assert float(gemm(10, eta_c=0.8, eta_m=0.7).seconds) == pytest.approx(108 * US)


def test_gemm_launch_is_added_after_the_overlap() -> None:
    found = gemm(10, overlap_exponent=2.0, tau_us=5.0)
    assert float(found.seconds) == pytest.approx((math.sqrt(40**2 + 40.6**2) + 5.0) * US)
    assert float(found.fixed_s) == pytest.approx(5.0 * US)


def test_gemm_serial_reduction_hides_beside_the_streaming() -> None:
    # K = 8192 at 3 us for each 8192; the bandwidth is chosen so that streaming takes 4 us and compute nothing:
    # sqrt(4^2 + 3^2) = 5 us, and the launch on top
    moved = 1000 * 8192 * 2 + 8192 * 2 + 1000 * 2
    kernel = GemmKernel(**toy_gemm(tau_k_us=3.0, tau_us=2.0))
    found = roofline.gemm_seconds(1, 1000, 8192, 2.0, peak=1e30, bandwidth=moved / (4 * US), kernel=kernel)
    assert float(found.seconds) == pytest.approx(7.0 * US)
    assert float(found.fixed_s) == pytest.approx(3.0 * US)  # what it adds to the 4 us, and the launch


def test_gemm_serial_reduction_grows_with_k() -> None:
    # nothing else costs anything: 2 us x 16384 / 8192 = 4 us
    kernel = GemmKernel(**toy_gemm(tau_k_us=2.0))
    found = roofline.gemm_seconds(1, 10, 16384, 2.0, peak=1e30, bandwidth=1e30, kernel=kernel)
    assert float(found.seconds) == pytest.approx(4.0 * US)


def test_many_rows_go_to_the_tile_kernel() -> None:
    """1000 x 1000 weights of one byte, free activations, toy peaks: a row is 2 us of arithmetic at the peak; the
    mat-vec kernel reaches a tenth of it, the tile kernel half of a peak twice as high at half the bandwidth."""
    tile = TileKernel(above_rows=8, compute="int8", eta_c=0.5, eta_m=0.5)
    kernel = GemmKernel(**toy_gemm(eta_c=0.1, eta_m=1.0, tau_us=0.0, overlap_exponent=1.0), tile=tile)  # type: ignore[arg-type]

    def at(rows: float) -> float:
        found = roofline.gemm_seconds(rows, 1e3, 1e3, 1.0, peak=P, bandwidth=BETA, kernel=kernel, tile_peak=2 * P)
        assert found.flops == pytest.approx(2e6 * rows)
        return float(found.seconds) / US

    def moved(rows: float) -> float:
        return (1e6 + rows * 4e3) / BETA / US  # weights, and 2 bytes of each input and output element

    assert at(1) == pytest.approx(20 + moved(1))
    assert at(8) == pytest.approx(160 + moved(8))
    assert at(9) == at(8)  # 9 rows in tiles would take 18 + 2 x 10.4 us: more rows never take less
    assert at(100) == pytest.approx(200 + 2 * moved(100))
    rows = np.arange(1.0, 200.0)
    found = roofline.gemm_seconds(rows, 1e3, 1e3, 1.0, peak=P, bandwidth=BETA, kernel=kernel, tile_peak=2 * P)
    assert np.all(np.diff(found.seconds) >= 0)
    assert np.all(found.upper_s() >= found.seconds - 1e-15)


def test_gemm_quantises_its_activations_first() -> None:
    # fp8: F = 4e7 at 2e12 FLOP/s -> 20 us; Q = 2e6 + 10 (2000 x 1 + 1000 x 2) = 2.04e6 -> 20.4 us
    # quantise: 10 x 2000 x (2 read + 1 written) = 6e4 bytes at half the bandwidth -> 1.2 us
    found = gemm(10, weight_bytes=1.0, peak=2e12, compute="fp8", eta_q=0.5)
    assert float(found.seconds) == pytest.approx(41.6 * US)
    assert float(found.memory_s) == pytest.approx(21.6 * US)
    without = gemm(10, weight_bytes=1.0, peak=2e12, compute="fp8")
    assert float(without.seconds) == pytest.approx(40.4 * US)


def test_weight_only_kernel_keeps_activations_in_bf16() -> None:
    # int4 weights at 0.5 bytes, bf16 arithmetic: Q = 1e6 + 10 (4000 + 2000) = 1.06e6 -> 10.6 us; F -> 40 us
    found = gemm(10, weight_bytes=0.5, compute="bf16")
    assert float(found.seconds) == pytest.approx(50.6 * US)


@settings(deadline=None)
@given(st.floats(1, 1e6), st.floats(1, 1e6), fractions, fractions, st.floats(1, 10), st.floats(0, 50))
def test_gemm_time_grows_with_rows_and_stays_under_its_upper_bound(
    few: float, more: float, eta_c: float, eta_m: float, p: float, tau: float
) -> None:
    low, high = sorted((few, more))
    found = gemm(
        np.array([low, high]), eta_c=eta_c, eta_m=eta_m, overlap_exponent=p, tau_us=tau, tau_k_us=2.0, eta_q=0.5
    )
    assert found.seconds[0] <= found.seconds[1] * (1 + 1e-12)
    assert np.all(found.seconds <= found.upper_s() * (1 + 1e-12))
    assert np.all(found.seconds >= np.maximum(found.compute_s, found.fixed_s) * (1 - 1e-12))


@settings(deadline=None)
@given(st.floats(0.5, 1.0))
def test_the_upper_bound_is_one_for_every_exponent(p: float) -> None:
    # below 1 the combined time exceeds the sum of its sides
    found = gemm(10, overlap_exponent=p)
    assert float(found.upper_s()) >= float(found.seconds) * (1 - 1e-12)


# ------------------------------------------------------------------------------------------------ attention


@pytest.mark.parametrize(
    ("rows", "padded"),
    [
        (1, 16),
        (4, 16),
        (16, 16),
        (17, 32),
        (33, 64),
        (64, 64),
        (65, 128),
        (128, 128),
        (129, 256),
        (256, 256),
        (257, 384),
    ],
)
def test_rows_pad_to_powers_of_two_then_to_whole_tiles(rows: int, padded: int) -> None:
    assert float(padded_rows(rows, 128)) == padded


def test_rows_pad_to_the_kernels_own_tile() -> None:
    # a tile of 64: 33 -> 64, 65 -> 128, 130 -> 192; there is no step at 128 any more
    assert padded_rows(np.array([33, 65, 130, 192]), 64).tolist() == [64, 128, 192, 192]


@settings(deadline=None)
@given(st.floats(1, 5000), st.sampled_from([64, 128, 256]))
def test_padding_never_drops_rows_and_never_adds_a_whole_tile(rows: float, tile: int) -> None:
    padded = float(padded_rows(rows, tile))
    assert rows <= padded < max(rows, 16) + tile
    assert padded <= 2 * max(rows, 8) or rows > tile


def test_attention_by_hand() -> None:
    # Q = 2 requests x 1000 tokens x 2 heads x (125 keys + 125 values) x 2 bytes = 2e6 -> 20 us
    # G = 4, W = 1: 4 rows padded to 16: 2 x 2 x 2 x 250 x 1000 x 16 = 3.2e7 FLOP -> 32 us; the floor 5 us
    found = attention(2, 4, 1000, kernel={"floor_us": 5.0})
    assert float(found.seconds) == pytest.approx((math.sqrt(20**2 + 32**2) + 5) * US)
    assert float(found.bytes) == 2e6
    assert float(found.flops) == 8e6  # without the padding
    # W = 4: 16 rows need no padding and cost the same; W = 8: 32 rows -> 64 us of arithmetic, the same bytes
    assert float(attention(2, 16, 1000, kernel={"floor_us": 5.0}).seconds) == float(found.seconds)
    wide = attention(2, 32, 1000)
    assert float(wide.seconds) == pytest.approx(math.sqrt(20**2 + 64**2) * US)
    assert float(wide.memory_s) == pytest.approx(20 * US)


def test_attention_at_achieved_fractions() -> None:
    # 20 us / 0.8 = 25 us, 32 us / 0.5 = 64 us
    found = attention(2, 4, 1000, kernel={"eta_m": 0.8, "eta_c": 0.5})
    assert float(found.seconds) == pytest.approx(math.sqrt(25**2 + 64**2) * US)


def test_attention_steps_at_the_edge_of_a_tile() -> None:
    at, past = attention(2, 128, 1000), attention(2, 129, 1000)
    assert float(past.compute_s) == pytest.approx(2 * float(at.compute_s))


def test_windowed_attention_pays_its_factor_on_everything() -> None:
    plain = attention(2, 4, 1000, kernel={"floor_us": 5.0})
    windowed = attention(2, 4, 1000, kernel={"floor_us": 5.0, "window_factor": 1.25}, windowed=True)
    assert float(windowed.seconds) == pytest.approx(1.25 * float(plain.seconds))
    full = attention(2, 4, 1000, kernel={"floor_us": 5.0, "window_factor": 1.25})
    assert float(full.seconds) == float(plain.seconds)


def test_attention_broadcasts() -> None:
    found = attention(np.array([[1.0], [2.0]]), np.array([[4.0, 8.0, 32.0]]), 1000.0)
    assert {part.shape for part in found} == {(2, 3)}


# ------------------------------------------------------------------------------------------------------ MLA


def test_mla_by_hand() -> None:
    # Q = 1024 x (512 + 64) x 2 = 1,179,648 bytes -> 11.79648 us
    # 16 heads are padded to 64 rows: F = 2 x 64 x 1024 x (2 x 512 + 64) = 142,606,336 -> 142.606336 us
    assert float(mla(1, 16, 1024).seconds) == pytest.approx((11.79648 + 142.606336) * US)
    # rows of W = 4 fill the same 64, those of W = 5 need 128
    assert float(mla(1, 64, 1024).seconds) == float(mla(1, 16, 1024).seconds)
    assert float(mla(1, 80, 1024).compute_s) == pytest.approx(2 * 142.606336 * US)


def test_mla_launch_and_split_of_long_contexts() -> None:
    # tau 10 us; 1024 tokens are two doublings of 256: 2 x 1.5 us; at 256 and below nothing is split
    kernel = {"tau_us": 10.0, "tau_l_us": 1.5}
    assert float(mla(1, 16, 1024, **kernel).fixed_s) == pytest.approx(13 * US)
    assert float(mla(1, 16, 256, **kernel).fixed_s) == pytest.approx(10 * US)
    assert float(mla(1, 16, 17, **kernel).fixed_s) == pytest.approx(10 * US)


def test_mla_cache_read_for_each_token() -> None:
    once, four = mla(1, 64, 1024), mla(1, 64, 1024, cache_reads=4.0)
    assert float(four.memory_s) == pytest.approx(4 * float(once.memory_s))
    assert float(four.compute_s) == float(once.compute_s)


# -------------------------------------------------------------------------------------------------- experts


def test_distinct_experts_by_hand() -> None:
    # E (1 - (1 - k/E)^T) with E = 8, k = 2: 2; 8 (1 - 0.75^2) = 3.5; 8 (1 - 0.75^4) = 5.46875
    assert distinct_experts([0, 1, 2, 4], 8, 2).tolist() == pytest.approx([0.0, 2.0, 3.5, 5.46875])
    assert float(distinct_experts(1e6, 8, 2)) == pytest.approx(8.0)
    assert distinct_experts([0, 1, 5], 4, 4).tolist() == [0.0, 4.0, 4.0]


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(4, 1, 2), (4, 2, 2), (5, 2, 3), (4, 3, 3)])
def test_distinct_experts_equal_the_mean_over_every_routing(experts: int, top_k: int, tokens: int) -> None:
    choices = list(itertools.combinations(range(experts), top_k))
    counts = [len(set().union(*routing)) for routing in itertools.product(choices, repeat=tokens)]
    assert float(distinct_experts(tokens, experts, top_k)) == pytest.approx(sum(counts) / len(counts))


@pytest.mark.parametrize(
    ("experts", "growth"),
    [(128, {1: 3.64, 8: 2.17, 32: 1.14, 128: 1.00}), (256, {1: 3.82, 8: 2.84, 32: 1.54, 128: 1.02})],
)
def test_experts_grow_from_one_token_a_request_to_four(experts: int, growth: dict[int, float]) -> None:
    # distinct(4 B) / distinct(B) at 8 experts for a token: E/k = 16 and 32, algebra of uniform routing
    for batch, ratio in growth.items():
        found = distinct_experts(4 * batch, experts, 8) / distinct_experts(batch, experts, 8)
        assert float(found) == pytest.approx(ratio, abs=0.005)


def test_moe_of_one_token_by_hand() -> None:
    # rows 2; F = 2 x 2 x 1.5e6 = 6e6 -> 6 us; weights of 2 experts: 2 x 1.5e6 x 2 = 6e6 bytes -> 60 us
    # activations: 2 rows x (1000 x (2 + 2) + (2 x 2 + 2 + 2) x 500) + 1000 x 4 = 20,000 bytes -> 0.2 us; tau 7 us
    found = moe(1.0, tau_us=7.0)
    assert float(found.seconds) == pytest.approx(73.2 * US)
    assert float(found.fixed_s) == pytest.approx(7 * US)


def test_moe_of_four_tokens_reads_the_distinct_experts() -> None:
    # rows 8 -> 24 us; 5.46875 experts x 3e6 bytes = 16.40625e6 -> 164.0625 us; 8 x 8000 + 4 x 4000 = 8e4 -> 0.8 us
    assert float(moe(4.0).seconds) == pytest.approx(188.8625 * US)


def test_moe_activation_traffic_has_its_own_fraction_and_no_overlap() -> None:
    # the larger of 24 and 164.0625 us, then 0.8 us / 0.2 = 4 us, then 7 us
    found = moe(4.0, eta_a=0.2, overlap_exponent=400.0, tau_us=7.0)
    assert float(found.seconds) == pytest.approx((164.0625 + 4 + 7) * US)


def test_moe_tokens_that_share_experts_read_fewer() -> None:
    # compute on 4 tokens (24 us), weights as of 1 token (60 us), activations of 4 (0.8 us)
    assert float(moe(4.0, 1.0).seconds) == pytest.approx(84.8 * US)


def test_moe_under_expert_parallelism() -> None:
    # of 2 groups each holds half the experts and half the rows, the fullest 1.15 of it:
    # 12 us x 1.15; weights 82.03125 us; (4 rows x 8000 + 4 tokens x 4000) = 48,000 bytes -> 0.48 us x 1.15
    assert float(moe(4.0, expert_parallel=2).seconds) == pytest.approx((13.8 + 82.03125 + 0.552) * US)


# ------------------------------------------------------------------------------- states, traffic, all-reduce


def test_recurrent_state_read_once_and_saved_for_each_token() -> None:
    def state(width: float, *, saves: bool) -> float:
        found = roofline.state_seconds(
            2, width, state_bytes=1e6, floor_us=5.0, eta_m=0.5, bandwidth=BETA, saves_each_position=saves
        )
        return float(found.seconds) / US

    # 2 requests x 1e6 bytes x (1 read + 1 write) = 4e6 -> 40 us / 0.5, + 5; W = 4 saved: 1 + 4 -> 200 + 5
    assert state(1, saves=True) == pytest.approx(85)
    assert state(4, saves=True) == pytest.approx(205)
    # not saved: one read and write to verify, and as much again to run the accepted tokens over the old state
    assert state(4, saves=False) == pytest.approx(170)
    assert state(1, saves=False) == pytest.approx(85)


def test_traffic_by_hand() -> None:
    found = roofline.traffic_seconds(1e6, 3 * US, bandwidth=BETA)  # 10 us and the launches
    assert float(found.seconds) == pytest.approx(13 * US)


def test_all_reduce_by_hand() -> None:
    # 2 x 3/4 x 1e6 = 1.5e6 bytes over 0.5 x 1e10 B/s -> 300 us; latency 20 us; 3 further peers x 1 us
    figures = AllReduce(latency_us=20.0, efficiency=0.5)
    found = roofline.all_reduce_seconds(1e6, 4, link_bandwidth=1e10, figures=figures, skew_us_per_peer=1.0)
    assert float(found.seconds) == pytest.approx(323 * US)
    assert float(found.fixed_s) == pytest.approx(23 * US)


def test_many_alike_take_as_many_times() -> None:
    one = gemm(10, tau_us=1.0)
    for part, expected in zip(one.times(7), one, strict=True):
        assert float(part) == pytest.approx(7 * float(expected))
