"""Options of the benchmarks."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """--log-mb sets the size of the log that is read."""
    parser.addoption("--log-mb", type=float, default=50.0, help="Size of the generated log, MB: 1000 for a gigabyte.")
