"""Bytes of a file as blocks of whole lines, and the lines in them that hold a marker, in constant memory.

A server log of gigabytes is mostly lines of no interest. Markers are looked for block by block with `bytes.find`,
which runs at memory speed; only what they find is cut out and parsed.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from specdec_cli.errors import ProfileError

BLOCK_BYTES = 4 << 20
LONGEST_LINE = 64 << 20  # bytes; a longer one is passed over, or memory would not be constant
LEAD_BYTES = 160  # of a line before its marker: process, time, place in the source
WHOLE_FILE_BYTES = 512 << 20  # JSON that is not one object a line is read whole, up to here

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
            self._file = FileIO(path)
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
        head = self._raw()
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

    def _raw(self) -> bytes:
        parts, wanted = [], BLOCK_BYTES
        while wanted > 0:
            try:
                part = self._file.read(wanted)
            except OSError as error:
                raise ProfileError(error.strerror or str(error), file=self.name) from None
            if not part:
                break
            parts.append(part)
            wanted -= len(part)
        block = b"".join(parts)
        self.size += len(block)
        if self._progress is not None:
            self._progress(self.size, self._total)
        return block

    def _chunks(self) -> Iterator[bytes]:
        while self._pending:
            yield self._pending.pop(0)
        while block := self._raw():
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

    def blocks(self) -> Iterator[bytes]:
        """Blocks that end in a line feed; the last one as it ends."""
        rest = b""
        for chunk in self._chunks():
            end = chunk.rfind(b"\n") + 1
            if not end:
                rest += chunk
                if len(rest) > LONGEST_LINE:
                    self.longest_passed_over += 1
                    rest = b""
                continue
            yield rest + chunk[:end] if rest else chunk[:end]
            rest = chunk[end:]
        if rest:
            yield rest

    def whole(self) -> bytes:
        """All of it. Raises ProfileError above `WHOLE_FILE_BYTES`."""
        parts: list[bytes] = []
        for chunk in self._chunks():
            parts.append(chunk)
            if self.size > WHOLE_FILE_BYTES:
                raise ProfileError(
                    f"over {WHOLE_FILE_BYTES >> 20} MiB of JSON",
                    file=self.name,
                    hint="one object a line is read as a stream: jq -c . FILE",
                )
        return b"".join(parts)

    def hits(self, markers: Sequence[bytes]) -> Iterator[Hit]:
        """Every occurrence of the markers, in the order of the file."""
        line = 1
        for block in self.blocks():
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
                end = block.find(b"\n", at)
                cut = end < 0
                end = len(block) if cut else end
                if order + 1 < len(found) and found[order + 1][0] < end:
                    end, cut = found[order + 1][0], False
                start = max(block.rfind(b"\n", max(0, at - LEAD_BYTES), at) + 1, at - LEAD_BYTES, 0)
                yield Hit(line, index, block[at:end], block[start:at], cut)
            line += block.count(b"\n", counted)
