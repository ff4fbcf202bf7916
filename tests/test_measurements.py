"""Shipped measurements: they load, name what is shipped, and say nothing impossible.

Parametrised over the folder, so a newcomer's file is tested with no change here.
"""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
from conftest import REPO

from specdec_cli.profiles import schema
from specdec_cli.profiles.library import Library, check_file
from specdec_cli.profiles.measurement import MeasuredPoint, Setup

LIBRARY = Library()
FILES = sorted((REPO / "profiles" / "measurements").glob("*.yaml"))

LEAST_SOURCES, LEAST_POINTS = 25, 400
MOST_FAULTS = 0.1

# How printed ratios and rounded throughputs may disagree: 1 % of an AL of two digits, 2 % of a ratio of three.
CONSISTENCY = 0.03

TIMES_AND_RATIOS = ("acceptance_length", "base_step_ms", "verify_ms", "draft_ms", "step_ms", "speedup")
POINT_FIELDS = frozenset(MeasuredPoint.__struct_fields__)
SETUP_FIELDS = frozenset(Setup.__struct_fields__)

# Paired runs on one stack, configuration printed, several points: the sources that gates on totals rest on.
TIER_A = {
    "magicdec",
    "sglang-cookbook-kimi-k3",
    "rocm-atom",
    "lmsys-amd-deepseek-v3-mi300x",
    "tensorrt-llm-deepseek-r1-b200",
    "vllm-issue-20780",
    "specforge-dashboard",
    "specdecode-bench-llama-8b-h100",
    "gpt-fast",
}

CHIP_CLASSES = {
    "data centre": r"a100-|h100-|h200-|b200-|b300-|gb300-|mi3",
    "workstation": r"rtx-pro-|dgx-spark",
    "consumer": r"rtx-\d|rx-|strix-",
    "apple": r"apple-",
}


SOURCES = {name: LIBRARY.measurement(name).record for name in LIBRARY.names("measurement")}
SETUPS = [pytest.param(setup, id=f"{name}:{setup.id}") for name, source in SOURCES.items() for setup in source.setups]


def every_point() -> list[tuple[Setup, MeasuredPoint]]:
    """All points, each with its setup."""
    return [(setup, point) for source in SOURCES.values() for setup in source.setups for point in setup.points]


def model_class(model: schema.Model) -> set[str]:
    """dense or mixture, and hybrid where a layer keeps a recurrent state."""
    mixture = any(isinstance(ffn, schema.MoeFfn) for ffn in model.ffn.values())
    recurrent = any(isinstance(kind, schema.GatedDelta | schema.Mamba2) for kind in model.attention.values())
    return {"mixture" if mixture else "dense"} | ({"hybrid"} if recurrent else set())


def test_enough_sources_and_points() -> None:
    assert len(SOURCES) >= LEAST_SOURCES
    assert len(every_point()) >= LEAST_POINTS


def test_every_source_that_may_gate_is_there() -> None:
    assert {name for name, source in SOURCES.items() if source.tier == "A"} >= TIER_A


def test_faults_are_the_exception() -> None:
    faulty = sum(bool(setup.fault) for setup, _ in every_point())
    assert 0 < faulty <= MOST_FAULTS * len(every_point())


def test_all_kinds_of_hardware_and_models_are_there() -> None:
    chips = {setup.hardware for setup, _ in every_point()}
    missing = [name for name, pattern in CHIP_CLASSES.items() if not any(re.match(pattern, chip) for chip in chips)]
    assert not missing
    models = {setup.model for setup, _ in every_point()}
    classes = set(chain.from_iterable(model_class(LIBRARY.model(name).record) for name in models))
    assert classes == {"dense", "mixture", "hybrid"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_is_tidy(path: Path) -> None:
    assert check_file(path) == []
    source = SOURCES[path.stem]
    assert re.fullmatch(r"20\d\d(-\d\d){0,2}", source.published)
    assert source.origin.startswith("https://")
    text = path.read_text(encoding="utf-8")
    points = sum(len(setup.points) for setup in source.setups)
    assert len(re.findall(r"^ {6}- \{batch: .*\}$", text, flags=re.MULTILINE)) == points, "one point a line"


@pytest.mark.parametrize("setup", SETUPS)
def test_names_are_of_shipped_profiles(setup: Setup) -> None:
    chip, engine = LIBRARY.hardware(setup.hardware).record, LIBRARY.engine(setup.engine).record
    model = LIBRARY.model(setup.model).record
    assert (chip.name, engine.name, model.name) == (setup.hardware, setup.engine, setup.model), "a name, not an alias"
    if setup.drafter is not None:
        drafter = LIBRARY.drafter(setup.drafter, target=setup.model).record
        assert drafter.name == setup.drafter
    assert setup.gpus % setup.tp == 0
    assert setup.gpus % setup.ep == 0
    assert chip.link.domain_gpus >= setup.gpus


@pytest.mark.parametrize("setup", SETUPS)
def test_assumptions_are_about_fields(setup: Setup) -> None:
    assert set(setup.assumptions) <= SETUP_FIELDS | POINT_FIELDS
    assert all(reason.strip() for reason in setup.assumptions.values())
    if "acceptance_length" in setup.assumptions:
        assert any(point.acceptance_length is not None for point in setup.points)


@pytest.mark.parametrize("setup", SETUPS)
def test_a_serving_run_states_both_lengths(setup: Setup) -> None:
    assert (setup.input_tokens is None) == (setup.output_tokens is None)
    if setup.input_tokens is not None and setup.output_tokens is not None:
        mean = setup.input_tokens + setup.output_tokens / 2
        assert setup.context_tokens == pytest.approx(mean, rel=0.01)


@pytest.mark.parametrize("setup", SETUPS)
def test_points_are_possible(setup: Setup) -> None:
    for point in setup.points:
        width = point.verify_width or 1 + point.draft_length
        assert any(getattr(point, name) is not None for name in TIMES_AND_RATIOS), "a point measures something"
        assert (point.speedup is None) == (point.speedup_kind is None), "every speedup has a kind, and nothing else"
        assert set(point.derived) <= set(TIMES_AND_RATIOS)
        assert all(getattr(point, name) is not None for name in point.derived), "a derived value is there"
        if point.draft_length == 0:
            assert point.verify_width in (None, 1)
            assert point.acceptance_length is None
            assert point.speedup is None
            assert point.draft_ms is None
            continue
        assert width > 1
        if point.acceptance_length is not None:
            longest = min(width, 1 + point.draft_length)
            assert 1 <= point.acceptance_length <= longest
            assert setup.drafter is not None
        if point.speedup is not None or point.draft_ms is not None:
            assert setup.drafter is not None, "drafts come from somewhere"
        if point.speedup is not None and point.acceptance_length is not None and point.speedup_kind != "throughput":
            assert point.speedup < point.acceptance_length, "a step that verifies is not cheaper than one that does not"
        if point.step_ms is not None:
            assert point.step_ms >= (point.verify_ms or 0.0) + (point.draft_ms or 0.0)


@pytest.mark.parametrize("setup", SETUPS)
def test_step_times_and_ratios_agree(setup: Setup) -> None:
    """speedup = AL x base step / step, at one batch and context; a source may hold several sweeps there."""
    for point in setup.points:
        if point.step_ms is None or point.speedup is None or point.acceptance_length is None:
            continue
        bases = [
            other.base_step_ms
            for other in setup.points
            if other.base_step_ms is not None
            and (other.batch, other.context_tokens) == (point.batch, point.context_tokens)
        ]
        if bases:
            ratios = [point.acceptance_length * base / point.step_ms for base in bases]
            nearest = min(ratios, key=lambda ratio: abs(ratio / point.speedup - 1.0) if point.speedup else 0.0)
            assert nearest == pytest.approx(point.speedup, rel=CONSISTENCY)


def test_derived_acceptance_says_how() -> None:
    """AL from a printed rate, or from nothing printed, is marked; a note or an assumption says how it came about."""
    for source in SOURCES.values():
        for setup in source.setups:
            derived = [point for point in setup.points if "acceptance_length" in point.derived]
            if derived:
                assert "acceptance_length" in setup.assumptions or source.notes or all(p.note for p in derived), (
                    source.name
                )
