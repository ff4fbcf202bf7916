"""How sure a measured acceptance length is: intervals from windows, from iterations, or from what D allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from specdec_cli.profiles.measured_run import Windows

CONFIDENCE = 0.95
FEWEST_WINDOWS = 5
"""Below this the spread of windows says too little; iterations then count as independent."""

Method = Literal["windows", "iterations", "bound"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided interval at `CONFIDENCE`."""

    low: float
    high: float
    method: Method
    """windows: from the spread of windows or requests. iterations: independent iterations, from the per-position rates.
    bound: independent iterations of the largest variance that AL and D allow."""


def iteration_variance(per_position: Sequence[float]) -> float:
    """Variance of the tokens accepted in one iteration, from unconditional a_i.

    P(accepted >= i) = a_i, so E[x^2] = sum of (2i - 1) a_i (tail sums of a whole number that is not negative).
    """
    mean = math.fsum(per_position)
    square = math.fsum((2 * i - 1) * rate for i, rate in enumerate(per_position, start=1))
    return max(0.0, square - mean * mean)


def largest_variance(mean: float, draft_length: int) -> float:
    """The most that tokens accepted in [0, D] can vary at this mean: m (D - m) (Bhatia and Davis 2000)."""
    return max(0.0, mean * (draft_length - mean))


def cluster_variance(windows: Windows) -> float:
    """Variance of a / n pooled over windows that may differ from each other (the ratio estimator; Cochran 1977, 6.4).

    What a bootstrap over windows converges to, from sums alone.
    """
    ratio = windows.a / windows.n
    squares = windows.aa - 2 * ratio * windows.na + ratio * ratio * windows.nn
    return max(0.0, squares) / (windows.n * windows.n) * windows.count / (windows.count - 1)


def window_spread(windows: Windows, variance: float) -> float:
    """Standard deviation of acceptance between windows beyond what chance within them explains (tokens accepted).

    variance: of one iteration; n-weighted moment estimate.
    """
    mean = windows.a / windows.n
    between = windows.aa_over_n / windows.n - mean * mean
    return math.sqrt(max(0.0, between - variance * (windows.count - 1) / windows.n))


def interval_of(
    acceptance_length: float,
    *,
    draft_length: int | None,
    per_position: Sequence[float] | None,
    iterations: float | None,
    windows: Windows | None,
) -> Interval | None:
    """The interval of a pooled AL; None where the file has no count of anything."""
    mean = acceptance_length - 1.0
    method: Method = "iterations" if per_position else "bound"
    single = None
    if per_position:
        single = iteration_variance(per_position)
    elif draft_length is not None:
        single = largest_variance(mean, draft_length)
    variance = single / iterations if single is not None and iterations else None
    factor = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    if windows is not None and windows.count >= FEWEST_WINDOWS and windows.n > 0:
        clustered = cluster_variance(windows)
        # Windows rounded alike can seem to agree better than chance allows; the bound alone is no floor.
        floor = variance if variance is not None and method == "iterations" else 0.0
        variance, method = max(clustered, floor), "windows"
        factor = t_quantile((1 + CONFIDENCE) / 2, windows.count - 1)
    if variance is None:
        return None
    half = factor * math.sqrt(variance)
    ceiling = math.inf if draft_length is None else 1.0 + draft_length
    return Interval(max(1.0, acceptance_length - half), min(ceiling, acceptance_length + half), method)


def t_quantile(probability: float, degrees: int) -> float:
    """Student's t (Abramowitz and Stegun 26.7.5; within 0.5 % from 4 degrees of freedom on)."""
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / degrees**power for power, term in enumerate(terms, start=1))


def wilson(rate: float, trials: float) -> tuple[float, float]:
    """Interval of a share counted over independent trials (Wilson 1927)."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    middle = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return max(0.0, middle - half), min(1.0, middle + half)
