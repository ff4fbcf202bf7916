"""Random questions over every shipped profile: what holds of each figure, whatever was asked.

Warnings are errors in these tests, so an overflow, a division by zero or a NaN on the way is a failure too.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import DRAFTING, ROUNDING, Case, Within, alike, axis, by_point, cases, searched, some_rates

from specdec_cli.errors import InfeasibleError
from specdec_cli.explore.explain import explain
from specdec_cli.explore.sweep import Points, run_sweep
from specdec_cli.report.explain import explain_record
from specdec_cli.report.points import point_records
from specdec_cli.report.records import scenario_record
from specdec_cli.units import GIGA, MEGA

RECURRENT_TREES = Within(
    models=("qwen3-next-80b-a3b", "qwen3.5-35b-a3b"), mechanisms=("eagle3",), kinds=("rate",), several_gpus=True
)
"""Each drafted node of a tree may keep a recurrent state."""


FREE_DRAFTS = Within(engines=("gpt-fast",), mechanisms=("ngram", "suffix"), kinds=("rate",))
"""Whose look-ups its engine prices at nothing."""


def test_nearly_every_random_question_has_an_answer() -> None:
    """The properties below discard what has none: they would say nothing if that were much."""
    seen: Counter[str] = Counter()

    @settings(searched(120), max_examples=120)
    @given(cases())
    def ask(case: Case) -> None:
        try:
            points = run_sweep(case.question()).points
        except InfeasibleError:
            seen["nothing feasible"] += 1
            return
        seen["answered"] += 1
        seen["speculating"] += bool((points.draft_length > 0).any())
        seen["serving"] += points.serving_tpot_s is not None
        seen["tree"] += bool((points.verify_width > points.draft_length + 1).any())
        seen["several GPUs"] += case.options.tp != "1"

    ask()
    asked = seen["answered"] + seen["nothing feasible"]
    assert seen["answered"] > 0.85 * asked, seen
    assert seen["speculating"] > 0.6 * asked, seen
    assert seen["serving"] > 0.1 * asked, seen
    assert seen["several GPUs"] > 0.3 * asked, seen
    assert seen["tree"] > 0.02 * asked, seen


@searched(35)
@given(cases())
def test_every_number_is_finite_and_positive(case: Case) -> None:
    points = case.answer().points
    for name in Points.__struct_fields__:
        column = getattr(points, name)
        if column is None or column.dtype.kind != "f":
            continue
        assert np.isfinite(column).all(), name
        if name == "draft_s":
            assert (column[points.draft_length == 0] == 0.0).all()
            assert (column >= 0.0).all()
        else:
            assert (column > 0.0).all(), name


@searched(35)
@given(cases())
def test_acceptance_length_lies_between_one_and_one_more_than_the_draft(case: Case) -> None:
    """A tree accepts one path, so its depth bounds it as a chain's length does."""
    for grid in case.answer().grids:
        most = 1.0 + grid.draft_lengths
        assert (grid.acceptance_low >= 1.0).all()
        assert (grid.acceptance_low <= grid.acceptance_length).all()
        assert (grid.acceptance_length <= grid.acceptance_high).all()
        assert (grid.acceptance_high <= most).all()
        usable = grid.usable.any(axis=0)
        assert (grid.verify_width[usable] >= most[usable]).all()
        if grid.scenario.acceptance_profile is None and grid.scenario.tree is None:
            assert (grid.verify_width == most).all()


@searched(35)
@given(cases())
def test_the_band_holds_the_speedup(case: Case) -> None:
    points = case.answer().points
    off = points.draft_length == 0
    assert (points.speedup_low <= points.speedup * (1 + ROUNDING)).all()
    assert (points.speedup <= points.speedup_high * (1 + ROUNDING)).all()
    for column in (points.speedup, points.speedup_low, points.speedup_high, points.acceptance_length):
        assert (column[off] == 1.0).all()


@searched(35)
@given(cases())
def test_verifying_takes_no_less_than_a_plain_step(case: Case) -> None:
    points = case.answer().points
    assert (points.verify_s >= points.target_s).all()
    off = points.draft_length == 0
    assert (points.verify_s[off] == points.target_s[off]).all()


@searched(35)
@given(cases(Within(trees=False), serving=False))
def test_a_longer_draft_is_never_verified_quicker(case: Case) -> None:
    points = case.answer().points
    for batch in np.unique(points.batch):
        row = points.batch == batch
        order = np.lexsort((points.draft_length[row], points.verify_width[row]))
        # Trees of measured profiles need not widen with their depth; whatever is wider takes longer.
        assert (np.diff(points.verify_s[row][order]) >= 0.0).all()


@searched(35)
@given(cases(serving=False))
def test_a_larger_batch_is_never_quicker(case: Case) -> None:
    points = case.answer().points
    for length in np.unique(points.draft_length):
        column = points.draft_length == length
        for times in (points.target_s, points.verify_s, points.draft_s):
            assert (np.diff(times[column]) >= 0.0).all()


@searched(30)
@given(cases(Within(kinds=("rate",), trees=False), serving=False), st.integers(1, 64), st.integers(1, 64))
def test_no_operation_of_a_wider_pass_or_a_larger_batch_is_quicker(case: Case, one: int, other: int) -> None:
    """Tiles of rows, kernels that take over from others: whatever changes with the number of rows costs no less."""
    short, long = sorted((one, other))
    question = case.but(draft_lengths=axis({0, short, long}), batches="1", assume=True).question()
    scenario = question.scenarios[0]
    endless = replace(scenario.memory, usable=math.inf)
    question = replace(question, scenarios=(replace(scenario, memory=endless),))
    batch = max(map(int, (case.options.batches or "1").split(",")))
    before = explain(question, batch, short)
    for after in (explain(question, batch, long), explain(question, batch + short, short)):
        for narrow, wide in zip(before.verify, after.verify, strict=True):
            assert narrow.seconds <= wide.seconds * (1 + ROUNDING), narrow.name
            assert narrow.bytes <= wide.bytes * (1 + ROUNDING), narrow.name
            assert narrow.flops <= wide.flops * (1 + ROUNDING), narrow.name


@searched(40)
@given(st.one_of(cases(), cases(FREE_DRAFTS)), st.data())
def test_explained_parts_add_up_to_the_step(case: Case, data: st.DataObject) -> None:
    """Operations and overheads to their pass, groups to it too, passes to the step; bounds lie around the time."""
    sweep = case.answer()
    at = data.draw(st.integers(0, len(sweep.points) - 1))
    point = point_records(sweep, [at])[0]
    record = explain_record(explain(sweep.question, point["batch"], point["draft_length"]), inputs={})
    assert alike(record["point"], {key: point[key] for key in record["point"]})
    times = {one["pass"]: one["time_ms"] for one in record["passes"]}
    assert alike(times.get("verify", times["target"]) + times.get("draft", 0.0), point["step_ms"])
    for one in record["passes"]:
        for parts in (one["groups"], [*one["operations"], *one["overheads"]]):
            assert alike(math.fsum(part["time_ms"] for part in parts), one["time_ms"])
            if one["time_ms"]:
                assert alike(math.fsum(part["share"] for part in parts), 1.0)
            for part in parts:
                assert 0.0 <= part["lower_ms"] <= part["time_ms"] * (1 + ROUNDING), part
                assert part["time_ms"] <= part["upper_ms"] * (1 + ROUNDING), part
        assert "calibration" not in {part["name"] for part in one["overheads"]}


@searched(35)
@given(st.one_of(cases(), cases(RECURRENT_TREES)))
def test_a_point_is_feasible_where_its_memory_adds_up(case: Case) -> None:
    """The parts that a record states, put together here once more: weights, caches and states of each request. At the
    largest batches stated, and just past them."""
    stated = scenario_record(case.question().scenarios[0])["memory"]
    edges = {
        n + more for key in ("largest_batch_off", "largest_batch_drafting") if (n := stated[key]) for more in (0, 1)
    }
    sweep = case.but(batches=axis({*map(int, (case.options.batches or "").split(",")), *edges})).answer()
    grid = sweep.grids[0]
    scenario, memory = grid.scenario, scenario_record(grid.scenario)["memory"]
    saved = scenario.engine.recurrent_rollback == "saved_states"
    for row, batch in enumerate(scenario.batches):
        requests = math.ceil(batch / scenario.layout.ranks)
        for column, length in enumerate(scenario.draft_lengths):
            kept = int(grid.verify_width[column]) - 1 if saved else min(length, 1)
            each = memory["kv_mb_per_request"] + memory["state_mb_per_request"] * (1 + kept)
            weights = memory["target_weights_gb_per_gpu"]
            if length:
                each += memory["draft_kv_mb_per_request"]
                weights += memory["draft_weights_gb_per_gpu"]
            needed, usable = weights * GIGA + requests * each * MEGA, memory["usable_gb_per_gpu"] * GIGA
            if not math.isclose(needed, usable, rel_tol=1e-9):
                assert grid.fits[row, column] == (needed < usable), (batch, length)
            largest = {0: memory["largest_batch_off"], max(scenario.draft_lengths): memory["largest_batch_drafting"]}
            if length in largest and largest[length] is not None:
                assert grid.fits[row, column] == (batch <= largest[length]), (batch, length)


@searched(35)
@given(cases())
def test_units_hang_together(case: Case) -> None:
    sweep = case.answer()
    for record in point_records(sweep, range(len(sweep.points))):
        accepted, step_ms, gpus = record["acceptance_length"], record["step_ms"], record["gpus"]
        speed, output = record["interactivity_tokens_per_s_per_user"], record["throughput_tokens_per_s_per_gpu"]
        assert alike(step_ms, record["verify_ms"] + record["draft_ms"])
        assert alike(record["speedup"], accepted * record["target_ms"] / step_ms)
        assert alike(speed, accepted * 1000.0 / step_ms)
        assert alike(output, record["batch"] * speed / gpus)
        if record.get("cost_usd_per_million_tokens") is not None:
            price = sweep.grids[0].scenario.hardware.price_usd_per_hour
            assert price is not None
            assert alike(record["cost_usd_per_million_tokens"] * output * 3600.0 / 1e6, price)
        if "serving_tpot_ms" in record:
            served = record["serving_throughput_tokens_per_s_per_gpu"]
            assert alike(served * gpus * record["serving_tpot_ms"] / 1000.0, record["decode_batch"])
            assert 0.0 < record["decode_batch"] <= record["batch"] * (1 + ROUNDING)


@searched(40)
@given(cases(DRAFTING))
def test_off_is_the_same_with_a_drafter_and_without(case: Case) -> None:
    lengths = case.options.draft_lengths
    beside = by_point(case.but(draft_lengths=f"0,{lengths}").answer(), frontier=False)
    alone = case.but(
        drafter="none",
        draft_lengths="0",
        **dict.fromkeys(("acceptance", "acceptance_rate", "acceptance_length", "tree_topk", "verify_width")),
    )
    off = {key: point for key, point in beside.items() if point["draft_length"] == 0}
    assert off == by_point(alone.answer(), frontier=False)


@searched(35)
@given(cases(Within(kinds=("rate",), trees=False), serving=False), some_rates)
def test_more_acceptance_never_gives_fewer_tokens(case: Case, other: float) -> None:
    """From one rate to a higher one, and from one draft length to a longer one; all accepted is all of the draft."""
    low, high = sorted([case.options.acceptance_rate or 0.0, other])
    assumed = case.but(assume=True)
    fewer, more, all_of_it = (assumed.but(acceptance_rate=rate).answer().points for rate in (low, high, 1.0))
    assert (fewer.acceptance_length <= more.acceptance_length).all()
    assert (all_of_it.acceptance_length == 1.0 + all_of_it.draft_length).all()
    by_hand = [1.0 + math.fsum(high**place for place in range(1, length + 1)) for length in more.draft_length.tolist()]
    assert np.allclose(more.acceptance_length, by_hand, rtol=ROUNDING)
    for points in (fewer, more):
        row = points.batch == points.batch[0]
        assert (np.diff(points.acceptance_length[row]) >= 0.0).all()
        assert (points.acceptance_length[points.draft_length > 0] >= 1.0).all()
