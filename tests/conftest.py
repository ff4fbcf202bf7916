"""What test files share: where the repository and the shared data are, the toys, and the bound on skipped tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_runs import REPO as REPO
from cli_runs import Runner, write_toys

# Tests that compare with data outside the repository skip where it is absent. More skips than this mean that a test
# has begun to skip for another reason.
MOST_SKIPS = 18


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many tests were skipped, and how many may be."""
    skipped = len(terminalreporter.stats.get("skipped", []))
    terminalreporter.write_line(f"skipped tests: {skipped} (at most {MOST_SKIPS})")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Under CI too many skips fail the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("CI") or hasattr(session.config, "workerinput"):
        return
    if len(reporter.stats.get("skipped", [])) > MOST_SKIPS and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of collected source data; skips where there is none."""
    named = os.environ.get("SPECDEC_SHARED_DATA")
    folder = Path(named) if named else REPO.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no shared data folder here (SPECDEC_SHARED_DATA names one)")
    return folder


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a toy chip, model, drafter, acceptance and engine; no test writes into it."""
    return write_toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture
def specdec(toys: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    """The command line on the toys."""
    return Runner(toys, capsys)
