"""The recommendation on toy steps whose best answer is known by hand.

Most tests run on `clockwork`: T_target(B) = 10 + 0.1 B ms, a step with D draft tokens 11 + 0.1 B (1 + D) ms (entry fee
1 ms, an n-gram look-up that costs nothing). With AL = 1.8, 2.4, 2.8, 3.0 at D = 1 to 4:

    B = 1:   1.8 x 10.1 / 11.2 = 1.623   2.4 x 10.1 / 11.3 = 2.145   2.8 x 10.1 / 11.4 = 2.481   3 x 10.1 / 11.5 = 2.635
    B = 100: 1.8 x 20 / 31 = 1.161       2.4 x 20 / 41 = 1.171       2.8 x 20 / 51 = 1.098       3 x 20 / 61 = 0.984
    B = 400: 1.8 x 50 / 91 = 0.989       2.4 x 50 / 131 = 0.916      less                        less

Attention at one token of context adds 0.05 % to the price of a token.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Data, toy_acceptance, toy_drafter
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import clockwork, shipped, shipped_scenario, toy_library, toy_options

from specdec_cli.errors import InfeasibleError, UsageError
from specdec_cli.explore.recommend import Limits, Recommendation, run_recommend
from specdec_cli.explore.scenario import Options
from specdec_cli.explore.schedules import (
    ScheduleEntry,
    every_batch,
    held_by_a_drafting_server,
    schedule,
    schedule_by_context,
)
from specdec_cli.physics.acceptance import AcceptanceCurve
from specdec_cli.physics.layers import Layout
from specdec_cli.physics.memory import MemoryBill
from specdec_cli.physics.trees import Tree, TreeAcceptance

LENGTHS = {1: 1.8, 2: 2.4, 3: 2.8, 4: 3.0}
CURVE = ",".join(f"{d}={al}" for d, al in LENGTHS.items())


def speedup(batch: float, length: int) -> float:
    return LENGTHS[length] * (10 + 0.1 * batch) / (11 + 0.1 * batch * (1 + length))


POWERS = "1..256:x2"  # few batches, so that every figure can be worked by hand


def recommend(root: Path, *more: Data, prices: Any = None, limits: Any = None, **options: Any) -> Recommendation:
    hardware, engine = clockwork(**(prices or {}))
    said = {"drafter": "toy-ngram", "context": 1, "acceptance_length": CURVE, **options}
    library = toy_library(root, hardware, engine, *more)
    return run_recommend(library, toy_options(**said), Limits(**(limits or {})))


def chosen(found: Recommendation) -> tuple[int, int]:
    """(batch, draft length)."""
    assert found.choice is not None
    points = found.sweep.points
    return int(points.batch[found.choice]), int(points.draft_length[found.choice])


def codes(found: Recommendation) -> list[str]:
    return [note.code for note in found.notes]


# ---------------------------------------------------------------------------------------------- at one batch


def test_the_best_length_at_a_batch(tmp_path: Path) -> None:
    found = recommend(tmp_path, limits={"batch": 1})
    assert chosen(found) == (1, 4)
    assert found.plateau == (4,)
    assert found.choice is not None
    assert float(found.sweep.points.speedup[found.choice]) == pytest.approx(speedup(1, 4), rel=1e-3)


def test_ties_go_to_the_smallest_length_and_the_plateau_is_shown(tmp_path: Path) -> None:
    # B = 100: 1.161 at D = 1 lies within 3 % of 1.171 at D = 2 (from 1.136 on), 1.098 at D = 3 does not
    found = recommend(tmp_path, limits={"batch": 100})
    assert chosen(found) == (100, 1)
    assert found.plateau == (1, 2)


@pytest.mark.parametrize(
    ("tie", "length", "plateau"), [(0.0, 2, (2,)), (0.005, 2, (2,)), (0.01, 1, (1, 2)), (0.07, 1, (1, 2, 3))]
)
def test_the_tie_is_the_users(tmp_path: Path, tie: float, length: int, plateau: tuple[int, ...]) -> None:
    # 1.161 / 1.171 = 0.9919 and 1.098 / 1.171 = 0.938
    found = recommend(tmp_path, limits={"batch": 100, "tie": tie})
    assert chosen(found) == (100, length)
    assert found.plateau == plateau


def test_off_is_an_answer(tmp_path: Path) -> None:
    found = recommend(tmp_path, limits={"batch": 400})
    assert chosen(found) == (400, 0)
    assert found.plateau == ()


@pytest.mark.parametrize(("min_gain", "length"), [(0.02, 1), (0.15, 1), (0.165, 2), (0.18, 0)])
def test_off_unless_the_gain_exceeds_what_is_asked(tmp_path: Path, min_gain: float, length: int) -> None:
    # B = 100: D = 1 gains 16.1 %, D = 2 17.1 %: at 16.5 % the shorter tie no longer pays
    found = recommend(tmp_path, limits={"batch": 100, "min_gain": min_gain})
    assert chosen(found) == (100, length)


def test_a_batch_that_is_not_swept_is_evaluated(tmp_path: Path) -> None:
    found = recommend(tmp_path, limits={"batch": 37}, batches="1,2")
    assert chosen(found)[0] == 37
    assert 37 in found.scenario.batches


def test_off_is_the_answer_where_no_length_asked_for_pays(tmp_path: Path) -> None:
    """Asking about D = 3 and 4 alone must not make a slower step the recommendation."""
    found = recommend(tmp_path, limits={"batch": 400}, draft_lengths="3,4")
    assert chosen(found) == (400, 0)


def test_without_a_drafter_the_answer_is_off(tmp_path: Path) -> None:
    found = recommend(tmp_path, drafter="none", acceptance_length=None, limits={"batch": 8})
    assert chosen(found) == (8, 0)
    assert found.pays_from_batch is None


def test_runners_up_come_best_first(tmp_path: Path) -> None:
    found = recommend(tmp_path, limits={"batch": 1})
    points = found.sweep.points
    assert [int(points.draft_length[i]) for i in found.alternatives] == [3, 2, 1]
    assert {int(points.batch[i]) for i in found.alternatives} == {1}


# ------------------------------------------------------------------------------------------------- the batch free


def test_a_floor_of_interactivity_takes_the_widest_batch_that_keeps_it(tmp_path: Path) -> None:
    # 100 tokens/s/user: at B = 128 D = 1 gives 1.8 / 36.6 ms = 49, D = 2 2.4 / 49.4 = 48.6; at B = 64
    # 1.8 / 23.8 = 75.6, 2.4 / 30.2 = 79.5, 2.8 / 36.6 = 76.5; at B = 32 2.4 / 20.6 = 116.5, 2.8 / 23.8 = 117.6,
    # 3 / 27 = 111, 1.8 / 17.4 = 103: throughputs 32 x those; D = 3 is best and D = 2 within 3 % of it
    found = recommend(tmp_path, limits={"min_interactivity": 100.0}, batches=POWERS)
    assert chosen(found) == (32, 2)
    assert found.plateau == (2, 3)


def test_where_the_batch_is_asked_for_every_one_is_looked_at(tmp_path: Path) -> None:
    # between the powers of two more users fit at the same speed: D = 2 at B = 43, 2.4 / (7.6 + 43 x ...) still >= 100
    found = recommend(tmp_path, limits={"min_interactivity": 100.0, "tie": 0.0})
    points = recommend(tmp_path, limits={"batch": 1}, batches="1..256").sweep.points
    within = points.throughput[points.interactivity >= 100.0]
    assert found.choice is not None
    assert found.sweep.points.throughput[found.choice] == pytest.approx(within.max())
    assert found.sweep.points.throughput[found.choice] > 32 * 117.6  # the best power of two, worked above


def test_a_ceiling_of_tpot_is_the_same_floor(tmp_path: Path) -> None:
    found = recommend(tmp_path, limits={"max_tpot_ms": 10.0}, batches=POWERS)
    assert chosen(found) == (32, 2)


def test_a_floor_of_throughput_takes_the_fastest_that_keeps_it(tmp_path: Path) -> None:
    # 2000 tokens/s/GPU: B = 8 reaches 8 x 3 / 15 ms = 1600; B = 16: 16 x 3 / 19 = 2526, 2.8 / 17.4 -> 2575,
    # 2.4 / 15.8 -> 2430: interactivity 158, 161, 152: D = 3 is best, D = 4 within 3 %, D = 2 not (5.6 %)
    found = recommend(tmp_path, limits={"min_throughput": 2000.0}, batches=POWERS)
    assert chosen(found) == (16, 3)
    assert found.plateau == (3, 4)


def test_off_where_no_speculating_point_is_wider(tmp_path: Path) -> None:
    # 5 tokens/s/user is kept by everything: B = 4096 off gives 4096 / 419.6 ms = 9762, D = 1 1.8 x 4096 / 830 = 8881
    found = recommend(tmp_path, limits={"min_interactivity": 2.0}, batches="1,64,4096")
    assert chosen(found) == (4096, 0)


def test_limits_that_speculation_alone_can_keep(tmp_path: Path) -> None:
    # off reaches 99 tokens/s/user at B = 1, speculation 261
    found = recommend(tmp_path, limits={"min_interactivity": 200.0}, batches=POWERS)
    batch, length = chosen(found)
    assert length > 0
    points = found.sweep.points
    assert float(points.interactivity[found.choice]) >= 200.0
    # the largest batch with any point above 200: B = 8 gives 3 / 15 ms = 200.0 less attention's 0.05 %, so B = 4
    assert batch == 4


def test_every_limit_counts(tmp_path: Path) -> None:
    # without the batch B = 1 would be the fastest
    found = recommend(tmp_path, limits={"batch": 8, "min_throughput": 100.0, "min_interactivity": 100.0})
    assert chosen(found) == (8, 3)  # 2.8 / 14.2 ms = 197 tokens/s, a tie with D = 4's 200


def test_where_off_is_too_slow_the_best_that_is_allowed_is_the_answer(tmp_path: Path) -> None:
    # B = 100: off gives 50 tokens/s/user, D = 1 1.8 / 31 ms = 58.06, D = 2 2.4 / 41 = 58.5, D = 3 54.9; none gains 18 %
    found = recommend(tmp_path, limits={"batch": 100, "min_interactivity": 55.0, "min_gain": 0.18})
    assert chosen(found) == (100, 2)
    assert found.plateau == ()


@pytest.mark.parametrize(
    ("limits", "batches", "floor", "served", "without", "more"),
    [
        # 46 tokens/s/user: D = 1 within 39.13 ms, 28.13 / 0.2 = 140 requests (D = 2: 137); off within 21.74 ms, 117
        ({"min_interactivity": 46.0}, POWERS, 46.0, 140, 117, False),
        ({"max_tpot_ms": 1000 / 46, "min_interactivity": 20.0}, POWERS, 46.0, 140, 117, False),
        ({"min_interactivity": 46.0}, "1..128:x2", 46.0, 128, 117, True),
        ({"min_interactivity": 99.5}, POWERS, 99.5, None, 0, False),  # off takes 10.1 ms for one request
    ],
)
def test_users_at_a_floor(
    tmp_path: Path,
    limits: dict[str, float],
    batches: str,
    floor: float,
    served: int | None,
    without: int,
    more: bool,
) -> None:
    users = recommend(tmp_path, limits=limits, batches=batches).users
    assert users is not None
    assert (users.floor, users.served_without, users.at_least) == (pytest.approx(floor), without, more)
    if served is not None:
        assert users.served == served


def test_without_a_floor_nobody_is_counted(tmp_path: Path) -> None:
    assert recommend(tmp_path, limits={"batch": 8}).users is None
    assert recommend(tmp_path / "b", limits={"min_throughput": 100.0}).users is None


def test_the_nearest_miss_is_said(tmp_path: Path) -> None:
    # one request, D = 4: 3 / 11.5 ms = 260.9 tokens/s; 256 requests, D = 1: 460.8 / 62.2 ms = 7408 less 0.05 %
    with pytest.raises(InfeasibleError, match=r"260\.9 tokens/s/user \(TPOT 3\.83 ms\), the widest 740\d tokens/s/GPU"):
        recommend(tmp_path, limits={"min_interactivity": 300.0})


@pytest.mark.parametrize(
    "limits",
    [
        {"min_interactivity": 300.0},
        {"max_tpot_ms": 0.1},
        {"min_throughput": 1e6},
        {"batch": 256, "min_interactivity": 100.0},
    ],
)
def test_limits_that_nothing_keeps(tmp_path: Path, limits: dict[str, float]) -> None:
    with pytest.raises(InfeasibleError, match=r"no feasible point satisfies the limits: the fastest reaches") as caught:
        recommend(tmp_path, limits=limits)
    assert caught.value.exit_code == 4


def test_a_batch_that_does_not_fit_says_why(tmp_path: Path) -> None:
    # at 8000 tokens of context a request holds 8e7 bytes: 120 fit
    with pytest.raises(InfeasibleError, match=r"batch 500 is not feasible: needs .* GB"):
        recommend(tmp_path, context=8000, limits={"batch": 500})


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"batch": 0}, "--batch must be at least 1, got 0"),
        ({"batch": -3}, "--batch must be at least 1, got -3"),
        ({"min_interactivity": 0.0}, "--min-interactivity must be above 0"),
        ({"min_interactivity": float("nan")}, "--min-interactivity must be above 0"),
        ({"min_throughput": -1.0}, "--min-throughput must be above 0"),
        ({"max_tpot_ms": float("inf")}, "--max-tpot-ms must be above 0"),
        ({"tie": 1.0}, "--tie is a fraction"),
        ({"tie": -0.1}, "--tie is a fraction"),
        ({"min_gain": 2.0}, "--min-gain is a fraction"),
        ({"min_gain": float("nan")}, "--min-gain is a fraction"),
    ],
)
def test_limits_that_make_no_sense(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Limits(**limits)


# ------------------------------------------------------------------------------------------------------ lists


def test_among_mechanisms_the_best_wins_and_the_plateau_is_its_own(tmp_path: Path) -> None:
    # on the clockwork an EAGLE-3 pass of 0.6 ms a token and the same AL never beats a free look-up
    hardware, engine = clockwork()
    engine["overheads"]["draft_pass_ms"] = 0.6
    options = {"drafter": "toy-model-eagle3,toy-ngram", "context": 1, "acceptance_length": CURVE}
    found = run_recommend(toy_library(tmp_path, hardware, engine), toy_options(**options), Limits(batch=1))
    assert found.scenario.drafter_name == "toy-ngram"
    assert found.plateau == (4,)
    assert chosen(found) == (1, 4)


def test_a_schedule_of_a_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a schedule speaks of one drafter on one layout"):
        recommend(tmp_path, tp="1,2")


# ------------------------------------------------------------------------------- extrapolated acceptance, windows


def test_extrapolated_lengths_are_never_recommended_unless_assumed(tmp_path: Path) -> None:
    # measured to D = 2 and still rising: D = 5 would be faster by the extrapolated curve
    points = [{"draft_length": 1, "acceptance_length": 1.8}, {"draft_length": 2, "acceptance_length": 2.5}]
    ngram = toy_acceptance("toy-model-ngram-chat", drafter="toy-ngram", points=points)
    asked: dict[str, Any] = {"acceptance_length": None, "draft_lengths": "0..5", "limits": {"batch": 1}}
    found = recommend(tmp_path, ngram, **asked)
    assert chosen(found) == (1, 2)
    assert max(found.plateau) <= 2
    assert "acceptance_extrapolated" in codes(found)
    assumed = recommend(tmp_path / "b", ngram, **asked, assume=True)
    assert chosen(assumed)[1] > 2


def test_the_schedule_keeps_to_what_was_measured_too(tmp_path: Path) -> None:
    points = [{"draft_length": 1, "acceptance_length": 1.8}, {"draft_length": 2, "acceptance_length": 2.5}]
    ngram = toy_acceptance("toy-model-ngram-chat", drafter="toy-ngram", points=points)
    found = recommend(tmp_path, ngram, acceptance_length=None, draft_lengths="0..5", batches="1..64:x2")
    assert max(entry.draft_length for entry in found.schedule) <= 2


def test_past_the_drafters_window_the_answer_is_off(tmp_path: Path) -> None:
    windowed = toy_drafter(window_tokens=100)
    library = toy_library(tmp_path, windowed)
    off = run_recommend(library, toy_options(context=500), Limits(batch=1))
    assert chosen(off) == (1, 0)
    assert "beyond_draft_window" in codes(off)
    on = run_recommend(library, toy_options(context=500, assume=True), Limits(batch=1))
    assert chosen(on)[1] > 0


# -------------------------------------------------------------------------------------------------- the schedule


def naive_schedule(most: int, tie: float = 0.03, min_gain: float = 0.02) -> list[tuple[int, int, int]]:
    """Straight from the rules: the smallest tied length that pays, kept as long as it stays on the plateau."""
    entries: list[list[int]] = []
    for batch in range(1, most + 1):
        gains = {d: speedup(batch, d) for d in LENGTHS}
        plateau = [d for d, gain in gains.items() if gain > 1 + min_gain and gain >= max(gains.values()) * (1 - tie)]
        length = plateau[0] if plateau else 0
        if entries and (entries[-1][2] in plateau or entries[-1][2] == length):
            entries[-1][1] = batch
        else:
            entries.append([batch, batch, length])
    return [(a, b, d) for a, b, d in entries]


def test_the_schedule_follows_the_rules_over_every_batch(tmp_path: Path) -> None:
    # speculation pays until 1.8 (10 + 0.1 B) = 1.02 (11 + 0.2 B), that is B = 282.5
    found = recommend(tmp_path, batches="1..512:x2")
    entries = [(e.batch_from, e.batch_to, e.draft_length) for e in found.schedule]
    expected = naive_schedule(512)
    assert [d for *_, d in entries] == [d for *_, d in expected]
    for got, wanted in zip(entries, expected, strict=True):
        assert got == pytest.approx(wanted, abs=2)  # attention's 0.05 % may move an edge
    assert entries[-1] == pytest.approx((283, 512, 0), abs=2)
    assert entries[-1][1] == 512
    # no gaps and no overlaps
    assert entries[0][0] == 1
    for (_, end, _), (start, _, _) in itertools.pairwise(entries):
        assert start == end + 1
    assert found.choice is None


def test_where_speculation_pays(tmp_path: Path) -> None:
    # every batch up to the largest is looked at, whichever were swept
    found = recommend(tmp_path, batches="1..512:x2")
    first, *_, last = found.schedule
    assert first.draft_length > 0
    assert last.draft_length == 0
    assert (found.pays_from_batch, found.pays_to_batch) == (1, last.batch_from - 1)
    coarse = recommend(tmp_path / "coarse", batches="400,800")
    assert (coarse.pays_from_batch, coarse.pays_to_batch) == (1, last.batch_from - 1)


def test_speculation_may_pay_from_a_batch_on(tmp_path: Path) -> None:
    # a fee of 40 ms outweighs the gain while a target step is short: 1.8 x 50 / (50 + 40) = 1 at no marginal cost
    found = recommend(
        tmp_path, prices={"fee_ms": 9.0, "per_token_ms": 0.001}, acceptance_length="1=1.8", batches="1..64"
    )
    # T = 10 + 0.001 B; D = 1: 19 + 0.002 B: 1.8 x 10 / 19 < 1 at every batch
    assert found.pays_from_batch is None
    paying = recommend(
        tmp_path / "b",
        prices={"fee_ms": 9.0, "per_token_ms": 0.001},
        acceptance_length="1=2",
        batches="1..64",
    )
    # 2 x 10 / 19 = 1.053
    assert (paying.pays_from_batch, paying.pays_to_batch) == (1, 64)


def test_ties_do_not_make_the_schedule_flicker(tmp_path: Path) -> None:
    found = recommend(tmp_path, batches="1..512:x2")
    lengths = [e.draft_length for e in found.schedule]
    assert all(a != b for a, b in itertools.pairwise(lengths))
    assert len(lengths) == len(naive_schedule(512))
    loose = recommend(tmp_path / "loose", batches="1..512:x2", limits={"tie": 0.2})
    assert len(loose.schedule) <= len(lengths)


def test_a_schedule_ends_where_memory_does(tmp_path: Path) -> None:
    # 1e10 bytes less 0.33e9 of weights; at 8000 tokens a request holds 8e7: 120 fit
    library = toy_library(tmp_path)
    options = toy_options(drafter="toy-ngram", acceptance_rate=0.7, context=8000, batches="1..512:x2")
    found = run_recommend(library, options, Limits())
    assert found.schedule[-1].batch_to == 120


def test_a_schedule_past_what_is_evaluated_one_by_one_uses_the_swept_batches(tmp_path: Path) -> None:
    found = recommend(tmp_path, batches="1,100,8192")
    assert [(e.batch_from, e.batch_to) for e in found.schedule] == [(1, 1), (2, 100), (101, 8192)]
    assert [e.draft_length for e in found.schedule] == [4, 1, 0]


@pytest.mark.parametrize(
    ("largest", "lengths", "every"),
    [(4096, 9, True), (4097, 9, False), (4000, 1250, True), (4000, 1251, False)],  # 4000 x 1250 is 5 million
)
def test_every_batch_is_looked_at_while_they_are_not_too_many(largest: int, lengths: int, every: bool) -> None:
    scenario = replace(shipped_scenario(), batches=(1, largest), draft_lengths=tuple(range(lengths)))
    assert every_batch(scenario) == (tuple(range(1, largest + 1)) if every else (1, largest))


def test_a_schedule_drafts_nothing_where_acceptance_is_not_known(tmp_path: Path) -> None:
    # the drafter's window ends at 100 tokens, and acceptance is tabled from 1 to 80
    asked = {"batches": "1", "acceptance_length": None, "drafter": "toy-model-eagle3"}
    windowed = toy_library(tmp_path / "window", toy_drafter(window_tokens=100))
    found = schedule_by_context(windowed, toy_options(**asked), [50, 100, 500, 1000, 2000], 0.03, 0.02)
    assert [(c.context_from, c.context_to, c.known, bool(c.entries[0].draft_length)) for c in found] == [
        (1, 100, True, True),
        (101, 2000, False, False),
    ]
    points = [{"draft_length": 2, "acceptance_length": 2.6, "context_tokens": c} for c in (1, 80)]
    tabled = toy_library(tmp_path / "table", toy_acceptance(points=points))
    found = schedule_by_context(tabled, toy_options(**asked), [50, 80, 100], 0.03, 0.02)
    assert [(c.context_from, c.context_to, c.known) for c in found] == [(1, 80, True), (81, 100, False)]
    # where nobody drafts there is nothing to know
    (off,) = schedule_by_context(windowed, toy_options(**asked | {"drafter": "none"}), [50, 500], 0.03, 0.02)
    assert (off.context_from, off.context_to, off.known) == (1, 500, True)


def test_schedules_by_context_hold_down_to_the_context_before(tmp_path: Path) -> None:
    hardware, engine = clockwork()
    library = toy_library(tmp_path, hardware, engine)
    asked = toy_options(drafter="toy-ngram", acceptance_length=CURVE, batches="1..64:x2")
    found = schedule_by_context(library, asked, [1, 2000, 8000], 0.03, 0.02)
    assert found[0].context_from == 1
    assert found[-1].context_to == 8000
    for before, after in itertools.pairwise(found):
        assert after.context_from == before.context_to + 1
        assert after.entries != before.entries  # neighbours alike are one
    alone = schedule_by_context(library, asked, [2000], 0.03, 0.02)
    assert [(c.context_from, c.context_to) for c in alone] == [(1, 2000)]


def test_schedules_by_context_conflict_with_a_context(tmp_path: Path) -> None:
    library = toy_library(tmp_path)
    with pytest.raises(UsageError, match="--contexts conflicts with --context"):
        schedule_by_context(library, toy_options(context=5), [100], 0.03, 0.02)
    with pytest.raises(UsageError, match="one --drafter, --tp and --hardware"):
        schedule_by_context(library, toy_options(tp="1,2"), [100], 0.03, 0.02)


# ---------------------------------------------------------------------------------------------- flips in the band


def test_a_gain_inside_the_band_is_said_to_flip(tmp_path: Path) -> None:
    # B = 100: 1.16 at D = 1 with a band of 20 % on time: 0.97 at the slow end; B = 1: 2.6 / 1.2
    near, far = (recommend(tmp_path / str(b), limits={"batch": b}) for b in (100, 1))
    (said,) = [n.message for n in near.notes if n.code == "flips_inside_band"]
    assert said == (
        "D = 1 gains 1.16x, 0.97x at the slow end of the band: one measured run at batch 100 with D = 1 beside one "
        "with speculation off would settle it"
    )
    assert "flips_inside_band" not in codes(far)


@pytest.mark.parametrize(("min_gain", "flips"), [(0.02, False), (0.2, True)])
def test_it_flips_where_the_gain_asked_for_lies_inside_the_band(tmp_path: Path, min_gain: float, flips: bool) -> None:
    # B = 50: 2.4 x 15 / 26 = 1.385 at D = 2; 1.385 / 1.2 = 1.154 at the slow end
    found = recommend(tmp_path, limits={"batch": 50, "min_gain": min_gain})
    assert ("flips_inside_band" in codes(found)) is flips


@pytest.mark.parametrize(
    ("other", "settled_by"),
    [
        # B = 100, D = 1 gains 1.161 at AL 1.8: at 1.3 that is 0.84, at 1.7 still 1.10
        (
            1.3,
            "the acceptance length on your own workload at D = 1 would settle it (other data sets range from 1.30 to",
        ),
        (1.7, "one measured run at batch 100 with D = 1"),
    ],
)
def test_acceptance_settles_it_where_its_band_alone_is_wide_enough(
    tmp_path: Path, other: float, settled_by: str
) -> None:
    own, second = (
        toy_acceptance(
            f"toy-model-ngram-{name}",
            drafter="toy-ngram",
            default=name == "chat",
            data_set=name,
            points=[{"draft_length": 1, "acceptance_length": al}],
        )
        for name, al in (("chat", 1.8), ("code", other))
    )
    found = recommend(
        tmp_path,
        own,
        second,
        acceptance_length=None,
        limits={"batch": 100},
        draft_lengths="0,1",
    )
    (said,) = [n.message for n in found.notes if n.code == "flips_inside_band"]
    assert settled_by in said


def test_off_inside_the_band_is_said_to_flip_too(tmp_path: Path) -> None:
    # B = 400: 0.989 / 0.8 = 1.24 at the fast end; B = 5000 at D = 1: 1.8 x 510 / 1011 / 0.8 = 1.135, so far out 1 + D
    found = recommend(tmp_path, limits={"batch": 400})
    (said,) = [n.message for n in found.notes if n.code == "flips_inside_band"]
    assert said == (
        "off, but D = 1 reaches 1.24x at the fast end of the band: one measured run at batch 400 with D = 1 beside one "
        "with speculation off would settle it"
    )
    certain = recommend(tmp_path / "b", limits={"batch": 400}, acceptance_length="1=1.3,2=1.4,3=1.45,4=1.47")
    assert "flips_inside_band" not in codes(certain)


# --------------------------------------------------------------------------------------- rules on shipped profiles


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(
        [
            {},
            {"model": "qwen3-30b-a3b", "hardware": "h200-sxm"},
            {"model": "llama-3.3-70b", "tp": "4"},
            {"model": "gpt-oss-120b"},
        ]
    ),
    st.integers(1, 200),
    st.floats(0.0, 0.2),
    st.floats(0.0, 0.3),
)
def test_the_choice_is_the_smallest_tied_length_that_pays(
    options: dict[str, Any], batch: int, tie: float, min_gain: float
) -> None:
    limits = Limits(batch=batch, tie=tie, min_gain=min_gain)
    try:
        found = run_recommend(shipped(), Options(**options, batches=str(batch), context=2048), limits)
    except InfeasibleError:
        return
    points = found.sweep.points
    gains = dict(zip(points.draft_length.tolist(), points.speedup.tolist(), strict=True))
    paying = {d: gain for d, gain in gains.items() if d and gain > 1 + min_gain}
    best = max(paying.values(), default=0.0)
    plateau = sorted(d for d, gain in paying.items() if gain >= best * (1 - tie))
    assert chosen(found) == (batch, plateau[0] if plateau else 0)
    assert found.plateau == tuple(plateau)
    # a schedule that begins where a batch is alone says the same; a range may keep an earlier tied length
    (entry,) = [e for e in found.schedule if e.batch_from <= batch <= e.batch_to]
    assert entry.draft_length in (plateau or [0])


def test_a_schedule_agrees_with_the_recommendation_at_its_first_batch() -> None:
    found = run_recommend(shipped(), Options(context=512), Limits())
    for entry in found.schedule:
        alone = run_recommend(shipped(), Options(context=512), Limits(batch=entry.batch_from))
        assert chosen(alone)[1] == entry.draft_length


def test_the_default_recommendation_speculates() -> None:
    found = run_recommend(shipped(), Options(), Limits(batch=32))
    batch, length = chosen(found)
    assert batch == 32
    assert length >= 1
    assert [g.id for g in found.guidelines] == ["G1", "G2", "G3", "G4", "G5"]


def test_the_schedule_of_one_scenario_is_what_recommend_prints(tmp_path: Path) -> None:
    found = recommend(tmp_path, batches="1..64:x2")
    assert found.schedule == schedule(found.scenario, 0.03, 0.02, False)
    assert all(isinstance(entry, ScheduleEntry) for entry in found.schedule)
    assert np.all(np.diff([entry.batch_from for entry in found.schedule]) > 0)


# ------------------------------------------------------------------------------------------------ why it is off


def test_off_says_why() -> None:
    """Not tried, not to be trusted, and not worth it are three answers."""

    def reason(**options: Any) -> str | None:
        return run_recommend(shipped(), Options(**options), Limits(batch=8)).off_because

    assert reason() is None
    assert reason(draft_lengths="9,10") == (
        "every draft length asked for lies past the measured acceptance; --assume lets them in"
    )
    assert (reason(context=8192, drafter="eagle3") or "").startswith(
        "no draft length can be used: llama-3.1-8b-eagle3 was trained on"
    )
    assert reason(drafter="none") == "no draft length was asked for"
    assert reason(acceptance_rate=0.01) == "no draft length gains more than 2 %"


def test_off_where_only_the_drafter_does_not_fit_says_so(tmp_path: Path) -> None:
    # 8000 tokens: (1e10 - 0.33e9) / 8e7 = 120 requests fit, beside the drafter (1e10 - 0.372e9) / 8.8e7 = 109
    found = run_recommend(toy_library(tmp_path), toy_options(context=8000), Limits(batch=115))
    assert chosen(found) == (115, 0)
    assert found.off_because is not None
    assert re.fullmatch(r"no draft length can be used: needs .* GB[^;]*", found.off_because)


def bill(state: float) -> MemoryBill:
    """A small one, in bytes; recurrent states are saved for each drafted node."""
    return MemoryBill(
        usable=100,
        target_weights=40,
        draft_weights=10,
        kv_per_request=4,
        draft_kv_per_request=1,
        state_per_request=state,
        saves_states=True,
    )


@pytest.mark.parametrize(
    ("ranks", "state", "drafted", "held"),
    [
        # 100 bytes less 40 of weights and 10 of the drafter's; 4 + 1 of KV a request: 10 on each rank
        (1, 0, 3, [(1, 8, 3), (9, 10, 0)]),
        (2, 0, 3, [(1, 8, 3), (9, 20, 0)]),
        # a state of 1 byte, held once more for each of 3 draft tokens: 50 / 9, 5 on each rank
        (2, 1, 3, [(1, 8, 3), (9, 10, 0)]),
        (1, 1, 3, [(1, 5, 3)]),
        # never drafting: the drafter is not loaded
        (1, 1, 0, [(1, 8, 0), (9, 30, 0)]),
    ],
)
def test_what_a_drafting_server_holds_by_hand(
    ranks: int, state: float, drafted: int, held: list[tuple[int, int, int]]
) -> None:
    scenario = replace(shipped_scenario(), memory=bill(state), layout=Layout(tp=1, gpus=ranks))
    entries = (ScheduleEntry(1, 8, drafted), ScheduleEntry(9, 30, 0))
    assert held_by_a_drafting_server(scenario, entries) == tuple(ScheduleEntry(*entry) for entry in held)
    # a range that begins where memory ends keeps its one batch
    edge = (ScheduleEntry(1, 9, 2), ScheduleEntry(10, 30, 0))
    plain = replace(scenario, memory=bill(0.0), layout=Layout())
    assert held_by_a_drafting_server(plain, edge) == (ScheduleEntry(1, 9, 2), ScheduleEntry(10, 10, 0))


def test_a_drafting_server_holds_the_states_of_a_tree() -> None:
    """50 bytes beside the weights; a request holds 5 of KV, its state and one for each of 8 - 1 nodes: 50 / 13."""
    tree = TreeAcceptance(Tree(4, 8), AcceptanceCurve({3: 2.5}), stated=True)
    scenario = replace(shipped_scenario(), memory=bill(1.0), layout=Layout(), acceptance=tree)
    entries = (ScheduleEntry(1, 8, 3),)
    assert held_by_a_drafting_server(scenario, entries) == (ScheduleEntry(1, 3, 3),)


def test_a_drafting_server_holds_its_drafter_at_every_batch() -> None:
    found = run_recommend(shipped(), Options(), Limits())
    scenario = found.scenario
    largest = int(scenario.memory.largest_batch(1))
    assert found.schedule[-1].draft_length == 0  # without the drafter a few more requests fit
    assert found.schedule[-1].batch_to > largest
    held = held_by_a_drafting_server(scenario, found.schedule)
    assert held[-1].batch_to == largest
    assert held[-1].draft_length > 0
