"""`specdec profiles new`: an empty profile to fill in."""

from __future__ import annotations

from typing import Annotated

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import destination, note
from specdec_cli.errors import UsageError


def new(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            autocompletion=completion.words("hardware", "model", "drafter", "acceptance"),
            help="hardware, model, drafter or acceptance.",
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The profile's name, and its file's.")],
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="CHIP",
            autocompletion=completion.names("hardware"),
            help="Hardware: the chip whose kernel figures it starts with. Default: h100-sxm.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it here; `-` is stdout. Default: NAME.yaml."),
    ] = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """Write a profile with every key, its unit, and what is required; `specdec profiles check` leads through it.

    Example: specdec profiles new hardware my-gpu --like l40s
    """
    from specdec_cli.profiles.names import check_name

    check_name(name, "NAME")
    if like is not None and kind != "hardware":
        raise UsageError(f"--like names a chip to take kernel figures from; a {kind} has none")
    with destination(output or f"{name}.yaml", force) as target:
        from datetime import date

        from specdec_cli.profiles.library import Library
        from specdec_cli.profiles.skeletons import DONOR, skeleton

        donor = Library(profiles or ()).hardware(like or DONOR) if kind == "hardware" else None
        target.write(skeleton(kind, name, today=date.today().isoformat(), donor=donor))
        if target.file is not None:
            note(f"{target.file.name}: fill what is marked required, then `specdec profiles check {target.file.name}`")
