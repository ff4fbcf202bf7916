"""Charts and pages: the format asked for, the extra that they need, and the writing."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_cli.cli.output import Destination
from specdec_cli.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from specdec_cli.explore.sweep import Sweep

TEXT = "chart"
PICTURES = ("html", "svg", "png", "pdf")
BY_ENDING = {".html": "html", ".htm": "html", ".svg": "svg", ".png": "png", ".pdf": "pdf", ".txt": TEXT, "": TEXT}
VIEWS = ("frontier", "speedup", "step", "acceptance")
THEMES = ("light", "dark")
NEEDED = ("altair", "vl_convert")
PIPED_WIDTH = 80
NOT_RECREATED = {"force", "debug"}


def picture_style(said: str | None, output: str | None) -> str:
    """The format asked for, else the one that the file's ending names, else a chart of text.

    Raises:
        UsageError: a format or an ending that no picture has.
    """
    if said is not None:
        known = (TEXT, *PICTURES)
        if said not in known:
            hint = did_you_mean(said, known) or f"known: {', '.join(known)}"
            raise UsageError(f"--format {said!r} is not known; {hint}")
        return said
    ending = Path(output).suffix.casefold() if output and output != "-" else ""
    if ending not in BY_ENDING:
        raise UsageError(
            f"--output {output}: no picture ends in {ending}; .html, .svg, .png, .pdf and .txt do, and --format says "
            "which where the name does not (`specdec sweep` writes .json, .csv and .md)"
        )
    return BY_ENDING[ending]


def drawn_format(said: str | None, output: str | None) -> str:
    """How `sweep --plot` draws: by the file's ending, else text below the table.

    Raises:
        UsageError: a format with no room for a chart; the extra for pictures is missing.
    """
    ending = Path(output).suffix.casefold() if output else ""
    style = BY_ENDING.get(ending, TEXT) if said is None else TEXT
    if said not in (None, "table") or (style == TEXT and ending in (".json", ".csv", ".md", ".markdown")):
        raise UsageError(
            "--plot draws below the table, or with -o FILE.html, .svg, .png or .pdf; it has no other format"
        )
    if style != TEXT:
        need_extra(f"a picture in {style}")
    return style


def one_of(option: str, said: str, known: tuple[str, ...]) -> str:
    """The value, where it is one of these. Raises UsageError."""
    if said in known:
        return said
    hint = did_you_mean(said, known) or f"known: {', '.join(known)}"
    raise UsageError(f"{option} {said!r} is not known; {hint}")


def need_extra(what: str) -> None:
    """Refuse where the packages that draw pictures are not installed. Raises UsageError."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{what} needs {' and '.join(missing).replace('_', '-')}, an optional part: "
            "pip install 'specdec-cli[plot]' (the chart in the terminal works without)"
        )


def command_line(context: Any) -> str:
    """The command as it was given, option by option, to be run again."""
    words = ["specdec", context.command.name]
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if parameter.name in NOT_RECREATED or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[parameter.name]
        if value is True:
            words.append(parameter.opts[0])
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            words += [parameter.opts[0], str(item)]
    return shlex.join(words)


def draw(target: Destination, style: str, sweep: Sweep, choice: int | None, asked: Mapping[str, Any]) -> None:
    """Draw a sweep and write it.

    style: `chart`, or one of PICTURES. choice: the point to mark. asked: `log`, `view`, `theme`, `width`, `command`.

    Raises:
        OutputError: it cannot be written. UsageError: the view has nothing to show.
    """
    if style == TEXT:
        target.write(text_chart(target, sweep, choice, asked))
        return
    from specdec_cli.report.chart_data import chart_data

    data = chart_data(sweep, choice)
    view = asked["view"] or "frontier"
    if not data.drafting and view in ("speedup", "acceptance"):
        raise UsageError(f"--view {view} shows a drafter, and this sweep has none")
    if style == "html":
        from specdec_cli.report.chart_page import plot_page
        from specdec_cli.report.image import library
        from specdec_cli.report.records import sweep_record

        record = sweep_record(sweep)
        target.write(plot_page(data, record, view=view, command=asked["command"], library=library()))
        return
    from specdec_cli.report.chart_spec import Drawing, static_spec
    from specdec_cli.report.image import image
    from specdec_cli.report.palette import THEMES as COLOURS

    spec = static_spec(data, view, Drawing(log=asked["log"]), COLOURS[asked["theme"] or "light"])
    target.write_bytes(image(spec, style))


def text_chart(target: Destination, sweep: Sweep, choice: int | None, asked: Mapping[str, Any]) -> str:
    """The chart in letters, as wide as the terminal, or 80 columns where nobody watches."""
    from specdec_cli.report.chart import Look, terminal_chart

    seen = target.look()
    width = asked["width"] or seen["width"] or PIPED_WIDTH
    look = Look(width=width, colour=seen["colour"], log=asked["log"], ascii=not _can_show_braille(target))
    return terminal_chart(sweep, choice, look)


def _can_show_braille(target: Destination) -> bool:
    """Whether the letters of the chart exist where it goes; files are UTF-8."""
    if target.file is not None:
        return True
    try:
        "⣿○━★┤".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
