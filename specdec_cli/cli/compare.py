"""`specdec compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import chosen_format, destination
from specdec_cli.cli.question import ask, deliver

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def compare(
    hardware: opt.Hardware = None,
    tp: opt.Tp = None,
    gpus: opt.Gpus = None,
    ep: opt.Ep = None,
    model: opt.Model = None,
    drafter: Annotated[
        str | None,
        typer.Option(
            "--drafter",
            metavar="NAME|FILE,...",
            autocompletion=completion.names("drafter", more=("eagle3", "mtp", "dflash")),
            help="The drafters, or mechanisms (eagle3, mtp, ngram). Default: all whose acceptance is measured.",
        ),
    ] = None,
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
        str | None,
        typer.Option(
            "--batches", metavar="AXIS", help="Requests decoding together, to compare at. Default: 1,8,32,128."
        ),
    ] = None,
    draft_lengths: Annotated[
        str | None,
        typer.Option(
            "--draft-lengths",
            metavar="AXIS",
            help="Tokens drafted per step: one length puts all drafters at it. Default: each at its best, up to the "
            "longest measured.",
        ),
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
    """Draft mechanisms side by side: acceptance, what drafting and verifying cost, memory, speedup and rank.

    Ranked by the computed speedup. What the guidelines' authors think of a mechanism stands beside it as their opinion.

    Example: specdec compare --model qwen3-8b --batches 1,32
    """
    said = locals()
    style = chosen_format(format, output)
    with destination(output, force) as target:
        from specdec_cli.explore.compare import run_compare
        from specdec_cli.report.compare import compare_record, render_compare

        asked = opt.options_of(said)
        record = compare_record(run_compare(ask(asked, profiles), asked))
        deliver(record, render_compare, style, target)
