"""How far off a predicted speedup may be: the band of acceptance and the band of time, taken through the formula."""

from __future__ import annotations

from dataclasses import dataclass

from specdec_cli.profiles.schema import Engine, Hardware

# Relative half-widths of step / T_target. Kernel figures fitted to measured tables reproduce rho = AL / speedup of
# published sweeps within 4 to 8 % (median); chips without tables take their kernels from a neighbour, whose own
# spread between chips is about as large again; engines with fewer than three published sweeps have an entry fee
# and a pass cost that cannot be told apart at one draft length.
FITTED_CHIP = 0.08
OTHER_CHIP = 0.15
FEW_SWEEPS = 0.05
ENOUGH_SWEEPS = 3


@dataclass(frozen=True, slots=True)
class TimeBand:
    """Relative half-width of step / T_target."""

    relative: float


def time_band(hardware: Hardware, engine: Engine) -> TimeBand:
    """The band for this kind of hardware and engine."""
    relative = FITTED_CHIP if hardware.fitted else OTHER_CHIP
    if engine.fitted_sweeps < ENOUGH_SWEEPS:
        relative += FEW_SWEEPS
    return TimeBand(relative)
