"""SGLang server logs: one `Decode batch` line every decode_log_interval steps.

Written by the scheduler's metrics (sglang/srt). `accept len` counts the bonus token. `accept rate` was
len / num_draft_tokens before 2026-04-23 and (len - 1) / (num_draft_tokens - 1) since: without the version it means
nothing, and it is never used. Step time = running * accept len / generation throughput.

Such a log is little else than these lines, so a block's lines are taken together (`sglang_columns`).
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from specdec_cli.engines.read.pool import run_from
from specdec_cli.engines.read.sglang_columns import (
    DECODE,
    DECODE_LOG_INTERVAL,
    PREFILL,
    PREFILL_LINE,
    RANK,
    State,
    fold,
    fold_both,
    fold_usual,
)
from specdec_cli.engines.read.source import LONG_LINES, Hit, Source, hits_in, pieces
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import Finding, MeasuredRun, RunFile

FORMAT = "sglang-log"
STEPS, SIMULATE = b"speculative_num_steps=", b"SIMULATE_ACC"

_FIELDS = tuple(
    re.compile(pattern)
    for pattern in (
        rb"#running-req: (\d{1,15})(?!\d)",
        rb"#(?:full )?token: (\d{1,15})(?!\d)",
        rb"accept len: (\d{1,15}(?:\.\d*)?(?!\d)|nan)",
        rb"cuda graph: (True|False)",
        rb"gen throughput \(token/s\): (\d{1,15}(?:\.\d*)?)(?!\d)",
    )
)
UNUSUAL_BYTES = 64 << 10
"""Of a block with an unusual line: what goes line by line with it."""


def read_sglang_log(source: Source) -> RunFile:
    """One run for each number of running requests.

    Raises ProfileError for a log whose only measure is the accept rate, an AL above D + 1, or no decode line.
    """
    state = State(source.name)
    line = 1
    for block in source.blocks():
        line += fold_both(state, block, line) or _mixed(state, block, line)
    if state.rate_only and not state.windows:
        raise ProfileError(
            "only an accept rate, whose meaning changed between SGLang versions",
            file=state.file,
            hint="use a log with `accept len`, which every version since 2025 prints and which counts the bonus token",
        )
    if not state.pools:
        raise ProfileError("no decode batch can be read", file=state.file)
    if source.longest_passed_over:
        state.tally.add(LONG_LINES, count=source.longest_passed_over)
    return RunFile(source.name, FORMAT, _runs(state), state.tally.skipped(), _findings(state), source.size)


def _server_args(state: State, block: bytes) -> None:
    """The draft length from the arguments that the server prints as it starts."""
    names = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens", "decode_log_interval")
    for name in names:
        found = re.search(name.encode() + rb"=(\d{1,9})\b", block)
        if found is not None:
            state.settings[name] = int(found.group(1))


def _mixed(state: State, block: bytes, line: int) -> int:
    """A block with other lines too. Returns how many it has."""
    if STEPS in block:
        _server_args(state, block)
    if state.forced is None and (at := block.find(SIMULATE)) >= 0:
        state.forced = line + block.count(b"\n", 0, at)
    if not (block.endswith(b"\n") and fold_usual(state, block, line)):
        _unusual(state, block, line)
    return block.count(b"\n")


def _unusual(state: State, block: bytes, line: int) -> None:
    """Line by line where it must be."""
    for piece in pieces(block, UNUSUAL_BYTES):
        if not (piece.endswith(b"\n") and fold_usual(state, piece, line)):
            for hit in hits_in(piece, (DECODE, PREFILL), line):
                _decode(state, hit) if hit.marker == 0 else _prefill(state, hit)
        line += piece.count(b"\n")


def _rank(hit: Hit) -> bytes:
    """The data-parallel rank in a line's prefix."""
    found = RANK.search(hit.lead)
    return found.group(1) if found is not None else b""


def _prefill(state: State, hit: Hit) -> None:
    found = PREFILL_LINE.match(hit.text)
    if found is not None and found[1] is not None:
        state.new_tokens += int(found.group(1))
        state.cached_tokens += int(found.group(2))
    state.prefilled.add(_rank(hit))


def _decode(state: State, hit: Hit) -> None:
    """A line of any order."""
    parts = [pattern.search(hit.text) for pattern in _FIELDS]
    running, tokens, accept, graph, speed = (b"" if part is None else part.group(1) for part in parts)
    if not running or not speed or (hit.cut and b"#queue-req" not in hit.text):
        state.tally.add("a last line cut short" if hit.cut else "unreadable lines", hit.line)
    elif b"accept rate" in hit.text and not accept:
        state.rate_only += 1
    elif accept == b"nan":
        state.tally.add("idle windows", hit.line)
    else:
        state.rate_ignored |= b"accept rate" in hit.text
        rank = _rank(hit)
        after = rank in state.prefilled
        state.prefilled.discard(rank)
        numbers = [np.array([float(value)]) for value in (running, tokens or 0, accept or 1, speed)]
        graphs = -1 if not graph else int(graph == b"True")
        facts = (np.array([bool(accept)]), np.array([graphs]), np.array([after]))
        fold(state, np.array([hit.line]), (numbers[0], numbers[1], numbers[2], numbers[3]), facts)


def _shape(state: State) -> tuple[int | None, int | None]:
    """Draft length, and verify width where it is a tree."""
    steps = state.settings.get("speculative_num_steps")
    topk, width = state.settings.get("speculative_eagle_topk"), state.settings.get("speculative_num_draft_tokens")
    if steps is None:
        return None, None
    return steps, width if topk is not None and topk > 1 else None


def _runs(state: State) -> tuple[MeasuredRun, ...]:
    length, width = _shape(state)
    prompts = state.new_tokens + state.cached_tokens
    runs = []
    for (batch, speculates), pool in sorted(state.pools.items()):
        run = run_from(
            pool,
            file=state.file,
            format=FORMAT,
            engine="sglang",
            batch=float(batch),
            draft_length=length if speculates else 0,
            verify_width=width if speculates else None,
            step_basis="running x accept len / generation throughput, intervals without prompts",
            cached_prompt_share=state.cached_tokens / prompts if prompts else None,
        )
        runs.append(run if speculates else replace(run, acceptance_length=1.0))
    return tuple(runs)


def _findings(state: State) -> tuple[Finding, ...]:
    said: list[tuple[str, str]] = []
    if state.forced is not None:
        message = f"line {state.forced} simulates acceptance: the AL is invented, only the step times are measured"
        said.append(("forced_acceptance", message))
    elif state.windows >= 10 and len(state.lengths) == 1 and state.lengths != {1.0}:
        message = f"all {state.windows} windows have the same AL: it looks forced, not measured"
        said.append(("forced_acceptance", message))
    if state.rate_ignored:
        said.append(("accept_rate_ignored", "accept len was used; accept rate means different things by version"))
    if state.rate_only:
        said.append(("accept_rate_ignored", f"lines with an accept rate alone, passed over: {state.rate_only}"))
    if state.after_prompts:
        message = (
            f"intervals that held prompts: {state.after_prompts}; their acceptance counts, their step time does not"
        )
        said.append(("prefill_heavy", message))
    if state.windows and "decode_log_interval" not in state.settings:
        message = f"iterations counted as {DECODE_LOG_INTERVAL} steps a line, SGLang's default --decode-log-interval"
        said.append(("iterations_assumed", message))
    if state.tally["idle windows"]:
        said.append(("idle_windows", f"idle windows passed over: {state.tally['idle windows']}"))
    return tuple(Finding(code, message) for code, message in said)
