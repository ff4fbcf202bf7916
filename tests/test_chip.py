"""What each kind of operation costs on one GPU: which kernel, which sizes, which link."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import Data, as_record, put, toy_engine, toy_gemm, toy_hardware, toy_kernels
from toys import US, chip_of, cost_of, shipped

from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.physics.chip import (
    Shape,
    all_reduce_figures,
    check_domain,
    kernel_figures,
    lower_bound_s,
    operation_cost,
    operation_peak,
    resolve_chip,
)
from specdec_cli.physics.operations import (
    AllReduceHidden,
    Attention,
    ExpertExchange,
    Experts,
    IndexerScan,
    LatentAttention,
    Linear,
    Logits,
    Operation,
    RecurrentState,
    SmallKernels,
)
from specdec_cli.profiles.schema import AllReduce

GQA = Attention(name="attention", group_size=4, kv_heads=2, kv_dim=250, window=None)
EXPERTS = Experts(
    name="experts",
    experts=8,
    top_k=2,
    hidden=1000,
    intermediate=500,
    matrices=3,
    dtype="bf16",
    expert_parallel=1,
    routing_overlap=0.0,
)


def us(operation: Operation, **shape: Any) -> float:
    """Time on the toy chip in us."""
    return float(cost_of(operation, **shape).seconds) / US


def latent(top_k: int | None = None) -> LatentAttention:
    """16 heads over a latent cache of 512 + 64."""
    return LatentAttention(name="mla", heads=16, latent_dim=512, rope_dim=64, top_k=top_k, prefill_dim=320)


def mesh() -> Data:
    """Eight chips, each with seven links of 10 GB/s: one peer gets a seventh of the 70 GB/s."""
    link = {"technology": "mesh", "gb_per_s": 70.0, "peer_gb_per_s": 10.0, "domain_gpus": 8}
    table = {n: {"latency_us": 10.0, "efficiency": 1.0} for n in (2, 8)}
    return toy_hardware(link=link, kernels={"default": toy_kernels(all_reduce=table)})


# ------------------------------------------------------------------------------------- the chip of an engine


def test_an_engine_takes_its_own_kernels_and_else_the_default() -> None:
    own = toy_kernels(gemm={"bf16": toy_gemm(eta_m=0.5)})
    hardware = toy_hardware(kernels={"default": toy_kernels(), "fast": own})
    linear = Linear(name="x", n=1000, k=2000, dtype="bf16")
    # 4 us of arithmetic for one token; 4.006e6 bytes take 40.06 us, twice that at half the bandwidth
    assert us(linear, hardware=hardware, engine=toy_engine(kernels="slow")) == pytest.approx(4 + 40.06)
    assert us(linear, hardware=hardware, engine=toy_engine(kernels="fast")) == pytest.approx(4 + 80.12)


def test_graphs_or_eager_is_the_engines() -> None:
    kernels = toy_kernels(small_kernels_us_per_layer=8.0, eager_us_per_layer=22.0)
    hardware = toy_hardware(kernels={"default": kernels})
    small = SmallKernels(name="norms", hidden=1000, count=10)
    # 2 tokens x 1000 x 2 bytes x 10 tensors = 4e4 bytes -> 0.4 us a layer, and the launches
    assert us(small, requests=2, hardware=hardware) == pytest.approx(10 * 8.4)
    assert us(small, requests=2, hardware=hardware, engine=toy_engine(cuda_graphs=False)) == pytest.approx(10 * 22.4)


def test_an_engine_may_fuse_the_small_kernels_of_any_chip() -> None:
    hardware = toy_hardware(kernels={"default": toy_kernels(small_kernels_us_per_layer=8.0, eager_us_per_layer=22.0)})
    small = SmallKernels(name="norms", hidden=1000, count=10)
    fused = toy_engine(small_kernels_us_per_layer=3.0)
    assert us(small, requests=2, hardware=hardware, engine=fused) == pytest.approx(10 * 3.4)
    eager = toy_engine(small_kernels_us_per_layer=3.0, cuda_graphs=False)
    assert us(small, requests=2, hardware=hardware, engine=eager) == pytest.approx(10 * 3.4)


def test_shared_experts_on_a_second_stream_hide_their_launches_alone() -> None:
    hardware = toy_hardware(kernels={"default": toy_kernels(gemm={"bf16": toy_gemm(tau_us=5.0)})})
    shared = Linear(name="shared up", n=1000, k=2000, dtype="bf16", independent=True, count=10)
    beside = toy_engine(shared_experts="beside")
    # 4 us and 40.06 us of work (test_roofline's sizes at one token), 5 us of launch
    assert us(shared, hardware=hardware) == pytest.approx(10 * 49.06)
    assert us(shared, hardware=hardware, engine=beside) == pytest.approx(10 * 44.06)
    other = msgspec.structs.replace(shared, independent=False)
    assert us(other, hardware=hardware, engine=beside) == pytest.approx(10 * 49.06)


def test_si_units() -> None:
    chip = chip_of()
    assert (chip.bandwidth, chip.peak("bf16"), chip.peak("fp8")) == (1e11, 1e12, 2e12)
    assert (chip.link_bandwidth, chip.peer_bandwidth, chip.domain_gpus) == (1e10, 1e10, 4)


# ------------------------------------------------------------------------------------------ each operation


def test_linear_counts_its_layers_and_its_dtype() -> None:
    bf16 = Linear(name="x", n=1000, k=2000, dtype="bf16", count=10)
    # two tokens of one request: F = 8e6 -> 8 us; Q = 4e6 + 2 (4000 + 2000) = 4.012e6 -> 40.12 us
    assert us(bf16, width=2) == pytest.approx(481.2)
    # fp16 runs on bf16's kernels
    assert us(Linear(name="x", n=1000, k=2000, dtype="fp16", count=10), width=2) == us(bf16, width=2)
    # fp8: F at 2e12 -> 4 us; 2e6 weights of one byte and 2 (2000 x 1 + 1000 x 2) = 8000 -> 20.08 us;
    # quantise 2 x 2000 x 3 = 12,000 bytes -> 0.12 us
    fp8 = Linear(name="x", n=1000, k=2000, dtype="fp8")
    assert us(fp8, width=2) == pytest.approx(4 + 20.08 + 0.12)


def test_attention_rows_are_the_group_times_the_width() -> None:
    # one request: Q = 1000 x 2 x 250 x 2 = 1e6 bytes -> 10 us; rows 4 W, padded to 16, 32, 64:
    # 2 x 2 x 250 x 1000 x 16 = 1.6e7 FLOP -> 16 us, 32 us, 64 us
    for width, rows_us in ((1, 16), (4, 16), (5, 32), (8, 32), (9, 64)):
        assert us(GQA, width=width) == pytest.approx(math.hypot(10, rows_us))


def test_attention_of_a_window_reads_no_more_than_it() -> None:
    window = Attention(name="window", group_size=4, kv_heads=2, kv_dim=250, window=512)
    assert us(window, context=512) == us(GQA, context=512)
    assert us(window, context=5000) == us(GQA, context=512)
    assert us(window, context=100) == us(GQA, context=100)


def test_the_window_factor_is_the_kernels() -> None:
    hardware = put(toy_hardware(), "kernels.default.attention.bf16.window_factor", 1.25)
    window = Attention(name="window", group_size=4, kv_heads=2, kv_dim=250, window=512)
    assert us(window, context=5000, hardware=hardware) == pytest.approx(1.25 * us(GQA, context=512))


def test_mla_reads_its_cache_once_or_for_each_token() -> None:
    mla = latent()
    # 1024 tokens: 11.79648 us of bytes; 64 rows: 142.606336 us of arithmetic (see test_roofline)
    once, each = toy_engine(), toy_engine(mla_verify_reads="per_token")
    assert us(mla, width=4, context=1024, engine=once) == pytest.approx(11.79648 + 142.606336)
    assert us(mla, width=4, context=1024, engine=each) == pytest.approx(4 * 11.79648 + 142.606336)
    assert us(mla, width=1, context=1024, engine=each) == us(mla, width=1, context=1024, engine=once)


def test_indexed_attention_reads_its_top_k() -> None:
    indexed = latent(top_k=1024)
    everything = latent()
    assert us(indexed, context=8192) == us(everything, context=1024)
    assert us(indexed, context=300) == us(everything, context=300)


@pytest.mark.parametrize(
    ("ratio", "top_k", "context", "reads"),
    [
        (None, None, 8192, 128),  # the window only
        (None, None, 100, 100),
        (128, None, 8192, 128 + 64),
        (4, None, 8192, 128 + 2048),
        (4, 512, 8192, 128 + 512),
        (4, 512, 1024, 128 + 256),  # fewer entries than the indexer may choose
    ],
)
def test_compressed_attention_reads_its_window_and_entries(
    ratio: int | None, top_k: int | None, context: float, reads: float
) -> None:
    """As latent attention over so many tokens: 2 x 3 requests x reads x 500 x 2 bytes at 1e11 B/s, and its FLOPs."""
    sizes: dict[str, Any] = {"name": "c", "heads": 16, "latent_dim": 500, "rope_dim": 0, "prefill_dim": 1000}
    found = LatentAttention(**sizes, top_k=top_k, window=128, ratio=ratio)
    assert us(found, requests=3, context=context) == us(LatentAttention(**sizes, top_k=None), requests=3, context=reads)
    cost = cost_of(found, requests=3, context=context)
    assert float(cost.bytes) == 3 * reads * 500 * 2
    assert float(cost.flops) == 2 * 3 * reads * 16 * 1000


def test_indexer_scans_one_key_for_each_entry() -> None:
    kernels = toy_kernels(indexer={"floor_us": 20.0, "eta_m": 1.0})
    hardware = toy_hardware(kernels={"default": kernels})
    entries = IndexerScan(name="scan", heads=8, head_dim=128, ratio=4)
    keys = IndexerScan(name="scan", heads=8, head_dim=128)
    assert us(entries, context=4000, hardware=hardware) == us(keys, context=1000, hardware=hardware)


def test_indexer_scans_every_cached_key() -> None:
    kernels = toy_kernels(indexer={"floor_us": 20.0, "eta_m": 1.0})
    hardware = toy_hardware(kernels={"default": kernels})
    scan = IndexerScan(name="scan", heads=8, head_dim=128)
    # keys: 1000 x 132 bytes = 1.32e5 -> 1.32 us, whatever the width; 2 x W x 8 x 1000 x 128 FLOP at 2e12: 1.024 us W
    assert us(scan, hardware=hardware) == pytest.approx(20 + 1.32 + 1.024)
    assert us(scan, width=4, hardware=hardware) == pytest.approx(20 + 1.32 + 4.096)


def test_recurrent_state_is_saved_or_replayed_as_the_engine_does() -> None:
    kernels = toy_kernels(linear_attention={"floor_us": 3.5, "conv_us": 1.5, "eta_m": 1.0})
    hardware = toy_hardware(kernels={"default": kernels})
    state = RecurrentState(name="state", state_bytes=1e6)
    # read 10 us; written 10 us, or once for each of the W tokens; whatever the context
    assert us(state, width=4, hardware=hardware) == pytest.approx(5 + 10 + 40)
    replay = toy_engine(recurrent_rollback="replay")
    # 5 + 10 + 10, and the accepted tokens over the old state once more; a plain step rejects nothing
    assert us(state, width=4, hardware=hardware, engine=replay) == pytest.approx(50)
    assert us(state, width=1, hardware=hardware, engine=replay) == pytest.approx(25)
    assert us(state, width=4, context=100000, hardware=hardware) == us(state, width=4, hardware=hardware)


def test_experts_see_all_tokens_of_the_replica() -> None:
    # 4 tokens (see test_roofline): 188.8625 us; as one request of width 4 or four requests, on one rank or two
    for shape in ({"width": 4}, {"requests": 4}, {"requests": 2, "width": 2}):
        assert us(EXPERTS, **shape) == pytest.approx(188.8625)
    assert us(msgspec.structs.replace(EXPERTS, ranks=2), requests=4, ranks=2) == pytest.approx(188.8625)
    # a rank's own experts (a draft's) serve its own two requests: as 2 tokens
    assert us(EXPERTS, requests=4, ranks=2) == pytest.approx(us(EXPERTS, requests=2))


def test_draft_tokens_may_share_experts() -> None:
    # width 4, overlap 1: the experts of one token are read (60 us): 24 + 60 + 0.8
    # overlap 0.5: of 1 + 3 x 0.5 = 2.5 tokens: 8 (1 - 0.75^2.5) = 4.102886 experts x 30 us
    def overlapping(share: float) -> Experts:
        return Experts(**{**{f: getattr(EXPERTS, f) for f in EXPERTS.__slots__}, "routing_overlap": share})

    assert us(overlapping(1.0), width=4) == pytest.approx(84.8)
    assert us(overlapping(0.5), width=4) == pytest.approx(24.8 + 30 * 8 * (1 - 0.75**2.5))
    assert us(overlapping(0.5), requests=4) == us(EXPERTS, requests=4)  # requests route independently


def test_logits_by_hand() -> None:
    # 10 tokens x 10,000 x 4 bytes x 3.5 passes = 1.4e6 -> 14 us
    assert us(Logits(name="logits", vocabulary=10000), requests=5, width=2) == pytest.approx(14.0)


def test_all_reduce_by_hand() -> None:
    # 10 tokens x 1000 x 2 bytes = 2e4; among 2: 2e4 bytes at 1e10 -> 2 us + 10 us; among 4: 3e4 -> 3 us + 20 us
    assert us(AllReduceHidden(name="r", hidden=1000, gpus=2), requests=10) == pytest.approx(12.0)
    assert us(AllReduceHidden(name="r", hidden=1000, gpus=4), requests=10) == pytest.approx(23.0)
    skewed = put(toy_hardware(), "kernels.default.skew_us_per_peer", 0.5)
    assert us(AllReduceHidden(name="r", hidden=1000, gpus=4), requests=10, hardware=skewed) == pytest.approx(24.5)


def test_large_messages_go_to_the_collective_library_where_it_is_faster() -> None:
    # the engine's own: 10 us and 1e10 bytes/s; the library's: 30 us and twice the rate. 20 KB: 12 us against 31 us;
    # 2 MB: 210 us against 130 us
    own = {2: {"latency_us": 10.0, "efficiency": 0.5}}
    library = {2: {"latency_us": 30.0, "efficiency": 1.0}}
    link = {"technology": "toy", "gb_per_s": 20.0, "peer_gb_per_s": 20.0, "domain_gpus": 4}
    kernels = toy_kernels(all_reduce=own, collective_library=library)
    hardware = toy_hardware(link=link, kernels={"default": kernels})
    reduce = AllReduceHidden(name="r", hidden=1000, gpus=2)
    assert us(reduce, requests=10, hardware=hardware) == pytest.approx(12.0)
    assert us(reduce, requests=1000, hardware=hardware) == pytest.approx(130.0)


def test_in_a_mesh_one_peer_gets_a_seventh() -> None:
    # 500 tokens x 1000 x 2 = 1e6 bytes. Two GPUs: 1e6 over 10 GB/s -> 100 us + 10; eight: 1.75e6 over 70 -> 25 us + 10
    assert us(AllReduceHidden(name="r", hidden=1000, gpus=2), requests=500, hardware=mesh()) == pytest.approx(110)
    assert us(AllReduceHidden(name="r", hidden=1000, gpus=8), requests=500, hardware=mesh()) == pytest.approx(35)
    # four have three links of ten: 1.5e6 over 30 -> 50 us
    assert us(AllReduceHidden(name="r", hidden=1000, gpus=4), requests=500, hardware=mesh()) == pytest.approx(60)


def test_expert_exchange_by_hand() -> None:
    # 4 ranks share 10 requests: 3 on the fullest. There and back, to 3 of 4 GPUs, 2 experts a token:
    # 2 x 3 x 2 x 1000 x 2 bytes x 3/4 = 18,000 at 1e10 -> 1.8 us; two rounds of 20 us
    exchange = ExpertExchange(name="exchange", hidden=1000, copies=2, gpus=4)
    assert us(exchange, requests=10, ranks=4) == pytest.approx(41.8)
    # each round waits for three peers, 0.5 us each
    skewed = put(toy_hardware(), "kernels.default.skew_us_per_peer", 0.5)
    assert us(exchange, requests=10, ranks=4, hardware=skewed) == pytest.approx(41.8 + 2 * 1.5)


def test_attention_ranks_share_the_requests() -> None:
    # 7 requests on 4 ranks: the fullest holds 2
    linear = Linear(name="x", n=1000, k=2000, dtype="bf16")
    for operation in (linear, GQA, Logits(name="l", vocabulary=10000)):
        assert us(operation, requests=7, width=3, ranks=4) == pytest.approx(us(operation, requests=2, width=3))


def test_more_layers_cost_as_many_times() -> None:
    ten = Attention(name="attention", group_size=4, kv_heads=2, kv_dim=250, window=None, count=10)
    assert us(ten) == pytest.approx(10 * us(GQA))


# --------------------------------------------------------------------------------------- figures that are not there


def test_all_reduce_figures_between_and_past_the_tabled() -> None:
    table = {2: AllReduce(latency_us=10, efficiency=0.6), 4: AllReduce(latency_us=20, efficiency=0.4)}
    assert all_reduce_figures(table, 4, "toy") is table[4]
    between = all_reduce_figures(table, 3, "toy")
    assert (between.latency_us, between.efficiency) == pytest.approx((15.0, 0.5))
    # past the largest: 5 us a GPU, as from 2 to 4
    beyond = all_reduce_figures(table, 8, "toy")
    assert (beyond.latency_us, beyond.efficiency) == pytest.approx((20 + 4 * 5.0, 0.4))
    # of three it is the last two that count: 2.5 us a GPU from 4 to 8
    levelling = {**table, 8: AllReduce(latency_us=30, efficiency=0.3)}
    assert all_reduce_figures(levelling, 16, "toy").latency_us == pytest.approx(30 + 8 * 2.5)
    falling = {2: AllReduce(latency_us=20, efficiency=0.6), 4: AllReduce(latency_us=10, efficiency=0.4)}
    assert all_reduce_figures(falling, 8, "toy").latency_us == 10.0
    # one number alone says nothing of the launch: as many times as long as there are more peers
    assert all_reduce_figures({2: table[2]}, 4, "toy").latency_us == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("operation", "without", "key"),
    [
        (Linear(name="x", n=1, k=1, dtype="int4"), {}, "gemm.int4"),
        (EXPERTS, {"moe": {}}, "moe.bf16"),
        (GQA, {"attention": {}}, "attention.bf16"),
        (latent(), {"mla": {}}, "mla.bf16"),
        (RecurrentState(name="s", state_bytes=1.0), {"linear_attention": None}, "linear_attention"),
        (IndexerScan(name="i", heads=1, head_dim=1), {}, "indexer"),
        (AllReduceHidden(name="r", hidden=1, gpus=2), {"all_reduce": {}}, "all_reduce"),
    ],
)
def test_missing_figures_are_named(operation: Operation, without: Data, key: str) -> None:
    hardware = toy_hardware(kernels={"default": {**toy_kernels(), **without}})
    with pytest.raises(ProfileError, match="toy-chip has no") as caught:
        us(operation, hardware=hardware)
    assert caught.value.key == f"kernels.default.{key}"
    assert caught.value.hint
    assert caught.value.exit_code == 3


def test_a_replica_stays_inside_its_fabric() -> None:
    check_domain(chip_of(), 4)
    with pytest.raises(
        UsageError, match=r"5 GPUs exceed the scale-up domain of toy-chip \(4 GPUs\).*--gpus 4"
    ) as caught:
        check_domain(chip_of(), 5)
    assert caught.value.exit_code == 2


# ------------------------------------------------------------------------------------------------- lower bound


EVERY_KIND: list[Operation] = [
    Linear(name="x", n=4096, k=4096, dtype="bf16", count=3),
    GQA,
    latent(),
    RecurrentState(name="s", state_bytes=1e6),
    EXPERTS,
    SmallKernels(name="n", hidden=4096),
    Logits(name="l", vocabulary=100000),
    AllReduceHidden(name="r", hidden=4096, gpus=2),
    ExpertExchange(name="e", hidden=4096, copies=2, gpus=2),
]


@pytest.mark.parametrize("operation", EVERY_KIND, ids=lambda op: type(op).__name__)
@pytest.mark.parametrize("name", ["h100-sxm", "b200-sxm", "mi300x", "a100-sxm-80gb"])
def test_no_operation_beats_the_datasheet(operation: Operation, name: str) -> None:
    hardware, engine = shipped().hardware(name).record, shipped().engine("vllm").record
    chip = resolve_chip(hardware, engine, "bf16")
    requests = np.array([1.0, 8.0, 64.0, 512.0])[:, None]
    shape = Shape(requests, np.array([[1.0, 4.0, 16.0]]), np.asarray(4096.0))
    costs = operation_cost(operation, shape, chip)
    assert np.all(np.isfinite(costs.seconds))
    assert np.all(costs.seconds > 0)
    assert np.all(lower_bound_s(operation, costs, chip) <= costs.seconds)


def test_lower_bound_by_hand() -> None:
    # 1 token: 4e6 FLOP at 1e12 -> 4 us, 4.006e6 bytes at 1e11 -> 40.06 us, whatever the kernel reaches
    slow = toy_hardware(kernels={"default": toy_kernels(gemm={"bf16": toy_gemm(eta_c=0.1, eta_m=0.1, tau_us=9.0)})})
    chip = chip_of(slow)
    linear = Linear(name="x", n=1000, k=2000, dtype="bf16")
    costs = cost_of(linear, hardware=slow)
    assert float(lower_bound_s(linear, costs, chip)) == pytest.approx(40.06 * US)
    assert as_record(slow).kernels["default"].gemm["bf16"].eta_m == 0.1


def test_a_tile_kernel_runs_at_its_own_peak() -> None:
    # 100 tokens, past the 8 rows of the mat-vec kernel: 4e8 FLOP at half of fp8's 2e12 -> 400 us, 4.6e6 bytes at half
    # of 1e11 -> 92 us. Nothing is faster than 4e8 FLOP at 2e12: 200 us.
    tile = {"above_rows": 8, "compute": "fp8", "eta_c": 0.5, "eta_m": 0.5}
    hardware = toy_hardware(kernels={"default": toy_kernels(gemm={"bf16": toy_gemm(eta_c=0.1, tile=tile)})})
    linear = Linear(name="x", n=1000, k=2000, dtype="bf16")
    costs = cost_of(linear, requests=100, hardware=hardware)
    assert float(costs.seconds) == pytest.approx(492 * US)
    assert float(lower_bound_s(linear, costs, chip_of(hardware))) == pytest.approx(200 * US)


# ----------------------------------------------------------------------------------- what an operation is held against


def test_each_kind_names_its_figures_and_its_peak() -> None:
    hardware = toy_hardware(kernels={"default": toy_kernels(indexer={"floor_us": 20.0, "eta_m": 1.0})})
    chip = chip_of(hardware)
    kernels = chip.kernels
    fp8 = Linear(name="x", n=1, k=1, dtype="fp8")
    scan = IndexerScan(name="i", heads=8, head_dim=128)
    expected: list[tuple[Operation, Any, float | None]] = [
        (Linear(name="x", n=1, k=1, dtype="fp16"), kernels.gemm["bf16"], 1e12),
        (fp8, kernels.gemm["fp8"], 2e12),
        (EXPERTS, kernels.moe["bf16"], 1e12),
        (GQA, kernels.attention["bf16"], 1e12),
        (latent(), kernels.mla["bf16"], 1e12),
        (scan, kernels.indexer, 2e12),
        (RecurrentState(name="s", state_bytes=1.0), kernels.linear_attention, None),
        (AllReduceHidden(name="r", hidden=1, gpus=2), kernels.all_reduce[2], None),
        (ExpertExchange(name="e", hidden=1, copies=1, gpus=4), kernels.all_reduce[4], None),
        (SmallKernels(name="n", hidden=1), None, None),
        (Logits(name="l", vocabulary=1), None, None),
    ]
    for operation, figures, peak in expected:
        assert kernel_figures(operation, chip) == figures, operation
        assert operation_peak(operation, chip) == peak, operation
    # an indexer's fp8 keys on a chip without fp8 are multiplied in bf16
    older = chip_of(toy_hardware(peak_tflops={"bf16": 1.0}, kernels=hardware["kernels"]))
    assert operation_peak(scan, older) == 1e12
