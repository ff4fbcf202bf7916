"""New profiles: complete, leading to what is missing, and valid once filled in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec.inspect
import pytest
import yaml

from specdec_cli.errors import UsageError
from specdec_cli.profiles.kinds import RECORDS
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.load import check_file, load_file
from specdec_cli.profiles.plausible import check_profile
from specdec_cli.profiles.skeletons import DONOR, KINDS, skeleton

TODAY = "2026-03-04"
OPTIONAL_AS_A_COMMENT = re.compile(r"^(\s*(?:- )?)# ([a-z_0-9]+:.*)$")

# What a person would write behind the keys that are marked, in their order.
FILLED: dict[str, list[str]] = {
    "hardware": [
        *("Toy 80 GB", "Toy", "toy1", "80.0", "85899345920.0", "3350.0", "989.0", "1979.0"),
        *("NVLink4", "450.0", "450.0", "8", "the data sheet", "datasheet"),
    ],
    "model": [
        *("Toy", "Maker", "4096", "128256", "false", "8192", "32", "8", "128", "14336", "32", "bf16", "8B"),
        *("config.json", "published"),
    ],
    "drafter": [
        *("Toy head", "[llama-3.1-8b]", "1", "4096", "14336", "32", "8", "128", "8192", "32000", "true"),
        *("config.json", "published"),
    ],
    "acceptance": ["llama-3.1-8b", "llama-3.1-8b-eagle3", "MT-Bench", "me", "3", "2.5", "my logs", "measured"],
}


def empty(kind: str) -> str:
    return skeleton(kind, f"my-{kind}", today=TODAY, donor=Library().hardware(DONOR))


def filled(kind: str) -> str:
    values = iter(FILLED[kind])
    text = re.sub(r":(?=  # required)", lambda _: f": {next(values)}", empty(kind))
    assert next(values, None) is None, "a value for each marked key"
    return text


@pytest.mark.parametrize("kind", KINDS)
def test_filled_in_it_passes_the_check(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"my-{kind}.yaml"
    path.write_text(filled(kind), "utf-8")
    assert check_profile(path) == []
    assert load_file(path, kind).record.name == f"my-{kind}"


@pytest.mark.parametrize("kind", KINDS)
def test_empty_it_names_what_is_required_line_by_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"my-{kind}.yaml"
    path.write_text(empty(kind), "utf-8")
    marked = [number for number, line in enumerate(empty(kind).splitlines(), 1) if re.search(r":  # required", line)]
    named = [error.line for error in check_profile(path)]
    # An AL may be left out beside per-position rates, a printed count beside an exact one: types cannot ask for either.
    optional = {"acceptance": 1, "model": 1}.get(kind, 0)
    assert len(marked) - optional == len(named)
    assert set(named) <= set(marked)
    assert named == sorted(named)


@pytest.mark.parametrize("kind", KINDS)
def test_each_key_that_may_stand_there_does(kind: str) -> None:
    """At the top and in the blocks written out; a field added to a record is missed here."""
    text = empty(kind)
    keys = set(re.findall(r"^\s*(?:# |- |# - )?([a-z_0-9]+):", text, re.MULTILINE))
    # kinds of layers beyond the common ones are in the JSON Schema, which the skeleton names
    nested = {"hardware": ("Link",), "drafter": ("DraftHead",), "acceptance": ("AcceptancePoint",), "model": ()}
    import specdec_cli.profiles.schema as records

    expected = {field.encode_name for field in msgspec.structs.fields(RECORDS[kind])}
    for name in nested[kind]:
        expected |= {field.encode_name for field in msgspec.structs.fields(getattr(records, name))}
    assert expected <= keys, expected - keys


@pytest.mark.parametrize("kind", KINDS)
def test_optional_keys_are_valid_once_their_hash_is_gone(kind: str, tmp_path: Path) -> None:
    """Each alone, so that those which exclude another (a drafter's model and head) do not meet."""
    lines = filled(kind).splitlines()
    tried = 0
    for number, line in enumerate(lines):
        match = OPTIONAL_AS_A_COMMENT.match(line)
        if match is None or match[2].startswith(("model:", "moe:", "mtp:", "price", "per_position", "ffn:")):
            continue
        value = re.sub(r": 0\.0(?=\s|$)", ": 1.0", re.sub(r": 0(?=\s|$)", ": 1", match[2]))
        changed = [*lines[:number], match[1] + value, *lines[number + 1 :]]
        path = tmp_path / f"my-{kind}.yaml"
        path.write_text("\n".join(changed) + "\n", "utf-8")
        assert check_file(path) == [], value  # whether its figures are plausible is not the question
        tried += 1
    assert tried >= 3


def test_a_new_chip_starts_with_the_kernels_of_its_donor(tmp_path: Path) -> None:
    donor = Library().hardware("l40s")
    path = tmp_path / "mine.yaml"
    path.write_text(skeleton("hardware", "mine", today=TODAY, donor=donor), "utf-8")
    data: Any = yaml.safe_load(path.read_text("utf-8"))
    assert data["kernels"]["default"] == donor.document.data["kernels"]["default"]
    assert data["sources"]["kernels"]["kind"] == "assumed"
    assert "l40s" in data["sources"]["kernels"]["from"]
    assert data["fitted"] is False


def test_kinds_without_a_skeleton_say_what_to_do() -> None:
    with pytest.raises(UsageError, match="copy the engine"):
        skeleton("engine", "mine", today=TODAY)
    with pytest.raises(UsageError, match="kinds: hardware, model"):
        skeleton("chip", "mine", today=TODAY)
