"""`specdec plot`."""

from __future__ import annotations

from typing import Annotated

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import limits as lim
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import destination, note_warnings
from specdec_cli.cli.pictures import (
    PICTURES,
    TEXT,
    THEMES,
    VIEWS,
    command_line,
    draw,
    need_extra,
    one_of,
    picture_style,
)
from specdec_cli.cli.question import ask

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def plot(
    context_: typer.Context,
    batch: lim.Batch = None,
    min_interactivity: lim.MinInteractivity = None,
    min_throughput: lim.MinThroughput = None,
    max_tpot_ms: lim.MaxTpotMs = None,
    log: Annotated[bool, typer.Option("--log", help="Logarithmic axes.")] = False,
    view: Annotated[
        str | None,
        typer.Option(
            "--view",
            metavar="VIEW",
            autocompletion=completion.words(*VIEWS),
            help="What a picture shows, or a page shows first: frontier, speedup, step or acceptance. Default: "
            "frontier.",
        ),
    ] = None,
    theme: Annotated[
        str | None,
        typer.Option(
            "--theme",
            metavar="THEME",
            autocompletion=completion.words(*THEMES),
            help="Of .svg, .png, .pdf: light or dark. Default: light.",
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            "--width", metavar="COLUMNS", min=1, help="Of the chart in text. Default: the terminal's, else 80."
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
    batches: opt.Batches = None,
    draft_lengths: opt.DraftLengths = None,
    calibration: opt.Calibration = None,
    assume: opt.Assume = False,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            autocompletion=completion.words(TEXT, *PICTURES),
            help="chart (text), html, svg, png or pdf. Default: by the ending of --output, else chart.",
        ),
    ] = None,
    output: opt.Output = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """The frontier as a chart in the terminal, as an interactive page, or as a picture.

    Speed for a user against throughput of a GPU, one line without speculation and one for each drafter, and the
    speedup over batch and draft length. With a limit, the point that `recommend` takes is marked.

    Example: specdec plot --model qwen3-8b --drafter eagle3,dflash --batch 32
    """
    said = locals()
    style = picture_style(format, output)
    if view is not None:
        one_of("--view", view, VIEWS)
    if theme is not None:
        one_of("--theme", theme, THEMES)
    if style != TEXT:
        need_extra(f"a picture in {style}")
    with destination(output, force) as target:
        from specdec_cli.explore.recommend import run_recommend
        from specdec_cli.explore.scenario import resolve
        from specdec_cli.explore.sweep import run_sweep
        from specdec_cli.report.records import warning_records

        asked = opt.options_of(said)
        limits, _ = lim.limits_of(said)
        library = ask(asked, profiles)
        if limits.any:
            found = run_recommend(library, asked, limits)
            sweep, choice, notes = found.sweep, found.choice, found.notes
        else:
            sweep = run_sweep(resolve(library, asked))
            choice, notes = None, sweep.notes
        note_warnings(warning_records(notes))
        draw(target, style, sweep, choice, {**said, "command": command_line(context_)})
