"""Model and parallelism -> operations: their sizes on one GPU, by hand, and against the independent parameter count."""

from __future__ import annotations

from typing import Any

import pytest
from builders import Data, as_record, toy_model, toy_moe_model
from toys import shipped

from specdec_cli.errors import UsageError
from specdec_cli.physics.layers import (
    Dtypes,
    Layout,
    attention_operations,
    block_operations,
    ffn_operations,
    head_dtype,
    merge_alike,
    per_gpu_heads,
    resolve_dtypes,
    target_operations,
)
from specdec_cli.physics.memory import kv_bytes, state_bytes, weight_bytes
from specdec_cli.physics.operations import (
    AllReduceHidden,
    Attention,
    ExpertExchange,
    Experts,
    IndexerScan,
    LatentAttention,
    Linear,
    Operation,
    RecurrentState,
    SmallKernels,
)
from specdec_cli.profiles import schema
from specdec_cli.profiles.parameters import (
    attention_parameters,
    cache_elements_per_token,
    count_parameters,
    indexer_of,
    layer_state_bytes,
    window_of,
)
from specdec_cli.profiles.schema import Model, PartDtypes
from specdec_cli.units import WEIGHT_BYTES

BF16 = Dtypes("bf16", "bf16", "bf16", "bf16", "bf16", "bf16")
MODELS = shipped().names("model")


def operations_of(model: Data, **layout: int) -> list[Operation]:
    record: Model = as_record(model)
    return target_operations(record, Layout(**layout), resolve_dtypes(record.dtypes))


def linears(operations: list[Operation]) -> dict[str, tuple[float, float, float]]:
    """name -> (N, K, layers)."""
    return {op.name: (op.n, op.k, op.count) for op in operations if isinstance(op, Linear)}


def only(operations: list[Operation], kind: type[Any]) -> Any:
    (found,) = [op for op in operations if isinstance(op, kind)]
    return found


# ------------------------------------------------------------------------------------------------ dense, GQA


def test_a_dense_model_on_one_gpu() -> None:
    # q 8 x 125, k and v 2 x 125 each: 1500 outputs; gate and up in one kernel: 8000
    operations = operations_of(toy_model())
    assert linears(operations) == {
        "qkv": (1500, 1000, 10),
        "o": (1000, 1000, 10),
        "gate, up": (8000, 1000, 10),
        "down": (1000, 4000, 10),
        "lm_head": (10000, 1000, 1),
    }
    attention = only(operations, Attention)
    assert (attention.group_size, attention.kv_heads, attention.kv_dim, attention.count) == (4, 2, 250, 10)
    assert not any(isinstance(op, AllReduceHidden) for op in operations)


def test_tensor_parallelism_slices_every_matrix_and_adds_two_all_reduces_a_layer() -> None:
    operations = operations_of(toy_model(), tp=2, gpus=2)
    assert linears(operations) == {
        "qkv": (750, 1000, 10),
        "o": (1000, 500, 10),
        "gate, up": (4000, 1000, 10),
        "down": (1000, 2000, 10),
        "lm_head": (5000, 1000, 1),
    }
    attention = only(operations, Attention)
    assert (attention.group_size, attention.kv_heads) == (4, 1)
    reduce = only(operations, AllReduceHidden)
    assert (reduce.hidden, reduce.gpus, reduce.count) == (1000, 2, 20)


def test_past_the_kv_heads_a_group_is_split_and_its_cache_copied() -> None:
    # 8 query heads on 4 GPUs are 2 on each, of one KV head that two GPUs hold: G falls from 4 to 2
    operations = operations_of(toy_model(), tp=4, gpus=4)
    attention = only(operations, Attention)
    assert (attention.group_size, attention.kv_heads) == (2, 1)
    assert linears(operations)["qkv"] == (2 * 125 + 2 * 125, 1000, 10)  # two query heads, a key and a value head
    assert linears(operations)["o"] == (1000, 250, 10)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "tp", "expected"),
    [
        (32, 8, 1, (4, 8)),
        (32, 8, 8, (4, 1)),  # up to the KV heads G stays
        (32, 8, 16, (2, 1)),
        (32, 8, 32, (1, 1)),
        (64, 1, 8, (8, 1)),  # multi-query
        (8, 8, 4, (1, 2)),  # multi-head
        (8, 2, 16, (1, 1)),  # more GPUs than heads: one each
    ],
)
def test_heads_of_one_gpu(heads: int, kv_heads: int, tp: int, expected: tuple[float, float]) -> None:
    assert per_gpu_heads(heads, kv_heads, tp) == expected


def test_attention_ranks_hold_the_whole_attention() -> None:
    assert linears(operations_of(toy_model(), tp=1, gpus=4)) == linears(operations_of(toy_model()))
    assert Layout(tp=2, gpus=8).ranks == 4


def test_windows_gates_and_shared_values() -> None:
    def gqa(**more: Any) -> list[Operation]:
        spec = schema.Gqa(heads=8, kv_heads=2, head_dim=125, **more)
        return attention_operations(spec, 1000, Layout(), "bf16", 1)

    assert only(gqa(window=512), Attention).window == 512
    assert [only(gqa(**more), Attention).name for more in ({}, {"window": 512})] == [
        "attention",
        "attention (window 512)",
    ]
    assert linears(gqa(output_gate=True))["qkv"][0] == 2 * 1000 + 500  # the gate is as wide as the queries
    # values projected by the keys' matrix: one projection less, but keys and values are both cached
    assert linears(gqa(shared_kv=True))["qkv"][0] == 1000 + 250
    assert only(gqa(shared_kv=True), Attention).kv_dim == 250
    # values of 100 beside keys of 125: v 2 x 100, o reads 8 x 100
    narrow = gqa(value_head_dim=100)
    assert linears(narrow)["qkv"][0] == 1000 + 250 + 200
    assert linears(narrow)["o"] == (1000, 800, 1)
    assert only(narrow, Attention).kv_dim == 225


# ------------------------------------------------------------------------------------------------------- MLA


def test_absorbed_mla_by_hand() -> None:
    # 16 heads of 128 + 64, latent 512 + 64, q_lora 768, values of 128, hidden 1000; on 2 GPUs 8 heads each
    spec = schema.Mla(heads=16, q_lora_rank=768, kv_lora_rank=512, nope_head_dim=128, rope_head_dim=64, v_head_dim=128)
    operations = attention_operations(spec, 1000, Layout(tp=2, gpus=2), "fp8", 5)
    assert linears(operations) == {
        "q_a, kv_a": (768 + 576, 1000, 5),  # held by every GPU
        "q_b": (8 * 192, 768, 5),
        "absorb k": (8 * 512, 128, 5),
        "absorb v": (8 * 128, 512, 5),
        "o": (1000, 8 * 128, 5),
    }
    core = only(operations, LatentAttention)
    assert (core.heads, core.latent_dim, core.rope_dim, core.top_k, core.count) == (8, 512, 64, None, 5)
    dtypes = {op.name: op.dtype for op in operations if isinstance(op, Linear)}
    assert dtypes["absorb k"] == dtypes["absorb v"] == "bf16"  # whatever the checkpoint's
    assert dtypes["q_b"] == dtypes["o"] == "fp8"


def test_mla_that_projects_queries_directly() -> None:
    spec = schema.Mla(heads=16, q_lora_rank=None, kv_lora_rank=512, nope_head_dim=128, rope_head_dim=64, v_head_dim=128)
    found = linears(attention_operations(spec, 1000, Layout(), "bf16", 1))
    assert found["q, kv_a"] == (16 * 192 + 576, 1000, 1)
    assert "q_b" not in found


def test_an_indexer_adds_its_scan_and_bounds_the_reads() -> None:
    def indexed(*, shared: bool) -> list[Operation]:
        indexer = schema.Indexer(heads=64, head_dim=128, top_k=2048, shared=shared)
        spec = schema.Mla(
            heads=16,
            q_lora_rank=768,
            kv_lora_rank=512,
            nope_head_dim=128,
            rope_head_dim=64,
            v_head_dim=128,
            indexer=indexer,
        )
        return attention_operations(spec, 1000, Layout(), "bf16", 1)

    own = indexed(shared=False)
    projections = {"q_a, kv_a", "q_b", "absorb k", "absorb v", "o"}
    assert set(linears(own)) == projections | {"indexer q", "indexer k, weights"}
    assert set(linears(indexed(shared=True))) == projections
    assert linears(own)["indexer q"] == (64 * 128, 768, 1)
    assert linears(own)["indexer k, weights"] == (128 + 64, 1000, 1)
    assert only(own, IndexerScan).head_dim == 128
    assert only(own, LatentAttention).top_k == 2048
    # indices taken from a layer before: no weights, no keys and no scan, but the same reads
    shared = indexed(shared=True)
    assert not any(isinstance(op, IndexerScan) or op.name.startswith("indexer") for op in shared)
    assert only(shared, LatentAttention).top_k == 2048


# -------------------------------------------------------------------------------------- compressed attention


def compressed(**more: Any) -> schema.CompressedAttention:
    return schema.CompressedAttention(
        heads=16, head_dim=512, q_lora_rank=768, o_lora_rank=100, o_groups=4, window=128, **more
    )


def test_compressed_attention_by_hand() -> None:
    # 16 heads of 512 in 4 groups, hidden 1000; on 2 GPUs 8 heads in 2 groups, each projected 4 x 512 -> 100
    operations = attention_operations(compressed(ratio=128), 1000, Layout(tp=2, gpus=2), "fp8", 5)
    assert linears(operations) == {
        "q_a, kv": (768 + 512, 1000, 5),  # held by every GPU
        "q_b": (8 * 512, 768, 5),
        "compressor": (2 * 512, 1000, 5),  # values and gates, held by every GPU
        "o_a": (2 * 100, 4 * 512, 5),
        "o_b": (1000, 2 * 100, 5),
    }
    dtypes = {op.name: op.dtype for op in operations if isinstance(op, Linear)}
    assert (dtypes["compressor"], dtypes["q_b"]) == ("bf16", "fp8")
    core = only(operations, LatentAttention)
    assert (core.heads, core.latent_dim, core.rope_dim, core.top_k) == (8, 512, 0, None)
    assert (core.window, core.ratio, core.count) == (128, 128, 5)
    assert (core.name, core.prefill_dim) == ("attention (compressed, 1 for 128)", 2 * 512)
    # past the heads each GPU still computes one of them
    assert linears(attention_operations(compressed(), 1000, Layout(tp=32, gpus=32), "fp8", 1))["q_b"] == (512, 768, 1)


def test_entries_chosen_by_an_indexer_are_pooled_with_an_overlap() -> None:
    index = schema.Indexer(heads=64, head_dim=128, top_k=512)
    operations = attention_operations(compressed(ratio=4, overlap=True, indexer=index), 1000, Layout(), "fp8", 1)
    found = linears(operations)
    assert found["compressor"] == (2 * 2 * (512 + 128) + 64, 1000, 1)  # and the weights of 64 index heads
    assert found["indexer q"] == (64 * 128, 768, 1)
    scan = only(operations, IndexerScan)
    assert (scan.heads, scan.head_dim, scan.ratio) == (64, 128, 4)
    assert only(operations, LatentAttention).top_k == 512


def test_a_window_without_entries_has_no_compressor() -> None:
    operations = attention_operations(compressed(), 1000, Layout(), "fp8", 1)
    assert only(operations, LatentAttention).name == "attention (compressed, window only)"
    assert set(linears(operations)) == {"q_a, kv", "q_b", "o_a", "o_b"}
    assert only(operations, LatentAttention).ratio is None


def test_streams_are_mixed_before_each_sub_layer() -> None:
    ffn = schema.DenseFfn(intermediate=4000)
    operations = block_operations(compressed(), ffn, 1000, Layout(), BF16, 3, streams=4)
    # (2 + 4) x 4 = 24 rows over 4 x 1000, split along K by stream
    assert linears(operations)["hyper-connections"] == (4 * 24, 1000, 2 * 3)
    assert only(operations, SmallKernels).hidden == 4000
    plain = block_operations(compressed(), ffn, 1000, Layout(), BF16, 3)
    assert "hyper-connections" not in linears(plain)
    model = toy_model(residual_streams=4)
    assert linears(operations_of(model))["hyper-connections"][2] == 2 * linears(operations_of(model))["qkv"][2]


# ------------------------------------------------------------------------------------------- recurrent layers


def test_gated_delta_by_hand() -> None:
    # keys 4 x 100 = 400 (and queries), values 8 x 50 = 400; q, k, v, gate and two scalars a value head: 1616 outputs
    # state 8 x 100 x 50 x 4 bytes = 160,000; convolution (2 x 400 + 400) x 3 x 2 bytes = 7200; halved on 2 GPUs
    spec = schema.GatedDelta(key_heads=4, value_heads=8, key_head_dim=100, value_head_dim=50, conv_width=4)
    operations = attention_operations(spec, 1000, Layout(tp=2, gpus=2), "bf16", 3)
    assert linears(operations) == {"delta in": (808, 1000, 3), "delta out": (1000, 200, 3)}
    assert only(operations, RecurrentState).state_bytes == (160000 + 7200) / 2


def test_low_rank_gates_are_two_small_matrices() -> None:
    spec = schema.GatedDelta(
        key_heads=4, value_heads=8, key_head_dim=100, value_head_dim=50, conv_width=4, decay_rank=16, gate_rank=32
    )
    # q, k, v 1200, 8 strengths, and the narrow sides 32 and 16; then 32 -> 400 and 16 -> 400
    found = linears(attention_operations(spec, 1000, Layout(), "bf16", 1))
    assert found["delta in"] == (1200 + 8 + 32 + 16, 1000, 1)
    assert sum(n * k for n, k, _ in found.values()) == 1256 * 1000 + 400 * 32 + 400 * 16 + 1000 * 400


def test_mamba_by_hand() -> None:
    # inner 16 x 64 = 1024; B and C 2 x 2 x 128 = 512; in: x and z 2048 + 512 + 16 steps
    # state 1024 x 128 x 4 bytes = 524,288; convolution (1024 + 512) x 3 x 2 bytes = 9216
    spec = schema.Mamba2(heads=16, head_dim=64, state_dim=128, groups=2, conv_width=4)
    operations = attention_operations(spec, 1000, Layout(), "bf16", 1)
    assert linears(operations) == {"mamba in": (2576, 1000, 1), "mamba out": (1000, 1024, 1)}
    assert only(operations, RecurrentState).state_bytes == 524288 + 9216


# ------------------------------------------------------------------------------------------------- experts


def test_experts_are_sliced_by_tensor_parallelism_and_divided_by_expert_parallelism() -> None:
    def experts(**layout: int) -> tuple[float, int]:
        found = only(operations_of(toy_moe_model(), **layout), Experts)
        return found.intermediate, found.expert_parallel

    assert experts() == (1000, 1)
    assert experts(tp=4, gpus=4) == (250, 1)
    assert experts(tp=4, gpus=4, ep=4) == (1000, 4)
    assert experts(tp=4, gpus=4, ep=2) == (500, 2)
    assert experts(tp=1, gpus=4, ep=2) == (500, 2)


def test_an_exchange_where_attention_ranks_feed_shared_experts() -> None:
    def exchange(**layout: int) -> list[ExpertExchange]:
        return [op for op in operations_of(toy_moe_model(), **layout) if isinstance(op, ExpertExchange)]

    assert exchange(tp=4, gpus=4, ep=4) == []  # the all-reduce carries it
    (dispatch,) = exchange(tp=1, gpus=4, ep=4)
    assert (dispatch.copies, dispatch.gpus, dispatch.count) == (2, 4, 10)  # a token to each of its 2 experts
    (gather,) = exchange(tp=2, gpus=4, ep=1)
    assert gather.copies == 1
    # a dense model's ranks exchange nothing
    assert not any(isinstance(op, ExpertExchange) for op in operations_of(toy_model(), tp=1, gpus=4))


def test_router_shared_experts_and_a_latent_width() -> None:
    spec = schema.MoeFfn(experts=16, top_k=2, intermediate=300, shared_intermediate=600, latent=400)
    operations = ffn_operations(spec, 1000, Layout(), BF16, 1)
    assert linears(operations) == {
        "router": (16, 1000, 1),
        "latent in, out": (800, 1000, 1),
        "shared gate, up": (1200, 1000, 1),
        "shared down": (1000, 600, 1),
    }
    assert only(operations, Experts).hidden == 400


def test_plain_feed_forward_has_no_gate() -> None:
    spec = schema.DenseFfn(intermediate=4000, matrices=2)
    assert linears(ffn_operations(spec, 1000, Layout(), BF16, 1)) == {"up": (4000, 1000, 1), "down": (1000, 4000, 1)}


def test_a_layer_without_a_part_reduces_once() -> None:
    attention = schema.Gqa(heads=8, kv_heads=2, head_dim=125)
    operations = block_operations(attention, None, 1000, Layout(tp=2, gpus=2), BF16, 4)
    assert only(operations, AllReduceHidden).count == 4


# -------------------------------------------------------------------------------------------- dtypes, layouts


def test_parts_follow_the_checkpoint_until_a_dtype_is_asked_for() -> None:
    parts = PartDtypes(weights="fp8", experts="nvfp4", lm_head="bf16", kv="fp8")
    assert resolve_dtypes(parts) == Dtypes("fp8", "fp8", "nvfp4", "bf16", "fp8", "fp8")
    asked = resolve_dtypes(parts, weight_dtype="int4", kv_dtype="bf16")
    assert asked == Dtypes("int4", "int4", "int4", "bf16", "int4", "bf16")


@pytest.mark.parametrize(
    ("weights", "head"),
    [
        *(("bf16", "bf16"), ("fp16", "fp16"), ("fp8", "bf16"), ("nvfp4", "bf16"), ("int4", "bf16")),
        # llama.cpp's mixes
        *(("q8_0", "q8_0"), ("q6_k", "q6_k"), ("q5_k", "q6_k"), ("q4_k", "q6_k"), ("q4_0", "q6_k")),
    ],
)
def test_quantised_checkpoints_keep_their_head(weights: Any, head: str) -> None:
    assert head_dtype(weights) == head
    assert resolve_dtypes(PartDtypes(weights="bf16"), weight_dtype=weights).lm_head == head


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"tp": 0}, "--tp must be at least 1"),
        ({"gpus": -1}, "--gpus must be at least 1"),
        ({"ep": 0}, "--ep must be at least 1"),
        ({"tp": 3, "gpus": 4}, "--gpus 4 is not a multiple of --tp 3"),
        ({"gpus": 4, "ep": 3}, "--ep 3 does not divide --gpus 4"),
    ],
)
def test_layouts_that_cannot_be(layout: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Layout(**layout)


def test_layers_alike_become_one_operation() -> None:
    one = Linear(name="x", n=10, k=10, dtype="bf16", count=3)
    other = Linear(name="x", n=10, k=20, dtype="bf16", count=1)
    assert merge_alike([one, other, one]) == [Linear(name="x", n=10, k=10, dtype="bf16", count=6), other]


# ------------------------------------------------------------ every shipped model, against the independent count


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_the_parameters_of_the_shipped_model(name: str) -> None:
    model = shipped().model(name).record
    dtypes = resolve_dtypes(model.dtypes, weight_dtype="bf16")
    held = weight_bytes(target_operations(model, Layout(), dtypes)) / WEIGHT_BYTES["bf16"]
    if not model.tied_embeddings:
        held += model.vocabulary * model.hidden
    # norms, biases and convolutions are left out: under 0.1 %
    assert held == pytest.approx(count_parameters(model).total, rel=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_each_mixer_has_its_parameters_cache_and_state(name: str) -> None:
    model = shipped().model(name).record
    for spec in model.attention.values():
        operations = attention_operations(spec, model.hidden, Layout(), "bf16", 1)
        weights = weight_bytes(operations) / WEIGHT_BYTES["bf16"]
        assert weights == pytest.approx(attention_parameters(spec, model.hidden), rel=2e-3)
        context = 1000.0
        held = min(context, window_of(spec) or context)
        each = 1  # tokens of an index key
        if isinstance(spec, schema.CompressedAttention) and spec.ratio is not None:
            each = spec.ratio
            held += context / each
        indexer = indexer_of(spec)
        keys = 0.0 if indexer is None or indexer.shared else context / each * indexer.head_dim * 132 / 128
        assert kv_bytes(operations, context, "bf16") == held * cache_elements_per_token(spec) * 2 + keys
        assert state_bytes(operations) == layer_state_bytes(spec)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("gpus", [2, 8])
def test_gpus_share_the_weights(name: str, gpus: int) -> None:
    """No GPU holds less than its share, and what is copied (MLA's down projections, routers, KV heads) is small."""
    model = shipped().model(name).record
    dtypes = resolve_dtypes(model.dtypes)
    whole = weight_bytes(target_operations(model, Layout(), dtypes))
    each = weight_bytes(target_operations(model, Layout(tp=gpus, gpus=gpus), dtypes))
    assert whole / gpus <= each * (1 + 1e-12)
    assert each <= 1.25 * whole / gpus
    experts_divided = weight_bytes(target_operations(model, Layout(tp=gpus, gpus=gpus, ep=gpus), dtypes))
    assert experts_divided == pytest.approx(each, rel=1e-12)
