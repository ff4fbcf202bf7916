"""One step put together: golden values on toy hardware, closed forms, and properties over the shipped profiles."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import put, toy_drafter, toy_engine, toy_hardware, toy_kernels, toy_model, toy_moe_model, toy_overheads
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import US, column, row, shipped, shipped_scenario, step_of

from specdec_cli.physics import step as step_module
from specdec_cli.physics.chip import Shape
from specdec_cli.physics.layers import Layout
from specdec_cli.physics.step import (
    BOUNDS,
    StepModel,
    StepTimes,
    bound,
    distinct_values,
    pass_breakdown,
    pass_cost,
    pass_lower_bound_s,
)

ATTENTION_US = 10 * math.hypot(10, 16)  # ten layers at 1000 tokens, up to 16 rows (test_chip)


def times_of(
    step: StepModel, batches: Any, lengths: Any, *, al: Any = None, context: float = 1000, widths: Any = None
) -> StepTimes:
    d = row(*lengths)
    accepted = np.ones_like(d) if al is None else row(*al)
    return step.times(
        column(*batches), d, d + 1 if widths is None else row(*widths), accepted, np.asarray(float(context))
    )


# --------------------------------------------------------------------------------------------- golden values


def test_the_toy_target_by_hand() -> None:
    # Weights: ten layers of 14.5e6 and a head of 10e6: 155e6 x 2 bytes = 3.1e8 -> 3100 us; 3.1e8 FLOP a token: 310 us
    # Activations of a token: a layer 1000 + 1500 + 1000 + 1000 + 1000 + 8000 + 4000 + 1000 = 18,500 and the head
    # 11,000, of 2 bytes: 392,000 bytes -> 3.92 us. Attention hypot(10, 16) us a layer. Small kernels 0.2 us a layer.
    # Logits 10,000 x 4 x 3.5 bytes -> 1.4 us
    step = step_of()
    expected = 3100 + 310 + 3.92 + ATTENTION_US + 2 + 1.4
    assert float(times_of(step, [1], [0]).target_s[0, 0]) / US == pytest.approx(expected)


def test_the_toy_verification_by_hand() -> None:
    # W = 4: four times all that goes by tokens; the weights and the KV cache are read once; 16 rows fill 16
    step = step_of(drafter=toy_drafter("toy-ngram", "ngram"))
    found = times_of(step, [1], [3])
    assert float(found.verify_s[0, 0]) / US == pytest.approx(3100 + 4 * (310 + 3.92 + 2 + 1.4) + ATTENTION_US)
    # W = 8: 32 rows
    wide = times_of(step, [1], [7])
    assert float(wide.verify_s[0, 0]) / US == pytest.approx(3100 + 8 * (310 + 3.92 + 2 + 1.4) + 10 * math.hypot(10, 32))


def test_two_gpus_by_hand() -> None:
    # half of every weight, 1550 us, half of the arithmetic; activations of a token on each GPU: a layer
    # 1000 + 750 + 500 + 1000 + 1000 + 4000 + 2000 + 1000 = 11,250, the head 6000, of 2 bytes: 237,000 -> 2.37 us
    # attention of one KV head: hypot(5, 8); twenty all-reduces of 2000 bytes: 0.2 us + 10 us; the logits are whole
    step = step_of(layout=Layout(tp=2, gpus=2))
    expected = 1550 + 155 + 2.37 + 10 * math.hypot(5, 8) + 2 + 1.4 + 20 * 10.2
    assert float(times_of(step, [1], [0]).target_s[0, 0]) / US == pytest.approx(expected)


def test_a_mixture_by_hand() -> None:
    # Ten layers: attention part 2.5e6 weights: 50 us, 5 us and 0.09 us a token; router 16,000: 0.32, 0.032, 0.02032 us
    # Experts of 3e6 weights (60 us): one token touches 2: 120 us, four 16 (1 - (7/8)^4) = 6.6211 of them
    #   a token is 2 rows x 6e6 FLOP -> 12 us, and 2 x 12,000 + 4000 bytes -> 0.28 us
    # head 200 us, 20 us, 0.22 us and logits 1.4 us a token
    step = step_of(toy_moe_model(), toy_drafter("toy-ngram", "ngram"))
    per_token = 10 * (5 + 0.09 + 0.032 + 0.02032 + 12 + 0.28 + 0.2) + 20 + 0.22 + 1.4
    fixed = 10 * (50 + 0.32) + 200 + ATTENTION_US
    found = times_of(step, [1], [0, 3])
    assert float(found.target_s[0, 0]) / US == pytest.approx(fixed + per_token + 10 * 120)
    touched = 16 * (1 - 0.875**4)
    assert float(found.verify_s[0, 1]) / US == pytest.approx(fixed + 4 * per_token + 10 * 60 * touched)


def test_the_engines_overheads_by_hand() -> None:
    # step 0.6 ms; 20 us a request; entry fee 0.5 ms once a step that speculates; 0.2 ms a pass
    overheads = toy_overheads(step_ms=0.6, per_request_us=20.0, speculation_ms=0.5, draft_pass_ms=0.2)
    plain, costly = (
        times_of(step_of(drafter=toy_drafter(), engine=engine), [1, 8], [0, 1, 3], al=[1, 1.7, 2.5])
        for engine in (toy_engine(), toy_engine(overheads=overheads))
    )
    host = np.array([[0.62e-3], [0.76e-3]])
    assert costly.target_s - plain.target_s == pytest.approx(np.broadcast_to(host, (2, 3)))
    assert costly.verify_s - plain.verify_s == pytest.approx(host + np.array([[0.0, 0.5e-3, 0.5e-3]]))
    assert costly.draft_s - plain.draft_s == pytest.approx(np.broadcast_to([[0.0, 0.2e-3, 0.6e-3]], (2, 3)))


def test_a_serving_constant_does_not_enter_decoding() -> None:
    engine = toy_engine(overheads=toy_overheads(serving_step_ms=9.0))
    assert times_of(step_of(engine=engine), [1], [0]).target_s == times_of(step_of(), [1], [0]).target_s


def test_a_tree_may_have_fees_of_its_own() -> None:
    # depth 3, 13 rows: an entry fee of 0.9 ms in place of 0.5, three passes of 0.3 ms in place of 0.2
    chain = toy_overheads(speculation_ms=0.5, draft_pass_ms=0.2)
    tree = {**chain, "tree_speculation_ms": 0.9, "tree_draft_pass_ms": 0.3}
    none, same, own = (
        times_of(
            step_of(drafter=toy_drafter(), engine=toy_engine(overheads=o)), [1], [3, 3], al=[2.0, 2.0], widths=[4, 13]
        )
        for o in (toy_overheads(), chain, tree)
    )
    assert (same.verify_s - none.verify_s)[0] == pytest.approx([0.5e-3, 0.5e-3])
    assert (same.draft_s - none.draft_s)[0] == pytest.approx([0.6e-3, 0.6e-3])
    assert (own.verify_s - none.verify_s)[0] == pytest.approx([0.5e-3, 0.9e-3])
    assert (own.draft_s - none.draft_s)[0] == pytest.approx([0.6e-3, 0.9e-3])


def test_a_trees_nodes_are_verified_while_its_depth_is_drafted() -> None:
    # depth 3, 12 nodes and the root beside it: the target sees 13 tokens, three passes draft 4 rows each
    step = step_of(drafter=toy_drafter())
    tree = times_of(step, [1], [3], al=[2.0], widths=[13])
    chain = times_of(step, [1], [12], al=[2.0])
    assert tree.verify_s == chain.verify_s
    # first pass on the 2 accepted tokens, two on 4 rows, the head on 4 rows thrice (sizes: test_drafting)
    layer = {w: 320 + 32.39 * w + math.hypot(10, 16) + 0.2 * w for w in (2, 4)}
    expected = 60 + 12 + 0.16 + layer[2] + 2 * layer[4] + 3 * (40 + 4 * 4.34)
    assert float(tree.draft_s[0, 0]) / US == pytest.approx(expected)


# ---------------------------------------------------------------------------------------------- closed forms


def free_activations() -> Any:
    """Hardware on which a token costs arithmetic alone and weights are read: no activation bytes, no attention.

    The weights are taken wide (1e6 x 1e6), so that activations are 1e-6 of them; compute and memory overlap wholly.
    """
    kernels = toy_kernels(gemm={"bf16": {**toy_kernels()["gemm"]["bf16"], "overlap_exponent": 1000.0}})
    return toy_hardware(kernels={"default": kernels})


def ridge_batch(width: int, *, hardware: Any, model: Any) -> float:
    """The batch at which arithmetic takes as long as memory, by bisection on the computed pass."""
    step = step_of(model, hardware=hardware)
    low, high = 1e-6, 1e9
    for _ in range(200):
        middle = math.sqrt(low * high)
        shape = Shape(np.asarray(middle), np.asarray(float(width)), np.asarray(1.0))
        found = pass_cost(step.target, shape, step.chip)
        low, high = (middle, high) if found.compute_s < found.memory_s else (low, middle)
    return low


def test_seven_drafts_turn_compute_bound_at_an_eighth_of_the_batch() -> None:
    """Guideline 1's vector: pure-linear dense model, no tile effect, free activations."""
    # Linears of 1e9 x 1e9 make the activations vanish: 2 T / P = w / beta at T = 10 tokens for bf16 on the toy chip.
    model = toy_model(
        hidden=10**9,
        vocabulary=1,
        attention={},
        ffn={"dense": {"type": "dense", "intermediate": 10**9}},
        blocks=[{"repeat": 1, "attention": None, "ffn": "dense"}],
        parameters={},
    )
    off = ridge_batch(1, hardware=free_activations(), model=model)
    seven = ridge_batch(8, hardware=free_activations(), model=model)
    assert off == pytest.approx(10.0, rel=1e-6)
    assert seven / off == pytest.approx(1 / 8, rel=1e-6)


@pytest.mark.parametrize("hardware", ["h100-sxm", "b200-sxm", "a100-sxm-80gb"])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.3-70b", "qwen3-32b", "mixtral-8x7b"])
def test_on_real_shapes_the_eighth_holds_within_fifteen_percent(name: str, hardware: str) -> None:
    """The whole pass at its achieved rates, sampling and padded attention rows included, while no KV cache is read."""
    step = shipped_scenario(model=name, drafter="none", hardware=hardware, context=1).step

    def ridge(width: int) -> float:
        batches = np.geomspace(1, 8192, 2000)
        found = pass_cost(step.target, Shape(batches, np.asarray(float(width)), np.asarray(1.0)), step.chip)
        compute_bound = found.compute_s >= found.memory_s
        assert compute_bound.any()
        return float(batches[np.argmax(compute_bound)])

    assert ridge(8) / ridge(1) == pytest.approx(1 / 8, rel=0.15)


def test_off_is_plain_decoding_exactly() -> None:
    """With a drafter or without, whatever the other draft lengths of the grid."""
    engine = toy_engine(overheads=toy_overheads(step_ms=0.6, per_request_us=20, speculation_ms=0.5, draft_pass_ms=0.2))
    plain = times_of(step_of(engine=engine), [1, 7, 64], [0])
    for mechanism in ("eagle3", "dflash", "ngram", "self"):
        step = step_of(drafter=toy_drafter("toy-x", mechanism), engine=engine)
        found = times_of(step, [1, 7, 64], [0, 1, 5], al=[1, 1.7, 2.5])
        for part in ("target_s", "verify_s"):
            assert np.array_equal(getattr(found, part)[:, :1], plain.target_s)
        assert np.array_equal(found.step_s[:, :1], plain.target_s)
        assert not found.draft_s[:, 0].any()


def test_parts_add_up_to_the_pass() -> None:
    step = step_of(toy_moe_model(), layout=Layout(tp=2, gpus=4, ep=2))
    shape = step.shape(column(1, 5, 32), row(1, 4), np.asarray(3000.0))
    whole = pass_cost(step.target, shape, step.chip)
    for index, part in enumerate(whole):
        total = sum(
            np.broadcast_to(costs[index], part.shape) for _, costs in pass_breakdown(step.target, shape, step.chip)
        )
        assert part == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "deepseek-v4-flash", "hardware": "b200-sxm", "tp": "4"},  # compressed attention and its indexer
        {"model": "qwen3-next-80b-a3b", "hardware": "h200-sxm", "tp": "2"},  # recurrent layers
        {"model": "deepseek-v3", "hardware": "h200-sxm", "gpus": 8, "tp": "2", "ep": 4},  # experts of four ranks
        {"model": "gemma-3-27b", "hardware": "b200-sxm"},  # sliding windows
    ],
)
def test_a_pass_evaluated_on_less_than_its_grid_is_the_sum_of_its_operations(asked: dict[str, Any]) -> None:
    """At whole tokens with repeats, at fractions, and at contexts that differ from request to request."""
    step = shipped_scenario(drafter="none", **asked).step
    grids = (
        (column(1, 2, 3, 64, 65), row(1, 2, 3, 32), np.asarray(3000.0)),
        (column(1.5, 7.25), row(1, 2.31, 4.77), np.asarray(3000.0)),
        (column(4, 8, 8), row(1, 4), column(100, 1000, 30000)),
    )
    for grid in grids:
        shape = step.shape(*grid)
        whole = pass_cost(step.target, shape, step.chip)
        parts = [costs for _, costs in pass_breakdown(step.target, shape, step.chip)]
        for name in whole._fields:
            expected = sum(np.broadcast_to(getattr(costs, name), whole.seconds.shape) for costs in parts)
            assert getattr(whole, name) == pytest.approx(expected, rel=1e-12)


def test_token_counts_past_one_block_follow_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model = step_of(toy_moe_model())
    shape = model.shape(column(*range(1, 8)), row(1, 1.7, 3), np.asarray(10.0))
    whole = pass_cost(model.target, shape, model.chip)
    monkeypatch.setattr(step_module, "BLOCK", 4)
    for one, other in zip(whole, pass_cost(model.target, shape, model.chip), strict=True):
        assert np.array_equal(one, other)


def test_distinct_values_and_their_places() -> None:
    values = np.array([[3.0, 1.0], [3.0, 7.0]])
    distinct, place = distinct_values(values)
    assert distinct.tolist() == [1, 3, 7]
    assert place is not None
    assert np.array_equal(distinct[place], values)
    for alone in ([1.5, 1.5], [1.0, 1e6], [4.0], []):  # fractions, a table too sparse, nothing to save
        found, place = distinct_values(np.array(alone))
        assert (found.tolist(), place) == (alone, None)


def test_where_the_time_goes() -> None:
    # times that add (p = 1): the three sides are the step, attention's overlap aside
    overheads = toy_overheads(step_ms=1.0, speculation_ms=0.5, draft_pass_ms=0.2)
    step = step_of(drafter=toy_drafter(), engine=toy_engine(overheads=overheads))
    found = times_of(step, [1, 16, 64], [0, 2], al=[1, 2.0], context=1)
    sides = found.compute_s + found.memory_s + found.fixed_s
    assert sides == pytest.approx(found.step_s, rel=2e-3)
    assert found.fixed_s == pytest.approx(np.broadcast_to([[1.0e-3, 1.9e-3]], (3, 2)))


def test_what_bounds_a_step() -> None:
    def bounds(step_ms: float) -> list[list[str]]:
        step = step_of(engine=toy_engine(overheads=toy_overheads(step_ms=step_ms)))
        return [[BOUNDS[place] for place in row] for row in bound(times_of(step, [1, 1000], [0], context=1))]

    # one token: 3100 us of weights and 310 us of arithmetic; a thousand: 0.31 s of arithmetic
    assert bounds(0.0) == [["memory"], ["compute"]]
    assert bounds(4.0) == [["latency"], ["compute"]]
    assert bounds(400.0) == [["latency"], ["latency"]]


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3"])
def test_no_pass_beats_the_datasheet(name: str) -> None:
    step = shipped_scenario(model=name, drafter="none", hardware="h200-sxm", gpus=8, context=4096).step
    shape = step.shape(column(1, 32, 512), row(1, 8), np.asarray(4096.0))
    lower = pass_lower_bound_s(step.target, shape, step.chip)
    assert np.all(lower > 0)
    assert np.all(lower <= pass_cost(step.target, shape, step.chip).seconds)


# -------------------------------------------------------------------- properties over the shipped profiles

PAIRS = (
    ("llama-3.1-8b", "eagle3", 1),
    ("llama-3.3-70b", "eagle3", 4),
    ("qwen3-8b", "qwen3-8b-dflash-b16", 1),
    ("qwen3-8b", "qwen3-8b-dspark", 1),
    ("qwen3-8b", "qwen3-0.6b-draft", 1),
    ("qwen3-30b-a3b", "eagle3", 1),
    ("gpt-oss-120b", "eagle3", 1),
    ("gemma-3-27b", "ngram", 2),
    ("deepseek-v3", "mtp", 8),
    ("qwen3-next-80b-a3b", "mtp", 4),
    ("llama-3.1-8b", "self-window-512", 1),
)
CHIPS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "rtx-pro-6000-server")
LENGTHS = tuple(range(9))

pairs = st.tuples(st.sampled_from(PAIRS), st.sampled_from(CHIPS), st.sampled_from(("vllm", "sglang", "tensorrt-llm")))
"""A shipped target with a drafter and TP, a chip and an engine."""


def shipped_step(names: tuple[tuple[str, str, int], str, str]) -> StepModel:
    (model, drafter, tp), hardware, engine = names
    # A checkpoint's own dtype needs kernels that not every chip has; 16 bits run everywhere.
    return shipped_scenario(
        model=model,
        drafter=drafter,
        hardware=hardware,
        tp=str(tp),
        weight_dtype="bf16",
        kv_dtype="bf16",
        engine=engine,
        acceptance_rate=0.7,
        context=1024,
    ).step


def faster(step: StepModel, *, bandwidth: float = 1.0, compute: float = 1.0) -> StepModel:
    """The same on a chip with so many times the bandwidth or arithmetic."""
    chip = replace(
        step.chip,
        bandwidth=step.chip.bandwidth * bandwidth,
        peaks={dtype: peak * compute for dtype, peak in step.chip.peaks.items()},
    )
    return replace(step, chip=chip)


batch_sizes = st.lists(st.integers(1, 1_000_000), min_size=1, max_size=4)
contexts = st.integers(1, 2_000_000)
PROPERTY = settings(max_examples=40, deadline=None)


def grid(step: StepModel, batches: list[int], context: float, rate: float = 0.7) -> StepTimes:
    d = row(*LENGTHS)
    al = np.cumsum(rate**d, axis=1)
    return step.times(column(*batches), d, d + 1, al, np.asarray(float(context)))


@PROPERTY
@given(pairs, batch_sizes, contexts)
def test_times_are_finite_and_positive_and_verification_is_never_free(
    names: Any, batches: list[int], context: int
) -> None:
    step = shipped_step(names)
    found = grid(step, batches, context)
    for part in (found.target_s, found.verify_s, found.step_s, found.memory_s):
        assert np.all(np.isfinite(part))
        assert np.all(part > 0)
    assert np.all(np.isfinite(found.draft_s))
    assert np.all(found.draft_s[:, 1:] > 0)
    assert np.array_equal(found.step_s[:, 0], found.target_s[:, 0])
    assert np.all(found.verify_s >= found.target_s)
    assert np.all(np.diff(found.verify_s, axis=1) >= 0)
    assert np.all(np.diff(found.draft_s, axis=1) >= 0)


@PROPERTY
@given(pairs, batch_sizes, contexts, st.floats(1.0, 4.0))
def test_more_bandwidth_or_arithmetic_is_never_slower(
    names: Any, batches: list[int], context: int, times: float
) -> None:
    step = shipped_step(names)
    before = grid(step, batches, context)
    for better in (faster(step, bandwidth=times), faster(step, compute=times)):
        after = grid(better, batches, context)
        for part in ("target_s", "verify_s", "draft_s"):
            assert np.all(getattr(after, part) <= getattr(before, part) * (1 + 1e-12)), part


@PROPERTY
@given(pairs, batch_sizes, st.lists(contexts, min_size=2, max_size=2))
def test_a_longer_context_and_a_larger_batch_are_never_faster(
    names: Any, batches: list[int], lengths: list[int]
) -> None:
    step = shipped_step(names)
    short, long = sorted(lengths)
    before, after = grid(step, batches, short), grid(step, batches, long)
    for part in ("target_s", "verify_s", "draft_s"):
        assert np.all(getattr(after, part) >= getattr(before, part) * (1 - 1e-12)), part
    ordered = grid(step, sorted(batches), short)
    assert np.all(np.diff(ordered.step_s, axis=0) >= -1e-12 * ordered.step_s[1:])


@PROPERTY
@given(pairs, batch_sizes, st.randoms(use_true_random=False))
def test_the_order_of_the_axes_changes_nothing(names: Any, batches: list[int], shuffler: Any) -> None:
    step = shipped_step(names)
    rows, columns = list(range(len(batches))), list(range(len(LENGTHS)))
    shuffler.shuffle(rows)
    shuffler.shuffle(columns)
    d = np.array(LENGTHS, dtype=np.float64)[columns][None, :]
    al = np.cumsum(0.7 ** row(*LENGTHS), axis=1)[:, columns]
    straight = grid(step, batches, 1024)
    mixed = step.times(column(*[batches[i] for i in rows]), d, d + 1, al, np.asarray(1024.0))
    for part in ("target_s", "verify_s", "draft_s", "compute_s", "memory_s", "fixed_s"):
        assert np.allclose(getattr(mixed, part), getattr(straight, part)[np.ix_(rows, columns)], rtol=1e-12, atol=0)


@PROPERTY
@given(pairs, st.integers(1, 512))
def test_a_point_alone_is_the_point_in_a_grid(names: Any, batch: int) -> None:
    step = shipped_step(names)
    many = grid(step, [1, batch, 300], 1024)
    al = float(sum(0.7**i for i in range(4)))
    one = step.times(column(batch), row(3), row(4), row(al), np.asarray(1024.0))
    assert float(one.step_s[0, 0]) == pytest.approx(float(many.step_s[1, 3]), rel=1e-12)


# --------------------------------------------------------------------------- shapes that measurements ask for


def rho(step: StepModel, batch: float, draft_length: int, context: float = 512) -> float:
    """(T_verify + T_draft) / T_target."""
    found = times_of(step, [batch], [draft_length], al=[1 + 0.6 * draft_length], context=context)
    return float(found.step_s[0, 0] / found.target_s[0, 0])


def test_the_first_token_carries_an_entry_fee() -> None:
    """Published sweeps: the first draft token costs more of a target step than each later one (GUIDELINES)."""
    for engine in ("vllm", "sglang"):
        step = shipped_scenario(model="llama-3.1-8b", drafter="eagle3", engine=engine, context=512).step
        first = rho(step, 1, 1) - 1
        later = (rho(step, 1, 7) - rho(step, 1, 1)) / 6
        assert first > 1.5 * later, engine
        assert 0.03 < later < 0.3, engine


@pytest.mark.parametrize(("model", "most"), [("qwen3-30b-a3b", 4), ("gpt-oss-120b", 4)])
def test_a_mixture_reads_new_experts_at_small_batches_and_none_at_large_ones(model: str, most: float) -> None:
    """Verification of four tokens: dearest where draft tokens bring new experts, nearly free once all are read."""
    step = shipped_scenario(model=model, drafter="none", hardware="h200-sxm", context=1024).step
    found = [rho_verify(step, batch, 4) for batch in (1, 2, 8, 64, 128)]
    dense = shipped_scenario(model="qwen3-32b", drafter="none", hardware="h200-sxm", context=1024).step
    assert 1.15 < max(found[:3]) < most
    assert found[3] < max(found[:3])
    assert max(found[:3]) > 1.1 * rho_verify(dense, 2, 4)


def rho_verify(step: StepModel, batch: int, width: int) -> float:
    plain, verify = (
        pass_cost(
            step.target, step.shape(np.asarray(float(batch)), np.asarray(float(w)), np.asarray(1024.0)), step.chip
        )
        for w in (1, width)
    )
    return float(verify.seconds / plain.seconds)


def test_experts_are_most_of_what_four_tokens_add_on_one_gpu() -> None:
    """Expert growth from W = 1 to 4 at B = 1 (PHYSICS of the field: 41 % of a step for 30B-A3B in bf16 on one GPU)."""
    step = shipped_scenario(model="qwen3-30b-a3b", drafter="none", hardware="h200-sxm", context=1024).step
    experts = []
    whole = 0.0
    for width in (1, 4):
        shape = step.shape(np.asarray(1.0), np.asarray(float(width)), np.asarray(1024.0))
        parts = pass_breakdown(step.target, shape, step.chip)
        experts.append(sum(float(costs.seconds) for op, costs in parts if op.group == "experts"))
        whole = whole or sum(float(costs.seconds) for _, costs in parts)
    assert 0.2 < (experts[1] - experts[0]) / whole < 0.7


def test_attention_is_free_up_to_the_chips_own_ridge() -> None:
    """Long contexts: rows R = G W cost most where bandwidth outweighs arithmetic (H20)."""

    def growth(hardware: str) -> float:
        scenario = shipped_scenario(model="llama-3.1-8b", drafter="none", hardware=hardware, context=65536)
        step = scenario.step

        def attention(width: float) -> float:
            shape = step.shape(np.asarray(8.0), np.asarray(width), np.asarray(65536.0))
            parts = pass_breakdown(step.target, shape, step.chip)
            return sum(float(costs.seconds) for op, costs in parts if op.group == "attention")

        return attention(16.0) / attention(1.0)  # G = 4: 64 rows against 4

    assert 1.0 <= growth("h100-sxm") < 1.3
    assert growth("h20") > growth("h100-sxm") * 1.2


def test_kv_is_read_once_whatever_the_width() -> None:
    step = shipped_scenario(model="llama-3.3-70b", drafter="none", hardware="h200-sxm", tp="8", context=32768).step
    one, eight = (
        pass_cost(
            [op for op in step.target if op.group == "attention"],
            step.shape(np.asarray(32.0), np.asarray(w), np.asarray(32768.0)),
            step.chip,
        )
        for w in (1.0, 8.0)
    )
    assert float(eight.memory_s) == float(one.memory_s)
    assert float(eight.seconds) < 2 * float(one.seconds)
    assert shipped().hardware("h200-sxm").record.fitted


def test_toy_attention_scales_with_batch() -> None:
    hardware = put(toy_hardware(), "kernels.default.attention.bf16.floor_us", 5.0)
    one, eight = (float(times_of(step_of(hardware=hardware), [b], [0]).target_s[0, 0]) / US for b in (1, 8))
    # seven further requests: arithmetic 310, activations 3.92, small kernels 2, logits 1.4 us each; attention hypot(10,
    # 16) a layer each; the floor is one kernel's, whatever the batch
    assert eight - one == pytest.approx(7 * (310 + 3.92 + 2 + 1.4 + ATTENTION_US))
