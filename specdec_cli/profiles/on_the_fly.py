"""A `config.json` given where a profile is expected: imported for this one question, and checked as a file would be."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from specdec_cli.profiles.checks import CHECKS
from specdec_cli.profiles.convert import convert
from specdec_cli.profiles.hf_config import read_model
from specdec_cli.profiles.hf_drafter import read_drafter
from specdec_cli.profiles.load import IMPORTED, Loaded
from specdec_cli.profiles.schema import Drafter, Model, Profile
from specdec_cli.profiles.writer import to_yaml
from specdec_cli.profiles.yaml_reader import Document, parse

# What quantisers append to the name of the model that they convert.
QUANTISED = re.compile(
    r"-(?:fp8|nvfp4|mxfp4|fp4|int4|int8|awq|gptq|w4a16|w8a8|quantized|4bit|8bit|bnb)(?:[-.][\w.]+)*$", re.IGNORECASE
)
SIZES = ("hidden", "vocabulary", "attention", "ffn", "blocks")


def import_model(path: Path, known: Callable[[str], Model | None], *, name: str | None = None) -> Loaded[Model]:
    """The model of a `config.json` or of a folder that holds one.

    `known` looks up the library's models by name or alias. A repository that the library knows gives its name, and
    with it drafters and acceptance; one that is a quantised copy of a known model says so in `quantised_from`.
    Raises ProfileError where a size is missing or not modelled.
    """
    model = read_model(path, name=name)
    said = ""
    same = next((found for found in map(known, model.aliases) if found is not None), None)
    base = known(QUANTISED.sub("", model.name))
    if name is None and same is not None:
        model = msgspec.structs.replace(model, name=same.name)
        said = f" (the library knows {model.aliases[0]} by that name; its drafters and acceptance are used)"
    elif base is not None and base.name != model.name and _same_sizes(model, base):
        taken = f"Its name and its sizes are those of {base.name}: taken as a quantised copy of it."
        model = msgspec.structs.replace(model, quantised_from=base.name, assumptions=[*model.assumptions, taken])
    check_import(model, path)
    note = f"{path} imported as {model.name}{said}" + ("; assumed: " if model.assumptions else "")
    return Loaded(model, parse(to_yaml(model), path), IMPORTED, note + " ".join(model.assumptions))


def _same_sizes(one: Model, other: Model) -> bool:
    return all(getattr(one, part) == getattr(other, part) for part in SIZES)


def import_drafter(path: Path, target: str) -> Loaded[Drafter]:
    """The drafter of a `config.json`, or of a folder that holds one, for the target named."""
    drafter = read_drafter(path, targets=[target])
    check_import(drafter, path)
    said = " ".join([f"{path} imported as {drafter.name}:", *drafter.notes])
    return Loaded(drafter, parse(to_yaml(drafter), path), IMPORTED, said)


def check_import(record: Profile, path: Path) -> None:
    """Hold an imported record against the types and the checks that a profile file passes.

    Raises ProfileError for the first thing wrong, by the profile's key: the configuration's may have several spellings.
    """
    data = msgspec.to_builtins(record)
    document = Document(path, data, {})
    record = convert(document, data, type(record))
    for problem in CHECKS[str(record.__struct_config__.tag)](record):
        raise problem.error(document)
