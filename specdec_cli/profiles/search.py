"""Where profiles lie: the folders in order, the files of a kind in each, and what a file mentions unparsed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.kinds import KIND_FOLDERS
from specdec_cli.profiles.yaml_reader import MAX_BYTES

ENDINGS = (".yaml", ".yml")
CONFIG_NAME = "config.json"
ENVIRONMENT = "SPECDEC_PROFILES"
SHIPPED = "shipped"
"""Origin of what came with specdec."""

_PACKAGE = Path(__file__).resolve().parent.parent
_KIND_LINE = re.compile(rb"^(?:\xef\xbb\xbf)?[\"']?kind[\"']?\s*:\s*[\"']?(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of profiles, and how it came to be searched (`shipped`, `--profiles DIR` ...)."""

    folder: Path
    origin: str


def shipped_profiles_dir() -> Path:
    """The profiles that came with specdec: packed into the wheel, else beside the package in the repository.

    Raises ProfileError where neither exists.
    """
    packed, beside = _PACKAGE / "shipped_profiles", _PACKAGE.parent / "profiles"
    for folder in (packed, beside):
        if _is_dir(folder):
            return folder
    raise ProfileError("the shipped profiles are missing", file=packed, hint="install specdec-cli again")


def roots(user_dirs: Iterable[str | Path] = ()) -> list[Root]:
    """The folders to search, nearest first: --profiles, $SPECDEC_PROFILES, the user's config folder, the shipped ones.

    Raises ProfileError where a folder that was asked for (by option or variable) does not exist.
    """
    found = [Root(_existing(folder, "--profiles"), f"--profiles {folder}") for folder in user_dirs]
    for folder in os.environ.get(ENVIRONMENT, "").split(os.pathsep):
        if folder:
            found.append(Root(_existing(folder, f"${ENVIRONMENT}"), f"${ENVIRONMENT} ({folder})"))
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  (Path.home() can raise)
    own = Path(config) / "specdec" / "profiles"
    if _is_dir(own):
        found.append(Root(own, f"user config ({own})"))
    found.append(Root(shipped_profiles_dir(), SHIPPED))
    return found


def _is_dir(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  (Path.is_dir raises where a parent may not be entered)


def holds_config(path: Path) -> bool:
    """Whether a folder holds the `config.json` of a model."""
    return os.path.isfile(path / CONFIG_NAME)  # noqa: PTH113  (as above)


def _existing(folder: str | Path, asked_by: str) -> Path:
    path = Path(os.path.expanduser(folder))  # noqa: PTH111  (as above)
    if not str(folder):
        raise ProfileError(f"{asked_by} expects a folder of profiles, found an empty name")
    if not _is_dir(path):
        found = "a file" if os.path.isfile(path) else "nothing of that name"  # noqa: PTH113  (as above)
        raise ProfileError(f"{asked_by} expects a folder of profiles, found {found}", file=path)
    return path


def files_of(root: Root, kind: str, texts: Texts) -> list[Path]:
    """The files of a kind under a root: all below its kind folder, and those at its top that say so themselves."""
    found = list(_below(root.folder / KIND_FOLDERS[kind]))
    for path in loose_files(root):
        match = _KIND_LINE.search(texts.folded(path))
        if match and match.group(1).decode(errors="replace") == kind:
            found.append(path)
    return found


def loose_files(root: Root) -> list[Path]:
    """YAML files directly in a root, in no kind folder."""
    return [Path(entry.path) for entry in _entries(root.folder) if _is_profile(entry)]


def profile_files(paths: Iterable[Path]) -> list[Path]:
    """Files as given, and for a folder every profile below it.

    Raises ProfileError for a folder without any.
    """
    found: list[Path] = []
    for path in paths:
        if not _is_dir(path):
            found.append(path)
            continue
        below = sorted(_below(path))
        if not below:
            raise ProfileError(f"no profile ({', '.join(ENDINGS)}) below this folder", file=path)
        found += below
    return list(dict.fromkeys(found))


def _below(folder: Path) -> Iterator[Path]:
    """Every profile file under a folder; each real folder once, so that a symlink to a parent ends."""
    waiting, seen = [folder], set()
    while waiting:
        here = waiting.pop()
        try:
            status = here.stat()
        except OSError:
            continue  # the kind folder is not there, or a symlink that leads nowhere
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        for entry in _entries(here):
            if _is_profile(entry):
                yield Path(entry.path)
            elif _is_folder(entry):
                waiting.append(Path(entry.path))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, by name; hidden entries are left out."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise ProfileError(f"cannot be read: {error.strerror or error}", file=folder) from None


def _is_profile(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.name.endswith(ENDINGS) and entry.is_file()
    except OSError:
        return False  # a symlink to itself


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


class Texts:
    """Files as lower-case bytes, read once each: enough to rule a file out before it is parsed."""

    def __init__(self) -> None:
        self._held: dict[Path, bytes] = {}

    def folded(self, path: Path) -> bytes:
        """The file's bytes in lower case; empty where it cannot be read or is too large (loading it says why)."""
        found = self._held.get(path)
        if found is None:
            try:
                found = path.read_bytes().lower() if path.stat().st_size <= MAX_BYTES else b""
            except OSError:
                found = b""
            self._held[path] = found
        return found

    def mention(self, path: Path, *words: str) -> bool:
        """Whether the file holds each word somewhere, case ignored."""
        return bool(self.mentioning([("", path)], *words))

    def mentioning(self, files: Iterable[tuple[str, Path]], *words: str) -> list[str]:
        """The names of those files that hold each word somewhere, case ignored."""
        folded = [word.lower().encode() for word in words]
        found = []
        for name, path in files:
            text = self.folded(path)
            for word in folded:
                if word not in text:
                    break
            else:
                found.append(name)
        return found
