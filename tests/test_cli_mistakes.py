"""Mistakes on the command line: exit codes, and errors that say what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import put, toy_acceptance, toy_hardware, write_yaml
from cli_runs import Runner, refused

COMMANDS = ("sweep", "recommend")


USAGE_MISTAKES = {
    "empty axis": (["--batches", ""], ["--batches names no values"]),
    "empty part of an axis": (["--batches", "1,,2"], ["--batches names no values"]),
    "axis that runs backwards": (["--draft-lengths", "5..2"], ["--draft-lengths", "backwards"]),
    "axis of words": (["--batches", "many"], ["--batches", "1..256:x2"]),
    "negative batch": (["--batches", "-1"], ["--batches must be at least 1, got -1"]),
    "zero batch": (["--batches", "0,1"], ["--batches must be at least 1, got 0"]),
    "negative draft length": (["--draft-lengths", "-2..3"], ["--draft-lengths must be at least 0"]),
    "grid of too many points": (["--batches", "1..9000000"], ["9,000,000 points", "5,000,000", "1..256:x2"]),
    "AL above 1 + D": (["--acceptance-length", "1=2.5"], ["--acceptance-length", "D = 1", "between 1 and 2", "2.5"]),
    "AL below 1": (["--acceptance-length", "2=0.9"], ["between 1 and 3", "0.9"]),
    "AL of another form": (["--acceptance-length", "3"], ["cannot read '3'", "1=1.91"]),
    "AL given twice": (["--acceptance-length", "1=1.5,1=1.6"], ["draft length 1 twice"]),
    "rate above 1": (["--acceptance-rate", "1.2"], ["--acceptance-rate", "between 0 and 1"]),
    "rate that is no number": (["--acceptance-rate", "nan"], ["--acceptance-rate", "between 0 and 1"]),
    "two acceptances": (
        ["--acceptance-rate", "0.7", "--acceptance-length", "1=1.5"],
        ["--acceptance-rate and --acceptance-length conflict"],
    ),
    "acceptance without a drafter": (["--drafter", "none", "--acceptance-rate", "0.7"], ["--drafter none"]),
    "no context": (["--context", "0"], ["--context must be at least 1"]),
    "context past the model's": (["--context", "9000"], ["--context 9000", "8192"]),
    "no GPUs": (["--gpus", "0"], ["--gpus must be at least 1"]),
    "ranks that do not divide": (["--tp", "2", "--gpus", "3"], ["tp", "3"]),
    "experts that do not divide": (["--gpus", "4", "--ep", "3"], ["ep", "3"]),
    "more GPUs than the link joins": (["--gpus", "8"], ["4"]),
    "unknown dtype": (["--weight-dtype", "bf61"], ["--weight-dtype 'bf61'", "bf16"]),
    "unknown KV dtype": (["--kv-dtype", "fp88"], ["--kv-dtype 'fp88'", "fp8"]),
    "unknown format": (["--format", "jason"], ["--format 'jason'", "did you mean json?"]),
    "option with a typo": (["--draft-length", "3"], ["no such option: --draft-length", "--draft-lengths"]),
    "text for a number": (["--gpus", "two"], ["--gpus", "two"]),
    "argument too many": (["extra"], ["extra"]),
    "empty name in a list": (["--tp", "1,"], ["--tp"]),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("arguments", "fragments"), USAGE_MISTAKES.values(), ids=USAGE_MISTAKES)
def test_wrong_usage_is_exit_2(specdec: Runner, command: str, arguments: list[str], fragments: list[str]) -> None:
    refused(specdec(command, *arguments), 2, *fragments)


RECOMMEND_MISTAKES = {
    "negative batch": (["--batch", "-4"], ["--batch must be at least 1, got -4"]),
    "interactivity of nothing": (["--min-interactivity", "0"], ["--min-interactivity must be above 0"]),
    "infinite throughput": (["--min-throughput", "inf"], ["--min-throughput"]),
    "negative TPOT": (["--max-tpot-ms", "-1"], ["--max-tpot-ms must be above 0"]),
    "tie of 1": (["--batch", "1", "--tie", "1"], ["--tie is a fraction"]),
    "gain that is no number": (["--batch", "1", "--min-gain", "nan"], ["--min-gain is a fraction"]),
    "unknown engine to emit": (["--emit", "vlm"], ["--emit 'vlm'", "vllm"]),
    "emit and format": (["--emit", "vllm", "--format", "json"], ["--emit and --format conflict"]),
    "schedule over a list": (["--tp", "1,2"], ["schedule", "--batch"]),
}


@pytest.mark.parametrize(("arguments", "fragments"), RECOMMEND_MISTAKES.values(), ids=RECOMMEND_MISTAKES)
def test_wrong_usage_of_recommend(specdec: Runner, arguments: list[str], fragments: list[str]) -> None:
    refused(specdec("recommend", *arguments), 2, *fragments)


@pytest.mark.parametrize(
    ("option", "name", "near"),
    [
        ("hardware", "toy-chop", "toy-chip"),
        ("model", "toy-modle", "toy-model"),
        ("engine", "toy-engin", "toy-engine"),
        ("drafter", "toy-model-eagel3", "toy-model-eagle3"),
        ("acceptance", "toy-model-eagle3-chta", "toy-model-eagle3-chat"),
    ],
)
def test_unknown_profile_names_the_nearest(specdec: Runner, option: str, name: str, near: str) -> None:
    refused(specdec("sweep", **{option: name}), 3, option, f"`{name}`", near)


def test_missing_file(specdec: Runner, tmp_path: Path) -> None:
    refused(specdec("sweep", hardware=str(tmp_path / "nowhere.yaml")), 3, "nowhere.yaml")


def test_missing_profiles_folder(specdec: Runner, tmp_path: Path) -> None:
    refused(specdec("sweep", profiles=str(tmp_path / "nowhere")), 3, "--profiles", "nowhere")


def test_wrong_key_in_a_profile(specdec: Runner, tmp_path: Path) -> None:
    data = put(toy_hardware("my-chip"), "memory_gbb", 80.0)
    file = write_yaml(tmp_path / "my-chip.yaml", data)
    line = file.read_text().splitlines().index("memory_gbb: 80.0") + 1
    refused(specdec("sweep", hardware=str(file)), 3, f"my-chip.yaml:{line}", "memory_gbb", "memory_gb")


def test_wrong_type_in_a_profile(specdec: Runner, tmp_path: Path) -> None:
    file = write_yaml(tmp_path / "my-chip.yaml", put(toy_hardware("my-chip"), "memory_gb", "eighty"))
    refused(specdec("sweep", hardware=str(file)), 3, "my-chip.yaml", "memory_gb", "eighty")


def test_acceptance_above_the_draft_length_in_a_profile(specdec: Runner, tmp_path: Path) -> None:
    data = put(toy_acceptance("mine"), "points[0].acceptance_length", 2.5)
    file = write_yaml(tmp_path / "mine.yaml", data)
    refused(specdec("sweep", acceptance=str(file)), 3, "mine.yaml", "acceptance_length", "2.5")


def test_nothing_fits(specdec: Runner) -> None:
    # 10 GB hold 0.33 GB of weights and fewer than 1000 requests of 10 kB x 8192 tokens
    refused(specdec("sweep", "--batches", "100000", "--context", "8192"), 4, "no feasible point", "GB usable")


def test_no_point_satisfies_the_limits(specdec: Runner) -> None:
    refused(specdec("recommend", "--min-interactivity", "1e9"), 4, "no feasible point", "the fastest reaches")


def test_unknown_command(specdec: Runner) -> None:
    refused(specdec.raw("swep"), 2, "no such command: swep", "did you mean sweep?")


def test_commands_are_listed_where_none_is_near(specdec: Runner) -> None:
    refused(specdec.raw("zzz"), 2, "commands: sweep, recommend")


def test_no_command_prints_the_help_on_stderr(specdec: Runner) -> None:
    answer = specdec.raw()
    assert answer.code == 2
    assert "Commands:" in answer.err


def test_internal_error_is_one_line_and_debug_shows_where(specdec: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr("specdec_cli.explore.sweep.run_sweep", fail)
    answer = specdec("sweep")
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.strip().splitlines() == [
        "error: internal error, ZeroDivisionError: a fault of ours; --debug shows where"
    ]
    assert "Traceback" in specdec("sweep", "--debug").err
    assert "Traceback" in specdec.raw("--debug", "sweep", "--profiles", str(specdec.folder)).err


def test_debug_shows_where_a_users_mistake_was_found(specdec: Runner) -> None:
    answer = specdec("sweep", "--debug", "--batches", "0")
    assert answer.code == 2
    assert "Traceback" in answer.err


def test_interrupt_is_130(specdec: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("specdec_cli.explore.sweep.run_sweep", interrupt)
    answer = specdec("sweep", output=str(tmp_path / "x.json"))
    assert answer.code == 130
    assert answer.err.strip() == "interrupted"
    assert list(tmp_path.iterdir()) == []
