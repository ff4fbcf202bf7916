"""Compressed attention (DeepSeek-V4) -> operations with their sizes on one GPU.

Sizes are those of DeepseekV4Attention of `transformers`. Queries' and outputs' projections are sliced by heads; the KV
head, the compressor and the indexer are on every GPU whole, as the caches are.
"""

from __future__ import annotations

from specdec_cli.physics.operations import IndexerScan, LatentAttention, Linear, Operation
from specdec_cli.profiles.schema import CompressedAttention, WeightDtype


def compressed_operations(
    spec: CompressedAttention, hidden: int, tp: int, dtype: WeightDtype, count: float
) -> list[Operation]:
    """One mixer's projections and its core, `count` layers of it, on one of `tp` GPUs.

    The one shared KV head is a latent that needs no absorbing: what is cached is key and value of every head. Its
    attention is priced with the figures of latent attention over the tokens and entries that a query reads.
    """
    heads, groups = max(1.0, spec.heads / tp), spec.o_groups / tp
    index = spec.indexer
    operations: list[Operation] = [
        Linear(name="q_a, kv", n=spec.q_lora_rank + spec.head_dim, k=hidden, dtype=dtype, count=count),
        Linear(name="q_b", n=heads * spec.head_dim, k=spec.q_lora_rank, dtype=dtype, count=count),
    ]
    if spec.ratio is not None:
        # Values and gates, every token; bf16 in the checkpoints and fp32 in the reference code, whatever the rest is.
        pooled = (spec.head_dim + (index.head_dim if index is not None else 0)) * (2 if spec.overlap else 1)
        weights = index.heads if index is not None else 0  # of the indexer's heads, from the same hidden state
        operations.append(Linear(name="compressor", n=2 * pooled + weights, k=hidden, dtype="bf16", count=count))
    if index is not None:
        operations += [
            Linear(name="indexer q", n=index.heads * index.head_dim, k=spec.q_lora_rank, dtype=dtype, count=count),
            IndexerScan(name="indexer scan", heads=index.heads, head_dim=index.head_dim, ratio=spec.ratio, count=count),
        ]
    name = "window only" if spec.ratio is None else f"1 for {spec.ratio}"
    return [
        *operations,
        LatentAttention(
            name=f"attention (compressed, {name})",
            heads=heads,
            latent_dim=spec.head_dim,
            rope_dim=0,  # a part of `head_dim` here
            prefill_dim=2 * spec.head_dim,
            top_k=index.top_k if index is not None else None,
            window=spec.window,
            ratio=spec.ratio,
            count=count,
        ),
        # Block-diagonal: a group's heads meet only their own matrix.
        Linear(
            name="o_a",
            n=groups * spec.o_lora_rank,
            k=spec.heads * spec.head_dim / spec.o_groups,
            dtype=dtype,
            count=count,
        ),
        Linear(name="o_b", n=hidden, k=groups * spec.o_lora_rank, dtype=dtype, count=count),
    ]
