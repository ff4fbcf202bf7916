"""JSON Schema of each kind of profile, for editors: generated from the records, with what stands under each field.

The schema is for typing along: completion, units, wrong words. What it cannot say (sources, sums, names that must
exist) `load` checks. An engine's kernels inherit `default` key by key, so nothing is required of them.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
from typing import Any

import msgspec

from specdec_cli.profiles import calibration, measurement, schema
from specdec_cli.profiles.kinds import KINDS

Json = dict[str, Any]

DIALECT = "http://json-schema.org/draft-07/schema#"  # what editors' YAML plug-ins read
DEFINITIONS = "#/$defs/"
FOLDER = "schemas"
"""Of the generated files, beside the kinds' folders."""
PARTIAL = "Partial"


def json_schema(kind: str) -> Json:
    """The JSON Schema of a kind. Raises KeyError for a kind that does not exist."""
    record = KINDS[kind].record
    generated = msgspec.json.schema(record)
    definitions: dict[str, Json] = generated["$defs"]
    documented = {**documentation(schema), **documentation(measurement), **documentation(calibration)}
    for name, definition in definitions.items():
        for field, text in documented.get(name, {}).items():
            if field in definition.get("properties", {}):
                _describe(definition["properties"][field], text)
    for definition in definitions.values():
        definition.pop("title", None)  # the class's name says nothing to the author of a profile
    if kind == "hardware":
        _inherit_kernels(definitions)
    return {
        "$schema": DIALECT,
        "title": f"specdec profile of kind {kind}",
        "$ref": generated["$ref"],
        "$defs": dict(sorted(definitions.items())),
    }


def schema_line(kind: str, below: int = 0) -> str:
    """The first line of a shipped profile that lies `below` folders under its kind's folder, as editors read it."""
    return f"# yaml-language-server: $schema={'../' * (below + 1)}{FOLDER}/{kind}.json"


def documentation(module: Any) -> dict[str, dict[str, str]]:
    """Class -> field declared in it -> the text under it, on one line."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef):
            fields: dict[str, str] = {}
            for line, following in zip(node.body, node.body[1:], strict=False):
                text = following.value if isinstance(following, ast.Expr) else None
                if (
                    isinstance(line, ast.AnnAssign)
                    and isinstance(line.target, ast.Name)
                    and isinstance(text, ast.Constant)
                    and isinstance(text.value, str)
                ):
                    # `from` cannot be a field's name in Python
                    fields[line.target.id.removesuffix("_")] = re.sub(r"\s+", " ", text.value).strip()
            found[node.name] = fields
    return found


def _describe(field: Json, text: str) -> None:
    if "$ref" in field:  # draft 7 ignores what stands beside a reference
        field["allOf"] = [{"$ref": field.pop("$ref")}]
    field["description"] = text


def _inherit_kernels(definitions: dict[str, Json]) -> None:
    """`kernels`: `default` is whole, an engine's entry may leave out any key."""
    waiting, partial = ["KernelSet"], set()
    while waiting:
        name = waiting.pop()
        if name in partial:
            continue
        partial.add(name)
        copied = copy.deepcopy(definitions[name])
        copied.pop("required", None)
        for reference in _references(copied):
            waiting.append(reference["$ref"].removeprefix(DEFINITIONS))
            reference["$ref"] += PARTIAL
        definitions[name + PARTIAL] = copied
    kernels = definitions["Hardware"]["properties"]["kernels"]
    kernels["properties"] = {"default": kernels["additionalProperties"]}
    kernels["required"] = ["default"]
    kernels["additionalProperties"] = {"$ref": f"{DEFINITIONS}KernelSet{PARTIAL}"}


def _references(node: Any) -> list[Json]:
    """Every object under `node` that refers to a definition."""
    if isinstance(node, dict):
        here = [node] if "$ref" in node else []
        return here + [found for value in node.values() for found in _references(value)]
    if isinstance(node, list):
        return [found for value in node for found in _references(value)]
    return []
