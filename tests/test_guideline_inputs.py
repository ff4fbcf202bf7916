"""From a computed point to the numbers of the guidelines: on toys, by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from builders import (
    Data,
    put,
    toy_acceptance,
    toy_drafter,
    toy_engine,
    toy_hardware,
    toy_head,
    toy_hybrid_model,
    toy_model,
    toy_moe_model,
)
from toys import shipped, toy_library, toy_options

from specdec_cli.explore.grid import evaluate
from specdec_cli.explore.guideline_inputs import _choice, work_out_guidelines
from specdec_cli.explore.guideline_records import Guideline
from specdec_cli.explore.scenario import Options, resolve

MOE_MTP = {"mtp": {"layers": 1, "attention": "full", "ffn": "moe"}, "parameters": {}}


def guidelines(
    root: Path, *more: Data, batch: int = 1, draft_length: int = 3, tie: float = 0.03, **options: Any
) -> dict[str, Guideline]:
    library = toy_library(root, *more)
    said = toy_options(**{"context": 1000, "batches": str(batch), **options})
    (scenario,) = resolve(library, said).scenarios
    found = work_out_guidelines(library, said, scenario, batch, draft_length, tie)
    assert [g.id for g in found] == ["G1", "G2", "G3", "G4", "G5"]
    return {g.id: g for g in found}


def by_group(guideline: Guideline, column: str) -> dict[str, Any]:
    names, values = guideline.numbers["groups"], guideline.numbers[column]
    assert isinstance(names, list)
    assert isinstance(values, list)
    return dict(zip(names, values, strict=True))


# ------------------------------------------------------------------------------------------------------- shares


TARGET_US = 3100 + 310 + 3.92 + 10 * math.hypot(10, 16) + 2 + 1.4  # test_step


def test_shares_of_the_target_pass_by_hand(tmp_path: Path) -> None:
    # qkv: ten layers of 3e6 bytes, 3e6 FLOP and 5000 bytes of activations: 330.5 us; gate and up 16e6: 1761.8 us
    found = guidelines(tmp_path)
    shares = by_group(found["G1"], "time_shares")
    assert shares["qkv"] == pytest.approx(330.5 / TARGET_US)
    assert shares["gate, up"] == pytest.approx((1600 + 160 + 1.8) / TARGET_US)
    assert shares["lm_head"] == pytest.approx((200 + 20 + 0.22) / TARGET_US)
    linear = found["G1"].numbers["linear_share"]
    assert linear == pytest.approx(sum(shares.values()))
    assert linear == pytest.approx((3100 + 310 + 3.92) / TARGET_US)
    assert found["G2"].numbers["attention_share"] == pytest.approx(10 * math.hypot(10, 16) / TARGET_US)


def test_the_engines_time_is_part_of_the_whole(tmp_path: Path) -> None:
    # a host step as long as the kernels halves every share
    engine = put(toy_engine(), "overheads.step_ms", TARGET_US / 1000)
    plain, hosted = guidelines(tmp_path / "a"), guidelines(tmp_path / "b", engine)
    assert hosted["G1"].numbers["linear_share"] == pytest.approx(plain["G1"].numbers["linear_share"] / 2)
    assert hosted["G2"].numbers["attention_share"] == pytest.approx(plain["G2"].numbers["attention_share"] / 2)


# ----------------------------------------------------------------------------------------------------- G1's rows


def test_rows_of_linears_are_the_tokens_of_a_rank(tmp_path: Path) -> None:
    one = guidelines(tmp_path, batch=10)
    assert set(by_group(one["G1"], "gemm_m_by_group").values()) == {10.0}
    ranks = guidelines(tmp_path, batch=10, tp="1", gpus=4)
    assert set(by_group(ranks["G1"], "gemm_m_by_group").values()) == {3.0}  # the fullest of four
    assert one["G1"].numbers["gemm_m_verify"] == 40.0  # D = 3


def test_the_ridge_is_the_groups_own(tmp_path: Path) -> None:
    # 2 M N K / P = (N K w + M (K + N) a) / beta: M (2 x 0.1 - (1/N + 1/K) x 2) = 2 for one weight, in units of 1e-11 s:
    # gate and up, N = 8000, K = 1000: 2 / (0.2 - 0.00225) = 10.1138
    ridges = by_group(guidelines(tmp_path)["G1"], "m_ridge_by_group")
    assert ridges["gate, up"] == pytest.approx(2 / (0.2 - 2 * (1 / 8000 + 1 / 1000)), rel=1e-3)


def test_rows_of_an_expert_are_its_share_of_all_requests(tmp_path: Path) -> None:
    moe = toy_moe_model(**MOE_MTP)
    mtp = toy_drafter("toy-moe-mtp", "mtp", "toy-moe")
    asked: dict[str, Any] = {"model": "toy-moe", "drafter": "toy-moe-mtp", "acceptance_rate": 0.7}
    found = guidelines(tmp_path, moe, mtp, batch=32, **asked)
    # 32 tokens x 2 of 16
    assert by_group(found["G1"], "gemm_m_by_group")["experts"] == 4.0
    spread = guidelines(tmp_path / "b", moe, mtp, batch=32, tp="1", gpus=4, ep=4, **asked)
    assert by_group(spread["G1"], "gemm_m_by_group")["experts"] == 4.0  # the whole group's tokens
    assert by_group(spread["G1"], "gemm_m_by_group")["qkv"] == 8.0
    assert found["G1"].numbers["moe_pays_from_batch"] == 4.0  # E / (2 k)
    # an expert's gate and up are 2000 x 1000
    ridge = by_group(found["G1"], "m_ridge_by_group")["experts"]
    assert ridge == pytest.approx(2 / (0.2 - 2 * (1 / 2000 + 1 / 1000)), rel=1e-3)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp8"])
def test_every_dtype_with_kernels_can_be_asked_about(tmp_path: Path, dtype: str) -> None:
    found = guidelines(tmp_path, weight_dtype=dtype)
    assert found["G1"].numbers["groups"]


# ------------------------------------------------------------------------------------------------ G2's attention


def attention_bound(root: Path, *more: Data, **options: Any) -> dict[str, Guideline]:
    """64 requests at 8000 tokens: 80 us of bytes and 128 us of arithmetic a layer and request dominate."""
    return guidelines(root, *more, batch=64, **{"context": 8000, **options})


def test_group_sizes_on_one_gpu(tmp_path: Path) -> None:
    # 128 / 4 - 1 = 31; on two GPUs as well (one KV head each), on four G is 2: 63
    for tp, size, start in (("1", 4, 31), ("2", 4, 31), ("4", 2, 63)):
        found = attention_bound(tmp_path, tp=tp)["G2"]
        assert found.applies, found.why
        assert found.numbers["group_size"] == size
        assert found.numbers["d_attention"] == start


def test_the_start_follows_the_chips_tile(tmp_path: Path) -> None:
    found = attention_bound(tmp_path, toy_hardware(attention_tile=64))["G2"]
    assert (found.numbers["tile"], found.numbers["d_attention"]) == (64, 15)


def test_free_rows_by_hand(tmp_path: Path) -> None:
    # 4 rows a token are padded to 16: free up to W = 4; 32 rows take hypot(80, 256) after hypot(80, 128)
    found = attention_bound(tmp_path)["G2"]
    assert found.numbers["free_rows"] == 16
    assert found.numbers["d_free"] == 3


def test_a_group_of_sixteen_is_free_for_one_token_alone(tmp_path: Path) -> None:
    # sixteen query heads on one KV head fill the 16 rows of the smallest tile: the second token computes 32
    wide = toy_model(attention={"full": {"type": "gqa", "heads": 16, "kv_heads": 1, "head_dim": 125}}, parameters={})
    found = attention_bound(tmp_path, wide)["G2"]
    assert (found.numbers["free_rows"], found.numbers["d_free"]) == (16, 0)


def test_where_arithmetic_never_shows_no_row_is_too_many(tmp_path: Path) -> None:
    free = toy_hardware(peak_tflops={"bf16": 1e5, "fp8": 1e5})
    found = attention_bound(tmp_path, free)["G2"]
    assert (found.numbers["free_rows"], found.numbers["d_free"]) == (None, None)


def test_a_chip_with_arithmetic_to_spare_frees_whole_tiles(tmp_path: Path) -> None:
    # ten times the arithmetic: rows R take 8 R / 10 us beside 80 us of bytes a request; within 5 % of hypot(80, 12.8):
    # 16 rows 81.0, 32 rows 84.0 (+3.6 %), 64 rows 95.2
    fast = toy_hardware(peak_tflops={"bf16": 10.0, "fp8": 20.0})
    found = attention_bound(tmp_path, fast, context=8000)["G2"]
    assert found.numbers["free_rows"] == 32
    assert found.numbers["d_free"] == 7


def test_kv_bytes_reach_the_intensity(tmp_path: Path) -> None:
    # one request token does 2 G FLOP for each of b bytes: 2 x 4 / 2
    found = attention_bound(tmp_path)["G2"]
    assert found.numbers["kv_bytes"] == 2.0
    assert found.numbers["flop_per_byte_off"] == pytest.approx(4.0)
    assert found.numbers["flop_per_byte"] == pytest.approx(16.0)


def test_absorbed_mla_counts_its_heads(tmp_path: Path) -> None:
    mla = {
        "type": "mla",
        "heads": 128,
        "q_lora_rank": 64,
        "kv_lora_rank": 512,
        "nope_head_dim": 128,
        "rope_head_dim": 64,
        "v_head_dim": 128,
    }
    model = toy_model(
        attention={"mla": mla}, blocks=[{"repeat": 10, "attention": "mla", "ffn": "dense"}], parameters={}
    )
    found = attention_bound(tmp_path, model)["G2"]
    assert (found.numbers["group_size"], found.numbers["d_attention"]) == (128, 0)
    two = attention_bound(tmp_path, model, tp="2")["G2"]
    assert (two.numbers["group_size"], two.numbers["d_attention"]) == (64, 1)


# ----------------------------------------------------------------------------------------- G4's layers and passes


@pytest.mark.parametrize(
    ("drafter", "layers", "rho"),
    [
        (toy_drafter(), 1, 0.1),
        (toy_drafter("toy-dflash", "dflash", head=toy_head(layers=5)), 5, 0.5),
        (toy_drafter("toy-self", "self"), 10, 1.0),
        (toy_drafter("toy-ngram", "ngram"), 0, 0.0),
        (toy_drafter("toy-draft", "draft_model"), 2, 0.2),
    ],
    ids=lambda value: value["mechanism"] if isinstance(value, dict) else str(value),
)
def test_draft_layers_over_the_targets(tmp_path: Path, drafter: Data, layers: int, rho: float) -> None:
    small = toy_model(
        "toy-small", blocks=[{"repeat": 2, "attention": "full", "ffn": "dense"}], parameters={}, aliases=[]
    )
    found = guidelines(tmp_path, drafter, small, drafter=drafter["name"], acceptance_rate=0.7)["G4"]
    assert (found.numbers["draft_layers"], found.numbers["target_layers"]) == (layers, 10)
    assert found.numbers["rho"] == pytest.approx(rho)


def test_launch_share_is_fixed_time_over_the_step(tmp_path: Path) -> None:
    # off: 1 ms of host beside TARGET_US
    engine = put(toy_engine(), "overheads.step_ms", 1.0)
    found = guidelines(tmp_path, engine, draft_length=0)["G4"]
    assert found.numbers["launch_share"] == pytest.approx(1000 / (TARGET_US + 1000))


def test_computed_figures_are_the_sweeps(tmp_path: Path) -> None:
    found = guidelines(tmp_path, batch=4, draft_length=2)["G4"]
    (scenario,) = resolve(toy_library(tmp_path), toy_options(context=1000, batches="4")).scenarios
    grid = evaluate(scenario)
    best = int(grid.speedup[0].argmax())
    assert found.numbers["computed_draft_length"] == best
    assert found.numbers["evaluated_to"] == 4


def test_lengths_with_gaps_are_filled_for_the_curves(tmp_path: Path) -> None:
    # asked for 0 and 4 alone: the guidelines still see every length between
    found = guidelines(tmp_path, draft_length=4, draft_lengths="0,4")["G4"]
    assert found.numbers["evaluated_to"] == 4


def test_memory_bounds_the_lengths_that_are_weighed(tmp_path: Path) -> None:
    # saved states: each draft position holds 6 x 167,200 bytes more for a request
    model = toy_hybrid_model()
    # weights: six layers of 1616 x 1000 + 400 x 1000 + 12e6 = 14.016e6, four of 14.5e6, embedding and head 20e6:
    # 162.096e6 x 2 bytes. 1000 requests: KV 4e6 and (1 + D) x 1.0032e6 each: 0.324 + 4 + 1.0032 (1 + D) GB: D = 4
    # takes 9.34, D = 5 10.34 of 10 GB
    asked: dict[str, Any] = {"drafter": "toy-ngram", "acceptance_rate": 0.7}
    found = guidelines(tmp_path, model, batch=1000, draft_length=2, **asked)["G4"]
    assert found.numbers["evaluated_to"] == 4
    library = toy_library(tmp_path, model)
    limits = {}
    for batch in (1, 1000):
        said = toy_options(**{**asked, "context": 1000, "batches": str(batch)})
        (scenario,) = resolve(library, said).scenarios
        choice = _choice(scenario, batch, 2)
        limits[batch] = (choice.memory_draft_limit, len(choice.acceptance_length) - 1)
    assert limits == {1: (None, 8), 1000: (4, 4)}  # at one request every length fits


# ------------------------------------------------------------------------------------------------- G5's mechanisms


NGRAM_CHAT = toy_acceptance(
    "toy-model-ngram-chat",
    drafter="toy-ngram",
    points=[{"draft_length": 1, "acceptance_length": 1.2}, {"draft_length": 2, "acceptance_length": 1.3}],
)


def test_rivals_are_those_with_measured_acceptance_each_at_its_best(tmp_path: Path) -> None:
    dflash = toy_drafter("toy-dflash", "dflash")  # nobody measured it
    found = guidelines(tmp_path, NGRAM_CHAT, dflash, draft_length=2)["G5"]
    assert set(found.numbers["drafters"]) == {"toy-model-eagle3", "toy-ngram"}
    at = dict(zip(found.numbers["drafters"], found.numbers["draft_lengths"], strict=True))
    assert at["toy-model-eagle3"] == 2  # the length chosen
    assert at["toy-ngram"] == 2
    (scenario,) = resolve(
        toy_library(tmp_path, NGRAM_CHAT, dflash), toy_options(context=1000, batches="1", drafter="toy-ngram")
    ).scenarios
    speedups = dict(zip(found.numbers["drafters"], found.numbers["speedups"], strict=True))
    assert speedups["toy-ngram"] == pytest.approx(float(evaluate(scenario).speedup[0].max()))


def test_a_rival_is_not_taken_where_its_acceptance_is_extrapolated(tmp_path: Path) -> None:
    # to D = 4 for the EAGLE-3 head; the n-gram curve ends at 2 and is not stretched
    found = guidelines(tmp_path, NGRAM_CHAT, draft_length=4, draft_lengths="0..4")["G5"]
    at = dict(zip(found.numbers["drafters"], found.numbers["draft_lengths"], strict=True))
    assert at == {"toy-model-eagle3": 4, "toy-ngram": 2}


def test_memory_of_a_mechanism_is_weights_and_cache_of_the_batch(tmp_path: Path) -> None:
    # the EAGLE-3 head 0.042 GB and 1e6 bytes a request at 1000 tokens; a look-up nothing
    found = guidelines(tmp_path, NGRAM_CHAT, batch=10, draft_length=2)["G5"]
    held = dict(zip(found.numbers["drafters"], found.numbers["memory_gb"], strict=True))
    assert held["toy-model-eagle3"] == pytest.approx(0.042 + 0.010)
    assert held["toy-ngram"] == 0.0
    # on four attention ranks the fullest holds three of the ten
    spread = guidelines(tmp_path, NGRAM_CHAT, batch=10, draft_length=2, tp="1", gpus=4)["G5"]
    held = dict(zip(spread.numbers["drafters"], spread.numbers["memory_gb"], strict=True))
    assert held["toy-model-eagle3"] == pytest.approx(0.042 + 0.003)


def test_an_assumed_acceptance_is_the_asked_drafters_alone(tmp_path: Path) -> None:
    found = guidelines(tmp_path, NGRAM_CHAT, acceptance_rate=0.9, draft_length=2)["G5"]
    lengths = dict(zip(found.numbers["drafters"], found.numbers["acceptance_lengths"], strict=True))
    assert lengths["toy-model-eagle3"] == pytest.approx(1 + 0.9 + 0.81)
    assert lengths["toy-ngram"] == pytest.approx(1.3)  # as measured


def test_a_rival_whose_acceptance_is_ambiguous_does_not_stop_the_answer(tmp_path: Path) -> None:
    """Two measurements of another drafter, none marked default: the question was not about it."""
    code = put(NGRAM_CHAT, "name", "toy-model-ngram-code")
    found = guidelines(tmp_path, NGRAM_CHAT, code, drafter="toy-model-eagle3", draft_length=2)
    assert "toy-model-eagle3" in found["G5"].numbers["drafters"]


def test_off_is_held_against_the_mechanisms_too(tmp_path: Path) -> None:
    found = guidelines(tmp_path, NGRAM_CHAT, draft_length=0)["G5"]
    assert found.numbers["chosen"] == "none"
    assert set(found.numbers["drafters"]) == {"toy-model-eagle3", "toy-ngram"}


# -------------------------------------------------------------------------------------------- shipped scenarios


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"model": "llama-3.1-8b"}, {31}),  # 32 query heads, 8 KV heads: G = 4
        ({"model": "llama-3.3-70b", "tp": "8"}, {15}),  # 64 and 8: G = 8, one KV head on each GPU
        ({"model": "qwen3-30b-a3b", "hardware": "h200-sxm"}, {15}),  # 32 and 4
        ({"model": "qwen3-30b-a3b", "hardware": "h200-sxm", "tp": "8"}, {31}),  # past the KV heads: 4 query heads
        ({"model": "gemma-3-27b", "tp": "2"}, {63}),  # 32 and 16, windowed layers as well
        ({"model": "deepseek-v3", "hardware": "h200-sxm", "gpus": 8}, {7}),  # absorbed MLA, 16 of 128 heads
        ({"model": "deepseek-v3", "hardware": "h200-sxm", "gpus": 8, "tp": "1", "ep": 8}, {0}),  # all 128: no room
    ],
    ids=str,
)
def test_where_attention_starts_on_shipped_models(options: dict[str, Any], start: set[int]) -> None:
    said = Options(**options, drafter="none", batches="8", context=4096)
    (scenario,) = resolve(shipped(), said).scenarios
    found = work_out_guidelines(shipped(), said, scenario, 8, 0, 0.03)[1]
    starts = found.numbers["d_attention_by_group"]
    assert isinstance(starts, list)
    assert set(starts) == start


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": "qwen3-30b-a3b", "hardware": "h200-sxm"},
        {"model": "deepseek-v3", "hardware": "h200-sxm", "gpus": 8},
        {"model": "qwen3-next-80b-a3b", "hardware": "b200-sxm", "tp": "2"},
        {"model": "gemma-3-27b", "drafter": "ngram", "acceptance_rate": 0.4, "tp": "2"},
        {"model": "qwen3-8b", "drafter": "qwen3-8b-dflash-b16"},
    ],
    ids=str,
)
@pytest.mark.parametrize("batch", [1, 32])
def test_shipped_points_have_sound_guidelines(options: dict[str, Any], batch: int) -> None:
    said = Options(**options, batches=str(batch), context=1024)
    (scenario,) = resolve(shipped(), said).scenarios
    for length in (0, 1, max(scenario.draft_lengths)):
        found = work_out_guidelines(shipped(), said, scenario, batch, length, 0.03)
        for guideline in found:
            json.dumps(guideline.numbers, allow_nan=False)
            assert guideline.verdict in ("follows", "departs", "not_applicable")
            assert guideline.why
        shares = found[0].numbers["linear_share"], found[1].numbers["attention_share"]
        assert all(isinstance(share, float) and 0 < share < 1 for share in shares)
        assert sum(share for share in shares if isinstance(share, float)) < 1
