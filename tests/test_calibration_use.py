"""A calibration written, read back and used in a question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import as_record, toy_calibration, toy_drafter, toy_hardware, toy_kernels, write_yaml
from calibration_toys import ms
from toys import clockwork, toy_library, toy_options

from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.explore.calibrate_report import band_of, calibration_profile, report_calibration
from specdec_cli.explore.calibration_use import LEAST_BAND, correction_of, curve_of
from specdec_cli.explore.grid import evaluate
from specdec_cli.explore.scenario import Question, resolve
from specdec_cli.physics.calibrated import VerifyCurve
from specdec_cli.profiles.load import load_file
from specdec_cli.profiles.measured_run import MeasuredRun, RunFile
from specdec_cli.profiles.writer import to_yaml
from specdec_cli.units import MS


def asked(folder: Path, calibration: dict[str, Any], *more: Any, **options: Any) -> Question:
    path = write_yaml(folder / "mine" / f"{calibration['name']}.yaml", calibration)
    library = toy_library(folder / "lib", *more)
    return resolve(library, replace(toy_options(**options), calibration=str(path)))


def codes(question: Question) -> list[str]:
    return [note.code for note in question.notes]


def test_a_calibration_moves_every_step(tmp_path: Path) -> None:
    """An engine without overheads; calibrated 2 ms a step, 1 ms of entry, 0.5 ms a pass: D = 2 pays 2 + 1 + 2 x 0.5."""
    own = asked(tmp_path, toy_calibration(), batches="1", draft_lengths="0,2", context=1000)
    plain = resolve(toy_library(tmp_path / "plain"), toy_options(batches="1", draft_lengths="0,2", context=1000))
    with_own, without = (evaluate(q.scenarios[0]).times.step_s[0] / MS for q in (own, plain))
    assert with_own - without == pytest.approx([2.0, 4.0])
    assert own.inputs["calibration"].value == "toy-machine"


def test_what_is_not_said_comes_from_the_calibration(tmp_path: Path) -> None:
    path = write_yaml(tmp_path / "toy-machine.yaml", toy_calibration())
    bare = replace(toy_options(), hardware=None, model=None, engine=None, calibration=str(path))
    question = resolve(toy_library(tmp_path / "lib"), bare)
    (scenario,) = question.scenarios
    assert (scenario.hardware.name, scenario.model.name, scenario.drafter_name) == (
        "toy-chip",
        "toy-model",
        "toy-model-eagle3",
    )
    assert scenario.context == 1000
    origins = {
        name: question.inputs[name].origin for name in ("hardware", "model", "engine", "drafter", "context", "tp")
    }
    assert set(origins.values()) == {"calibration"}
    said = resolve(toy_library(tmp_path / "lib2"), replace(bare, hardware="toy-chip", context=700))
    assert (said.inputs["hardware"].origin, said.inputs["context"].origin) == ("option", "option")


@pytest.mark.parametrize(
    ("options", "more", "words"),
    [
        ({"tp": "2"}, (), "tp 2 \\(measured: 1\\)"),
        ({"kv_dtype": "fp8"}, (), "other dtypes"),
        ({"hardware": "toy-chip-2"}, (toy_hardware("toy-chip-2"),), "hardware toy-chip-2"),
    ],
)
def test_another_machine_is_refused(tmp_path: Path, options: dict[str, Any], more: tuple[Any, ...], words: str) -> None:
    if "kv_dtype" in options:
        kernels = toy_kernels()
        kernels["attention"]["fp8"] = dict(kernels["attention"]["bf16"])
        more = (toy_hardware(kernels={"default": kernels}),)
    with pytest.raises(UsageError, match=words):
        asked(tmp_path, toy_calibration(), *more, **options)


def test_in_a_list_it_holds_where_it_was_measured(tmp_path: Path) -> None:
    question = asked(tmp_path, toy_calibration(), tp="1,2", batches="1")
    assert [one.calibration is not None for one in question.scenarios] == [True, False]
    assert "calibration_not_everywhere" in codes(question)


def test_another_drafter_has_the_plain_step_alone(tmp_path: Path) -> None:
    options: dict[str, Any] = {"drafter": "toy-ngram", "acceptance_rate": 0.5, "draft_lengths": "0,2", "batches": "1"}
    question = asked(tmp_path, toy_calibration(), context=1000, **options)
    plain = resolve(toy_library(tmp_path / "plain"), toy_options(context=1000, **options))
    with_own, without = (evaluate(q.scenarios[0]).times.step_s[0] / MS for q in (question, plain))
    assert with_own - without == pytest.approx([2.0, 2.0])  # no fee, no pass
    (said,) = [note.message for note in question.notes if note.code == "calibration_other_drafter"]
    assert said == (
        "toy-machine was measured with toy-model-eagle3: the plain step is calibrated, entry fee and draft passes of "
        "toy-ngram are as the profiles have them"
    )
    band = question.scenarios[0].band
    assert [band.basis(1, length) for length in (0, 1)] == ["calibrated", "extrapolated"]
    none = asked(tmp_path / "off", toy_calibration(), context=1000, drafter="none", batches="1")
    assert "calibration_other_drafter" not in codes(none)


def test_the_band_is_narrow_where_it_was_measured(tmp_path: Path) -> None:
    question = asked(tmp_path, toy_calibration(), batches="1,2,4", draft_lengths="0,2,4", context=1000)
    grid = evaluate(question.scenarios[0])
    wide = grid.scenario.band.relative
    ratio = grid.speedup_high[:, 1:] / grid.speedup[:, 1:]
    # Acceptance as measured has no band of its own at D = 2; inside 3 %, else the profiles'.
    assert ratio[0, 0] == pytest.approx(1 / 0.97)
    assert ratio[1, 0] == pytest.approx(1 / 0.97)  # twice the batch measured
    assert ratio[2, 0] == pytest.approx(1 / (1 - wide))
    assert ratio[0, 1] > 1 / (1 - 0.05)  # past the longest draft measured
    note = next(one.message for one in question.notes if one.code == "calibration_extrapolated")
    assert note == (
        "toy-machine was measured at batch 1, D 0 to 2, context 1000; batch 4 and draft length 4 is beyond it: "
        "extrapolated, with the profiles' band"
    )
    far = asked(tmp_path / "far", toy_calibration(), batches="1,4,8,16", draft_lengths="0..4", context=1000)
    note = next(one.message for one in far.notes if one.code == "calibration_extrapolated")
    assert "; batch 4 to 16 and draft length 3 to 4 is beyond it" in note


def test_inside_nothing_is_extrapolated(tmp_path: Path) -> None:
    question = asked(tmp_path, toy_calibration(), batches="1,2", draft_lengths="0..2", context=1000)
    assert "calibration_extrapolated" not in codes(question)
    far = asked(tmp_path / "far", toy_calibration(), batches="1", draft_lengths="0..2", context=4000)
    assert "context 4000" in next(one.message for one in far.notes if one.code == "calibration_extrapolated")


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    library = toy_library(tmp_path / "lib")
    off = MeasuredRun(file="m.csv", format="table", batch=1.0, draft_length=0, acceptance_length=1.0, step_s=0.012)
    runs = (
        off,
        *(replace(off, draft_length=d, acceptance_length=1 + d / 2, step_s=s) for d, s in ((1, 0.03), (2, 0.013))),
    )
    report = report_calibration(library, toy_options(context=1000), [RunFile("m.csv", "table", runs)])
    assert report.fit is not None
    assert report.fit.method == "line"
    made = calibration_profile(report, name="mine", checked="2026-01-31")
    path = tmp_path / "mine.yaml"
    path.write_text(to_yaml(made), encoding="utf-8")
    loaded = load_file(path, "calibration").record
    assert loaded == made
    assert correction_of(loaded) is not None
    question = resolve(
        library, replace(toy_options(context=1000, batches="1", draft_lengths="0..2"), calibration=str(path))
    )
    assert ms(evaluate(question.scenarios[0]).times.step_s[0]) == pytest.approx([12, 30, 13], rel=1e-3)


def told(root: Path, *runs: MeasuredRun, drafter: str = "toy-ngram", **options: Any) -> Any:
    """What a calibration on the clockwork makes of these runs: (report, profile)."""
    library = toy_library(root, *clockwork())
    asked = toy_options(**{"drafter": drafter, "context": 1, **options})
    report = report_calibration(library, asked, [RunFile("m.csv", "table", runs)])
    return report, calibration_profile(report, name="mine", checked="2026-01-31")


def test_a_profile_says_what_was_measured_and_how_far_off_it_is(tmp_path: Path) -> None:
    # computed: 10.1 ms off at one request; 11 + 0.1 x 4 x 3 = 12.2 at four with D = 2
    off = MeasuredRun(file="m.csv", format="table", batch=1.0, draft_length=0, acceptance_length=1.0, step_s=0.01212)
    on = replace(off, batch=4.0, draft_length=2, acceptance_length=2.25, step_s=0.0122, context_tokens=3.0)
    report, made = told(tmp_path, off, on)
    first, second = made.rows
    assert (first.step_ms, first.prior_ms) == (12.12, pytest.approx(10.1, rel=1e-3))
    assert (second.step_ms, second.prior_ms) == (12.2, pytest.approx(12.2, rel=2e-3))
    assert (second.batch, second.draft_length, second.acceptance_length, second.context_tokens) == (4.0, 2, 2.25, 3.0)
    errors = made.errors
    assert errors.prior_median == pytest.approx((1 - 10.1 / 12.12) / 2, rel=0.01)  # the other row is as computed

    def worst(name: str) -> float:
        return max(abs(getattr(one, name) / one.step_ms - 1) for one in made.rows)

    assert (errors.worst, errors.left_out_worst) == pytest.approx((worst("fitted_ms"), worst("left_out_ms")), rel=1e-3)
    assert band_of(report) == max(LEAST_BAND, errors.worst)
    assert (made.valid.batch, made.valid.draft_length, made.valid.context_tokens) == ([1.0, 4.0], [0, 2], [1.0, 3.0])
    assert (made.trees, made.scenario.drafter, made.scenario.weight_dtype) == (False, "toy-ngram", None)
    # one row alone has nothing to be left out of
    report, made = told(tmp_path / "one", off, weight_dtype="bf16")
    assert (made.rows[0].left_out_ms, made.errors.left_out_worst, made.errors.left_out_median) == (None, None, None)
    assert made.scenario.weight_dtype == "bf16"


def test_a_profile_of_a_tree_is_marked(tmp_path: Path) -> None:
    off = MeasuredRun(file="m.csv", format="table", batch=1.0, draft_length=0, acceptance_length=1.0, step_s=0.0101)
    tree = replace(off, draft_length=2, verify_width=8, acceptance_length=2.0, step_s=0.013)
    _, made = told(tmp_path, off, tree, drafter="toy-model-eagle3")
    assert made.trees
    assert [one.verify_width for one in made.rows] == [None, 8]


def test_a_profile_of_passes_alone_holds_for_one_request(tmp_path: Path) -> None:
    passes = [
        MeasuredRun(file="b", format="bench", measures="verify_pass", batch=1.0, verify_width=n, step_s=s)
        for n, s in ((1, 0.02), (6, 0.03))
    ]
    report, made = told(tmp_path, *passes)
    assert (made.valid.batch, made.valid.draft_length, made.valid.context_tokens) == ([1.0, 1.0], [0, 5], [1.0, 1.0])
    assert (made.rows, made.errors, band_of(report)) == ([], None, None)
    assert made.fitted == made.prior
    assert made.prior.speculation_ms == 1.0  # the clockwork's fee


def test_a_context_past_the_drafters_window_is_said_of_a_calibration(tmp_path: Path) -> None:
    off = MeasuredRun(file="m.csv", format="table", batch=1.0, draft_length=0, acceptance_length=1.0, step_s=0.012)
    on = replace(off, draft_length=2, acceptance_length=2.0, step_s=0.02, context_tokens=3000.0)
    library = toy_library(tmp_path, toy_drafter(window_tokens=2048))
    report = report_calibration(library, toy_options(context=3000), [RunFile("m.csv", "table", (off, on))])
    # once, by the rows that say it; what the question takes for granted (a drafter, a rate of acceptance) is no finding
    found = [one.code for one in report.findings]
    assert found.count("beyond_draft_window") == 1
    assert not [code for code in found if code.startswith(("acceptance", "drafter"))]


def test_a_curve_survives_its_file(tmp_path: Path) -> None:
    library = toy_library(tmp_path / "lib")
    passes = tuple(
        MeasuredRun(file="b.json", format="llama-bench", measures="verify_pass", batch=1.0, verify_width=n, step_s=s)
        for n, s in ((1, 0.02), (2, 0.021), (3, 0.05))
    )
    report = report_calibration(library, toy_options(context=2), [RunFile("b.json", "llama-bench", passes)])
    made = calibration_profile(report, name="curve", checked="2026-01-31")
    path = tmp_path / "curve.yaml"
    path.write_text(to_yaml(made), encoding="utf-8")
    loaded = load_file(path).record
    assert (loaded.method, loaded.errors, loaded.rows) == ("curve", None, [])
    assert curve_of(loaded) == VerifyCurve((1, 2, 3), (0.02, 0.021, 0.05), loaded.verify_curve_context)
    question = resolve(
        library, replace(toy_options(context=2, batches="1", draft_lengths="0..2"), calibration=str(path))
    )
    assert ms(evaluate(question.scenarios[0]).times.verify_s[0]) == pytest.approx([20, 21, 50], rel=1e-3)


def test_lists_and_missing_drafters_are_refused(tmp_path: Path) -> None:
    library = toy_library(tmp_path / "lib")
    off = MeasuredRun(file="m.csv", format="table", batch=1.0, draft_length=0, acceptance_length=1.0, step_s=0.012)
    on = replace(off, draft_length=9, acceptance_length=3.0, step_s=0.02)
    with pytest.raises(UsageError, match="one setup"):
        report_calibration(library, toy_options(tp="1,2"), [RunFile("m.csv", "table", (off,))])
    with pytest.raises(UsageError, match="name the drafter"):
        report_calibration(library, toy_options(drafter="none"), [RunFile("m.csv", "table", (off, on))])
    block = toy_library(tmp_path / "block", toy_drafter("toy-dflash", "dflash"))
    with pytest.raises(UsageError, match="drafts at most 7"):
        report_calibration(block, toy_options(drafter="toy-dflash"), [RunFile("m.csv", "table", (off, on))])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "line"}, "expected `correction`"),
        ({"method": "curve"}, "expected `verify_curve`"),
        ({"correction": [{"batch": 1.0, "draft_length": 1, "factor": 1.1}]}, "draft lengths 0, 1, 2"),
        ({"verify_curve": [{"tokens": 2, "pass_ms": 1.0}, {"tokens": 1, "pass_ms": 1.0}]}, "rising numbers of tokens"),
        ({"valid": {"batch": [8.0, 1.0], "draft_length": [0, 1], "context_tokens": [1.0, 1.0]}}, "smallest, largest"),
    ],
)
def test_a_calibration_that_contradicts_itself(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = write_yaml(tmp_path / "toy-machine.yaml", toy_calibration(**changes))
    with pytest.raises(ProfileError, match=words):
        load_file(path)


def test_the_toy_calibration_is_one() -> None:
    assert as_record(toy_calibration()).scenario.model == "toy-model"
