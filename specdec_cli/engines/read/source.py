"""Bytes of a file as blocks of whole lines, and the lines in them that hold a marker, in constant memory.

A server log of gigabytes is mostly lines of no interest. Markers are looked for block by block with `bytes.find`,
which runs at memory speed; only what they find is cut out and parsed.
"""

from __future__ import annotations

import codecs
import os
import select
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from specdec_cli.errors import ProfileError

BLOCK_BYTES = 1 << 20
HEAD_BLOCKS = 4  # the format is told from so many
LONGEST_LINE = 8 << 20  # bytes; a longer one is passed over, or memory would not be constant
LONGEST_OBJECT = 64 << 20  # bytes; likewise of an object on a line of its own, which may hold every request of a run
LONG_LINES, LONG_OBJECTS = "lines over 8 MiB", "objects over 64 MiB"
LEAD_BYTES = 160  # of a line before its marker: process, time, place in the source
WHOLE_FILE_BYTES = 512 << 20  # JSON that is not one object a line is read whole, up to here
STREAMED = "one object a line is read as a stream: jq -c . FILE"
PIPE_BYTES = 1 << 16
PIPE_WAIT_S = 5.0  # for a program that writes into the pipe; without one a read would never end

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all; 0 where unknown)."""

COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}


class Hit(NamedTuple):
    """A marker and what follows it on its line."""

    line: int
    marker: int
    """Index into the markers asked for."""
    text: bytes
    """From the marker to the end of the line, or to the next marker on it."""
    lead: bytes
    """What stands before the marker on its line, `LEAD_BYTES` at most."""
    cut: bool
    """Whether the file ends in this line without a line feed: it may be cut short."""


class Source:
    """One input file, read once from front to back (a pipe will do)."""

    def __init__(self, path: Path | str, progress: Progress | None = None) -> None:
        """Raises ProfileError: missing, a folder, unreadable, empty, compressed."""
        self.name = str(path)
        self._progress = progress
        self.size = 0
        """Bytes read so far."""
        self.longest_passed_over = 0
        """Lines passed over because they are longer than `LONGEST_LINE`."""
        try:
            self._file, self._early = _opened(path)
            status = os.fstat(self._file.fileno())
        except FileNotFoundError:
            raise ProfileError("no such file", file=self.name) from None
        except OSError as error:
            raise ProfileError(error.strerror or str(error), file=self.name) from None
        self._total = status.st_size if stat.S_ISREG(status.st_mode) else 0
        self._decoder: codecs.IncrementalDecoder | None = None
        self._pending: list[bytes] = []
        try:
            self.head = self._first()
        except ProfileError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _first(self) -> bytes:
        head = self._raw(HEAD_BLOCKS * BLOCK_BYTES)
        for magic, kind in COMPRESSED.items():
            if head.startswith(magic):
                raise ProfileError(f"{kind}-compressed", file=self.name, hint="decompress it first")
        # PowerShell's `>` writes UTF-16 with a byte order mark.
        for mark, codec in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
            if head.startswith(mark):
                self._decoder = codecs.getincrementaldecoder(codec)(errors="replace")
                head = self._decoder.decode(head[2:]).encode()
        head = head.removeprefix(codecs.BOM_UTF8)
        if not head.strip():
            raise ProfileError("the file is empty", file=self.name)
        if b"\x00" in head[:4096]:
            raise ProfileError("not a text file", file=self.name, hint="logs, metrics and JSON of an engine are text")
        self._pending.append(head)
        return head

    def _raw(self, wanted: int) -> bytes:
        parts = []
        while wanted > 0:
            try:
                part = self._early or self._file.read(wanted)
                self._early = b""
            except OSError as error:
                raise ProfileError(error.strerror or str(error), file=self.name) from None
            if not part:
                break
            parts.append(part)
            wanted -= len(part)
        block = parts[0] if len(parts) == 1 else b"".join(parts)
        self.size += len(block)
        if self._progress is not None:
            self._progress(self.size, self._total)
        return block

    def _chunks(self) -> Iterator[bytes]:
        while self._pending:
            yield self._pending.pop(0)
        while block := self._raw(BLOCK_BYTES):
            yield block if self._decoder is None else self._decoder.decode(block).encode()

    def put_back(self, block: bytes) -> None:
        """Have `blocks` begin with this one."""
        self._pending.insert(0, block)

    def rewind(self) -> bool:
        """Start over, where the file can; else False, and what was read stays read."""
        if not self._total or not self._file.seekable():
            return False
        self._file.seek(0)
        self.size, self._pending, self._decoder, self.longest_passed_over = 0, [], None, 0
        self._first()
        return True

    def blocks(self, longest: int | None = None) -> Iterator[bytes]:
        """Blocks that end in a line feed; the last one as it ends. Of a line over `longest` (`LONGEST_LINE`) bytes only
        its end counts: its line feed."""
        longest = LONGEST_LINE if longest is None else longest
        held: list[bytes] = []
        size, passing = 0, False
        for chunk in self._chunks():
            begin, end = 0, chunk.rfind(b"\n") + 1
            if passing:
                begin = chunk.find(b"\n") if end else len(chunk)
            elif size + (chunk.find(b"\n") if end else len(chunk)) > longest:
                self.longest_passed_over += 1
                passing, held, size = True, [], 0
                begin = chunk.find(b"\n") if end else len(chunk)
            if end:
                whole = chunk[begin:end]
                yield b"".join([*held, whole]) if held else whole
                passing, held, size, begin = False, [], 0, end
            if begin < len(chunk):
                held.append(chunk[begin:])
                size += len(held[-1])
        if held:
            yield b"".join(held)

    def whole(self, most: int | None = None, what: str = "JSON") -> bytes:
        """All of it. Raises ProfileError above `most` (`WHOLE_FILE_BYTES`) bytes; `what` names what it would be."""
        most = WHOLE_FILE_BYTES if most is None else most
        parts: list[bytes] = []
        for chunk in self._chunks():
            parts.append(chunk)
            if self.size > most:
                hint = STREAMED if what == "JSON" else None
                raise ProfileError(
                    f"expected at most {most >> 20} MiB of {what}, found more", file=self.name, hint=hint
                )
        return b"".join(parts)

    def hits(self, markers: Sequence[bytes]) -> Iterator[Hit]:
        """Every occurrence of the markers, in the order of the file."""
        line = 1
        for block in self.blocks():
            yield from hits_in(block, markers, line)
            line += block.count(b"\n")


def _opened(path: Path | str) -> tuple[FileIO, bytes]:
    """The file, open, and what was read of it on the way. Raises OSError; TimeoutError for a pipe without a writer."""
    file = FileIO(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)))
    early = b""
    if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
        try:
            early = _first_of_pipe(file)
        except OSError:
            file.close()
            raise
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(file.fileno(), True)
    return file, early


def _first_of_pipe(pipe: FileIO) -> bytes:
    """What is in the pipe already, once a program has opened its other end."""
    state = select.poll()
    state.register(pipe, select.POLLIN)
    end = time.monotonic() + PIPE_WAIT_S
    while time.monotonic() < end:
        # No writer yet: an empty read, as at the end; only that one is told as hung up. None: one that is still silent.
        part: bytes | None = pipe.read(PIPE_BYTES)
        if part != b"" or any(event & select.POLLHUP for _, event in state.poll(0)):
            return part or b""
        time.sleep(0.05)
    raise TimeoutError(f"a pipe into which no program has written for {PIPE_WAIT_S:g} s")


def pieces(block: bytes, size: int) -> Iterator[bytes]:
    """Whole lines of a block, so many bytes at a time or some more."""
    at = 0
    while at < len(block):
        end = block.find(b"\n", at + size) + 1 or len(block)
        yield block[at:end]
        at = end


def hits_in(block: bytes, markers: Sequence[bytes], line: int) -> Iterator[Hit]:
    """Every occurrence of the markers in a block that begins with that line."""
    found: list[tuple[int, int]] = []
    for index, marker in enumerate(markers):
        at = block.find(marker)
        while at >= 0:
            found.append((at, index))
            at = block.find(marker, at + len(marker))
    found.sort()
    counted = 0
    for order, (at, index) in enumerate(found):
        line += block.count(b"\n", counted, at)
        counted = at
        following = found[order + 1][0] if order + 1 < len(found) else len(block)
        end = block.find(b"\n", at, following)
        cut = end < 0 and following == len(block)
        end = following if end < 0 else end
        start = max(block.rfind(b"\n", max(0, at - LEAD_BYTES), at) + 1, at - LEAD_BYTES, 0)
        yield Hit(line, index, block[at:end], block[start:at], cut)
