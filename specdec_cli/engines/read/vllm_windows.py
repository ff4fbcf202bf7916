"""What windows of a vLLM log add up to, line by line: the load before, the pools, what is left out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from specdec_cli.engines.read.pool import FEW, Tally, WindowPool
from specdec_cli.errors import ProfileError

# An interval's prompt tokens cost target passes too. At 0.1 prompt tokens for each generated one they are 1 to 4 % of
# the time (8B on H100: 30 us a prompt token against 500 to 80 us a generated one at 8 to 64 requests).
PREFILL_SHARE = 0.1
ROUNDED = 1e-9
"""Of sums of printed decimals: a difference as large as rounding allows is allowed."""
LENGTH_ROUNDED = 0.005
"""Half of the last decimal of a printed AL."""
ENGINES = re.compile(rb"(\d+) Engines Aggregated")
Numbers = TypeVar("Numbers", float, npt.NDArray[np.float64])


@dataclass(slots=True)
class Load:
    """A throughput line: tokens/s of prompts and answers, requests, share of prompt tokens cached."""

    prompt: float
    generation: float
    running: float
    waiting: float
    cached: float | None
    line: int


@dataclass(slots=True)
class State:
    """Of a file."""

    file: str
    pools: dict[tuple[int, float | None], WindowPool] = field(default_factory=dict)
    """By draft length and running requests."""
    plain: dict[float, WindowPool] = field(default_factory=dict)
    loads: dict[bytes, Load] = field(default_factory=dict)
    """Of each process, the throughput line that no speculation line has followed yet."""
    counters: dict[bytes, tuple[float, float]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    forced: int | None = None
    prefill_heavy: int = 0
    queued: int = 0
    lengths: set[float] = field(default_factory=set)
    """Distinct AL of windows, while they are few: a forced acceptance has one."""
    windows: int = 0
    legacy: bool = False
    cached_sum: float = 0.0
    cached_count: int = 0


def plain_window(state: State, load: Load | None) -> None:
    """A throughput line that no speculation line followed."""
    if load is None:
        return
    if not load.running or not load.generation:
        state.tally.add("idle windows", load.line)
        return
    pool = state.plain.setdefault(load.running, WindowPool())
    pool.at(load.line)
    pool.ran(load.generation)
    if load.waiting or load.prompt > PREFILL_SHARE * load.generation:
        return
    pool.timed(load.running / load.generation, 1.0)


def above(state: State, length: float, longest: int, line: int) -> ProfileError:
    """An acceptance length that cannot be."""
    return ProfileError(
        f"acceptance length {length:g} above D + 1 = {longest + 1}",
        file=state.file,
        line=line,
        hint="a step yields D accepted tokens and the bonus token at most: the counters are wrong, or the line is",
    )


def adds_up_within(longest: int) -> float:
    """How far 1 + the sum of that many rates of three decimals may lie from an AL of two."""
    return 0.01 + 0.001 * longest + ROUNDED


def told_within(n: Numbers, more: Numbers) -> Numbers:
    """How far iterations counted by a printed AL, 1 + `more`, may lie from n and mean the same: the decimals of both
    counts and of AL round them by so much."""
    return n * (1.2 * LENGTH_ROUNDED / more + 0.001)


def window(
    state: State,
    line: int,
    where: tuple[int, Load | None],
    counts: tuple[float, float, float],
    rates: list[float] | None,
) -> None:
    """A window of iterations, accepted and drafted tokens, at a draft length and under a load."""
    length, load = where
    n, accepted, drafted = counts
    batch = load.running if load is not None and load.running else None
    pool = state.pools.setdefault((length, batch), WindowPool())
    pool.at(line)
    pool.accept(n, accepted, drafted, rates)
    state.windows += 1
    if len(state.lengths) < FEW:
        state.lengths.add(round(accepted / n, 3))
    if load is None or batch is None:
        return
    if load.cached is not None:
        state.cached_sum += load.cached
        state.cached_count += 1
    if not load.generation:
        return
    pool.ran(load.generation)
    if load.prompt > PREFILL_SHARE * load.generation:
        state.prefill_heavy += 1
    elif load.waiting:
        state.queued += 1
    else:
        pool.timed(batch * (1 + accepted / n) / load.generation, n / batch)
