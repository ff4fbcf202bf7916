"""Why a choice departs from a guideline, and how the inputs move the numbers and the sentence."""

from __future__ import annotations

from typing import Any

import pytest
from guideline_toys import BETA, DRAFT_MODEL, EAGLE3, GQA, LINEAR, P, assert_sound, growing, make_choice
from msgspec.structs import replace

from specdec_cli.explore.guideline_mechanisms import g4_low_latency, g5_mechanism
from specdec_cli.explore.guideline_records import Choice, Guideline, Thresholds, compare, distinct_experts, say
from specdec_cli.explore.guidelines import g1_linear_layers, g2_attention_start, g3_tile_alignment

# --------------------------------------------------------------------- reasons for departing, computed


@pytest.mark.parametrize(
    ("cause", "follows", "choice", "target"),
    [
        ("same", True, make_choice(3), 3),
        ("tie", True, make_choice(3), 4),
        ("beyond_evaluated", True, make_choice(8, draft_ms=lambda d: 0), 15),
        ("memory", True, make_choice(2, memory_draft_limit=2), 15),
        ("acceptance_flat", False, make_choice(3, al=(1.0, 1.7, 2.2, 2.5, 2.51, 2.52, 2.52)), 6),
        ("draft_cost", False, make_choice(1, draft_ms=lambda d: 4.0 * d), 4),
        ("verify_cost", False, make_choice(1, verify_ms=lambda d: 10 + 4.0 * d), 4),
        ("expert_reads", False, make_choice(1, verify_ms=lambda d: 10 + 4.0 * d, moe=(128, 8)), 4),
        ("longer_pays", False, make_choice(3), 1),
        ("other_is_faster", False, make_choice(1), 3),
        ("other_is_faster", False, make_choice(8), 3),
    ],
)
def test_each_cause_is_found_from_the_numbers(cause: str, follows: bool, choice: Choice, target: int) -> None:
    found = compare(choice, target, Thresholds())
    assert (found.numbers["cause"], found.follows) == (cause, follows)
    if follows or cause in ("longer_pays", "other_is_faster"):
        return
    numbers = {key: value for key, value in found.numbers.items() if isinstance(value, int | float)}
    assert numbers["step_growth"] == pytest.approx(numbers["verify_growth"] + numbers["draft_growth"])
    assert (1 + numbers["acceptance_gain"]) / (1 + numbers["step_growth"]) == pytest.approx(
        numbers["compared_speedup"] / numbers["speedup"]
    )


def test_a_tile_edge_is_named_only_where_one_is_crossed_and_attention_dominates() -> None:
    choice = make_choice(15, al=growing(20, 0.95), verify_ms=lambda d: 10.0 if d <= 15 else 20.0, draft_ms=lambda d: 0)
    crossing = compare(choice, 20, Thresholds(), attention=GQA)
    assert crossing.numbers["cause"] == "tile_edge"
    assert (crossing.numbers["tiles"], crossing.numbers["compared_tiles"]) == (1, 2)
    for other in (None, replace(GQA, time_share=0.2), replace(GQA, group_size=4)):
        assert compare(choice, 20, Thresholds(), attention=other).numbers["cause"] == "verify_cost"


def test_experts_already_all_read_are_no_reason() -> None:
    choice = make_choice(1, batch=256, verify_ms=lambda d: 10 + 4.0 * d, moe=(128, 8))
    assert compare(choice, 4, Thresholds()).numbers["cause"] == "verify_cost"


def test_memory_stops_what_the_curve_would_allow() -> None:
    choice = make_choice(2, memory_draft_limit=2)
    found = g2_attention_start([GQA], choice)
    assert found.verdict == "follows"
    assert "Memory holds drafts up to D = 2" in found.why


def test_distinct_experts() -> None:
    assert distinct_experts((128, 8), 1) == pytest.approx(8)
    assert distinct_experts((8, 2), 2) == pytest.approx(3.5)  # 8 (1 - 0.75^2)
    assert distinct_experts((8, 8), 3) == 8


@pytest.mark.parametrize(
    "changes",
    [
        {"draft_length": 9},
        {"draft_length": -1},
        {"batch": 0},
        {"target_s": 0.0},
        {"draft_s": [0.0]},
        {"memory_draft_limit": 2},
    ],
)
def test_a_choice_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        make_choice(**{"draft_length": 3, **changes})


@pytest.mark.parametrize(("items", "said"), [([1.5], "1.5"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")])
def test_lists_are_said_as_people_do(items: list[Any], said: str) -> None:
    assert say("{items}", {"items": items}) == said


def test_missing_numbers_cannot_be_said() -> None:
    with pytest.raises(ValueError, match="missing"):
        say("{x}", {"x": None})
    assert say("{x} {y:%} {z:+%} {w}", {"x": 12345.6, "y": 0.1234, "z": 0.5, "w": [1, 2.5, "c"]}) == (
        "12346 12.3 % +50 % 1, 2.5 and c"
    )


# ------------------------------------------------------------ inputs move the numbers and the sentence


def unlike(before: Guideline, after: Guideline) -> bool:
    assert_sound(before)
    assert_sound(after)
    return before.numbers != after.numbers and before.why != after.why


@pytest.mark.parametrize(
    "change",
    [
        {"time_share": 0.5},
        {"gemm_m": 2.0},
        {"n": 600, "k": 200},
        {"weight_bytes": 1.0},
        {"activation_bytes": 100.0},
        {"peak_flops_per_s": 2 * P},
        {"bandwidth_bytes_per_s": 2 * BETA},
    ],
    ids=str,
)
def test_g1_moves_with_its_inputs(change: dict[str, Any]) -> None:
    choice = make_choice(3)
    assert unlike(g1_linear_layers([LINEAR], choice), g1_linear_layers([replace(LINEAR, **change)], choice))


def test_g1_moves_with_the_mixture() -> None:
    routed = replace(LINEAR, experts=(128, 8))
    for moe in ((128, 4), (64, 8)):
        before, after = make_choice(3, moe=(128, 8)), make_choice(3, moe=moe)
        assert unlike(g1_linear_layers([routed], before), g1_linear_layers([routed], after))


@pytest.mark.parametrize("change", [{"time_share": 0.7}, {"group_size": 4}, {"tile": 64}, {"free_rows": 40.0}], ids=str)
def test_g2_and_g3_move_with_their_inputs(change: dict[str, Any]) -> None:
    for function, d in ((g2_attention_start, 3), (g3_tile_alignment, 33)):
        choice = make_choice(d, al=growing(40))
        assert unlike(function([GQA], choice), function([replace(GQA, **change)], choice))


def test_g2_kv_bytes_move_the_intensity() -> None:
    narrow = g2_attention_start([replace(GQA, kv_bytes=1.0)], make_choice(3))
    assert narrow.numbers["flop_per_byte_off"] == 16.0


@pytest.mark.parametrize(
    "change",
    [
        {"batch": 2},
        {"launch_share": 0.5},
        {"draft_layers": 5},
        {"target_layers": 80},
        {"al": (1.0, 1.6, 2.0, 2.2, 2.3)},
        {"draft_ms": lambda d: 1.5 * d},
        {"verify_ms": lambda d: 10 + 1.5 * d},
        {"moe": (128, 8)},
        {"sequential": False},
        {"target_s": 8e-3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_g4_moves_with_its_inputs(change: dict[str, Any]) -> None:
    assert unlike(g4_low_latency(make_choice(3)), g4_low_latency(make_choice(3, **change)))


@pytest.mark.parametrize(
    "change",
    [
        {"speedup": 1.7},
        {"acceptance_length": 2.9},
        {"draft_s": 2e-3},
        {"verify_s": 13e-3},
        {"best_draft_length": 5},
        {"memory_bytes": 5e9},
        {"mechanism": "mtp"},
    ],
    ids=str,
)
def test_g5_moves_with_its_inputs(change: dict[str, Any]) -> None:
    after = replace(EAGLE3, **change)
    assert unlike(g5_mechanism([EAGLE3, DRAFT_MODEL], "head"), g5_mechanism([after, DRAFT_MODEL], "head"))
