"""Least squares with bounds from below, for the few unknowns of a calibration."""

from __future__ import annotations

import itertools

import numpy as np

from specdec_cli.physics.roofline import Floats


def bounded_least_squares(matrix: Floats, wanted: Floats, least: Floats) -> Floats:
    """The x >= least that brings matrix x nearest to `wanted`; full column rank.

    Tries every set of unknowns that may lie at their bounds: exact, and quick for the six there are.
    """
    columns = matrix.shape[1]
    right = wanted - matrix @ least
    best, least_cost = np.zeros(columns), float(right @ right)
    for free in itertools.product((True, False), repeat=columns):
        chosen = np.array(free)
        if not chosen.any():
            continue
        found = np.zeros(columns)
        found[chosen] = np.linalg.lstsq(matrix[:, chosen], right, rcond=None)[0]
        if np.any(found < 0.0):
            continue
        left = matrix @ found - right
        cost = float(left @ left)
        if cost < least_cost:
            best, least_cost = found, cost
        if chosen.all():
            break  # nothing is at its bound: no other set does better
    return best + least
