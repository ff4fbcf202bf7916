"""`specdec profiles schema`: the JSON Schema of a kind of profile."""

from __future__ import annotations

from typing import Annotated

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import destination
from specdec_cli.errors import UsageError, did_you_mean


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            autocompletion=completion.kinds,
            help="hardware, model, drafter, acceptance, engine, measurement or calibration.",
        ),
    ],
    output: opt.Output = None,
    force: opt.Force = False,
    debug: opt.Debug = False,
) -> None:
    """Print the JSON Schema of a kind of profile, for editors: completion, units, wrong keys as you type.

    In an editor that speaks YAML, the first line `# yaml-language-server: $schema=FILE` switches it on.

    Example: specdec profiles schema hardware -o hardware.json
    """
    with destination(output, force) as target:
        from specdec_cli.profiles.json_schema import json_schema
        from specdec_cli.profiles.kinds import KINDS
        from specdec_cli.report.json import render_json

        if kind not in KINDS:
            raise UsageError(f"no such kind: {kind}; {did_you_mean(kind, KINDS) or 'kinds: ' + ', '.join(KINDS)}")
        target.write(render_json(json_schema(kind)))
