"""What is wrong with profile files, for a person and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from specdec_cli import __version__
from specdec_cli.errors import ProfileError

if TYPE_CHECKING:
    from specdec_cli.report.contract.library import CheckAnswer

Record = dict[str, Any]

CHECK: Final = "specdec.check/1"


def check_record(checked: Sequence[tuple[Path, Sequence[ProfileError]]]) -> Record:
    """`specdec.check/1`: the files looked at, and every problem with its place."""
    answer: CheckAnswer = {
        "schema": CHECK,
        "specdec_version": __version__,
        "files": [{"file": str(path), "problems": len(errors)} for path, errors in checked],
        "problems": [
            {"file": str(path), "line": error.line, "key": error.key, "message": error.message, "hint": error.hint}
            for path, errors in checked
            for error in errors
        ],
    }
    return cast(Record, answer)


def render_check(record: Record, style: str, *, width: int | None = None, colour: bool = False) -> str:
    """As text, a problem a line with its hint below; or as json."""
    if style == "json":
        from specdec_cli.report.json import render_json

        return render_json(record)
    from specdec_cli.report.page import Page

    page = Page(width, colour)
    for problem in record["problems"]:
        place = problem["file"] + (f":{problem['line']}" if problem["line"] else "")
        page.say(": ".join(part for part in (place, problem["key"], problem["message"]) if part), indent="    ")
        if problem["hint"]:
            page.say(f"    hint: {problem['hint']}", indent="    ")
    files, wrong = len(record["files"]), sum(1 for file in record["files"] if file["problems"])
    if wrong:
        page.say(f"{_count(len(record['problems']), 'problem')} in {wrong} of {_count(files, 'file')}")
    else:
        page.say(f"{_count(files, 'file')}, nothing wrong")
    return page.text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
