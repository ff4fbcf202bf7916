"""Files and streams that are not what they seem: an answer or a clear error, soon, and nothing half-written."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import REPO

from specdec_cli.cli import output
from specdec_cli.cli.app import run
from specdec_cli.engines.read import source
from specdec_cli.engines.read.runs import read_runs

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices of POSIX")
ENGINE_FILES = REPO / "tests" / "data" / "engine_files"
LOG = (ENGINE_FILES / "vllm_current.log").read_bytes()
AFTER = (ENGINE_FILES / "vllm_after.prom").read_bytes()
RUNS = (REPO / "tests" / "data" / "readme" / "runs.csv").read_bytes()
MIB = 1 << 20
IMPORT = ["profiles", "import", str(REPO / "tests" / "data" / "readme" / "config.json"), "--name", "mine"]


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """A hang fails here, not in an hour."""

    def late(number: int, frame: object) -> None:
        raise AssertionError(f"took over {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --------------------------------------------------------------------------------------------------- input

REFUSED: dict[str, tuple[bytes, str]] = {
    "compressed": (gzip.compress(LOG), "gzip-compressed"),
    "nothing": (b"", "the file is empty"),
    "blanks": (b" \t\r\n" * MIB, "the file is empty"),
    "zeros": (b"\x00" * MIB, "not a text file"),
    "UTF-16 without a mark": (LOG.decode().encode("utf-16-le"), "not a text file"),
    "bytes": (bytes(range(1, 256)) * 4096, "no format recognised"),
    "one line": (b"x" * (20 * MIB), "no format recognised"),
    "one line of commas": (b"SpecDecoding metrics: " + b"x," * (10 * MIB), "no window with running requests"),
    # Each of these once took minutes: the end of the line was looked for from every marker on it.
    "markers on one line": (b"eval time = draft acceptance " * 50_000, "no request can be read"),
    "decode batches on one line": (b"Decode batch " * 50_000, "no decode batch can be read"),
    "columns on one line": (b"|" + b" T_TG s " * 100_000, "no format recognised"),
    "deep lists": (b"[" * 200_000, "no JSON object can be read"),
    "deep objects": (b'{"a":' * 200_000, "no JSON object can be read"),
    "a text that never ends": (b'{"a": "' + b"\\" * MIB, "no JSON object can be read"),
    "digits": (b'{"per_step_accepted": [1' + b"0" * 100_000 + b"]}", "no JSON object can be read"),
    "no finite number": (b'{"per_step_accepted": [1e400, NaN, Infinity]}', "nothing measured in it"),
    # A list with an entry for each position was once made first.
    "a draft of 1e17 tokens": (b'{"per_step_accepted": [1e17]}', "draft length 1e+17: no engine drafts more"),
    "as many said": (b'{"acceptance_histogram": [1, 2], "num_spec_tokens": 1e17}', "no engine drafts more"),
    "YAML of many letters": (b"m:\n" + b"  1: 1.5\n" * 40_000, "expected a table of at most 256,000 letters"),
    "YAML that stands for more": (b"a: &a [1.5]\nb:\n  1: 1.5\n  c: [*a, *a]\n", "not readable as YAML"),
    "a count past any": (b"n_drafted = 5\nn_accept = " + b"9" * 5000 + b"\n", "n_accept are missing"),
}


@pytest.mark.parametrize("command", ["acceptance", "calibrate"])
@pytest.mark.parametrize("name", REFUSED)
def test_input_that_is_refused(name: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, words = REFUSED[name]
    file = tmp_path / "server.log"
    file.write_bytes(content)
    with within(10):
        assert run([command, str(file)]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert "server.log" in said.err
    assert words in said.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("UTF-16, as PowerShell writes it", b"\xff\xfe" + LOG.decode().encode("utf-16-le")),
        ("half a letter of UTF-16 at the end", b"\xff\xfe" + LOG.decode().encode("utf-16-le") + b"x"),
        ("UTF-8 with a mark", b"\xef\xbb\xbf" + LOG),
        ("a long line of commas among others", LOG + b"SpecDecoding metrics: " + b"," * MIB + b"\n"),
        ("a line over the longest", LOG + b"x" * (9 * MIB) + b"\n"),
    ],
)
def test_logs_that_read_as_the_plain_one(name: str, content: bytes, tmp_path: Path) -> None:
    plain, file = tmp_path / "plain.log", tmp_path / "strange.log"
    plain.write_bytes(LOG)
    file.write_bytes(content)
    found, expected = read_runs([file])[0].runs, read_runs([plain])[0].runs
    assert [run.acceptance_length for run in found] == [run.acceptance_length for run in expected]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("16,1,1.7\n", "3 cells under 5 columns"),
        ('"16,1,1.7,9,1500\n', "1 cells under 5 columns"),
        (f'16,1,1.7,"{"9" * 200_000}",1500\n', "1 cells under 5 columns"),
        ("16,1,1.7,nan,1500\n", "step_ms: expected above 0, found `nan`"),
        ("16,1,1.7,1e300,1500\n", "step_ms: expected at most 1e+18, found `1e300`"),
        ("16,1,1.7,9,1500\n" * 10_000, "10,003 runs, more than the 10,000 that one file"),
        ("16,1e15,1.7,9,1500\n", "draft length 1e+15: no engine drafts more"),
    ],
)
def test_rows_of_a_table_that_are_refused(
    rows: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.csv"
    file.write_bytes(RUNS + rows.encode())
    assert run(["calibrate", str(file)]) == 3
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16"])
def test_tables_as_spreadsheets_save_them(codec: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    file.write_bytes(RUNS.decode().replace("\n", "\r\n").encode(codec))
    assert [run.draft_length for run in read_runs([file], tables=True)[0].runs] == [0, 1, 4]


def test_files_keep_their_order(tmp_path: Path) -> None:
    """One --draft-length a file counts on it; scrapes and tables are read apart from the rest."""
    files = [ENGINE_FILES / "vllm_after.prom", tmp_path / "runs.csv", ENGINE_FILES / "vllm_current.log"]
    files[1].write_bytes(RUNS)
    assert [file.file for file in read_runs(files, tables=True)] == [str(file) for file in files]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e400", "9" * 400 + ".0"])
def test_a_scrape_without_a_number(value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The gauge is as if not there; the counters stand."""
    file = tmp_path / "after.prom"
    lines = AFTER.decode().splitlines()
    file.write_text(
        "".join(f"{line.rsplit(' ', 1)[0]} {value}\n" if "requests_running" in line else f"{line}\n" for line in lines)
    )
    assert run(["acceptance", str(file), "--format", "json"]) == 0
    run_ = json.loads(capsys.readouterr().out)["runs"][0]
    assert run_["batch"] is None
    assert run_["acceptance_length"] > 1


def test_memory_that_does_not_suffice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(text: str) -> None:
        raise MemoryError

    monkeypatch.setattr("specdec_cli.engines.read.json_objects._anywhere", never)
    file = tmp_path / "report.json"
    file.write_text('{"metadata": {},\n "benchmarks": []}')
    assert run(["acceptance", str(file)]) == 3
    assert "report.json: too large for the memory there is\n  hint: one object a line" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to(path.with_name("nowhere")), "no such file"),
    ],
    ids=["folder", "link to itself", "link to nothing"],
)
@pytest.mark.parametrize("command", ["acceptance", "calibrate"])
def test_what_is_no_file(
    command: str, make: Callable[[Path], None], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.log"
    make(path)
    assert run([command, str(path)]) == 3
    assert words in capsys.readouterr().err


@posix
@pytest.mark.parametrize("command", ["acceptance", "calibrate"])
def test_a_pipe_that_nobody_fills(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "PIPE_WAIT_S", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with within(10):
        assert run([command, str(pipe)]) == 3
    assert "pipe: a pipe into which no program has written for 0.1 s" in capsys.readouterr().err


@posix
@pytest.mark.parametrize(("content", "form"), [(LOG, "vllm-log"), (RUNS, "table")])
def test_a_pipe_is_read_once_and_whole(content: bytes, form: str, tmp_path: Path) -> None:
    """`calibrate <(...)`: looking whether it is a table once took the beginning away."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: (time.sleep(0.2), pipe.write_bytes(content)))
    writer.start()
    with within(10):
        (file,) = read_runs([pipe], tables=True)
    writer.join()
    assert file.format == form
    assert file.size == len(content)


@posix
def test_devices(capsys: pytest.CaptureFixture[str]) -> None:
    with within(10):
        assert [run(["acceptance", device]) for device in ("/dev/zero", "/dev/urandom", "/dev/null")] == [3, 3, 3]
    assert capsys.readouterr().err.count("error: /dev/") == 3


# -------------------------------------------------------------------------------------------------- output


def leftovers(folder: Path) -> list[str]:
    """What is in the folder."""
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("where", ["os.fsync", "os.link", "os.open"])
@pytest.mark.parametrize("raised", [KeyboardInterrupt, MemoryError, OSError(28, "No space left on device")])
def test_nothing_half_written(
    raised: BaseException | type[BaseException], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stops the writing, at whichever step: the file is not there, and nothing else is."""

    def stop(*given: object, **named: object) -> None:
        raise raised

    monkeypatch.setattr(where, stop)
    code = run([*IMPORT, "-o", str(tmp_path / "mine.yaml")])
    monkeypatch.undo()
    if where == "os.link" and isinstance(raised, OSError):  # a file system without links
        assert (code, leftovers(tmp_path)) == (0, ["mine.yaml"])
    else:
        assert (code, leftovers(tmp_path)) == ({KeyboardInterrupt: 130, MemoryError: 1}.get(raised, 2), [])  # type: ignore[call-overload]


@pytest.mark.parametrize("linked", [True, False])
def test_another_run_was_first(
    linked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both looked while the file was not there; the one that writes last does not take the other's answer away."""
    file = tmp_path / "mine.yaml"

    def other_run(handle: int) -> None:
        file.write_text("the other's")

    def no_links(*names: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("os.fsync", other_run)
    if not linked:
        monkeypatch.setattr("os.link", no_links)
    assert run([*IMPORT, "-o", str(file)]) == 2
    assert "exists, since a moment ago; --force replaces it" in capsys.readouterr().err
    assert file.read_text() == "the other's"
    assert leftovers(tmp_path) == ["mine.yaml"]
    assert run([*IMPORT, "-o", str(file), "--force"]) == 0
    assert file.read_text().startswith("format: 1\n")


def test_runs_that_write_one_file_at_once(tmp_path: Path) -> None:
    """Every reader sees one whole answer, and never a part."""
    file = tmp_path / "mine.yaml"
    texts = [f"{letter}\n" * 200_000 for letter in "abcd"]
    threads = [
        threading.Thread(target=lambda text=text: output.Destination(file, force=True).write(text)) for text in texts
    ]
    for thread in threads:
        thread.start()
    seen = set()
    while any(thread.is_alive() for thread in threads):
        if file.exists():
            seen.add(file.read_text())
    for thread in threads:
        thread.join()
    assert seen | {file.read_text()} <= set(texts)
    assert leftovers(tmp_path) == ["mine.yaml"]


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    file = tmp_path / f"{'n' * 250}.json"
    assert run(["recommend", "--batch", "1", "-o", str(file)]) == 0
    assert leftovers(tmp_path) == [file.name]


def test_a_link_to_nothing_stays_a_link(tmp_path: Path) -> None:
    link, target = tmp_path / "mine.yaml", tmp_path / "elsewhere.yaml"
    link.symlink_to(target)
    assert run([*IMPORT, "-o", str(link)]) == 0
    assert link.is_symlink()
    assert target.read_text().startswith("format: 1\n")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("loop", "Too many levels of symbolic links"),
        ("folder", "is a folder"),
        ("new/", "is a folder's name"),
        ("file/x.json", "Not a directory"),
        ("none/x.json", "does not exist; make it first"),
        ("a\0b", "embedded null"),
        (f"{'n' * 300}.json", "File name too long"),
    ],
)
def test_where_no_file_can_be(
    said: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").write_text("")
    Path("loop").symlink_to("loop")
    assert run(["recommend", "--batch", "1", "-o", said]) == 2
    assert words in capsys.readouterr().err
    assert leftovers(tmp_path) == ["file", "folder", "loop"]


@posix
def test_a_pipe_that_nobody_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PIPE_WAIT_S", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with within(10):
        assert run(["recommend", "--batch", "1", "-o", str(pipe)]) == 2
    assert "no program reads from this pipe" in capsys.readouterr().err


@posix
def test_a_pipe_takes_the_answer(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    assert run(["recommend", "--batch", "1", "-o", str(pipe), "--format", "json"]) == 0
    reader.join()
    assert json.loads(read[0])["schema"] == "specdec.recommend/1"


# --------------------------------------------------------------------------------- streams and signals, whole processes


def specdec(*arguments: str, **streams: int) -> subprocess.Popen[bytes]:
    """A run of its own."""
    return subprocess.Popen([sys.executable, "-m", "specdec_cli", *arguments], **streams)  # type: ignore[call-overload, no-any-return]


@posix
@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_that_nobody_reads(arguments: list[str]) -> None:
    """As an answer: the code that a shell gives a program that SIGPIPE ended, without a word."""
    reading, writing = os.pipe()
    os.close(reading)
    process = specdec(*arguments, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert process.communicate()[1] == b""
    assert process.returncode == 141


@posix
def test_full_streams() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    process = specdec("--version", stdout=full, stderr=subprocess.PIPE)
    assert process.communicate()[1] == b"error: stdout: No space left on device\n"
    assert process.returncode == 2
    process = specdec("sweep", "--hardware", "nothing", stdout=subprocess.PIPE, stderr=full)
    process.communicate()
    assert process.returncode == 3
    os.close(full)


@posix
@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, b"interrupted\n"), (signal.SIGTERM, 143, b"")]
)
def test_a_run_that_is_stopped(number: int, code: int, said: bytes, tmp_path: Path) -> None:
    """It waits for a log out of a pipe whose writer is silent, so the moment is always the same."""
    pipe, file = tmp_path / "pipe", tmp_path / "mine.yaml"
    os.mkfifo(pipe)
    names = ["--target", "llama-3.1-8b", "--drafter", "llama-3.1-8b-eagle3", "-o", str(file)]
    process = specdec("acceptance", str(pipe), *names, stderr=subprocess.PIPE)
    with within(60), pipe.open("wb"):
        time.sleep(0.2)
        process.send_signal(number)
        assert process.communicate()[1].strip() == said.strip()
    assert process.returncode == code
    assert leftovers(tmp_path) == ["pipe"]
