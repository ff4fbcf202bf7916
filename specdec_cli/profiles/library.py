"""The library: profiles by name, alias or file, and what goes with what.

Which drafters a target has, and which acceptance was measured on a pair, stands inside the files: those that hold the
wanted names anywhere are parsed, the rest are not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.find import Finder, same, some
from specdec_cli.profiles.kinds import KIND_FOLDERS
from specdec_cli.profiles.load import IMPORTED, Loaded, check_file, load_file, sources_for
from specdec_cli.profiles.schema import AcceptanceProfile, Drafter, Mechanism
from specdec_cli.profiles.search import SHIPPED, holds_config, shipped_profiles_dir

__all__ = ["IMPORTED", "Library", "Loaded", "check_file", "load_file", "shipped_profiles_dir", "sources_for"]

MECHANISM_ORDER: tuple[str, ...] = (
    "mtp",
    "eagle3",
    "dflash",
    "dspark",
    "p_eagle",
    "pard",
    "eagle",
    "medusa",
    "draft_model",
    "self",
    "ngram",
    "suffix",
)
"""Which mechanism is taken first where a target has several and nothing else decides: shipped with the model, then by
how many published heads exist, then what needs no training."""

_MECHANISM_WORDS = {word.replace("_", ""): word for word in get_args(Mechanism)}
_MARKED_DEFAULT = re.compile(rb"^[\"']?default[\"']?\s*:\s*(true|yes|on)\b", re.MULTILINE)
_FOR_ANY_TARGET = re.compile(rb"mechanism[\"']?\s*:\s*[\"']?(ngram|suffix|self)\b")


class Library(Finder):
    """The profiles in reach, and what goes with what."""

    def __init__(self, user_dirs: Iterable[str | Path] = ()) -> None:
        """Raises ProfileError where a folder that was asked for does not exist."""
        super().__init__(user_dirs)
        self._measured: dict[tuple[str, str], list[Loaded[AcceptanceProfile]]] = {}

    def drafter(self, name_or_file: str, target: str | None = None) -> Loaded[Drafter]:
        """A drafter by name, alias, file or mechanism; a mechanism's word picks the target's default of it.

        Where a target is given, a drafter that names targets must name it.
        """
        path = Path(os.path.expanduser(name_or_file))  # noqa: PTH111  (Path.expanduser raises for an unknown user)
        if name_or_file.casefold().endswith(".json") or (os.sep in name_or_file and holds_config(path)):
            from specdec_cli.profiles.on_the_fly import import_drafter  # only where a configuration is given

            if target is None:
                raise ProfileError("a drafter's config.json does not say which model it drafts for", file=path)
            return import_drafter(path, self._model_name(target))
        word = _MECHANISM_WORDS.get(re.sub(r"[-_]", "", name_or_file.casefold()))
        if word is not None and not any(same(stem, name_or_file) for stem in self._index("drafter")):
            return self._of_mechanism(word, target)
        found: Loaded[Drafter] = self._find("drafter", name_or_file)
        if target is not None and found.record.targets:
            name = self._model_name(target)
            if not _drafts_for(found, self._names_of(name)):
                others = [one.record.name for one in self.drafters_for(name)]
                raise ProfileError(
                    f"`{found.record.name}` drafts for {some(found.record.targets)}, not for {name}",
                    file=found.path,
                    key="targets",
                    hint=f"drafters for {name}: {some(others)}" if others else f"no drafter is known for {name}",
                )
        return found

    # ------------------------------------------------------------------------------- what goes with what

    def drafters_for(self, target: str) -> list[Loaded[Drafter]]:
        """Drafters that name the target, in the order of their mechanisms, then those for any model.

        A quantised copy has the drafters of the model that it was made from too, native MTP only where the copy kept
        those layers.
        """
        names = self._names_of(self._model_name(target))
        found: list[Loaded[Drafter]] = []
        for stem, (_, paths) in self._index("drafter").items():
            mentioned = any(self._texts.mention(paths[0], one.name) for one in names)
            if mentioned or _FOR_ANY_TARGET.search(self._texts.folded(paths[0])):
                drafter: Loaded[Drafter] = self._named("drafter", stem)
                if not drafter.record.targets or _drafts_for(drafter, names):
                    found.append(drafter)
        return sorted(found, key=lambda one: (not one.record.targets, *_mechanism_rank(one)))

    def acceptance_for(self, target: str, drafter: str) -> list[Loaded[AcceptanceProfile]]:
        """Acceptance measured on a pair, those marked `default` first, then by name.

        Where nothing was measured on a quantised copy, what was measured on the model that it was made from; the note
        says so.
        """
        name = self._model_name(target)
        found = self._measured_on(name, drafter)
        base = self._base_of(name) if not found else None
        if base is None:
            return found
        note = f"measured on {base[0]}, of which {name} is a quantised copy"
        return [replace(one, note=note) for one in self._measured_on(base[0], drafter)]

    def _measured_on(self, name: str, drafter: str) -> list[Loaded[AcceptanceProfile]]:
        if (name, drafter) not in self._measured:
            named = [self._named("acceptance", stem) for stem in self._mentioning_pair(name, drafter)]
            found = [one for one in named if same(one.record.target, name) and same(one.record.drafter, drafter)]
            found.sort(key=lambda one: (not one.record.default, one.record.name))
            self._measured[name, drafter] = found
        return list(self._measured[name, drafter])

    def _mentioning_pair(self, name: str, drafter: str) -> list[str]:
        """Acceptance files that hold both names anywhere: the only ones that can be about the pair.

        Those that lie in a shipped folder lie in that of their target (a test holds them to it): the folders of other
        targets are not even read.
        """
        index = self._index("acceptance")
        shipped = {rank for rank, root in enumerate(self._roots) if root.origin == SHIPPED}
        folders = (name, KIND_FOLDERS["acceptance"])
        near = [
            (stem, paths[0])
            for stem, (rank, paths) in index.items()
            if rank not in shipped or paths[0].parent.name in folders
        ]
        return self._texts.mentioning(near, name, drafter)

    def default_acceptance(self, target: str, drafter: str) -> Loaded[AcceptanceProfile] | None:
        """The pair's acceptance: the one marked `default` in the nearest folder, else the only one.

        None: nothing was measured on the pair. Raises ProfileError where several could be meant.
        """
        found = self.acceptance_for(target, drafter)
        marked = self._nearest([one for one in found if one.record.default])
        choices = marked or found
        if len(choices) > 1:
            raise self._ambiguous(f"acceptance of {drafter} on {target}", choices, "--acceptance", bool(marked))
        if not choices:
            return None
        note = _note(f"acceptance of {drafter} on {target}", choices[0], found)
        return replace(choices[0], note=f"{note}; {choices[0].note}" if choices[0].note else note)

    def default_drafter(self, target: str) -> Loaded[Drafter]:
        """The drafter taken where none is named.

        1. Of those that name the target, or the model that it is a quantised copy of: the ones marked
           `default: true`, in the nearest folder that marks any. Where none is marked: those whose acceptance on the
           target is known by default, else all of them.
        2. Of several, those whose acceptance on the target is known by default, where any is.
        3. Of several mechanisms, the first in MECHANISM_ORDER; two of one mechanism are an error naming both.
        """
        name = self._model_name(target)
        found = [one for one in self.drafters_for(name) if one.record.targets]
        if not found:
            hint = "name one with --drafter (ngram and suffix draft for any model), or --drafter none"
            raise ProfileError(f"no drafter is known for {name}", hint=hint)
        choices = self._nearest([one for one in found if one.record.default]) or found
        choices = self._first_mechanism(name, choices)
        first = choices[0].record.mechanism
        if len(choices) > 1:
            raise self._ambiguous(f"{first} drafter of {name}", choices, "--drafter", choices[0].record.default)
        return replace(choices[0], note=_note(f"drafter of {name}", choices[0], found))

    def _of_mechanism(self, mechanism: str, target: str | None) -> Loaded[Drafter]:
        """The target's default drafter of a mechanism: marked `default`, else with acceptance, else the only one."""
        if target is None:
            raise ProfileError(f"`{mechanism}` is a mechanism: which drafter it means depends on the model")
        name = self._model_name(target)
        everything = self.drafters_for(name)
        found = [one for one in everything if one.record.mechanism == mechanism]
        if not found:
            others = some([one.record.name for one in everything])
            message = f"no {mechanism} drafter is known for {name}"
            raise ProfileError(message, hint=f"drafters for {name}: {others}" if everything else None)
        choices = self._nearest([one for one in found if one.record.default]) or found
        choices = self._first_mechanism(name, choices)
        if len(choices) > 1:
            raise self._ambiguous(f"{mechanism} drafter of {name}", choices, "--drafter", choices[0].record.default)
        return replace(choices[0], note=_note(f"{mechanism} drafter of {name}", choices[0], found))

    def _names_of(self, name: str) -> list[_Target]:
        """A model's name, and that of the model that it is a quantised copy of."""
        base = self._base_of(name)
        return [_Target(name, True), *([_Target(*base)] if base is not None else [])]

    def _first_mechanism(self, target: str, choices: Sequence[Loaded[Drafter]]) -> list[Loaded[Drafter]]:
        """Of choices in the order of their mechanisms: those of the first mechanism whose acceptance on the target is
        known by default for any; where it is for none, those of the first.

        Acceptance files are read only while more than one choice is left, a mechanism at a time.
        """
        mechanisms = dict.fromkeys(one.record.mechanism for one in choices)
        groups = [[one for one in choices if one.record.mechanism == mechanism] for mechanism in mechanisms]
        if len(choices) > 1:
            for group in groups:
                known = [one for one in group if self._has_acceptance(target, one)]
                if known:
                    return known
        return groups[0]

    def _has_acceptance(self, target: str, drafter: Loaded[Drafter]) -> bool:
        """Whether the drafter's acceptance on the target is known without naming it: one profile, or a marked one."""
        name, index = self._model_name(target), self._index("acceptance")
        stems = self._mentioning_pair(name, drafter.record.name)
        for stem in stems:  # a marked one settles it, the others need not be parsed
            if _MARKED_DEFAULT.search(self._texts.folded(index[stem][1][0])):
                record = self._named("acceptance", stem).record
                if record.default and same(record.target, name) and same(record.drafter, drafter.record.name):
                    return True
        found = self.acceptance_for(target, drafter.record.name)
        return len(found) == 1 or any(one.record.default for one in found)

    @staticmethod
    def _ambiguous(what: str, choices: Sequence[Loaded[Any]], option: str, marked: bool) -> ProfileError:
        names = some([one.record.name for one in choices])
        reason = "several are marked default" if marked else "none is marked default"
        return ProfileError(f"which {what}? {reason}: {names}", hint=f"name one with {option}")


class _Target(NamedTuple):
    """A name under which drafters may list a model."""

    name: str
    has_mtp: bool
    """Whether native MTP layers made for this name are there."""


def _drafts_for(drafter: Loaded[Drafter], names: Sequence[_Target]) -> bool:
    native = drafter.record.mechanism == "mtp" and drafter.record.head is None
    return any(
        same(one.name, target) for one in names if one.has_mtp or not native for target in drafter.record.targets
    )


def _mechanism_rank(drafter: Loaded[Drafter]) -> tuple[int, str]:
    return MECHANISM_ORDER.index(drafter.record.mechanism), drafter.record.name


def _note(what: str, chosen: Loaded[Any], among: Sequence[Loaded[Any]]) -> str:
    others = [one.record.name for one in among if one.record.name != chosen.record.name]
    return f"{what}: {chosen.record.name}" + (f" (others: {some(others)})" if others else "")
