"""What each mechanism runs for D draft tokens: passes, sizes and T_draft by hand on toy hardware.

Linears of the toy EAGLE-3 layer (hidden 1000): q, k, v 1500 x 2000 = 3e6 weights, o 1e6, gate and up 8e6, down 4e6:
16e6 together, 320 us to read and 32 us of arithmetic for each token; activations of a token: inputs 2000 + 1000 +
1000 + 4000, outputs 1500 + 1000 + 8000 + 1000, of two bytes: 39,000 bytes, 0.39 us. Attention of a layer at 1000
tokens: 10 us of bytes and 16 us of arithmetic up to 16 rows (G = 4: up to 4 tokens): hypot(10, 16) us. Small kernels
0.2 us a token. Head of 2000 x 1000: 4e6 bytes -> 40 us, 4 us a token, activations 6000 bytes -> 0.06 us, logits
2000 x 4 x 3.5 = 28,000 bytes -> 0.28 us.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import (
    Data,
    as_record,
    put,
    toy_drafter,
    toy_engine,
    toy_head,
    toy_model,
    toy_moe_model,
    toy_overheads,
)
from toys import column, draft_us, plan_of, row, shipped, step_of

from specdec_cli.errors import ProfileError
from specdec_cli.physics.drafting import draft_plan, longest_draft
from specdec_cli.physics.layers import Layout, resolve_dtypes
from specdec_cli.physics.memory import weight_bytes
from specdec_cli.physics.operations import AllReduceHidden, Experts, Linear, Logits, Operation
from specdec_cli.profiles.draft_parameters import drafter_parameters_m

ATTENTION_US = math.hypot(10, 16)


def body_us(tokens: float) -> float:
    """The toy EAGLE-3 layer on up to four tokens of one request."""
    return 320 + 32 * tokens + 0.39 * tokens + ATTENTION_US + 0.2 * tokens


HEAD_US = 40 + 4 + 0.06 + 0.28


def linears(operations: tuple[Operation, ...]) -> dict[str, tuple[float, float, float]]:
    return {f"{op.name} {op.k:g}": (op.n, op.k, op.count) for op in operations if isinstance(op, Linear)}


# ------------------------------------------------------------------------------------------------ sequential


def test_eagle3_fuses_once_and_passes_once_a_token() -> None:
    # fusion of the 2 accepted tokens: 1000 x 3000: 60 us, 2 x 6 us, 2 x 8000 bytes -> 0.16 us
    # the first pass takes the 2 accepted tokens in, two further passes one; the head on one row of each pass
    fusion = 60 + 12 + 0.16
    expected = fusion + body_us(2) + 2 * body_us(1) + 3 * HEAD_US
    assert draft_us(step_of(drafter=toy_drafter()), 3, al=2.0) == pytest.approx(expected)
    assert draft_us(step_of(drafter=toy_drafter()), 1, al=2.0) == pytest.approx(fusion + body_us(2) + HEAD_US)


def test_eagle1_fuses_in_every_pass_and_reads_the_targets_head() -> None:
    # its layer reads the hidden state: q, k, v 1500 x 1000: 14.5e6 weights -> 290 us, 29 us a token,
    # activations 37,000 bytes -> 0.37 us; fusion 1000 x 2000: 40 us, 4 us and 0.06 us a token
    # the target's head, 10,000 x 1000: 200 us, 20 us, 22,000 bytes -> 0.22 us, logits 1.4 us
    head = toy_head(attention_input=1000, fc_in=2000, fc_every_pass=True, own_lm_head=False, draft_vocabulary=10000)
    step = step_of(drafter=toy_drafter("toy-model-eagle", "eagle", head=head))

    def one_pass(tokens: float) -> float:
        return (40 + 4.06 * tokens) + (290 + 29.37 * tokens) + ATTENTION_US + 0.2 * tokens

    expected = one_pass(2) + 2 * one_pass(1) + 3 * (200 + 20 + 0.22 + 1.4)
    assert draft_us(step, 3, al=2.0) == pytest.approx(expected)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_only_the_first_draft_layer_reads_the_wide_input(layers: int) -> None:
    plan = plan_of(as_record(toy_drafter(head=toy_head(layers=layers))), as_record(toy_model()))
    further = {"qkv 1000": (1500, 1000, layers - 1)} if layers > 1 else {}
    assert linears(plan.body) == {
        "qkv 2000": (1500, 2000, 1),
        **further,
        "o 1000": (1000, 1000, layers),
        "gate, up 1000": (8000, 1000, layers),
        "down 4000": (1000, 4000, layers),
    }


def test_draft_model_passes() -> None:
    # one layer of hidden 500, 4 query and 1 KV head of 125, feed-forward 1000, vocabulary 4000
    # q, k, v 750 x 500 = 0.375e6, o 0.25e6, gate and up 1e6, down 0.5e6: 2.125e6 weights -> 42.5 us, 4.25 us a token;
    # activations 500 + 750 + 500 + 500 + 500 + 2000 + 1000 + 500 = 6250 of 2 bytes -> 0.125 us a token
    # attention: 1000 x 250 x 2 = 5e5 bytes -> 5 us; 2 x 250 x 1000 x 16 = 8e6 -> 8 us; small kernels 0.1 us a token
    # head 4000 x 500: 40 us, 4 us, 9000 bytes -> 0.09 us, logits 56,000 bytes -> 0.56 us
    small = toy_model(
        "toy-small",
        hidden=500,
        vocabulary=4000,
        attention={"full": {"type": "gqa", "heads": 4, "kv_heads": 1, "head_dim": 125}},
        ffn={"dense": {"type": "dense", "intermediate": 1000}},
        blocks=[{"repeat": 1, "attention": "full", "ffn": "dense"}],
        parameters={},
    )
    step = step_of(drafter=toy_drafter("toy-draft", "draft_model"), small=small)

    def one_pass(tokens: float) -> float:
        return 42.5 + 4.375 * tokens + math.hypot(5, 8) + 0.1 * tokens

    expected = one_pass(2) + 3 * one_pass(1) + 4 * (40 + 4 + 0.09 + 0.56)
    assert draft_us(step, 4, al=2.0) == pytest.approx(expected)


def mtp_moe(**changes: Any) -> Data:
    return toy_moe_model(mtp={"layers": 1, "attention": "full", "ffn": "moe"}, **changes)


def test_native_mtp_is_a_layer_of_the_target_with_a_fusion_and_its_head() -> None:
    # fusion 1000 x 2000: 40 + 4.06 us a token. Attention part: q, k, v 1.5e6, o 1e6: 50 us, 5 us a token,
    # activations 2500 + 2000 of 2 bytes -> 0.09 us. Router 16 x 1000: 0.32 us, 0.032 us and 2032 bytes -> 0.02032 us
    # Experts of 3e6 weights: T = 2: 16 (1 - (14/16)^2) = 3.75 of them -> 225 us; rows 4 -> 24 us;
    #   activations 4 x (1000 x 4 + 8 x 1000) + 2 x 4000 = 56,000 bytes -> 0.56 us
    # T = 1: 2 experts -> 120 us; rows 2 -> 12 us; 28,000 bytes -> 0.28 us
    # head 10,000 x 1000: 200 + 20 + 0.22 us, logits 1.4 us
    step = step_of(mtp_moe(), toy_drafter("toy-moe-mtp", "mtp", "toy-moe"))

    def beside_experts(tokens: float) -> float:
        dense = 40 + 4.06 * tokens + 50 + 5.09 * tokens + 0.32 + 0.05232 * tokens
        return dense + ATTENTION_US + 0.2 * tokens

    expected = beside_experts(2) + 249.56 + beside_experts(1) + 132.28 + 2 * (200 + 20 + 0.22 + 1.4)
    assert draft_us(step, 2, al=2.0) == pytest.approx(expected)


def test_self_speculation_is_the_target_inside_a_window() -> None:
    # ten layers and the head, as test_step's target pass, but attention at 512 tokens:
    # 512,000 bytes -> 5.12 us, 8.192 us of arithmetic
    step = step_of(drafter=toy_drafter("toy-self", "self"))

    def one_pass(tokens: float) -> float:
        return 2900 + 290 * tokens + 3.7 * tokens + 10 * math.hypot(5.12, 8.192) + 2.0 * tokens

    head = 200 + 20 + 0.22 + 1.4
    expected = one_pass(2) + 2 * one_pass(1) + 3 * head
    assert draft_us(step, 3, al=2.0, context=4000) == pytest.approx(expected)
    assert draft_us(step, 3, al=2.0, context=8000) == pytest.approx(expected)
    assert draft_us(step, 3, al=2.0, context=300) < expected


# ------------------------------------------------------------------------------------------------ block passes


def test_dflash_passes_once_over_its_block() -> None:
    # D = 3: 4 rows through the layer and the head, the fusion on the 2 accepted tokens
    step = step_of(drafter=toy_drafter("toy-dflash", "dflash"))
    expected = (60 + 12 + 0.16) + body_us(4) + (40 + 4 * 4.34)
    assert draft_us(step, 3, al=2.0) == pytest.approx(expected)


@pytest.mark.parametrize("mechanism", ["p_eagle", "pard"])
def test_parallel_eagle_and_pard_cost_what_one_block_pass_costs(mechanism: str) -> None:
    parallel = step_of(drafter=toy_drafter("toy-parallel", mechanism))
    dflash = step_of(drafter=toy_drafter("toy-dflash", "dflash"))
    for length in (1, 3, 7):
        assert draft_us(parallel, length, al=2.0) == draft_us(dflash, length, al=2.0)


def test_dspark_adds_a_light_head_for_each_token() -> None:
    # 2000 x 256: 1.024e6 bytes -> 10.24 us, 1.024 us, activations 4512 bytes -> 0.04512 us; three times
    dflash = step_of(drafter=toy_drafter("toy-dflash", "dflash"))
    dspark = step_of(drafter=toy_drafter("toy-dspark", "dspark"))
    expected = draft_us(dflash, 3, al=2.0) + 3 * (10.24 + 1.024 + 0.04512)
    assert draft_us(dspark, 3, al=2.0) == pytest.approx(expected)


def test_medusa_runs_its_heads_at_once() -> None:
    # 4 heads: residual blocks 4000 x 1000: 80 us, 8 us a row, 10,000 bytes a row -> 0.1 us
    # vocabulary matrices 8000 x 1000: 160 us, 16 us a row, 18,000 bytes a row -> 0.18 us, logits 1.12 us a row
    step = step_of(drafter=toy_drafter("toy-medusa", "medusa"))
    assert draft_us(step, 3, al=2.0) == pytest.approx(80 + 4 * 8.1 + 160 + 4 * 17.3)


def test_longest_draft_of_a_block() -> None:
    def longest(mechanism: str, **changes: Any) -> int | None:
        return longest_draft(as_record(toy_drafter("x", mechanism, **changes)))

    assert longest("dflash") == 7  # of a block of 8 one is the anchor
    assert longest("dspark") == longest("pard", block=8) == 8
    assert longest("pard") is None
    assert longest("eagle3", block=8) is None  # passes are repeated, whatever a block is
    assert longest("eagle3") is None
    assert longest("ngram") is None


# ------------------------------------------------------------------------------------------------------ look-up


@pytest.mark.parametrize("mechanism", ["ngram", "suffix"])
def test_a_look_up_costs_what_the_engine_says_whatever_d(mechanism: str) -> None:
    engine = toy_engine(overheads=toy_overheads(lookup_ms=0.05, draft_pass_ms=9.0))
    step = step_of(drafter=toy_drafter("toy-lookup", mechanism), engine=engine)
    for length in (1, 3, 20):
        assert draft_us(step, length, al=1.5) == pytest.approx(50)
    assert draft_us(step, 0, al=1.0) == 0.0


# ----------------------------------------------------------------------------------------- the engine's passes


def drafting_with(overheads: Data, mechanism: str, length: int) -> float:
    """What the overheads add to T_draft, in us."""
    drafter = toy_drafter("toy-x", mechanism)
    engine = toy_engine(overheads={**toy_overheads(), **overheads})
    costly = draft_us(step_of(drafter=drafter, engine=engine), length, al=1.5)
    return costly - draft_us(step_of(drafter=drafter), length, al=1.5)


def test_each_sequential_pass_pays_and_a_block_pays_once() -> None:
    assert drafting_with({"draft_pass_ms": 0.2}, "eagle3", 3) == pytest.approx(600)
    assert drafting_with({"draft_pass_ms": 0.2}, "dflash", 3) == pytest.approx(200)
    assert drafting_with({"draft_pass_ms": 0.2}, "medusa", 3) == pytest.approx(200)


def test_a_versions_slow_path_is_one_mechanisms_alone() -> None:
    slow = {"draft_pass_ms": 0.2, "draft_pass_ms_by_mechanism": {"eagle3": 0.7}}
    assert drafting_with(slow, "eagle3", 3) == pytest.approx(2100)
    assert drafting_with(slow, "eagle", 3) == pytest.approx(600)


def test_a_pass_may_cost_a_share_of_the_target() -> None:
    # T_target of the toy model at B = 1 and 1000 tokens: see test_step
    added = drafting_with({"draft_pass_target_fraction": 0.1}, "eagle3", 2)
    assert added == pytest.approx(2 * 0.1 * (3100 + 310 + 3.92 + 10 * ATTENTION_US + 2 + 1.4))


def test_a_draft_sampler_may_take_more_passes_over_its_logits() -> None:
    target = as_record(toy_model())
    dtypes = resolve_dtypes(target.dtypes)
    eager = draft_plan(as_record(toy_drafter()), target, dtypes, Layout(), logit_passes=20.0)
    plain = draft_plan(as_record(toy_drafter()), target, dtypes, Layout())
    (logits,) = [op for op in eager.head if isinstance(op, Logits)]
    assert logits.passes == 20.0
    step = step_of(drafter=toy_drafter())
    costly = replace(step, plan=eager)
    # three draws of 2000 logits: 8000 bytes x (20 - 3.5) passes each -> 1.32 us
    assert draft_us(costly, 3, al=2.0) - draft_us(step, 3, al=2.0) == pytest.approx(3 * 1.32)
    assert plain == step.plan


# ---------------------------------------------------------------------------------------------- shared or own


def test_off_drafts_nothing() -> None:
    for mechanism in ("eagle3", "dflash", "dspark", "medusa", "self", "ngram"):
        step = step_of(drafter=toy_drafter("toy-x", mechanism))
        assert draft_us(step, 0, al=1.0) == 0.0


def test_draft_time_grows_with_d_and_batch() -> None:
    for mechanism in ("eagle3", "dflash", "dspark", "medusa", "self"):
        step = step_of(drafter=toy_drafter("toy-x", mechanism))
        lengths = np.arange(1.0, 8.0)[None, :]
        times = step.times(column(1, 8, 64), lengths, lengths + 1, np.full((1, 7), 2.0), np.asarray(1000.0))
        assert np.all(np.diff(times.draft_s, axis=0) > 0), mechanism
        assert np.all(np.diff(times.draft_s, axis=1) > 0), mechanism


def test_a_bounded_draft_window_stops_the_growth_with_context() -> None:
    bounded = step_of(drafter=toy_drafter(kv_window_tokens=1000))
    free = step_of(drafter=toy_drafter())
    assert draft_us(bounded, 3, al=2.0, context=8000) == draft_us(free, 3, al=2.0, context=1000)
    assert draft_us(free, 3, al=2.0, context=8000) > draft_us(free, 3, al=2.0, context=1000)


def test_tensor_parallelism_slices_the_draft_too() -> None:
    plan = plan_of(as_record(toy_drafter()), as_record(toy_model()), Layout(tp=2, gpus=2))
    assert linears(plan.body)["qkv 2000"] == (750, 2000, 1)
    assert linears(plan.head)["lm_head 1000"] == (1000, 1000, 1)
    (reduce,) = [op for op in plan.body if isinstance(op, AllReduceHidden)]
    assert (reduce.gpus, reduce.count) == (2, 2)
    three = toy_drafter("toy-dspark", "dspark", head=toy_head(layers=3, markov_rank=256))
    plan = plan_of(as_record(three), as_record(toy_model()), Layout(tp=2, gpus=2))
    assert linears(plan.serial_head)["draft serial head 256"] == (1000, 256, 1)
    assert [op.count for op in plan.body if isinstance(op, AllReduceHidden)] == [6]  # two a layer


@pytest.mark.parametrize(("own", "dtype"), [(True, "fp8"), (False, "bf16")])
def test_a_shared_head_keeps_the_targets_dtype(own: bool, dtype: str) -> None:
    drafter = toy_drafter(weight_dtype="fp8", head=toy_head(own_lm_head=own))
    plan = plan_of(as_record(drafter), as_record(toy_model()))
    assert {op.dtype for op in plan.head if isinstance(op, Linear)} == {dtype}
    assert {op.dtype for op in plan.body if isinstance(op, Linear)} == {"fp8"}


def test_a_head_without_fusion_has_its_layers_alone() -> None:
    plan = plan_of(as_record(toy_drafter(head=toy_head(fc_in=0))), as_record(toy_model()))
    assert plan.fusion == ()
    assert weight_bytes(plan.stored) / 2e6 == pytest.approx(16 + 2)


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ({"attention": "full", "ffn": None}, {"qkv", "o"}),
        ({"attention": None, "ffn": "moe"}, {"router"}),
    ],
)
def test_an_mtp_layer_may_lack_a_mixer_or_a_feed_forward_block(parts: Data, names: set[str]) -> None:
    model = toy_moe_model(mtp={"layers": 1, **parts})
    plan = plan_of(as_record(toy_drafter("toy-moe-mtp", "mtp", "toy-moe")), as_record(model))
    assert {op.name for op in plan.body if isinstance(op, Linear)} == {"draft fusion", *names}
    assert any(isinstance(op, Experts) for op in plan.body) is (parts["ffn"] is not None)


def test_mtp_experts_are_spread_as_the_targets() -> None:
    layout = Layout(tp=1, gpus=4, ep=4)
    plan = plan_of(as_record(toy_drafter("toy-moe-mtp", "mtp", "toy-moe")), as_record(mtp_moe()), layout)
    (experts,) = [op for op in plan.body if isinstance(op, Experts)]
    assert experts.expert_parallel == 4


def test_a_ranks_mixture_drafts_for_its_own_requests() -> None:
    """A draft model's experts are not spread over attention ranks: each rank holds all, and sees its requests alone."""
    small = toy_moe_model("toy-small")
    drafter = toy_drafter("toy-draft", "draft_model")
    alone = draft_us(step_of(drafter=drafter, small=small), 2, al=2.0, batch=1)
    ranks = step_of(drafter=drafter, small=small, layout=Layout(tp=1, gpus=4))
    assert draft_us(ranks, 2, al=2.0, batch=4) == pytest.approx(alone)


def test_mtp_mixes_the_streams_as_the_targets_layers_do() -> None:
    drafter = as_record(toy_drafter("toy-moe-mtp", "mtp", "toy-moe"))
    body = plan_of(drafter, as_record(mtp_moe(residual_streams=4))).body
    assert [op.count for op in body if op.name == "hyper-connections"] == [2]
    assert not [op for op in plan_of(drafter, as_record(mtp_moe())).body if op.name == "hyper-connections"]


def test_mtp_of_a_model_without_it_is_refused() -> None:
    with pytest.raises(ProfileError, match="toy-model has no native MTP layers"):
        plan_of(as_record(toy_drafter("toy-mtp", "mtp")), as_record(toy_model()))


def test_a_draft_model_needs_its_profile() -> None:
    with pytest.raises(ProfileError, match="toy-draft needs the profile of its draft model toy-small"):
        plan_of(as_record(toy_drafter("toy-draft", "draft_model")), as_record(toy_model()))


@pytest.mark.parametrize("mechanism", ["eagle3", "dflash"])
def test_a_head_that_is_missing_is_named(mechanism: str) -> None:
    drafter = as_record(put(toy_drafter("toy-x", mechanism), "head", None))
    with pytest.raises(ProfileError, match="states no head"):
        plan_of(drafter, as_record(toy_model()))


def test_what_the_drafter_stores() -> None:
    def stored_m(mechanism: str, **changes: Any) -> float:
        plan = plan_of(as_record(toy_drafter("toy-x", mechanism, **changes)), as_record(toy_model()))
        return weight_bytes(plan.stored) / 2 / 1e6

    assert stored_m("eagle3") == pytest.approx(3 + 16 + 2)  # fusion, layer, head
    assert stored_m("eagle3", head=toy_head(own_lm_head=False)) == pytest.approx(3 + 16)  # the head is the target's
    assert stored_m("medusa") == pytest.approx(4 * (1 + 2))
    assert stored_m("self") == 0.0
    assert stored_m("ngram") == 0.0


HEADED = [name for name in shipped().names("drafter") if shipped().drafter(name).record.head is not None]


@pytest.mark.parametrize("name", HEADED)
def test_shipped_heads_hold_the_parameters_that_they_count(name: str) -> None:
    drafter = shipped().drafter(name).record
    model = shipped().model(drafter.targets[0]).record
    plan = plan_of(drafter, model)
    dtype_bytes = {"bf16": 2.0, "fp16": 2.0}[drafter.weight_dtype]
    held_m = weight_bytes(plan.stored) / dtype_bytes / 1e6
    counted = drafter_parameters_m(drafter)
    assert counted is not None
    assert drafter.head is not None
    # The Markov head's second matrix is looked up, not read; Medusa's biases are left out.
    looked_up = drafter.head.markov_rank * drafter.head.draft_vocabulary / 1e6
    assert held_m == pytest.approx(counted - looked_up, rel=2e-3)


def test_lengths_of_different_acceptance_differ_in_the_first_pass_alone() -> None:
    step = step_of(drafter=toy_drafter())
    times = step.times(column(1), row(3, 3), row(4, 4), row(2, 3), np.asarray(1000.0))
    # one more accepted token: fusion 6 + 0.08 us, layer 32 + 0.39 + 0.2 us (12 rows still fill 16)
    assert float(times.draft_s[0, 1] - times.draft_s[0, 0]) == pytest.approx(38.67e-6)


def test_a_draft_may_run_on_fewer_gpus_than_its_target() -> None:
    """Its matrices are then sliced less, and its all-reduces join fewer GPUs."""
    library = shipped()
    target, draft = library.model("llama-3.3-70b").record, library.model("llama-3.2-1b").record
    drafter = msgspec.structs.replace(library.drafter("llama-3.2-1b-draft").record, largest_tp=2)
    dtypes = resolve_dtypes(target.dtypes)
    plan = draft_plan(
        drafter,
        target,
        dtypes,
        Layout(tp=8, gpus=8),
        draft_model=draft,
        draft_model_dtypes=resolve_dtypes(draft.dtypes),
    )
    assert {op.gpus for op in plan.body if isinstance(op, AllReduceHidden)} == {2}
    (down,) = [op for op in plan.body if isinstance(op, Linear) and op.name == "down"]
    assert down.k == 8192 / 2
