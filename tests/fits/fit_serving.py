"""Fit the engines' serving constants to half of the published serving runs, and report the error on the other half.

    python tests/fits/fit_serving.py FILE [--fit] [--write]

FILE is `serving_base.csv`: see serving_runs.py. Without --fit the shipped profiles are compared as they are, which
needs no scipy. GEMM, attention, MoE and all-reduce stay as the kernel tables have them. --write puts the fitted
constants into profiles/engines. Not part of the wheel.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from serving_runs import Predictor, Run, compared, load_runs, predictor

from specdec_cli.profiles.library import Library

PROFILES = Path(__file__).parents[2] / "profiles" / "engines"
FAMILIES = ("vllm", "sglang", "tensorrt-llm")
"""Profiles that take the constants. Those of older versions keep their own step: too few runs to tell them apart."""

OWN = {"serving_per_request_us": "per_request_us"}
"""Constants of each engine, and the one of its decode set that bounds it from above: a host under load overlaps more of
its work with the GPU's, not less. (Without the bound the fit trades them for kernels, and a serving run would gain
more from speculation than its decode steps do.) A step's own constant was fitted too, and came out as the decode set's
or below: profiles carry the decode set's."""
COMMON = {"prefill_share": 2.0}
"""Constants that all engines share, and their largest value."""
START = 0.5  # of the largest value, for each constant

KNEE = 0.08  # relative error from which a row counts less (soft L1): versions differ by as much

Constants = dict[str, dict[str, float]]


def largest(library: Library) -> NDArray[np.float64]:
    """The end of each constant's range, in the order of the search."""
    sets = [library.engine(engine).record.overheads for engine in FAMILIES]
    return np.array([*(getattr(own, bound) for own in sets for bound in OWN.values()), *COMMON.values()])


def by_engine(values: NDArray[np.float64]) -> Constants:
    """Constants in the order of the search -> by engine."""
    own = values[: -len(COMMON)].reshape(len(FAMILIES), len(OWN))
    common = dict(zip(COMMON, values[-len(COMMON) :], strict=True))
    return {engine: dict(zip(OWN, row, strict=True)) | common for engine, row in zip(FAMILIES, own, strict=True)}


def fit(library: Library, model: Predictor) -> Constants:
    """Least squares on the logarithm of predicted / measured."""
    from scipy.optimize import least_squares

    measured, top = np.log([run.tpot_s for run in model.runs]), largest(library)

    def residuals(point: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log(model.tpot_s(by_engine(point * top))) - measured

    start = np.full(len(top), START)
    found = least_squares(residuals, start, bounds=(1e-4, 1.0), loss="soft_l1", f_scale=KNEE, diff_step=1e-3)
    constants = by_engine(found.x * top)
    return {engine: {name: round(float(f"{v:.2g}"), 2) for name, v in row.items()} for engine, row in constants.items()}


def errors(runs: Sequence[Run], tpot_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """predicted / measured - 1."""
    return tpot_s / np.array([run.tpot_s for run in runs]) - 1.0


def line(name: str, found: NDArray[np.float64]) -> str:
    size = np.abs(found)
    return (
        f"| {name} | {len(found)} | {np.median(size):.1%} | {np.mean(size):.1%} | {np.quantile(size, 0.9):.0%} "
        f"| {np.median(found):+.1%} |"
    )


GROUPS: dict[str, Callable[[Run], str]] = {
    "chip": lambda run: run.hardware,
    "engine": lambda run: run.engine,
    "model": lambda run: f"{run.checkpoint.model}, {run.precision}",
    "chip and engine": lambda run: f"{run.hardware}, {run.engine}",
}


def table(runs: Sequence[Run], found: NDArray[np.float64]) -> str:
    """Errors as Markdown: all, then by chip, engine and model."""
    lines = ["| runs | n | median | mean | 90th | bias |", "| --- | --- | --- | --- | --- | --- |", line("all", found)]
    for title, group in GROUPS.items():
        names = np.array([group(run) for run in runs])
        lines.append(f"| **by {title}** | | | | | |")
        lines += [line(name, found[names == name]) for name in sorted(set(names))]
    return "\n".join(lines)


def write(constants: Constants) -> None:
    """Put the constants into the profiles, on the lines that hold them already."""
    for engine in FAMILIES:
        path = PROFILES / f"{engine}.yaml"
        text = path.read_text(encoding="utf-8")
        for key, value in constants[engine].items():
            text, count = re.subn(rf"(?m)^(  {key}: )[\d.]+", rf"\g<1>{value}", text)
            if count != 1:
                raise SystemExit(f"{path}: expected one line `{key}`, found {count}")
        path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="serving_base.csv")
    parser.add_argument("--fit", action="store_true", help="fit before the comparison (needs scipy)")
    parser.add_argument("--write", action="store_true", help="put what was fitted into profiles/engines")
    options = parser.parse_args()
    library, every = Library(), load_runs(options.file)
    runs, both = compared(every), compared(every, marked=True)
    constants: Constants | None = None
    if options.fit or options.write:
        constants = fit(library, predictor(library, [run for run in runs if not run.held_out]))
        print(f"{len(FAMILIES) * len(OWN) + len(COMMON)} constants: {constants}", file=sys.stderr)
    if options.write and constants is not None:
        write(constants)
    for title, part in (
        ("Held out", [run for run in runs if run.held_out]),
        ("Fitted", [run for run in runs if not run.held_out]),
        ("Held out, with the runs that something speaks against", [run for run in both if run.held_out]),
    ):
        print(f"\n## {title}\n\n{table(part, errors(part, predictor(library, part).tpot_s(constants)))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
