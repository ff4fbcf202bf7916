"""From a recommendation to what an engine takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from specdec_cli.cli.output import Destination, note_warnings
from specdec_cli.engines.settings import FAMILIES, ScheduleRange, Setting, settings_for
from specdec_cli.errors import InfeasibleError, UsageError, did_you_mean

if TYPE_CHECKING:
    from specdec_cli.explore.recommend import Recommendation
    from specdec_cli.explore.scenario import Scenario
    from specdec_cli.profiles.library import Library

ALIASES = {"trtllm": "tensorrt-llm"}
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_TUNED = re.compile(r"(?<![a-z])(instruct|chat|it)(?![a-z])", re.IGNORECASE)
_NO_DRAFTER = "ngram"  # the engines' writers want a mechanism; with D = 0 none of it is written


def known_engine(name: str) -> str:
    """The engine's family. Raises UsageError where settings for it cannot be written."""
    family = ALIASES.get(name.casefold(), name.casefold())
    if family not in FAMILIES:
        hint = did_you_mean(name, (*FAMILIES, *ALIASES)) or f"known: {', '.join(FAMILIES)}"
        raise UsageError(f"--emit {name!r} is not known; {hint}")
    return family


@dataclass(frozen=True, slots=True)
class Paste:
    """A recommendation, and how its settings are to be written."""

    found: Recommendation
    library: Library
    by_batch: bool
    """A draft length for every batch size, where the engine can take that."""
    model: str | None
    """The target as the user named it."""


def engine_settings(paste: Paste) -> dict[str, dict[str, Any]]:
    """By engine, what to paste, as plain data."""
    found = {}
    for family in FAMILIES:
        try:
            found[family] = _as_data(_setting(paste, family))
        except UsageError as error:
            if paste.found.scenario.tree is None:
                raise
            # The tree is another engine's: its own setting must not be lost with this one.
            warnings = [("tree_not_in_engine", f"{error}. There is nothing to paste.")]
            found[family] = _as_data(Setting(family, "", f"{family}: no such tree", "", {}, {}, warnings))
    return found


def emit_settings(paste: Paste, engine: str, target: Destination) -> None:
    """Write what to paste and nothing else; files that it names stand before it as here-documents.

    Raises:
        InfeasibleError: the engine lacks the mechanism.
    """
    setting = _setting(paste, engine)
    if not setting.text:
        raise InfeasibleError("; ".join(message for _, message in setting.warnings))
    notes = [{"code": note.code, "message": note.message} for note in paste.found.notes]
    note_warnings(notes + _warnings(setting))
    files = [
        f"cat > {name} <<'EOF'\n{content.rstrip()}\nEOF\n"
        for name, content in setting.files.items()
        if content != setting.text
    ]
    target.write("".join(files) + setting.text)


def _setting(paste: Paste, family: str) -> Setting:
    found = paste.found
    scenario = found.scenario
    drafter = scenario.drafter
    length = int(found.sweep.points.draft_length[found.choice]) if found.choice is not None else 0
    from specdec_cli.explore.schedules import held_by_a_drafting_server

    entries = held_by_a_drafting_server(scenario, found.schedule)
    schedule = [ScheduleRange(e.batch_from, e.batch_to, e.draft_length) for e in entries]
    varies = paste.by_batch and any(entry.draft_length for entry in schedule)
    if varies and len(schedule) == 1:
        length, varies = schedule[0].draft_length, False  # one draft length for every batch needs no schedule
    batch = int(found.sweep.points.batch[found.choice]) if found.choice is not None else max(scenario.batches)
    asked = found.question.inputs["kv_dtype"]
    depth = length or (max(entry.draft_length for entry in schedule) if varies else 0)
    tree = scenario.tree if depth else None
    setting = settings_for(
        family,
        mechanism=drafter.mechanism if drafter is not None else _NO_DRAFTER,
        draft_length=length,
        drafter_id=drafter_id(scenario, paste.library),
        schedule=schedule if varies else None,
        target_id=target_id(scenario, paste.model),
        tp=scenario.layout.tp,
        data_parallel=scenario.layout.ranks,
        block=drafter.block if drafter is not None else None,
        tree_topk=tree.topk if tree is not None else None,
        verify_width=tree.width(depth) if tree is not None else None,
        ep=expert_groups(scenario),
        kv_dtype=str(asked.value) if asked.origin == "option" else None,
        running_requests=batch,
    )
    return replace(setting, warnings=[*setting.warnings, *_not_pasted(found), *_unnamed(scenario, paste.model)])


def _not_pasted(found: Recommendation) -> list[tuple[str, str]]:
    """What the answer was computed with and the pasted text does not say."""
    dtype = found.question.inputs["weight_dtype"]
    if dtype.origin != "option":
        return []
    text = f"computed with weights in {dtype.value}: name a checkpoint in that dtype, or add your engine's option"
    return [("weight_dtype_not_pasted", text)]


def expert_groups(scenario: Scenario) -> int:
    """--ep where the model has experts to divide, else 1."""
    return scenario.layout.ep if scenario.model.has_experts else 1


def _unnamed(scenario: Scenario, model: str | None) -> list[tuple[str, str]]:
    """Where a profile of the user's own knows no checkpoint, its name stands in the text."""
    if scenario.model.aliases:
        return []
    name = target_id(scenario, model)
    return [("target_unnamed", f"no checkpoint is known for {name}: replace that name by your model's id or path")]


def target_id(scenario: Scenario, model: str | None) -> str:
    """The checkpoint as the user named it; else the tuned one (Instruct, Chat) where the drafter was trained for or
    measured on such a one, for its acceptance holds there; else the model's first; else its name."""
    said = (model or "").casefold()
    aliases = scenario.model.aliases
    named = [alias for alias in aliases if alias.casefold() == said]
    drafter, measured = scenario.drafter, scenario.acceptance_profile
    evidence = list(drafter.aliases) if drafter is not None else []
    if measured is not None:
        evidence += [measured.draft_checkpoint or "", *(note for note in measured.notes if _mentions(note, aliases))]
    chat = drafter is None or not drafter.targets or any(map(_TUNED.search, evidence))
    tuned = [alias for alias in aliases if _TUNED.search(alias)] if chat else []
    return next(iter([*named, *tuned, *aliases]), scenario.model.name)


def _mentions(note: str, aliases: Sequence[str]) -> bool:
    """Whether a note names a tuned checkpoint of the model: `it` alone is a word of any sentence."""
    names = [alias.rsplit("/", 1)[-1].casefold() for alias in aliases if _TUNED.search(alias)]
    return any(name in note.casefold() for name in names)


def drafter_id(scenario: Scenario, library: Library) -> str | None:
    """The checkpoint whose acceptance was used, else one of the drafter's; None: it has no checkpoint of its own."""
    drafter, measured = scenario.drafter, scenario.acceptance_profile
    if drafter is None or drafter.mechanism in ("mtp", "ngram", "suffix", "self"):
        return None
    if measured is not None and measured.draft_checkpoint and _HUB_ID.fullmatch(measured.draft_checkpoint):
        return measured.draft_checkpoint
    if drafter.model is not None:
        model = library.model(drafter.model, files=False).record
        return next(iter(model.aliases), model.name)
    return next(iter(drafter.aliases), None)


def _as_data(setting: Setting) -> dict[str, Any]:
    return {
        "engine": setting.engine,
        "engine_version": setting.engine_version,
        "title": setting.title,
        "text": setting.text,
        "data": setting.data,
        "files": setting.files,
        "warnings": _warnings(setting),
    }


def _warnings(setting: Setting) -> list[dict[str, str]]:
    return [{"code": code, "message": message} for code, message in setting.warnings]
