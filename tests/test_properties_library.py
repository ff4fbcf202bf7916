"""Every shipped profile in one answer at least: each model on a chip that holds it, each chip, engine and drafter, each
measured acceptance. A new file is looked at with no change here."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from strategies import CHIPS, ENGINES, LARGEST_CHIP, LIBRARY, MODELS, Case, chip, fitting, sound

from specdec_cli.explore.question import Options
from specdec_cli.explore.sweep import Sweep
from specdec_cli.physics.drafting import LOOKUP


def swept(target: str, engine: str = "vllm", **options: Any) -> Sweep:
    """The sweep of a model on the fewest GPUs that hold it."""
    hardware = next(name for name in ("h200-sxm", LARGEST_CHIP) if fitting(name, target, engine, None))
    sizes = fitting(hardware, target, engine, None)
    tp = str(sizes[min(1, len(sizes) - 1)])  # one more than holds the weights: room for a drafter
    asked = {"batches": "1,7,64", "draft_lengths": "0..4", "context": 512, "assume": True, **options}
    return Case(Options(hardware=hardware, model=target, engine=engine, tp=tp, **asked)).answer()


@pytest.mark.parametrize("name", MODELS)
def test_every_model_on_a_chip_that_holds_it(name: str) -> None:
    sweep = swept(name, drafter="ngram", acceptance_rate=0.5)
    sound(sweep)
    assert 1 in sweep.points.batch
    assert set(sweep.points.draft_length.tolist()) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("name", CHIPS)
def test_every_chip_with_all_of_its_domain_in_tensor_parallel(name: str) -> None:
    gpus = chip(name).link.domain_gpus
    options = Options(hardware=name, model="llama-3.2-1b", drafter="ngram", acceptance_rate=0.5, tp=str(gpus))
    sweep = Case(options).answer()
    sound(sweep)
    assert set(sweep.points.batch.tolist()) == {2**n for n in range(9)}


@pytest.mark.parametrize("target", ["llama-3.1-8b", "deepseek-v3", "qwen3-next-80b-a3b"])
@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_with_plain_latent_and_recurrent_attention(name: str, target: str) -> None:
    for options in ({}, {"context": None, "input_tokens": 512, "output_tokens": 128}):
        sound(swept(target, name, acceptance_rate=0.7, **options))


@pytest.mark.parametrize("name", LIBRARY.names("drafter"))
def test_every_drafter_on_each_of_its_targets(name: str) -> None:
    drafter = LIBRARY.drafter(name).record
    known = [target for target in drafter.targets if LIBRARY.known_model(target) is not None]
    assert known or not drafter.targets
    for target in known or ["llama-3.1-8b", "qwen3-30b-a3b"]:
        points = swept(target, drafter=name, acceptance_rate=0.7).points
        costs = points.draft_s[points.draft_length > 0]
        assert len(costs) > 0
        assert (costs > 0.0).all()
        if drafter.mechanism not in LOOKUP:
            assert (costs > points.target_s.min() / 1000).all()  # a pass reads weights, however few


@pytest.mark.parametrize("name", LIBRARY.names("acceptance"))
def test_every_measured_acceptance_goes_through_its_points(name: str) -> None:
    """At a context that it was measured at, which its target must hold. Where it never falls from one measured draft
    length to the next, neither does what lies between or beyond, up to the hundredth that published figures are rounded
    to: AL 1.35 at D = 3 stands beside rates that add up to 1.352 by D = 2."""
    profile = LIBRARY.acceptance(name).record
    context = next((point.context_tokens for point in profile.points if point.context_tokens is not None), 512)
    options = Options(model=profile.target, drafter=profile.drafter, acceptance=name, context=context, assume=True)
    acceptance = Case(options).question().scenarios[0].acceptance
    assert acceptance is not None
    longest = 3 * max(point.draft_length for point in profile.points)
    curve = {d: found for d in range(longest + 1) if (found := acceptance.estimate(d)) is not None}
    for length, found in curve.items():
        assert 1.0 <= found.low <= found.acceptance_length <= found.high <= 1.0 + length
        assert found.verify_width >= 1 + length
    here = [p for p in profile.points if p.context_tokens in (None, context) and p.acceptance_length is not None]
    for point in here:
        at_this_depth = [p.acceptance_length for p in here if p.draft_length == point.draft_length]
        assert curve[point.draft_length].acceptance_length in at_this_depth  # trees of one depth differ in width
    measured = [found.acceptance_length for found in curve.values() if found.basis == "measured"]
    if measured == sorted(measured):
        lengths = [found.acceptance_length for found in curve.values()]
        assert all(after >= before - 0.005 for before, after in pairwise(lengths))
