"""Every answer fits its schema, and its table, CSV and markdown, parsed back, say what its JSON says."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cli_runs import Runner
from contract_runs import FROZEN, GOLDEN, MATRIX, arguments
from golden import complaints

from specdec_cli.report.acceptance import render_acceptance
from specdec_cli.report.calibration import render_calibration, render_plan
from specdec_cli.report.compare import render_compare
from specdec_cli.report.explain_page import render_explain
from specdec_cli.report.profile_pages import render_listing
from specdec_cli.report.render import render_recommend, render_sweep
from specdec_cli.report.validate import render_validate

Data = dict[str, Any]
Row = dict[str, str]

RENDER: dict[str, Callable[[Data, str], str]] = {
    "sweep": render_sweep,
    "recommend": render_recommend,
    "compare": render_compare,
    "explain": render_explain,
    "acceptance": render_acceptance,
    "calibration": render_calibration,
    "calibration_plan": render_plan,
    "validate": render_validate,
    "profiles": render_listing,
}
STYLES = ("table", "csv", "markdown")
EXITS = {0, 3, 5}
"""Of runs that give an answer: `profiles check` and `validate` may find what they look for."""
QUICK = {
    **FROZEN,
    "calibration": MATRIX["calibrate: a curve"],
    "profiles": "profiles list golden --kind hardware --profiles profiles",
}


@pytest.fixture
def specdec(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    """Commands where the frozen library and files lie."""
    monkeypatch.chdir(GOLDEN)
    return Runner(GOLDEN / "profiles", capsys)


@pytest.mark.parametrize("name", RENDER)
def test_json_alone_gives_every_other_format(name: str, specdec: Runner) -> None:
    """No format knows what the JSON does not hold."""
    whole = specdec.raw(*arguments(QUICK[name])).data
    for style in STYLES:
        assert specdec.raw(*arguments(QUICK[name], style)).out == RENDER[name](whole, style)


# -------------------------------------------------------------------------------------------------- parsed back


def csv_rows(text: str) -> list[Row]:
    return list(csv.DictReader(io.StringIO(text)))


def markdown_tables(text: str) -> list[list[list[str]]]:
    """Cells of every table, its headers first, escapes taken back."""
    tables: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("| "):
            cells = re.split(r"(?<!\\) \| ", line[2:-2])
            tables[-1].append([re.sub(r"\\(.)", r"\1", cell).strip() for cell in cells])
        elif tables[-1]:
            tables.append([])
    return [[table[0], *table[2:]] for table in tables if table]


def squeezed(text: str) -> str:
    return "".join(text.split())


def same_cells(text: str, markdown: str) -> None:
    """The terminal's tables hold the rows of markdown's, in their order, each whole and below its headers."""
    lines = [squeezed(line) for line in text.splitlines()]
    at = 0
    for headers, *rows in markdown_tables(markdown):
        at = lines.index(squeezed("".join(headers)), at) + 2  # below the headers stands a rule
        for row in rows:
            assert lines[at] == squeezed("".join(row))
            at += 1


def test_parsers_read_what_they_should() -> None:
    assert csv_rows("a,b\n1,\n") == [{"a": "1", "b": ""}]
    assert markdown_tables("x\n| a | b\\|c |\n| --- | ---: |\n| 1 | 2 |\n\ny\n") == [[["a", "b|c"], ["1", "2"]]]
    same_cells("x\na   b c\n-------\n1     2\ny", "| a | b c |\n| --- | --- |\n| 1 | 2 |")
    with pytest.raises(AssertionError):
        same_cells("a   b c\n-------\n1     3", "| a | b c |\n| --- | --- |\n| 1 | 2 |")


# ------------------------------------------------------------------------------------------------------- values


def in_csv(value: Any) -> str:
    """A JSON value as CSV has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, str):
        return f"'{value}" if value[:1] in tuple("=+-@") else value  # else a spreadsheet computes it
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


LISTS: dict[str, Callable[[Data], list[Data]]] = {
    "sweep": lambda whole: whole["points"],
    "compare": lambda whole: whole["rows"],
    "acceptance": lambda whole: whole["curve"],
    "calibration": lambda whole: whole["rows"],
    "calibration_plan": lambda whole: whole["runs"],
    "validate": lambda whole: whole["points"],
    "profiles": lambda whole: whole["profiles"],
    "recommend": lambda whole: (
        [{"role": "choice", **whole["choice"]}, *({"role": "alternative", **one} for one in whole["alternatives"])]
        if whole["choice"]
        else whole["schedule"]
    ),
    "explain": lambda whole: [
        {"pass": one["pass"], "group": "engine", **part}
        for one in whole["passes"]
        for part in (*one["operations"], *one["overheads"])
    ],
}
"""Schema -> the records of an answer that are rows of its CSV."""
NOT_IN_CSV = {"per_position_interval", "speculate", "formula", "numbers", "what"}
"""Lists of lists, sentences, and what another column says."""

SHOWN = {
    "batch": "batch",
    "batch (concurrency)": "batch",
    "rank": "rank",
    "hardware": "hardware",
    "tp": "tp",
    "gpus": "gpus",
    "drafter": "drafter",
    "mechanism": "mechanism",
    "D": "draft_length",
    "best D": "draft_length",
    "verified": "verify_width",
    "AL": "acceptance_length",
    "tokens/s/user": "interactivity_tokens_per_s_per_user",
    "tokens/s/GPU": "throughput_tokens_per_s_per_gpu",
    "speedup": "speedup",
    "decode speedup": "speedup",
    "target ms": "target_ms",
    "verify ms": "verify_ms",
    "draft ms": "draft_ms",
    "decode batch": "decode_batch",
    "serving TPOT ms": "serving_tpot_ms",
    "serving tokens/s/GPU": "serving_throughput_tokens_per_s_per_gpu",
    "serving speedup": "serving_speedup",
    "USD/M tokens": "cost_usd_per_million_tokens",
    "bound": "bound",
    "frontier": "on_frontier",
    "band": ("speedup_low", "speedup_high"),
    "GB a GPU": "draft_memory_gb_per_gpu",
    "KV tokens lost": "kv_tokens_lost",
    "the post's view": "post_view",
    "batch from": "batch_from",
    "to": "batch_to",
    "context tokens": "context_tokens",
    "measured ms": "step_ms",
    "profiles ms": "prior_ms",
    "calibrated ms": "fitted_ms",
}
"""Header of a table -> the key of the record that its cells are of; several for a range."""


def says(cell: str, value: Any) -> bool:
    """Whether a cell is this value at the precision that it shows."""
    if isinstance(value, bool):
        return cell == ("*" if value else "")
    if value is None:
        return cell == "-"
    if isinstance(value, str):
        return cell == value
    said = re.fullmatch(r"(-?[\d,]+)(\.\d+)?(?:x|[ ~!?^]*)(?: \(off\))?", cell)
    assert said is not None, f"{cell!r} is no number"
    digits = len(said[2] or ".") - 1
    return abs(float((said[1] + (said[2] or "")).replace(",", "")) - value) <= 0.5000001 * 10.0**-digits


def check_table(table: list[list[str]], records: Sequence[Data]) -> None:
    """Every cell of a table is the value of its record."""
    headers = table[0]
    assert set(headers) <= set(SHOWN), f"no key is known for {set(headers) - set(SHOWN)}"
    assert len(table) - 1 >= len(records)
    for row, record in zip(table[1:], records, strict=False):
        for header, cell in zip(headers, row, strict=True):
            keys = SHOWN[header]
            if isinstance(keys, tuple):
                assert [says(part, record[key]) for part, key in zip(cell.split("-"), keys, strict=True)] == [True] * 2
            else:
                key = f"serving_{keys}" if header == "USD/M tokens" and "serving_tpot_ms" in record else keys
                assert says(cell, record[key]), f"{header} says {cell!r}, {key} is {record[key]!r}"


UPLIFT = (
    *("interactivity_tokens_per_s_per_user", "throughput_without_tokens_per_s_per_gpu"),
    *("throughput_with_tokens_per_s_per_gpu", "uplift", "users_per_gpu_without", "users_per_gpu_with"),
)


@pytest.mark.parametrize("name", MATRIX)
def test_an_answer_fits_its_schema_and_its_formats_agree(name: str, specdec: Runner) -> None:
    found = specdec.raw(*arguments(MATRIX[name]))
    assert found.code in EXITS, found.err
    assert complaints(found.data) == []
    schema = found.data["schema"].removeprefix("specdec.").partition("/")[0]
    if schema in RENDER:
        check_formats(schema, found.data)


def check_formats(schema: str, whole: Data) -> None:
    """What CSV, table and markdown show of an answer is what stands in it."""
    text, comma, markdown = (RENDER[schema](whole, style) for style in STYLES)
    records = LISTS[schema](whole)
    rows = csv_rows(comma)
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        assert row == {key: in_csv(record.get(key)) for key in row}
        assert record.keys() - row.keys() <= NOT_IN_CSV
    if schema != "calibration_plan":
        same_cells(text, markdown)
    tables = markdown_tables(markdown)
    if schema in ("sweep", "compare"):
        check_table(tables[0], records)
    if schema == "sweep":
        assert len(tables) == 1 + bool(whole["uplift"])
        for row, record in zip(tables[1][1:] if whole["uplift"] else [], whole["uplift"], strict=True):
            for cell, key in zip(row, UPLIFT, strict=True):
                assert says(cell, record[key]), (cell, key)
        counted = sum(int(count) for count in re.findall(r"^- (\d+) [a-z' ]+, from batch", markdown, re.MULTILINE))
        assert counted == len(whole["infeasible"])
    if schema == "recommend":
        check_table(tables[0], whole["schedule"])
        if whole["choice"] is not None:
            check_facts(whole, text)
            check_facts(whole, markdown)


def check_facts(whole: Data, page: str) -> None:
    """The facts of a choice are the values of its record."""
    choice, split = whole["choice"], whole["split"]
    for word, value in (
        (r"tokens/s/user:? +", choice["interactivity_tokens_per_s_per_user"]),
        (r"tokens/s/GPU:? +", choice["throughput_tokens_per_s_per_gpu"]),
        (r"AL:? +", choice["acceptance_length"]),
        (r"step:? +", split["step_ms"]),
        ("target ", split["target_ms"]),
        ("verifying adds ", split["verify_adds_ms"]),
        ("drafting ", split["draft_ms"]),
    ):
        (said, *_) = re.findall(rf"^(?:- |  )(?:step.*?)?{word}(-?[\d,.]+\d|\d)(?![\d.])", page, re.MULTILINE)
        assert says(said, float(value)), f"{word} says {said}, the record {value}"
