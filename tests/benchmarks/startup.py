"""How long a cold command takes beside what it cannot do without: medians of interleaved runs of whole processes.

    python tests/benchmarks/startup.py [RUNS]

Bounds: `--help` under 1.7 times `import typer`, `recommend --batch 32` under 3 times `import numpy`. Exit code 1 where
one is missed. Run it on a quiet machine, from an installed package: without compiled modules start-up doubles.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

SPECDEC = [sys.executable, "-m", "specdec_cli"]
COMMANDS = {
    "import typer": [sys.executable, "-c", "import typer"],
    "--help": [*SPECDEC, "--help"],
    "import numpy": [sys.executable, "-c", "import numpy"],
    "recommend --batch 32": [*SPECDEC, "recommend", "--batch", "32"],
}
BOUNDS = (("--help", "import typer", 1.7), ("recommend --batch 32", "import numpy", 3.0))


def main(runs: int) -> int:
    """Measure, print, compare."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(runs + 1):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            if turn:  # the first turn fills the caches
                taken[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    for name, median in medians.items():
        print(f"{name:24} {1000 * median:6.0f} ms")
    missed = False
    for name, beside, bound in BOUNDS:
        ratio = medians[name] / medians[beside]
        missed |= ratio >= bound
        print(f"{name} / {beside}: {ratio:.2f} (under {bound:g})")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
