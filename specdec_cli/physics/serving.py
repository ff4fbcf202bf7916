"""A replica that prefills and decodes: every request that finishes lets one in, and its prompt delays the others.

    TPOT = T_step / AL + share (B - 1) / O dT_pre

A step of B decoding requests carries on average B AL / O prompts of I tokens; a request waits for the prompts of the
others, its own comes before its first token. dT_pre is what one prompt adds: to the decode step that its chunks ride in
(vLLM, TensorRT-LLM), or as a step of its own (SGLang). `share` is the engine's `prefill_share`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np

from specdec_cli.physics.chip import Shape
from specdec_cli.physics.memory import MemoryBill, drafted_nodes
from specdec_cli.physics.operations import BY_TOKENS, Attention, Experts, LatentAttention, Linear, Logits, Operation
from specdec_cli.physics.roofline import Floats
from specdec_cli.physics.step import StepModel, pass_cost

# Causal attention over a prompt reaches this fraction of the bf16 peak (published serving runs, H100 to B300).
PREFILL_ATTENTION_FRACTION = 0.45

# A request waits for its own prefill and half of another's before it decodes: Little's law turns concurrency into the
# decode batch with this many prefill times of latency.
PREFILLS_WAITED = 1.5

PREFILL_CHUNK_TOKENS = 8192  # a prefill step takes in so many at most: SGLang's default on GPUs of 80 GB and more

PASSES = 2  # of the fixed point between decode batch and TPOT; a third changes it by less than 0.1 %


class Workload(msgspec.Struct, frozen=True):
    """Prompt and answer lengths, tokens."""

    input_tokens: int
    output_tokens: int
    lock_step: bool = False
    """Every answer is as long as the others and all start together, so that all end together too: a benchmark's load.
    An engine that prefills first then keeps the requests together: each waits for half of the others' prompts."""

    @property
    def context(self) -> float:
        """Mean tokens in the KV cache while decoding: I + O/2."""
        return self.input_tokens + self.output_tokens / 2


class ServingTimes(msgspec.Struct, frozen=True):
    """A grid of serving points; arrays of one shape."""

    tpot_s: Floats
    decode_batch: Floats
    """Requests decoding together on the replica, below the concurrency by those that wait for prefill or memory."""
    prefill_s: Floats
    """dT_pre: what one prompt adds."""


def serving_step_model(step: StepModel) -> StepModel:
    """The same model with the engine's host constants of a serving run."""
    overheads = step.overheads
    per_request_us = overheads.serving_per_request_us
    serving = msgspec.structs.replace(
        overheads,
        step_ms=overheads.serving_step_ms,
        per_request_us=overheads.per_request_us if per_request_us is None else per_request_us,
    )
    return replace(step, overheads=serving)


def serving_times(
    step: StepModel,
    memory: MemoryBill,
    workload: Workload,
    concurrency: Floats,
    draft_lengths: Floats,
    widths: Floats,
    lengths: Floats,
    prefill: Literal["mixed", "separate"],
) -> ServingTimes:
    """TPOT under a steady load.

    Args:
        step: with the serving overhead (`serving_step_model`). concurrency: (nb, 1) requests in flight on the
        replica. draft_lengths, widths, lengths: (1, nd), D, W and AL.
    """
    ranks = step.ranks
    drafted = np.ravel(drafted_nodes(draft_lengths, widths))
    capacity = np.array([memory.largest_batch(int(nodes)) for nodes in drafted])[None, :]
    most = np.minimum(concurrency / ranks, np.maximum(capacity, 1.0))
    others = np.maximum(most - 1.0, 0.0)
    output = float(workload.output_tokens)
    context = np.asarray(workload.context)
    decoding: Floats = np.ones_like(most)  # share of its time that a request decodes, rather than waits for prefill
    for _ in range(PASSES):
        batch = 1.0 + decoding * others  # what a request sees while it decodes: itself, and others as they come
        requests = np.minimum(batch * ranks, concurrency)
        times = step.times(requests, draft_lengths, widths, lengths, context)
        added = prompt_s(step, workload, requests * widths, prefill)
        tpot = times.step_s / lengths + prompts_waited_for(step, workload, batch, prefill) / output * added
        decoding = output * tpot / (output * tpot + PREFILLS_WAITED * added)
    return ServingTimes(tpot, most * decoding * ranks, added)


def prompts_waited_for(
    step: StepModel, workload: Workload, batch: Floats, prefill: Literal["mixed", "separate"]
) -> Floats:
    """Prompts whose time a request waits for while it decodes its answer, on an attention rank of `batch`."""
    share = step.overheads.prefill_share
    if workload.lock_step and prefill == "separate":
        # All prompts are taken in before anyone decodes on, chunk by chunk: those in the first wait for all others'.
        together = max(1.0, PREFILL_CHUNK_TOKENS / workload.input_tokens)
        return share * np.maximum(batch - together, 0.0) / 2.0
    return share * np.maximum(batch - 1.0, 0.0)


def prompt_s(
    step: StepModel, workload: Workload, decode_tokens: Floats, prefill: Literal["mixed", "separate"]
) -> Floats:
    """dT_pre: what one prompt (one on every attention rank) adds to the time of the decoding requests."""
    prompt = float(workload.input_tokens * step.ranks)
    attention = prefill_attention_s(step, workload.input_tokens)
    if prefill == "separate":
        return tokens_s(step, np.asarray(prompt)) + attention + step.host_s(np.zeros_like(decode_tokens))
    return tokens_s(step, decode_tokens + prompt) - tokens_s(step, decode_tokens) + attention


def tokens_s(step: StepModel, tokens: Floats) -> Floats:
    """Time of the layers on so many tokens, attention and head left out."""
    body = [op for op in step.target if _in_every_token(op)]
    one = np.ones(())
    return pass_cost(body, Shape(tokens, one, one, step.ranks), step.chip).seconds


def _in_every_token(operation: Operation) -> bool:
    """Whether a prompt's tokens pass through the operation; only its last token meets the head."""
    if isinstance(operation, Logits) or (isinstance(operation, Linear) and operation.name == "lm_head"):
        return False
    return isinstance(operation, (*BY_TOKENS, Experts))


def _pairs(prompt: int, reach: int | None) -> float:
    """Pairs of a token and one before it, where each sees at most `reach` of them."""
    seen = prompt if reach is None else min(prompt, reach)
    return seen * prompt - seen * seen / 2


def prefill_attention_s(step: StepModel, prompt: int) -> float:
    """Causal attention of one prompt: 2 d FLOP for each query head and pair of tokens (d: key + value width), at a
    fraction of the bf16 peak."""
    flops = 0.0
    for op in step.target:
        if isinstance(op, Attention):
            heads, width, reach = op.group_size * op.kv_heads, op.kv_dim, op.window
        elif isinstance(op, LatentAttention):
            heads, width, reach = op.heads, op.prefill_dim, op.top_k if op.window is None else op.window
            if op.ratio is not None:  # entries, each of so many tokens
                entries_of = None if op.top_k is None else op.top_k * op.ratio
                flops += op.count * 2.0 * heads * width * _pairs(prompt, entries_of) / op.ratio
        else:
            continue
        flops += op.count * 2.0 * heads * width * _pairs(prompt, reach)
    return flops / (PREFILL_ATTENTION_FRACTION * step.chip.peak("bf16"))
