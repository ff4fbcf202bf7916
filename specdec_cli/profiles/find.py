"""Finds profiles by name, alias or file, and loads them.

A name is a file's stem, so a look-up by name opens one file. Aliases stand inside the files: those that hold the
wanted word anywhere are parsed, the rest are not. Nothing is cached past the object.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specdec_cli.errors import ProfileError, nearest
from specdec_cli.profiles.calibration import Calibration
from specdec_cli.profiles.kinds import KIND_FOLDERS, RECORDS
from specdec_cli.profiles.load import Loaded, load_file
from specdec_cli.profiles.measurement import Measurement
from specdec_cli.profiles.schema import AcceptanceProfile, Engine, Hardware, Model
from specdec_cli.profiles.search import ENDINGS, Texts, files_of, holds_config, loose_files, roots

_MOST_NAMED = 8
_MADE_FROM_FILES = {"acceptance": "acceptance", "calibration": "calibrate"}
"""Commands that make a profile out of an engine's own files, by kind."""


class Finder:
    """The profiles in reach: `--profiles` folders, $SPECDEC_PROFILES, the user's config folder, the shipped ones.

    A nearer folder's profile hides a farther one of the same kind and name.
    """

    def __init__(self, user_dirs: Iterable[str | Path] = ()) -> None:
        """Raises ProfileError where a folder that was asked for does not exist."""
        self._roots = roots(user_dirs)
        self._texts = Texts()
        self._indexes: dict[str, dict[str, tuple[int, list[Path]]]] = {}
        self._loaded: dict[tuple[Path, str], Loaded[Any]] = {}
        self._given_models: dict[str, Model] = {}

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

    def model(self, name_or_file: str, *, files: bool = True) -> Loaded[Model]:
        """A model by name, alias (`meta-llama/Llama-3.1-8B-Instruct`) or file; a `config.json` of Hugging Face, or a
        folder that holds one, is imported. Without `files` by name or alias alone: what stands in a profile or a log
        leads to no file."""
        return self._find("model", name_or_file, files=files)

    def acceptance(self, name_or_file: str) -> Loaded[AcceptanceProfile]:
        """Measured acceptance by name or file."""
        return self._find("acceptance", name_or_file)

    def measurement(self, name_or_file: str) -> Loaded[Measurement]:
        """A published source of measurements by name or file."""
        return self._find("measurement", name_or_file)

    def calibration(self, name_or_file: str) -> Loaded[Calibration]:
        """A user's own calibration by name or file."""
        return self._find("calibration", name_or_file)

    def engine(self, name_or_file: str) -> Loaded[Engine]:
        """An engine by name, alias or file; a family's name alone is its newest profile."""
        known = self._given("engine", name_or_file)
        if known is not None:
            return known
        family = [
            engine for engine in self._mentioning("engine", name_or_file) if same(engine.record.family, name_or_file)
        ]
        if not family:
            raise self._unknown("engine", name_or_file)
        newest = max(family, key=lambda engine: engine.record.date)
        return replace(newest, note=f"{name_or_file}: {newest.record.name}, the newest of {len(family)}")

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

    def _find(self, kind: str, name: str, *, files: bool = True) -> Loaded[Any]:
        found = self._given(kind, name, files=files)
        if found is None:
            raise self._unknown(kind, name)
        return found

    def _given(self, kind: str, name: str, *, files: bool = True) -> Loaded[Any] | None:
        """By file (where `files`), name, name with case ignored, or alias; None: nothing of the kind."""
        if files and "\0" not in name:
            path = Path(os.path.expanduser(name))  # noqa: PTH111  (Path.expanduser raises for an unknown user)
            if kind == "model" and (name.casefold().endswith(".json") or (os.sep in name and holds_config(path))):
                return self._imported(path)
            if name.casefold().endswith(ENDINGS) or (os.sep in name and os.path.isfile(path)):  # noqa: PTH113
                return self._file(kind, path)
        index = self._index(kind)
        if name in index:
            return self._named(kind, name)
        for stem in index:
            if same(stem, name):
                return self._named(kind, stem)
        if "aliases" not in RECORDS[kind].__struct_fields__:
            return None
        aliased = [
            one for one in self._mentioning(kind, name) if any(same(name, one_of) for one_of in one.record.aliases)
        ]
        aliased = self._nearest(aliased)
        if len(aliased) > 1:
            raise ProfileError(
                f"the alias `{name}` belongs to several: {some([one.record.name for one in aliased])}",
                hint="use one of these names",
            )
        return aliased[0] if aliased else None

    def _imported(self, path: Path) -> Loaded[Model]:
        """The model of a `config.json`. Where the library knows the repository that the file names, by that name."""
        from specdec_cli.profiles.on_the_fly import import_model  # only where a configuration is given

        key = (path, "import")
        if key not in self._loaded:
            self._loaded[key] = import_model(path, self.known_model)
            self._given_models[self._loaded[key].record.name] = self._loaded[key].record
        return self._loaded[key]

    def known_model(self, name_or_alias: str) -> Model | None:
        """The model of that name or alias, None where there is none (or it does not load); no file."""
        try:
            found = self._given("model", name_or_alias, files=False)
        except ProfileError:
            return None
        return found.record if found is not None else None

    def _file(self, kind: str, path: Path) -> Loaded[Any]:
        if path.stem in self._index(kind) and not os.path.exists(path):  # noqa: PTH110  (Path.exists can raise)
            raise ProfileError(
                "no such file", file=path, hint=f"the library's profile is named `{path.stem}`, no ending"
            )
        loaded = self._load(path, kind, "file")
        if kind == "model":
            self._given_models[loaded.record.name] = loaded.record
        return loaded

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
        if target in index or target in self._given_models:
            return target
        stem = next((stem for stem in index if same(stem, target)), None)
        if stem is not None:
            return stem
        found = self._given("model", target, files=False)
        return str(found.record.name) if found is not None else target

    def _base_of(self, name: str) -> tuple[str, bool] | None:
        """The model that the named one is a quantised copy of, and whether the copy has MTP layers; None: no copy."""
        model = self._given_models.get(name)
        if model is None:
            if name not in self._index("model") or not self._texts.mention(
                self._index("model")[name][1][0], "quantised_from"
            ):
                return None
            model = self._named("model", name).record
        return (model.quantised_from, model.mtp is not None) if model.quantised_from is not None else None

    def _nearest(self, found: Sequence[Loaded[Any]]) -> list[Loaded[Any]]:
        """Those in the nearest folder that has any."""
        ranks = {root.origin: rank for rank, root in enumerate(self._roots)}
        best = min((ranks[one.origin] for one in found), default=0)
        return [one for one in found if ranks[one.origin] == best]

    def _unknown(self, kind: str, name: str) -> ProfileError:
        for root in self._roots:
            for path in loose_files(root):
                if path.stem == name:
                    load_file(path, kind)  # in reach, but of another kind or none: its own error says what to write
        listing = f"`specdec profiles list --kind {kind}` shows all"
        for other in KIND_FOLDERS:
            if other != kind and name in self._index(other):
                return ProfileError(f"`{name}` is no {kind} profile but a profile of kind {other}", hint=listing)
        command = _MADE_FROM_FILES.get(kind)
        if command is not None and os.path.isfile(name):  # noqa: PTH113  (Path.is_file raises for a name too long)
            hint = f"`specdec {command} {name} -o mine.yaml` makes one"
            return ProfileError(f"{name} is no {kind} profile", hint=hint)
        known = self.names(kind)
        word = name.rsplit("/", 1)[-1]
        close = nearest(word, known) or [one for one in known if word.casefold() in one.casefold()][:3]
        guess = f"did you mean {' or '.join(close)}? " if close else ""
        place = " (no such file either)" if os.sep in name else ""
        return ProfileError(f"unknown {kind} `{name}`{place}", hint=guess + listing)


def same(one: str, other: str) -> bool:
    """Whether two names are one, case ignored."""
    return one.casefold() == other.casefold()


def some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
