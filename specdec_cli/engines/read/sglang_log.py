"""SGLang server logs: one `Decode batch` line every decode_log_interval steps.

Written by the scheduler's metrics (sglang/srt). `accept len` counts the bonus token. `accept rate` was
len / num_draft_tokens before 2026-04-23 and (len - 1) / (num_draft_tokens - 1) since: without the version it means
nothing, and it is never used. Step time = running * accept len / generation throughput.

Such a log is little else than these lines, so a block's lines are matched together and folded by what they say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from specdec_cli.engines.read.pool import Tally, WindowPool, run_from
from specdec_cli.engines.read.source import Source
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import Finding, MeasuredRun, RunFile

FORMAT = "sglang-log"
DECODE, PREFILL, STEPS, SIMULATE = b"Decode batch", b"Prefill batch", b"speculative_num_steps=", b"SIMULATE_ACC"

DECODE_LOG_INTERVAL = 40
"""Steps between two lines unless --decode-log-interval says otherwise (sglang/srt/server_args.py)."""

# The usual order, with the punctuation of 2025 and 2026; lines of any other form go field by field.
_HEAD = rb"#running-req: (\d+), #token: (\d+), token usage: [\d.]+, "
_TAIL = rb"(?:cuda graph: (?:True|False), )?gen throughput \(token/s\): ([\d.]+), #queue-req"
_SPECULATING = re.compile(_HEAD + rb"accept len: ([\d.]+), (?:accept rate: [\d.]+, )?" + _TAIL)
_PLAIN = re.compile(_HEAD + rb"()" + _TAIL)
_FIELDS = tuple(
    re.compile(pattern)
    for pattern in (
        rb"#running-req: (\d+)",
        rb"#(?:full )?token: (\d+)",
        rb"accept len: (\d+\.?\d*|nan)",
        rb"cuda graph: (True|False)",
        rb"gen throughput \(token/s\): (\d+\.?\d*)",
    )
)
_PREFILL = re.compile(rb"#new-token: (\d+)[^\n]*?#cached-token: (\d+)")
_RANK = re.compile(rb" DP(\d+)")

Line = tuple[bytes, bytes, bytes, bytes]
"""running requests, tokens, accept len (empty: none), generation throughput."""
Alike = dict[tuple[bytes, bytes], list[float]]
"""(running requests, accept len) -> lines, sum of 1 / throughput, of throughput, of tokens."""


@dataclass(slots=True)
class _State:
    file: str
    pools: dict[tuple[int, bool], WindowPool] = field(default_factory=dict)
    prefilled: set[bytes] = field(default_factory=set)
    """Ranks that took prompts since their last decode line."""
    tally: Tally = field(default_factory=Tally)
    settings: dict[str, int] = field(default_factory=dict)
    forced: int | None = None
    rate_only: int = 0
    rate_ignored: bool = False
    after_prompts: int = 0
    new_tokens: int = 0
    cached_tokens: int = 0
    lengths: set[bytes] = field(default_factory=set)
    windows: int = 0


def read_sglang_log(source: Source) -> RunFile:
    """One run for each number of running requests.

    Raises ProfileError for a log whose only measure is the accept rate, an AL above D + 1, or no decode line.
    """
    state = _State(source.name)
    line = 1
    for block in source.blocks():
        if STEPS in block:
            _server_args(state, block)
        if state.forced is None and (at := block.find(SIMULATE)) >= 0:
            state.forced = line + block.count(b"\n", 0, at)
        _block(state, block, line)
        line += block.count(b"\n")
    if state.rate_only and not state.windows:
        raise ProfileError(
            "only an accept rate, whose meaning changed between SGLang versions",
            file=state.file,
            hint="use a log with `accept len`, which every version since 2025 prints and which counts the bonus token",
        )
    if not state.pools:
        raise ProfileError("no decode batch can be read", file=state.file)
    if source.longest_passed_over:
        state.tally.add("lines over 64 MiB", count=source.longest_passed_over)
    return RunFile(source.name, FORMAT, _runs(state), state.tally.skipped(), _findings(state), source.size)


def _server_args(state: _State, block: bytes) -> None:
    """The draft length from the arguments that the server prints as it starts."""
    names = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens", "decode_log_interval")
    for name in names:
        found = re.search(name.encode() + rb"=(\d+)", block)
        if found is not None:
            state.settings[name] = int(found.group(1))


def _block(state: _State, block: bytes, first_line: int) -> None:
    """The decode lines between one prefill line and the next, together; lines are those where a stretch begins and
    ends."""
    ranks = _RANK.search(block) is not None
    at = 0
    while True:
        prefill = block.find(PREFILL, at)
        end = len(block) if prefill < 0 else prefill
        first = block.find(DECODE, at, end)
        if first >= 0:
            last = block.rfind(DECODE, at, end)
            where = (first_line + block.count(b"\n", 0, first), first_line + block.count(b"\n", 0, last))
            _stretch(state, block, (first, end), where, ranks)
        if prefill < 0:
            return
        found = _PREFILL.match(block, block.find(b"#new-token", prefill))
        if found is not None:
            state.new_tokens += int(found.group(1))
            state.cached_tokens += int(found.group(2))
        state.prefilled.add(_rank(block, prefill) if ranks else b"")
        at = prefill + len(PREFILL)


def _rank(block: bytes, at: int) -> bytes:
    """The data-parallel rank in the prefix of the line that holds `at`."""
    found = _RANK.search(block, block.rfind(b"\n", 0, at) + 1, at)
    return found.group(1) if found is not None else b""


def _stretch(state: _State, block: bytes, span: tuple[int, int], lines: tuple[int, int], ranks: bool) -> None:
    start, end = span
    found = [] if ranks else _usual(block, start, end)
    graphs = block.count(b"cuda graph: True", start, end)
    if not found or graphs not in (0, len(found)):
        _one_by_one(state, block, span, lines[0])
        return
    graph = b"True" if graphs else b"False" if b"cuda graph: " in block[start : start + 400] else b""
    first: list[Line] = []
    if b"" in state.prefilled:  # the interval holds prompts, or the idle time before them
        first = [found.pop(0)]
    try:
        parts = [_alike(first), _alike(found)]
    except ValueError:  # 1.2.3
        _one_by_one(state, block, span, lines[0])
        return
    if first:
        state.prefilled.clear()
        state.after_prompts += 1
        for sums in parts[0].values():
            sums[1] = sums[2] = 0.0
    for part in parts:
        _fold(state, part, graph, lines)
    if b"accept rate" in block[start : start + 400]:
        state.rate_ignored = True


def _usual(block: bytes, start: int, end: int) -> list[Line]:
    """Every decode line of the stretch, where all have the usual form; else nothing."""
    count = block.count(DECODE, start, end)
    for pattern in (_SPECULATING, _PLAIN):
        found: list[Line] = pattern.findall(block, start, end)
        if len(found) == count:
            return found
    return []


def _alike(found: Sequence[Line]) -> Alike:
    """Lines folded by what they say. Raises ValueError where a number is none."""
    alike: Alike = {}
    for running, tokens, accept, speed in found:
        value = float(speed) or math.inf
        sums = alike.get((running, accept))
        if sums is None:
            if accept:
                float(accept)
            alike[(running, accept)] = [1, 1.0 / value, value, int(tokens)]
        else:
            sums[0] += 1
            sums[1] += 1.0 / value
            sums[2] += value
            sums[3] += int(tokens)
    return alike


def _fold(state: _State, alike: Alike, graph: bytes, lines: tuple[int, int]) -> None:
    """Lines that say the same, but for throughput and tokens."""
    steps = state.settings.get("speculative_num_steps")
    interval = state.settings.get("decode_log_interval") or DECODE_LOG_INTERVAL
    for (running, accept), (count, slowness, speed, tokens) in alike.items():
        requests = int(running)
        if not requests:
            state.tally.add("idle windows", lines[0], int(count))
            continue
        pool = state.pools.setdefault((requests, bool(accept)), WindowPool())
        for line in lines:
            pool.at(line)
        length = 1.0
        if accept:
            length = float(accept)
            if steps is not None and length > steps + 1.005:
                raise ProfileError(f"accept len {length:g} above D + 1 = {steps + 1}", file=state.file, line=lines[0])
            n = float(requests * interval)
            pool.accept_alike(int(count), n, (length - 1.0) * n)
            state.windows += int(count)
            if len(state.lengths) < 3:
                state.lengths.add(accept)
        if graph:
            pool.graphs_seen += int(count)
            pool.graphs += int(count) if graph == b"True" else 0
        if tokens:
            pool.held(tokens / count / requests, count)
        if slowness and math.isfinite(speed):
            pool.timed(requests * length * slowness / count, count)
            pool.speed += speed
            pool.speed_count += int(count)


def _one_by_one(state: _State, block: bytes, span: tuple[int, int], first_line: int) -> None:
    """Lines of unusual order, or of several ranks."""
    at, line, counted = span[0], first_line, span[0]
    while 0 <= at < span[1]:
        line, counted = line + block.count(b"\n", counted, at), at
        end = block.find(b"\n", at)
        text = block[at : end if end >= 0 else len(block)]
        parts = [pattern.search(text) for pattern in _FIELDS]
        running, tokens, accept, graph, speed = (b"" if part is None else part.group(1) for part in parts)
        rank = _rank(block, at)
        at = block.find(DECODE, at + len(DECODE))
        if not running or not speed or (end < 0 and b"#queue-req" not in text):
            state.tally.add("a last line cut short" if end < 0 else "unreadable lines", line)
        elif b"accept rate" in text and not accept:
            state.rate_only += 1
        elif accept == b"nan":
            state.tally.add("idle windows", line)
        else:
            state.rate_ignored |= b"accept rate" in text
            value = float(speed)
            after = rank in state.prefilled
            state.prefilled.discard(rank)
            state.after_prompts += after
            sums = [1, 0.0 if after or not value else 1.0 / value, value, int(tokens or 0)]
            _fold(state, {(running, accept): sums}, graph, (line, line))


def _shape(state: _State) -> tuple[int | None, int | None]:
    """Draft length, and verify width where it is a tree."""
    steps = state.settings.get("speculative_num_steps")
    topk, width = state.settings.get("speculative_eagle_topk"), state.settings.get("speculative_num_draft_tokens")
    if steps is None:
        return None, None
    return steps, width if topk is not None and topk > 1 else None


def _runs(state: _State) -> tuple[MeasuredRun, ...]:
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


def _findings(state: _State) -> tuple[Finding, ...]:
    said: list[tuple[str, str]] = []
    if state.forced is not None:
        message = f"line {state.forced} simulates acceptance: the AL is invented, only the step times are measured"
        said.append(("forced_acceptance", message))
    elif state.windows >= 10 and len(state.lengths) == 1 and state.lengths != {b"1.00"}:
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
