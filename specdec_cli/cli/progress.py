"""A progress line on stderr, for work that lasts over a second and a terminal that shows it."""

from __future__ import annotations

import sys
import time

QUIET_S = 1.0
EVERY_S = 0.2
WIDTH = 24


class ReadingProgress:
    """Says how much of a file has been read; call it with (bytes read, bytes in all, 0 where unknown)."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._last = 0.0
        self._shown = False
        self._on = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done <= 0 or not self._on or now - self._start < QUIET_S or now - self._last < EVERY_S:
            return
        self._last, self._shown = now, True
        said = f"{done / 1e6:,.0f} MB, {done / 1e6 / (now - self._start):,.0f} MB/s"
        if total:
            full = min(WIDTH, WIDTH * done // total)
            said = f"[{'#' * full}{'.' * (WIDTH - full)}] {100 * done // total:3d} % of {total / 1e6:,.0f} MB, {said}"
        sys.stderr.write(f"\r{said}\x1b[K")
        sys.stderr.flush()

    def done(self) -> None:
        """Wipe the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
