"""`specdec schema`: the JSON Schema of an answer."""

from __future__ import annotations

from typing import Annotated

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import destination
from specdec_cli.errors import UsageError, did_you_mean

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def schema(
    name: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]",
            autocompletion=completion.answers,
            help="A command (sweep, profiles list), or what stands under `schema` in an answer. Default: list them.",
        ),
    ] = None,
    output: opt.Output = None,
    force: opt.Force = False,
    debug: opt.Debug = False,
) -> None:
    """Print the JSON Schema of what a command writes with `--format json`: keys, types, units, words.

    Without a name: which there are. Profiles have schemas of their own: `specdec profiles schema`.

    Example: specdec schema sweep -o sweep.schema.json
    """
    with destination(output, force) as target:
        from specdec_cli.report.contract.schema import ANSWERS, answer_schema, render_answers
        from specdec_cli.report.json import render_json

        if not name:
            target.write(render_answers(**target.look()))
            return
        wanted = " ".join(name)
        for answer in ANSWERS:
            if wanted in (answer.name, answer.schema, answer.command):
                target.write(render_json(answer_schema(answer)))
                return
        known = [known for answer in ANSWERS for known in (answer.name, answer.command)]
        hint = did_you_mean(wanted, known) or f"known: {', '.join(answer.name for answer in ANSWERS)}"
        raise UsageError(f"no such answer: {wanted}; {hint}")
