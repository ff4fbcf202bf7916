"""Draft mechanism -> the passes that produce D draft tokens, and T_draft.

Sequential mechanisms (draft model, EAGLE, MTP, self-speculation) make D passes of one token a request, the first of
which also takes in the tokens that the target has just accepted. Block mechanisms (DFlash, DSpark, PARD, P-EAGLE,
Medusa) make one pass. n-gram and suffix look their drafts up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import numpy as np

from specdec_cli.errors import ProfileError
from specdec_cli.physics.layers import (
    Dtypes,
    Layout,
    attention_operations,
    block_operations,
    body_operations,
    dense_operations,
    ffn_operations,
    head_operations,
    merge_alike,
)
from specdec_cli.physics.operations import AllReduceHidden, Linear, Logits, Operation, SmallKernels
from specdec_cli.profiles.schema import Drafter, DraftHead, Gqa, KvDtype, Mechanism, Model, WeightDtype

SEQUENTIAL = frozenset({"draft_model", "eagle", "eagle3", "mtp", "self"})
BLOCK = frozenset({"dflash", "dspark", "p_eagle", "pard", "medusa"})
LOOKUP = frozenset({"ngram", "suffix"})


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """What drafting runs, whatever B and D."""

    mechanism: Mechanism
    fusion: tuple[Operation, ...]
    """Once a round, on the tokens that the target has just produced (AL a request)."""
    body: tuple[Operation, ...]
    """The layers of a pass, on every token of the pass."""
    head: tuple[Operation, ...]
    """The pass's lm_head and sampling, on the rows that propose a token."""
    serial_head: tuple[Operation, ...]
    """Once for each drafted token after a block pass (DSpark)."""
    kv_window: int | None
    """Tokens of context that drafting reads at most; None: all."""
    stored: tuple[Operation, ...] = ()
    """Operations whose weights and KV cache the drafter adds to memory; what it shares with the target is not here."""
    embedding: tuple[int, int, WeightDtype] | None = None
    """(vocabulary, hidden, dtype) of an input embedding of its own."""

    @property
    def sequential(self) -> bool:
        """Whether D tokens take D passes."""
        return self.mechanism in SEQUENTIAL

    @property
    def lookup(self) -> bool:
        """Whether drafting runs no model."""
        return self.mechanism in LOOKUP

    def passes(self, draft_lengths: np.ndarray) -> np.ndarray:
        """Passes of the draft model for each D."""
        if self.lookup:
            return np.zeros_like(draft_lengths)
        return draft_lengths if self.sequential else np.minimum(draft_lengths, 1)


def longest_draft(drafter: Drafter) -> int | None:
    """The longest draft that a block drafter can make; None: no limit. DFlash's first slot is the anchor."""
    if drafter.block is None or drafter.mechanism not in BLOCK:
        return None
    return drafter.block - 1 if drafter.mechanism == "dflash" else drafter.block


def draft_plan(
    drafter: Drafter,
    target: Model,
    target_dtypes: Dtypes,
    layout: Layout,
    *,
    draft_model: Model | None = None,
    draft_model_dtypes: Dtypes | None = None,
    logit_passes: float | None = None,
) -> DraftPlan:
    """The passes of `drafter` for `target`, spread over the target's GPUs.

    Args:
        draft_model: the model that drafts, for the mechanism `draft_model`. logit_passes: over the logits of each
        draft token, where the engine's draft sampler differs from its target's.
    """
    plan = _whole_plan(drafter, target, target_dtypes, layout, draft_model, draft_model_dtypes)
    if logit_passes is None:
        return plan
    head = tuple(msgspec.structs.replace(op, passes=logit_passes) if isinstance(op, Logits) else op for op in plan.head)
    return replace(plan, head=head)


def _whole_plan(
    drafter: Drafter,
    target: Model,
    target_dtypes: Dtypes,
    layout: Layout,
    draft_model: Model | None,
    draft_model_dtypes: Dtypes | None,
) -> DraftPlan:
    mechanism = drafter.mechanism
    # A draft runs at the target's tensor parallelism, or on fewer of its GPUs, on every attention rank; its layers are
    # not expert-parallel.
    spread = min(layout.tp, drafter.largest_tp or layout.tp)
    tp = Layout(tp=spread, gpus=spread, ep=1)
    if mechanism in LOOKUP:
        return DraftPlan(mechanism, (), (), (), (), None)
    if mechanism == "self":
        body = body_operations(target, layout, target_dtypes)
        head = head_operations(target.vocabulary, target.hidden, layout, target_dtypes.lm_head)
        return _plan(mechanism, body=body, head=head, kv_window=drafter.kv_window_tokens, stored=[])
    if mechanism == "draft_model":
        if draft_model is None or draft_model_dtypes is None:
            raise ProfileError(f"{drafter.name} needs the profile of its draft model {drafter.model}")
        body = body_operations(draft_model, tp, draft_model_dtypes)
        head = head_operations(draft_model.vocabulary, draft_model.hidden, tp, draft_model_dtypes.lm_head)
        embedding = None
        if not draft_model.tied_embeddings:
            embedding = (draft_model.vocabulary, draft_model.hidden, draft_model_dtypes.lm_head)
        return _plan(
            mechanism,
            body=body,
            head=head,
            kv_window=drafter.kv_window_tokens,
            stored=[*body, *head],
            embedding=embedding,
        )
    if mechanism == "mtp" and drafter.head is None:
        return _native_mtp_plan(target, target_dtypes, layout)
    if drafter.head is None:
        raise ProfileError(f"{drafter.name} ({mechanism}) states no head", key="head")
    return _head_plan(drafter, drafter.head, target, target_dtypes, tp)


def _plan(
    mechanism: Mechanism,
    *,
    fusion: list[Operation] | None = None,
    body: list[Operation],
    head: list[Operation],
    serial_head: list[Operation] | None = None,
    kv_window: int | None = None,
    stored: list[Operation],
    embedding: tuple[int, int, WeightDtype] | None = None,
) -> DraftPlan:
    return DraftPlan(
        mechanism,
        tuple(fusion or ()),
        tuple(merge_alike(body)),
        tuple(head),
        tuple(serial_head or ()),
        kv_window,
        tuple(stored),
        embedding,
    )


def _native_mtp_plan(target: Model, dtypes: Dtypes, layout: Layout) -> DraftPlan:
    """One MTP layer of the target's own form, with its fusion of hidden state and embedding, and the target's head."""
    if target.mtp is None:
        raise ProfileError(f"{target.name} has no native MTP layers", key="mtp")
    mtp_dtypes = Dtypes(dtypes.mtp, dtypes.mtp, dtypes.mtp, dtypes.lm_head, dtypes.mtp, dtypes.kv)
    body: list[Operation] = [Linear(name="draft fusion", n=target.hidden, k=2 * target.hidden, dtype=dtypes.mtp)]
    body += block_operations(
        target.attention[target.mtp.attention] if target.mtp.attention else None,
        target.ffn[target.mtp.ffn] if target.mtp.ffn else None,
        target.hidden,
        layout,
        mtp_dtypes,
        1,
        streams=target.residual_streams,
    )
    return _plan(
        "mtp",
        body=body,
        head=head_operations(target.vocabulary, target.hidden, layout, dtypes.lm_head),
        stored=[msgspec.structs.replace(op, count=op.count * target.mtp.layers) for op in body],
    )


def _head_plan(drafter: Drafter, head: DraftHead, target: Model, target_dtypes: Dtypes, layout: Layout) -> DraftPlan:
    dtype = drafter.weight_dtype
    head_dtype: WeightDtype = dtype if head.own_lm_head else target_dtypes.lm_head
    lm_head = head_operations(head.draft_vocabulary, head.hidden, layout, head_dtype)
    if drafter.mechanism == "medusa":
        block = [Linear(name="draft residual", n=head.hidden * head.parallel_heads, k=head.hidden, dtype=dtype)]
        each = head_operations(head.draft_vocabulary * head.parallel_heads, head.hidden, layout, head_dtype)
        return _plan("medusa", body=[*block], head=each, stored=[*block, *each])
    fusion: list[Operation] = []
    if head.fc_in:
        fusion = [Linear(name="draft fusion", n=head.hidden, k=head.fc_in, dtype=dtype)]
    body = draft_layer_operations(head, layout, dtype, target_dtypes.kv)
    own_head = lm_head if head.own_lm_head else []
    stored = [*fusion, *body, *own_head]
    if head.fc_every_pass:
        body, fusion = [*fusion, *body], []
    serial: list[Operation] = []
    if head.markov_rank:
        serial = [
            Linear(name="draft serial head", n=head.draft_vocabulary / layout.tp, k=head.markov_rank, dtype=dtype)
        ]
    return _plan(
        drafter.mechanism,
        fusion=fusion,
        body=body,
        head=lm_head,
        serial_head=serial,
        kv_window=drafter.kv_window_tokens,
        stored=[*stored, *serial],
    )


def draft_layer_operations(head: DraftHead, layout: Layout, dtype: WeightDtype, kv: KvDtype) -> list[Operation]:
    """The decoder layers of a draft head; the first one's q, k and v read `attention_input` (EAGLE-3: 2 x hidden)."""
    dtypes = Dtypes(dtype, dtype, dtype, dtype, dtype, kv)
    attention = Gqa(heads=head.heads, kv_heads=head.kv_heads, head_dim=head.head_dim)
    mixing = attention_operations(attention, head.hidden, layout, dtype, head.layers)
    mixing = [part for op in mixing for part in _widened(op, head.attention_input)]
    if head.ffn is not None:
        feed_forward = ffn_operations(head.ffn, head.hidden, layout, dtypes, head.layers)
    else:
        feed_forward = dense_operations(
            "", head.hidden, head.intermediate, head.mlp_matrices, dtype, layout.tp, head.layers
        )
    operations = [
        *mixing,
        *feed_forward,
        SmallKernels(name="norms, rope, KV write", hidden=head.hidden, count=head.layers),
    ]
    if layout.tp > 1:
        operations.append(AllReduceHidden(name="all-reduce", hidden=head.hidden, gpus=layout.tp, count=2 * head.layers))
    return operations


def _widened(operation: Operation, first_input: int) -> list[Operation]:
    """The projections of the first layer read `first_input`, those of the further layers the hidden state."""
    if not isinstance(operation, Linear) or operation.name != "qkv":
        return [operation]
    first = msgspec.structs.replace(operation, k=first_input, count=1)
    return [first] if operation.count == 1 else [first, msgspec.structs.replace(operation, count=operation.count - 1)]
