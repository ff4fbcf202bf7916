"""`specdec acceptance`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import INFORMATION, chosen_format, destination, note
from specdec_cli.errors import ProfileError, UsageError

if TYPE_CHECKING:
    from specdec_cli.explore.acceptance_report import AcceptanceReport
    from specdec_cli.profiles.library import Library
    from specdec_cli.profiles.measured_run import RunFile
    from specdec_cli.profiles.schema import Drafter

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def acceptance(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Logs, metrics or benchmark results of a serving engine.")
    ],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            autocompletion=completion.run_formats,
            help="Read as this format. Default: recognised from the content.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME",
            autocompletion=completion.names("model"),
            help="The target model that was measured. Default: as the files name it.",
        ),
    ] = None,
    drafter: Annotated[
        str | None,
        typer.Option(
            "--drafter",
            metavar="NAME",
            autocompletion=completion.names("drafter"),
            help="The drafter that was measured; needed for --output.",
        ),
    ] = None,
    draft_length: Annotated[
        int | None,
        typer.Option(
            "--draft-length", metavar="N", help="Tokens drafted per step in the run, where the files do not say it."
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", metavar="NAME", help="Only this data set or bench of the files."),
    ] = None,
    data_set: Annotated[
        str | None,
        typer.Option("--data-set", metavar="TEXT", help="What the prompts were, for the profile and its readers."),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", metavar="T", help="Sampling temperature of the run.", min=0.0)
    ] = None,
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
            help="Write an acceptance profile, which every --acceptance takes. Default: none is written.",
        ),
    ] = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """Acceptance out of your own engine's files: tokens per step by draft length, with an interval.

    Reads server logs (vLLM, SGLang, llama.cpp), Prometheus scrapes (two are a difference), benchmark results and
    traces. Nothing in them is run or fetched. Acceptance lengths count the bonus token. --output writes a profile.

    Example: specdec acceptance server.log --target llama-3.1-8b --drafter llama-3.1-8b-eagle3 -o ours.yaml
    """
    style = chosen_format(format, None)
    _check_options(draft_length, output)
    with ExitStack() as stack:
        target_file = stack.enter_context(destination(output, force)) if output is not None else None
        answer = stack.enter_context(destination(None, force))
        from specdec_cli.explore.acceptance_report import report_acceptance
        from specdec_cli.explore.run_checks import CheckOptions
        from specdec_cli.profiles.library import Library
        from specdec_cli.report.acceptance import acceptance_record, render_acceptance

        library = Library(profiles or ())
        read = _read(files, from_)
        names = _names(library, read, target, drafter, wanted=output is not None)
        options = CheckOptions(
            draft_length=draft_length,
            window_tokens=names.drafter.window_tokens if names.drafter is not None else None,
            cached_prompts=cached_prompts,
            data_set=data_set,
        )
        report = report_acceptance(read, options, workload=workload)
        profile = None
        if output is not None:
            profile = _profile_text(report, Path(output).stem, names, (data_set, temperature))
        given = {
            "files": files,
            "from": from_,
            "target": names.target,
            "drafter": names.drafter.name if names.drafter is not None else None,
            "draft_length": draft_length,
            "workload": workload,
            "data_set": data_set,
            "temperature": temperature,
            "cached_prompts": cached_prompts,
        }
        asked = {"files": files, "from": from_, "target": target, "drafter": drafter}
        inputs = {
            name: {"value": value, "origin": "option" if asked.get(name, value) not in (None, False) else "default"}
            for name, value in given.items()
        }
        if profile is not None and target_file is not None:
            target_file.write(profile)
        record = acceptance_record(report, inputs=inputs, profile=output)
        _say(record["warnings"], names.said)
        answer.write(render_acceptance(record, style, **answer.look()))


class _Names:
    """What the run is about."""

    def __init__(self, target: str | None, drafter: Drafter | None, said: str | None) -> None:
        self.target, self.drafter, self.said = target, drafter, said


def _check_options(draft_length: int | None, output: str | None) -> None:
    if draft_length is not None and draft_length < 1:
        raise UsageError(f"--draft-length must be at least 1, got {draft_length}")
    if output is not None and Path(output).suffix != ".yaml":
        raise UsageError(
            f"--output {output}: it writes an acceptance profile, whose name ends in .yaml; "
            "the answer itself goes to stdout, --format json > FILE keeps it"
        )


def _read(files: list[str], form: str | None) -> list[RunFile]:
    from specdec_cli.cli.progress import ReadingProgress
    from specdec_cli.engines.read.runs import read_runs

    progress = ReadingProgress()
    try:
        return read_runs(files, forced=form, progress=progress)
    finally:
        progress.done()


def _names(library: Library, read: list[RunFile], target: str | None, drafter: str | None, *, wanted: bool) -> _Names:
    """Target and drafter as the library knows them.

    Raises:
        UsageError: --output without one of them. ProfileError: one that is not known.
    """
    name, said = None, None
    if target is not None:
        name = library.model(target).record.name
    else:
        for model in dict.fromkeys(run.model for file in read for run in file.runs if run.model):
            try:
                name = library.model(model, files=False).record.name
            except ProfileError:
                continue
            said = f"note [target_from_file]: {model} in the files is taken as --target {name}"
            break
    if wanted and (name is None or drafter is None):
        missing = "--target" if name is None else "--drafter"
        raise UsageError(f"--output needs {missing} NAME: an acceptance profile says what was measured")
    found = library.drafter(drafter, name).record if drafter is not None else None
    return _Names(name, found, said)


def _profile_text(report: AcceptanceReport, name: str, names: _Names, about: tuple[str | None, float | None]) -> str:
    from datetime import date

    from specdec_cli.explore.acceptance_profile import acceptance_profile
    from specdec_cli.profiles.writer import to_yaml

    assert names.target is not None
    assert names.drafter is not None
    data_set, temperature = about
    profile = acceptance_profile(
        report,
        name=name,
        target=names.target,
        drafter=names.drafter.name,
        data_set=data_set,
        measured_by="own measurement",
        checked=date.today().isoformat(),
        temperature=temperature,
    )
    return to_yaml(profile)


def _say(warnings: list[dict[str, Any]], also: str | None) -> None:
    """Warnings and notes on stderr, each with its code."""
    from specdec_cli.profiles.measured_run import NOTE_CODES

    if also is not None:
        note(also)
    for warning in warnings:
        word = "note" if warning["code"] in NOTE_CODES or warning["code"] in INFORMATION else "warning"
        note(f"{word} [{warning['code']}]: {warning['message']}")
