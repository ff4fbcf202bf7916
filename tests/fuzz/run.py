"""Coverage-guided fuzzing of everything that reads what others wrote: a value or a SpecdecError, never anything else.

`pip install -e '.[fuzz]'`, then `python tests/fuzz/run.py --seconds 60 --reader engine-file`; without --reader each
in turn. Seeds come from the test data and the shipped profiles. What breaks a reader is kept (--keep, a folder), and
belongs into a small ordinary test. One input may take `SECONDS_AN_INPUT` and the process `MEMORY_MB`; both count the
instrumented code, which runs 3 to 10 times slower.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
ENGINE_FILES = REPO / "tests" / "data" / "engine_files"
README_FILES = REPO / "tests" / "data" / "readme"
SECONDS_AN_INPUT, MEMORY_MB, LONGEST_INPUT = 10, 700, 1 << 15
SEED_BYTES = 24_000  # larger profiles are slow to mutate and hold nothing that smaller ones lack
WORDS = 250

AXIS_SEEDS = ("1..256:x2", "1,2,4", "0..64:8", "1k,8k", "-3..4", "1=1.91,3=2.83", "1..300:x10,7", "0.7", "8 ..9")
OPTIONS: tuple[tuple[str, Callable[[str], Any]], ...] = (
    *((name, str) for name in ("batches", "draft_lengths", "tp", "acceptance_length", "hardware", "model", "drafter")),
    *((name, str) for name in ("engine", "weight_dtype", "kv_dtype", "acceptance", "assume_acceptance")),
    *((name, int) for name in ("gpus", "ep", "context", "input_tokens", "output_tokens")),
    ("acceptance_rate", float),
)

Target = Callable[[bytes], None]


def engine_file(path: Path, form: str | None) -> None:
    """What `specdec acceptance FILE` does, all formats of the answer included."""
    from specdec_cli.engines.read.runs import read_runs
    from specdec_cli.explore.acceptance_report import report_acceptance
    from specdec_cli.report.acceptance import acceptance_record, render_acceptance

    record = acceptance_record(report_acceptance(read_runs([path], forced=form)), inputs={})
    for style in ("table", "json", "csv", "markdown"):
        render_acceptance(record, style)


def table(path: Path) -> None:
    """What `specdec calibrate` does with a table of the user's own."""
    from specdec_cli.engines.read.plain_table import is_plain_table, read_plain_table
    from specdec_cli.engines.read.source import Source

    source = Source(path)
    try:
        is_plain_table(source.head)
        read_plain_table(source)
    finally:
        source.close()


def gguf(path: Path) -> None:
    """What `profiles import --llama-bench FILE` reads."""
    from specdec_cli.engines.read.gguf_width import bits_per_weight

    bits_per_weight(path)


def profile(path: Path, kind: str) -> None:
    """What `profiles check FILE` does, then what every command does with the profile."""
    from specdec_cli.profiles.load import check_file, load_file

    if not check_file(path, kind):
        load_file(path, kind)


def config(path: Path) -> None:
    """What `profiles import CONFIG` does, as a model and as a draft head."""
    from specdec_cli.errors import SpecdecError
    from specdec_cli.profiles.on_the_fly import import_drafter, import_model

    with contextlib.suppress(SpecdecError):
        import_model(path, lambda name: None)
    import_drafter(path, "llama-3.1-8b")


def axes(text: str) -> None:
    """The small languages of options."""
    from specdec_cli.errors import SpecdecError
    from specdec_cli.explore.acceptance_source import parse_acceptance_lengths
    from specdec_cli.explore.axes import parse_axis, parse_contexts

    for read in (
        lambda: parse_axis(text, "--batches", minimum=1),
        lambda: parse_axis(text, "--draft-lengths", minimum=0),
        lambda: parse_contexts(text, "--contexts"),
        lambda: parse_acceptance_lengths(text),
    ):
        with contextlib.suppress(SpecdecError):
            read()


def options(text: str, library: Any) -> None:
    """What a sweep asks: each line of the text is the value of an option, its first letter says of which."""
    from specdec_cli.explore.question import Options
    from specdec_cli.explore.scenario import resolve

    given: dict[str, Any] = {}
    for line in text.splitlines()[:4]:
        if line:
            name, kind = OPTIONS[ord(line[0]) % len(OPTIONS)]
            with contextlib.suppress(ValueError, OverflowError):  # the command line's own parser refuses those
                given[name] = kind(line[1:])
    resolve(library, Options(**given))


def readers() -> dict[str, tuple[str, Callable[[Path], None] | Callable[[str], None], list[bytes]]]:
    """Reader -> (the file's name, or `text`; what reads it; seeds)."""
    from specdec_cli.engines.read.detect import FORMATS
    from specdec_cli.engines.read.runs import read_runs
    from specdec_cli.profiles.kinds import KIND_FOLDERS
    from specdec_cli.profiles.library import Library

    library = Library()
    files = sorted(ENGINE_FILES.iterdir())
    by_format: dict[str, list[bytes]] = {form: [] for form in FORMATS}
    for path in files:
        by_format[read_runs([path])[0].format].append(path.read_bytes())
    every = [path.read_bytes() for path in files]
    found: dict[str, tuple[str, Callable[[Path], None] | Callable[[str], None], list[bytes]]] = {
        "engine-file": ("a.log", lambda path: engine_file(path, None), every),
        "table": ("runs.csv", table, [(README_FILES / "runs.csv").read_bytes(), b"tokens,pass_ms\n1,9.1\n4,9.4\n"]),
        "gguf": ("bench", gguf, [path.read_bytes() for path in files if path.name.startswith("llama_bench")]),
        "config": ("config.json", config, [(README_FILES / "config.json").read_bytes()]),
        "axes": ("text", axes, [text.encode() for text in AXIS_SEEDS]),
        "options": (
            "text",
            lambda text: options(text, library),
            [f"{chr(at + 60)}{text}".encode() for at, text in enumerate(AXIS_SEEDS)],
        ),
    }
    for form, seeds in by_format.items():
        found[form] = ("a.log", lambda path, form=form: engine_file(path, form), seeds)
    for kind, folder in KIND_FOLDERS.items():
        texts = [path.read_bytes() for path in sorted((REPO / "profiles" / folder).rglob("*.yaml"))]
        small = sorted((text for text in texts if len(text) < SEED_BYTES), key=len)
        found[kind] = ("a.yaml", lambda path, kind=kind: profile(path, kind), small[:: max(1, len(small) // 30)])
    return found


def dictionary(seeds: list[bytes]) -> str:
    """The words of the seeds, so that mutation can put one in another's place."""
    words = Counter(word for seed in seeds for word in re.findall(rb"[A-Za-z_][\w:./-]{2,40}[=:]?", seed))
    extra = [b"null", b"NaN", b"Infinity", b"1e400", b"-1", b"99999999999999999999", b"\\x00", b"[[[[[[[[", b'{"a":']
    quoted = [word.decode().replace('"', '\\"') for word in [*extra, *(w for w, _ in words.most_common(WORDS))]]
    return "".join(f'"{word}"\n' for word in quoted)


def fuzz(reader: str, seconds: int, keep: Path) -> None:
    """Does not return: libFuzzer ends the process, with 0 where nothing was found."""
    import atheris

    with atheris.instrument_imports(include=["specdec_cli"]):
        _fuzz(reader, seconds, keep)


def _fuzz(reader: str, seconds: int, keep: Path) -> None:
    import atheris

    from specdec_cli.errors import SpecdecError

    known = readers()
    if reader not in known:
        sys.exit(f"--reader {reader} is not one of {', '.join(known)}")
    name, read, seeds = known[reader]
    folder = keep.resolve() / "corpus" / reader  # what a run learnt, the next begins with
    (folder / "seeds").mkdir(parents=True, exist_ok=True)
    (folder / "words").write_text(dictionary(seeds), encoding="utf-8")
    for number, seed in enumerate(seeds):
        (folder / "seeds" / str(number)).write_bytes(seed)
    path = folder / name

    def one(data: bytes) -> None:
        given: object = data.decode("utf-8", errors="replace")
        if name != "text":
            path.write_bytes(data)
            given = path
        with contextlib.suppress(SpecdecError):
            read(given)  # type: ignore[arg-type]

    limits = {
        "max_total_time": seconds,
        "timeout": SECONDS_AN_INPUT,
        "rss_limit_mb": MEMORY_MB,
        "max_len": LONGEST_INPUT,
        "artifact_prefix": f"{keep}/{reader}-",
        "dict": folder / "words",
        "print_final_stats": 1,
    }
    said = [sys.argv[0], *(f"-{key}={value}" for key, value in limits.items()), str(folder / "seeds")]
    atheris.Setup(said, one)
    atheris.Fuzz()


def main() -> int:
    """The worst exit code of the readers asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reader", help="Default: each in turn, in a process of its own.")
    parser.add_argument("--seconds", type=int, default=60, help="For each reader. Default: 60.")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-findings"), help="Folder of what broke a reader, and of the corpora."
    )
    asked = parser.parse_args()
    if asked.reader is not None:
        fuzz(asked.reader, asked.seconds, asked.keep)
    same = ["--seconds", str(asked.seconds), "--keep", str(asked.keep)]
    return max(subprocess.run([sys.executable, __file__, "--reader", one, *same]).returncode for one in readers())


if __name__ == "__main__":
    sys.exit(main())
