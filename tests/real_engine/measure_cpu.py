"""What one core of this machine reads and computes, as JSON; run by the engine's Python, which has numpy.

python measure_cpu.py [--fifo]
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

REPEATS = 12
WORDS = 48 * 2**20
"""fp32 words of an array, 200 MB: far more than a cache."""
SIDE = 1024


def best_s(work: Callable[[], object]) -> float:
    """The shortest of a few runs: what the machine can do undisturbed."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    if "--fifo" in sys.argv:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    import numpy as np

    left, right = np.ones(WORDS, dtype=np.float32), np.ones(WORDS, dtype=np.float32)
    square = np.random.default_rng(1).random((SIDE, SIDE), dtype=np.float32)
    read = (left.nbytes + right.nbytes) / best_s(lambda: left @ right)
    computed = 2 * SIDE**3 / best_s(lambda: square @ square)
    print(json.dumps({"read_gb_per_s": read / 1e9, "fp32_tflops": computed / 1e12}))


if __name__ == "__main__":
    main()
