"""Each of the five guidelines by itself: when it applies, what it suggests, what it says."""

from __future__ import annotations

import pytest
from guideline_toys import DRAFT_MODEL, EAGLE3, GQA, LINEAR, MLA, assert_sound, growing, make_choice, option
from msgspec.structs import replace

from specdec_cli.explore.guideline_mechanisms import POST_VIEW, g4_low_latency, g5_mechanism
from specdec_cli.explore.guideline_records import Thresholds
from specdec_cli.explore.guidelines import _weighted_median, g1_linear_layers, g2_attention_start, g3_tile_alignment

# -------------------------------------------------------------------------------------------------- G1


def test_g1_counts_the_choice_against_the_ridge_of_the_group_that_decides() -> None:
    # Ridge 10 rows and a bit (activations): M = 1 -> D = 9.
    found = g1_linear_layers([LINEAR], make_choice(3))
    assert found.applies
    assert found.suggests == 9
    assert found.verdict == "departs"
    assert found.numbers["cause"] == "acceptance_flat"
    assert found.numbers["gemm_m_verify"] == 4
    assert "D = 9 itself lies past D = 8" in found.why


def test_g1_is_decided_by_time_and_not_by_one_layer() -> None:
    early = replace(LINEAR, name="small", gemm_m=5.0, time_share=0.1)  # turns at D = 1
    late = replace(LINEAR, name="large", time_share=0.5)
    choice = make_choice(3)
    assert g1_linear_layers([early, late], choice).suggests == 9
    found = g1_linear_layers([replace(early, time_share=0.51), late], choice)
    assert found.suggests == 1
    assert found.numbers["d_gemm_by_group"] == [1, 9]
    assert found.numbers["group"] == "small"


@pytest.mark.parametrize(
    ("weights", "values", "index"),
    [
        ([0.5, 0.2, 0.3], [None, 3, 7], 2),  # 3 at 0.2, 7 at 0.5: half; the unbounded come last
        ([0.6, 0.2, 0.2], [None, 3, 7], 0),
        ([0.5, 0.5], [0, None], 0),  # a bound of 0 is one
        ([0.1, 0.9], [5, 2], 1),
        ([1.0], [4], 0),
    ],
)
def test_the_middle_is_where_half_of_the_time_is_reached(
    weights: list[float], values: list[int | None], index: int
) -> None:
    assert _weighted_median(weights, values) == index


def test_g1_sets_no_bound_where_no_ridge_exists() -> None:
    endless = replace(LINEAR, name="w13", n=8192, k=512, weight_bytes=0.5625, peak_flops_per_s=9e15)
    endless = replace(endless, bandwidth_bytes_per_s=8e12)
    found = g1_linear_layers([endless], make_choice(3))
    assert found.suggests is None
    assert found.numbers["m_ridge"] is None
    assert "no bound on D" in found.why
    assert found.verdict == "follows"
    costly = g1_linear_layers([endless], make_choice(1, draft_ms=lambda d: 8.0 * d))
    assert (costly.verdict, costly.numbers["cause"]) == ("follows", "draft_cost")
    assert g1_linear_layers([endless], make_choice(0, al=(1.0, 1.02))).verdict == "departs"


def test_g1_never_lets_half_filled_experts_bind() -> None:
    # B = 2, 8 of 128 experts: 0.125 rows each, and the published advice holds from B = 128 / 16 = 8 on.
    routed = replace(LINEAR, name="experts", gemm_m=2 * 8 / 128, experts=(128, 8))
    found = g1_linear_layers([routed], make_choice(3, batch=2, moe=(128, 8)))
    assert found.suggests is None
    assert found.numbers["m_ridge"] is not None
    assert found.numbers["moe_pays_from_batch"] == 8
    # 128 (1 - (120/128)^T): 15.5 experts at T = 2, 51.6 at T = 8
    assert found.numbers["expert_growth_from_off"] == pytest.approx((1 - 0.9375**8) / (1 - 0.9375**2) - 1)
    assert "B = 2 lies below" in found.why
    many = g1_linear_layers([replace(routed, gemm_m=64 * 8 / 128)], make_choice(3, batch=64, moe=(128, 8)))
    assert many.suggests == 1  # ridge 10.2 over 4 rows
    assert "B = 64 lies past that" in many.why
    assert many.why.startswith("Linear layers take 60 % of the target pass")
    assert (many.numbers["rows_per_expert"], many.numbers["expert_growth_at"]) == (4, 3)
    # from one row on they count, and at E / (2 k) the advice begins to hold
    one = replace(routed, gemm_m=1.0)
    edge = g1_linear_layers([one], make_choice(3, batch=16, moe=(128, 4)))
    assert edge.suggests == 9
    assert "B = 16 lies past that" in edge.why
    # off: one draft token at 16 requests would read (1 - p^32) / (1 - p^16) - 1 = p^16 more, p = 1 - 4/128
    off = g1_linear_layers([one], make_choice(0, batch=16, moe=(128, 4)))
    assert (off.numbers["expert_growth_at"], off.numbers["expert_growth_from_off"]) == (1, pytest.approx(0.96875**16))
    below = g1_linear_layers([routed], make_choice(3, batch=2, moe=(128, 8)))
    assert below.why.startswith("Linear layers take 60 % of the target pass")


def test_g1_needs_linear_layers_to_matter() -> None:
    found = g1_linear_layers([replace(LINEAR, time_share=0.2)], make_choice())
    assert (found.applies, found.verdict) == (False, "not_applicable")
    assert "20 %" in found.why
    for none in ([], [replace(LINEAR, time_share=0.0)]):
        assert g1_linear_layers(none, make_choice()).why == "No linear layer takes time in the target pass (0 %)."
    assert g1_linear_layers([replace(LINEAR, time_share=0.2)], make_choice(), Thresholds(linear_share=0.1)).applies


# ---------------------------------------------------------------------------------------------- G2, G3


def test_g2_shows_the_computed_free_length_beside_the_published_one() -> None:
    found = g2_attention_start([GQA], make_choice(3))
    assert found.suggests == 15
    assert found.numbers["d_free"] == 7  # 70 rows hold W = 8
    assert found.numbers["rows"] == 8 * 4
    assert "8 query heads share a KV head" in found.why
    assert "128 query heads share the latent cache" in g2_attention_start([MLA], make_choice(3)).why
    narrow = g2_attention_start([replace(GQA, free_rows=8.0)], make_choice(3))
    assert narrow.numbers["d_free"] == 0  # one token's rows and no more
    assert found.numbers["flop_per_byte_off"] == 8.0  # 2G / 2 bytes
    assert found.numbers["flop_per_byte"] == 32.0
    assert "D = 15" in found.why
    assert "D = 7" in found.why
    assert found.verdict == "departs"


def test_g2_is_a_start_and_not_a_maximum() -> None:
    found = g2_attention_start([replace(GQA, group_size=64)], make_choice(3))
    assert (found.suggests, found.verdict) == (1, "follows")
    assert g2_attention_start([MLA], make_choice(3)).suggests == 0
    # MLA under TP 8: 16 query heads on a GPU
    assert g2_attention_start([replace(MLA, group_size=16)], make_choice(3)).suggests == 7


def test_g2_takes_the_group_that_takes_most_time() -> None:
    window = replace(GQA, name="window", time_share=0.2, group_size=4)
    found = g2_attention_start([window, replace(GQA, time_share=0.4)], make_choice(3))
    assert found.applies
    assert found.suggests == 15
    assert found.numbers["d_attention_by_group"] == [31, 15]


def test_attention_guidelines_apply_from_the_threshold_on() -> None:
    for function in (g2_attention_start, g3_tile_alignment):
        below = function([replace(GQA, time_share=0.49, group_size=64)], make_choice(3))
        assert (below.applies, below.verdict, below.suggests) == (False, "not_applicable", None)
        assert "49 %" in below.why
        assert function([replace(GQA, time_share=0.5, group_size=64)], make_choice(3)).applies
        none = function([], make_choice(3))
        assert not none.applies
        assert_sound(none)


def test_free_rows_without_an_end_are_said_so() -> None:
    found = g2_attention_start([replace(GQA, free_rows=None)], make_choice(3))
    assert found.numbers["d_free"] is None
    assert "never leaves the floor" in found.why


def test_g3_speaks_only_above_the_start() -> None:
    assert not g3_tile_alignment([GQA], make_choice(3)).applies
    assert not g3_tile_alignment([GQA], make_choice(15, al=growing(20))).applies


def test_g3_wants_whole_tiles() -> None:
    al = growing(40)
    aligned = g3_tile_alignment([GQA], make_choice(31, al=al))
    assert (aligned.suggests, aligned.verdict) == ([31, 47, 63], "follows")
    assert aligned.numbers["tile_fill"] == 1.0
    # 8 * 21 = 168 rows on two tiles of 128; D = 31 costs no more in verification and yields more.
    parted = g3_tile_alignment([GQA], make_choice(20, al=al, verify_ms=lambda d: 11.0, draft_ms=lambda d: 0.1))
    assert parted.numbers["tile_fill"] == pytest.approx(168 / 256)
    assert (parted.suggests, parted.verdict) == ([15, 31, 47], "departs")
    assert parted.numbers["cause"] == "other_is_faster"
    assert parted.numbers["compared_draft_length"] == 31


def test_g3_says_when_no_aligned_length_was_computed() -> None:
    six = replace(GQA, group_size=6)  # start at 20, first whole tiles at 63
    found = g3_tile_alignment([six], make_choice(30, al=growing(40)))
    assert (found.suggests, found.verdict) == ([63, 127, 191], "departs")
    assert "D = 40" in found.why


# -------------------------------------------------------------------------------------------------- G4


def test_g4_puts_the_computed_pass_beside_the_layer_ratio() -> None:
    found = g4_low_latency(make_choice(3))
    assert found.numbers["rho"] == 1 / 32
    assert found.numbers["draft_pass_ratio"] == pytest.approx(0.05)  # 0.5 of 10 ms
    assert found.numbers["draft_pass_over_rho"] == pytest.approx(1.6)
    # Gains .70 .29 .14 .04 against .031 .030 .029 .029, then .019 against .028.
    assert found.suggests == 4
    assert found.numbers["computed_draft_length"] == 3
    assert found.verdict == "follows"  # 1.91x at D = 3 and 1.88x at D = 4: a tie
    assert found.numbers["cause"] == "tie"


def test_g4_departs_where_a_real_pass_costs_more_than_its_layers() -> None:
    found = g4_low_latency(make_choice(1, draft_ms=lambda d: 4.0 * d))
    assert (found.suggests, found.verdict) == (4, "departs")
    assert found.numbers["cause"] == "draft_cost"
    assert "Drafting costs more than it brings" in found.why


def test_g4_computed_length_is_not_stopped_by_the_entry_fee() -> None:
    # AL 1.3, 1.9, 2.4 against steps of 14, 14.5, 15 ms: 0.93x at D = 1 and 1.6x at D = 3.
    choice = make_choice(3, al=(1.0, 1.3, 1.9, 2.4), verify_ms=lambda d: 13.5 if d else 10.0)
    assert choice.speedup(1) < 1
    assert g4_low_latency(choice).numbers["computed_draft_length"] == 3


def test_g4_applies_to_small_batches_or_launch_bound_steps() -> None:
    assert g4_low_latency(make_choice(batch=4, launch_share=0.0)).applies
    assert g4_low_latency(make_choice(batch=5, launch_share=0.25)).applies
    found = g4_low_latency(make_choice(batch=5, launch_share=0.24))
    assert (found.applies, found.verdict) == (False, "not_applicable")


def test_g4_has_nothing_to_weigh_without_a_draft() -> None:
    found = g4_low_latency(make_choice(0, al=(1.0,)))
    assert (found.applies, found.verdict) == (False, "not_applicable")
    assert_sound(found)


def test_g4_weighs_one_more_token_by_layers_and_by_times() -> None:
    # D = 3 to 4: AL 2.5 to 2.6; one pass more of 1/32 on 1 + 3/32; steps of 13.1 and 13.8 ms.
    numbers = g4_low_latency(make_choice(3)).numbers
    assert numbers["next_gain"] == pytest.approx(0.04)
    assert numbers["next_cost_by_layers"] == pytest.approx(1 / 35)
    assert numbers["next_cost"] == pytest.approx(13.8 / 13.1 - 1)


def test_g4_computes_what_experts_add() -> None:
    found = g4_low_latency(make_choice(3, moe=(128, 8)))
    # One token reads 8 experts, four read 128 (1 - (15/16)^4) = 29.1
    assert found.numbers["expert_growth_from_off"] == pytest.approx(128 * (1 - 0.9375**4) / 8 - 1)
    assert "Experts read grow +264 %" in found.why


def test_g4_of_one_pass_and_of_a_look_up() -> None:
    block = g4_low_latency(make_choice(3, sequential=False, draft_layers=5, draft_ms=lambda d: 1.2 if d else 0.0))
    assert block.numbers["draft_pass_ratio"] == pytest.approx(0.12)
    assert block.numbers["next_cost_by_layers"] == 0.0
    assert block.suggests == 8
    lookup = g4_low_latency(make_choice(3, sequential=False, draft_layers=0))
    assert lookup.numbers["draft_pass_over_rho"] is None


# -------------------------------------------------------------------------------------------------- G5


def test_g5_ranks_by_speedup_and_prints_the_posts_view_as_an_opinion() -> None:
    mtp = option("mtp-layer", "mtp", 2.2, 11.5, 0.6)
    found = g5_mechanism([DRAFT_MODEL, mtp, EAGLE3], "head")
    assert found.numbers["drafters"] == ["head", "mtp-layer", "small"]
    assert (found.numbers["best_memory_gb"], found.numbers["memory_gb"]) == (2.0, [2.0, 2.0, 2.0])
    assert found.numbers["training"] == ["", "", ""]
    assert "None of them beats plain decoding" not in found.why
    assert found.numbers["post_views"] == [POST_VIEW["eagle3"], POST_VIEW["mtp"], POST_VIEW["draft_model"]]
    assert "The post's opinion of eagle3, beside this rank: not recommended." in found.why
    assert found.verdict == "follows"


def test_g5_highest_acceptance_alone_does_not_win() -> None:
    deep = option("deep", "draft_model", 3.4, 12.0, 9.0)
    found = g5_mechanism([deep, EAGLE3], "deep")
    assert "deep has the highest AL, 3.4" in found.why
    assert found.suggests == {"drafter": "head", "mechanism": "eagle3", "draft_length": 3}
    assert found.numbers["chosen_loss"] == pytest.approx(1 - (34 / 21) / (24.4 / 12.842))


def test_g5_counts_a_block_pass_in_sequential_passes() -> None:
    # 5 layers once cost what 5 single-layer passes do.
    block = option("block", "dflash", 2.5, 11.9, 1.0, best_draft_length=7)
    chain = option("chain", "mtp", 2.3, 11.9, 0.6)
    found = g5_mechanism([block, chain], "block")
    assert found.numbers["one_pass_in_sequential_passes"] == pytest.approx(5.0)
    assert "One pass of block costs as much as 5 of chain." in found.why


def test_g5_off_is_an_answer() -> None:
    slow = [option("a", "eagle3", 1.1, 12, 1), option("b", "medusa", 1.05, 12, 1)]
    found = g5_mechanism(slow, "none")
    assert found.suggests == {"drafter": "none", "mechanism": None, "draft_length": 0}
    assert found.verdict == "follows"
    assert "None of them beats plain decoding" in found.why
    assert "opinion" in found.why
    assert found.why.endswith("The choice is off.")
    even = [replace(one, speedup=1.0) for one in slow]
    assert g5_mechanism(even, "none").suggests == found.suggests  # as fast as plain decoding is no gain
    assert "None of them beats plain decoding" in g5_mechanism(even, "none").why
    assert g5_mechanism(slow, "b").verdict == "departs"
    assert "opinion" not in g5_mechanism([slow[1], replace(slow[1], drafter="c")], "none").why


def test_g5_ties_are_no_departure_and_go_to_the_smaller_memory() -> None:
    light = option("light", "mtp", 2.44, 11.9, 0.942, memory_bytes=1e9)
    assert g5_mechanism([EAGLE3, light], "head").suggests == {
        "drafter": "light",
        "mechanism": "mtp",
        "draft_length": 3,
    }
    assert g5_mechanism([EAGLE3, light], "head").verdict == "follows"


def test_g5_needs_two_and_knows_the_chosen() -> None:
    assert g5_mechanism([EAGLE3], "head").verdict == "not_applicable"
    with pytest.raises(ValueError, match="not among"):
        g5_mechanism([EAGLE3, DRAFT_MODEL], "other")
