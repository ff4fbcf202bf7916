"""Where an answer goes: stdout, or a file that is written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import typer

from specdec_cli.errors import OutputError, UsageError, did_you_mean, visible

FORMATS = ("table", "json", "csv", "markdown")
BY_ENDING = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown"}
BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE ended: 128 + 13
PIPE_WAIT_S = 5.0  # for the other end of a pipe; without an end a command would wait for ever
PIECE = 4096  # letters; a pipe takes so many bytes at once or not at all
INFORMATION = ("acceptance_source", "acceptance_of_base", "drafter_chosen", "drafter_imported", "model_imported")
"""Codes that say what was chosen; all others warn."""


def chosen_format(said: str | None, output: str | None) -> str:
    """The format asked for, else the one that the file's ending names, else a table; stdout is made ready for it.

    Raises:
        UsageError: a format that does not exist.
    """
    if said is not None and said not in FORMATS:
        raise UsageError(
            f"--format {said!r} is not known; {did_you_mean(said, FORMATS) or 'known: ' + ', '.join(FORMATS)}"
        )
    by_ending = BY_ENDING.get(Path(output).suffix.casefold(), "table") if output else "table"
    style = said or by_ending
    if style != "table":
        _utf8_stdout()
    return style


def _utf8_stdout() -> None:
    """What a program reads is UTF-8 with plain line feeds whatever the machine, on stdout as in a file."""
    if hasattr(sys.stdout, "reconfigure") and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


@dataclass(slots=True)
class Destination:
    """Somewhere an answer can be written, checked beforehand."""

    file: Path | None
    """None: stdout."""
    force: bool = False
    """Whether a file that is there may be replaced."""
    whole: bool = True
    """Whether the file appears whole or not at all; a pipe or a device takes the answer as it comes."""

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
            OutputError: the disk is full, or the like; a file of that name came to be meanwhile.
        """
        text = text if text.endswith("\n") else text + "\n"
        if self.file is None:
            _to_stdout(text)
            return
        self._to_file(text.encode("utf-8", errors="backslashreplace"))

    def write_bytes(self, content: bytes) -> None:
        """Write a picture.

        Raises:
            OutputError: as `write`; a terminal, which would show it as rubbish.
        """
        if self.file is not None:
            self._to_file(content)
            return
        if self.terminal:
            raise OutputError("a picture is no text for a terminal: --output FILE writes it")
        try:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except OSError as error:
            _abandon_stdout(error)

    def _to_file(self, content: bytes) -> None:
        assert self.file is not None  # the callers wrote to stdout otherwise
        try:
            if self.whole:
                _write_whole(self.file, content, self.force)
            else:
                _write_through(self.file, content)
        except BrokenPipeError:
            raise typer.Exit(BROKEN_PIPE) from None
        except FileExistsError:
            raise OutputError(f"--output {self.file} exists, since a moment ago; --force replaces it") from None
        except OSError as error:
            kept = "; nothing was written" if self.whole else ""
            raise OutputError(f"--output {self.file}: {error.strerror or error}{kept}") from None


def _write_whole(file: Path, content: bytes, force: bool) -> None:
    """Write beside the file and rename, so that no reader and no other run ever sees a part of it."""
    with _draft_beside(file) as (draft, handle):
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(handle)  # a rename that outlives a crash must not outlive what it names
        if not force:
            try:
                os.link(draft, file)  # unlike a rename it fails where another run was first
                return
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                if os.path.lexists(file):
                    raise FileExistsError from None
        with suppress(FileNotFoundError):
            draft.chmod(stat.S_IMODE(file.stat().st_mode))
        draft.replace(file)


@contextmanager
def _draft_beside(file: Path) -> Iterator[tuple[Path, int]]:
    """A new temporary file in the same folder, so that the rename cannot cross file systems; gone in the end."""
    # Named before it exists: an interruption at any moment finds it.
    draft = file.with_name(f".specdec-{os.urandom(8).hex()}.part")
    handle = -1
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        yield draft, handle
    finally:
        with suppress(OSError):
            draft.unlink()


def _write_through(file: Path, content: bytes) -> None:
    """Into a pipe or a device, which is there already."""
    end = time.monotonic() + PIPE_WAIT_S
    while True:
        try:
            handle = os.open(file, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > end:
                raise OSError(errno.ENXIO, "no program reads from this pipe") from None
            time.sleep(0.05)
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)


@contextmanager
def destination(output: str | None, force: bool) -> Iterator[Destination]:
    """Check that the answer can be written, before the work; the file itself appears when it is written.

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
    mode = _check(output, force)
    if mode is not None and not stat.S_ISREG(mode):
        yield Destination(Path(output), force, whole=False)
        return
    file = Path(os.path.realpath(output))  # a link stays a link: what it names is replaced
    try:
        with _draft_beside(file) as (_, handle):
            os.close(handle)
    except OSError as error:
        raise OutputError(f"--output {output}: cannot write in {file.parent}: {error.strerror or error}") from None
    yield Destination(file, force)


def _check(said: str, force: bool) -> int | None:
    """The mode of what is there already; None: nothing."""
    try:
        mode = os.stat(said).st_mode  # noqa: PTH116  (Path cleans up the name: `file/` would be `file`)
    except FileNotFoundError:
        file = Path(os.path.realpath(said))
        if said.endswith("/"):
            raise OutputError(f"--output {said} is a folder's name; give a file's") from None
        if not os.path.isdir(file.parent):  # noqa: PTH112  (Path.is_dir raises where a parent may not be entered)
            raise OutputError(f"--output {said}: the folder {file.parent} does not exist; make it first") from None
        return None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise OutputError(f"--output {said}: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISDIR(mode):
        raise OutputError(f"--output {said} is a folder; give a file's name")
    if stat.S_ISREG(mode) and not force:
        raise OutputError(f"--output {said} exists; --force replaces it")
    if not os.access(said, os.W_OK):
        raise OutputError(f"--output {said} is read-only")
    return mode


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
    """A message on stderr, which may be closed or full: the answer does not depend on it."""
    with suppress(OSError):
        typer.echo(visible(message), err=True)


def note_warnings(warnings: Sequence[Mapping[str, Any]]) -> None:
    """The warnings of an answer on stderr, each with its code."""
    for warning in warnings:
        word = "note" if warning["code"] in INFORMATION else "warning"
        note(f"{word} [{warning['code']}]: {warning['message']}")
