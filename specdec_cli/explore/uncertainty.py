"""How far off a predicted speedup may be: the band of acceptance and the band of time, taken through the formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from specdec_cli.physics.roofline import Floats
from specdec_cli.profiles.schema import Engine, Hardware, Model

# Relative half-widths of step / T_target. Kernel figures fitted to measured tables reproduce rho = AL / speedup of
# published sweeps within 4 to 8 % (median); chips without tables take their kernels from a neighbour, whose own
# spread between chips is about as large again; engines with fewer than three published sweeps have an entry fee
# and a pass cost that cannot be told apart at one draft length.
FITTED_CHIP = 0.08
OTHER_CHIP = 0.15
FEW_SWEEPS = 0.05
ENOUGH_SWEEPS = 3
# `validate` finds rho of mixtures off by 10.6 % (median), of dense models by 4.5 %: distinct experts, fused kernels.
MIXTURE = 0.06

StepBasis = Literal["computed", "calibrated", "extrapolated"]
"""How a step's time is known: from the profiles, as calibrated on measured steps, beyond those."""

BATCH_REACH = 2.0
"""Calibrated on one batch, the model predicts steps at twice or half of it nearly as well (published batch sweeps)."""


@dataclass(frozen=True, slots=True)
class TimeBand:
    """Relative half-width of step / T_target."""

    relative: float

    def basis(self, batch: float, draft_length: int) -> StepBasis:
        """How the step of this point is known."""
        return "computed"

    def over(self, batches: Floats, draft_lengths: Floats) -> Floats:
        """The half-width over a grid that these two broadcast to."""
        return np.full(np.broadcast_shapes(batches.shape, draft_lengths.shape), self.relative)


@dataclass(frozen=True, slots=True)
class CalibratedBand(TimeBand):
    """The band of a calibrated model: narrow where it was measured, no less than the profiles' own beyond."""

    inside: float = 0.0
    batches: tuple[float, float] = (0.0, 0.0)
    """Smallest and largest measured."""
    longest: int = 0
    """The longest draft measured."""
    held: bool = True
    """Whether the scenario's context is one of those measured or within a factor of two of them."""

    def basis(self, batch: float, draft_length: int) -> StepBasis:
        """How the step of this point is known."""
        return "calibrated" if self.holds(np.asarray(batch), np.asarray(draft_length)) else "extrapolated"

    def holds_batch(self, batch: float) -> bool:
        """Whether a batch is one of those measured or within a factor of two of them."""
        return self.batches[0] / BATCH_REACH <= batch <= self.batches[1] * BATCH_REACH

    def holds(self, batches: Floats, draft_lengths: Floats) -> np.ndarray:
        """Where the calibration holds."""
        low, high = self.batches[0] / BATCH_REACH, self.batches[1] * BATCH_REACH
        inside: np.ndarray = (batches >= low) & (batches <= high) & (draft_lengths <= self.longest)
        return inside & self.held

    def over(self, batches: Floats, draft_lengths: Floats) -> Floats:
        """The half-width over a grid."""
        return np.where(self.holds(batches, draft_lengths), self.inside, max(self.relative, self.inside))


def time_band(hardware: Hardware, engine: Engine, model: Model) -> TimeBand:
    """The band for this kind of hardware, engine and model."""
    relative = FITTED_CHIP if hardware.fitted else OTHER_CHIP
    if model.has_experts:
        relative += MIXTURE
    if engine.fitted_sweeps < ENOUGH_SWEEPS:
        relative += FEW_SWEEPS
    return TimeBand(relative)
