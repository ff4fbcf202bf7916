"""`specdec acceptance`: what a person and a script see, the profile it writes, exit codes, large files."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders import toy_drafter, toy_model, write_library
from cli_runs import Answer, Runner
from conftest import REPO

from specdec_cli.cli import progress as cli_progress
from specdec_cli.engines.read import json_objects as read_json
from specdec_cli.engines.read import source as read_source
from specdec_cli.engines.read.runs import read_runs
from specdec_cli.profiles.load import load_file

FILES = REPO / "tests" / "data" / "engine_files"


def ask(specdec: Runner, *arguments: str | Path) -> Answer:
    return specdec.raw("acceptance", "--profiles", str(specdec.folder), *map(str, arguments))


def refused(answer: Answer, code: int, *fragments: str) -> None:
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    for fragment in fragments:
        assert fragment in answer.err


def test_the_table_echoes_the_formula_and_where_figures_come_from(specdec: Runner) -> None:
    answer = ask(specdec, FILES / "vllm_current.log")
    assert answer.code == 0
    assert "2.171" in answer.out  # (3500 + 130) / 3100 accepted, and the bonus token
    assert "0.685 0.485" in answer.out
    assert "AL = 1 + accepted tokens / target iterations (bonus token included)" in answer.out
    assert "vllm_current.log:3-8" in answer.out
    assert "idle windows, 1 (first at line 11)" in answer.out
    assert "warning [prefill_heavy]" in answer.err
    assert "note [idle_windows]" in answer.err


def test_the_record(specdec: Runner) -> None:
    answer = ask(specdec, FILES / "vllm_0_9.log", "--format", "json")
    data = answer.data
    assert data["schema"] == "specdec.acceptance/1"
    (point,) = data["curve"]
    assert point["acceptance_length"] == pytest.approx(2.2)
    assert point["acceptance_length_low"] < 2.2 < point["acceptance_length_high"]
    assert point["per_position"] == pytest.approx([0.7, 0.5])
    assert point["conditional"] == pytest.approx([0.7, 0.5 / 0.7])
    assert (point["draft_length"], point["iterations"], point["windows"], point["batches"]) == (2, 1000, 1, [4.0])
    (run,) = data["runs"]
    assert run["step_ms"] == pytest.approx(10.0)
    assert data["inputs"]["files"]["origin"] == "option"
    assert data["inputs"]["draft_length"] == {"value": None, "origin": "default"}
    assert set(data) == {
        *("schema", "specdec_version", "inputs", "confidence", "files", "curve", "runs", "skipped", "formula"),
        *("profile", "warnings"),
    }


def test_csv_and_markdown(specdec: Runner) -> None:
    head, row = ask(specdec, FILES / "vllm_0_9.log", "--format", "csv").out.splitlines()
    cells = dict(zip(head.split(","), row.split(","), strict=True))
    assert (cells["draft_length"], cells["per_position"]) == ("2", "0.7 0.5")
    answer = ask(specdec, FILES / "sglang_2025.log", "--format", "markdown")
    assert "| ? | 2.200 |" in answer.out
    assert "draft\\_length\\_unknown" in answer.out


@pytest.mark.parametrize("style", ["table", "json", "csv", "markdown"])
@pytest.mark.parametrize("name", sorted(path.name for path in FILES.iterdir()))
def test_every_file_in_every_format(specdec: Runner, name: str, style: str) -> None:
    answer = ask(specdec, FILES / name, "--format", style)
    assert answer.code == 0, answer.err
    assert answer.out
    if style == "json":
        assert answer.data["files"][0]["bytes"] == (FILES / name).stat().st_size


def test_the_profile_is_one_that_every_command_takes(specdec: Runner, tmp_path: Path) -> None:
    out = tmp_path / "own-run.yaml"
    arguments = ["--target", "Toy/Model-165M", "--drafter", "eagle3", "--data-set", "our chats", "-o", str(out)]
    answer = ask(specdec, FILES / "vllm_0_9.log", *arguments)
    assert answer.code == 0, answer.err
    assert f"--acceptance {out}" in answer.out
    record = load_file(out, "acceptance").record
    assert (record.target, record.drafter, record.data_set) == ("toy-model", "toy-model-eagle3", "our chats")
    sweep = specdec("sweep", "--batches", "4", "--draft-lengths", "2", "--format", "json", acceptance=str(out))
    assert sweep.code == 0, sweep.err
    (point,) = sweep.data["points"]
    assert (point["acceptance_length"], point["acceptance_basis"]) == (2.2, "measured")


def test_an_existing_profile_is_kept_unless_forced(specdec: Runner, tmp_path: Path) -> None:
    out = tmp_path / "own-run.yaml"
    out.write_text("mine", "utf-8")
    arguments = [FILES / "vllm_0_9.log", "--target", "toy-model", "--drafter", "toy-model-eagle3", "-o", out]
    refused(ask(specdec, *arguments), 2, "exists; --force replaces it")
    assert out.read_text("utf-8") == "mine"
    assert ask(specdec, *arguments, "--force").code == 0
    assert load_file(out, "acceptance").record.points[0].acceptance_length == 2.2


def test_nothing_is_left_behind_by_a_failure(specdec: Runner, tmp_path: Path) -> None:
    out = tmp_path / "own-run.yaml"
    answer = ask(
        specdec, FILES / "sglang_2025.log", "--target", "toy-model", "--drafter", "toy-model-eagle3", "-o", out
    )
    refused(answer, 3, "no profile can be written", "--draft-length N")
    assert list(tmp_path.iterdir()) == []
    answer = ask(
        *(specdec, FILES / "sglang_2025.log", "--target", "toy-model", "--drafter", "toy-model-eagle3"),
        *("--draft-length", "2", "-o", out),
    )
    assert answer.code == 0
    assert "note [draft_length_given]" in answer.err


def test_the_target_is_taken_from_the_files_where_they_name_it(specdec: Runner, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text((FILES / "vllm_serve.json").read_text("utf-8").replace("acme/tiny-1b", "Toy/Model-165M"), "utf-8")
    answer = ask(specdec, path, "--drafter", "toy-model-eagle3", "-o", tmp_path / "own.yaml")
    assert answer.code == 0, answer.err
    assert "note [target_from_file]: Toy/Model-165M" in answer.err


def test_the_drafters_window_is_held_against_the_context(specdec: Runner, tmp_path: Path) -> None:
    # 127.5 tokens of context in the file.
    for window, said in ((100, True), (200, False)):
        folder = tmp_path / str(window)
        write_library(folder, toy_model(), toy_drafter(window_tokens=window, default=True))
        answer = specdec.raw(
            *("acceptance", "--profiles", str(folder), str(FILES / "vllm_serve.json")),
            *("--target", "toy-model", "--drafter", "toy-model-eagle3"),
        )
        assert answer.code == 0, answer.err
        assert ("warning [beyond_draft_window]" in answer.err) is said, answer.err


MISTAKES = {
    "no file": ([], 2, ["FILE"]),
    "missing file": (["nowhere.log"], 3, ["nowhere.log", "no such file"]),
    "unknown format": ([FILES / "vllm_0_9.log", "--from", "vlm-log"], 2, ["did you mean vllm-log"]),
    "wrong format": ([FILES / "vllm_0_9.log", "--from", "guidellm"], 3, ["no JSON object can be read"]),
    "draft length of zero": ([FILES / "vllm_0_9.log", "--draft-length", "0"], 2, ["at least 1, got 0"]),
    "answer as a profile": ([FILES / "vllm_0_9.log", "-o", "x.json"], 2, ["ends in .yaml", "--format json > FILE"]),
    "profile without a drafter": (
        [FILES / "vllm_0_9.log", "--target", "toy-model", "-o", "x.yaml"],
        2,
        ["--output needs --drafter NAME"],
    ),
    "profile without a target": ([FILES / "vllm_0_9.log", "-o", "x.yaml"], 2, ["--output needs --target NAME"]),
    "unknown target": ([FILES / "vllm_0_9.log", "--target", "toy-modle"], 3, ["toy-model"]),
    "unknown workload": ([FILES / "golden.yaml", "--workload", "thinking"], 2, ["did you mean thinking_on"]),
    "unknown style": ([FILES / "golden.yaml", "--format", "xml"], 2, ["--format 'xml' is not known"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(specdec: Runner, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, code, words = MISTAKES[case]
    refused(ask(specdec, *arguments), code, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_list_gives_what_it_holds(specdec: Runner, tmp_path: Path) -> None:
    text = (FILES / "llama_bench.json").read_text("utf-8")
    path = tmp_path / "cut.json"
    path.write_text(text[: text.index('"n_depth": 4096')], "utf-8")
    answer = ask(specdec, path, "--format", "json")
    assert [run["label"] for run in answer.data["runs"]] == ["tg128", "pp1", "pp4"]
    assert answer.data["skipped"][0]["reason"] == "unreadable objects"
    assert "note [cut_short]" in answer.err


def test_a_profiles_name_may_not_steer_a_terminal(specdec: Runner, tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    path.write_text((FILES / "specforge.json").read_text("utf-8").replace("mtbench", "\\u001b[31mbench"), "utf-8")
    assert "\x1b" not in ask(specdec, path).out


# --------------------------------------------------------------------------------------------- large files


def big_log(path: Path, size: int) -> int:
    """A log as a busy server writes it: a window for every 200 requests. Returns how many windows."""
    window = (FILES / "vllm_0_9.log").read_text("utf-8")
    request = '(APIServer pid=77) INFO:     127.0.0.1:50000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    block = (window + request * 200) * 40
    count = max(1, size // len(block))
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            file.write(block)
    return 40 * count


def test_a_log_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "server.log"
    count = big_log(path, 2_000_000)
    (whole,) = read_runs([path])
    for size in (997, 65_536):
        monkeypatch.setattr(read_source, "BLOCK_BYTES", size)
        assert read_runs([path]) == [whole]
    assert whole.runs[0].windows is not None
    assert whole.runs[0].windows.count == count
    assert whole.runs[0].last_line == path.read_text("utf-8").count("\n") - 200


def test_a_marker_below_the_first_block_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_source, "BLOCK_BYTES", 4096)
    path = tmp_path / "server.log"
    path.write_text("INFO starting\n" * 2000 + (FILES / "vllm_0_9.log").read_text("utf-8"), "utf-8")
    (file,) = read_runs([path])
    assert (file.runs[0].first_line, file.size) == (2002, path.stat().st_size)


def test_a_pipe_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_source, "BLOCK_BYTES", 4096)
    reader, writer = os.pipe()
    code = "import sys; sys.stdout.write('INFO starting\\n' * 2000 + open(sys.argv[1]).read())"
    child = subprocess.Popen([sys.executable, "-c", code, str(FILES / "vllm_0_9.log")], stdout=writer)
    os.close(writer)
    try:
        (file,) = read_runs([f"/dev/fd/{reader}"])
    finally:
        os.close(reader)
        child.wait()
    assert file.runs[0].acceptance_length == pytest.approx(2.2)


def test_an_endless_line_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_source, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(read_source, "LONGEST_LINE", 10_000)
    text = (FILES / "vllm_0_9.log").read_text("utf-8")
    path = tmp_path / "server.log"
    path.write_text(f"{text}{'x' * 50_000}\n{text}", "utf-8")
    (file,) = read_runs([path])
    assert read_source.LONG_LINES in [one.reason for one in file.skipped]
    assert file.runs[0].iterations == 2000
    assert file.runs[0].last_line == 5  # two lines, the endless one, two lines
    spec = text.splitlines()[1]
    path.write_text(f"{text}{'x' * 50_000}{spec}{'x' * 50_000}{text}", "utf-8")
    (file,) = read_runs([path])
    # Nothing out of the middle or the end of it is read; the line after is, whose throughput line it swallowed.
    assert [(run.batch, run.iterations) for run in file.runs] == [(None, 1000), (4, 1000)]


def test_an_endless_object_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_source, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(read_json, "LONGEST_OBJECT", 10_000)
    first, *rest = (FILES / "vllm_response.jsonl").read_text("utf-8").splitlines()
    path = tmp_path / "answers.jsonl"
    path.write_text(
        "\n".join([first, *rest, first.replace("{", '{"text": "' + "x" * 50_000 + '", ', 1), *rest]), "utf-8"
    )
    (file,) = read_runs([path])
    assert (read_source.LONG_OBJECTS, 1) in [(one.reason, one.count) for one in file.skipped]


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """40 MB more of log take less than 8 MB more of memory, and 100 MB a core-second are in reach.

    The speed is stated with room for a slow or busy machine; tests/benchmarks measures it.
    """
    code = (
        "import resource, sys, time; from specdec_cli.engines.read.runs import read_runs\n"
        "start = time.process_time(); read_runs([sys.argv[1]]); taken = time.process_time() - start\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, taken)"
    )
    peaks, speeds = [], []
    for size in (20_000_000, 60_000_000):
        path = tmp_path / f"{size}.log"
        big_log(path, size)
        run = subprocess.run([sys.executable, "-c", code, path], cwd=REPO, capture_output=True, text=True, check=True)
        peak, taken = run.stdout.split()
        peaks.append(int(peak) / (1 if sys.platform == "darwin" else 1024) / 1024)
        speeds.append(path.stat().st_size / float(taken) / 1e6)
    assert peaks[1] < peaks[0] + 8, peaks
    assert max(speeds) > 50, speeds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_on_a_terminal_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = Terminal(), iter([0.0, 0.5, 2.0, 2.1, 3.0])
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(cli_progress.time, "monotonic", lambda: next(clock))
    bar = cli_progress.ReadingProgress()
    bar(50_000_000, 400_000_000)  # half a second in: nothing yet
    assert terminal.getvalue() == ""
    bar(200_000_000, 400_000_000)
    assert "[############............]  50 % of 400 MB, 200 MB, 100 MB/s" in terminal.getvalue()
    shown = terminal.getvalue()
    bar(210_000_000, 400_000_000)  # 0.1 s later: not yet again
    assert terminal.getvalue() == shown
    bar(300_000_000, 0)
    assert "300 MB, 100 MB/s" in terminal.getvalue()
    bar.done()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_progress_is_silent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = io.StringIO()
    monkeypatch.setattr(sys, "stderr", quiet)
    bar = cli_progress.ReadingProgress()
    bar(1, 2)
    bar.done()
    assert quiet.getvalue() == ""


def test_help_says_what_it_does(specdec: Runner) -> None:
    answer = specdec.raw("acceptance", "--help")
    assert "Nothing in them is run or fetched" in " ".join(answer.out.split())
    assert "specdec acceptance server.log --target llama-3.1-8b" in " ".join(answer.out.split())
