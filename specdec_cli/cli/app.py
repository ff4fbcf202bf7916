"""The command line: finds the command asked for, loads that module alone, and turns what went wrong into exit codes."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from specdec_cli import __version__
from specdec_cli.cli import completion
from specdec_cli.errors import SpecdecError, visible

# typer.BadParameter is a usage error, and that a click exception. By way of it both names hold for every typer:
# the newer ones ship a click of their own.
ClickUsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])
ClickError = cast("type[Exception]", typer.BadParameter.__mro__[2])

INTERNAL, USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141


class Entry(NamedTuple):
    """A command: the module that holds its `app`, and its line in the list of commands."""

    module: str
    help: str


COMMANDS = {
    "sweep": Entry("specdec_cli.cli.sweep", "The (batch, draft length) grid, its Pareto frontier, and the gain."),
    "recommend": Entry("specdec_cli.cli.recommend", "Which draft length to use, or none, and what it gains."),
    "compare": Entry("specdec_cli.cli.compare", "Draft mechanisms side by side, each at its best draft length."),
    "explain": Entry("specdec_cli.cli.explain", "One point taken apart: formula, numbers, result, what bounds it."),
    "plot": Entry("specdec_cli.cli.plot", "The frontier as a chart in the terminal, a page, or a picture."),
    "report": Entry("specdec_cli.cli.report", "One page for a colleague: question, answer, charts, sources."),
    "acceptance": Entry("specdec_cli.cli.acceptance", "Acceptance lengths out of logs and benchmarks of an engine."),
    "calibrate": Entry("specdec_cli.cli.calibrate", "Your own measurements, so that predictions are of your machine."),
    "validate": Entry("specdec_cli.cli.validate", "How far off the model is: published measurements re-created."),
    "profiles": Entry("specdec_cli.cli.profiles", "The library of chips, models, drafters, acceptance and engines."),
    "schema": Entry("specdec_cli.cli.schema", "The JSON Schema of what a command writes with --format json."),
}


class CommandsOnDemand(TyperGroup):
    """A group whose command modules are imported when their command runs, so that `--help` stays quick."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported now; None where there is none."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = typer.main.get_command(importlib.import_module(entry.module).app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """What a Tab offers here: the commands, without importing them, or the options."""
        listed = TyperGroup(commands=[TyperCommand(name, help=entry.help) for name, entry in COMMANDS.items()])
        listed.params = self.get_params(ctx)
        return listed.shell_complete(typer.Context(listed), incomplete)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name.

        Raises a usage error that names the nearest commands.
        """
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            close = difflib.get_close_matches(name, COMMANDS, n=3)
            guess = f"; did you mean {' or '.join(close)}?" if close else f"; commands: {', '.join(COMMANDS)}"
            ctx.fail(f"no such command: {name}{guess}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=CommandsOnDemand,
    add_completion=False,  # its options write into a user's start-up files and fail where no shell is found
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"specdec {__version__}")
        raise typer.Exit


def _say_completion(shell: str | None) -> None:
    if shell is not None:
        completion.say_script(typer.main.get_command(app), shell)
        raise typer.Exit


@app.callback()
def specdec(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    show_completion: Annotated[
        str | None,
        typer.Option(
            "--show-completion",
            metavar="SHELL",
            callback=_say_completion,
            is_eager=True,
            autocompletion=completion.words(*completion.SHELLS),
            help="Print what makes Tab complete commands, options and profiles in bash, zsh, fish or powershell.",
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of whatever goes wrong; works after a command too.")
    ] = False,
) -> None:
    """Pareto-frontier explorer for speculative decoding.

    Which draft length, at which batch size, on which hardware, and what it gains. Without options each command
    answers for a default scenario: `specdec recommend --batch 32`.

    Exit codes: 0 an answer (off is one), 1 internal error, 2 wrong usage, 3 a profile or input file is missing or
    invalid, 4 nothing is feasible, 5 validate found a source worse than allowed, 130 interrupted.
    """


def run(arguments: Sequence[str]) -> int:
    """Run the command line on these arguments; the exit code, with whatever went wrong said on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter gets its code instead
    if completion.VARIABLE in os.environ:
        return completion.answer(typer.main.get_command(app))
    debug = "--debug" in arguments
    for argument in arguments:
        if not argument.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in argument):
            return _failed(f"an argument is not valid UTF-8: {argument!a}", USAGE, debug)
    twice = _said_twice(arguments)
    if twice is not None:
        return _failed(f"{twice} is given twice, and only one can count", USAGE, debug)
    try:
        code = typer.main.get_command(app).main(list(arguments), prog_name="specdec", standalone_mode=False)
    except SpecdecError as error:
        return _failed(str(error), error.exit_code, debug)
    except ClickUsageError as error:
        return _misused(error)
    except ClickError as error:
        return _failed(str(error), USAGE, debug)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except SystemExit as leaving:
        if leaving.code != 1:
            raise
        code = BROKEN_PIPE  # typer leaves with 1 where nobody reads its help any more
    except MemoryError:
        return _failed("this needs more memory than there is", INTERNAL, debug)
    except OSError as error:
        if error.errno != errno.ENOSPC:  # answers look after themselves; help and version are typer's
            return _internal(error, debug)
        return _failed(f"stdout: {error.strerror}", USAGE, debug)
    except Exception as error:  # the last line of defence: one line, not a traceback
        return _internal(error, debug)
    if code == INTERRUPTED:
        _say("interrupted")
    return code if isinstance(code, int) else 0


REPEATABLE = {"--profiles", "--off", "--draft-length", "--debug", "--help"}


def _said_twice(arguments: Sequence[str]) -> str | None:
    """A long option that stands twice, though it takes one value."""
    seen: set[str] = set()
    for argument in arguments:
        if argument == "--":
            return None
        name = argument.partition("=")[0]
        if name.startswith("--") and name not in REPEATABLE:
            if name in seen:
                return name
            seen.add(name)
    return None


def _internal(error: Exception, debug: bool) -> int:
    where = "" if debug else "; --debug shows where"
    return _failed(f"internal error, {type(error).__name__}: {error}{where}", INTERNAL, debug)


def _failed(message: str, code: int, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    _say(f"error: {message}")
    return code


def _misused(error: Any) -> int:
    """A usage error in our manner: what is wrong, the nearest right options, where the help is."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        _say(error.format_message())
        return USAGE
    message = error.format_message()
    option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and context is not None:
        known = _options_of(context.command)
        word = str(option).lstrip("-")
        close = difflib.get_close_matches(word, known, n=3)
        guess = f"; did you mean {' or '.join(known[one] for one in close)}?" if close else ""
        message = f"no such option: {option}{guess or _owners(str(option))}"
    help_at = f"\n  hint: `{context.command_path} --help` lists the options" if context is not None else ""
    _say(f"error: {message}{help_at}")
    return USAGE


def _options_of(command: Any) -> dict[str, str]:
    """The options of a command, by their names without dashes."""
    return {name.lstrip("-"): name for parameter in command.params for name in parameter.opts if name[:1] == "-"}


def _owners(option: str) -> str:
    """Which other commands have an option; only a mistake pays for loading them."""
    modules = {name: importlib.import_module(entry.module) for name, entry in COMMANDS.items()}
    owners = [name for name, one in modules.items() if option in _options_of(typer.main.get_command(one.app)).values()]
    return f"; {' and '.join(owners)} {'has' if len(owners) == 1 else 'have'} it" if owners else ""


def _say(message: str) -> None:
    with suppress(OSError):
        typer.echo(visible(message), err=True)
