"""Random questions over every shipped profile: what holds of a whole answer - its frontier, its order, its choice, its
JSON - whatever was asked, however often, beside whatever else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import (
    DRAFTING,
    LIBRARY,
    ROUNDING,
    Case,
    Within,
    alike,
    by_point,
    cases,
    drafters,
    fitting,
    searched,
    told,
)

from specdec_cli.errors import InfeasibleError
from specdec_cli.explore.recommend import Limits, Recommendation, run_recommend
from specdec_cli.explore.sweep import Points, Sweep
from specdec_cli.report.points import point_records
from specdec_cli.report.records import infeasible_records, sweep_record

CHAINS = Within(kinds=("rate", "lengths"), trees=False)


def strict(text: str) -> Any:
    """JSON without NaN and Infinity."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


# ------------------------------------------------------------------------------------------------ frontier


def on_frontier(x: Sequence[float], y: Sequence[float]) -> list[bool]:
    """Which points none beats: the definition, in O(n^2)."""
    pairs = list(zip(x, y, strict=True))
    return [not any(p >= a and q >= b and (p, q) != (a, b) for p, q in pairs) for a, b in pairs]


@searched(35)
@given(cases(most_batches=8))
def test_both_frontiers_are_the_naive_ones(case: Case) -> None:
    sweep = case.answer()
    points = sweep.points
    x, y = points.interactivity.tolist(), points.throughput.tolist()
    assert points.on_frontier.tolist() == on_frontier(x, y)
    assert sorted(sweep.frontier.tolist()) == np.flatnonzero(points.on_frontier).tolist()
    assert (np.diff(points.interactivity[sweep.frontier]) >= 0).all()
    plain = np.flatnonzero(points.draft_length == 0)
    kept = on_frontier([x[i] for i in plain], [y[i] for i in plain])
    assert sorted(sweep.baseline_frontier.tolist()) == plain[kept].tolist()


@searched(2)
@given(cases(Within(kinds=("rate",), trees=False), serving=False))
def test_the_frontier_of_a_large_grid_is_the_naive_one(case: Case) -> None:
    """Thousands of points, of which most are put aside without being sorted."""
    points = case.but(batches="1..700", draft_lengths="0..8", context=64, assume=True).answer().points
    assume(len(points) > 4096)
    x, y = points.interactivity, points.throughput
    beaten = [bool(((x >= a) & (y >= b) & ((x > a) | (y > b))).any()) for a, b in zip(x, y, strict=True)]
    assert points.on_frontier.tolist() == [not one for one in beaten]


# ------------------------------------------------------------------------- order, duplicates, company: no matter


@st.composite
def lists(draw: st.DrawFn) -> Case:
    """A sweep over several drafters and layouts; one in two over a second chip of the same engine."""
    case = draw(cases(CHAINS))
    options = case.options
    assert options.model is not None
    names = draw(st.lists(st.sampled_from([d.name for d in drafters(options.model)]), min_size=1, max_size=2))
    sizes = fitting(options.hardware or "", options.model, options.engine or "", options.weight_dtype)
    tp = draw(st.lists(st.sampled_from(sizes), min_size=1, max_size=3))
    chips = [options.hardware, draw(st.sampled_from(("h200-sxm", "b200-sxm", "mi300x")))]
    several = draw(st.booleans()) and max(tp) <= 8
    return case.but(
        drafter=",".join(dict.fromkeys([str(options.drafter), *names])),
        hardware=",".join(dict.fromkeys(map(str, chips))) if several else options.hardware,
        tp=",".join(map(str, sorted(set(tp)))),
        gpus=None,
        ep=None,
        weight_dtype=None if several else options.weight_dtype,
    )


def shuffled(data: st.DataObject, text: str | None) -> str:
    """The parts of a list in another order, one of them twice."""
    parts = (text or "").split(",")
    return ",".join(data.draw(st.permutations([*parts, data.draw(st.sampled_from(parts))])))


@searched(30)
@given(lists(), st.data())
def test_the_order_of_lists_and_what_stands_twice_change_nothing(case: Case, data: st.DataObject) -> None:
    names = ("hardware", "drafter", "tp", "batches", "draft_lengths")
    other = case.but(**{name: shuffled(data, getattr(case.options, name)) for name in names})
    one, two = case.answer(), other.answer()
    assert by_point(one) == by_point(two)

    def refused(sweep: Sweep) -> list[str]:
        return sorted(json.dumps(entry, sort_keys=True) for entry in infeasible_records(sweep))

    assert refused(one) == refused(two)


@searched(30)
@given(cases(most_batches=6), st.data())
def test_a_part_of_the_grid_has_the_same_points(case: Case, data: st.DataObject) -> None:
    def some(text: str | None) -> str:
        parts = (text or "").split(",")
        return ",".join(sorted(data.draw(st.sets(st.sampled_from(parts), min_size=1)), key=int))

    part = case.but(batches=some(case.options.batches), draft_lengths=some(case.options.draft_lengths))
    whole, few = by_point(case.answer(), frontier=False), by_point(part.answer(), frontier=False)
    assert few.keys() <= whole.keys()
    for key, point in few.items():
        assert alike(point, whole[key]), key


@searched(30)
@given(lists(), st.data())
def test_a_scenario_alone_is_what_it_is_among_others(case: Case, data: st.DataObject) -> None:
    names = ("hardware", "drafter", "tp")
    alone = case.but(
        **{name: data.draw(st.sampled_from((getattr(case.options, name) or "").split(","))) for name in names}
    )
    together, single = by_point(case.answer(), frontier=False), by_point(alone.answer(), frontier=False)
    assert single.keys() <= together.keys()
    for key, point in single.items():
        assert alike(point, together[key]), key


@searched(10)
@given(cases())
def test_twice_and_in_threads_the_answer_is_the_same_to_the_last_bit(case: Case) -> None:
    once = json.dumps(sweep_record(case.answer()))

    def again(_: int) -> str:
        return json.dumps(sweep_record(case.answer()))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(again, range(4))) == [once] * 4


# -------------------------------------------------------------------------------------------------- the choice


@st.composite
def limited(draw: st.DrawFn) -> tuple[Case, Limits]:
    """A question, and limits that its points straddle."""
    case = draw(cases(DRAFTING))
    if draw(st.booleans()) and case.options.drafter != "none":
        case = case.but(draft_lengths="0..7", assume=True, tree_topk=None, verify_width=None)
    points = case.answer().points
    share = draw(st.floats(0.3, 1.2))
    kind = draw(st.sampled_from(("batch", "min_interactivity", "min_throughput", "max_tpot_ms")))
    chosen = int(draw(st.sampled_from(points.batch.tolist())))
    value = {
        "batch": chosen,
        "min_interactivity": float(points.user_speed.max()) * share,
        "min_throughput": float(points.gpu_output.max()) * share,
        "max_tpot_ms": 1000.0 / (float(points.user_speed.max()) * share),
    }[kind]
    tie, gain = draw(st.sampled_from((0.03, 0.0, 0.2))), draw(st.sampled_from((0.02, 0.0, 0.5)))
    return case, replace(Limits(tie=tie, min_gain=gain), **{kind: value})


def recommended(case: Case, limits: Limits) -> Recommendation | None:
    try:
        return run_recommend(LIBRARY, case.options, limits)
    except InfeasibleError:
        return None


def obeys(points: Points, limits: Limits, slack: float = 0.0) -> np.ndarray:
    """Which points keep the limits."""
    kept = np.ones(len(points), dtype=bool)
    if limits.batch is not None:
        kept &= points.batch == limits.batch
    if limits.min_interactivity is not None:
        kept &= points.user_speed >= limits.min_interactivity * (1 - slack)
    if limits.min_throughput is not None:
        kept &= points.gpu_output >= limits.min_throughput * (1 - slack)
    if limits.max_tpot_ms is not None:
        kept &= 1000.0 / points.user_speed <= limits.max_tpot_ms * (1 + slack)
    return kept


@searched(30)
@given(limited())
def test_the_choice_keeps_its_limits_and_none_is_better_beyond_the_tie(asked: tuple[Case, Limits]) -> None:
    case, limits = asked
    found = recommended(case, limits)
    if found is None:
        without = case.but(draft_lengths=f"0,{case.options.draft_lengths}").answer()
        assert not obeys(without.points, limits, -ROUNDING).any() or limits.batch is None
        return
    points, choice = found.sweep.points, found.choice
    assert choice is not None
    assert obeys(points, limits, ROUNDING)[choice]
    basis = np.array([found.sweep.grids[s].basis[c] for s, c in zip(points.scenario, points.column, strict=True)])
    rivals = obeys(points, limits, -ROUNDING) & ((basis != "extrapolated") | case.options.assume)
    assert basis[choice] != "extrapolated" or case.options.assume
    objective = points.user_speed if limits.min_throughput is not None else points.gpu_output
    best = objective[rivals].max(initial=0.0)
    if points.draft_length[choice]:
        assert objective[choice] >= best * (1 - limits.tie) * (1 - ROUNDING)
        assert points.draft_length[choice] == found.plateau[0]
        plain = rivals & (points.draft_length == 0)
        assert (objective[choice] > objective[plain] * (1 + limits.min_gain)).all()
    else:
        assert best <= objective[choice] * (1 + limits.min_gain) * (1 + ROUNDING)
        assert found.plateau == ()


@searched(12)
@given(cases(DRAFTING))
def test_the_schedule_says_of_every_batch_what_asking_for_it_says(case: Case) -> None:
    """Where a range goes on although another length is the best, its own is on that batch's plateau."""
    case = case.but(batches=",".join(b for b in (case.options.batches or "").split(",") if int(b) <= 256) or "1,7")
    try:
        entries = run_recommend(LIBRARY, case.options, Limits()).schedule
    except InfeasibleError:
        return
    for before, after in pairwise(entries):
        assert before.batch_to + 1 == after.batch_from
        assert before.draft_length != after.draft_length
    for entry in entries[:3]:
        for batch in {entry.batch_from, entry.batch_to}:
            found = recommended(case, Limits(batch=batch))
            if found is not None and case.options.input_tokens is None:
                assert found.choice is not None
                length = int(found.sweep.points.draft_length[found.choice])
                assert entry.draft_length in (length, *found.plateau), batch


# ------------------------------------------------------------------------------------------------------ JSON


@searched(30)
@given(cases())
def test_json_comes_back_as_it_went(case: Case) -> None:
    record = sweep_record(case.answer())
    text = json.dumps(record, allow_nan=False)
    assert strict(text) == record
    assert strict(json.dumps(strict(text))) == record
    assert "not_finite" not in {warning["code"] for warning in record["warnings"]}


@searched(10)
@given(cases())
def test_the_command_line_prints_the_points_of_the_sweep(case: Case) -> None:
    sweep = case.answer()
    code, out, err = told("sweep", *case.arguments(), "--format", "json")
    assert code == 0, err
    record = strict(out)
    assert record["points"] == point_records(sweep, range(len(sweep.points)))
    assert record["frontier"] == sweep.frontier.tolist()
    assert len(record["infeasible"]) == len(sweep.infeasible)


COMMANDS = (("recommend",), ("recommend", "--batch", "7"), ("explain",), ("compare",))


@searched(6)
@given(cases(most_batches=1), st.sampled_from(COMMANDS))
def test_every_command_answers_in_json_or_says_why_not(case: Case, command: tuple[str, ...]) -> None:
    arguments = case.but(batches=None, draft_lengths=None).arguments()
    code, out, err = told(*command, *arguments, "--format", "json")
    if code == 0:
        assert strict(out)["schema"] == f"specdec.{command[0]}/1"
        return
    assert (code, out) in ((2, ""), (4, "")), err
    assert err.startswith(("error: ", "note: ")), err
