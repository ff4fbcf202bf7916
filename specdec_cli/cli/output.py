"""Where an answer goes: stdout, or a file that is written whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import typer

from specdec_cli.errors import OutputError, UsageError, did_you_mean

FORMATS = ("table", "json", "csv", "markdown")
BY_ENDING = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown"}
BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE ended: 128 + 13
PIECE = 4096  # letters; a pipe takes so many bytes at once or not at all
INFORMATION = ("acceptance_source", "acceptance_of_base", "drafter_chosen", "drafter_imported", "model_imported")
"""Codes that say what was chosen; all others warn."""


def chosen_format(said: str | None, output: str | None) -> str:
    """The format asked for, else the one that the file's ending names, else a table.

    Raises:
        UsageError: a format that does not exist.
    """
    if said is None:
        return BY_ENDING.get(Path(output).suffix.casefold(), "table") if output else "table"
    if said in FORMATS:
        return said
    raise UsageError(f"--format {said!r} is not known; {did_you_mean(said, FORMATS) or 'known: ' + ', '.join(FORMATS)}")


@dataclass(slots=True)
class Destination:
    """Somewhere an answer can be written, checked beforehand."""

    file: Path | None
    """None: stdout."""
    draft: Path | None = None
    """The temporary file that takes the place of `file` once it is whole; None: `file` is written as it stands."""

    @property
    def terminal(self) -> bool:
        """Whether a person reads the answer as it is written."""
        return self.file is None and sys.stdout.isatty()

    def look(self) -> dict[str, Any]:
        """Width and colour for a table: those of the terminal, or none of either."""
        if not self.terminal:
            return {"width": None, "colour": False}
        import shutil

        return {"width": shutil.get_terminal_size().columns, "colour": "NO_COLOR" not in os.environ}

    def write(self, text: str) -> None:
        """Write the whole answer.

        Raises:
            OutputError: the disk is full, or the like.
        """
        text = text if text.endswith("\n") else text + "\n"
        if self.file is None:
            _to_stdout(text)
            return
        self._to_file(lambda path: path.write_text(text, encoding="utf-8"))

    def write_bytes(self, content: bytes) -> None:
        """Write a picture.

        Raises:
            OutputError: the disk is full, or the like; a terminal, which would show it as rubbish.
        """
        if self.file is not None:
            self._to_file(lambda path: path.write_bytes(content))
            return
        if self.terminal:
            raise OutputError("a picture is no text for a terminal: --output FILE writes it")
        try:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except OSError as error:
            _abandon_stdout(error)

    def _to_file(self, write: Callable[[Path], object]) -> None:
        assert self.file is not None  # the callers wrote to stdout otherwise
        try:
            write(self.draft or self.file)
            if self.draft is not None:
                self.draft.replace(self.file)
                self.draft = None
        except OSError as error:
            raise OutputError(f"--output {self.file}: {error.strerror or error}; nothing was written") from None


@contextmanager
def destination(output: str | None, force: bool) -> Iterator[Destination]:
    """Check that the answer can be written, before the work; leave nothing behind if it never is.

    Raises:
        OutputError: no such folder, a folder itself, not writable, or there already and not `force`.
    """
    if output is None or output == "-":
        if sys.stdout is None:  # started with stdout closed (`>&-`)
            raise OutputError("stdout is closed; --output FILE writes a file")
        yield Destination(None)
        return
    if not output:
        raise OutputError("--output expects a file's name, or - for stdout")
    file = Path(os.path.realpath(output))  # a link stays a link: what it names is replaced
    mode = _check(file, output, force)
    if mode is not None and not stat.S_ISREG(mode):
        yield Destination(file)  # a pipe or a device takes the answer as it comes
        return
    target = Destination(file, _draft_beside(file, output, mode))
    try:
        yield target
    finally:
        if target.draft is not None:
            with suppress(OSError):
                target.draft.unlink()


def _check(file: Path, said: str, force: bool) -> int | None:
    """The mode of what is there already; None: nothing."""
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        if not os.path.isdir(file.parent):  # noqa: PTH112  (Path.is_dir raises where a parent may not be entered)
            raise OutputError(f"--output {said}: the folder {file.parent} does not exist; make it first") from None
        return None
    except OSError as error:
        raise OutputError(f"--output {said}: {error.strerror or error}") from None
    if stat.S_ISDIR(mode):
        raise OutputError(f"--output {said} is a folder; give a file's name")
    if stat.S_ISREG(mode) and not force:
        raise OutputError(f"--output {said} exists; --force replaces it")
    if not os.access(file, os.W_OK):
        raise OutputError(f"--output {said} is read-only")
    return mode


def _draft_beside(file: Path, said: str, mode: int | None) -> Path:
    """An empty temporary file in the same folder, so that the final rename cannot cross file systems."""
    import tempfile  # only where a file is written: it loads hashes and random numbers

    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".part", dir=file.parent)
        os.close(handle)
        draft = Path(name)
        draft.chmod(stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
    except OSError as error:
        raise OutputError(f"--output {said}: cannot write in {file.parent}: {error.strerror or error}") from None
    return draft


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _to_stdout(text: str) -> None:
    try:
        # In pieces: an unbuffered stdout (PYTHONUNBUFFERED) takes a part of a long text and does not say so.
        for start in range(0, len(text), PIECE):
            sys.stdout.write(text[start : start + PIECE])
        sys.stdout.flush()
    except OSError as error:
        _abandon_stdout(error)


def _abandon_stdout(error: OSError) -> NoReturn:
    """End the run where stdout takes no more; what is still buffered must not complain at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # the reader has seen enough (`| head`)
        raise typer.Exit(BROKEN_PIPE) from None
    raise OutputError(f"stdout: {error.strerror or error}") from None


def note(message: str) -> None:
    """One line on stderr."""
    with suppress(BrokenPipeError):
        typer.echo(message, err=True)


def note_warnings(warnings: list[dict[str, str]]) -> None:
    """The warnings of an answer on stderr, each with its code."""
    for warning in warnings:
        word = "note" if warning["code"] in INFORMATION else "warning"
        note(f"{word} [{warning['code']}]: {warning['message']}")
