"""What one key of a profile asks of another."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import get_args

import pytest
from builders import (
    Data,
    drop,
    put,
    toy_acceptance,
    toy_drafter,
    toy_engine,
    toy_gemm,
    toy_hardware,
    toy_head,
    toy_measurement,
    toy_model,
    toy_moe_model,
    toy_source,
    write_yaml,
)

from specdec_cli.profiles.checks import source_key
from specdec_cli.profiles.load import check_file
from specdec_cli.profiles.schema import Mechanism


def errors_of(tmp_path: Path, data: Data) -> list[tuple[str | None, str, str]]:
    """(key, message, hint) of everything wrong with a file of this data."""
    errors = check_file(write_yaml(tmp_path / f"{data['name']}.yaml", data))
    return [(error.key, error.message, error.hint or "") for error in errors]


# (data, key, message, part of the hint): each has exactly this one thing wrong.
COMPRESSED: Data = {
    "type": "compressed",
    "heads": 8,
    "head_dim": 16,
    "q_lora_rank": 64,
    "o_lora_rank": 16,
    "o_groups": 4,
    "window": 128,
}
CASES: list[tuple[Data, str | None, str, str]] = [
    # sources
    (
        put(toy_engine(), "sources.*.checked", "2026-02-30"),
        "sources.*.checked",
        "expected a date, found `2026-02-30`",
        "YYYY",
    ),
    (
        put(toy_engine(), "sources.*.checked", "last week"),
        "sources.*.checked",
        "expected a date, found `last week`",
        "YYYY",
    ),
    (
        put(toy_engine(), "sources.*.checked", "20260131"),
        "sources.*.checked",
        "expected a date, found `20260131`",
        "YYYY",
    ),
    (put(toy_engine(), "sources.*.from", " "), "sources.*.from", "found an empty text", ""),
    (
        put(toy_engine(), "sources.overhead", toy_source()),
        "sources.overhead",
        "no key `overhead` in this file",
        "overheads",
    ),
    (
        put(toy_engine(), "sources.zzz", toy_source()),
        "sources.zzz",
        "no key `zzz` in this file",
        "a prefix of keys, or *",
    ),
    # hardware
    (
        put(toy_hardware(), "memory_bytes", 10),
        "memory_bytes",
        "expected about memory_gb = 10 GB in bytes, found 10",
        "1.000e+10",
    ),
    (put(toy_hardware(), "memory_bytes", 1.2e10), "memory_bytes", "found 1.2e+10", "1.000e+10"),
    (
        put(toy_hardware(), "link.peer_gb_per_s", 11.0),
        "link.peer_gb_per_s",
        "expected at most gb_per_s = 10, found 11",
        "",
    ),
    (
        put(toy_hardware(), "price_usd_per_hour", 2.0),
        "price_usd_per_hour",
        "expected `price_checked` beside it",
        "the day",
    ),
    (
        put(toy_hardware(), "price_checked", "2026-01-01"),
        "price_checked",
        "expected `price_usd_per_hour` beside it",
        "",
    ),
    (
        toy_hardware(price_usd_per_hour=2.0, price_checked="May"),
        "price_checked",
        "expected a date, found `May`",
        "YYYY",
    ),
    (
        put(toy_hardware(), "kernels.default.gemm.nvfp4", toy_gemm(compute="fp4")),
        "kernels.default.gemm.nvfp4.compute",
        "expected a dtype with a peak in peak_tflops (bf16, fp8), found fp4",
        "weight-only",
    ),
    (
        put(toy_hardware(), "kernels.default.moe.bf16.compute", "int8"),
        "kernels.default.moe.bf16.compute",
        "expected a dtype with a peak in peak_tflops (bf16, fp8), found int8",
        "",
    ),
    (
        put(toy_hardware(), "kernels.default.all_reduce.1", {"latency_us": 1.0, "efficiency": 1.0}),
        "kernels.default.all_reduce.1",
        "expected 2 or more GPUs, found 1",
        "",
    ),
    (
        put(toy_hardware(), "kernels", {"vllm": toy_hardware()["kernels"]["default"]}),
        "kernels",
        "missing key `default`",
        "",
    ),
    # model
    (put(toy_model(), "blocks", []) | {"attention": {}, "ffn": {}}, "blocks", "expected at least 1 entry", ""),
    (
        toy_model(mtp={"layers": 1, "attention": "ful", "ffn": "dense"}),
        "mtp.attention",
        "no entry `ful` in `attention`",
        "full",
    ),
    (
        put(toy_model(), "blocks[0].ffn", "dense2") | {"ffn": {}},
        "blocks[0].ffn",
        "no entry `dense2` in `ffn`",
        "`ffn` holds nothing",
    ),
    (
        put(toy_model(), "attention.local", {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 125}),
        "attention.local",
        "no block uses it",
        "name it in a block",
    ),
    (
        put(toy_model(), "attention.full.kv_heads", 3),
        "attention.full.kv_heads",
        "expected a divisor of heads = 8, found 3",
        "",
    ),
    (
        put(toy_model(), "attention.full.kv_heads", 16),
        "attention.full.kv_heads",
        "expected a divisor of heads = 8, found 16",
        "",
    ),
    (
        put(
            toy_model(),
            "attention.full",
            {
                "type": "gated_delta",
                "key_heads": 3,
                "value_heads": 8,
                "key_head_dim": 4,
                "value_head_dim": 4,
                "conv_width": 4,
            },
        ),
        "attention.full.key_heads",
        "expected a divisor of value_heads = 8, found 3",
        "",
    ),
    (
        put(
            toy_model(),
            "attention.full",
            {"type": "mamba2", "heads": 8, "head_dim": 4, "state_dim": 4, "groups": 3, "conv_width": 4},
        ),
        "attention.full.groups",
        "expected a divisor of heads = 8, found 3",
        "",
    ),
    (put(toy_model(), "attention.full", COMPRESSED | {"o_groups": 3}), "attention.full.o_groups", "heads = 8", ""),
    (
        put(toy_model(), "attention.full", COMPRESSED | {"indexer": {"heads": 8, "head_dim": 16, "top_k": 64}}),
        "attention.full.indexer",
        "there are no entries without a `ratio`",
        "add `ratio`",
    ),
    (
        put(toy_model(), "attention.full", COMPRESSED | {"overlap": True}),
        "attention.full.overlap",
        "there are no entries without a `ratio`",
        "add `ratio`",
    ),
    (put(toy_moe_model(), "ffn.moe.top_k", 17), "ffn.moe.top_k", "expected at most experts = 16, found 17", ""),
    # drafter
    (drop(toy_drafter(), "head"), None, "missing key `head`", "mechanism eagle3 needs head"),
    (drop(toy_drafter(mechanism="dflash"), "block"), None, "missing key `block`", "mechanism dflash needs head, block"),
    (drop(toy_drafter(mechanism="draft_model"), "model"), None, "missing key `model`", ""),
    (drop(toy_drafter(mechanism="self"), "kv_window_tokens"), None, "missing key `kv_window_tokens`", ""),
    (toy_drafter(mechanism="ngram", head=toy_head()), "head", "mechanism ngram does not read `head`", "remove it"),
    (toy_drafter(mechanism="eagle", model="toy-small"), "model", "mechanism eagle does not read `model`", "remove it"),
    (
        toy_drafter(targets=[]),
        "targets",
        "expected the models that this eagle3 drafts for, found none",
        "ngram, suffix",
    ),
    (put(toy_drafter(), "head.kv_heads", 3), "head.kv_heads", "expected a divisor of heads = 8, found 3", ""),
    (put(toy_drafter(), "head.kv_heads", 0), "head.kv_heads", "expected a divisor of heads = 8, found 0", ""),
    (put(toy_drafter(), "head.head_dim", 0), "head.head_dim", "expected the width of each of 8 heads, found 0", ""),
    (drop(toy_drafter(mechanism="medusa"), "head.parallel_heads"), "head", "missing key `parallel_heads`", ""),
    (
        put(toy_drafter(), "head.ffn", {"type": "moe", "experts": 2, "top_k": 3, "intermediate": 1}),
        "head.ffn.top_k",
        "expected at most experts = 2, found 3",
        "",
    ),
    # acceptance
    (
        put(toy_acceptance(), "points[0].acceptance_length", 2.01),
        "points[0].acceptance_length",
        "expected an acceptance length of at most 1 + D = 2, found 2.01",
        "bonus token",
    ),
    (drop(toy_acceptance(), "points[0].acceptance_length"), "points[0]", "missing key `acceptance_length`", "or both"),
    (
        put(toy_acceptance(), "points[2].verify_width", 4),
        "points[2].verify_width",
        "expected at least 1 + D = 5 nodes",
        "",
    ),
    (drop(toy_acceptance(), "points[1].per_position_kind"), "points[1]", "missing key `per_position_kind`", "derived"),
    (
        put(toy_acceptance(), "points[1].per_position", [0.7, 0.4, 0.1]),
        "points[1].per_position",
        "expected draft_length = 2 rates, found 3",
        "",
    ),
    (
        put(toy_acceptance(), "points[1].per_position", [0.59, 0.61]),
        "points[1].per_position[1]",
        "expected at most the rate before it, 0.59, found 0.61",
        "unconditional",
    ),
    (
        put(toy_acceptance(), "points[1].per_position", [0.7, 0.44]),
        "points[1].per_position",
        "1 + sum = 2.140, found 2.2",
        "unconditional",
    ),
    # engine
    (toy_engine(date="2026"), "date", "expected a month, found `2026`", "YYYY-MM"),
    (toy_engine(date="2026-13"), "date", "expected a month, found `2026-13`", "YYYY-MM"),
]


@pytest.mark.parametrize(
    ("data", "key", "message", "hint"), CASES, ids=[f"{case[1]}-{i}" for i, case in enumerate(CASES)]
)
def test_refused(tmp_path: Path, data: Data, key: str | None, message: str, hint: str) -> None:
    errors = errors_of(tmp_path, data)
    assert len(errors) == 1, errors
    assert errors[0][0] == key
    assert message in errors[0][1]
    assert hint in errors[0][2]


def test_attention_needs_the_bf16_peak(tmp_path: Path) -> None:
    errors = errors_of(tmp_path, drop(toy_hardware(), "peak_tflops.bf16"))
    assert errors[0][:2] == ("peak_tflops", "missing key `bf16`")
    assert {key for key, _, _ in errors[1:]} == {
        "kernels.default.gemm.bf16.compute",
        "kernels.default.moe.bf16.compute",
    }


def test_a_block_naming_no_layer_and_a_layer_in_no_block(tmp_path: Path) -> None:
    errors = errors_of(tmp_path, put(toy_model(), "blocks[0].attention", "ful"))
    assert errors[0] == ("blocks[0].attention", "no entry `ful` in `attention`", "did you mean full?")
    assert errors[1][:2] == ("attention.full", "no block uses it")


def test_a_point_given_twice(tmp_path: Path) -> None:
    twice = put(toy_acceptance(), "points[2]", {"draft_length": 1, "acceptance_length": 1.6})
    (error,) = errors_of(tmp_path, twice)
    assert error[0] == "points[2]"
    assert "draft length 1 is given twice at the same context and verify width (points[0] too)" in error[1]
    assert errors_of(tmp_path, put(twice, "points[2].context_tokens", 8192)) == []
    assert errors_of(tmp_path, put(twice, "points[2].verify_width", 16)) == []


# ------------------------------------------------------------------------------------------ what is allowed


@pytest.mark.parametrize("mechanism", get_args(Mechanism))
def test_each_mechanism_has_a_valid_form(tmp_path: Path, mechanism: str) -> None:
    assert errors_of(tmp_path, toy_drafter(mechanism=mechanism)) == []


def test_allowed_at_the_edge(tmp_path: Path) -> None:
    fine = [
        put(toy_acceptance(), "points[0].acceptance_length", 2.0),  # every draft token accepted
        put(toy_acceptance(), "points[1].per_position", [0.6, 0.604]),  # rounding of two decimals
        put(toy_acceptance(), "points[1].per_position", [0.7, 0.46]),  # 2.16 beside 2.2
        drop(toy_acceptance(), "points[1].acceptance_length"),
        put(toy_model(), "attention.full.kv_heads", 8),
        put(toy_moe_model(), "ffn.moe.top_k", 16),
        put(toy_hardware(), "memory_bytes", 10 * 2**30),  # a label in GiB
        toy_hardware(price_usd_per_hour=2.0, price_checked="2026-01-31"),
        toy_engine(date="2026-01-31"),
        put(
            toy_model(),
            "blocks",
            [{"repeat": 10, "attention": "full", "ffn": None}, {"repeat": 1, "attention": None, "ffn": "dense"}],
        ),
        put(toy_drafter(), "head", toy_head(heads=0, kv_heads=0, head_dim=0)),
    ]
    for data in fine:
        assert errors_of(tmp_path, data) == []


def test_latent_attention_has_no_kv_heads_to_divide(tmp_path: Path) -> None:
    latent = {"type": "mla", "heads": 8, "q_lora_rank": None, "kv_lora_rank": 512}
    widths = {"nope_head_dim": 128, "rope_head_dim": 64, "v_head_dim": 128}
    assert errors_of(tmp_path, put(toy_model(), "attention.full", {**latent, **widths})) == []


def test_derived_rates_may_carry_noise(tmp_path: Path) -> None:
    noisy = put(toy_acceptance(), "points[1].per_position", [0.5, 0.6])
    assert errors_of(tmp_path, noisy) != []
    assert errors_of(tmp_path, put(noisy, "points[1].per_position_kind", "derived")) == []


# --------------------------------------------------------------------------------------------------- sources


def test_every_number_needs_a_source(tmp_path: Path) -> None:
    groups = {"overheads": toy_source(), "memory": toy_source()}
    (error,) = errors_of(tmp_path, put(toy_engine(), "sources", groups))
    assert error == ("sources", "no source for the number `fitted_sweeps`", "add `fitted_sweeps` or a prefix of it")
    assert errors_of(tmp_path, put(toy_engine(), "sources", {**groups, "fitted_sweeps": toy_source()})) == []


def test_format_text_and_booleans_need_none(tmp_path: Path) -> None:
    # `format`, `version`, `cuda_graphs` have no source here.
    exact = {"overheads": toy_source(), "memory.usable_fraction": toy_source(), "memory.reserve_gb": toy_source()}
    assert errors_of(tmp_path, put(toy_engine(), "sources", {**exact, "fitted_sweeps": toy_source()})) == []


def test_a_source_of_one_point_or_of_all(tmp_path: Path) -> None:
    data = drop(toy_acceptance(), "temperature")
    assert errors_of(tmp_path, put(data, "sources", {"points": toy_source()})) == []
    each = {f"points[{index}]": toy_source() for index in range(3)}
    assert errors_of(tmp_path, put(data, "sources", each)) == []
    del each["points[1]"]
    uncovered = [message for _, message, _ in errors_of(tmp_path, put(data, "sources", each))]
    assert "no source for the number `points[1].per_position[1]`" in uncovered


def test_a_prefix_ends_at_a_step(tmp_path: Path) -> None:
    named = {"memory": toy_source(), "memory_bandwidth": toy_source()}
    errors = errors_of(tmp_path, put(toy_hardware(), "sources", named))
    assert ("sources.memory", "no key `memory` in this file", "did you mean memory_gb or memory_bytes?") in errors
    assert any("`memory_gb`" in message for _, message, _ in errors)


def test_source_key_takes_the_longest_prefix() -> None:
    sources = dict.fromkeys(("kernels", "kernels.default.gemm", "points[1]", "points"))
    assert source_key(sources, "kernels.default.gemm.bf16.eta_c") == "kernels.default.gemm"
    assert source_key(sources, "kernels.default.moe") == "kernels"
    assert source_key(sources, "points[1].draft_length") == "points[1]"
    assert source_key(sources, "points[12].draft_length") == "points"
    assert source_key(sources, "hidden") is None
    assert source_key({**sources, "*": None}, "hidden") == "*"


# --------------------------------------------------------------------------------------------- measurements


@pytest.mark.parametrize(
    ("key", "value", "at", "message"),
    [
        ("published", "last May", "published", "expected a year, month or day, found `last May`"),
        ("published", "2026-13", "published", "expected a year, month or day, found `2026-13`"),
        ("setups[0].tp", 2, "setups[0].tp", "expected a divisor of gpus = 1, found 2"),
        ("setups[0].input_tokens", 10, "setups[0].input_tokens", "expected `output_tokens` beside it"),
        ("setups[0].output_tokens", 10, "setups[0].output_tokens", "expected `input_tokens` beside it"),
        (
            "setups[0].assumptions",
            {"dtype": "x"},
            "setups[0].assumptions.dtype",
            "no field `dtype` in a setup or a point",
        ),
        ("setups[0].drafter", None, "setups[0].points[1].draft_length", "expected a drafter in the setup"),
        ("setups[0].points[1].speedup", 1.5, "setups[0].points[1].speedup", "expected `speedup_kind` beside it"),
        (
            "setups[0].points[1].speedup_kind",
            "step",
            "setups[0].points[1].speedup_kind",
            "expected `speedup` beside it",
        ),
        ("setups[0].points[1].acceptance_length", 3.5, "setups[0].points[1].acceptance_length", "at most 1 + D = 3"),
        ("setups[0].points[1].derived", ["stepms"], "setups[0].points[1].derived[0]", "no field `stepms` in a point"),
        ("setups[0].points[1].derived", ["verify_ms"], "setups[0].points[1].derived[0]", "`verify_ms` is not given"),
    ],
)
def test_measurements(tmp_path: Path, key: str, value: object, at: str, message: str) -> None:
    errors = errors_of(tmp_path, put(toy_measurement(), key, value))
    assert [found for found, _, _ in errors] == [at]
    assert message in errors[0][1]


def test_measurements_that_may_stand(tmp_path: Path) -> None:
    for key, value in (
        ("published", "2026"),
        ("published", "2026-05-31"),
        ("setups[0].assumptions", {"engine": "not stated", "acceptance_length": "of another run"}),
        ("setups[0].points[1].derived", ["step_ms"]),
        ("setups[0].points[1].acceptance_length", 3.0),
    ):
        assert errors_of(tmp_path, put(toy_measurement(), key, value)) == [], key


def test_setups_have_ids_of_their_own(tmp_path: Path) -> None:
    data = toy_measurement()
    data["setups"] = [data["setups"][0], copy.deepcopy(data["setups"][0])]
    ((key, message, _),) = errors_of(tmp_path, data)
    assert (key, message) == ("setups[1].id", "`one` is the id of setups[0] too")
