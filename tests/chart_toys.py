"""A toy sweep for the tests of charts: two chips, a drafter whose speedup crosses 1, and points that do not fit."""

from __future__ import annotations

from pathlib import Path

from cli_runs import write_toys

from specdec_cli.explore.recommend import Limits, Recommendation, run_recommend
from specdec_cli.explore.scenario import Options, resolve
from specdec_cli.explore.sweep import Sweep, run_sweep
from specdec_cli.profiles.library import Library


def toy_options(**changes: object) -> Options:
    """The toys of `cli_runs`."""
    return Options(**{"hardware": "toy-chip", "model": "toy-model", "engine": "toy-engine", **changes})  # type: ignore[arg-type]


def toy_sweep(folder: Path, **changes: object) -> Sweep:
    """A sweep over the toys written into `folder`."""
    library = Library([str(write_toys(folder))])
    return run_sweep(resolve(library, toy_options(**changes)))


def toy_answer(folder: Path, batch: int, **changes: object) -> Recommendation:
    """What is recommended there."""
    library = Library([str(write_toys(folder))])
    return run_recommend(library, toy_options(**changes), Limits(batch=batch))
