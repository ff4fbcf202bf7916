"""`specdec report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from specdec_cli.cli import limits as lim
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import destination, note_warnings
from specdec_cli.cli.pictures import command_line, need_extra
from specdec_cli.cli.question import ask
from specdec_cli.errors import UsageError

if TYPE_CHECKING:
    from specdec_cli.explore.recommend import Recommendation
    from specdec_cli.profiles.library import Library

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def report(
    context_: typer.Context,
    batch: lim.Batch = None,
    min_interactivity: lim.MinInteractivity = None,
    min_throughput: lim.MinThroughput = None,
    max_tpot_ms: lim.MaxTpotMs = None,
    tie: lim.Tie = None,
    min_gain: lim.MinGain = None,
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
    output: opt.Output = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """One page for a colleague: question, answer, charts, guidelines, settings to copy, sources, how far off it may be.

    The page is one HTML file that works without a network. What is fixed (the batch, or what each user or GPU must get)
    is said as to `recommend`; without it the page holds a draft length for every batch size.

    Example: specdec report --batch 32 -o report.html
    """
    said = locals()
    need_extra("a report")
    with destination(output, force) as target:
        if target.terminal:
            raise UsageError("a report is a page, not text for a terminal: -o report.html writes it")
        from specdec_cli.cli.settings import Paste, engine_settings
        from specdec_cli.explore.recommend import run_recommend
        from specdec_cli.report.chart_data import chart_data
        from specdec_cli.report.image import library as javascript
        from specdec_cli.report.records import infeasible_records, recommend_record
        from specdec_cli.report.report_page import report_page, source_records

        options = opt.options_of(said)
        limits, asked = lim.limits_of(said)
        library = ask(options, profiles)
        found = run_recommend(library, options, limits)
        paste = Paste(found, library, by_batch=not limits.any, model=model)
        record = recommend_record(found, asked=asked, engine_settings=engine_settings(paste))
        note_warnings(record["warnings"])
        page = report_page(
            chart_data(found.sweep, found.choice),
            record,
            infeasible=infeasible_records(found.sweep),
            sources=source_records(_profiles(found)),
            totals=_totals(library),
            command=command_line(context_),
            library=javascript(),
        )
        target.write(page)


def _profiles(found: Recommendation) -> list[tuple[str, str, Any]]:
    """(kind, name, sources) of every profile that the sweep rests on, each once."""
    profiles = {}
    for grid in found.sweep.grids:
        one = grid.scenario
        for kind, record in (
            ("hardware", one.hardware),
            ("model", one.model),
            ("drafter", one.drafter),
            ("acceptance", one.acceptance_profile),
            ("engine", one.engine),
        ):
            if record is not None:
                profiles[kind, record.name] = (kind, record.name, record.sources)
    return list(profiles.values())


def _totals(library: Library) -> list[dict[str, Any]]:
    """Errors against the published measurements known; a file of them that does not load is not this page's matter."""
    from specdec_cli.explore.scenario import Input
    from specdec_cli.explore.validate import validate
    from specdec_cli.report.validate import validate_record

    good, _ = library.every("measurement")
    sources = [loaded.record for loaded in good]
    if not sources:
        return []
    record = validate_record(validate(library, sources, whole=False), inputs={"sources": Input([], "default")})
    totals: list[dict[str, Any]] = record["totals"]
    return [total for total in totals if total["points"]]
