"""vLLM server logs: the `SpecDecoding metrics` line of V1 (0.9 and current order) and the cumulative one of V0.

Written by vllm/v1/spec_decode/metrics.py and vllm/v1/metrics/loggers.py about every 10 s, totals of that interval:
mean acceptance length = 1 + accepted / drafts, per-position rates are fractions of drafts. V0 (2024, metrics.py)
counts since the start, and counts tokens accepted past the first rejection, so there AL = emitted / (draft / k).
"""

from __future__ import annotations

import re

from specdec_cli.engines.read.pool import process_of, run_from
from specdec_cli.engines.read.source import LONG_LINES, Hit, Source, hits_in, pieces
from specdec_cli.engines.read.vllm_columns import fold_usual
from specdec_cli.engines.read.vllm_lines import LEGACY, LOAD, SPEC, legacy_line, load_line, spec_line
from specdec_cli.engines.read.vllm_windows import (
    ENGINES,
    LENGTH_ROUNDED,
    Load,
    State,
    above,
    adds_up_within,
    plain_window,
    told_within,
    window,
)
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import Finding, MeasuredRun, RunFile

FORMAT = "vllm-log"
SYNTHETIC, PREFIX_V0 = b"synthetic_acceptance", b"Prefix cache hit rate: GPU:"
MARKERS = (SPEC, LOAD, LEGACY, SYNTHETIC, PREFIX_V0)

PIECE_BYTES = 1 << 20
"""What is taken together: the arrays of a larger piece outgrow the processor's cache."""
UNUSUAL_BYTES = 64 << 10
"""Of a piece with an unusual line: what goes line by line with it."""


def read_vllm_log(source: Source) -> RunFile:
    """One run for each (draft length, running requests).

    Raises ProfileError for an AL above D + 1, or a file without a window.
    """
    state = State(source.name)
    line = 1
    for block in source.blocks():
        for piece in pieces(block, PIECE_BYTES):
            line += _at_once(state, piece, line) or _unusual(state, piece, line)
    _settle(state)
    if source.longest_passed_over:
        state.tally.add(LONG_LINES, count=source.longest_passed_over)
    return RunFile(source.name, FORMAT, _runs(state), state.tally.skipped(), _findings(state), source.size)


def _at_once(state: State, block: bytes, line: int) -> int | None:
    """How many lines were taken together; None: some cannot be."""
    return fold_usual(state, block, line, (LEGACY, SYNTHETIC, PREFIX_V0)) if block.endswith(b"\n") else None


def _unusual(state: State, block: bytes, first_line: int) -> int:
    """Line by line where it must be. Returns how many there were."""
    line = first_line
    for piece in pieces(block, UNUSUAL_BYTES):
        taken = _at_once(state, piece, line)
        if taken is None:
            for hit in hits_in(piece, MARKERS, line):
                _take(state, hit)
            taken = piece.count(b"\n")
        line += taken
    return line - first_line


def _take(state: State, hit: Hit) -> None:
    marker = MARKERS[hit.marker]
    if marker is LOAD:
        _load(state, hit)
    elif marker is SPEC:
        _spec(state, hit)
    elif marker is LEGACY:
        _legacy(state, hit)
    elif marker is SYNTHETIC:
        if not re.match(rb"synthetic_acceptance_(?:length|rates?)['\"]?\s*[=:]\s*None", hit.text):
            state.forced = state.forced or hit.line
    elif (found := re.search(rb"GPU: (\d{1,15}(?:\.\d*)?)%", hit.text)) is not None:
        state.cached_sum += float(found.group(1)) / 100
        state.cached_count += 1


def _load(state: State, hit: Hit) -> None:
    found = load_line(hit.text)
    if found is None:
        state.tally.add("unreadable lines", hit.line)
        return
    prompt, generation, running, waiting, cached = found
    engines = ENGINES.search(hit.lead)
    share = 1.0 / int(engines.group(1)) if engines is not None and int(engines.group(1)) else 1.0
    process = process_of(hit)
    plain_window(state, state.loads.pop(process, None))
    state.loads[process] = Load(
        prompt * share,
        generation * share,
        running * share,
        waiting,
        None if cached is None else cached / 100,
        hit.line,
    )


def _spec(state: State, hit: Hit) -> None:
    load = state.loads.pop(process_of(hit), None)
    found = spec_line(hit.text)
    if found is None:
        state.tally.add("unreadable lines", hit.line)
        return
    length, accepted, drafted, rates = found
    if not drafted or length is None or not rates:
        state.tally.add("idle windows", hit.line)
        return
    if hit.cut and abs(1 + sum(rates) - length) > 0.03:
        state.tally.add("a last line cut short", hit.line)
        return
    if length > 1 + len(rates) + LENGTH_ROUNDED:
        raise above(state, length, len(rates), hit.line)
    if abs(1 + sum(rates) - length) > adds_up_within(len(rates)):
        state.tally.add("windows whose rates do not add up to their AL", hit.line)
        return
    n = drafted / len(rates)
    if length > 1 and accepted:
        # Where drafts are shorter than D (n-gram, a schedule) the printed AL, of two decimals, tells the iterations.
        counted = accepted / (length - 1)
        if abs(counted - n) > told_within(n, length - 1):
            n = counted
    window(state, hit.line, (len(rates), load), (n, accepted, drafted), rates)


def _legacy(state: State, hit: Hit) -> None:
    state.legacy = True
    process = process_of(hit)
    load = state.loads.pop(process, None)
    found = legacy_line(hit.text)
    if found is None:
        state.tally.add("unreadable lines", hit.line)
        return
    length, drafts, emitted = found
    before = state.counters.get(process, (0.0, 0.0))
    if drafts < before[0] or emitted < before[1]:  # the server started again
        before = (0.0, 0.0)
    state.counters[process] = (drafts, emitted)
    n, tokens = drafts - before[0], emitted - before[1]
    if n <= 0:
        state.tally.add("idle windows", hit.line)
        return
    if tokens > n * (length + 1) * 1.001:
        raise ProfileError(
            f"acceptance length {tokens / n:.2f} above D + 1 = {length + 1}", file=state.file, line=hit.line
        )
    window(state, hit.line, (length, load), (n, max(0.0, tokens - n), n * length), None)


def _settle(state: State) -> None:
    for load in state.loads.values():
        plain_window(state, load)
    if not state.pools and not state.plain:
        raise ProfileError(
            "no window with running requests",
            file=state.file,
            hint="vLLM prints one every 10 s while it works; --disable-log-stats silences it",
        )


def _runs(state: State) -> tuple[MeasuredRun, ...]:
    cached = state.cached_sum / state.cached_count if state.cached_count else None
    runs = [
        run_from(
            pool,
            file=state.file,
            format=FORMAT,
            engine="vllm",
            batch=batch,
            draft_length=length,
            step_basis="running x AL / generation throughput, windows without prompts or queue",
            cached_prompt_share=cached,
        )
        for (length, batch), pool in sorted(state.pools.items(), key=lambda item: (item[0][0], item[0][1] or 0.0))
    ]
    if not runs:
        runs = [
            run_from(
                pool,
                file=state.file,
                format=FORMAT,
                engine="vllm",
                batch=batch,
                step_basis="running / generation throughput, windows without prompts or queue",
            ).found(
                "speculation_not_stated",
                "no speculation line: it is off, or its metrics are; `specdec calibrate --off FILE` takes it as off",
            )
            for batch, pool in sorted(state.plain.items())
        ]
    return tuple(runs)


def _findings(state: State) -> tuple[Finding, ...]:
    found = []
    if state.forced is not None:
        found.append(
            Finding(
                "forced_acceptance",
                f"line {state.forced} sets a synthetic acceptance: the AL is invented, only step times are measured",
            )
        )
    elif state.windows >= 5 and len(state.lengths) == 1 and state.lengths != {0.0}:
        found.append(
            Finding("forced_acceptance", f"all {state.windows} windows have the same AL: it looks forced, not measured")
        )
    if state.legacy:
        found.append(
            Finding(
                "accepted_recounted",
                "vLLM V0 counts tokens accepted past the first rejection: AL = emitted / (draft / k) was taken instead",
            )
        )
    if state.prefill_heavy:
        found.append(
            Finding(
                "prefill_heavy",
                f"windows busy with prompts: {state.prefill_heavy}; their acceptance counts, their step time does not",
            )
        )
    if state.queued:
        found.append(
            Finding(
                "queued",
                f"windows with waiting requests: {state.queued}; their acceptance counts, their step time does not",
            )
        )
    if state.tally["idle windows"]:
        found.append(Finding("idle_windows", f"idle windows passed over: {state.tally['idle windows']}"))
    return tuple(found)
