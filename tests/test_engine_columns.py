"""Blocks of log taken together say what their lines say one by one, however they are written and wherever they are cut.

The line-by-line readers are the oracle: with the columns switched off the same file must give the same runs.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import astuple, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.engines.read import sglang_log, vllm_log
from specdec_cli.engines.read import source as read_source
from specdec_cli.engines.read.columns import Lines, found, named, numbers_in
from specdec_cli.engines.read.runs import read_runs
from specdec_cli.engines.read.vllm_lines import LOAD, USUAL_LOAD
from specdec_cli.profiles.measured_run import RunFile

REQUEST = '(APIServer pid=7) INFO:     127.0.0.1:50000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
PREFILL = (
    "[2026-09-20 11:00:01{rank} TP0] Prefill batch. #new-seq: 1, #new-token: 600, #cached-token: 200, #queue-req: 0, \n"
)


def vllm_pair(chance: random.Random, lead: str, engine: str = "Engine 000", length: int = 3) -> list[str]:
    """A throughput line and a speculation line, now and then idle, queued, busy with prompts or at odds with itself."""
    n = chance.randint(500, 4000)
    accepted = [round(n * chance.uniform(0.6, 0.85) ** (place + 1)) for place in range(length)]
    total = sum(accepted)
    running, generated = chance.choice([0, 1, 8, 8, 32]), chance.choice([0.0, chance.uniform(100, 4000)])
    rates = ", ".join(f"{one / n:.3f}" for one in accepted)
    al = 1 + total / n + chance.choice([0] * 9 + [0.05])
    load = (
        f"{lead} {engine}: Avg prompt throughput: {chance.choice([0.0, 5.5, 900.0]):.1f} tokens/s, Avg generation "
        f"throughput: {generated:.1f} tokens/s, Running: {running} reqs, Waiting: {chance.choice([0, 0, 3])} reqs, "
        f"GPU KV cache usage: {chance.uniform(0, 90):.1f}%, Prefix cache hit rate: {chance.uniform(0, 20):.1f}%\n"
    )
    spec = (
        f"{lead} SpecDecoding metrics: Mean acceptance length: {al:.2f}, Accepted throughput: {total / 10:.2f} "
        f"tokens/s, Drafted throughput: {n * length / 10:.2f} tokens/s, Accepted: {total} tokens, Drafted: "
        f"{n * length} tokens, Per-position acceptance rate: {rates}, Avg Draft acceptance rate: 60.0%\n"
    )
    return [load, spec]


def older(pair: list[str]) -> list[str]:
    """As 0.9 wrote the second line."""
    head, _, rest = pair[1].partition("Mean acceptance length: ")
    al, figures = rest.split(",")[0], rest[rest.index("Accepted: ") : rest.index(", Avg Draft")]
    return [pair[0], f"{head}Draft acceptance rate: 60.0%, Mean acceptance length: {al}, {figures}\n"]


def sglang_line(
    chance: random.Random, rank: str = "", *, rate: bool = True, graph: str = "True", speed: str = ""
) -> str:
    requests, al = chance.choice([1, 8, 8, 7]), chance.uniform(2.2, 3.4)
    said = speed or f"{chance.uniform(100, 900):.2f}"
    return (
        f"[2026-09-20 11:00:02{rank} TP0] Decode batch. #running-req: {requests}, #token: {requests * 1100}, token "
        f"usage: 0.03, accept len: {al:.2f}, {f'accept rate: {al / 4:.2f}, ' if rate else ''}cuda graph: {graph}, "
        f"gen throughput (token/s): {said}, #queue-req: 0, \n"
    )


Writer = Callable[[random.Random], list[str]]


def workers(chance: random.Random) -> list[str]:
    """Four processes whose lines cross."""
    pairs = [vllm_pair(chance, f"(APIServer pid={1 + place}) INFO 09-01") for place in range(4)]
    crossed = [[line for pair in pairs for line in pair], [p[0] for p in pairs] + [p[1] for p in pairs]]
    return chance.choice(crossed)


PLAIN, PID = "INFO 09-01 10:00:20 [loggers.py:1]", "(APIServer pid=47) INFO 09-01 10:00:20 [loggers.py:1]"
VLLM: dict[str, Writer] = {
    "metrics alone": lambda chance: vllm_pair(chance, PID),
    "no prefix": lambda chance: vllm_pair(chance, PLAIN),
    "colours": lambda chance: vllm_pair(chance, f"\x1b[36m(APIServer pid=47)\x1b[0m \x1b[32mINFO\x1b[0m {PLAIN}"),
    "CRLF": lambda chance: [line.replace("\n", "\r\n") for line in vllm_pair(chance, PID)],
    "0.9": lambda chance: older(vllm_pair(chance, PLAIN)),
    "requests between": lambda chance: [*vllm_pair(chance, PID), *[REQUEST] * chance.choice([0, 1, 60])],
    "draft lengths": lambda chance: vllm_pair(chance, PID, length=chance.choice([1, 3, 5])),
    "engines": lambda chance: [line for place in range(4) for line in vllm_pair(chance, PLAIN, f"Engine 00{place}")],
    "engines added up": lambda chance: vllm_pair(chance, PID, "4 Engines Aggregated"),
    "off": lambda chance: vllm_pair(chance, PID)[:1],
    "workers that cross": workers,
    "speculation without its load": lambda chance: vllm_pair(chance, PID)[chance.choice([0, 1]) :],
    "a container's JSON": lambda chance: [
        f'{{"log":"{line.strip()}\\n","stream":"stdout"}}\n' for line in vllm_pair(chance, PID)
    ],
    "now and then strange": lambda chance: [
        line if chance.random() < 0.95 else chance.choice([line[:-40] + "\n", line.replace("0.", "0.0.", 1), line[30:]])
        for line in vllm_pair(chance, PID)
    ],
}
SGLANG: dict[str, Writer] = {
    "decode lines alone": lambda chance: [sglang_line(chance)],
    "no rate": lambda chance: [sglang_line(chance, rate=False)],
    "prompts between": lambda chance: [*([PREFILL.format(rank="")] * chance.choice([0, 0, 1, 2])), sglang_line(chance)],
    "ranks": lambda chance: [
        line
        for rank in (" DP0", " DP1", " DP2")
        for line in ([PREFILL.format(rank=rank)] * chance.choice([0, 1]) + [sglang_line(chance, rank)])
    ],
    "graphs on and off": lambda chance: [sglang_line(chance, graph=chance.choice(["True", "False"]))],
    "other fields": lambda chance: [
        sglang_line(chance).replace("#token:", "#full token: 5000, full token usage: 0.1, #swa token:")
    ],
    "now and then plain": lambda chance: [
        line if chance.random() < 0.8 else line.replace("accept len", "len") for line in [sglang_line(chance)]
    ],
    "now and then strange": lambda chance: [
        sglang_line(chance, speed=chance.choice(["0.00"] + ["880.00"] * 9)),
        *chance.choice([[REQUEST], [], ["#token\n"]]),
    ],
}
CASES = [(vllm_log, name, write) for name, write in VLLM.items()] + [
    (sglang_log, name, write) for name, write in SGLANG.items()
]


def close(found: Any, wanted: Any) -> bool:
    """The same, floats but for the order in which they were added up."""
    if is_dataclass(found) and not isinstance(found, type):
        return close(astuple(found), astuple(wanted))
    if isinstance(found, tuple | list):
        return len(found) == len(wanted) and all(map(close, found, wanted))
    if isinstance(found, float):
        return found == pytest.approx(wanted, rel=1e-11)
    return bool(found == wanted)


def line_by_line(path: Path, reader: Any, monkeypatch: pytest.MonkeyPatch) -> list[RunFile]:
    with monkeypatch.context() as patched:
        patched.setattr(reader, "fold_usual", lambda *_: None)
        patched.setattr(reader, "fold_both", lambda *_: None, raising=False)
        return read_runs([path])


@pytest.mark.parametrize(("reader", "name", "write"), CASES, ids=[f"{r.FORMAT}: {n}" for r, n, _ in CASES])
def test_blocks_say_what_their_lines_say(
    reader: Any, name: str, write: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(name)
    path = tmp_path / "server.log"
    text = "".join(line for _ in range(150) for line in write(chance))
    path.write_bytes((text[:-20] if "strange" in name else text).encode())
    wanted = line_by_line(path, reader, monkeypatch)
    assert wanted[0].runs
    for size in (400, 3000, 1 << 20):
        monkeypatch.setattr(read_source, "BLOCK_BYTES", size)
        monkeypatch.setattr(reader, "UNUSUAL_BYTES", 1000)
        found_now = read_runs([path])
        assert close(found_now, wanted), size


def test_the_columns_are_what_reads_an_ordinary_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would compare a reader with itself."""
    chance = random.Random(1)
    for reader, lines, slow in (
        (vllm_log, vllm_pair(chance, PID) * 20, "_take"),
        (sglang_log, [PREFILL.format(rank=""), sglang_line(chance)] * 20, "_decode"),
    ):
        path = tmp_path / f"{reader.FORMAT}.log"
        path.write_text("".join(lines))
        monkeypatch.setattr(reader, slow, lambda *_: pytest.fail("a usual line was read by itself"))
        assert read_runs([path])[0].runs


def test_prompts_between_decode_lines_cost_no_more_than_their_bytes(tmp_path: Path) -> None:
    """A search from each prompt on to the next would look at a block again and again: 100 times as long."""
    chance = random.Random(2)
    seconds = []
    for name, lines in (
        ("decode", [sglang_line(chance)] * 2),
        ("both", [PREFILL.format(rank=""), sglang_line(chance)]),
    ):
        path = tmp_path / f"{name}.log"
        path.write_text("".join(lines) * 8000)
        tries = []
        for _ in range(3):
            start = time.process_time()
            read_runs([path])
            tries.append(time.process_time() - start)
        seconds.append(min(tries))
    assert seconds[1] < 5 * seconds[0], seconds


# ----------------------------------------------------------------------------------------------- the parts


@given(st.lists(st.from_regex(rb"[0-9]{1,8}(\.[0-9]{0,6})?", fullmatch=True), min_size=1, max_size=40))
def test_numbers_are_those_of_float(texts: list[bytes]) -> None:
    assert numbers_in([b"a: %s reqs," % text for text in texts], 1)[:, 0].tolist() == [float(text) for text in texts]


@pytest.mark.parametrize("text", [b"1.2.3", b".", b"1 2", b"", b"9" * 16, b"0." + b"1" * 16, b".5"])
def test_what_is_no_number_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="number"):
        numbers_in([b"7", text], 1)


def test_no_texts_hold_no_numbers() -> None:
    assert numbers_in([], 3).shape == (0, 3)


def test_places_of_a_pattern_and_their_lines() -> None:
    """Dense and sparse markers go different ways to the same places."""
    line = vllm_pair(random.Random(3), PID)[0]
    for between in ("", REQUEST * 40):
        block = (line + between).encode() * 3
        places, texts = found(block, LOAD, (USUAL_LOAD,)) or ([], [])
        assert [block[at : at + len(LOAD)] for at in places] == [LOAD] * 3
        assert len(texts) == 3
        assert Lines(block).of(np.array(places)).tolist() == [0, 1 + between.count("\n"), 2 * (1 + between.count("\n"))]
    assert found(block.replace(b"reqs", b"requests", 1), LOAD, (USUAL_LOAD,)) is None


def test_names_of_many_writers() -> None:
    """More of them than are looked for together, some lines without one, the name not always at the same place."""
    leads = [f"{'x' * (place % 3)}(W pid={place % 11}) 12:00 " if place % 5 else "12:00 " for place in range(200)]
    block = "\n".join(lead + "M" for lead in leads).encode()
    ends = np.array([at for at, code in enumerate(block) if code == ord("M")])
    names, which = named(block, Lines(block).begins(ends), ends, b"pid=", re.compile(rb"(pid=\d+)\)"))
    assert [names[at].decode() for at in which] == [f"pid={place % 11}" if place % 5 else "" for place in range(200)]
