"""`specdec profiles check`: everything that is wrong with profile files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import chosen_format, destination
from specdec_cli.errors import ProfileError, UsageError

INVALID = ProfileError.exit_code


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            autocompletion=completion.files,
            help="Profile files, or folders: every profile below is checked.",
        ),
    ],
    format: opt.TableOrJson = None,
    output: opt.Output = None,
    force: opt.Force = False,
    debug: opt.Debug = False,
) -> None:
    """Say everything that is wrong with profile files, with line, key, what was expected, and how to mend it.

    Leaves with exit code 3 where anything is wrong.

    Example: specdec profiles check my-gpu.yaml
    """
    style = chosen_format(format, output)
    if style not in ("table", "json"):
        raise UsageError(f"a check is written as table or json, not {style}")
    with destination(output, force) as target:
        from specdec_cli.profiles.plausible import check_profile
        from specdec_cli.profiles.search import profile_files
        from specdec_cli.report.check_pages import check_record, render_check

        checked = [(path, check_profile(path)) for path in profile_files(files)]
        record = check_record(checked)
        target.write(render_check(record, style, **target.look()))
        if record["problems"]:
            raise typer.Exit(INVALID)
