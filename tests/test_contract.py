"""Answers keep their published schemas, and the schemas and answers of a version stay as they were frozen."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_args

import jsonschema
import pytest
from cli_runs import Answer as Run
from cli_runs import Runner
from conftest import REPO
from contract_runs import CHAIN, FROZEN, GOLDEN, LOGS, MATRIX, TOY, arguments
from golden import (
    ANSWER,
    DIGESTS,
    SCHEMAS,
    SHAPE,
    VALIDATORS,
    breaks,
    complaints,
    differences,
    digests,
    frozen_answer,
    shape,
)

from specdec_cli.engines.settings import FAMILIES
from specdec_cli.profiles.kinds import KINDS
from specdec_cli.report.contract.answers import EngineSettings
from specdec_cli.report.contract.library import SUMMARIES, Kind
from specdec_cli.report.contract.schema import ANSWERS

Data = dict[str, Any]

RE_RECORD = "raise the number of the schema if readers could stumble over it, else: python tests/update_golden.py"


@pytest.fixture
def specdec(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    """Commands where the frozen library and files lie."""
    monkeypatch.chdir(GOLDEN)
    return Runner(GOLDEN / "profiles", capsys)


# ------------------------------------------------------------------------------------------ answers and schemas


def test_every_answer_is_among_the_runs() -> None:
    """A schema without a run would never be held against anything."""
    assert set(FROZEN) == {answer.name for answer in ANSWERS}
    for answer in ANSWERS:
        assert json.loads((ANSWER / f"{answer.name}.json").read_text("utf-8"))["schema"] == answer.schema


def test_every_schema_id_in_the_code_is_published() -> None:
    """Whoever adds an answer adds its type."""
    said = [
        found
        for file in (REPO / "specdec_cli").rglob("*.py")
        for found in re.findall(r'^[A-Z]+: Final = "(specdec\.\w+/\d+)"$', file.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(said) == sorted(SCHEMAS)


def shortened(value: Any) -> Any:
    """The answer with the first record alone of each list of records: the others are of the same type."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item) for item in (value[:1] if value and isinstance(value[0], dict) else value)]
    return value


MUTATED = [shortened(json.loads((ANSWER / f"{answer.name}.json").read_text("utf-8"))) for answer in ANSWERS]


def places(value: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every object and leaf of an answer; of a list its first entry."""
    if way and not isinstance(value, list):
        yield way
    below = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in below:
        yield from places(item, (*way, key))


OPEN = {
    "recommend": (
        *(f"engine_settings.{family}.{part}" for family in FAMILIES for part in ("data", "files")),
        "guidelines.0.numbers",
    ),
    "explain": ("passes.0.operations.0.numbers",),
    "profile": ("profile",),
    "profiles": ("not_listed",),
}
"""What an answer takes over in another's words: an engine's, a profile's, a formula's."""
OPTIONAL = re.compile(
    r"(cost_usd_per_million_tokens|inputs\.(acceptance|draft_lengths|batch)|weight_dtypes\.ffn|errors\.\w+|computed\.\w+)$"
)
"""Keys that an answer has where there is something to say."""


@pytest.mark.parametrize("whole", MUTATED, ids=[answer["schema"] for answer in MUTATED])
def test_a_key_dropped_a_key_more_and_a_wrong_type_are_refused(whole: Data) -> None:
    """At every place of the answer, but where it is open by intent."""
    name = whole["schema"].removeprefix("specdec.").partition("/")[0]
    open_places, validator = OPEN.get(name, ()), VALIDATORS[whole["schema"]]
    taken: list[str] = []
    for way in list(places(whole)):
        place = ".".join(str(step) for step in way)
        if any(place.startswith(f"{one}.") for one in open_places):
            continue
        for kind, mutant in mutants(whole, way):
            if kind == "dropped" and OPTIONAL.search(place):
                continue
            if kind == "more" and place in open_places:
                continue
            if validator.is_valid(mutant):
                taken.append(f"{kind}: {place}")
    assert taken == []


def mutants(whole: Data, way: tuple[str | int, ...]) -> Iterator[tuple[str, Data]]:
    """The answer with a value of another type there, with a key more there, without what stands there; then mended."""
    *above, last = way
    holder: Any = whole
    for step in above:
        holder = holder[step]
    value = holder[last]
    holder[last] = "true" if isinstance(value, bool) else [["neither"]]
    yield "type", whole
    if isinstance(value, dict):
        holder[last] = {**value, "surplus": 1}
        yield "more", whole
    holder[last] = value
    if isinstance(holder, dict):
        del holder[last]
        yield "dropped", whole
        holder[last] = value


NUMBERS_WITHOUT_UNIT = re.compile(
    r"(_ms|_us|_gb|_mb|_kb|tokens|_per_|flops|bytes|batch|draft_length|count|points|runs|rows|layers|minutes|speedup|"
    r"share|rho|ratio|error|acceptance_length|temperature|width|line|problems|sweeps|iterations|windows|setups|index)"
    r"|^(tp|gpus|ep|agree|of|rank|plateau|tokens)$"
)


def test_numbers_say_their_unit() -> None:
    """In the key, under the field, or, for errors in fractions, in the words of their record."""
    silent = [
        f"{schema} {name}.{key}"
        for schema, whole in SCHEMAS.items()
        for name, record in whole["$defs"].items()
        for key, field in record["properties"].items()
        if ('"number"' in json.dumps(field) or '"integer"' in json.dumps(field))
        and "description" not in field
        and "value" not in field.get("properties", {})
        and "fraction" not in record.get("description", "")
        and not NUMBERS_WITHOUT_UNIT.search(key)
    ]
    assert silent == []


def test_words_of_the_contract_are_those_of_the_code() -> None:
    assert set(get_args(Kind)) == set(KINDS)
    assert [one.__name__.removesuffix("Summary").casefold() for one in SUMMARIES] == list(KINDS)
    assert set(EngineSettings.__annotations__) == set(FAMILIES)


# ------------------------------------------------------------------------------------------------- the command


def test_schema_lists_and_prints(specdec: Runner) -> None:
    listed = specdec.raw("schema").out
    for answer in ANSWERS:
        assert re.search(rf"^{answer.name} +{answer.schema} +specdec {answer.command}$", listed, re.MULTILINE)
        for name in ([answer.name], [answer.schema], answer.command.split()):
            if "--plan" not in name:
                assert specdec.raw("schema", *name).data == SCHEMAS[answer.schema]


@pytest.mark.parametrize(
    ("said", "hint"),
    [("swep", "did you mean sweep?"), ("profiles lst", "did you mean profiles list"), ("x", "known: ")],
)
def test_a_name_that_is_not_there(said: str, hint: str, specdec: Runner) -> None:
    found: Run = specdec.raw("schema", *said.split())
    assert found.code == 2
    assert f"no such answer: {said}; {hint}" in found.err


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_published_schema_is_a_schema(schema: Data) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all(record["additionalProperties"] is False for record in schema["$defs"].values())


# -------------------------------------------------------------------------------------------------- the frozen


@pytest.mark.parametrize("name", FROZEN)
def test_an_answer_is_as_it_was_frozen(name: str) -> None:
    old, new = json.loads((ANSWER / f"{name}.json").read_text("utf-8")), json.loads(frozen_answer(name))
    assert list(differences(old, new))[:10] == [], RE_RECORD
    assert complaints(new) == []


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_a_shape_is_as_it_was_frozen(answer: Any) -> None:
    old = (SHAPE / f"{answer.name}.json").read_text("utf-8")
    broken = breaks(json.loads(old), json.loads(shape(answer))) if f'"{answer.schema}"' in old else []
    assert broken == [], "readers would stumble over that: raise the number of the schema"
    assert shape(answer) == old, RE_RECORD


def test_nobody_wrote_the_frozen_files_by_hand() -> None:
    assert digests() == json.loads(DIGESTS.read_text("utf-8")), RE_RECORD
    for folder in (ANSWER, SHAPE):
        assert {file.stem for file in folder.iterdir()} == {answer.name for answer in ANSWERS}


OLD = {
    "$ref": "#/$defs/A",
    "$defs": {
        "A": {
            "type": "object",
            "properties": {
                "n": {"type": "number"},
                "w": {"enum": ["a", "b"]},
                "list": {"type": "array", "items": {"$ref": "#/$defs/B"}},
            },
            "required": ["n", "w", "list"],
        },
        "B": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
}


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("A.properties.more", {"type": "string"}, []),
        ("A.properties.w", {"enum": ["a", "b", "c"]}, []),
        ("A.properties.n", {"type": "integer"}, []),
        ("A.properties.n", {"anyOf": [{"type": "number"}, {"type": "null"}]}, [".n may now be null"]),
        ("A.properties.w", {"enum": ["a"]}, [".w is never 'b' any more"]),
        ("A.required", ["n", "w"], [".list may now be absent"]),
        ("B.properties", {}, [".list[].x is gone"]),
        ("B.properties.x", {"type": "number"}, [".list[].x may now be number"]),
    ],
)
def test_what_breaks_a_reader(place: str, value: Any, said: list[str]) -> None:
    new = copy.deepcopy(OLD)
    *above, last = place.split(".")
    holder: Any = new["$defs"]
    for step in above:
        holder = holder[step]
    holder[last] = value
    assert breaks(OLD, new) == said


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ({"b": [1.0], "a": {"x": 1}}, "the answer has the keys ['b', 'a'], not ['a', 'b']"),
        ({"a": {"x": 1}, "b": [1.0, 2.0]}, ".b has 2 entries, not 1"),
        ({"a": {"x": 1.0}, "b": [1.0]}, ".a.x is 1.0, not 1"),
        ({"a": {"x": 1}, "b": [1.000001]}, ".b[0] is 1.000001, not 1.0"),
        ({"a": {"x": 1}, "b": [1.0 + 1e-9]}, None),
    ],
)
def test_what_differs_from_a_frozen_answer(new: Data, said: str | None) -> None:
    assert next(differences({"a": {"x": 1}, "b": [1.0]}, new), None) == said


# ------------------------------------------------------------------------------------------- inputs as resolved

BOTH = "golden-model-eagle3,golden-model-dflash"
INPUTS: dict[str, tuple[str, str, Any]] = {
    "several drafters name all their profiles": (
        f"sweep {TOY} --drafter {BOTH} --batches 1",
        "inputs.acceptance",
        {"value": ["golden-model-eagle3-chat", "golden-model-dflash-chat"], "origin": "default"},
    ),
    "one of them several times is one": (
        f"sweep {TOY} --drafter golden-model-eagle3 --tp 1,2 --batches 1",
        "inputs.acceptance",
        {"value": "golden-model-eagle3-chat", "origin": "default"},
    ),
    "the longest of their ranges": (  # the first was measured up to D = 4, the second up to 6
        f"sweep {TOY} --drafter {BOTH} --batches 1",
        "inputs.draft_lengths",
        {"value": "0..6", "origin": "default"},
    ),
    "each its own": (
        f"sweep {TOY} --drafter {BOTH} --batches 1",
        "scenarios.0.draft_lengths",
        [0, 1, 2, 3, 4],
    ),
    "what was vouched for": (
        f"recommend {CHAIN} --batch 1 --context 5000 --assume",
        "inputs.assume",
        {"value": True, "origin": "option"},
    ),
    "the setup of a plan": (
        f"calibrate --plan {CHAIN} --tp 2",
        "inputs.tp",
        {"value": [2], "origin": "option"},
    ),
    "the defaults of a plan": (
        f"calibrate --plan {CHAIN}",
        "inputs.context",
        {"value": 2048, "origin": "default"},
    ),
    "a switch that was not given": (
        f"calibrate {LOGS}/llama_bench.json {TOY} --drafter none",
        "inputs.cached_prompts",
        {"value": False, "origin": "default"},
    ),
}


@pytest.mark.parametrize(("command", "place", "value"), INPUTS.values(), ids=INPUTS)
def test_inputs_say_what_was_used(command: str, place: str, value: Any, specdec: Runner) -> None:
    found: Any = specdec.raw(*arguments(command)).data
    for step in place.split("."):
        found = found[int(step)] if step.isdigit() else found[step]
    assert found == value


def test_an_operations_numbers_are_plain(specdec: Runner) -> None:
    """llama.cpp's mat-vec kernels hand over to a tile kernel past 8 rows, whose figures stand beside theirs."""
    passes = specdec.raw(*arguments(MATRIX["explain: mat-vec and tile kernels"])).data["passes"]
    numbers = [one["numbers"] for one in passes[0]["operations"] if "tile_above_rows" in one["numbers"]]
    assert numbers
    assert {one["tile_above_rows"] for one in numbers} == {8}


def test_starting_up_does_not_load_the_contract() -> None:
    script = (
        "import sys; from specdec_cli.cli.app import run; "
        "code = run(['recommend', '--batch', '8', '--format', 'json']); "
        "sys.exit(code or any(name.startswith('specdec_cli.report.contract') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
