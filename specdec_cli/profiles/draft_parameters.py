"""Parameters that a drafter brings along, part by part, from its sizes.

The counts check a profile's `parameters_m` and say what a draft occupies; what one pass reads of them belongs
to `physics.drafting`. Norms and vocabulary maps are counted out: below 0.02 % of any head in the library.
"""

from __future__ import annotations

from specdec_cli.profiles import schema
from specdec_cli.profiles.parameters import ffn_parameters
from specdec_cli.units import MEGA


def head_parameters(head: schema.DraftHead) -> dict[str, int]:
    """Parameters of each part of a draft head.

    Layers: q, k, v read `attention_input` in the first layer (EAGLE-3 and P-EAGLE concatenate the token's
    embedding and the fused feature there) and `hidden` in the further ones; o returns to `hidden`.
    Fusion: one matrix `fc_in` x `hidden` (EAGLE-3, arXiv 2503.01840; DFlash alike).
    Medusa: each parallel head is a residual block (H^2 + H) and a vocabulary matrix (H V).
    DSpark: the Markov head is two matrices vocabulary x rank, one looked up, one read for each drafted token.
    Shared matrices (the target's embedding, and its lm_head unless `own_lm_head`) are not the drafter's.
    """
    query, key_value = head.heads * head.head_dim, head.kv_heads * head.head_dim
    attention = query * head.hidden * head.layers
    for layer in range(head.layers):
        width = head.attention_input if layer == 0 else head.hidden
        attention += width * (query + 2 * key_value)
    ffn = head.ffn or schema.DenseFfn(intermediate=head.intermediate, matrices=head.mlp_matrices)
    block = head.hidden * head.hidden + head.hidden
    vocabulary = head.hidden * head.draft_vocabulary
    return {
        "fusion": head.fc_in * head.hidden,
        "attention": attention,
        "ffn": head.layers * ffn_parameters(ffn, head.hidden).total,
        "parallel_heads": head.parallel_heads * (block + vocabulary),
        "markov_head": 2 * head.markov_rank * head.draft_vocabulary,
        "lm_head": vocabulary if head.own_lm_head and not head.parallel_heads else 0,
    }


def drafter_parameters_m(drafter: schema.Drafter) -> float | None:
    """The drafter's own parameters in 1e6; None where they belong to a model profile (mtp, draft_model, self)
    or do not exist (n-gram, suffix)."""
    if drafter.head is None:
        return None
    return sum(head_parameters(drafter.head).values()) / MEGA
