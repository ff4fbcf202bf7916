"""Which acceptance a scenario rests on: measured, given on the command line, or typical of the mechanism."""

from __future__ import annotations

from itertools import pairwise

from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.explore.axes import parse_axis
from specdec_cli.explore.question import NO_DRAFTER, TYPICAL, Defaults, Input, Resolver
from specdec_cli.explore.shapes import check_depth, tree_acceptance
from specdec_cli.physics.acceptance import (
    Acceptance,
    AcceptanceCurve,
    AssumedLengths,
    ConstantRate,
    curve_at_context,
    widened,
)
from specdec_cli.physics.drafting import LOOKUP
from specdec_cli.physics.trees import Tree
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.schema import AcceptanceProfile, Drafter, Model

LONGEST_DRAFT = 1024
"""Past it no draft is made: the longest trained block drafts 15, n-gram look-ups some tens."""


def resolve_acceptance(
    found: Resolver, model: Model, drafter: Drafter | None, context: int, tree: Tree | None = None
) -> tuple[Acceptance | None, AcceptanceProfile | None]:
    """The acceptance of a drafter on a model at a context, and the profile it is read from, where there is one.

    Raises:
        UsageError: numbers that cannot be. ProfileError: nothing is known, and nothing was given.
    """
    if drafter is None:
        return None, None
    acceptance, profile = _acceptance(found, model, drafter, context)
    if tree is not None and acceptance is not None:
        acceptance = tree_acceptance(found, tree, acceptance, profile, model, drafter, context)
    return acceptance, profile


def _acceptance(
    found: Resolver, model: Model, drafter: Drafter, context: int
) -> tuple[Acceptance | None, AcceptanceProfile | None]:
    options = found.options
    if options.acceptance_rate is not None:
        found.inputs["acceptance"] = Input({"constant_conditional_rate": options.acceptance_rate}, "option")
        return ConstantRate(options.acceptance_rate), None
    if options.acceptance_length is not None:
        lengths = parse_acceptance_lengths(options.acceptance_length)
        found.inputs["acceptance"] = Input({"acceptance_length": {str(d): al for d, al in lengths.items()}}, "option")
        _doubt(found, lengths)
        return AssumedLengths(lengths), None
    if options.acceptance is not None:
        profile = found.library.acceptance(options.acceptance).record
        found.inputs["acceptance"] = Input(profile.name, "option")
        _check_pair(found, profile, model, drafter)
    else:
        loaded = found.library.default_acceptance(model.name, drafter.name)
        if loaded is None and options.assume_acceptance is not None:
            return _typical(found, model, drafter), None
        if loaded is None:
            raise ProfileError(
                f"no measured acceptance is known for {drafter.name} on {model.name}: give " + _what_to_give(drafter)
            )
        profile = loaded.record
        if profile.target != model.name:
            found.note(
                "acceptance_of_base",
                f"acceptance measured on {profile.target}, of which {model.name} is a quantised copy",
            )
        _remember_profile(found, profile.name)
    curve = curve_at_context(profile.points, float(context))
    others = []
    if options.acceptance is None and curve is not None:
        others = _other_workloads(found.library, model, drafter, profile, float(context))
    source = f"{drafter.name}: acceptance as measured on {profile.data_set} ({profile.name})"
    if others and options.model is not None:
        source += f"; {len(others)} other data sets: `specdec profiles list {drafter.name} --kind acceptance`"
    found.note("acceptance_source", source)
    return (widened(curve, others) if curve is not None and others else curve), profile


def _remember_profile(found: Resolver, name: str) -> None:
    """The acceptance profiles that the drafters rest on, by default: one name, or a list. What is said stays."""
    earlier = found.inputs.get("acceptance")
    if earlier is None:
        found.inputs["acceptance"] = Input(name, "default")
    elif not isinstance(earlier.value, dict):
        names = [earlier.value] if isinstance(earlier.value, str) else earlier.value
        if name not in names:
            found.inputs["acceptance"] = Input([*names, name], "default")


def _what_to_give(drafter: Drafter) -> str:
    if drafter.mechanism in LOOKUP:
        return (
            "how far your text repeats itself, for that is what it copies: --acceptance-rate 0.4 is the chance that a "
            "copied token is right where all before it were; or --acceptance-length 1=1.3,3=1.6, or --acceptance FILE"
        )
    return (
        "--acceptance-length 1=1.7,3=2.4 or --acceptance-rate 0.7 (conditional), or --acceptance FILE; "
        f"--assume-acceptance {TYPICAL} takes what {drafter.mechanism} reached elsewhere"
    )


def _doubt(found: Resolver, lengths: dict[int, float]) -> None:
    """Warn of acceptance lengths that a longer draft would not have, and of one pair's figures put to several."""
    ordered = sorted(lengths.items())
    for (shorter, before), (longer, after) in pairwise(ordered):
        if after < before:
            found.note(
                "acceptance_falls",
                f"--acceptance-length falls from {before:g} at D = {shorter} to {after:g} at D = {longer}: runs of one "
                "workload seldom do; were they the same prompts?",
            )
    if found.options.drafter is not None and "," in found.options.drafter:
        found.note("acceptance_shared", "--acceptance-length is put to every drafter named, though each has its own")


def _typical(found: Resolver, model: Model, drafter: Drafter) -> Acceptance:
    from specdec_cli.explore.typical import typical_acceptance  # reads all acceptance profiles

    typical = typical_acceptance(found.library, drafter.mechanism)
    if typical is None:
        raise UsageError(
            f"--assume-acceptance {TYPICAL}: no pair was measured with {drafter.mechanism}; give --acceptance-length "
            "1=1.7,3=2.4 or --acceptance-rate 0.7"
        )
    lengths = {str(d): round(one.median, 3) for d, one in typical.lengths.items()}
    earlier = found.inputs.get("acceptance")
    others = earlier.value["typical"] if earlier is not None and isinstance(earlier.value, dict) else {}
    by_mechanism = {**others, drafter.mechanism: lengths}
    found.inputs["acceptance"] = Input({"typical": by_mechanism}, "option")
    found.note(
        "acceptance_assumed",
        f"acceptance of {drafter.name} on {model.name} is assumed: the median of {typical.pairs} measured "
        f"{drafter.mechanism} {'pair' if typical.pairs == 1 else 'pairs'}; measure your own before you rely on it",
    )
    return typical


def _other_workloads(
    library: Library, model: Model, drafter: Drafter, chosen: AcceptanceProfile, context: float
) -> list[AcceptanceCurve]:
    """The pair's curves on other data sets: what its acceptance may be on a workload that nobody measured."""
    profiles = [loaded.record for loaded in library.acceptance_for(model.name, drafter.name)]
    curves = [curve_at_context(p.points, context) for p in profiles if p.name != chosen.name]
    return [curve for curve in curves if curve is not None]


def _check_pair(found: Resolver, profile: AcceptanceProfile, model: Model, drafter: Drafter) -> None:
    if profile.target != model.name or profile.drafter != drafter.name:
        found.note(
            "acceptance_pair",
            f"{profile.name} was measured with {profile.drafter} on {profile.target}, "
            f"not with {drafter.name} on {model.name}",
        )


def resolve_draft_lengths(
    found: Resolver,
    drafter: Drafter | None,
    acceptance: Acceptance | None,
    profile: AcceptanceProfile | None,
    defaults: Defaults,
    tree: Tree | None = None,
) -> tuple[int, ...]:
    said = found.options.draft_lengths
    if said is not None:
        found.inputs["draft_lengths"] = Input(said, "option")
        lengths = parse_axis(said, "--draft-lengths", minimum=0)
        if lengths[-1] > LONGEST_DRAFT:
            raise UsageError(f"--draft-lengths: no engine drafts {lengths[-1]} tokens; at most {LONGEST_DRAFT}")
        check_depth(tree, lengths[-1], "--draft-lengths")
        if drafter is None and found.options.drafter == NO_DRAFTER and lengths != (0,):
            raise UsageError(f"--draft-lengths {said} conflicts with --drafter none: only 0 is left")
        return lengths if drafter is not None else tuple(d for d in lengths if d == 0) or (0,)
    if drafter is None:
        return (0,)
    if acceptance is not None:
        largest = acceptance.largest_measured or defaults.assumed_draft_lengths
    else:
        largest = max(point.draft_length for point in profile.points) if profile else defaults.assumed_draft_lengths
    if tree is not None and tree.verify_width is not None:
        largest = min(largest, tree.verify_width - 1)
    found.inputs.setdefault("draft_lengths", Input(f"0..{largest}", "default"))
    return tuple(range(largest + 1))


def parse_acceptance_lengths(text: str) -> dict[int, float]:
    """`1=1.91,3=2.83` -> {1: 1.91, 3: 2.83}.

    Raises:
        UsageError: not of that form, or a draft length named twice.
    """
    lengths: dict[int, float] = {}
    for part in text.split(","):
        left, _, right = part.partition("=")
        try:
            draft_length, value = int(left), float(right)
        except ValueError:
            raise UsageError(
                f"--acceptance-length: cannot read {part.strip()!r}; write draft length = acceptance length, "
                "as in 1=1.91,3=2.83"
            ) from None
        if draft_length > LONGEST_DRAFT:
            raise UsageError(f"--acceptance-length: no engine drafts {left.strip()} tokens; at most {LONGEST_DRAFT}")
        if draft_length in lengths:
            raise UsageError(f"--acceptance-length names draft length {draft_length} twice")
        lengths[draft_length] = value
    return lengths
