"""Least squares on the fitted share of a table's shapes, errors on the others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from tables import Chip, Columns, Flags, Floats

Constants = dict[str, float]
Model = Callable[[Constants, dict[str, Floats]], Floats]
Start = dict[str, tuple[float, float, float]]
"""Start, smallest and largest value of each constant."""

MOST_ROWS = 2500  # of a fit; more change the third digit
UNNOTICED_S = 0.7e-6  # s of memory time that no kernel's floor notices
WORST = (0.25, 0.7)  # held-out median or 90th percentile from which a form does not describe a kernel: not kept
HOLD = 0.1  # pull of the start values, in rows: moves only a constant that the rows leave open


def search(model: Model, start: Start, columns: Columns) -> Constants:
    """Constants that make the logarithm of model / measured small, far rows counting less (soft L1, knee at 5 %)."""
    names = list(start)
    first, low, high = (np.log([start[name][i] for name in names]) for i in range(3))
    rows = np.flatnonzero(columns.fit)
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, MOST_ROWS, replace=False))
    part = {name: column[rows] for name, column in columns.values.items()}
    measured = np.log(columns.seconds[rows])

    def residuals(point: Floats) -> Floats:
        error = np.log(model(dict(zip(names, np.exp(point), strict=True)), part)) - measured
        return np.concatenate([error, HOLD * (point - first)])

    found = least_squares(residuals, first, bounds=(low, high), loss="soft_l1", f_scale=0.05, max_nfev=120)
    return {name: float(f"{value:.4g}") for name, value in zip(names, np.exp(found.x), strict=True)}


def result(model: Model, constants: Constants, columns: Columns, **extra: Any) -> dict[str, Any]:
    """The constants with their errors on the shapes that were not fitted (fractions of the measured time)."""
    answer: dict[str, Any] = dict(constants) | extra
    answer |= {"n_fit": int(columns.fit.sum()), "table": columns.label}
    return answer | errors(model, constants, columns)


def errors(model: Model, constants: Constants, columns: Columns) -> dict[str, Any]:
    """Number of rows that were not fitted, and the model's median and 90th percentile error on them."""
    held_out = columns.part(~columns.fit)
    answer: dict[str, Any] = {"n_heldout": len(held_out.seconds)}
    if len(held_out.seconds):
        error = np.abs(model(constants, held_out.values) / held_out.seconds - 1.0)
        answer["heldout_median_error"] = round(float(np.median(error)), 4)
        answer["heldout_p90_error"] = round(float(np.percentile(error, 90)), 4)
    return answer


def fit(
    model: Model,
    start: Start,
    columns: Columns,
    judged: Flags | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Constants and held-out errors, {} where the table is too small; `judged`: rows that the errors are of."""
    if columns.fit.sum() < 4 * len(start) or not (~columns.fit).any():
        return {}
    constants = search(model, start, columns)
    ends = [name for name, (_, low, high) in start.items() if not 1.001 * low < constants[name] < 0.999 * high]
    if ends:  # the rows leave the constant open, or hold it back at what is physically possible
        extra["at_bound"] = ends
    return result(model, constants, columns if judged is None else columns.part(judged), **extra)


def possible(columns: Columns, flops: Floats, peak: float, moved: Floats, bandwidth: float) -> Columns:
    """Drop rows faster than the datasheet: their data sat in the cache from the call before, or the timer slipped."""
    keep: Flags = (columns.seconds > flops / peak) & (columns.seconds > moved / bandwidth)
    return columns.part(keep)


def from_memory(columns: Columns, moved: Floats, chip: Chip) -> Columns:
    """Drop rows whose cache or state (`moved` bytes) stays on the chip from one call to the next.

    A benchmark calls one kernel again and again: what fits in the last-level cache stays there, and the call looks up
    to six times faster than memory allows. In a model the other layers push it out. Rows that move so little that no
    floor notices are kept.
    """
    read_s = moved / chip.bandwidth
    return columns.part(((read_s < UNNOTICED_S) | (moved > chip.l2)) & (columns.seconds > read_s))


def kept(by_dtype: dict[str, Any], what: str) -> dict[str, Any]:
    """Without the fits whose form does not describe the kernel; says which."""
    answer = {}
    for dtype, found in by_dtype.items():
        errors = found["heldout_median_error"], found["heldout_p90_error"]
        if errors[0] > WORST[0] or errors[1] > WORST[1]:
            print(f"{what} {dtype}: median {errors[0]:.0%}, p90 {errors[1]:.0%} off: not kept", file=sys.stderr)
        else:
            answer[dtype] = found
    return answer
