"""What the tests of calibration share: a toy machine whose steps are worked out by hand, rows, runs."""

from __future__ import annotations

from typing import Any

from builders import toy_drafter
from toys import clockwork, step_of

from specdec_cli.explore.calibrate import Row
from specdec_cli.physics.step import StepModel
from specdec_cli.units import MS

# Toy model, one token of context: weights 165e6 x 2 bytes; the embedding (20e6 bytes) is not read: 310e6 bytes take
# 3.1 ms at 1e11 B/s, a token's 310e6 FLOP 0.31 ms at 1e12 FLOP/s. Parts add up (exponent 1).


def measured_row(
    batch: float, length: int, step_ms: float, *, al: float | None = None, context: float = 1, width: int | None = None
) -> Row:
    accepted = 1.0 if length == 0 else al
    return Row(
        batch=batch,
        draft_length=length,
        step_s=step_ms * MS,
        context=context,
        acceptance_length=accepted,
        verify_width=width,
    )


def clock(
    *, host_ms: float = 10.0, fee_ms: float = 1.0, lookup_ms: float = 0.0, per_token_ms: float = 0.1
) -> StepModel:
    """T_target(B) = host + c B; T_step(B, D) = host + fee + look-up + c B (1 + D)."""
    hardware, engine = clockwork(host_ms=host_ms, fee_ms=fee_ms, lookup_ms=lookup_ms, per_token_ms=per_token_ms)
    return step_of(drafter=toy_drafter("toy-ngram", "ngram"), hardware=hardware, engine=engine)


def ms(values: Any) -> list[float]:
    return [float(value) / MS for value in values]
