"""Loads and checks one profile file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from specdec_cli.errors import ProfileError, did_you_mean
from specdec_cli.profiles.checks import CHECKS, READS_FORMAT, check_sources, source_key
from specdec_cli.profiles.convert import Problem, convert, problems_of
from specdec_cli.profiles.kinds import RECORDS
from specdec_cli.profiles.schema import Profile, Source
from specdec_cli.profiles.yaml_reader import Document, dotted, read

P = TypeVar("P", bound=Profile)

IMPORTED = "imported"
"""Origin of a record that was made from a `config.json` for one question."""


@dataclass(frozen=True, slots=True)
class Loaded(Generic[P]):
    """A profile and where it came from."""

    record: P
    document: Document
    """The file as plain data, before inheritance, with the line of every key."""
    origin: str
    """`shipped`, `--profiles DIR`, `$SPECDEC_PROFILES (DIR)`, `user config (DIR)`, `file` or `imported`."""
    note: str = ""
    """How it was chosen, where the name alone does not say."""

    @property
    def path(self) -> Path:
        """The file."""
        return self.document.path


def load_file(path: Path | str, kind: str | None = None, origin: str = "file") -> Loaded[Any]:
    """Load a profile; `kind` None takes whichever the file says.

    Raises ProfileError for the first thing wrong, with file, line, key, expectation and hint.
    """
    document = read(Path(path))
    for problem in _head(document, kind):
        raise problem.error(document)
    kind = document.data["kind"]
    data = whole_kernels(document.data)
    record = convert(document, data, RECORDS[kind])
    for problem in _cross(document, record, kind):
        raise problem.error(document)
    return Loaded(record, document, origin)


def check_file(path: Path | str, kind: str | None = None) -> list[ProfileError]:
    """Everything wrong with a profile file; empty: it loads."""
    try:
        document = read(Path(path))
    except ProfileError as error:
        return [error]
    problems = list(_head(document, kind))
    if not problems:
        data, record = whole_kernels(document.data), RECORDS[document.data["kind"]]
        problems = problems_of(document, data, record)
        if not problems:
            problems = list(_cross(document, convert(document, data, record), document.data["kind"]))
    # What `default` lacks is missing from every engine that inherits it: say it once.
    return [problem.error(document) for problem in dict.fromkeys(problems)]


def _head(document: Document, kind: str | None) -> Iterator[Problem]:
    """Format and kind, before anything else: they decide how the rest is read."""
    version, said = document.data.get("format"), document.data.get("kind")
    if "format" not in document.data:
        yield Problem((), "missing key `format`", f"write `format: {READS_FORMAT}`")
    elif isinstance(version, int) and version > READS_FORMAT:
        message = f"format {version} is newer than this specdec, which reads format {READS_FORMAT}"
        yield Problem(("format",), message, "pip install --upgrade specdec-cli")
    if "kind" not in document.data:
        yield Problem((), "missing key `kind`", f"it is one of {', '.join(RECORDS)}")
    elif not isinstance(said, str) or said not in RECORDS:
        hint = did_you_mean(str(said), RECORDS)
        yield Problem(("kind",), f"expected one of {', '.join(RECORDS)}, found `{said}`", hint)
    elif kind is not None and said != kind:
        yield Problem(("kind",), f"expected a profile of kind {kind}, found one of kind {said}")


def _cross(document: Document, record: Profile, kind: str) -> Iterator[Problem]:
    if record.name != document.path.stem:
        message = f"expected the file's name `{document.path.stem}`, found `{record.name}`"
        yield Problem(("name",), message, "rename the file, or change the key")
    yield from CHECKS[kind](record)
    yield from check_sources(document.data, record)


def whole_kernels(data: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The data with every engine's kernels made whole: its entry laid over `default`, key by key."""
    kernels = data.get("kernels")
    if not isinstance(kernels, dict) or not isinstance(kernels.get("default"), dict):
        return data
    default = kernels["default"]
    others = {engine: _over(default, entry) for engine, entry in kernels.items() if engine != "default"}
    return {**data, "kernels": {"default": default, **others}}


def _over(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{key: _over(below.get(key), value) for key, value in above.items()}}


def sources_for(loaded: Loaded[Any], key: str) -> Source | None:
    """Where the value at a dotted key comes from (`kernels.vllm.gemm.bf16.eta_c`); None: a text without a source.

    A value that an engine's kernels inherit has the source of `default`. Raises ProfileError where the file has no
    such key.
    """
    keys = {dotted(path) for path in loaded.document.marks}
    top, _, rest = key.partition(".")
    if key not in keys and top == "kernels" and "." in rest:
        inherited = f"kernels.default.{rest.partition('.')[2]}"
        key = inherited if inherited in keys else key
    if key not in keys:
        raise ProfileError(f"no key `{key}` in this file", file=loaded.path, hint=did_you_mean(key, keys))
    name = source_key(loaded.record.sources, key)
    return loaded.record.sources[name] if name is not None else None
