"""Toy records put together for the tests of physics and exploration; sizes and prices are those of `builders`.

1e12 FLOP/s and 1e11 B/s: 1e6 FLOP and 1e5 bytes take 1 us each.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from builders import (
    Data,
    as_record,
    toy_acceptance,
    toy_drafter,
    toy_engine,
    toy_hardware,
    toy_kernels,
    toy_model,
    toy_overheads,
    write_library,
)

from specdec_cli.explore.scenario import Options, Scenario, resolve
from specdec_cli.physics.chip import Chip, Shape, operation_cost, resolve_chip
from specdec_cli.physics.drafting import DraftPlan, draft_plan
from specdec_cli.physics.layers import Layout, resolve_dtypes, target_operations
from specdec_cli.physics.operations import Operation
from specdec_cli.physics.roofline import Cost
from specdec_cli.physics.step import StepModel
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.schema import Drafter, Model

US = 1e-6


def column(*values: float) -> np.ndarray:
    """(n, 1): batches."""
    return np.array(values, dtype=np.float64)[:, None]


def row(*values: float) -> np.ndarray:
    """(1, n): draft lengths."""
    return np.array(values, dtype=np.float64)[None, :]


def chip_of(hardware: Data | None = None, engine: Data | None = None, kv: Any = "bf16") -> Chip:
    """The toy chip under the toy engine."""
    return resolve_chip(as_record(hardware or toy_hardware()), as_record(engine or toy_engine()), kv)


def cost_of(
    operation: Operation, *, requests: float = 1, width: float = 1, context: float = 1000, ranks: int = 1, **chip: Any
) -> Cost:
    """What an operation costs on the toy chip; each part a number."""
    shape = Shape(np.asarray(float(requests)), np.asarray(float(width)), np.asarray(float(context)), ranks)
    return Cost(*(float(part) for part in operation_cost(operation, shape, chip_of(**chip))))  # type: ignore[arg-type]


def plan_of(drafter: Drafter, model: Model, layout: Layout | None = None, *, small: Model | None = None) -> DraftPlan:
    """The passes of a drafter for a target, each in its own dtypes."""
    return draft_plan(
        drafter,
        model,
        resolve_dtypes(model.dtypes),
        layout or Layout(),
        draft_model=small,
        draft_model_dtypes=None if small is None else resolve_dtypes(small.dtypes),
    )


def step_of(
    model: Data | None = None,
    drafter: Data | None = None,
    *,
    hardware: Data | None = None,
    engine: Data | None = None,
    layout: Layout | None = None,
    small: Data | None = None,
) -> StepModel:
    """One target on the toy chip, with a drafter or without."""
    target: Model = as_record(model or toy_model())
    spread = layout or Layout()
    record = as_record(engine or toy_engine())
    plan = None
    if drafter is not None:
        plan = plan_of(as_record(drafter), target, spread, small=None if small is None else as_record(small))
    operations = target_operations(target, spread, resolve_dtypes(target.dtypes))
    return StepModel(chip_of(hardware, engine), record.overheads, tuple(operations), plan, spread.ranks)


def draft_us(step: StepModel, draft_length: int, *, al: float, batch: float = 1, context: float = 1000) -> float:
    """T_draft of one point in us."""
    times = step.times(column(batch), row(draft_length), row(draft_length + 1), row(al), np.asarray(float(context)))
    return float(times.draft_s[0, 0]) / US


def toy_library(root: Path, *more: Data) -> Library:
    """The toy model, chip and engine, an EAGLE-3 head with its acceptance, an n-gram drafter, and what is added or put
    in their place."""
    base = [
        toy_hardware(),
        toy_engine(),
        toy_model(),
        toy_drafter(),
        toy_drafter("toy-ngram", "ngram"),
        toy_acceptance(),
    ]
    added = {(data["kind"], data["name"]) for data in more}
    kept = [data for data in base if (data["kind"], data["name"]) not in added]
    return Library([write_library(root, *kept, *more)])


def toy_options(**changes: Any) -> Options:
    """A question about the toys."""
    said: dict[str, Any] = {"hardware": "toy-chip", "model": "toy-model", "engine": "toy-engine"}
    return Options(**{**said, **changes})


def clockwork(
    *, host_ms: float = 10.0, fee_ms: float = 1.0, lookup_ms: float = 0.0, per_token_ms: float = 0.1
) -> tuple[Data, Data]:
    """(hardware, engine) on which a step of the toy model at a context of 1 token has a price that fits in a line.

    T_target(B) = host + c B, T_verify(B, D) = host + fee + c B (1 + D), T_draft = look-up (an n-gram drafter):
    the memory is so fast that bytes are free, a token is 2 x 155e6 weights = 3.1e8 FLOP in the linears. Attention at
    one token of context adds 0.05 % to c.
    """
    hardware = toy_hardware(
        memory_bandwidth_gb_per_s=1e12,
        peak_tflops={"bf16": 3.1e8 / (per_token_ms * 1e-3) / 1e12, "fp8": 1.0},
        kernels={"default": toy_kernels()},
    )
    overheads = toy_overheads(step_ms=host_ms, speculation_ms=fee_ms, lookup_ms=lookup_ms)
    return hardware, toy_engine(overheads=overheads)


@cache
def shipped() -> Library:
    """The shipped profiles, each read once for all tests."""
    return Library()


@cache
def shipped_scenario(**options: Any) -> Scenario:
    """The only scenario of a question about shipped profiles."""
    (scenario,) = resolve(shipped(), Options(**options)).scenarios
    return scenario
