"""JSON Schema of every answer, generated from the types that the answers are built as, with what stands under a field.

Exact keys: the schema of an answer is that of this version of specdec. Within a schema's number keys are only added.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

from specdec_cli.profiles.json_schema import DEFINITIONS, documentation
from specdec_cli.report.columns import Column, grid_of
from specdec_cli.report.contract import answers, common, library, measured, validate
from specdec_cli.report.page import Page

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MODULES = (common, answers, measured, validate, library)
PROMISE = (
    "The keys of this version of specdec. A later one with the same schema number may add keys and values to lists of "
    "words, and takes none away: a reader does well to pass over what it does not know. Where the warning "
    "`not_finite` stands, a fault of specdec put null in place of a number."
)
PARTIAL = "Part"


class Answer(NamedTuple):
    """One machine-readable answer."""

    command: str
    """What writes it with `--format json`."""
    record: Any
    """The TypedDict that it is."""

    @property
    def schema(self) -> str:
        """`specdec.sweep/1`: what stands under `schema` in it."""
        (name,) = get_args(get_type_hints(self.record)["schema"])
        return str(name)

    @property
    def name(self) -> str:
        """`sweep`."""
        return self.schema.removeprefix("specdec.").partition("/")[0]


ANSWERS = (
    Answer("sweep", answers.SweepAnswer),
    Answer("recommend", answers.RecommendAnswer),
    Answer("compare", answers.CompareAnswer),
    Answer("explain", answers.ExplainAnswer),
    Answer("acceptance", measured.AcceptanceAnswer),
    Answer("calibrate", measured.CalibrationAnswer),
    Answer("calibrate --plan", measured.PlanAnswer),
    Answer("validate", validate.ValidateAnswer),
    Answer("profiles list", library.ListingAnswer),
    Answer("profiles show", library.ProfileAnswer),
    Answer("profiles check", library.CheckAnswer),
)


def answer_schema(answer: Answer) -> Json:
    """The JSON Schema of one answer: exact keys, in the order of the answer."""
    records = (answer.record, *(library.SUMMARIES if answer.record in LIBRARY else ()))
    (root, *_), definitions = msgspec.json.schema_components(records, schema_hook=_stand_in)
    described = _documented()
    types = {name: value for module in MODULES for name, value in vars(module).items()}
    for name, definition in definitions.items():
        _finish(definition, list(get_type_hints(types.get(name, common.Resolved))), described.get(name, {}))
    inputs = [name for name in definitions if name not in types]  # made of `Resolved`: msgspec's names say nothing
    wrapped = {DEFINITIONS + name: definitions.pop(name) for name in inputs}
    for definition in definitions.values():
        for field in definition["properties"].values():
            if field.get("$ref") in wrapped:
                field |= wrapped[field.pop("$ref")] | {key: field[key] for key in ("description",) if key in field}
    if answer.record is library.ProfileAnswer:
        for summary in library.SUMMARIES:
            part = copy.deepcopy(definitions.pop(summary.__name__))
            definitions[summary.__name__ + PARTIAL] = {key: item for key, item in part.items() if key != "required"}
    _order_alternatives(definitions)
    return {
        "$schema": DIALECT,
        "title": answer.schema,
        "description": f"{definitions[answer.record.__name__].pop('description')} {PROMISE}",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


@functools.cache
def _documented() -> dict[str, dict[str, str]]:
    """Class -> field, inherited ones too -> the text under it."""
    found: dict[str, dict[str, str]] = {}
    for module in MODULES:
        own = documentation(module)
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = {}
                for base in node.bases:
                    found[node.name] |= found.get(ast.unparse(base), {})
                found[node.name] |= own[node.name]
    return found


def render_answers(*, width: int | None = None, colour: bool = False) -> str:
    """Which answers there are: the name to ask for, what stands in them, what writes them."""
    columns = [
        Column("name", lambda a: a["name"], numeric=False),
        Column("schema", lambda a: a["schema"], numeric=False),
        Column("written by, with --format json", lambda a: f"specdec {a['command']}", numeric=False),
    ]
    rows = [{"name": one.name, "schema": one.schema, "command": one.command} for one in ANSWERS]
    page = Page(width, colour)
    page.table(grid_of(columns, rows, lambda row: False))
    return page.text


LIBRARY = (library.ListingAnswer, library.ProfileAnswer)


def _order_alternatives(node: Any) -> None:
    """Alternatives in one order, null last: releases of msgspec differ in it."""
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _order_alternatives(below)
    if isinstance(node, dict) and "anyOf" in node:
        node["anyOf"].sort(key=lambda one: (one.get("type") == "null", str(one)))


def _finish(definition: Json, order: list[str], documented: dict[str, str]) -> None:
    """Exact keys, in the order of the answer, with what stands under each."""
    definition.pop("title", None)
    given = definition["properties"]
    definition["properties"] = {
        key: given[key] | ({"description": documented[key]} if key in documented else {}) for key in order
    }
    definition["required"] = [key for key in order if key in definition.get("required", ())]
    definition["additionalProperties"] = False


def _stand_in(kind: Any) -> Json:
    """The alternatives of records that are told apart by their `kind`."""
    ending = {library.Summary: "", library.Computed: PARTIAL}.get(kind)
    if ending is None:
        raise NotImplementedError
    return {"anyOf": [{"$ref": f"{DEFINITIONS}{one.__name__}{ending}"} for one in library.SUMMARIES]}
