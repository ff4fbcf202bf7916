"""Random questions over every shipped profile, asked once more on a chip that is better by one figure, of a context
that is longer, on more GPUs: what may never get worse.

A chip differs by one figure of one kernel at a time, so a wrong sign or a figure put in another's place shows; and
somewhere each figure must matter, or its test would say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    CHIPS,
    DRAFTING,
    LIBRARY,
    MODELS,
    ROUNDING,
    Altered,
    Case,
    Within,
    axis,
    by_point,
    cases,
    chip,
    contexts,
    drafters,
    fitting,
    model,
    searched,
    setups,
)

from specdec_cli.explore.explain import explain
from specdec_cli.explore.question import Options
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.schema import (
    CompressedAttention,
    Engine,
    GatedDelta,
    Hardware,
    KernelSet,
    Mamba2,
    Mla,
    MoeFfn,
    Record,
)

BETTER = 1.25
"""Factor between the two values of a figure."""

Change = Callable[[Any], Any]


def scaled(record: Any, **factors: float) -> Any:
    """The record with these figures multiplied; those that it does not state stay unstated."""
    held = {name: getattr(record, name) for name in factors}
    return msgspec.structs.replace(record, **{n: value * factors[n] for n, value in held.items() if value is not None})


def each_kernel_set(change: Callable[[KernelSet], KernelSet]) -> Change:
    def changed(hardware: Hardware) -> Hardware:
        kernels = {name: change(kernel_set) for name, kernel_set in hardware.kernels.items()}
        return msgspec.structs.replace(hardware, kernels=kernels)

    return changed


def in_table(table: str, figure: str, factor: float) -> Change:
    """A figure of every entry of a table of kernels: `gemm`, by dtype; `all_reduce`, by GPUs."""

    def changed(kernels: KernelSet) -> KernelSet:
        entries: Mapping[Any, Record] = getattr(kernels, table)
        return msgspec.structs.replace(
            kernels, **{table: {key: scaled(entry, **{figure: factor}) for key, entry in entries.items()}}
        )

    return each_kernel_set(changed)


def in_record(part: str, figure: str, factor: float) -> Change:
    """A figure of a part of the kernels that a chip may lack."""

    def changed(kernels: KernelSet) -> KernelSet:
        held = getattr(kernels, part)
        return kernels if held is None else msgspec.structs.replace(kernels, **{part: scaled(held, **{figure: factor})})

    return each_kernel_set(changed)


def of_tiles(figure: str, factor: float) -> Change:
    def changed(kernels: KernelSet) -> KernelSet:
        gemm = {
            dtype: entry
            if entry.tile is None
            else msgspec.structs.replace(entry, tile=scaled(entry.tile, **{figure: factor}))
            for dtype, entry in kernels.gemm.items()
        }
        return msgspec.structs.replace(kernels, gemm=gemm)

    return each_kernel_set(changed)


def of_peak(hardware: Hardware) -> Hardware:
    peaks = {dtype: peak * BETTER for dtype, peak in hardware.peak_tflops.items()}
    return msgspec.structs.replace(hardware, peak_tflops=peaks)


def of_link(hardware: Hardware) -> Hardware:
    return msgspec.structs.replace(hardware, link=scaled(hardware.link, gb_per_s=BETTER, peer_gb_per_s=BETTER))


def of_window(kernels: KernelSet) -> KernelSet:
    """The factor of a sliding window's kernel may be anything from 1 on."""
    attention = {key: msgspec.structs.replace(one, window_factor=1.0) for key, one in kernels.attention.items()}
    return msgspec.structs.replace(kernels, attention=attention)


MORE, LESS = BETTER, 1.0 / BETTER
CHIP_CHANGES: dict[str, Change] = {
    "memory bandwidth": lambda hardware: scaled(hardware, memory_bandwidth_gb_per_s=MORE),
    "peaks": of_peak,
    "link": of_link,
    "link between ranks": of_link,
    "gemm eta_c": in_table("gemm", "eta_c", MORE),
    "gemm eta_m": in_table("gemm", "eta_m", MORE),
    "gemm eta_q": in_table("gemm", "eta_q", MORE),
    "gemm overlap": in_table("gemm", "overlap_exponent", MORE),
    "gemm tau": in_table("gemm", "tau_us", LESS),
    "gemm tau beside experts": in_table("gemm", "tau_us", LESS),
    "gemm tau_k": in_table("gemm", "tau_k_us", LESS),
    "tile eta_c": of_tiles("eta_c", MORE),
    "tile eta_m": of_tiles("eta_m", MORE),
    "attention eta_m": in_table("attention", "eta_m", MORE),
    "attention eta_c": in_table("attention", "eta_c", MORE),
    "attention floor": in_table("attention", "floor_us", LESS),
    "attention window": each_kernel_set(of_window),
    "mla eta_m": in_table("mla", "eta_m", MORE),
    "mla eta_c": in_table("mla", "eta_c", MORE),
    "mla overlap": in_table("mla", "overlap_exponent", MORE),
    "mla tau": in_table("mla", "tau_us", LESS),
    "mla tau_l": in_table("mla", "tau_l_us", LESS),
    "moe eta_c": in_table("moe", "eta_c", MORE),
    "moe eta_m": in_table("moe", "eta_m", MORE),
    "moe eta_a": in_table("moe", "eta_a", MORE),
    "moe overlap": in_table("moe", "overlap_exponent", MORE),
    "moe tau": in_table("moe", "tau_us", LESS),
    "all-reduce latency": in_table("all_reduce", "latency_us", LESS),
    "all-reduce efficiency": in_table("all_reduce", "efficiency", MORE),
    "collective latency": in_table("collective_library", "latency_us", LESS),
    "collective efficiency": in_table("collective_library", "efficiency", MORE),
    "skew": each_kernel_set(lambda kernels: scaled(kernels, skew_us_per_peer=LESS)),
    "recurrent eta_m": in_record("linear_attention", "eta_m", MORE),
    "recurrent floor": in_record("linear_attention", "floor_us", LESS),
    "recurrent conv": in_record("linear_attention", "conv_us", LESS),
    "indexer eta_m": in_record("indexer", "eta_m", MORE),
    "indexer floor": in_record("indexer", "floor_us", LESS),
    "small kernels": each_kernel_set(lambda kernels: scaled(kernels, small_kernels_us_per_layer=LESS)),
    "eager kernels": each_kernel_set(lambda kernels: scaled(kernels, eager_us_per_layer=LESS)),
}


def of_mechanisms(engine: Engine) -> Engine:
    each = {name: value * LESS for name, value in engine.overheads.draft_pass_ms_by_mechanism.items()}
    return msgspec.structs.replace(
        engine, overheads=msgspec.structs.replace(engine.overheads, draft_pass_ms_by_mechanism=each)
    )


def overhead(name: str) -> Change:
    return lambda engine: msgspec.structs.replace(engine, overheads=scaled(engine.overheads, **{name: LESS}))


DECODE_OVERHEADS = (
    *("step_ms", "per_request_us", "speculation_ms", "draft_pass_ms", "draft_pass_target_fraction", "lookup_ms"),
    *("tree_speculation_ms", "tree_draft_pass_ms", "draft_logit_passes"),
)
ENGINE_CHANGES: dict[str, Change] = {
    **{name: overhead(name) for name in DECODE_OVERHEADS},
    "draft_pass_ms_by_mechanism": of_mechanisms,
    "small_kernels_us_per_layer": lambda engine: scaled(engine, small_kernels_us_per_layer=LESS),
}


# -------------------------------------------------------------------------------- where a figure is to be seen


def models_with(*kinds: type) -> tuple[str, ...]:
    parts = {name: (*model(name).attention.values(), *model(name).ffn.values()) for name in MODELS}
    return tuple(name for name in MODELS if any(isinstance(part, kinds) for part in parts[name]))


def models_stating(figure: str) -> tuple[str, ...]:
    """Models one of whose attentions states a window, or an indexer."""
    attentions = {name: model(name).attention.values() for name in MODELS}
    return tuple(name for name in MODELS if any(getattr(one, figure, None) is not None for one in attentions[name]))


TILED = tuple(name for name in CHIPS if any(g.tile for k in chip(name).kernels.values() for g in k.gemm.values()))
LENT = tuple(name for name in CHIPS if any(k.collective_library for k in chip(name).kernels.values()))
SHARING = tuple(n for n in MODELS if any(getattr(f, "shared_intermediate", 0) for f in model(n).ffn.values()))
QUANTISING = ("fp8", "nvfp4", "fp8_block", "int8")
WHERE: dict[str, Within] = {
    "mla": Within(models=models_with(Mla, CompressedAttention)),
    "moe": Within(models=models_with(MoeFfn)),
    "recurrent": Within(models=models_with(GatedDelta, Mamba2)),
    "indexer": Within(models=models_stating("indexer")),
    "attention window": Within(models=models_stating("window")),
    "tile": Within(chips=TILED, weights=("q4_k", "q8_0")),
    "gemm eta_q": Within(weights=QUANTISING),
    "gemm tau beside experts": Within(models=SHARING, engines=("vllm", "sglang", "tensorrt-llm")),
    "link": Within(several_gpus=True, one_rank=True),
    "link between ranks": Within(models=models_with(MoeFfn)),
    "all-reduce": Within(several_gpus=True, one_rank=True),
    "collective": Within(chips=LENT, several_gpus=True),
    "skew": Within(several_gpus=True),
    "draft_pass_ms_by_mechanism": Within(engines=("vllm-2025-07",), mechanisms=("eagle3",), kinds=("rate",)),
    "draft_pass_target": Within(engines=("llama-cpp",), kinds=("rate",)),
    "draft_logit": Within(engines=("magicdec-2024",), mechanisms=("eagle3", "draft_model", "self"), kinds=("rate",)),
    "lookup_ms": Within(mechanisms=("ngram", "suffix"), kinds=("rate",)),
    "tree": Within(engines=("sglang-2025",), mechanisms=("eagle", "eagle3"), models=("llama-3.1-8b", "llama-3.3-70b")),
    "speculation": DRAFTING,
    "draft_pass_ms": DRAFTING,
    "small_kernels_us_per_layer": Within(engines=("tensorrt-llm-2025",)),
}


def where(name: str) -> Within:
    """The questions in which a figure is to be seen; the longest beginning of its name counts."""
    return next((WHERE[key] for key in sorted(WHERE, key=len, reverse=True) if name.startswith(key)), Within())


def never_slower(name: str, better: Library, plain: Library = LIBRARY) -> None:
    """No step of any question takes longer with the better figure, nor any of its operations; and one takes less."""
    faster = 0

    def ask(case: Case) -> None:
        nonlocal faster
        before, after = case.answer(plain).points, case.answer(better).points
        for column in ("target_s", "verify_s", "draft_s"):
            one, other = getattr(before, column), getattr(after, column)
            assert (other <= one * (1 + ROUNDING)).all(), column
            faster += bool((other < one * (1 - ROUNDING)).any())
        one, other = (
            explain(case.question(library), int(before.batch[-1]), int(before.draft_length[-1]))
            for library in (plain, better)
        )
        for line, improved in zip((*one.verify, *one.draft), (*other.verify, *other.draft), strict=True):
            assert improved.seconds <= line.seconds * (1 + ROUNDING), line.name

    for examples in (6, 60):  # which questions come first differs between versions of hypothesis
        searched(examples)(given(cases(where(name), serving=False))(ask))()
        if faster:
            break
    assert faster, f"{name} is seen in no example"


@pytest.mark.parametrize("name", CHIP_CHANGES)
def test_a_better_chip_is_never_slower(name: str) -> None:
    eager = (lambda engine: msgspec.structs.replace(engine, cuda_graphs=False)) if name.startswith("eager") else None
    never_slower(name, Altered(hardware=CHIP_CHANGES[name], engine=eager), Altered(engine=eager))


@pytest.mark.parametrize("name", ENGINE_CHANGES)
def test_a_lighter_engine_is_never_slower(name: str) -> None:
    never_slower(name, Altered(engine=ENGINE_CHANGES[name]))


@pytest.mark.parametrize("name", ["memory bandwidth", "peaks", "link"])
def test_under_load_a_better_chip_is_never_slower_for_a_user(name: str) -> None:
    """TPOT alone: with answers of a few tokens the decode batch, settled in two passes, may fall by more than TPOT."""

    @searched(10)
    @given(cases(serving=True))
    def ask(case: Case) -> None:
        before, after = case.answer().points, case.answer(Altered(hardware=CHIP_CHANGES[name])).points
        assert before.serving_tpot_s is not None
        assert after.serving_tpot_s is not None
        assert (after.serving_tpot_s <= before.serving_tpot_s * (1 + ROUNDING)).all()

    ask()


@searched(40)
@given(cases(serving=True), st.integers(1, 10))
def test_under_load_more_requests_and_longer_prompts_are_never_quicker_for_a_user(case: Case, times: int) -> None:
    options = case.options
    if options.acceptance is not None:
        case = case.but(acceptance=None, acceptance_rate=0.7)  # a measured one may change with the context
    points = case.answer().points
    assert points.serving_tpot_s is not None
    assert points.decode_batch is not None
    for length in np.unique(points.draft_length):
        column = points.draft_length == length
        for figures in (points.serving_tpot_s[column], points.decode_batch[column]):
            assert (figures[1:] >= figures[:-1] * (1 - ROUNDING)).all()
    held = model(options.model or "").max_context - (options.output_tokens or 0)
    longer = case.but(input_tokens=min((options.input_tokens or 1) * times, held), assume=True)
    before, after = by_point(case.but(assume=True).answer(), frontier=False), by_point(longer.answer(), frontier=False)
    for key, point in after.items():
        assert point["serving_tpot_ms"] >= before[key]["serving_tpot_ms"] * (1 - ROUNDING), key


# ------------------------------------------------------------------------------------------ context and memory


@searched(35)
@given(cases(serving=False), st.data())
def test_a_longer_context_is_never_quicker_and_needs_no_less_memory(case: Case, data: st.DataObject) -> None:
    """At one acceptance: a measured one may change with the context."""
    options = case.options
    assert options.model is not None
    longer = data.draw(contexts(options.model))
    assumed = {"acceptance": None, "acceptance_rate": 0.7} if options.acceptance is not None else {}
    short, long = (
        case.but(context=length, assume=True, **assumed) for length in sorted((options.context or 1, longer))
    )
    few, many = short.question().scenarios[0].memory, long.question().scenarios[0].memory
    for part in ("kv_per_request", "draft_kv_per_request", "state_per_request", "target_weights", "draft_weights"):
        assert getattr(few, part) <= getattr(many, part), part
    before, after = by_point(short.answer(), frontier=False), by_point(long.answer(), frontier=False)
    assert after.keys() <= before.keys()
    for key, point in after.items():
        for time in ("target_ms", "verify_ms", "draft_ms"):
            assert before[key][time] <= point[time] * (1 + ROUNDING), (key, time)


@searched(35)
@given(setups())
def test_more_gpus_in_tensor_parallel_never_need_more_memory_each(options: Options) -> None:
    sizes = fitting(options.hardware or "", options.model or "", options.engine or "", options.weight_dtype)
    drafter = drafters(options.model or "")[0].name
    options = replace(options, tp=axis(sizes), gpus=None, ep=None, drafter=drafter, acceptance_rate=0.5, assume=True)
    bills = [scenario.memory for scenario in Case(options).question().scenarios]
    for fewer, more in pairwise(bills):
        for part in ("target_weights", "draft_weights", "kv_per_request", "draft_kv_per_request", "state_per_request"):
            assert getattr(more, part) <= getattr(fewer, part) * (1 + ROUNDING), part
        assert more.usable == fewer.usable


def nothing_to_draft(engine: Engine) -> Engine:
    return msgspec.structs.replace(engine, overheads=msgspec.structs.replace(engine.overheads, lookup_ms=0.0))


@searched(35)
@given(cases(Within(kinds=("rate", "lengths"), trees=False), serving=False))
def test_drafts_that_cost_nothing_are_never_slower(case: Case) -> None:
    """An n-gram look-up in no time, at the acceptance of the drafter that it stands in for."""
    free = Altered(engine=nothing_to_draft)
    asked = case.but(assume=True)
    drafted, copied = asked.answer().points, asked.but(drafter="ngram").answer(free).points
    assert (copied.draft_s == 0.0).all()
    place = {
        (b, d): at for at, (b, d) in enumerate(zip(copied.batch.tolist(), copied.draft_length.tolist(), strict=True))
    }
    for at, key in enumerate(zip(drafted.batch.tolist(), drafted.draft_length.tolist(), strict=True)):
        other = place[key]  # a look-up takes no memory, so what fits with a drafter fits without its weights
        assert copied.acceptance_length[other] == drafted.acceptance_length[at]
        assert copied.verify_s[other] <= drafted.verify_s[at] * (1 + ROUNDING)
        assert copied.speedup[other] >= drafted.speedup[at] * (1 - ROUNDING)
