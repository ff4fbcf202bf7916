"""`specdec sweep`."""

from __future__ import annotations

from typing import Annotated

import typer

from specdec_cli.cli import options as opt
from specdec_cli.cli.output import chosen_format, destination
from specdec_cli.cli.question import ask, deliver

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def sweep(
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
    batches: opt.Batches = None,
    draft_lengths: opt.DraftLengths = None,
    calibration: opt.Calibration = None,
    assume: opt.Assume = False,
    frontier_only: Annotated[
        bool, typer.Option("--frontier-only", help="List only the points on the Pareto frontier.")
    ] = False,
    format: opt.Format = None,
    output: opt.Output = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """The (batch, draft length) grid: speed for a user, throughput of a GPU, and the frontier of the two.

    Below the grid stands what speculation gains at equal interactivity, and what the figures rest on.

    Example: specdec sweep --hardware h200-sxm --batches 1,8,64 --draft-lengths 0..5
    """
    said = locals()
    style = chosen_format(format, output)
    with destination(output, force) as target:
        from specdec_cli.explore.scenario import resolve
        from specdec_cli.explore.sweep import run_sweep
        from specdec_cli.report.records import sweep_record
        from specdec_cli.report.render import render_sweep

        asked = opt.options_of(said)
        library = ask(asked, profiles)
        record = sweep_record(run_sweep(resolve(library, asked)), frontier_only=frontier_only)
        deliver(record, render_sweep, style, target)
