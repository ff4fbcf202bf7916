"""llama.cpp server logs: what the server prints after each request, and its running totals.

Written by tools/server (slot print_timing) and common/speculative. Three forms: `draft acceptance rate = r ( a accepted
/ d generated)`; `draft acceptance = ..., mean len = ...`; since 2026-06 `..., mean acceptance length = ..., acceptance
rate per position = (...)` or, on a line of its own, `acc per pos = (...)`. All with cumulative `statistics NAME: ...`
lines. The first token of a request comes with its prompt, before the eval time starts (measured: a request of one token
reads 0.001 ms), so target iterations = tokens - 1 - draft tokens accepted. Rates by position are of the rounds that
drafted; the last round of a request often does not. Draft time of a round = the second `dur` / #gen drafts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from specdec_cli.engines.read.pool import Tally, WindowPool, run_from, whole_draft_length
from specdec_cli.engines.read.source import LONG_LINES, Hit, Source
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import Finding, MeasuredRun, RunFile

FORMAT = "llama-cpp-log"
EVAL, DRAFT, STATISTICS, REUSED = b"eval time =", b"draft acceptance", b"statistics ", b"graphs reused ="
POSITIONS, FORCED = b"acc per pos =", b"synthetic speculative acceptance"
MOSTLY_DRAFTED = 0.8
"""A smaller share of rounds with drafts is no end of a request: the rates are of something else."""
MARKERS = (EVAL, DRAFT, STATISTICS, REUSED, POSITIONS, FORCED)

# At most 15 digits before the point: more are a fault of the file, and past what a float or a count holds.
_TIME = re.compile(rb"eval time =\s*(\d{1,15}(?:\.\d*)?) ms /\s*(\d{1,15}) (?:tokens|runs)")
_DRAFT = re.compile(rb"\(\s*(\d{1,15}) accepted /\s*(\d{1,15}) generated\)")
_MEAN = re.compile(rb"mean (?:len|acceptance length)\s*=\s*(\d{1,15}(?:\.\d*)?)(?!\d)")
_RATES = re.compile(
    rb"(?:acceptance rate per position|#acc rate/pos|acc per pos)\s*=\s*"
    rb"\(((?:\d{1,15}(?:\.\d*)?,\s*)*\d{1,15}(?:\.\d*)?)\)"
)
_SLOT = re.compile(rb"id\s+(\d+)\s*\|\s*task")
_TOTAL = re.compile(rb"statistics\s+([\w-]+):")
_COUNTED = ("gen drafts", "gen tokens", "acc tokens")
_COUNTS = re.compile(rb".*?".join(rb"#%s\s*=\s*(\d{1,15})(?!\d)" % name.encode() for name in _COUNTED))
_DURATION = re.compile(rb"dur\(b,g,a\)\s*=\s*[\d.]+,\s*(\d{1,15}(?:\.\d*)?),\s*(\d{1,15}(?:\.\d*)?)(?!\d)")


@dataclass(slots=True)
class _State:
    file: str
    drafted: WindowPool = field(default_factory=WindowPool)
    plain: WindowPool = field(default_factory=WindowPool)
    prompt: int | None = None
    """Tokens of the prompt before."""
    answer: tuple[float, int, int] | None = None
    """ms, tokens, line of the eval time that no draft line has followed yet."""
    slots: set[bytes] = field(default_factory=set)
    totals: dict[str, dict[str, float]] = field(default_factory=dict)
    total_rates: tuple[float, ...] | None = None
    total_line: int = 0
    rate_only: list[tuple[int, float, float, tuple[float, ...] | None]] = field(default_factory=list)
    """Draft lines without their eval time: line, accepted, generated, rates; the first few."""
    bare: tuple[float, int] | None = None
    """Iterations and accepted tokens of the last draft line, while its rates by position have not been read."""
    longest: int = 0
    forced: int | None = None
    """Line that says that acceptance is invented (--spec-synth-len, --spec-synth-rates)."""
    reused: int | None = None
    """Graphs reused so far, where the log says; it counts since the start."""
    tally: Tally = field(default_factory=Tally)


def read_llama_log(source: Source) -> RunFile:
    """One run with drafts, one without, as far as the log holds them.

    Raises ProfileError where only a bare acceptance rate can be read.
    """
    state = _State(source.name)
    for hit in source.hits(MARKERS):
        _take(state, hit)
    _plain(state)
    runs = _runs(state)
    if source.longest_passed_over:
        state.tally.add(LONG_LINES, count=source.longest_passed_over)
    findings = []
    rounds = state.drafted.n + state.plain.steps
    if state.reused is not None and state.reused < 0.5 * rounds:
        message = f"graphs reused {state.reused} times in {rounds:.0f} rounds: most rounds built theirs anew"
        findings.append(Finding("graphs_off", message))
    if state.forced is not None:
        message = f"line {state.forced} simulates acceptance: the AL is invented, only the step times are measured"
        runs = tuple(run.found("forced_acceptance", message) if run.draft_length != 0 else run for run in runs)
    if len(state.slots) > 1:
        findings.append(
            Finding("parallel_slots", f"{len(state.slots)} slots answered: how many at once is not in the log")
        )
    return RunFile(source.name, FORMAT, runs, state.tally.skipped(), tuple(findings), source.size)


def _take(state: _State, hit: Hit) -> None:
    marker = MARKERS[hit.marker]
    slot = _SLOT.search(hit.lead)  # before the marker: after it stand figures alone
    if slot is not None:
        state.slots.add(slot.group(1))
    if marker is STATISTICS:
        _statistics(state, hit)
    elif marker is DRAFT:
        _draft(state, hit)
    elif marker is FORCED:
        state.forced = hit.line
    elif marker is POSITIONS:
        _positions(state, hit)
    elif marker is REUSED:
        found = re.match(rb"graphs reused =\s*(\d{1,15})(?!\d)", hit.text)
        if found is not None:
            state.reused = max(state.reused or 0, int(found.group(1)))
    else:
        found = _TIME.search(hit.text)
        if found is None:
            state.tally.add("a last line cut short" if hit.cut else "unreadable lines", hit.line)
        elif hit.lead.endswith(b"prompt "):
            state.prompt = int(found.group(2))
        else:
            _plain(state)
            state.answer = (float(found.group(1)), int(found.group(2)), hit.line)


def _plain(state: _State) -> None:
    """An eval time that no draft line followed: a request without drafts."""
    if state.answer is None:
        return
    ms, tokens, line = state.answer
    state.answer = None
    if tokens < 2 or ms <= 0:
        return
    steps = tokens - 1
    state.plain.at(line)
    state.plain.timed(ms / 1e3 / steps, steps)
    state.plain.ran(steps / ms * 1e3)
    _context(state, state.plain, tokens)


def _context(state: _State, pool: WindowPool, tokens: int) -> None:
    if state.prompt is not None:
        pool.held(state.prompt + tokens / 2, tokens)
        state.prompt = None


def _draft(state: _State, hit: Hit) -> None:
    found = _DRAFT.search(hit.text)
    if found is None:
        state.tally.add("a last line cut short" if hit.cut else "unreadable lines", hit.line)
        return
    accepted, generated = int(found.group(1)), int(found.group(2))
    rates = _rates(hit.text)
    if not generated:
        return
    if rates:
        state.longest = max(state.longest, len(rates))
    mean = _MEAN.search(hit.text)
    if state.answer is not None:
        ms, tokens, line = state.answer
        state.answer = None
        n = float(tokens - 1 - accepted)
        if n <= 0:
            state.tally.add("requests that accepted more tokens than they made", hit.line)
            return
        state.drafted.at(line)
        state.drafted.timed(ms / 1e3 / n, n)
        state.drafted.ran((tokens - 1) / ms * 1e3 if ms > 0 else 0.0)
        _context(state, state.drafted, tokens)
    elif mean is not None and float(mean.group(1)) > 1 and accepted:
        n = accepted / (float(mean.group(1)) - 1.0)
    elif rates:
        n = generated / len(rates)
    else:
        if len(state.rate_only) < 1000:
            state.rate_only.append((hit.line, accepted, generated, rates))
        return
    state.drafted.at(hit.line)
    state.drafted.accept(n, float(accepted), float(generated), _of_iterations(rates, n, accepted) if rates else None)
    state.bare = None if rates else (n, accepted)


def _positions(state: _State, hit: Hit) -> None:
    """The rates of the draft line before, on a line of their own."""
    rates = _rates(hit.text)
    if rates and state.bare is not None:
        state.longest = max(state.longest, len(rates))
        state.drafted.rated(state.bare[0], _of_iterations(rates, *state.bare))
    state.bare = None


def _of_iterations(rates: tuple[float, ...], n: float, accepted: int) -> tuple[float, ...]:
    """Shares of the rounds that drafted as shares of all n; as they are where so many cannot have gone undrafted."""
    share = accepted / n / sum(rates) if sum(rates) > 0 else 1.0
    return tuple(rate * share for rate in rates) if MOSTLY_DRAFTED <= share <= 1.0 else rates


def _rates(text: bytes) -> tuple[float, ...] | None:
    found = _RATES.search(text)
    if found is None:
        return None
    return tuple(float(part) for part in found.group(1).split(b",") if part.strip())


def _statistics(state: _State, hit: Hit) -> None:
    name = _TOTAL.match(hit.text)
    counts = _COUNTS.search(hit.text)
    if name is None or counts is None:
        return
    values = dict(zip(_COUNTED, map(float, counts.groups()), strict=True))
    duration = _DURATION.search(hit.text)
    if duration is not None:
        values["draft_ms"] = float(duration.group(1))
    state.totals[name.group(1).decode()] = values
    state.total_rates = _rates(hit.text) or state.total_rates
    state.total_line = hit.line


def _runs(state: _State) -> tuple[MeasuredRun, ...]:
    batch = 1.0 if len(state.slots) <= 1 else None
    runs = []
    rounds = sum(total["gen drafts"] for total in state.totals.values())
    draft_ms = sum(total.get("draft_ms", 0.0) for total in state.totals.values())
    pool = state.drafted
    if not pool.count and rounds:
        pool.at(state.total_line)
        accepted = sum(total["acc tokens"] for total in state.totals.values())
        generated = sum(total["gen tokens"] for total in state.totals.values())
        pool.accept(rounds, accepted, generated, state.total_rates)
    state.longest = state.longest or len(state.total_rates or ())
    if pool.count:
        length = state.longest or whole_draft_length(pool.drafted, pool.n)
        run = run_from(
            pool,
            file=state.file,
            format=FORMAT,
            engine="llama-cpp",
            batch=batch,
            draft_length=length,
            step_basis="eval time / (tokens - 1 - accepted tokens)",
            draft_s=draft_ms / rounds / 1e3 if rounds and draft_ms else None,
        )
        if length is not None and not state.longest:
            run = run.found("draft_length_derived", f"D = {length} from drafted tokens / iterations")
        runs.append(run)
    if state.plain.steps:
        runs.append(
            run_from(
                state.plain,
                file=state.file,
                format=FORMAT,
                engine="llama-cpp",
                batch=batch,
                draft_length=0,
                acceptance_length=1.0,
                step_basis="eval time / (tokens - 1)",
            )
        )
    if state.rate_only and not pool.count:
        raise ProfileError(
            "a bare acceptance rate: without the draft length or the tokens made it is no acceptance length",
            file=state.file,
            line=state.rate_only[0][0],
            hint="keep the `eval time` lines of the log beside it, or use the `timings` of the server's answers",
        )
    for line, *_ in state.rate_only:
        state.tally.add("draft lines without their eval time", line)
    if not runs:
        raise ProfileError("no request can be read", file=state.file)
    return tuple(runs)
