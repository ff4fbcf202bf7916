"""What a shell offers after an option: names of the library and the words that it knows, looked up at the Tab alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, get_args

import typer

VARIABLE = "_SPECDEC_COMPLETE"
"""What the shells' script sets at a Tab, as typer has it."""
SHELLS = ("bash", "zsh", "fish", "powershell")

Offer = Callable[[typer.Context, str], list[str]]
"""The command as typed so far, and the word begun -> what the word may become; nothing: the shell offers its files."""


def say_script(command: Any, shell: str) -> None:
    """Print what a shell's start-up file should run. Raises UsageError for a shell that typer does not know."""
    if shell not in SHELLS:
        from specdec_cli.errors import UsageError, did_you_mean

        hint = did_you_mean(shell, SHELLS) or f"known: {', '.join(SHELLS)}"
        raise UsageError(f"--show-completion {shell!r} is not known; {hint}")
    _typer(command, f"source_{shell}")


def answer(command: Any) -> int:
    """Print what may stand at the word begun, as the shell's script asks in VARIABLE; the exit code."""
    return _typer(command, os.environ[VARIABLE])


def _typer(command: Any, instruction: str) -> int:
    from typer.completion import get_completion_inspect_parameters, shell_complete

    get_completion_inspect_parameters()  # makes the shells known
    return shell_complete(command, {}, "specdec", VARIABLE, instruction)


def looked_up(known: Callable[[], Iterable[str]]) -> Offer:
    """One of the words that `known` gives, which is asked at the Tab alone."""

    def offer(ctx: typer.Context, incomplete: str) -> list[str]:
        return [word for word in known() if word.startswith(incomplete)]

    return offer


def words(*known: str) -> Offer:
    """One of these words."""
    return looked_up(lambda: known)


def names(*kinds: str, more: Iterable[str] = ()) -> Offer:
    """The profiles of these kinds and the words besides, each for the last item of a list: `h100-sxm,b2`.

    kinds: of profile; none: the one that --kind says, else all.
    """

    def offer(ctx: typer.Context, incomplete: str) -> list[str]:
        from specdec_cli.errors import SpecdecError
        from specdec_cli.profiles.kinds import KINDS
        from specdec_cli.profiles.library import Library

        begun, comma, last = incomplete.rpartition(",")
        said = ctx.params.get("kind")
        wanted = kinds or ((said,) if said in KINDS else tuple(KINDS))
        try:
            library = Library(ctx.params.get("profiles") or ())
            found = [name for kind in wanted for name in library.names(kind)]
        except SpecdecError:  # a folder that is not there: the command says so when it runs
            found = []
        taken = begun.split(",")
        known = dict.fromkeys([*more, *found])
        return [begun + comma + name for name in known if name.startswith(last) and name not in taken]

    return offer


def files(ctx: typer.Context, incomplete: str) -> list[str]:
    """Nothing of our own, so that the shell offers its files."""
    return []


@looked_up
def kinds() -> Iterable[str]:
    """The kinds of profiles."""
    from specdec_cli.profiles.kinds import KINDS

    return KINDS


@looked_up
def emitted() -> Iterable[str]:
    """What --emit takes."""
    from specdec_cli.engines.settings import FAMILIES

    return FAMILIES


@looked_up
def run_formats() -> Iterable[str]:
    """What --from takes."""
    from specdec_cli.engines.read.detect import FORMATS

    return FORMATS


@looked_up
def answers() -> Iterable[str]:
    """The answers that have a JSON Schema."""
    from specdec_cli.report.contract.schema import ANSWERS

    return [answer.name for answer in ANSWERS]


@looked_up
def mechanisms() -> Iterable[str]:
    """What --mechanism takes."""
    from specdec_cli.profiles.schema import Mechanism

    return get_args(Mechanism)


@looked_up
def weight_dtypes() -> Iterable[str]:
    """What --weight-dtype takes."""
    from specdec_cli.profiles.schema import WeightDtype

    return get_args(WeightDtype)


@looked_up
def kv_dtypes() -> Iterable[str]:
    """What --kv-dtype takes."""
    from specdec_cli.profiles.schema import KvDtype

    return get_args(KvDtype)
