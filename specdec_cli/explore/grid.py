"""One scenario over its (batch, draft length) grid: times, acceptance, what fits, and prefill between the steps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from specdec_cli.explore.question import Scenario
from specdec_cli.physics.acceptance import AcceptanceEstimate
from specdec_cli.physics.drafting import longest_draft
from specdec_cli.physics.memory import drafted_nodes
from specdec_cli.physics.roofline import Floats
from specdec_cli.physics.serving import ServingTimes, serving_step_model, serving_times
from specdec_cli.physics.step import StepTimes, bound


class ServingGrid(msgspec.Struct, frozen=True):
    """A replica that prefills and decodes, at `batch` requests in flight; arrays of shape (batches, draft lengths)."""

    tpot_s: Floats
    decode_batch: Floats
    speedup: Floats
    """TPOT without speculation over TPOT with it, at equal concurrency."""
    throughput: Floats
    """Output tokens/s/GPU."""
    throughput_gain: Floats
    """Throughput over that without speculation, at equal concurrency."""


class Grid(msgspec.Struct, frozen=True):
    """One scenario evaluated: arrays of shape (batches, draft lengths), s."""

    scenario: Scenario
    times: StepTimes
    acceptance_length: Floats
    """(draft lengths,), with its band."""
    verify_width: NDArray[np.int64]
    """(draft lengths,), W: 1 + D for a chain, the verified nodes of a tree."""
    acceptance_low: Floats
    acceptance_high: Floats
    basis: tuple[str, ...]
    bound: NDArray[np.int8]
    """Places in `physics.step.BOUNDS`."""
    fits: NDArray[np.bool_]
    """Whether the point's memory fits."""
    serving: ServingGrid | None
    """The same points with prefill between the steps; None where no prompt lengths were given."""
    usable: NDArray[np.bool_]
    """Whether the point can be recommended or drawn at all: fits, and its acceptance is known."""

    @property
    def batches(self) -> Floats:
        """(batches, 1)."""
        return np.asarray(self.scenario.batches, dtype=np.float64)[:, None]

    @property
    def draft_lengths(self) -> NDArray[np.int64]:
        """(draft lengths,)."""
        return np.asarray(self.scenario.draft_lengths, dtype=np.int64)

    @property
    def speedup(self) -> Floats:
        """AL T_target / (T_verify + T_draft)."""
        return self.acceptance_length * self.times.target_s / self.times.step_s

    @property
    def speedup_low(self) -> Floats:
        """The slow end of the band; exactly 1 where D = 0."""
        return banded_speedup(self.acceptance_low, self._rho, self.half_width, self.draft_lengths)

    @property
    def speedup_high(self) -> Floats:
        """The fast end of the band."""
        return banded_speedup(self.acceptance_high, self._rho, -self.half_width, self.draft_lengths)

    @property
    def half_width(self) -> Floats:
        """Of the band of rho, relative."""
        return self.scenario.band.over(self.batches, self.draft_lengths[None, :].astype(np.float64))

    @property
    def _rho(self) -> Floats:
        return self.times.step_s / self.times.target_s

    @property
    def interactivity(self) -> Floats:
        """Tokens/s/user."""
        return self.acceptance_length / self.times.step_s

    @property
    def user_speed(self) -> Floats:
        """Tokens/s/user, with prefill between the steps where prompts were given."""
        return self.interactivity if self.serving is None else 1.0 / self.serving.tpot_s

    @property
    def gain(self) -> Floats:
        """The speedup of a user's speed, with prefill between the steps where prompts were given."""
        return self.speedup if self.serving is None else self.serving.speedup

    @property
    def output_gain(self) -> Floats:
        """A GPU's output over that without speculation at equal batch, likewise: what a choice at a batch goes by."""
        return self.speedup if self.serving is None else self.serving.throughput_gain

    @property
    def throughput(self) -> Floats:
        """Tokens/s/GPU."""
        return self.batches * self.interactivity / self.scenario.layout.gpus


LEAST_RHO = 0.1
"""Of rho, at the fast end of its band: a calibration may miss its own rows by a whole step and more, yet no step takes
no time, or less."""


def banded_speedup(acceptance_length: Floats, rho: Floats, aside: Floats, draft_length: NDArray[np.int64]) -> Floats:
    """AL / rho with AL at one end of its band, and rho = T_step / T_target that much aside, relative; AL where D = 0.

    Arrays that broadcast together.
    """
    return acceptance_length / np.where(draft_length > 0, rho * np.maximum(1.0 + aside, LEAST_RHO), 1.0)


Estimates = Sequence[AcceptanceEstimate | None]
"""Of each draft length of a scenario; None where there is no drafter or AL is not known, and for D = 0."""


def estimates_of(scenario: Scenario) -> Estimates:
    """What is known of the acceptance at each draft length."""
    acceptance, drafter = scenario.acceptance, scenario.drafter
    if acceptance is None or drafter is None or scenario.beyond_window:
        return [None] * len(scenario.draft_lengths)
    limit = None if scenario.past_block else longest_draft(drafter)
    return [acceptance.estimate(d) if d and (limit is None or d <= limit) else None for d in scenario.draft_lengths]


def bytes_needed(scenario: Scenario, batches: Floats, draft_lengths: Floats, widths: Floats) -> Floats:
    """Bytes on the fullest GPU; arrays that broadcast together."""
    requests = np.ceil(batches / scenario.layout.ranks)
    return scenario.memory.needed(requests, drafted_nodes(draft_lengths, widths))


def evaluate(scenario: Scenario, estimates: Estimates | None = None) -> Grid:
    """Times, acceptance and feasibility of a scenario's grid.

    estimates: those of this scenario, where they are at hand.
    """
    if estimates is None:
        estimates = estimates_of(scenario)
    batches = np.asarray(scenario.batches, dtype=np.float64)[:, None]
    lengths = np.asarray(scenario.draft_lengths, dtype=np.float64)[None, :]
    known = np.array([e is not None for e in estimates]) | (lengths[0] == 0)
    expected = np.array([e.acceptance_length if e else 1.0 for e in estimates])
    verified = np.array(
        [e.verify_width if e else d + 1 for e, d in zip(estimates, scenario.draft_lengths, strict=True)]
    )
    widths = verified[None, :].astype(np.float64)
    context = np.asarray(float(scenario.context))
    times = scenario.step.times(batches, lengths, widths, expected[None, :], context)
    fits = bytes_needed(scenario, batches, lengths, widths) <= scenario.memory.usable
    return Grid(
        scenario=scenario,
        times=times,
        acceptance_length=expected,
        verify_width=verified,
        acceptance_low=np.array([e.low if e else 1.0 for e in estimates]),
        acceptance_high=np.array([e.high if e else 1.0 for e in estimates]),
        basis=tuple(e.basis if e else "measured" for e in estimates),
        bound=bound(times),
        fits=fits,
        serving=_serving(scenario, batches, lengths, widths, expected[None, :]),
        usable=fits & known[None, :],
    )


def _serving(
    scenario: Scenario, concurrency: Floats, draft_lengths: Floats, widths: Floats, lengths: Floats
) -> ServingGrid | None:
    workload = scenario.workload
    if workload is None:
        return None
    step, prefill = serving_step_model(scenario.step), scenario.engine.prefill

    def under_load(draft_lengths: Floats, widths: Floats, lengths: Floats) -> ServingTimes:
        return serving_times(step, scenario.memory, workload, concurrency, draft_lengths, widths, lengths, prefill)

    found = under_load(draft_lengths, widths, lengths)
    one = np.ones((1, 1))
    plain = under_load(np.zeros((1, 1)), one, one)
    throughput, plain_throughput = found.decode_batch / found.tpot_s, plain.decode_batch / plain.tpot_s
    return ServingGrid(
        tpot_s=found.tpot_s,
        decode_batch=found.decode_batch,
        speedup=plain.tpot_s / found.tpot_s,
        throughput=throughput / scenario.layout.gpus,
        throughput_gain=throughput / plain_throughput,
    )
