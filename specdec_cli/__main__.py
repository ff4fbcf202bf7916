"""`python -m specdec_cli`, and the console script `specdec`."""

from __future__ import annotations

import gc
import sys

ALLOCATIONS_BETWEEN_COLLECTIONS = 500_000
"""Modules and profiles hold hardly a cycle: at Python's 700 a short command spends a tenth of its time collecting."""


INTERRUPTED = 130


def main() -> None:
    """Run the command line and leave with its exit code."""
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    try:
        from specdec_cli.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules load, before the command line can answer for itself
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
