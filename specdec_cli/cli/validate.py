"""`specdec validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import chosen_format, destination
from specdec_cli.cli.question import deliver

if TYPE_CHECKING:
    from specdec_cli.profiles.library import Library
    from specdec_cli.profiles.measurement import Measurement

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

MISSED = 5


@app.command()
def validate(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            autocompletion=completion.names("measurement"),
            help="Published sources to compare with, by name or file. Default: all.",
        ),
    ] = None,
    format: opt.Format = None,
    output: opt.Output = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """How far off the model is: published measurements re-created, with errors by source and in total.

    Beside the model stand three simpler predictors on the same points. Exit code 5 where an error exceeds what its
    source, or the total, is held to.

    Example: specdec validate --format markdown
    """
    style = chosen_format(format, output)
    with destination(output, force) as target:
        from specdec_cli.explore.scenario import Input
        from specdec_cli.explore.validate import validate as compare
        from specdec_cli.profiles.library import Library
        from specdec_cli.report.validate import render_validate, validate_record

        library = Library(profiles or ())
        chosen = _measurements(library, sources or [])
        report = compare(library, chosen, whole=not sources)
        names = [source.name for source in chosen]
        inputs = {"sources": Input(names, "option" if sources else "default")}
        deliver(validate_record(report, inputs=inputs), render_validate, style, target)
    if report.missed:
        raise typer.Exit(MISSED)


def _measurements(library: Library, names: list[str]) -> list[Measurement]:
    """The sources named, else all.

    Raises:
        ProfileError: one is unknown or does not load.
    """
    if names:
        return [library.measurement(name).record for name in dict.fromkeys(names)]
    good, bad = library.every("measurement")
    if bad:
        raise bad[0]
    return [loaded.record for loaded in good]
