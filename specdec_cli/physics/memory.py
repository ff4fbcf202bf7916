"""What must fit into one GPU: weights, KV cache, recurrent states; and the largest batch that does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from specdec_cli.physics.chip import INDEX_KEY_BYTES
from specdec_cli.physics.drafting import DraftPlan
from specdec_cli.physics.layers import Layout
from specdec_cli.physics.operations import (
    Attention,
    Experts,
    IndexerScan,
    LatentAttention,
    Linear,
    Operation,
    RecurrentState,
)
from specdec_cli.physics.roofline import Floats
from specdec_cli.profiles.schema import Engine, Hardware, KvDtype, Model, WeightDtype
from specdec_cli.units import GIGA, KV_BYTES, WEIGHT_BYTES


def drafted_nodes(draft_lengths: Floats, widths: Floats) -> Floats:
    """Nodes that a request drafts in a step: D of a chain, W - 1 of a tree.

    draft_lengths, widths: D and W, arrays that broadcast together.
    """
    return np.where(draft_lengths > 0, widths - 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class MemoryBill:
    """Bytes on one GPU, of a replica that decodes at some context length."""

    usable: float
    target_weights: float
    draft_weights: float
    kv_per_request: float
    """Target's KV cache of one request at the context length, on its attention rank."""
    draft_kv_per_request: float
    """Drafter's KV cache and recurrent state of one request."""
    state_per_request: float
    """Recurrent state of one request; with saved states it is held once more for each draft position."""
    saves_states: bool

    def per_request(self, drafted: Floats, *, drafting: np.ndarray) -> Floats:
        """Bytes that one request holds, for each number of drafted nodes: D of a chain, W - 1 of a tree."""
        states = self.state_per_request * (1.0 + (drafted if self.saves_states else np.minimum(drafted, 1)))
        return self.kv_per_request + states + np.where(drafting, self.draft_kv_per_request, 0.0)

    def needed(self, rank_requests: Floats, drafted: Floats) -> Floats:
        """Bytes needed on the fullest GPU; speculation off (nothing drafted) holds no drafter."""
        drafting = drafted > 0
        weights = self.target_weights + np.where(drafting, self.draft_weights, 0.0)
        return weights + rank_requests * self.per_request(drafted, drafting=drafting)

    def largest_batch(self, drafted: int) -> float:
        """Requests of one attention rank that fit beside so many drafted nodes each; below 1: not even one."""
        nodes = np.asarray(float(drafted))
        drafting = nodes > 0
        free = self.usable - self.target_weights - (self.draft_weights if drafted else 0.0)
        per_request = float(self.per_request(nodes, drafting=drafting))
        return max(0.0, free) / per_request if per_request > 0 else float("inf")


def weight_bytes(operations: Iterable[Operation]) -> float:
    """Bytes of the weights that these operations hold on one GPU."""
    total = 0.0
    for op in operations:
        if isinstance(op, Linear):
            total += op.count * op.n * op.k * WEIGHT_BYTES[op.dtype]
        elif isinstance(op, Experts):
            held = op.experts / op.expert_parallel
            total += op.count * held * op.matrices * op.hidden * op.intermediate * WEIGHT_BYTES[op.dtype]
    return total


def kv_bytes(operations: Iterable[Operation], context: float, kv_dtype: KvDtype) -> float:
    """Bytes of one request's KV cache at `context` tokens on one GPU; windows hold no more than their length."""
    element = KV_BYTES[kv_dtype]
    total = 0.0
    for op in operations:
        if isinstance(op, Attention):
            held = context if op.window is None else min(context, op.window)
            total += op.count * held * op.kv_heads * op.kv_dim * element
        elif isinstance(op, LatentAttention):
            # Compressed attention: the window's tokens, and an entry for each `ratio` tokens of all.
            entries = context / op.ratio if op.ratio is not None else 0.0
            held = context if op.window is None else min(context, op.window) + entries
            total += op.count * held * (op.latent_dim + op.rope_dim) * element
        elif isinstance(op, IndexerScan):
            total += op.count * context / (op.ratio or 1) * op.head_dim * INDEX_KEY_BYTES
    return total


def state_bytes(operations: Iterable[Operation]) -> float:
    """Bytes of one request's recurrent states on one GPU."""
    return sum(op.count * op.state_bytes for op in operations if isinstance(op, RecurrentState))


def embedding_bytes(vocabulary: int, hidden: int, dtype: WeightDtype, tp: int) -> float:
    """An input embedding's bytes on one GPU (it is looked up, never read whole)."""
    return vocabulary * hidden * WEIGHT_BYTES[dtype] / tp


def memory_bill(
    hardware: Hardware,
    engine: Engine,
    model: Model,
    target: list[Operation],
    lm_head: WeightDtype,
    layout: Layout,
    plan: DraftPlan | None,
    context: float,
    kv_dtype: KvDtype,
) -> MemoryBill:
    """Add up what one GPU holds."""
    weights = weight_bytes(target)
    if not model.tied_embeddings:
        weights += embedding_bytes(model.vocabulary, model.hidden, lm_head, layout.tp)
    draft_weights = draft_kv = 0.0
    if plan is not None:
        draft_weights = weight_bytes(plan.stored)
        if plan.embedding is not None:
            vocabulary, hidden, dtype = plan.embedding
            draft_weights += embedding_bytes(vocabulary, hidden, dtype, layout.tp)
        held = context if plan.kv_window is None else min(context, plan.kv_window)
        draft_kv = kv_bytes(plan.stored, held, kv_dtype) + state_bytes(plan.stored)
    return MemoryBill(
        usable=engine.memory.usable_fraction * hardware.memory_bytes - engine.memory.reserve_gb * GIGA,
        target_weights=weights,
        draft_weights=draft_weights,
        kv_per_request=kv_bytes(target, context, kv_dtype),
        draft_kv_per_request=draft_kv,
        state_per_request=state_bytes(target),
        saves_states=engine.recurrent_rollback == "saved_states",
    )
