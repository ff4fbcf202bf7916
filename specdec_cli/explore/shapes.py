"""The shape of drafts: trees as asked for, drafts past a trained block, and what to warn of."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_cli.errors import UsageError
from specdec_cli.explore.question import Input, Note, Options, Resolver, Scenario
from specdec_cli.physics.acceptance import Acceptance, AcceptanceCurve, curve_at_context
from specdec_cli.physics.drafting import longest_draft
from specdec_cli.physics.trees import DRAW_TREES, Tree, TreeAcceptance
from specdec_cli.profiles.schema import AcceptanceProfile, Drafter, Model

WIDEST_TREE = 1024
"""No engine verifies more nodes a request; published trees hold 6 to 64."""


def check_tree_options(options: Options) -> None:
    """Refuse a tree that cannot be, whatever its drafter.

    Raises:
        UsageError: a width without a top-k, numbers out of range, a width beside a chain.
    """
    topk, width = options.tree_topk, options.verify_width
    if topk is None:
        if width is not None:
            raise UsageError("--verify-width is a tree's: give --tree-topk too; a chain verifies 1 + D")
        return
    for option, value in (("--tree-topk", topk), ("--verify-width", width)):
        if value is not None and not 1 <= value <= WIDEST_TREE:
            raise UsageError(f"{option} must lie between 1 and {WIDEST_TREE}, got {value}")
    if topk == 1 and width is not None:
        raise UsageError("--tree-topk 1 is a chain, which verifies 1 + D: leave --verify-width out")
    if options.drafter == "none":
        raise UsageError("--tree-topk conflicts with --drafter none: without a drafter there is no tree")


def resolve_tree(found: Resolver, drafters: Sequence[Drafter | None]) -> Tree | None:
    """The tree asked for; None: chains.

    Raises:
        UsageError: a drafter that draws no trees.
    """
    topk, width = found.options.tree_topk, found.options.verify_width
    if topk is None:
        return None
    for drafter in drafters:
        if drafter is not None and drafter.mechanism not in DRAW_TREES:
            raise UsageError(
                f"--tree-topk conflicts with {drafter.name}: {drafter.mechanism} draws no trees, only "
                f"{' and '.join(sorted(DRAW_TREES))} do"
            )
    found.inputs["tree_topk"] = Input(topk, "option")
    if topk == 1:
        return None
    found.inputs["verify_width"] = Input(f"1 + {topk} D", "default") if width is None else Input(width, "option")
    return Tree(topk, width)


def check_depth(tree: Tree | None, draft_length: int, option: str) -> None:
    """Refuse a depth that the verified nodes cannot hold."""
    if tree is not None and not tree.reaches(draft_length):
        raise UsageError(
            f"--verify-width {tree.verify_width} conflicts with {option} {draft_length}: a path of that depth alone "
            f"takes {1 + draft_length} verified tokens"
        )


def remember_reach(found: Resolver, longest: Sequence[int]) -> None:
    """How far the drafts of all scenarios reach (`longest` of each), and whether the user vouched for more."""
    said = found.inputs.get("draft_lengths")
    if said is not None and said.origin == "default":
        found.inputs["draft_lengths"] = Input(f"0..{max(longest)}", "default")
    if found.options.assume:
        found.inputs["assume"] = Input(True, "option")


def tree_acceptance(
    found: Resolver,
    tree: Tree,
    source: Acceptance,
    profile: AcceptanceProfile | None,
    model: Model,
    drafter: Drafter,
    context: int,
) -> TreeAcceptance:
    """What is known of the acceptance of a tree: given, measured at its shape, or bounded by `source`."""
    options = found.options
    stated = options.acceptance_rate is not None or options.acceptance_length is not None
    measured = None
    if profile is not None and options.acceptance is None:
        measured = _measured_tree(found, tree, profile, model, drafter, context)
    is_tree = profile is not None and any(point.verify_width is not None for point in profile.points)
    return TreeAcceptance(tree, source, stated=stated, source_is_tree=is_tree, measured=measured)


def _measured_tree(
    found: Resolver, tree: Tree, chosen: AcceptanceProfile, model: Model, drafter: Drafter, context: int
) -> AcceptanceCurve | None:
    """The pair's trees of this depth and width, on the chosen profile's data set where there are some.

    Profiles do not hold the top-k of what they measured: depth and width must do.
    """
    matching: list[tuple[tuple[bool, bool, int, str], AcceptanceCurve, AcceptanceProfile]] = []
    for profile in (loaded.record for loaded in found.library.acceptance_for(model.name, drafter.name)):
        points = [p for p in profile.points if p.verify_width is not None]
        points = [p for p in points if p.verify_width == tree.width(p.draft_length)]
        curve = curve_at_context(points, float(context)) if points else None
        if curve is not None:
            other = (profile.data_set != chosen.data_set, profile.draft_checkpoint != chosen.draft_checkpoint)
            matching.append(((*other, -len(points), profile.name), curve, profile))
    if not matching:
        return None
    _, curve, profile = min(matching, key=lambda entry: entry[0])
    checkpoint = profile.draft_checkpoint
    found.note(
        "acceptance_source",
        f"{drafter.name}: acceptance of trees of this depth and width as measured on {profile.data_set} "
        f"({profile.name})"
        + (f", with {checkpoint}" if checkpoint is not None and checkpoint != chosen.draft_checkpoint else ""),
    )
    return curve


def shape_notes(scenario: Scenario) -> list[Note]:
    """What a scenario's drafts rest on beyond measurements of their own shape."""
    notes = []
    lengths = [length for length in scenario.draft_lengths if length]
    acceptance, drafter = scenario.acceptance, scenario.drafter
    if isinstance(acceptance, TreeAcceptance) and scenario.tree is not None:
        bounded = [length for length in lengths if acceptance.lower_bound(length)]
        if bounded:
            notes.append(
                Note(
                    "tree_acceptance_unknown",
                    f"{scenario.drafter_name}: no tree of this width was measured at D = {_span(bounded)}; its AL is "
                    "taken as no less than what was measured without it, a lower bound: give --acceptance-length for "
                    "this tree",
                )
            )
        if lengths and scenario.engine.overheads.tree_speculation_ms is None:
            notes.append(
                Note(
                    "tree_overheads_unknown",
                    f"what a tree costs {scenario.engine.name} beside its kernels was not measured; a chain's "
                    "overheads stand in, and trees have cost more where both were measured",
                )
            )
    limit = longest_draft(drafter) if drafter is not None else None
    beyond = [length for length in lengths if limit is not None and length > limit]
    if drafter is not None and beyond and scenario.past_block:
        notes.append(
            Note(
                "beyond_trained_block",
                f"{drafter.name} was trained on blocks of {drafter.block}, which draft {limit} tokens; acceptance at "
                f"D = {_span(beyond)} is taken over as you asked, and nobody measured it: measure it before you rely "
                "on it",
            )
        )
    return notes


def guidelines_of_chain(tree: Tree, draft_length: int) -> Note:
    """The published guidelines speak of chains: their rows are 1 + D a request."""
    return Note(
        "guidelines_of_chain",
        f"guidelines 1 to 3 speak of a chain, {1 + draft_length} rows a request at D = {draft_length}; this tree "
        f"verifies {tree.width(draft_length)}, which the computed times hold",
    )


def _span(lengths: Sequence[int]) -> str:
    return str(lengths[0]) if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
