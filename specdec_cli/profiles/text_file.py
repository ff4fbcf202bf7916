"""Reads one small text file: nothing but a regular file of bounded size in UTF-8."""

from __future__ import annotations

import codecs
import stat
from pathlib import Path

from specdec_cli.errors import ProfileError


def read_text(path: Path, what: str, most_bytes: int) -> str:
    """The text of a file, a byte-order mark left out; `what` names it in errors ("a YAML file").

    Raises ProfileError: no such file, a folder, a device or pipe (which may never end), larger than `most_bytes`,
    unreadable, not UTF-8.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ProfileError(f"expected {what}, found a folder", file=path)
        if not stat.S_ISREG(status.st_mode):
            raise ProfileError(f"expected {what}, found a device or a pipe", file=path)
        if status.st_size > most_bytes:
            message = f"expected {what} of at most {most_bytes // 2**20} MiB, found {status.st_size / 2**20:.1f} MiB"
            raise ProfileError(message, file=path)
        content = path.read_bytes()
    except FileNotFoundError:
        raise ProfileError("no such file", file=path) from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise ProfileError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from None
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ProfileError("expected UTF-8 text, found UTF-16", file=path, hint="save the file as UTF-8")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"expected UTF-8 text, found the byte 0x{content[error.start]:02x}"
        raise ProfileError(message, file=path, line=line, hint="save the file as UTF-8") from None
