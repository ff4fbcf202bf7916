"""`specdec sweep`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from specdec_cli.cli import options as opt
from specdec_cli.cli.output import chosen_format, destination, note_warnings
from specdec_cli.cli.pictures import TEXT, command_line, draw, drawn_format, text_chart
from specdec_cli.cli.question import ask, deliver

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def sweep(
    context_: typer.Context,
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
    tree_topk: opt.TreeTopk = None,
    verify_width: opt.VerifyWidth = None,
    calibration: opt.Calibration = None,
    assume: opt.Assume = False,
    frontier_only: Annotated[
        bool, typer.Option("--frontier-only", help="List only the points on the Pareto frontier.")
    ] = False,
    plot: Annotated[
        bool,
        typer.Option(
            "--plot", help="Draw the frontier below the table; with -o FILE.html, .svg, .png or .pdf as a picture."
        ),
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
    picture = drawn_format(format, output) if plot else None
    with destination(output, force) as target:
        from specdec_cli.explore.scenario import resolve
        from specdec_cli.explore.sweep import run_sweep
        from specdec_cli.report.records import sweep_record, warning_records
        from specdec_cli.report.render import render_sweep

        asked = opt.options_of(said)
        library = ask(asked, profiles)
        found = run_sweep(resolve(library, asked))
        look = {"log": False, "view": None, "theme": None, "width": None, "command": command_line(context_)}
        if picture is not None and picture != TEXT:
            note_warnings(warning_records(found.notes))
            draw(target, picture, found, None, look)
            return
        record = sweep_record(found, frontier_only=frontier_only)
        chart = f"\n{text_chart(target, found, None, look)}" if picture == TEXT else ""

        def render(record: dict[str, Any], style: str, **seen: Any) -> str:
            return render_sweep(record, style, **seen) + chart

        deliver(record, render, style, target)
