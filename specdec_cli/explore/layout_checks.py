"""What is odd about a model spread over GPUs in the way that was asked for."""

from __future__ import annotations

from specdec_cli.explore.question import Resolver
from specdec_cli.physics.layers import Layout
from specdec_cli.profiles.schema import GatedDelta, Model


def check_layout(found: Resolver, model: Model, layout: Layout) -> None:
    """Note what engines refuse, and what changes nothing."""
    if layout.ep > 1 and not model.has_experts:
        found.note("ep_without_experts", f"{model.name} has no experts, so --ep {layout.ep} changes nothing")
    for spec in model.attention.values():
        heads = spec.value_heads if isinstance(spec, GatedDelta) else spec.heads
        if heads % layout.tp:  # engines slice attention by whole heads
            found.note(
                "heads_not_divisible",
                f"{model.name} has {heads} heads, which --tp {layout.tp} does not divide: most engines refuse to start",
            )
            return
