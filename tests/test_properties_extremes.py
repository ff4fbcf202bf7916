"""Questions at the ends of what may be asked, and steps calibrated with whatever a user may have measured."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    DRAFTING,
    ROUNDING,
    Altered,
    Case,
    Within,
    alike,
    axis,
    by_point,
    cases,
    searched,
    sound,
    told,
)

from specdec_cli.explore.explain import explain
from specdec_cli.explore.question import Options, Scenario
from specdec_cli.profiles.calibration import (
    CalibratedRange,
    CalibratedScenario,
    Calibration,
    Constants,
    CorrectionPoint,
    CurvePoint,
    FitErrors,
)
from specdec_cli.profiles.schema import Hardware, Model, MoeFfn
from specdec_cli.report.explain import explain_record

# --------------------------------------------------------------------------------------- the ends of every axis

LONGEST_CONTEXT, LARGEST_BATCH, LONGEST_DRAFT, MOST_EXPERTS = 10_000_000, 1_000_000, 1000, 1024


def endless(hardware: Hardware) -> Hardware:
    """Memory for anything, so that no extreme ends at a refusal."""
    return msgspec.structs.replace(hardware, memory_bytes=1e36)


def boundless(model: Model) -> Model:
    """Any context, and where there are experts, 1024."""
    ffn = {
        key: msgspec.structs.replace(one, experts=MOST_EXPERTS) if isinstance(one, MoeFfn) else one
        for key, one in model.ffn.items()
    }
    return msgspec.structs.replace(model, max_context=10 * LONGEST_CONTEXT, ffn=ffn)


@searched(35)
@given(cases(Within(kinds=("rate", "none"), trees=False)), st.data())
def test_the_largest_batch_context_draft_and_mixture_are_numbers(case: Case, data: st.DataObject) -> None:
    batches = data.draw(st.sets(st.sampled_from((1, LARGEST_BATCH, 10**18 - 1)), min_size=1))
    extreme = case.but(batches=axis(batches), assume=True)
    if case.options.drafter != "none":
        extreme = extreme.but(draft_lengths=f"0,1,{LONGEST_DRAFT}")
    if case.options.input_tokens is None:
        extreme = extreme.but(context=LONGEST_CONTEXT)
    else:
        prompt, answer = data.draw(st.permutations((LONGEST_CONTEXT, 1)))
        extreme = extreme.but(input_tokens=prompt, output_tokens=answer)
    sweep = extreme.answer(Altered(hardware=endless, model=boundless))
    assert not sweep.infeasible
    sound(sweep)


@searched(10)
@given(cases(Within(kinds=("rate",), trees=False), serving=False))
def test_the_command_line_answers_at_the_ends_or_says_why_not(case: Case) -> None:
    extreme = case.but(batches=f"1,{LARGEST_BATCH}", draft_lengths=f"0,{LONGEST_DRAFT}", assume=True)
    code, out, err = told("sweep", *extreme.arguments(), "--format", "json")
    if code == 0:
        assert '"batch": 1000000' in out
    else:
        assert (code, out) == (4, "")
        assert err.startswith("error: no feasible point: 4 refused; at batch 1, draft length 0 on ")
        assert " GB usable on each GPU" in err


# --------------------------------------------------------------------------------------------------- calibrated

some_scales = st.floats(-3.0, 3.0).map(lambda exponent: float(f"{math.exp(exponent):.3g}"))
some_ms = st.floats(0.0, 100.0).map(lambda value: round(value, 2))


@st.composite
def calibrations(draw: st.DrawFn, scenario: Scenario, options: Options) -> Calibration:
    """A calibration of this scenario, of any of the three methods, from figures good and bad."""
    method = draw(st.sampled_from(("fit", "line", "curve")))
    scale = st.just(1.0) if method == "curve" else some_scales
    constants = {
        name: draw(some_ms)
        for name in ("step_ms", "per_request_us", "speculation_ms", "draft_pass_ms", "draft_pass_target_fraction")
    }
    deepest = draw(st.integers(0, 8))
    batches = sorted(draw(st.sets(st.integers(1, 512), min_size=1, max_size=3)))
    widths = sorted(draw(st.sets(st.one_of(st.integers(1, 20), st.integers(21, 300)), min_size=1, max_size=6)))
    worst = draw(st.sampled_from((0.01, 0.5, 1.0, 3.0)))
    layout = scenario.layout
    return Calibration(
        format=1,
        name="mine",
        sources={},
        scenario=CalibratedScenario(
            hardware=scenario.hardware.name,
            tp=layout.tp,
            gpus=layout.gpus,
            ep=layout.ep,
            model=scenario.model.name,
            drafter=scenario.drafter.name if scenario.drafter is not None and draw(st.integers(0, 3)) else None,
            engine=scenario.engine.name,
            weight_dtype=options.weight_dtype,
            kv_dtype=options.kv_dtype,
            context_tokens=scenario.context,
        ),
        method=method,
        trees=draw(st.booleans()),
        prior=Constants(**constants),
        fitted=Constants(memory_scale=draw(scale), compute_scale=draw(scale), **constants),
        correction=[
            CorrectionPoint(batch=float(batch), draft_length=length, factor=draw(some_scales))
            for batch in (batches if method == "line" else [])
            for length in range(deepest + 1)
        ],
        verify_curve=[
            CurvePoint(tokens=width, pass_ms=draw(some_scales)) for width in (widths if method == "curve" else [])
        ],
        verify_curve_context=draw(st.sampled_from((0.0, 512.0))),
        errors=draw(st.sampled_from((None, FitErrors(prior_median=worst, median=worst / 2, worst=worst)))),
        valid=CalibratedRange(batch=[1.0, 512.0], draft_length=[0, deepest], context_tokens=[1.0, 4096.0]),
    )


@searched(60)
@given(cases(), st.data())
def test_calibrated_answers_are_sound(case: Case, data: st.DataObject) -> None:
    own = data.draw(calibrations(case.question().scenarios[0], case.options))
    sweep = case.but(calibration="mine").answer(Altered(calibration=own))
    assert sweep.grids[0].scenario.calibration is own
    sound(sweep)
    points = sweep.points
    step = points.verify_s + points.draft_s
    assert np.allclose(points.speedup, points.acceptance_length * points.target_s / step, rtol=ROUNDING)
    assert np.allclose(
        points.throughput * sweep.grids[0].scenario.layout.gpus * step, points.batch * points.acceptance_length
    )


@searched(30)
@given(cases(serving=False), st.data())
def test_a_calibrated_step_taken_apart_adds_up(case: Case, data: st.DataObject) -> None:
    own = data.draw(calibrations(case.question().scenarios[0], case.options))
    library = Altered(calibration=own)
    sweep = case.but(calibration="mine").answer(library)
    at = data.draw(st.integers(0, len(sweep.points) - 1))
    found = explain(sweep.question, int(sweep.points.batch[at]), int(sweep.points.draft_length[at]))
    record = explain_record(found, inputs={})
    times = {one["pass"]: one["time_ms"] for one in record["passes"]}
    whole = times.get("verify", times["target"]) + times.get("draft", 0.0)
    assert alike(whole, record["point"]["step_ms"])
    for one in record["passes"]:
        parts = [*one["operations"], *one["overheads"]]
        summed = math.fsum(part["time_ms"] for part in parts)
        assert math.isclose(summed, one["time_ms"], rel_tol=1e-8, abs_tol=1e-8 * whole)


@searched(30)
@given(cases(DRAFTING), st.data())
def test_calibrated_off_is_the_same_with_a_drafter_and_without(case: Case, data: st.DataObject) -> None:
    own = data.draw(calibrations(case.question().scenarios[0], case.options))
    library, asked = Altered(calibration=own), case.but(calibration="mine", draft_lengths="0")
    alone = {"drafter": "none", **dict.fromkeys(("acceptance", "acceptance_rate", "acceptance_length", "tree_topk"))}
    beside = by_point(asked.answer(library), frontier=False)
    assert beside == by_point(asked.but(**alone, verify_width=None).answer(library), frontier=False)
