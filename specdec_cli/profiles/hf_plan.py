"""What a quantised checkpoint converts: the names of its modules, and patterns for them."""

from __future__ import annotations

import fnmatch
import re

from specdec_cli.profiles.hf_layers import layer_count
from specdec_cli.profiles.hf_reader import ConfigReader
from specdec_cli.profiles.schema import WeightDtype

PREFIX = re.compile(r"^(?:model\.language_model\.|language_model\.model\.|model\.|backbone\.|transformer\.)")
REGEX = "re:"
MOST_LOOPS = 2
"""Repetitions in one regular expression; published ones have one or two."""
MOST_LOOKS = 100_000
"""Patterns times layers; the longest published lists come to an eighth of it."""
REGEX_LOOKS = 20
"""What a regular expression counts for: it may look at a name from each of its letters."""


class Plan:
    """What the checkpoint converts: one dtype for all but a list, or a list of modules with a dtype each (and one for
    the rest, where what was converted was quantised before)."""

    def __init__(self, dtype: WeightDtype | None, left: list[str], converted: dict[str, WeightDtype]) -> None:
        self.dtype = dtype
        self.exact = {_stripped(name) for name in left if not _is_pattern(name)}
        self.patterns = [_compiled(name) for name in left if _is_pattern(name)]
        self.converted = {_stripped(name): value for name, value in converted.items()}

    def dtype_of(self, spellings: tuple[str, ...]) -> WeightDtype | None:
        """The dtype of a module under any of its spellings; None where it is left alone."""
        if self.converted:
            for name in spellings:
                for prefix in _prefixes(name):
                    if prefix in self.converted:
                        return self.converted[prefix]
            return None if self.exact.intersection(spellings) else self.dtype
        for name in spellings:
            if any(prefix in self.exact for prefix in _prefixes(name)):
                return None
            if any(pattern.match(full) for pattern in self.patterns for full in (name, f"model.{name}")):
                return None
        return self.dtype


def check_patterns(reader: ConfigReader, key: str, names: list[str]) -> None:
    """Refuse patterns whose matching might never end: a configuration is a stranger's file.

    Raises ProfileError.
    """
    patterns = [name for name in names if _is_pattern(name)]
    looks = sum(REGEX_LOOKS if name.startswith(REGEX) else 1 for name in patterns)
    if looks * layer_count(reader) > MOST_LOOKS:
        raise reader.refuse(f"{len(patterns):,} patterns for {layer_count(reader):,} layers are too many", key=key)
    for name in patterns:
        if not name.startswith(REGEX):
            continue
        loops = re.sub(r"\\.|\[[^\]]*\]|\(\?", "x", name)  # escaped letters and classes repeat nothing
        if re.search(r"\)[*+{]", loops) or len(re.findall(r"[*+{?]", loops)) > MOST_LOOPS:
            raise reader.refuse(f"a pattern that repeats too much to be matched safely: {name[:60]}", key=key)
        try:
            _compiled(name)
        except re.error as error:
            raise reader.refuse(f"not a regular expression, {error.msg}: {name[:60]}", key=key) from None


def _is_pattern(name: str) -> bool:
    return name.startswith(REGEX) or any(letter in name for letter in "*?[")


def _compiled(name: str) -> re.Pattern[str]:
    if name.startswith(REGEX):
        return re.compile(name.removeprefix(REGEX))
    glob = _stripped(name)
    return re.compile(fnmatch.translate(glob) + "|" + fnmatch.translate(glob + ".*"))


def _stripped(name: str) -> str:
    return PREFIX.sub("", name)


def _prefixes(name: str) -> list[str]:
    """The name and the modules around it: `a.b.c` -> a.b.c, a.b, a."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
