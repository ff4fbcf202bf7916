"""The JSON Schemas: those that ship are current, every shipped profile fits its own, and a wrong file does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from builders import BUILDERS, drop, put
from conftest import REPO

from specdec_cli.profiles.json_schema import DEFINITIONS, FOLDER, json_schema, schema_line
from specdec_cli.profiles.kinds import KIND_FOLDERS, KINDS
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.load import check_file
from specdec_cli.profiles.yaml_reader import read

PROFILES = REPO / "profiles"
FILES = {kind: sorted((PROFILES / folder).rglob("*.yaml")) for kind, folder in KIND_FOLDERS.items()}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def complaints(value: Any, schema: dict[str, Any], whole: dict[str, Any], place: str = "") -> list[str]:
    """What a validator says, for the words that these schemas use; an unknown word fails the test."""
    found: list[str] = []
    for word, rule in schema.items():
        match word:
            case "$ref":
                found += complaints(value, whole["$defs"][rule.removeprefix(DEFINITIONS)], whole, place)
            case "allOf":
                found += [text for option in rule for text in complaints(value, option, whole, place)]
            case "anyOf":
                if all(complaints(value, option, whole, place) for option in rule):
                    found.append(f"{place}: fits none of {len(rule)}")
            case "type":
                if not _is(value, rule):
                    found.append(f"{place}: no {rule}")
            case "enum":
                if not any(value == option and type(value) is type(option) for option in rule):
                    found.append(f"{place}: none of {rule}")
            case "required":
                found += [f"{place}: {key} is missing" for key in rule if isinstance(value, dict) and key not in value]
            case "properties" | "additionalProperties":
                if word == "properties" and isinstance(value, dict):
                    found += [
                        text
                        for key, item in value.items()
                        if key in rule
                        for text in complaints(item, rule[key], whole, f"{place}.{key}")
                    ]
                elif isinstance(value, dict):
                    for key in value.keys() - schema.get("properties", {}).keys():
                        if rule is False:
                            found.append(f"{place}: {key} is unknown")
                        else:
                            found += complaints(value[key], rule, whole, f"{place}.{key}")
            case "propertyNames":
                found += [text for key in value for text in complaints(str(key), rule, whole, f"{place} key")]
            case "items":
                found += [text for item in value for text in complaints(item, rule, whole, f"{place}[]")]
            case "maxItems":
                found += [f"{place}: too many"] * (len(value) > rule)
            case "minItems":
                found += [f"{place}: too few"] * (len(value) < rule)
            case "minimum" | "exclusiveMinimum":
                if _is(value, "number") and not (value > rule or (word == "minimum" and value == rule)):
                    found.append(f"{place}: {word}")
            case "maximum":
                found += [f"{place}: maximum"] * (_is(value, "number") and value > rule)
            case "pattern":
                found += [f"{place}: pattern"] * (isinstance(value, str) and re.search(rule, value) is None)
            case "maxLength":
                found += [f"{place}: maxLength"] * (isinstance(value, str) and len(value) > rule)
            case "$schema" | "title" | "description" | "default" | "discriminator" | "$defs":
                pass
            case _:
                raise AssertionError(f"{word} is not known here")
    return found


def _is(value: Any, kind: str) -> bool:
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind])


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_shipped_schema_is_current(kind: str) -> None:
    written = (PROFILES / FOLDER / f"{kind}.json").read_text("utf-8")
    hint = f"specdec profiles schema {kind} -o profiles/{FOLDER}/{kind}.json --force"
    assert written == json.dumps(json_schema(kind), indent=2) + "\n", hint


def test_nothing_else_is_among_the_schemas() -> None:
    assert {path.name for path in (PROFILES / FOLDER).iterdir()} == {f"{kind}.json" for kind in KINDS}


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_shipped_profile_fits_its_schema_and_names_it(kind: str) -> None:
    schema = json_schema(kind)
    assert FILES[kind], "a kind without a shipped profile"
    for path in FILES[kind]:
        below = len(path.relative_to(PROFILES / KIND_FOLDERS[kind]).parents) - 1
        first = path.read_text("utf-8").partition("\n")[0]
        assert first == schema_line(kind, below), path
        assert (path.parent / first.partition("=")[2]).resolve() == PROFILES / FOLDER / f"{kind}.json"
        assert complaints(read(path).data, schema, schema, path.stem) == []


@pytest.mark.parametrize("kind", list(BUILDERS))
def test_a_toy_profile_fits_and_a_wrong_one_does_not(kind: str) -> None:
    schema, data = json_schema(kind), BUILDERS[kind]()
    assert complaints(data, schema, schema) == []
    assert complaints({**data, "sizes": 1}, schema, schema) == [": sizes is unknown"]
    assert complaints(drop(data, "sources"), schema, schema) == [": sources is missing"]
    assert complaints({**data, "name": "A b"}, schema, schema) == [".name: pattern"]
    assert complaints({**data, "kind": "other"}, schema, schema) != []


def test_wrong_numbers_and_words_deep_in_a_file() -> None:
    schema = json_schema("hardware")
    for key, value in (
        ("memory_gb", 0),
        ("kernels.default.gemm.bf16.eta_c", "0.8"),
        ("kernels.default.gemm.bf61", {}),
        ("kernels.default.gemm.bf16.compute", "bf61"),
        ("link.domain_gpus", 1.5),
        ("sources", {"*": {"from": "x", "checked": "2026-01-01", "kind": "guessed"}}),
    ):
        assert complaints(put(BUILDERS["hardware"](), key, value), schema, schema) != [], key


def test_an_engines_kernels_may_be_a_part_and_default_may_not() -> None:
    schema, toy = json_schema("hardware"), BUILDERS["hardware"]()
    part = put(toy, "kernels.vllm", {"gemm": {"bf16": {"eta_m": 0.9}}})
    assert complaints(part, schema, schema) == []
    assert complaints(put(toy, "kernels.vllm", {"gemm": {"bf16": {"eta_n": 0.9}}}), schema, schema) != []
    assert complaints(drop(toy, "kernels.default.gemm.bf16.eta_m"), schema, schema) != []
    assert complaints(drop(toy, "kernels.default"), schema, schema) != []


def test_fields_carry_what_stands_under_them_in_the_records() -> None:
    fields = json_schema("drafter")["$defs"]["DraftHead"]["properties"]
    assert fields["fc_in"]["description"] == "Input width of the fusion layer; 0: none."
    sources = json_schema("model")["$defs"]["Source"]["properties"]
    assert sources["from"]["description"].startswith("Document, repository at a commit")


def test_the_library_takes_no_schema_for_a_profile(tmp_path: Path) -> None:
    names = {name for kind in KINDS for name in Library().names(kind)}
    assert not names & set(KINDS)
    errors = check_file(PROFILES / FOLDER / "model.json")
    assert errors, "a schema is no profile"
