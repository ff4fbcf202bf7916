"""vLLM server logs: the `SpecDecoding metrics` line of V1 (0.9 and current order) and the cumulative one of V0.

Written by vllm/v1/spec_decode/metrics.py and vllm/v1/metrics/loggers.py about every 10 s, totals of that interval:
mean acceptance length = 1 + accepted / drafts, per-position rates are fractions of drafts. V0 (2024, metrics.py)
counts since the start, and counts tokens accepted past the first rejection, so there AL = emitted / (draft / k).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from specdec_cli.engines.read.pool import Tally, WindowPool, process_of, run_from
from specdec_cli.engines.read.source import Hit, Source
from specdec_cli.engines.read.vllm_lines import LEGACY, LOAD, SPEC, legacy_line, load_line, spec_line
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import Finding, MeasuredRun, RunFile

FORMAT = "vllm-log"
SYNTHETIC, PREFIX_V0 = b"synthetic_acceptance", b"Prefix cache hit rate: GPU:"
MARKERS = (SPEC, LOAD, LEGACY, SYNTHETIC, PREFIX_V0)

# An interval's prompt tokens cost target passes too. At 0.1 prompt tokens for each generated one they are 1 to 4 % of
# the time (8B on H100: 30 us a prompt token against 500 to 80 us a generated one at 8 to 64 requests).
PREFILL_SHARE = 0.1

_ENGINES = re.compile(rb"(\d+) Engines Aggregated")


@dataclass(slots=True)
class _Load:
    """The throughput line before."""

    prompt: float
    generation: float
    running: float
    waiting: float
    cached: float | None
    line: int


@dataclass(slots=True)
class _State:
    file: str
    pools: dict[tuple[int, float | None], WindowPool] = field(default_factory=dict)
    plain: dict[float, WindowPool] = field(default_factory=dict)
    loads: dict[bytes, _Load] = field(default_factory=dict)
    counters: dict[bytes, tuple[float, float]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    forced: int | None = None
    prefill_heavy: int = 0
    queued: int = 0
    lengths: set[float] = field(default_factory=set)
    """Distinct AL of windows, while they are few: a forced acceptance has one."""
    windows: int = 0
    legacy: bool = False
    cached_sum: float = 0.0
    cached_count: int = 0


def read_vllm_log(source: Source) -> RunFile:
    """One run for each (draft length, running requests).

    Raises ProfileError for an AL above D + 1, or a file without a window.
    """
    state = _State(source.name)
    for hit in source.hits(MARKERS):
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
        elif (found := re.search(rb"GPU: (\d+\.?\d*)%", hit.text)) is not None:
            state.cached_sum += float(found.group(1)) / 100
            state.cached_count += 1
    _settle(state)
    if source.longest_passed_over:
        state.tally.add("lines over 64 MiB", count=source.longest_passed_over)
    return RunFile(source.name, FORMAT, _runs(state), state.tally.skipped(), _findings(state), source.size)


def _load(state: _State, hit: Hit) -> None:
    found = load_line(hit.text)
    if found is None:
        state.tally.add("unreadable lines", hit.line)
        return
    prompt, generation, running, waiting, cached = found
    engines = _ENGINES.search(hit.lead)
    share = 1.0 / int(engines.group(1)) if engines is not None and int(engines.group(1)) else 1.0
    process = process_of(hit)
    _plain(state, state.loads.pop(process, None))
    state.loads[process] = _Load(
        prompt * share,
        generation * share,
        running * share,
        waiting,
        None if cached is None else cached / 100,
        hit.line,
    )


def _plain(state: _State, load: _Load | None) -> None:
    """A throughput line that no speculation line followed."""
    if load is None:
        return
    if not load.running or not load.generation:
        state.tally.add("idle windows", load.line)
        return
    pool = state.plain.setdefault(load.running, WindowPool())
    pool.at(load.line)
    pool.ran(load.generation)
    if load.waiting or load.prompt > PREFILL_SHARE * load.generation:
        return
    pool.timed(load.running / load.generation, 1.0)


def _spec(state: _State, hit: Hit) -> None:
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
    if length > 1 + len(rates) + 0.005:
        raise ProfileError(
            f"acceptance length {length:g} above D + 1 = {1 + len(rates)}",
            file=state.file,
            line=hit.line,
            hint="a step yields D accepted tokens and the bonus token at most: the counters are wrong, or the line is",
        )
    if abs(1 + sum(rates) - length) > 0.01 + 0.001 * len(rates):
        state.tally.add("windows whose rates do not add up to their AL", hit.line)
        return
    n = drafted / len(rates)
    if length > 1 and accepted:
        # Where drafts are shorter than D (n-gram, a schedule) the printed AL, of two decimals, tells the iterations.
        counted = accepted / (length - 1)
        if abs(counted - n) > n * (0.006 / (length - 1) + 0.001):
            n = counted
    _window(state, hit.line, (len(rates), load), n, accepted, drafted, rates)


def _window(
    state: _State,
    line: int,
    where: tuple[int, _Load | None],
    n: float,
    accepted: float,
    drafted: float,
    rates: list[float] | None,
) -> None:
    length, load = where
    batch = load.running if load is not None and load.running else None
    pool = state.pools.setdefault((length, batch), WindowPool())
    pool.at(line)
    pool.accept(n, accepted, drafted, rates)
    state.windows += 1
    if len(state.lengths) < 3:
        state.lengths.add(round(accepted / n, 3))
    if load is None or batch is None:
        return
    if load.cached is not None:
        state.cached_sum += load.cached
        state.cached_count += 1
    if not load.generation:
        return
    pool.ran(load.generation)
    if load.prompt > PREFILL_SHARE * load.generation:
        state.prefill_heavy += 1
    elif load.waiting:
        state.queued += 1
    else:
        pool.timed(batch * (1 + accepted / n) / load.generation, n / batch)


def _legacy(state: _State, hit: Hit) -> None:
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
    _window(state, hit.line, (length, load), n, max(0.0, tokens - n), n * length, None)


def _settle(state: _State) -> None:
    for load in state.loads.values():
        _plain(state, load)
    if not state.pools and not state.plain:
        raise ProfileError(
            "no window with running requests",
            file=state.file,
            hint="vLLM prints one every 10 s while it works; --disable-log-stats silences it",
        )


def _runs(state: _State) -> tuple[MeasuredRun, ...]:
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


def _findings(state: _State) -> tuple[Finding, ...]:
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
