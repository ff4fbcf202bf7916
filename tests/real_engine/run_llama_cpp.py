"""Run llama.cpp's own server, in the Python package xllamacpp, with and without a draft model; keep what it writes.

For each draft length a process of its own: server-dD.log is the server's log as it stands, answers-dD.jsonl its
answers with their `timings`, metrics-dD.prom the scrape at the end. Every draft length gets the same prompts, decodes
greedily and ignores the end of text, so that the texts must agree. --passes times the target's own passes too, as
`llama-bench -p 1,2,4,...` would: new tokens behind a cached prompt, in passes.csv, which `specdec calibrate` takes.

Run by the engine's Python: python run_llama_cpp.py MODELS OUT --draft-lengths 0,1,8
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tiny_models import DRAFT, SPECIAL, TARGET, VOCABULARY

PROMPT = 32
"""Tokens of a prompt, at random; a begin token stands before them."""
CONTEXT = 1024
CACHED = 96
"""Tokens in the cache before a timed pass: about as many as a request has halfway."""
PASSES = 12
"""Times that each width is timed."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--draft-lengths", default="0,1,2,3,4,6,8")
    parser.add_argument("--requests", type=int, default=4, help="of each draft length, one after the other")
    parser.add_argument("--batch", type=int, default=1, help="requests at once; --requests then counts such groups")
    parser.add_argument("--tokens", type=int, default=192, help="made by each request")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--fifo", action="store_true", help="real-time priority: undisturbed by other programs; needs the right to it"
    )
    parser.add_argument("--passes", default="", help="widths of the target's passes to time, without drafts")
    parser.add_argument("--one", type=int, default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    if asked.one is not None:
        serve(asked, asked.one) if asked.one >= 0 else time_passes(asked)
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.passes:
        subprocess.run([sys.executable, *sys.argv, "--one", "-1"], stderr=subprocess.DEVNULL, check=True)
    for length in (int(part) for part in asked.draft_lengths.split(",")):
        with (asked.out / f"server-d{length}.log").open("wb") as log:
            subprocess.run([sys.executable, *sys.argv, "--one", str(length)], stderr=log, check=True)


def serve(asked: argparse.Namespace, draft_length: int) -> None:
    """One server, its requests, and what it says; the log goes to stderr."""
    server = started(asked, draft_length)
    chance = random.Random(1)
    with ThreadPoolExecutor(asked.batch) as pool:
        answers: list[dict[str, Any]] = []
        for _ in range(asked.requests):
            prompts = [[1, *(chance.randrange(SPECIAL, VOCABULARY) for _ in range(PROMPT))] for _ in range(asked.batch)]
            answers += pool.map(lambda prompt: ask(server, prompt, asked.tokens), prompts)
    lines = [json.dumps(answer) for answer in answers]
    (asked.out / f"answers-d{draft_length}.jsonl").write_text("\n".join(lines) + "\n")
    (asked.out / f"metrics-d{draft_length}.prom").write_text(str(server.handle_metrics()))


def started(asked: argparse.Namespace, draft_length: int) -> Any:
    """The server, in this process."""
    if asked.fifo:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))  # threads made later take it over
    import xllamacpp

    return xllamacpp.Server(parameters(xllamacpp, asked, draft_length))


def time_passes(asked: argparse.Namespace) -> None:
    """passes.csv: how long the target takes for so many tokens behind a cached prompt."""
    server = started(asked, 0)
    chance = random.Random(2)
    cached = [1, *(chance.randrange(SPECIAL, VOCABULARY) for _ in range(CACHED - 1))]
    rows = ["tokens,pass_ms,context"]
    for turn in range(1 + PASSES):  # the first fills the cache and warms up
        for width in (int(part) for part in asked.passes.split(",")):
            prompt = [*cached, *(chance.randrange(SPECIAL, VOCABULARY) for _ in range(width))]
            timings = ask(server, prompt, 1, cache=True)["timings"]
            if turn and timings["prompt_n"] == width:
                rows.append(f"{width},{timings['prompt_ms']:.4f},{CACHED}")
    (asked.out / "passes.csv").write_text("\n".join(rows) + "\n")


def ask(server: Any, prompt: list[int], tokens: int, cache: bool = False) -> dict[str, Any]:
    answer: dict[str, Any] = server.handle_completions(
        {"prompt": prompt, "max_tokens": tokens, "temperature": 0.0, "ignore_eos": True, "cache_prompt": cache}
    )
    return answer


def parameters(xllamacpp: Any, asked: argparse.Namespace, draft_length: int) -> Any:
    """As `llama-server -m ... -md ... --spec-type draft-simple --spec-draft-n-max D` would set them."""
    common = xllamacpp.CommonParams()
    common.model.path = str(asked.models / f"{TARGET.name}.gguf")
    common.n_ctx, common.n_parallel = CONTEXT * asked.batch, asked.batch
    common.cache_ram_mib = 0
    common.endpoint_metrics = True
    common.verbosity = 4
    common.cpuparams.n_threads = common.cpuparams_batch.n_threads = asked.threads
    if draft_length:
        common.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        draft = common.speculative.draft
        draft.mparams.path = str(asked.models / f"{DRAFT.name}.gguf")
        draft.n_max, draft.n_min, draft.p_min = draft_length, 0, 0.0
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = asked.threads
    return common


if __name__ == "__main__":
    main()
