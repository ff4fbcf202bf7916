"""`specdec calibrate`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import INFORMATION, Destination, chosen_format, destination, note
from specdec_cli.errors import UsageError

if TYPE_CHECKING:
    from specdec_cli.engines.calibration_plan import Plan
    from specdec_cli.explore.scenario import Input, Options, Question, Scenario
    from specdec_cli.profiles.library import Library
    from specdec_cli.profiles.measured_run import RunFile
    from specdec_cli.report.contract.measured import PlannedRun

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

ALIASES = {"trtllm": "tensorrt-llm"}


@app.command()
def calibrate(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            help="Your measurements: logs and benchmarks of an engine, or a table with columns batch, draft_length, "
            "acceptance_length, step_ms or tokens_per_s, context.",
        ),
    ] = None,
    off: Annotated[
        list[str] | None,
        typer.Option("--off", metavar="FILE", help="Files of the run without speculation; repeat it for several."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the three runs to make instead, with the engine's own commands.")
    ] = False,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            autocompletion=completion.run_formats,
            help="Read as this format. Default: recognised from the content.",
        ),
    ] = None,
    draft_length: Annotated[
        list[int] | None,
        typer.Option(
            "--draft-length",
            metavar="N",
            help="Tokens drafted per step in the run, where a file does not say it: once for all files, or once for "
            "each.",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch",
            metavar="N",
            help="Requests decoding together, where a file does not say it; with --plan, those to measure. Default "
            "there: 8, 1 for llama-cpp.",
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
    weight_dtype: opt.WeightDtype = None,
    kv_dtype: opt.KvDtype = None,
    cached_prompts: Annotated[
        bool,
        typer.Option(
            "--cached-prompts", help="Take runs whose prompts came from the prefix cache (long conversations)."
        ),
    ] = False,
    format: opt.Format = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.yaml",
            help="Write the calibration, which every --calibration takes. Default: none is written.",
        ),
    ] = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """Your own measurements, so that the other commands predict your machine: one run helps, three settle it.

    Takes step times at one or more (batch, draft length), or the target's own passes (llama-bench -p 1,2,4,...), and
    fits what your engine and GPUs do beside the profiles. --plan says which runs to make. Nothing is run or fetched.

    Example: specdec calibrate --plan --engine vllm --model llama-3.1-8b
    """
    said = locals()
    if plan:
        _plan(said, files)
        return
    if not files and not off:
        raise UsageError("calibrate needs FILE...: your measurements; --plan prints the runs to make")
    if output is not None and Path(output).suffix != ".yaml":
        raise UsageError(
            f"--output {output}: it writes a calibration, whose name ends in .yaml; the answer itself goes to stdout, "
            "--format json > FILE keeps it"
        )
    style = chosen_format(format, None)
    with ExitStack() as stack:
        target = stack.enter_context(destination(output, force)) if output is not None else None
        answer = stack.enter_context(destination(None, force))
        from datetime import date

        from specdec_cli.explore.calibrate_report import calibration_profile, report_calibration
        from specdec_cli.explore.calibrate_rows import with_draft_lengths
        from specdec_cli.explore.run_checks import CheckOptions
        from specdec_cli.profiles.library import Library
        from specdec_cli.profiles.writer import to_yaml
        from specdec_cli.report.calibration import calibration_record, render_calibration

        lengths = draft_length or []
        if any(length < 1 for length in lengths):
            raise UsageError(f"--draft-length must be at least 1, got {min(lengths)}; --off FILE is the run without")
        if batch is not None and batch < 1:
            raise UsageError(f"--batch must be at least 1, got {batch}")
        library = Library(profiles or ())
        asked = opt.options_of(said)
        read = with_draft_lengths(_read(files or [], from_), lengths)
        plain = _read(off or [], from_)
        report = report_calibration(
            library,
            _with_model(asked, library, [*read, *plain]),
            read,
            plain,
            checks=CheckOptions(cached_prompts=cached_prompts),
            batch=None if batch is None else float(batch),
        )
        if output is not None and target is not None:
            made = calibration_profile(report, name=Path(output).stem, checked=date.today().isoformat())
            target.write(to_yaml(made))
        record = calibration_record(report, profile=output, asked=_asked(said))
        text = render_calibration(record, style, **answer.look())
        if style != "table":
            _say(record["warnings"])
        answer.write(text)


def _read(files: list[str], form: str | None) -> list[RunFile]:
    """Tables of the user's own, and whatever an engine wrote."""
    from specdec_cli.cli.progress import ReadingProgress
    from specdec_cli.engines.read.runs import read_runs

    progress = ReadingProgress()
    try:
        return read_runs(files, forced=form, progress=progress, tables=True)
    finally:
        progress.done()


def _with_model(asked: Options, library: Library, files: list[RunFile]) -> Options:
    """The options with the model that the files name, where the user names none and the library knows it."""
    if asked.model is not None:
        return asked
    for name in dict.fromkeys(run.model for file in files for run in file.runs if run.model):
        known = library.known_model(name)
        if known is not None:
            note(f"note [target_from_file]: {name} in the files is taken as --model {known.name}")
            return replace(asked, model=known.name)
    return asked


def _asked(said: dict[str, Any]) -> dict[str, Input]:
    from specdec_cli.explore.scenario import Input

    names = ("files", "off", "from_", "draft_length", "batch", "cached_prompts")
    return {
        name.rstrip("_"): Input(
            said[name] if isinstance(said[name], bool) else said[name] or None,
            "option" if said[name] not in (None, False) else "default",
        )
        for name in names
    }


def _say(warnings: list[dict[str, Any]]) -> None:
    from specdec_cli.profiles.measured_run import NOTE_CODES

    for warning in warnings:
        word = "note" if warning["code"] in NOTE_CODES or warning["code"] in INFORMATION else "warning"
        note(f"{word} [{warning['code']}]: {warning['message']}")


# ---------------------------------------------------------------------------------------------------- plan


def _plan(said: dict[str, Any], files: list[str] | None) -> None:
    if files or said["off"]:
        raise UsageError("--plan and FILE conflict: --plan says what to measure, FILE is what was measured")
    style = chosen_format(said["format"], said["output"])
    with destination(said["output"], said["force"]) as target:
        from specdec_cli.explore.scenario import resolve
        from specdec_cli.profiles.library import Library

        library = Library(said["profiles"] or ())
        options = _measurable(opt.options_of(said))
        question = resolve(library, options)
        if len(question.scenarios) != 1 or question.scenarios[0].drafter is None:
            raise UsageError("--plan is for one setup with a drafter: give one --hardware, --tp and --drafter")
        scenario = question.scenarios[0]
        batch = said["batch"] or (1 if scenario.engine.family == "llama-cpp" else 8)
        made = _planned(library, scenario, options, batch)
        _write_plan(made, question, said, target, style, batch)


def _measurable(options: Options) -> Options:
    """The question with typical acceptance where none is known: the plan is how a user comes to measure it."""
    given = (options.acceptance, options.acceptance_rate, options.acceptance_length, options.assume_acceptance)
    known = options.drafter == "none" or any(value is not None for value in given)
    return options if known else replace(options, assume_acceptance="typical")


def _planned(library: Library, scenario: Scenario, options: Options, batch: int) -> Plan:
    from specdec_cli.cli.settings import drafter_id, expert_groups, target_id
    from specdec_cli.engines.calibration_plan import PlanRequest, plan_runs
    from specdec_cli.explore.grid import evaluate

    assert scenario.drafter is not None
    longest = max(scenario.draft_lengths)
    lengths = tuple(sorted({0, min(1, longest), longest}))
    grid = evaluate(replace(scenario, batches=(batch,), draft_lengths=lengths))
    return plan_runs(
        PlanRequest(
            family=ALIASES.get(scenario.engine.family, scenario.engine.family),
            mechanism=scenario.drafter.mechanism,
            target_id=target_id(scenario, options.model),
            drafter_id=drafter_id(scenario, library),
            tp=scenario.layout.tp,
            data_parallel=scenario.layout.ranks,
            batch=batch,
            draft_lengths=lengths,
            accepted=tuple(float(value) for value in grid.acceptance_length),
            interactivity=tuple(float(value) for value in grid.interactivity[0]),
            block=scenario.drafter.block,
            ep=expert_groups(scenario),
            kv_dtype=options.kv_dtype,
        )
    )


def _write_plan(
    plan: Plan, question: Question, said: dict[str, Any], target: Destination, style: str, batch: int
) -> None:
    from specdec_cli.explore.scenario import Input
    from specdec_cli.report.calibration import plan_record, render_plan

    shared = ("hardware", "tp", "gpus", "ep", "model", "drafter", "engine", "context", "weight_dtype", "kv_dtype")
    given = [f"--{name.replace('_', '-')} {said[name]}" for name in shared if said[name] is not None]
    feed_back = " ".join(["specdec calibrate", plan.feed_back, *given, "-o mine.yaml"])
    runs: list[PlannedRun] = [
        {
            "draft_length": run.draft_length,
            "minutes": run.seconds / 60,
            "server": run.server,
            "client": run.client,
            "forced": run.forced or None,
            "result": run.result,
        }
        for run in plan.runs
    ]
    inputs = {name: question.inputs[name] for name in shared}
    inputs["batch"] = Input(batch, "default" if said["batch"] is None else "option")
    record = plan_record(runs, engine=plan.engine, feed_back=feed_back, notes=plan.notes, inputs=inputs)
    target.write(render_plan(record, style, **target.look()))
