"""Host constants: the engine profiles are what the script of tests/fits makes of the published runs, and say so."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import toy_drafter, toy_engine, toy_hardware, toy_model, toy_overheads, toy_source, write_library
from conftest import REPO

from specdec_cli.explore.validate_points import FITTED_ON, recreate
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.measurement import Measurement
from specdec_cli.profiles.schema import Engine

sys.path.insert(0, str(REPO / "tests" / "fits"))
import fit_engines
from fit_engines import PLANS, Plan, Rows, decode_setups, fit, non_negative, solve, with_constants, write

LIBRARY = Library()
ENGINES = REPO / "profiles" / "engines"

Data = dict[str, Any]

TRUTH = {"step_ms": 0.5, "per_request_us": 10.0, "speculation_ms": 0.75, "draft_pass_ms": 0.25}
LOOSE = {name: (value, 100.0 * value) for name, value in TRUTH.items()}
"""Priors so wide that the measured steps alone decide."""


# ---------------------------------------------------------------------------------------------- the profiles


def test_profiles_are_what_the_fit_makes_of_the_published_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """`python tests/fits/fit_engines.py` writes them anew."""
    assert fit_engines.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", PLANS)
def test_every_fitted_profile_names_its_runs_and_their_errors(name: str) -> None:
    source = LIBRARY.engine(name).record.sources["overheads"]
    assert source.kind == "fitted"
    named = source.from_.partition(FITTED_ON)[2]
    assert named
    for measurement in (part.partition(" (setup ")[0].strip() for part in named.split(", ")):
        assert decode_setups(LIBRARY.measurement(measurement).record, name), measurement
    assert " %" in (source.note or "")


def test_a_check_finds_a_profile_that_differs(capsys: pytest.CaptureFixture[str]) -> None:
    found = fit(LIBRARY, "vllm-2025-07")
    engine = LIBRARY.engine("vllm-2025-07").record
    assert fit_engines.differences(found, engine) == []
    other = with_constants(engine, {"step_ms": engine.overheads.step_ms + 0.1})
    assert any("step_ms" in line for line in fit_engines.differences(found, other))


# --------------------------------------------------------------------------------------- the fit, by synthesis


def setup_of(*points: Data, **changes: Any) -> Data:
    return {
        "id": "toy",
        "hardware": "toy-chip",
        "model": "toy-model",
        "drafter": "toy-model-eagle3",
        "engine": "toy-engine",
        "context_tokens": 1000,
        "points": list(points),
        **changes,
    }


def source_of(name: str, *setups: Data, **changes: Any) -> Data:
    return {
        "format": 1,
        "kind": "measurement",
        "name": name,
        "tier": "A",
        "published": "2026-01",
        "origin": "a made-up source of this test",
        "sources": {"*": toy_source()},
        "setups": list(setups),
        **changes,
    }


GRID = [
    {"batch": batch, "draft_length": length, "acceptance_length": 1.0 + length / 2}
    for batch, length in itertools.product((1, 8, 64), (1, 3, 5))
]


def as_measured(library: Library, scale: float = 1.0, **changes: Any) -> Data:
    """A setup whose measured times are the library's own predictions, times `scale`."""
    bases: list[Data] = [{"batch": batch, "draft_length": 0, "base_step_ms": 1.0} for batch in (1, 8, 64)]
    blank = [{**point, "step_ms": 1.0} for point in GRID]
    source = msgspec.convert(source_of("blank", setup_of(*bases, *blank)), Measurement, strict=True)
    filled = recreate(library, source)
    points = []
    for point, found in zip([*bases, *blank], filled, strict=True):
        model = found.predicted["model"]
        key, value = ("base_step_ms", model.base_step) if point["draft_length"] == 0 else ("step_ms", model.step)
        points.append({**point, key: value * 1e3 * scale})  # type: ignore[operator]
    return setup_of(*points, **changes)


def toy_library(root: Path, *measurements: Data, **overheads: float) -> Library:
    constants = dict.fromkeys(TRUTH, 0.0) | overheads
    return Library(
        [
            write_library(
                root,
                toy_hardware(fitted=True),
                toy_model(),
                toy_drafter(),
                toy_engine(overheads=toy_overheads(**constants)),
                *measurements,
            )
        ]
    )


def test_a_fit_finds_the_constants_that_made_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = as_measured(toy_library(tmp_path / "true", **TRUTH))
    library = toy_library(tmp_path / "fit", source_of("one", true))
    monkeypatch.setitem(PLANS, "toy-engine", Plan(LOOSE))
    found = fit(library, "toy-engine")
    for name, value in TRUTH.items():
        assert found.constants[name] == pytest.approx(value, rel=0.03), name
    assert found.sources["one"][:2] == (12, pytest.approx(0.0, abs=0.002))
    assert (found.sweeps, found.named) == (1, ("one",))


def test_a_source_whose_kernels_are_not_ours_hardly_moves_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = toy_library(tmp_path / "true", **TRUTH)
    library = toy_library(
        tmp_path / "fit",
        source_of("one", as_measured(made)),
        source_of("two", as_measured(made)),
        source_of("other-kernels", as_measured(made, scale=2.0)),
        source_of("broken", as_measured(made, scale=3.0, fault="a fault is no measurement of the host")),
        source_of("serving", as_measured(made, scale=3.0, input_tokens=900, output_tokens=200)),
        source_of("hearsay", as_measured(made, scale=3.0), tier="C"),
    )
    monkeypatch.setitem(PLANS, "toy-engine", Plan(LOOSE))
    found = fit(library, "toy-engine")
    assert set(found.sources) == {"one", "two", "other-kernels"}
    assert found.sources["one"][1] < 0.04
    assert found.sources["other-kernels"][1] > 0.4
    # left out, the two agree with one another
    assert found.sources["two"][2] == pytest.approx(found.sources["two"][1], abs=0.03)


def test_a_plan_may_keep_setups_to_report_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = toy_library(tmp_path / "true", **TRUTH)
    library = toy_library(
        tmp_path / "fit",
        source_of("one", as_measured(made), as_measured(made, scale=1.2, id="kept")),
    )
    monkeypatch.setitem(PLANS, "toy-engine", Plan(LOOSE, only={"one": "toy"}))
    found = fit(library, "toy-engine")
    assert found.named == ("one (setup toy)",)
    assert found.sources["one"][1] == pytest.approx(0.0, abs=0.002)
    assert found.reported["one"] == (12, pytest.approx(1 - 1 / 1.2, abs=0.01))


def test_chips_without_kernel_tables_are_reported_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = toy_library(tmp_path / "true", **TRUTH)
    root = tmp_path / "fit"
    toy_library(root, source_of("one", as_measured(made), as_measured(made, id="other", hardware="no-tables")))
    write_library(root, toy_hardware("no-tables", fitted=False))
    monkeypatch.setitem(PLANS, "toy-engine", Plan(LOOSE))
    found = fit(Library([root]), "toy-engine")
    assert found.named == ("one (setup toy)",)
    assert found.reported["one"][0] == 12


def test_without_measurements_the_studys_values_stand() -> None:
    plan = Plan({"step_ms": (0.6, 0.3), "per_request_us": (20.0, 10.0)})
    assert solve([], plan) == pytest.approx([0.6, 20.0])
    # One step of 2 ms that kernels of 1 ms and the two constants (for one request) must fill: the step moves.
    row = Rows("one", True, (), False, np.array([2e-3]), np.array([1e-3]), np.array([[1e-3, 1e-6]]))
    step, request = solve([row], plan)
    assert 0.6 < step < 1.0
    assert request > 20.0


@pytest.mark.parametrize("seed", range(20))
def test_non_negative_least_squares_against_every_active_set(seed: int) -> None:
    random = np.random.default_rng(seed)
    matrix, wanted = random.normal(size=(8, 4)), random.normal(size=8)
    best = np.inf
    for active in itertools.product((False, True), repeat=4):
        trial = np.zeros(4)
        mask = np.array(active)
        if mask.any():
            trial[mask] = np.linalg.lstsq(matrix[:, mask], wanted, rcond=None)[0]
        if (trial >= 0).all():
            best = min(best, float(np.sum((matrix @ trial - wanted) ** 2)))
    found = non_negative(matrix, wanted)
    assert (found >= 0).all()
    assert np.sum((matrix @ found - wanted) ** 2) == pytest.approx(best)


def test_writing_changes_the_constants_their_source_and_nothing_else(tmp_path: Path) -> None:
    shipped = (ENGINES / "vllm-2025-07.yaml").read_text("utf-8")
    path = tmp_path / "vllm-2025-07.yaml"
    path.write_text(shipped.replace("  step_ms: ", "  step_ms: 9").replace("fitted_sweeps: ", "fitted_sweeps: 9"))
    found = fit(LIBRARY, "vllm-2025-07")
    assert write(found, path)
    assert path.read_text("utf-8") == shipped
    assert not write(found, path)


def test_changed_constants_leave_the_rest_of_an_engine() -> None:
    engine: Engine = LIBRARY.engine("vllm-2025-07").record
    changed = with_constants(
        engine, {"step_ms": 3.0, "draft_pass_ms_by_mechanism.mtp": 0.5, "small_kernels_us_per_layer": 4.0}
    )
    assert changed.overheads.step_ms == 3.0
    assert changed.overheads.draft_pass_ms_by_mechanism["mtp"] == 0.5
    assert (
        changed.overheads.draft_pass_ms_by_mechanism["eagle3"] == engine.overheads.draft_pass_ms_by_mechanism["eagle3"]
    )
    assert changed.small_kernels_us_per_layer == 4.0
    assert changed.overheads.speculation_ms == engine.overheads.speculation_ms
