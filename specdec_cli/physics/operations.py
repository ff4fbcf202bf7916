"""The kinds of operation that a forward pass is made of. Sizes are per GPU, after tensor and expert parallelism."""

from __future__ import annotations

from typing import Literal

import msgspec

from specdec_cli.profiles.schema import WeightDtype

# Passes over the fp32 logits: written by lm_head, then read and rewritten by the sampler. Whole-model studies on
# H100 and H200 identify 3 to 4 and no further cost for each verified token.
LOGIT_PASSES = 3.5

Group = Literal["linear", "attention", "experts", "communication", "small kernels", "logits"]


class Linear(msgspec.Struct, frozen=True, kw_only=True):
    """A dense matrix multiplication on every token of the pass."""

    name: str
    n: float
    k: float
    dtype: WeightDtype
    count: float = 1
    group: Group = "linear"
    independent: bool = False
    """Whether it could run beside the routed experts (the shared experts do not wait for them)."""


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Softmax attention with `kv_heads` KV heads on this GPU, `group_size` query heads for each."""

    name: str
    group_size: float
    kv_heads: float
    kv_dim: int
    """Cached elements of a KV head and token: key width + value width."""
    window: int | None
    count: float = 1
    group: Group = "attention"


class LatentAttention(msgspec.Struct, frozen=True, kw_only=True):
    """Absorbed MLA: `heads` query heads on this GPU over one latent cache that every GPU holds."""

    name: str
    heads: float
    latent_dim: int
    rope_dim: int
    prefill_dim: int
    """Key width + value width of a head outside the latent space, as prefill computes it."""
    top_k: int | None
    """Tokens (entries where they are compressed) that an indexer lets each query read; None: all."""
    window: int | None = None
    """Compressed attention: the last tokens, read one by one; None: all tokens are."""
    ratio: int | None = None
    """Tokens of one entry, which are read beside the window's; None: no entries."""
    count: float = 1
    group: Group = "attention"


class IndexerScan(msgspec.Struct, frozen=True, kw_only=True):
    """The scan over all cached index keys, before an indexed sparse attention."""

    name: str
    heads: int
    head_dim: int
    ratio: int | None = None
    """Tokens for which one key is cached; None: one."""
    count: float = 1
    group: Group = "attention"


class RecurrentState(msgspec.Struct, frozen=True, kw_only=True):
    """Gated-delta or Mamba mixing: a fixed state per request instead of a KV cache."""

    name: str
    state_bytes: float
    count: float = 1
    group: Group = "attention"


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """The routed experts of a layer; `intermediate` is an expert's width on this GPU."""

    name: str
    experts: int
    top_k: int
    hidden: int
    intermediate: float
    matrices: int
    dtype: WeightDtype
    expert_parallel: int
    ranks: int = 1
    """Attention ranks whose tokens these experts serve; 1: only their own rank's."""
    routing_overlap: float
    count: float = 1
    group: Group = "experts"


class SmallKernels(msgspec.Struct, frozen=True, kw_only=True):
    """Norms, rope, KV write and residual of a layer."""

    name: str
    hidden: int
    count: float = 1
    group: Group = "small kernels"


class AllReduceHidden(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor-parallel all-reduce of the hidden states."""

    name: str
    hidden: int
    gpus: int
    count: float = 1
    group: Group = "communication"


class ExpertExchange(msgspec.Struct, frozen=True, kw_only=True):
    """Dispatch and combine between attention ranks and the GPUs that hold the experts."""

    name: str
    hidden: int
    copies: float
    """How often a token's hidden state travels: top-k under expert parallelism, 1 under a gather."""
    gpus: int
    count: float = 1
    group: Group = "communication"


class Logits(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling: fp32 logits written once and read by soft-max, penalties and sampler."""

    name: str
    vocabulary: int
    passes: float = LOGIT_PASSES
    count: float = 1
    group: Group = "logits"


Operation = (
    Linear
    | Attention
    | LatentAttention
    | IndexerScan
    | RecurrentState
    | Experts
    | SmallKernels
    | AllReduceHidden
    | ExpertExchange
    | Logits
)

# Operations whose time depends on the number of tokens alone, so that it is computed once for each token count.
BY_TOKENS = (Linear, SmallKernels, AllReduceHidden, Logits)

# Operations that take a fixed time and as much again for each request: their bytes and FLOPs are each request's own.
BY_REQUEST = (Attention, LatentAttention, IndexerScan, RecurrentState)
