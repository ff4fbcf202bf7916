"""What a profile may be called."""

from __future__ import annotations

import re

from specdec_cli.errors import UsageError

MOST_LETTERS = 100
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_TAKEN = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\..*)?|none")
"""Devices of Windows, which no file there can be named after; and the word for no drafter."""


def check_name(name: str, option: str) -> None:
    """Refuse a name that no profile can have. Raises UsageError that says how it might be spelled."""
    if _TAKEN.fullmatch(name):
        raise UsageError(f"{option}: {name} names something else already; {name}-1 would do")
    if _NAME.fullmatch(name) and len(name) <= MOST_LETTERS:
        return
    better = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:MOST_LETTERS]
    hint = f"; {better} would do" if better else ""
    raise UsageError(f"{option}: a profile's name is made of a-z, 0-9 and . _ -, found {name!r}{hint}")
