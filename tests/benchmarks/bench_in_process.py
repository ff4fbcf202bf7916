"""What runs inside one process, by pytest-benchmark; the ordinary test command does not collect this file.

    pytest tests/benchmarks/bench_in_process.py --benchmark-columns=min,median,rounds [--log-mb 1000]

Whole processes: startup.py. Ratios that must not worsen: ratios.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import workloads
from specdec_cli.explore.sweep import run_sweep

MOST_BYTES_A_POINT = 200


@pytest.mark.parametrize("size", list(workloads.SWEEPS))
def test_sweep(benchmark: BenchmarkFixture, size: str) -> None:
    asked = workloads.question(size)
    found = benchmark(run_sweep, asked)
    points = workloads.asked_points(asked)
    held = workloads.result_bytes(found) / points
    benchmark.extra_info |= {"points": points, "bytes_per_point": held}
    if benchmark.stats is not None:  # None where benchmarks are switched off
        benchmark.extra_info["million_points_per_s"] = points / benchmark.stats.stats.min / 1e6
    print(dict(benchmark.extra_info))
    assert held < MOST_BYTES_A_POINT


@pytest.mark.parametrize("size", list(workloads.SWEEPS))
def test_yardstick_of_the_sweep(benchmark: BenchmarkFixture, size: str) -> None:
    benchmark(workloads.numpy_yardstick, workloads.asked_points(workloads.question(size)))


def test_library(benchmark: BenchmarkFixture) -> None:
    assert benchmark(workloads.load_library) == len(workloads.library_texts())


def test_yardstick_of_the_library(benchmark: BenchmarkFixture) -> None:
    benchmark(workloads.yaml_yardstick, workloads.library_texts())


@pytest.fixture(scope="module")
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workloads.write_log(tmp_path_factory.mktemp("log") / "server.log", request.config.getoption("--log-mb"))


def test_log(benchmark: BenchmarkFixture, log: Path) -> None:
    benchmark.pedantic(workloads.read_log, (log,), rounds=3)


def test_yardstick_of_the_log(benchmark: BenchmarkFixture, log: Path) -> None:
    benchmark.pedantic(workloads.lines_yardstick, (log,), rounds=3)
