"""A user's calibration taken into the physics: kernels scaled, host constants replaced, measured steps followed.

Nothing here is fitted; `explore.calibrate` does that. Peaks and bandwidth stay the datasheet's: what is scaled are the
fractions of them that kernels achieve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from specdec_cli.physics.roofline import Floats
from specdec_cli.profiles.calibration import Constants
from specdec_cli.profiles.schema import KernelSet, Mechanism, Overheads, Record

_K = TypeVar("_K")
_R = TypeVar("_R", bound=Record)

RISER = 1.0 + 1e-9
"""From one measured width to the next a pass that grows by more than the tokens do has climbed a stair."""


def scaled_kernels(kernels: KernelSet, memory_scale: float, compute_scale: float) -> KernelSet:
    """Kernels whose memory side takes `memory_scale` times as long, and their compute side `compute_scale` times.

    Floors, launches and links stay.
    """

    def table(figures: Mapping[_K, _R], memory: Sequence[str], compute: Sequence[str]) -> dict[_K, _R]:
        return {key: _slower(one, memory, memory_scale, compute, compute_scale) for key, one in figures.items()}

    recurrent, indexer = kernels.linear_attention, kernels.indexer
    changed: KernelSet = msgspec.structs.replace(
        kernels,
        gemm=table(kernels.gemm, ("eta_m", "eta_q"), ("eta_c",)),
        attention=table(kernels.attention, ("eta_m",), ("eta_c",)),
        mla=table(kernels.mla, ("eta_m",), ("eta_c",)),
        moe=table(kernels.moe, ("eta_m", "eta_a"), ("eta_c",)),
        linear_attention=None if recurrent is None else _slower(recurrent, ("eta_m",), memory_scale, (), 1.0),
        indexer=None if indexer is None else _slower(indexer, ("eta_m",), memory_scale, (), 1.0),
    )
    return changed


def _slower(figures: _R, memory: Sequence[str], by_m: float, compute: Sequence[str], by_c: float) -> _R:
    changes = {
        name: getattr(figures, name) / by
        for names, by in ((memory, by_m), (compute, by_c))
        for name in names
        if getattr(figures, name) is not None
    }
    changed: _R = msgspec.structs.replace(figures, **changes)
    return changed


def constants_of(overheads: Overheads, mechanism: Mechanism | None, *, trees: bool) -> Constants:
    """What a profile says of everything that is fitted."""
    entry = overheads.speculation_ms
    each = overheads.draft_pass_ms
    if mechanism is not None:
        each = overheads.draft_pass_ms_by_mechanism.get(mechanism, each)
    if trees:
        entry = entry if overheads.tree_speculation_ms is None else overheads.tree_speculation_ms
        each = each if overheads.tree_draft_pass_ms is None else overheads.tree_draft_pass_ms
    return Constants(
        step_ms=overheads.step_ms,
        per_request_us=overheads.per_request_us,
        speculation_ms=entry,
        draft_pass_ms=each,
        draft_pass_target_fraction=overheads.draft_pass_target_fraction,
    )


def with_host_constants(overheads: Overheads, constants: Constants, *, trees: bool, drafts: bool) -> Overheads:
    """The engine's host constants with the fitted ones in their place.

    Serving steps, and trees where chains were measured (or chains where trees were), move by as much.

    Args:
        drafts: whether the entry fee and the passes are the same drafter's; else the profile's stay.
    """
    step = constants.step_ms - overheads.step_ms
    request = constants.per_request_us - overheads.per_request_us
    serving_request = overheads.serving_per_request_us
    changes: dict[str, object] = {
        "step_ms": constants.step_ms,
        "per_request_us": constants.per_request_us,
        "serving_step_ms": max(0.0, overheads.serving_step_ms + step),
        "serving_per_request_us": None if serving_request is None else max(0.0, serving_request + request),
    }
    if drafts:
        changes |= _drafting(overheads, constants, trees)
    changed: Overheads = msgspec.structs.replace(overheads, **changes)
    return changed


def _drafting(overheads: Overheads, constants: Constants, trees: bool) -> dict[str, object]:
    chain_entry, chain_pass = overheads.speculation_ms, overheads.draft_pass_ms
    tree_entry = chain_entry if overheads.tree_speculation_ms is None else overheads.tree_speculation_ms
    tree_pass = chain_pass if overheads.tree_draft_pass_ms is None else overheads.tree_draft_pass_ms
    entry, each = constants.speculation_ms, constants.draft_pass_ms
    if trees:
        chain_entry, chain_pass = max(0.0, chain_entry + entry - tree_entry), max(0.0, chain_pass + each - tree_pass)
        tree_entry, tree_pass = entry, each
    else:
        tree_entry, tree_pass = max(0.0, tree_entry + entry - chain_entry), max(0.0, tree_pass + each - chain_pass)
        chain_entry, chain_pass = entry, each
    return {
        "speculation_ms": chain_entry,
        "draft_pass_ms": chain_pass,
        "tree_speculation_ms": tree_entry,
        "tree_draft_pass_ms": tree_pass,
        "draft_pass_ms_by_mechanism": {},
        "draft_pass_target_fraction": constants.draft_pass_target_fraction,
    }


class StepCorrection(msgspec.Struct, frozen=True):
    """Measured over computed step: by batch, for D = 0, 1, 2, ..."""

    factors: Mapping[float, tuple[float, ...]]

    def at(self, batches: Floats, draft_lengths: Floats) -> Floats:
        """The factor over a grid: between measured batches along the logarithm of the batch, beyond them and beyond
        the longest measured draft as at the end.

        Args:
            batches: (nb, 1). draft_lengths: (1, nd) or (nb, 1). Returns the shape that they broadcast to.
        """
        known = sorted(self.factors)
        depth = max(len(column) for column in self.factors.values())
        whole = [self.factors[b] + self.factors[b][-1:] * (depth - len(self.factors[b])) for b in known]
        table = np.log(np.array(whole))  # (known batches, D)
        batches, draft_lengths = np.broadcast_arrays(np.maximum(batches, 1e-9), draft_lengths)
        columns = np.minimum(draft_lengths, depth - 1).astype(np.int64)
        place = np.interp(np.log(batches), np.log(known), np.arange(len(known), dtype=np.float64))
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, len(known) - 1)
        share = place - low
        found: Floats = np.exp(table[low, columns] * (1.0 - share) + table[high, columns] * share)
        return found


class VerifyCurve(msgspec.Struct, frozen=True):
    """The target's pass over n tokens of one request as measured, stairs and all."""

    tokens: tuple[int, ...]
    """Rising."""
    seconds: tuple[float, ...]
    context: float
    """Tokens in the KV cache before the pass."""

    def within(self, tokens: Floats) -> Floats:
        """The tokens, those past the ends of the curve at its ends."""
        clipped: Floats = np.clip(tokens, float(self.tokens[0]), float(self.tokens[-1]))
        return clipped

    def at(self, tokens: Floats) -> Floats:
        """Seconds of a pass over so many tokens, any shape, within the curve.

        Interpolated along a stair's tread. Between two measured widths with a riser somewhere between them nobody
        knows where it stands: the upper stair counts from the first token on.
        """
        widths, times = np.array(self.tokens, dtype=np.float64), np.array(self.seconds)
        tokens = np.asarray(tokens, dtype=np.float64)
        above = np.clip(np.searchsorted(widths, tokens), 0, len(widths) - 1)
        below = np.maximum(above - 1, 0)
        climbs = times[above] / times[below] > widths[above] / widths[below] * RISER
        between: Floats = np.where(climbs, times[above], np.interp(tokens, widths, times))
        return between

    def risers(self) -> list[tuple[int, int]]:
        """(last measured width below, first above) of every stair."""
        steps = zip(self.tokens, self.tokens[1:], self.seconds, self.seconds[1:], strict=False)
        return [(a, b) for a, b, s, t in steps if t / s > b / a * RISER]
