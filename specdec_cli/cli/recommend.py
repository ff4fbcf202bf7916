"""`specdec recommend`."""

from __future__ import annotations

from typing import Annotated

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import chosen_format, destination
from specdec_cli.cli.question import ask, deliver
from specdec_cli.errors import UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def recommend(
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="N", help="Requests decoding together on one replica.")
    ] = None,
    min_interactivity: Annotated[
        float | None,
        typer.Option(
            "--min-interactivity",
            metavar="X",
            help="The most tokens/s/GPU that still gives each user X tokens/s.",
        ),
    ] = None,
    min_throughput: Annotated[
        float | None,
        typer.Option("--min-throughput", metavar="Y", help="The fastest for a user that still gives Y tokens/s/GPU."),
    ] = None,
    max_tpot_ms: Annotated[
        float | None, typer.Option("--max-tpot-ms", metavar="T", help="At most T ms for each output token of a user.")
    ] = None,
    schedule: Annotated[
        bool,
        typer.Option("--schedule", help="A draft length for every batch size; with --emit, as the engine takes it."),
    ] = False,
    contexts: Annotated[
        str | None,
        typer.Option(
            "--contexts",
            metavar="TOKENS,...",
            help="The schedule by context length too, k = 1024: 1k,8k,32k. Instead of --context.",
        ),
    ] = None,
    explain_guidelines: Annotated[
        bool, typer.Option("--explain-guidelines", help="Show every number that the five guidelines are worked out of.")
    ] = False,
    emit: Annotated[
        str | None,
        typer.Option(
            "--emit",
            metavar="ENGINE",
            autocompletion=completion.emitted,
            help="Print only what to paste into vllm, sglang, tensorrt-llm or llama-cpp, computed for it.",
        ),
    ] = None,
    tie: Annotated[
        float | None,
        typer.Option(
            "--tie", metavar="F", help="Draft lengths this fraction from the best count as equal. Default: 0.03."
        ),
    ] = None,
    min_gain: Annotated[
        float | None,
        typer.Option("--min-gain", metavar="F", help="Off unless the gain exceeds this fraction. Default: 0.02."),
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
    """Which draft length to use, or none, and what it gains.

    Say what is fixed: the batch, or what each user or GPU must get. With none of these the answer is the schedule, a
    draft length for every batch size. Off is an answer too.

    Example: specdec recommend --batch 32 --model llama-3.3-70b --tp 4
    """
    said = locals()
    if emit is not None and format is not None:
        raise UsageError("--emit and --format conflict: --emit prints what to paste, as the engine takes it")
    style = chosen_format(format, output)
    with destination(output, force) as target:
        from functools import partial

        from specdec_cli.cli.settings import Paste, emit_settings, engine_settings, known_engine
        from specdec_cli.engines.settings import FAMILIES
        from specdec_cli.explore.axes import parse_contexts
        from specdec_cli.explore.recommend import Limits, run_recommend
        from specdec_cli.explore.scenario import DEFAULTS, Input
        from specdec_cli.explore.schedules import schedule_by_context
        from specdec_cli.report.records import recommend_record
        from specdec_cli.report.render import render_recommend

        family = known_engine(emit) if emit is not None else None
        options = opt.options_of({**said, "engine": engine or family})
        limits = Limits(
            batch=batch,
            min_interactivity=min_interactivity,
            min_throughput=min_throughput,
            max_tpot_ms=max_tpot_ms,
            tie=DEFAULTS.tie if tie is None else tie,
            min_gain=DEFAULTS.min_gain if min_gain is None else min_gain,
        )
        asked = {
            name: Input(value, "option")
            for name, value in (
                ("batch", batch),
                ("min_interactivity", min_interactivity),
                ("min_throughput", min_throughput),
                ("max_tpot_ms", max_tpot_ms),
            )
            if value is not None
        }
        asked["tie"] = Input(limits.tie, "default" if tie is None else "option")
        asked["min_gain"] = Input(limits.min_gain, "default" if min_gain is None else "option")
        lengths = parse_contexts(contexts, "--contexts") if contexts is not None else None
        if lengths is not None:
            asked["contexts"] = Input(list(lengths), "option")
        if explain_guidelines and not limits.any:
            raise UsageError(
                "--explain-guidelines speaks of one point: give --batch, --min-interactivity, --min-throughput or "
                "--max-tpot-ms"
            )
        library = ask(options, profiles)
        by_context = None
        if lengths is not None:
            by_context = schedule_by_context(library, options, lengths, limits.tie, limits.min_gain)
        found = run_recommend(library, options, limits)
        if family is not None and found.scenario.engine.family in FAMILIES and found.scenario.engine.family != family:
            raise UsageError(
                f"--emit {emit} and --engine {engine} conflict: what to paste is computed for the engine that takes it"
            )
        paste = Paste(found, library, by_batch=schedule or not limits.any, model=model)
        if family is not None:
            emit_settings(paste, family, target)
            return
        record = recommend_record(found, asked=asked, engine_settings=engine_settings(paste), by_context=by_context)
        deliver(record, partial(render_recommend, working=explain_guidelines), style, target)
