"""Whatever a file holds, reading it ends in runs or in an error that names the file: never in a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import REPO

from specdec_cli.engines.read.runs import read_runs
from specdec_cli.errors import SpecdecError
from specdec_cli.explore.acceptance_report import report_acceptance
from specdec_cli.report.acceptance import acceptance_record, render_acceptance

FILES = sorted((REPO / "tests" / "data" / "engine_files").iterdir())
JSON = [path for path in FILES if path.suffix in (".json", ".jsonl")]
STRANGE: list[Any] = [None, 0, -1, 1e-320, 1e308, 10**400, "", "12", "x", True, [], [None], {}, {"average": -1}]


def survives(path: Path) -> None:
    """Read, judge and print it, or refuse it."""
    with suppress(SpecdecError):
        report = report_acceptance(read_runs([path]))
        record = acceptance_record(report, inputs={})
        for style in ("table", "json", "csv", "markdown"):
            assert render_acceptance(record, style)


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything in it."""
    keys = data.keys() if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in list(keys):
        yield data, key
        yield from places(data[key])


@pytest.mark.parametrize("source", JSON, ids=lambda path: path.name)
def test_any_value_of_any_key_may_be_strange(source: Path, tmp_path: Path) -> None:
    random.seed(1)
    text = source.read_text("utf-8")
    lines = text.splitlines() if source.suffix == ".jsonl" else [text]
    path = tmp_path / "strange.json"
    whole = [json.loads(line) for line in lines]
    count = sum(1 for _ in places(whole))
    for index in range(count):
        for value in random.sample(STRANGE, 3):
            data = json.loads(json.dumps(whole))
            container, key = next(place for at, place in enumerate(places(data)) if at == index)
            container[key] = value
            path.write_text("".join(json.dumps(one) + "\n" for one in data), "utf-8")
            survives(path)


@pytest.mark.parametrize("source", FILES, ids=lambda path: path.name)
def test_any_byte_may_be_another(source: Path, tmp_path: Path) -> None:
    random.seed(2)
    whole = source.read_bytes()
    path = tmp_path / source.name
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(random.randint(1, 5)):
            at = random.randrange(len(data))
            data[at : at + random.randint(0, 3)] = random.choice(
                [b"9", b"-", b"{", b"}", b"\n", b",", b"nan", b"", b"\xff"]
            )
        path.write_bytes(data)
        survives(path)
