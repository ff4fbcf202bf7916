"""Numbers in the files of engines that cannot be: past any count, not finite, zero where something is divided by it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from builders import toy_model, write_yaml
from test_engine_fuzz import FILES, survives

from specdec_cli.engines.read.gguf_width import bits_per_weight
from specdec_cli.engines.read.runs import read_runs
from specdec_cli.engines.read.vllm_lines import spec_line
from specdec_cli.errors import ProfileError
from specdec_cli.explore.acceptance_report import report_acceptance
from specdec_cli.profiles.library import Library
from specdec_cli.report.acceptance import acceptance_record

# 5000 digits: Python refuses the integer. 400: no float holds it. 17: a float, and a list of so many would fill memory.
STRANGE = (b"9" * 5000, b"9" * 400, b"9" * 17, b"nan", b"0", b"-1", b"1.2.3", b"0." + b"0" * 400 + b"1")


@pytest.mark.parametrize("source", FILES, ids=lambda path: path.name)
def test_any_number_may_be_another(source: Path, tmp_path: Path) -> None:
    whole = source.read_bytes()
    chance = random.Random(3)
    places = [match.span() for match in re.finditer(rb"\d+(?:\.\d+)?", whole)]
    path = tmp_path / source.name
    for begin, end in chance.sample(places, min(6, len(places))):
        for value in chance.sample(STRANGE, 4):
            path.write_bytes(whole[:begin] + value + whole[end:])
            survives(path)


def test_rates_with_a_unit_glued_to_them() -> None:
    """Found by fuzzing: a value that is clean for one key is one for every key."""
    line = (
        b"SpecDecoding metrics: Accepted: 3 tokens, Drafted: 4 tokens, Per-position acceptance rate: 0.5, 1 reqs, nan"
    )
    assert spec_line(line) == (None, 3.0, 4.0, [0.5, 1.0])


@pytest.mark.parametrize("size", ["0.00 GiB", "1.00 GiB"])
def test_a_model_of_nothing(size: str, tmp_path: Path) -> None:
    """Found by fuzzing: parameters printed as 0.00 were divided by."""
    file = tmp_path / "bench.md"
    file.write_text(f"| model | size | params |\n| --- | ---: | ---: |\n| x | {size} | 0.00 B |\n", "utf-8")
    with pytest.raises(ProfileError, match=r"expected a number above 0, found 0\.0"):
        bits_per_weight(file)


def test_a_mean_length_beside_nothing_accepted(tmp_path: Path) -> None:
    """llama.cpp: iterations = accepted / (mean - 1) would be none, and rates by position are of iterations."""
    file = tmp_path / "server.log"
    line = "draft acceptance = 0.0 ( 0 accepted / 40 generated), mean len = 1.50, #acc rate/pos = (0.0, 0.0, 0.0, 0.0)"
    file.write_text(f"{line}\nslot print_timing: id 0 | task 1 | \n", "utf-8")
    (run,) = read_runs([file], forced="llama-cpp-log")[0].runs
    assert (run.acceptance_length, run.iterations) == (1.0, 10.0)


@pytest.mark.parametrize("length", ["100000000000000000", "1e17", "4097"])
def test_a_draft_length_that_no_engine_has(length: str, tmp_path: Path) -> None:
    file = tmp_path / "serve.json"
    said = '{"duration": 1, "mean_itl_ms": 9, "mean_tpot_ms": 3, "num_speculative_tokens": %s}'
    file.write_text(said % length, "utf-8")
    with pytest.raises(ProfileError, match="no engine drafts more than 4096 tokens"):
        read_runs([file])


@pytest.mark.parametrize("first", ["101.0", "150.0", "-1.0"])
def test_counters_that_make_rates_past_one(first: str, tmp_path: Path) -> None:
    """Found by fuzzing: a scrape cut in the middle. 100 drafts, and of position 0 more accepted than drafted; or fewer
    than none, after a restart."""
    file = tmp_path / "after.prom"
    name = 'vllm:spec_decode_num_%s_total{engine="0"%s} %s\n'
    lines = [
        name % ("drafts", "", "100.0"),
        name % ("draft_tokens", "", "200.0"),
        name % ("accepted_tokens", "", first),
    ]
    lines += [name % ("accepted_tokens_per_pos", f',position="{at}"', said) for at, said in enumerate((first, "0.0"))]
    file.write_text("".join(lines), "utf-8")
    if first == "-1.0":
        with pytest.raises(ProfileError, match="below 1"):
            report_acceptance(read_runs([file]))
        return
    (point,) = acceptance_record(report_acceptance(read_runs([file])), inputs={})["curve"]
    assert point["per_position"] is None


def test_a_path_that_a_log_names_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model of a log is a name; a profile of that path is nobody's question."""
    monkeypatch.chdir(tmp_path)
    write_yaml(tmp_path / "toy-model.yaml", toy_model())
    library = Library()
    assert library.model("toy-model.yaml").record.name == "toy-model"
    for name in ("toy-model.yaml", "./toy-model.yaml", "~\0", "config.json", "a\0.yaml"):
        assert library.known_model(name) is None
        with pytest.raises(ProfileError):
            library.model(name, files=False)
