"""`python -m specdec_cli`, and the console script `specdec`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from specdec_cli.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
