"""`python -m specdec_cli`, and the console script `specdec`."""

from __future__ import annotations

import gc
import sys

ALLOCATIONS_BETWEEN_COLLECTIONS = 500_000
"""Modules and profiles hold hardly a cycle: at Python's 700 a short command spends a tenth of its time collecting."""


INTERRUPTED = 130
SIGNALLED = 128


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
        import signal  # here, as Ctrl-C may come while it loads

        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
                signal.signal(number, _leave)
        from specdec_cli.cli.app import run

        code = run(sys.argv[1:])
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is said: Ctrl-C may end what is left without a word
    except KeyboardInterrupt:  # while modules load, before the command line can answer for itself
        code = INTERRUPTED
    sys.exit(code)


def _leave(number: int, frame: object) -> None:
    """End as a program that the signal ended, but clean up first."""
    sys.exit(SIGNALLED + number)


if __name__ == "__main__":
    main()
