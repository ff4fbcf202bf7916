"""`specdec explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from specdec_cli.cli import options as opt
from specdec_cli.cli.output import chosen_format, destination
from specdec_cli.cli.question import ask, deliver
from specdec_cli.errors import UsageError

if TYPE_CHECKING:
    from specdec_cli.explore.scenario import Question

AXES = {"--batch": "--batches", "--draft-length": "--draft-lengths"}

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def explain(
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", help="Requests decoding together on one replica. Default: 8."),
    ] = None,
    draft_length: Annotated[
        int | None,
        typer.Option(
            "--draft-length", metavar="D", help="Tokens drafted per step, 0 is off. Default: the recommended length."
        ),
    ] = None,
    hardware: opt.Hardware = None,
    tp: opt.Tp = None,
    gpus: opt.Gpus = None,
    ep: opt.Ep = None,
    model: opt.Model = None,
    drafter: opt.Drafter = None,
    engine: opt.Engine = None,
    context: opt.Context = None,
    input_tokens: opt.InputTokens = None,
    output_tokens: opt.OutputTokens = None,
    weight_dtype: opt.WeightDtype = None,
    kv_dtype: opt.KvDtype = None,
    acceptance: opt.Acceptance = None,
    acceptance_rate: opt.AcceptanceRate = None,
    acceptance_length: opt.AcceptanceLength = None,
    assume_acceptance: opt.AssumeAcceptance = None,
    batches: Annotated[
        str | None, typer.Option("--batches", metavar="N", help="The same as --batch: one point has one batch.")
    ] = None,
    draft_lengths: Annotated[
        str | None,
        typer.Option("--draft-lengths", metavar="D", help="The same as --draft-length: one point has one."),
    ] = None,
    tree_topk: opt.TreeTopk = None,
    verify_width: opt.VerifyWidth = None,
    calibration: opt.Calibration = None,
    assume: opt.Assume = False,
    format: opt.Format = None,
    output: opt.Output = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """One point taken apart: where the time of its passes goes, operation by operation.

    The formula, its numbers, the result; for each operation FLOPs, bytes, rows, achieved rates, time, what bounds it,
    and between which bounds its time lies; then drafting, the engine's overheads, AL and speedup.

    Example: specdec explain --batch 8 --draft-length 3
    """
    said = locals()
    style = chosen_format(format, output)
    with destination(output, force) as target:
        from specdec_cli.explore.explain import explain as take_apart
        from specdec_cli.explore.scenario import DEFAULTS, Input, resolve
        from specdec_cli.report.explain import explain_record
        from specdec_cli.report.explain_page import render_explain

        rows = _one(batch, batches, "--batch", 1)
        length = _one(draft_length, draft_lengths, "--draft-length", 0)
        asked = opt.options_of({**said, "batches": None, "draft_lengths": None})
        question = resolve(ask(asked, profiles), asked)
        _check(question, length)
        at = DEFAULTS.explained_batch if rows is None else rows
        found = take_apart(question, at, _recommended(question, at, assume) if length is None else length)
        point = {
            "batch": Input(at, "default" if rows is None else "option"),
            "draft_length": Input(found.draft_length, "default" if length is None else "option"),
        }
        rest = {name: entry for name, entry in question.inputs.items() if name not in ("batches", "draft_lengths")}
        deliver(explain_record(found, inputs={**rest, **point}), render_explain, style, target)


def _one(said: int | None, axis: str | None, option: str, minimum: int) -> int | None:
    """The one value of an option and of the axis of the same name; None: neither was given."""
    from specdec_cli.explore.axes import parse_axis

    name = AXES[option]
    if said is not None and axis is not None:
        raise UsageError(f"{option} and {name} conflict: give one")
    if axis is not None:
        values = parse_axis(axis, name, minimum=minimum)
        if len(values) > 1:
            raise UsageError(f"{name} names {len(values)} values; explain takes one point apart: {option} {values[0]}")
        return values[0]
    if said is not None and said < minimum:
        raise UsageError(f"{option} must be at least {minimum}, got {said}")
    return said


def _check(question: Question, length: int | None) -> None:
    from specdec_cli.explore.acceptance_source import LONGEST_DRAFT

    if len(question.scenarios) > 1:
        raise UsageError("explain takes one point apart: give one --drafter, one --tp and one --hardware")
    if length and question.scenarios[0].drafter is None:
        raise UsageError(f"--draft-length {length} conflicts with --drafter none: without a drafter nothing is drafted")
    if length is not None and length > LONGEST_DRAFT:
        raise UsageError(f"--draft-length: no engine drafts {length} tokens; at most {LONGEST_DRAFT}")


def _recommended(question: Question, batch: int, assume: bool) -> int:
    """The draft length that `recommend` takes at this batch; 0 where that batch is not feasible at all."""
    from dataclasses import replace

    from specdec_cli.explore.grid import evaluate
    from specdec_cli.explore.scenario import DEFAULTS
    from specdec_cli.explore.schedules import best_by_batch

    grid = evaluate(replace(question.scenarios[0], batches=(batch,)))
    return best_by_batch(grid, DEFAULTS.tie, DEFAULTS.min_gain, assume).get(batch, (0, ()))[0]
