"""Draft trees: how many nodes the target verifies at each depth, and what is known of their acceptance.

At every level the drafter expands its best K tokens into K candidates each (EAGLE-2's dynamic trees, as SGLang and
TensorRT-LLM run them), and the best W - 1 candidates of all levels are verified beside the last accepted token.
"""

from __future__ import annotations

import msgspec

from specdec_cli.physics.acceptance import Acceptance, AcceptanceCurve, AcceptanceEstimate
from specdec_cli.profiles.schema import Mechanism

DRAW_TREES: frozenset[Mechanism] = frozenset({"eagle", "eagle3"})


class Tree(msgspec.Struct, frozen=True):
    """The shape of a draft tree, whatever its depth."""

    topk: int
    """K: tokens that each level expands; 2 or more."""
    verify_width: int | None
    """W asked for; None: 1 + K D.

    TensorRT-LLM's default: its max_total_draft_tokens, the root left out, is dynamic_tree_max_topK x max_draft_len
    (llm_args.py). SGLang has no rule to follow: it wants --speculative-num-draft-tokens beside a top-k, and its one
    default tree (5 steps, top-k 4) verifies 8.
    """

    def width(self, draft_length: int) -> int:
        """W at a depth, tokens: as asked for, but no more than the candidates of so few levels, K + (D - 1) K^2."""
        if draft_length == 0:
            return 1
        if self.verify_width is None:
            return 1 + self.topk * draft_length
        return min(self.verify_width, 1 + self.topk + (draft_length - 1) * self.topk**2)

    def reaches(self, draft_length: int) -> bool:
        """Whether so many verified nodes can hold a path of that depth."""
        return self.verify_width is None or self.verify_width >= 1 + draft_length


class TreeAcceptance:
    """AL of trees: measured at the same depth and width, stated by the user, or at least another source's."""

    def __init__(
        self,
        tree: Tree,
        source: Acceptance,
        *,
        stated: bool = False,
        source_is_tree: bool = False,
        measured: AcceptanceCurve | None = None,
    ) -> None:
        """
        Args:
            source: AL of chains, or of trees measured at other shapes too (source_is_tree). stated: the user gave
            `source` for this tree. measured: AL of trees of this very width.
        """
        self._tree, self._source = tree, source
        self._stated, self._source_is_tree, self._measured = stated, source_is_tree, measured

    @property
    def largest_measured(self) -> int:
        """The largest depth with a measured or stated AL, of a tree or of the chain that bounds it."""
        known = self._measured.largest_measured if self._measured is not None else 0
        return max(known, self._source.largest_measured)

    def lower_bound(self, draft_length: int) -> bool:
        """Whether AL at that depth is only known to be no less than another source's."""
        if draft_length == 0 or self._stated or self._own(draft_length) is not None:
            return False
        return self.estimate(draft_length) is not None

    def estimate(self, draft_length: int) -> AcceptanceEstimate | None:
        """AL at a depth; None where the tree does not reach it, or where only larger trees were measured."""
        if draft_length == 0:
            return self._source.estimate(0)
        width = self._tree.width(draft_length)
        if not self._tree.reaches(draft_length):
            return None
        own = self._own(draft_length)
        if own is not None:
            return own
        found = self._source.estimate(draft_length)
        if found is None or (not self._stated and found.verify_width > width):
            return None
        if self._stated:
            return msgspec.structs.replace(found, verify_width=width)
        # The best nodes of a tree accept no less than the best path alone, and no tree accepts more than its depth.
        basis = found.basis if found.basis == "extrapolated" else "assumed"
        return msgspec.structs.replace(found, basis=basis, high=1.0 + draft_length, verify_width=width)

    def _own(self, draft_length: int) -> AcceptanceEstimate | None:
        """What was measured with trees of this depth and width."""
        width = self._tree.width(draft_length)
        trees = (self._measured, self._source if self._source_is_tree else None)
        for found in (curve.estimate(draft_length) for curve in trees if curve is not None):
            if found is not None and found.verify_width == width:
                return found
        return None
