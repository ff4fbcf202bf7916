"""The frozen contract: `tests/data/golden` holds an answer of each schema, its shape, and the digests of both."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
from collections.abc import Iterator
from typing import Any

from contract_runs import FROZEN, GOLDEN, arguments
from jsonschema import Draft202012Validator

from specdec_cli.cli.app import run
from specdec_cli.report.contract.schema import ANSWERS, Answer, answer_schema

ANSWER, SHAPE, DIGESTS = GOLDEN / "answers", GOLDEN / "shapes", GOLDEN / "digests.json"
SAME, NOTHING = 1e-7, 1e-9
"""Numbers this fraction apart, or this small, are the same: by processor and release of numpy the last digits differ,
and those of a fit by more."""


def frozen_answer(name: str) -> str:
    """What the frozen command of a schema prints today. Raises RuntimeError where it fails."""
    said, wrong = io.StringIO(), io.StringIO()
    with contextlib.chdir(GOLDEN), contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
        run(arguments(FROZEN[name]))
    if not said.getvalue():
        raise RuntimeError(f"{FROZEN[name]}: {wrong.getvalue()}")
    return said.getvalue()


def shape(answer: Answer) -> str:
    """The published schema without its prose."""
    return json.dumps(_without_prose(answer_schema(answer)), indent=1) + "\n"


def _without_prose(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: _without_prose(value)
            for key, value in node.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [_without_prose(item) for item in node] if isinstance(node, list) else node


SCHEMAS = {answer.schema: answer_schema(answer) for answer in ANSWERS}
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}


def complaints(answer: dict[str, Any]) -> list[str]:
    """What is wrong with an answer by the schema that it names."""
    found = VALIDATORS[answer["schema"]].iter_errors(answer)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def digests() -> dict[str, dict[str, str]]:
    """Schema -> digests of the files that are kept of it."""
    return {
        answer.schema: {
            kind: hashlib.sha256((folder / f"{answer.name}.json").read_bytes()).hexdigest()
            for kind, folder in (("shape", SHAPE), ("answer", ANSWER))
        }
        for answer in ANSWERS
    }


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """What is not the same in two answers: keys, their order, words, numbers. The tool's version may differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            yield f"{place or 'the answer'} has the keys {list(new)}, not {list(old)}"
        for key in old.keys() & new.keys() - {"specdec_version"}:
            yield from differences(old[key], new[key], f"{place}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{place} has {len(new)} entries, not {len(old)}"
        for at, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from differences(before, after, f"{place}[{at}]")
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=SAME, abs_tol=NOTHING):
            yield f"{place} is {new!r}, not {old!r}"
    elif type(old) is not type(new) or old != new:
        yield f"{place} is {new!r}, not {old!r}"


def breaks(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What a reader of the old schema would stumble over in an answer of the new one; additions are none."""
    return list(_breaks(old, new, old["$defs"], new["$defs"], ""))


def _breaks(old: Any, new: Any, old_names: Any, new_names: Any, place: str) -> Iterator[str]:
    before, after = _kinds(old, old_names), _kinds(new, new_names)
    for kind in after.keys() - before.keys():
        if not (kind == "integer" and "number" in before):
            yield f"{place or 'the answer'} may now be {kind}"
    for kind in before.keys() & after.keys():
        was, now = before[kind], after[kind]
        yield from (f"{place} is never {word!r} any more" for word in was.get("enum", ()) if word not in now["enum"])
        for key, below in was.get("properties", {}).items():
            if key not in now["properties"]:
                yield f"{place}.{key} is gone"
                continue
            if key in was.get("required", ()) and key not in now["required"]:
                yield f"{place}.{key} may now be absent"
            yield from _breaks(below, now["properties"][key], old_names, new_names, f"{place}.{key}")
        for word, mark in (("items", "[]"), ("additionalProperties", ".*")):
            if isinstance(was.get(word), dict) and isinstance(now.get(word), dict):
                yield from _breaks(was[word], now[word], old_names, new_names, f"{place}{mark}")


def _kinds(schema: Any, names: Any) -> dict[str, Any]:
    """Kind of value -> the schema that it has to fit; records told apart by their `kind` are kinds of their own."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {name: names[name]} if "kind" in names[name]["properties"] else _kinds(names[name], names)
    if "anyOf" in schema:
        return {kind: found for one in schema["anyOf"] for kind, found in _kinds(one, names).items()}
    return {schema.get("type", "word" if "enum" in schema else "anything"): schema}
