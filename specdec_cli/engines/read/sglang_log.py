"""SGLang server logs: one `Decode batch` line every decode_log_interval steps.

Written by the scheduler's metrics (sglang/srt). `accept len` counts the bonus token. `accept rate` was
len / num_draft_tokens before 2026-04-23 and (len - 1) / (num_draft_tokens - 1) since: without the version it means
nothing, and it is never used. Step time = running * accept len / generation throughput.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from specdec_cli.engines.read.pool import Tally, WindowPool, process_of, run_from
from specdec_cli.engines.read.source import Hit, Source
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import Finding, MeasuredRun, RunFile

FORMAT = "sglang-log"
DECODE, PREFILL, STEPS, SIMULATE = b"Decode batch", b"Prefill batch", b"speculative_num_steps=", b"SIMULATE_ACC"
MARKERS = (DECODE, PREFILL, STEPS, SIMULATE)

DECODE_LOG_INTERVAL = 40
"""Steps between two lines unless --decode-log-interval says otherwise (sglang/srt/server_args.py)."""

# The usual order, in one match; anything else goes field by field.
_USUAL = re.compile(
    rb"#running-req: (\d+), #token: (\d+), [^#\n]*?accept len: ([\d.]+), [^#\n]*?"
    rb"gen throughput \(token/s\): ([\d.]+)"
)
_RUNNING = re.compile(rb"#running-req: (\d+)")
_TOKENS = re.compile(rb"#(?:full )?token: (\d+)")
_ACCEPT = re.compile(rb"accept len: ([\d.]+|nan)")
_SPEED = re.compile(rb"gen throughput \(token/s\): ([\d.]+)")
_PREFILL = re.compile(rb"#new-token: (\d+).*?#cached-token: (\d+)")


@dataclass(slots=True)
class _State:
    file: str
    pools: dict[tuple[float, bool], WindowPool] = field(default_factory=dict)
    prefilled: set[bytes] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)
    settings: dict[str, int | None] = field(default_factory=dict)
    forced: int | None = None
    rate_only: int = 0
    rate_ignored: int = 0
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
    for hit in source.hits(MARKERS):
        marker = hit.marker
        if marker == 0:
            _decode(state, hit)
        elif marker == 1:
            found = _PREFILL.search(hit.text)
            if found is not None:
                state.new_tokens += int(found.group(1))
                state.cached_tokens += int(found.group(2))
            state.prefilled.add(process_of(hit))
        elif marker == 2:
            _server_args(state, hit.text)
        else:
            state.forced = state.forced or hit.line
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


def _server_args(state: _State, text: bytes) -> None:
    """The draft length from the arguments that the server prints as it starts."""
    names = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens", "decode_log_interval")
    for name in names:
        found = re.search(name.encode() + rb"=(\d+)", text)
        if found is not None:
            state.settings[name] = int(found.group(1))


def _decode(state: _State, hit: Hit) -> None:
    text = hit.text
    usual = _USUAL.search(text)
    if usual is not None:
        running, tokens, accept, speed = usual.groups()
    else:
        parts = [pattern.search(text) for pattern in (_RUNNING, _TOKENS, _ACCEPT, _SPEED)]
        running, tokens, accept, speed = (b"" if part is None else part.group(1) for part in parts)
    if not running or not speed or (hit.cut and b"#queue-req" not in text):
        state.tally.add("a last line cut short" if hit.cut else "unreadable lines", hit.line)
        return
    if b"accept rate" in text:
        if not accept:
            state.rate_only += 1
            return
        state.rate_ignored += 1
    requests = int(running)
    if not requests or accept == b"nan":
        state.tally.add("idle windows", hit.line)
        return
    per_second = float(speed)
    length = float(accept) if accept else 1.0
    pool = state.pools.get((requests, bool(accept)))
    if pool is None:
        pool = state.pools[(requests, bool(accept))] = WindowPool()
    pool.at(hit.line)
    if accept:
        _check(state, length, hit.line)
        n = float(requests * (state.settings.get("decode_log_interval") or DECODE_LOG_INTERVAL))
        pool.accept(n, (length - 1.0) * n)
        state.windows += 1
        if len(state.lengths) < 3:
            state.lengths.add(accept)
    if b"cuda graph: " in text:
        pool.graphs_seen += 1
        pool.graphs += b"cuda graph: True" in text
    if tokens:
        pool.held(int(tokens) / requests)
    if not per_second:
        return
    pool.ran(per_second)
    process = process_of(hit)
    if process in state.prefilled:  # the interval holds prompts, or the idle time before them
        state.prefilled.discard(process)
        state.after_prompts += 1
        return
    pool.timed(requests * length / per_second, 1.0)


def _check(state: _State, length: float, line: int) -> None:
    steps = state.settings.get("speculative_num_steps")
    if steps is not None and length > steps + 1.005:
        raise ProfileError(f"accept len {length:g} above D + 1 = {steps + 1}", file=state.file, line=line)


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
    found = []
    if state.forced is not None:
        found.append(
            Finding(
                "forced_acceptance",
                f"line {state.forced} simulates acceptance: the AL is invented, only the step times are measured",
            )
        )
    elif state.windows >= 10 and len(state.lengths) == 1 and state.lengths != {b"1.00"}:
        found.append(
            Finding("forced_acceptance", f"all {state.windows} windows have the same AL: it looks forced, not measured")
        )
    if state.rate_ignored:
        found.append(
            Finding("accept_rate_ignored", "accept len was used; accept rate means different things by version")
        )
    if state.rate_only:
        found.append(Finding("accept_rate_ignored", f"{state.rate_only} lines with an accept rate alone passed over"))
    if state.after_prompts:
        found.append(
            Finding(
                "prefill_heavy",
                f"{state.after_prompts} intervals held prompts: acceptance counts, their step time does not",
            )
        )
    if state.windows and "decode_log_interval" not in state.settings:
        found.append(
            Finding(
                "iterations_assumed",
                f"iterations counted as {DECODE_LOG_INTERVAL} steps a line, SGLang's default --decode-log-interval",
            )
        )
    if state.tally["idle windows"]:
        found.append(Finding("idle_windows", f"{state.tally['idle windows']} idle windows passed over"))
    return tuple(found)
