"""How many experts a batch touches under the routings that the measured tables were timed with.

The tables state a routing's name and not its counts. `balanced` deals every expert the same number of tokens.
`power_law_A` draws a weight for each expert from a power law of exponent A and rounds the weights' shares of the T k
choices to whole tokens (ai-dynamo/aiconfigurator, collector/helper.py, `_generate_power_law_distribution`); the draw is
not kept, so the expected one stands for it here: the law's quantiles in the middle of E equal steps.
The physics of specdec routes uniformly; these counts only serve to read the tables.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

POWER_LAW = re.compile(r"power_law_(\d+\.\d+)$")
"""A routing's name; with a suffix (`_eplb`) the experts are placed anew, with another count."""

MANY, FEW = 0.8, (0.01, 2.0)
"""Range of the weights: 1 to MANY T where T k exceeds E, FEW up to there."""


def exponent(distribution: object) -> float:
    """The exponent that a routing's name states; NaN: it is no power law."""
    found = POWER_LAW.match(str(distribution))
    return float(found[1]) if found else float("nan")


def balanced_distinct(tokens: Floats, experts: Floats, top_k: Floats) -> Floats:
    """min(E, T k)."""
    return np.minimum(experts, tokens * top_k)


def power_law_counts(tokens: int, experts: int, top_k: int, alpha: float) -> Floats:
    """Tokens of each expert, (E,): T k in all, at most T of one.

    Weights x_i = (low^(1-A) + u_i (high^(1-A) - low^(1-A)))^(1/(1-A)) at u_i = (i + 1/2) / E, their shares of T k
    rounded; what the rounding leaves goes to the emptiest experts, what it adds comes off the fullest.
    """
    choices = tokens * top_k
    low, high = (1.0, MANY * tokens) if choices > experts else FEW
    steps = (np.arange(experts) + 0.5) / experts
    power = 1.0 - alpha
    weights = (low**power + steps * (high**power - low**power)) ** (1.0 / power)
    counts = np.minimum(np.round(choices * weights / weights.sum()), tokens)
    left = int(choices - counts.sum())
    for _ in range(abs(left)):
        counts[np.argmin(counts) if left > 0 else np.argmax(counts)] += np.sign(left)
    return np.asarray(counts, np.float64)


def power_law_distinct(tokens: Floats, experts: Floats, top_k: Floats, alpha: Floats) -> Floats:
    """Experts with at least one token, row by row."""
    cases, row = np.unique(np.stack([tokens, experts, top_k, alpha], axis=1), axis=0, return_inverse=True)
    touched = [np.count_nonzero(power_law_counts(int(t), int(e), int(k), float(a))) for t, e, k, a in cases]
    return np.asarray(touched, np.float64)[row.reshape(-1)]
