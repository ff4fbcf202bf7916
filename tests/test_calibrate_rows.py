"""From measured runs to rows and a curve: what is taken, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.explore.calibrate_rows import measured, off_files, with_draft_lengths
from specdec_cli.explore.run_checks import CheckOptions
from specdec_cli.physics.calibrated import VerifyCurve
from specdec_cli.profiles.measured_run import MeasuredRun, RunFile


def run_of(**changes: Any) -> MeasuredRun:
    facts = {
        "file": "x.log",
        "format": "toy",
        "batch": 4.0,
        "draft_length": 2,
        "acceptance_length": 2.0,
        "step_s": 0.012,
    }
    return MeasuredRun(**{**facts, **changes})


def files_of(*runs: MeasuredRun) -> list[RunFile]:
    return [RunFile("x.log", "toy", runs)]


def rows_from(*runs: MeasuredRun, batch: float | None = None) -> Any:
    return measured(files_of(*runs), CheckOptions(), batch=batch, context=512.0)


def test_rows_take_what_the_runs_say() -> None:
    (found,) = rows_from(run_of(context_tokens=700.0)).rows
    assert (found.batch, found.draft_length, found.step_s, found.context) == (4.0, 2, 0.012, 700.0)
    (stated,) = rows_from(run_of(batch=None), batch=8.0).rows
    assert (stated.batch, stated.context) == (8.0, 512.0)


def test_tokens_per_second_become_a_step() -> None:
    """AL 2 x 4 requests in each step at 500 tokens/s: 16 ms."""
    (found,) = rows_from(run_of(step_s=None, output_tokens_per_s=500.0)).rows
    assert found.step_s == pytest.approx(0.016)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"batch": None}, "row_without_batch"),
        ({"draft_length": None}, "row_without_draft_length"),
        ({"step_s": None}, "row_without_step"),
        ({"step_s": None, "acceptance_length": None, "output_tokens_per_s": 9.0}, "row_without_step"),
    ],
)
def test_a_row_that_lacks_something_is_left_out_with_a_word(changes: dict[str, Any], code: str) -> None:
    found = rows_from(run_of(), run_of(**changes))
    assert len(found.rows) == 1
    assert code in [one.code for one in found.findings]
    with pytest.raises(ProfileError, match="nothing to calibrate with"):
        rows_from(run_of(**changes))


def test_what_the_rows_lack_is_said() -> None:
    codes = [one.code for one in rows_from(run_of()).findings]
    assert codes == ["no_off_run", "one_draft_length"]
    off = run_of(draft_length=0, acceptance_length=1.0, step_s=0.010)
    assert [one.code for one in rows_from(off).findings] == ["only_off_run"]
    whole = rows_from(off, run_of(draft_length=1, acceptance_length=1.5, step_s=0.011), run_of())
    assert [one.code for one in whole.findings] == []


def test_a_step_below_the_plain_one_is_said() -> None:
    off = run_of(draft_length=0, acceptance_length=1.0, step_s=0.013)
    found = rows_from(off, run_of(draft_length=1, acceptance_length=1.5, step_s=0.014), run_of())
    assert [one.code for one in found.findings] == ["step_below_plain"]


REFUSED = {
    "nothing accepted": ({"acceptance_length": 1.0}, "nothing was accepted"),
    "more accepted than drafted": ({"acceptance_length": 3.5}, "above D \\+ 1 = 3"),
    "off that drafted": ({"draft_length": 0, "drafted_tokens": 10.0}, "drafted"),
    "repeated prompts": ({"cached_prompt_share": 0.95}, "prefix cache"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        rows_from(run_of(**changes))


def test_tokens_above_what_steps_can_give_are_refused() -> None:
    """(D + 1) B / T0 = 3 x 4 / 10 ms = 1200 tokens/s."""
    off = run_of(draft_length=0, acceptance_length=1.0, step_s=0.010)
    assert len(rows_from(off, run_of(output_tokens_per_s=1100.0)).rows) == 2
    with pytest.raises(ProfileError, match="1300 tokens/s"):
        rows_from(off, run_of(output_tokens_per_s=1300.0))


def test_rounding_never_accepts_more_than_was_drafted() -> None:
    assert rows_from(run_of(acceptance_length=3.004)).rows[0].acceptance_length == 3.0
    assert rows_from(run_of(acceptance_length=None)).rows[0].acceptance_length is None


@pytest.mark.parametrize(("batch", "said"), [(4.1, True), (4.3, False)])  # within 5 % it is the same batch
def test_plain_and_drafting_steps_of_one_batch_are_compared(batch: float, said: bool) -> None:
    off = run_of(draft_length=0, acceptance_length=1.0, step_s=0.013, batch=batch)
    found = [one.message for one in rows_from(off, run_of(step_s=0.009)).findings if one.code == "step_below_plain"]
    assert bool(found) is said
    for message in found:
        assert "a step with D = 2 takes 9 ms, less than a plain one (13 ms) at batch 4" in message


def test_what_cannot_be_used_is_named_with_its_place() -> None:
    with pytest.raises(ProfileError, match=r"x\.log:3-9: no step time and no tokens/s, left out") as caught:
        rows_from(run_of(step_s=None, first_line=3, last_line=9))
    assert caught.value.file == "x.log:3-9"
    with pytest.raises(ProfileError, match="its tokens/s need an acceptance length"):
        rows_from(run_of(step_s=None, acceptance_length=None, output_tokens_per_s=9.0))
    with pytest.raises(ProfileError, match="no batch size in the file, left out; --batch N says it"):
        rows_from(run_of(batch=None))
    with pytest.raises(ProfileError, match="no step time in it") as caught:
        rows_from()
    assert caught.value.file == "x.log"


def pass_of(tokens: int, **changes: Any) -> MeasuredRun:
    """A verify pass over so many tokens."""
    return run_of(measures="verify_pass", verify_width=tokens, draft_length=None, acceptance_length=None, **changes)


def test_a_pass_holds_half_of_its_own_tokens_in_its_mean_context() -> None:
    passes = [pass_of(n, step_s=n / 100, context_tokens=100 + n / 2) for n in (1, 2, 8)]
    assert rows_from(*passes).curve.context == 100.0
    # a pass of the off arm stays a pass
    (file,) = off_files(files_of(*passes))
    assert {run.measures for run in file.runs} == {"verify_pass"}
    assert {run.draft_length for run in file.runs} == {None}


def test_passes_become_a_curve() -> None:
    passes = [
        pass_of(n, step_s=t, batch=1.0, context_tokens=n / 2) for n, t in ((4, 0.04), (1, 0.01), (1, 0.03), (1, 0.02))
    ]
    found = rows_from(*passes)
    assert found.rows == ()
    assert found.curve == VerifyCurve((1, 4), (0.02, 0.04), 0.0)  # the median of one token's
    with pytest.raises(ProfileError, match="no curve"):
        rows_from(passes[0])


def test_an_off_file_without_a_word_is_off_and_one_with_drafts_is_refused() -> None:
    bare = run_of(draft_length=None, acceptance_length=None).found("speculation_not_stated", "said nothing")
    (file,) = off_files(files_of(bare))
    assert (file.runs[0].draft_length, file.runs[0].acceptance_length, file.runs[0].findings) == (0, 1.0, ())
    with pytest.raises(ProfileError, match="should be without speculation drafted"):
        off_files(files_of(run_of()))


def test_draft_lengths_by_file() -> None:
    files = [*files_of(run_of(draft_length=None)), *files_of(run_of(draft_length=None))]
    assert [f.runs[0].draft_length for f in with_draft_lengths(files, [3])] == [3, 3]
    assert [f.runs[0].draft_length for f in with_draft_lengths(files, [1, 5])] == [1, 5]
    assert with_draft_lengths(files, []) == files
    with pytest.raises(UsageError, match="3 times for 2 files"):
        with_draft_lengths(files, [1, 2, 3])
    with pytest.raises(ProfileError, match="--draft-length says 4"):
        with_draft_lengths(files_of(run_of()), [4])
