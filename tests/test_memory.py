"""What one GPU holds, by hand: 1e10 bytes; the toy model has 165e6 weights of 2 bytes and 10 kB of KV a token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import (
    Data,
    as_record,
    toy_drafter,
    toy_engine,
    toy_hardware,
    toy_head,
    toy_hybrid_model,
    toy_model,
    toy_moe_model,
)
from toys import plan_of

from specdec_cli.physics.layers import Layout, resolve_dtypes, target_operations
from specdec_cli.physics.memory import MemoryBill, kv_bytes, memory_bill, weight_bytes
from specdec_cli.profiles.schema import Model

STATE_BYTES = 160_000 + 7_200  # of a recurrent layer of `toy_hybrid_model`, with its convolution


def latent_model(**more: Any) -> Model:
    """Ten layers whose cache is one latent of 512 + 64 elements a token."""
    ranks = {"q_lora_rank": 64, "kv_lora_rank": 512, "nope_head_dim": 128, "rope_head_dim": 64, "v_head_dim": 128}
    attention = {"mla": {"type": "mla", "heads": 16, **ranks, **more}}
    blocks = [{"repeat": 10, "attention": "mla", "ffn": "dense"}]
    record: Model = as_record(toy_model(attention=attention, blocks=blocks, parameters={}))
    return record


def bill(
    model: Data | None = None,
    drafter: Data | None = None,
    *,
    engine: Data | None = None,
    layout: Layout | None = None,
    context: float = 1000,
    small: Data | None = None,
    kv: Any = None,
) -> MemoryBill:
    target: Model = as_record(model or toy_model())
    spread = layout or Layout()
    dtypes = resolve_dtypes(target.dtypes, kv_dtype=kv)
    operations = target_operations(target, spread, dtypes)
    plan = None
    if drafter is not None:
        plan = plan_of(as_record(drafter), target, spread, small=None if small is None else as_record(small))
    return memory_bill(
        as_record(toy_hardware()),
        as_record(engine or toy_engine()),
        target,
        operations,
        dtypes.lm_head,
        spread,
        plan,
        context,
        dtypes.kv,
    )


def test_weights_and_cache_by_hand() -> None:
    found = bill()
    assert found.usable == 1e10
    assert found.target_weights == 165e6 * 2
    assert found.kv_per_request == 10_000 * 1000
    assert (found.draft_weights, found.draft_kv_per_request, found.state_per_request) == (0, 0, 0)


def test_what_the_engine_leaves() -> None:
    # 0.9 of 1e10 bytes, less 1 GB
    found = bill(engine=toy_engine(memory={"usable_fraction": 0.9, "reserve_gb": 1.0}))
    assert found.usable == pytest.approx(8e9)
    # 8e9 - 0.33e9 = 7.67e9 over 1e7 a request: 767
    assert found.largest_batch(0) == pytest.approx(767.0)


def test_a_tied_embedding_is_held_once() -> None:
    assert bill(toy_model(tied_embeddings=True)).target_weights == 155e6 * 2


def test_a_drafter_costs_weights_and_cache() -> None:
    # fusion 3e6, layer 16e6, head 2e6 weights of 2 bytes; one layer's KV of 1000 bytes a token
    found = bill(drafter=toy_drafter(), engine=toy_engine(memory={"usable_fraction": 0.9, "reserve_gb": 1.0}))
    assert found.draft_weights == 42e6
    assert found.draft_kv_per_request == 1e6
    # (8e9 - 0.33e9 - 0.042e9) / 1.1e7 = 693.45; without a draft the drafter is not loaded
    assert found.largest_batch(3) == pytest.approx(7.628e9 / 1.1e7)
    assert found.largest_batch(0) == pytest.approx(767.0)


def test_the_largest_batch_is_where_memory_ends() -> None:
    found = bill(drafter=toy_drafter())
    for length in (0, 1, 5):
        largest = np.floor(found.largest_batch(length))
        needed = found.needed(np.array([[largest], [largest + 1]]), np.array([[float(length)]]))
        assert needed[0, 0] <= found.usable < needed[1, 0]


def test_needed_by_hand_over_a_grid() -> None:
    # rows 1 and 10 requests, columns off and D = 2
    found = bill(drafter=toy_drafter()).needed(np.array([[1.0], [10.0]]), np.array([[0.0, 2.0]]))
    assert found.tolist() == [[0.34e9, 0.372e9 + 1.1e7], [0.43e9, 0.372e9 + 1.1e8]]


def test_a_model_that_does_not_fit_holds_no_request() -> None:
    found = bill(engine=toy_engine(memory={"usable_fraction": 0.03, "reserve_gb": 0.0}))  # 0.3 GB for 0.33 GB
    assert found.largest_batch(0) == 0.0
    assert found.needed(np.array([[1.0]]), np.array([[0.0]]))[0, 0] > found.usable


def test_gpus_share_weights_and_cache_until_the_kv_heads_end() -> None:
    two, four = (bill(layout=Layout(tp=n, gpus=n)) for n in (2, 4))
    assert two.target_weights == 165e6
    assert two.kv_per_request == 0.5e7
    assert four.kv_per_request == 0.5e7  # two KV heads on four GPUs: each is held twice
    # attention ranks hold everything of their own requests
    ranks = bill(layout=Layout(tp=1, gpus=4))
    assert (ranks.target_weights, ranks.kv_per_request) == (330e6, 1e7)


def test_experts_are_divided_among_all_gpus() -> None:
    # ten layers of 16 experts of 3e6 weights: 480e6 of 2 bytes
    def experts(**layout: int) -> float:
        model = as_record(toy_moe_model())
        operations = target_operations(model, Layout(**layout), resolve_dtypes(model.dtypes))
        return weight_bytes(op for op in operations if op.group == "experts")

    assert experts() == 960e6
    assert experts(tp=4, gpus=4) == experts(tp=4, gpus=4, ep=4) == experts(tp=1, gpus=4, ep=2) == 240e6


def test_a_window_holds_no_more_than_its_length() -> None:
    full = {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 125}
    model = toy_model(
        attention={"window": {**full, "window": 512}, "full": full},
        blocks=[
            {"repeat": 8, "attention": "window", "ffn": "dense"},
            {"repeat": 2, "attention": "full", "ffn": "dense"},
        ],
    )
    # 1000 bytes a token and layer: 8 x 512 and 2 x 4000 tokens; below the window all of it
    assert bill(model, context=4000).kv_per_request == 1000 * (8 * 512 + 2 * 4000)
    assert bill(model, context=300).kv_per_request == 1000 * 10 * 300


def test_kv_dtype_sets_the_element() -> None:
    assert bill(kv="fp8").kv_per_request == bill().kv_per_request / 2


def test_mla_caches_one_latent_on_every_gpu() -> None:
    model = latent_model()
    for tp in (1, 4):
        operations = target_operations(model, Layout(tp=tp, gpus=tp), resolve_dtypes(model.dtypes))
        assert kv_bytes(operations, 1000.0, "bf16") == 10 * 1000 * 576 * 2


def test_an_indexers_keys_are_held_beside_the_cache() -> None:
    model = latent_model(indexer={"heads": 8, "head_dim": 128, "top_k": 2048})
    operations = target_operations(model, Layout(), resolve_dtypes(model.dtypes))
    # 576 x 2 bytes and 128 fp8 elements with a scale of 4 bytes; the whole context, whatever its top-k
    assert kv_bytes(operations, 5000.0, "bf16") == 10 * 5000 * (576 * 2 + 132)


def test_compressed_attention_holds_a_window_and_an_entry_for_some_tokens() -> None:
    indexer = {"heads": 8, "head_dim": 128, "top_k": 512}
    sizes = {"heads": 16, "head_dim": 500, "q_lora_rank": 64, "o_lora_rank": 16, "o_groups": 4, "window": 128}
    attention = {
        "window": {"type": "compressed", **sizes},
        "indexed": {"type": "compressed", **sizes, "ratio": 4, "overlap": True, "indexer": indexer},
        "pooled": {"type": "compressed", **sizes, "ratio": 128},
    }
    blocks = [
        {"repeat": n, "attention": name, "ffn": "dense"} for n, name in ((2, "window"), (3, "indexed"), (5, "pooled"))
    ]
    model = as_record(toy_model(attention=attention, blocks=blocks, parameters={}))
    for tp in (1, 4):  # held by every GPU
        operations = target_operations(model, Layout(tp=tp, gpus=tp), resolve_dtypes(model.dtypes))
        entries = 3 * 6400 / 4 + 5 * 6400 / 128
        assert kv_bytes(operations, 6400.0, "bf16") == (10 * 128 + entries) * 1000 + 3 * 6400 / 4 * 132
        # a context within the window
        assert kv_bytes(operations, 100.0, "bf16") == (10 * 100 + 3 * 25 + 5 * 100 / 128) * 1000 + 3 * 25 * 132


# ------------------------------------------------------------------------------------------------------ states


def test_saved_states_are_held_for_each_draft_position() -> None:
    found = bill(toy_hybrid_model(), toy_drafter("toy-ngram", "ngram"))
    assert found.state_per_request == 6 * STATE_BYTES
    lengths = np.array([0.0, 1.0, 4.0])
    held = found.per_request(lengths, drafting=lengths > 0)
    kv = 4 * 1000 * 1000
    assert held == pytest.approx([kv + 6 * STATE_BYTES, kv + 12 * STATE_BYTES, kv + 30 * STATE_BYTES])


def test_a_replay_keeps_one_copy() -> None:
    found = bill(toy_hybrid_model(), toy_drafter("toy-ngram", "ngram"), engine=toy_engine(recurrent_rollback="replay"))
    lengths = np.array([0.0, 1.0, 4.0])
    held = found.per_request(lengths, drafting=lengths > 0)
    kv = 4 * 1000 * 1000
    assert held == pytest.approx([kv + 6 * STATE_BYTES, kv + 12 * STATE_BYTES, kv + 12 * STATE_BYTES])


def test_a_hybrid_draft_models_states_are_held() -> None:
    found = bill(drafter=toy_drafter("toy-draft", "draft_model"), small=toy_hybrid_model("toy-small"))
    # beside the target's 1e7: the KV of four layers and at least one copy of six states
    held = float(found.per_request(np.asarray(1.0), drafting=np.asarray(True)))
    assert held >= 1e7 + 4 * 1000 * 1000 + 6 * STATE_BYTES


# ---------------------------------------------------------------------------------------------- drafters' bytes


def test_what_each_mechanism_holds() -> None:
    def held(mechanism: str, **changes: Any) -> tuple[float, float]:
        found = bill(drafter=toy_drafter("toy-x", mechanism, **changes))
        return found.draft_weights, found.draft_kv_per_request

    assert held("ngram") == (0, 0)
    assert held("self") == (0, 0)  # the target's own weights and cache
    assert held("medusa") == (2 * 4 * (1e6 + 2e6), 0)  # four residual blocks and vocabulary matrices, no cache
    assert held("eagle3", head=toy_head(own_lm_head=False)) == (2 * 19e6, 1e6)
    assert held("dflash", head=toy_head(layers=5)) == (
        2 * (3e6 + 5 * 13e6 + 3e6 + 4 * 1.5e6 + 2e6),  # q, k, v of 2000 x 1500 in the first layer, 1000 x 1500 in four
        5e6,
    )
    # a bounded draft window holds no more than its tokens
    assert held("eagle3", kv_window_tokens=100)[1] == 1e5


def test_a_draft_models_own_embedding_is_held_beside_its_head() -> None:
    small = toy_model("toy-small")
    untied = bill(drafter=toy_drafter("toy-draft", "draft_model"), small=small)
    tied = bill(drafter=toy_drafter("toy-draft", "draft_model"), small=toy_model("toy-small", tied_embeddings=True))
    assert (untied.draft_weights, tied.draft_weights) == (330e6, 310e6)
    assert untied.draft_kv_per_request == 1e7


def test_native_mtp_holds_every_trained_layer() -> None:
    def held(layers: int) -> float:
        mtp = {"layers": layers, "attention": "full", "ffn": "moe"}
        return bill(toy_moe_model(mtp=mtp), toy_drafter("toy-moe-mtp", "mtp", "toy-moe")).draft_weights

    # fusion 2e6, attention 2.5e6, router 16e3, 16 experts of 3e6; embedding and head are the target's
    assert held(1) == 2 * (2e6 + 2.5e6 + 16e3 + 48e6)
    assert held(3) == 3 * held(1)
