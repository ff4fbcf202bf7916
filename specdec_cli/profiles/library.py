"""Finds profiles by name, alias, file or use, and loads them.

A name is a file's stem, so a look-up by name opens one file. Aliases and uses (the drafters of a target) stand inside
the files: those that hold the wanted word anywhere are parsed, the rest are not. Nothing is cached past the object.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from specdec_cli.errors import ProfileError, nearest
from specdec_cli.profiles.load import Loaded, check_file, load_file, sources_for
from specdec_cli.profiles.schema import RECORDS, AcceptanceProfile, Drafter, Engine, Hardware, Mechanism, Model
from specdec_cli.profiles.search import (
    ENDINGS,
    KIND_FOLDERS,
    Texts,
    files_of,
    loose_files,
    roots,
    shipped_profiles_dir,
)

__all__ = ["Library", "Loaded", "check_file", "load_file", "shipped_profiles_dir", "sources_for"]

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
_FOR_ANY_TARGET = re.compile(rb"mechanism[\"']?\s*:\s*[\"']?(ngram|suffix|self)\b")
_MOST_NAMED = 8


class Library:
    """The profiles in reach: `--profiles` folders, $SPECDEC_PROFILES, the user's config folder, the shipped ones.

    A nearer folder's profile hides a farther one of the same kind and name.
    """

    def __init__(self, user_dirs: Iterable[str | Path] = ()) -> None:
        """Raises ProfileError where a folder that was asked for does not exist."""
        self._roots = roots(user_dirs)
        self._texts = Texts()
        self._indexes: dict[str, dict[str, tuple[int, list[Path]]]] = {}
        self._loaded: dict[tuple[Path, str], Loaded[Any]] = {}

    # ------------------------------------------------------------------------------------- what there is

    def names(self, kind: str) -> list[str]:
        """The names of a kind, sorted. Opens no file in a kind folder."""
        return sorted(self._index(kind))

    def every(self, kind: str) -> tuple[list[Loaded[Any]], list[ProfileError]]:
        """All profiles of a kind by name, and what is wrong with those that do not load."""
        good: list[Loaded[Any]] = []
        bad: list[ProfileError] = []
        for name in self.names(kind):
            try:
                good.append(self._named(kind, name))
            except ProfileError as error:
                bad.append(error)
        return good, bad

    # --------------------------------------------------------------------------------------- one of each

    def hardware(self, name_or_file: str) -> Loaded[Hardware]:
        """A chip by name or file. Raises ProfileError, as every look-up here does."""
        return self._find("hardware", name_or_file)

    def model(self, name_or_file: str) -> Loaded[Model]:
        """A model by name, alias (`meta-llama/Llama-3.1-8B-Instruct`) or file."""
        return self._find("model", name_or_file)

    def acceptance(self, name_or_file: str) -> Loaded[AcceptanceProfile]:
        """Measured acceptance by name or file."""
        return self._find("acceptance", name_or_file)

    def engine(self, name_or_file: str) -> Loaded[Engine]:
        """An engine by name, alias or file; a family's name alone is its newest profile."""
        known = self._given("engine", name_or_file)
        if known is not None:
            return known
        family = [
            engine for engine in self._mentioning("engine", name_or_file) if _same(engine.record.family, name_or_file)
        ]
        if not family:
            raise self._unknown("engine", name_or_file)
        newest = max(family, key=lambda engine: engine.record.date)
        return replace(newest, note=f"{name_or_file}: {newest.record.name}, the newest of {len(family)}")

    def drafter(self, name_or_file: str, target: str | None = None) -> Loaded[Drafter]:
        """A drafter by name, alias, file or mechanism; a mechanism's word picks the target's default of it.

        Where a target is given, a drafter that names targets must name it.
        """
        word = _MECHANISM_WORDS.get(re.sub(r"[-_]", "", name_or_file.casefold()))
        if word is not None and not any(_same(stem, name_or_file) for stem in self._index("drafter")):
            return self._of_mechanism(word, target)
        found: Loaded[Drafter] = self._find("drafter", name_or_file)
        if target is not None and found.record.targets:
            name = self._model_name(target)
            if not any(_same(name, one) for one in found.record.targets):
                others = [one.record.name for one in self.drafters_for(name)]
                raise ProfileError(
                    f"`{found.record.name}` drafts for {_some(found.record.targets)}, not for {name}",
                    file=found.path,
                    key="targets",
                    hint=f"drafters for {name}: {_some(others)}" if others else f"no drafter is known for {name}",
                )
        return found

    # ------------------------------------------------------------------------------- what goes with what

    def drafters_for(self, target: str) -> list[Loaded[Drafter]]:
        """Drafters that name the target, in the order of their mechanisms, then those for any model."""
        name = self._model_name(target)
        found: list[Loaded[Drafter]] = []
        for stem, (_, paths) in self._index("drafter").items():
            if self._texts.mention(paths[0], name) or _FOR_ANY_TARGET.search(self._texts.folded(paths[0])):
                drafter: Loaded[Drafter] = self._named("drafter", stem)
                if not drafter.record.targets or any(_same(name, one) for one in drafter.record.targets):
                    found.append(drafter)
        return sorted(found, key=lambda one: (not one.record.targets, *_mechanism_rank(one)))

    def acceptance_for(self, target: str, drafter: str) -> list[Loaded[AcceptanceProfile]]:
        """Acceptance measured on a pair, those marked `default` first, then by name."""
        name = self._model_name(target)
        found: list[Loaded[AcceptanceProfile]] = []
        for stem, (_, paths) in self._index("acceptance").items():
            if self._texts.mention(paths[0], name, drafter):
                measured: Loaded[AcceptanceProfile] = self._named("acceptance", stem)
                if _same(measured.record.target, name) and _same(measured.record.drafter, drafter):
                    found.append(measured)
        return sorted(found, key=lambda one: (not one.record.default, one.record.name))

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
        return replace(choices[0], note=_note(f"acceptance of {drafter} on {target}", choices[0], found))

    def default_drafter(self, target: str) -> Loaded[Drafter]:
        """The drafter taken where none is named.

        1. Of those that name the target: the ones marked `default: true`, in the nearest folder that marks any.
           Where none is marked: those whose acceptance on the target is known by default, else all of them.
        2. Of several, those whose acceptance on the target is known by default, where any is.
        3. Of several mechanisms, the first in MECHANISM_ORDER; two of one mechanism are an error naming both.
        """
        name = self._model_name(target)
        found = [one for one in self.drafters_for(name) if one.record.targets]
        if not found:
            hint = "name one with --drafter (ngram and suffix draft for any model), or --drafter none"
            raise ProfileError(f"no drafter is known for {name}", hint=hint)
        choices = self._nearest([one for one in found if one.record.default]) or found
        choices = [one for one in choices if self._has_acceptance(name, one)] or choices
        first = choices[0].record.mechanism
        choices = [one for one in choices if one.record.mechanism == first]
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
            others = _some([one.record.name for one in everything])
            message = f"no {mechanism} drafter is known for {name}"
            raise ProfileError(message, hint=f"drafters for {name}: {others}" if everything else None)
        choices = self._nearest([one for one in found if one.record.default]) or found
        choices = [one for one in choices if self._has_acceptance(name, one)] or choices
        if len(choices) > 1:
            raise self._ambiguous(f"{mechanism} drafter of {name}", choices, "--drafter", choices[0].record.default)
        return replace(choices[0], note=_note(f"{mechanism} drafter of {name}", choices[0], found))

    def _has_acceptance(self, target: str, drafter: Loaded[Drafter]) -> bool:
        found = self.acceptance_for(target, drafter.record.name)
        return len(found) == 1 or any(one.record.default for one in found)

    # ------------------------------------------------------------------------------------------ the search

    def _index(self, kind: str) -> dict[str, tuple[int, list[Path]]]:
        """Name -> (rank of the nearest folder that has it, its files there)."""
        if kind not in self._indexes:
            index: dict[str, tuple[int, list[Path]]] = {}
            for rank, root in enumerate(self._roots):
                for path in files_of(root, kind, self._texts):
                    held_at, paths = index.setdefault(path.stem, (rank, []))
                    if held_at == rank:
                        paths.append(path)
            self._indexes[kind] = index
        return self._indexes[kind]

    def _find(self, kind: str, name: str) -> Loaded[Any]:
        found = self._given(kind, name)
        if found is None:
            raise self._unknown(kind, name)
        return found

    def _given(self, kind: str, name: str) -> Loaded[Any] | None:
        """By file, name, name with case ignored, or alias; None: nothing of the kind."""
        path = Path(os.path.expanduser(name))  # noqa: PTH111  (Path.expanduser raises for an unknown user)
        if name.casefold().endswith(ENDINGS) or (os.sep in name and os.path.isfile(path)):  # noqa: PTH113
            return self._file(kind, path)
        index = self._index(kind)
        if name in index:
            return self._named(kind, name)
        for stem in index:
            if _same(stem, name):
                return self._named(kind, stem)
        if "aliases" not in RECORDS[kind].__struct_fields__:
            return None
        aliased = [
            one for one in self._mentioning(kind, name) if any(_same(name, one_of) for one_of in one.record.aliases)
        ]
        aliased = self._nearest(aliased)
        if len(aliased) > 1:
            raise ProfileError(
                f"the alias `{name}` belongs to several: {_some([one.record.name for one in aliased])}",
                hint="use one of these names",
            )
        return aliased[0] if aliased else None

    def _file(self, kind: str, path: Path) -> Loaded[Any]:
        if path.stem in self._index(kind) and not os.path.exists(path):  # noqa: PTH110  (Path.exists can raise)
            raise ProfileError(
                "no such file", file=path, hint=f"the library's profile is named `{path.stem}`, no ending"
            )
        return self._load(path, kind, "file")

    def _named(self, kind: str, stem: str) -> Loaded[Any]:
        rank, paths = self._index(kind)[stem]
        if len(paths) > 1:
            files = " and ".join(str(path) for path in paths)
            raise ProfileError(f"two profiles are named `{stem}`: {files}", hint="rename one, or give the file")
        return self._load(paths[0], kind, self._roots[rank].origin)

    def _load(self, path: Path, kind: str, origin: str) -> Loaded[Any]:
        if (path, origin) not in self._loaded:
            self._loaded[path, origin] = load_file(path, kind, origin)
        return self._loaded[path, origin]

    def _mentioning(self, kind: str, word: str) -> list[Loaded[Any]]:
        """The profiles whose file holds the word anywhere: the only ones that can have it as alias or family."""
        return [
            self._named(kind, stem)
            for stem, (_, paths) in self._index(kind).items()
            if self._texts.mention(paths[0], word)
        ]

    def _model_name(self, target: str) -> str:
        """A model's own name for any case or alias; a name that is not in the library stands for itself."""
        index = self._index("model")
        if target in index:
            return target
        stem = next((stem for stem in index if _same(stem, target)), None)
        if stem is not None:
            return stem
        found = self._given("model", target)
        return str(found.record.name) if found is not None else target

    def _nearest(self, found: Sequence[Loaded[Any]]) -> list[Loaded[Any]]:
        """Those in the nearest folder that has any."""
        ranks = {root.origin: rank for rank, root in enumerate(self._roots)}
        best = min((ranks[one.origin] for one in found), default=0)
        return [one for one in found if ranks[one.origin] == best]

    # ------------------------------------------------------------------------------------------ complaints

    def _unknown(self, kind: str, name: str) -> ProfileError:
        for root in self._roots:
            for path in loose_files(root):
                if path.stem == name:
                    load_file(path, kind)  # in reach, but of another kind or none: its own error says what to write
        listing = f"`specdec profiles list --kind {kind}` shows all"
        for other in KIND_FOLDERS:
            if other != kind and name in self._index(other):
                return ProfileError(f"`{name}` is no {kind} profile but a profile of kind {other}", hint=listing)
        known = self.names(kind)
        word = name.rsplit("/", 1)[-1]
        close = nearest(word, known) or [one for one in known if word.casefold() in one.casefold()][:3]
        guess = f"did you mean {' or '.join(close)}? " if close else ""
        place = " (no such file either)" if os.sep in name else ""
        return ProfileError(f"unknown {kind} `{name}`{place}", hint=guess + listing)

    @staticmethod
    def _ambiguous(what: str, choices: Sequence[Loaded[Any]], option: str, marked: bool) -> ProfileError:
        names = _some([one.record.name for one in choices])
        reason = "several are marked default" if marked else "none is marked default"
        return ProfileError(f"which {what}? {reason}: {names}", hint=f"name one with {option}")


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def _mechanism_rank(drafter: Loaded[Drafter]) -> tuple[int, str]:
    return MECHANISM_ORDER.index(drafter.record.mechanism), drafter.record.name


def _note(what: str, chosen: Loaded[Any], among: Sequence[Loaded[Any]]) -> str:
    others = [one.record.name for one in among if one.record.name != chosen.record.name]
    return f"{what}: {chosen.record.name}" + (f" (others: {_some(others)})" if others else "")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
