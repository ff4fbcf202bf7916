"""Prometheus scrapes of serving engines: two of the same server are a delta, one a lifetime.

vLLM (vllm/v1/spec_decode/metrics.py): counters over all engines of a server, `position` labels for the accepted
tokens; `_created` twins are times. SGLang: gauges; `spec_accept_rate` changed its meaning and is ignored.
TensorRT-LLM: counters and an acceptance length. MAX Serve: per-position acceptance as a histogram in percent.
llama.cpp (2026-10): vLLM's names after `llamacpp:`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from specdec_cli.engines.read.json_objects import MOST
from specdec_cli.engines.read.pool import MOST_RUNS, whole_draft_length
from specdec_cli.engines.read.source import Source
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import MeasuredRun, RunFile, Skipped

FORMAT = "prometheus"

_SAMPLE = re.compile(rb"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan))(?:\s|$)", re.I)
_LABEL = re.compile(rb'(\w+)="((?:[^"\\]|\\.)*)"')

_POSITION = re.compile(r"\d{1,4}", re.ASCII)

Key = tuple[str, str]
"""Metric name, and its position label ('' where it has none)."""


@dataclass(slots=True)
class Scrape:
    """One answer of /metrics: counters and gauges summed over engines, and how many engines each has."""

    file: str
    values: dict[Key, float] = field(default_factory=lambda: defaultdict(float))
    series: dict[Key, int] = field(default_factory=lambda: defaultdict(int))
    model: str | None = None
    first_line: int = 0
    last_line: int = 0

    def get(self, name: str, position: str = "") -> float | None:
        """The sum over engines; None where the scrape has no such metric."""
        return self.values.get((name, position))

    def mean(self, name: str) -> float | None:
        """The mean over engines (for gauges)."""
        value = self.get(name)
        return None if value is None else value / self.series[(name, "")]

    def named(self, ending: str) -> str | None:
        """The first metric whose name ends so."""
        return next((name for name, position in self.values if not position and name.endswith(ending)), None)


def scrapes_of(source: Source) -> tuple[list[Scrape], tuple[Skipped, ...]]:
    """Every scrape in a file; a sample seen again begins the next one."""
    scrapes = [Scrape(source.name, first_line=1)]
    seen: set[bytes] = set()
    number = broken = 0
    first_broken = None
    for block in source.blocks():
        for text in block.splitlines():
            number += 1
            if not text.strip() or text.startswith(b"#"):
                continue
            found = _SAMPLE.match(text.strip())
            cut = not block.endswith(b"\n") and block.endswith(text)
            # Exporters write floats: an end of file in a number without its point has cut it.
            if found is None or (cut and not set(found.group(3).lower()) & set(b".ein")):
                broken += 1
                first_broken = first_broken or number
                continue
            name = found.group(1).decode("ascii", errors="replace")
            if name.endswith(("_created", "_bucket")):
                continue
            series = found.group(1) + b"{" + (found.group(2) or b"")
            if series in seen:
                if len(scrapes) == MOST_RUNS:
                    raise ProfileError(
                        f"more than {MOST_RUNS:,} scrapes",
                        file=source.name,
                        line=number,
                        hint="the first and the last one of a run say all that counters can",
                    )
                scrapes.append(Scrape(source.name, first_line=number))
                seen.clear()
            seen.add(series)
            _add(scrapes[-1], name, dict(_LABEL.findall(found.group(2) or b"")), float(found.group(3)), number)
    skipped = (Skipped("unreadable lines", broken, first_broken),) if broken else ()
    return scrapes, skipped


def _add(scrape: Scrape, name: str, labels: dict[bytes, bytes], value: float, line: int) -> None:
    scrape.last_line = line
    if not abs(value) <= MOST:  # NaN: an engine that has not run yet
        return
    if scrape.model is None and b"model_name" in labels:
        scrape.model = labels[b"model_name"].decode("utf-8", errors="replace")
    # Ranks of one tensor-parallel group report the same numbers; the first one speaks for it.
    if labels.get(b"tp_rank", b"0") != b"0" or labels.get(b"pp_rank", b"0") != b"0":
        return
    key = (name, labels.get(b"position", b"").decode("ascii", errors="replace"))
    scrape.values[key] += value
    scrape.series[key] += 1


def read_scrapes(sources: Sequence[Source]) -> list[RunFile]:
    """The runs of all scrape files together: scrapes of one server and model, in order, are deltas.

    Raises ProfileError where a file has no speculation metric, or only SGLang's accept rate.
    """
    found: list[Scrape] = []
    files: dict[str, RunFile] = {}
    for source in sources:
        scrapes, skipped = scrapes_of(source)
        found += scrapes
        files[source.name] = RunFile(source.name, FORMAT, (), skipped, (), source.size)
    runs: list[MeasuredRun] = []
    groups: dict[tuple[str, str | None], list[Scrape]] = defaultdict(list)
    for scrape in found:
        groups[(_engine(scrape), scrape.model)].append(scrape)
    for (engine, _), group in groups.items():
        runs += _READERS[engine](sorted(group, key=_age) if engine in ("vllm", "llama-cpp", "tensorrt-llm") else group)
    by_file: dict[str, list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        by_file[run.file].append(run)
    return [
        RunFile(name, FORMAT, tuple(by_file[name]), one.skipped, one.findings, one.size) for name, one in files.items()
    ]


def _engine(scrape: Scrape) -> str:
    names = {name for name, _ in scrape.values}
    for engine, mark in _MARKS.items():
        if any(name.startswith(mark) for name in names):
            return engine
    raise ProfileError(
        "no metric of vLLM, SGLang, TensorRT-LLM, MAX Serve or llama.cpp",
        file=scrape.file,
        hint="curl http://SERVER/metrics > before.prom, run, and again > after.prom",
    )


def _age(scrape: Scrape) -> tuple[float, ...]:
    """Counters only grow: the smaller one is the earlier scrape."""
    endings = ("spec_decode_num_drafts_total", "spec_decode_num_draft_tokens_total", "generation_tokens_total")
    return tuple(scrape.get(scrape.named(ending) or "") or 0.0 for ending in endings)


def _facts(scrape: Scrape, engine: str) -> dict[str, Any]:
    return {
        "file": scrape.file,
        "format": FORMAT,
        "engine": engine,
        "model": scrape.model,
        "first_line": scrape.first_line,
        "last_line": scrape.last_line,
    }


def _pairs(group: Sequence[Scrape]) -> Iterable[tuple[Scrape | None, Scrape]]:
    """Neighbours; a single scrape has nothing before it."""
    if len(group) == 1:
        return [(None, group[0])]
    return pairwise(group)


def _told(run: MeasuredRun, before: Scrape | None) -> MeasuredRun:
    if before is None:
        return run.found(
            "lifetime_scrape",
            "one scrape: the mean of everything since the server started, warm-up and every workload; "
            "give one from before and one from after the run",
        )
    return run.found("scrape_delta", f"the difference of two scrapes, {before.file} before {run.file}")


def _vllm(group: Sequence[Scrape]) -> list[MeasuredRun]:
    return _counted(group, "vllm", "vllm:")


def _llama(group: Sequence[Scrape]) -> list[MeasuredRun]:
    return _counted(group, "llama-cpp", "llamacpp:")


def _counted(group: Sequence[Scrape], engine: str, prefix: str) -> list[MeasuredRun]:
    """Runs out of counters of drafts, drafted tokens and accepted ones by position."""
    runs = []
    spec = f"{prefix}spec_decode_num_"
    for before, after in _pairs(group):

        def grown(name: str, position: str = "", before: Scrape | None = before, after: Scrape = after) -> float | None:
            value = after.get(name, position)
            if value is None:
                return None
            return value - ((before.get(name, position) or 0.0) if before is not None else 0.0)

        drafts, accepted = grown(f"{spec}drafts_total"), grown(f"{spec}accepted_tokens_total")
        drafted = grown(f"{spec}draft_tokens_total")
        facts = _facts(after, engine)
        running = after.mean(f"{prefix}num_requests_running")
        if drafts is None or accepted is None:
            run = MeasuredRun(**facts, batch=running or None)
            message = "no speculation counters: it is off, or this version names them otherwise"
            runs.append(_told(run, before).found("speculation_not_stated", message))
            continue
        if drafts <= 0:
            if before is not None and before.values == after.values:
                raise ProfileError(f"nothing happened since {before.file}: the two scrapes are alike", file=after.file)
            raise ProfileError("no drafts were counted in it", file=after.file, hint="scrape after the run")
        name = f"{spec}accepted_tokens_per_pos_total"
        positions = sorted((int(p) for n, p in after.values if n == name and _POSITION.fullmatch(p)))
        rates = [(grown(name, str(p)) or 0.0) / drafts for p in positions]
        latency, count = (grown(f"{prefix}inter_token_latency_seconds_{part}") for part in ("sum", "count"))
        run = MeasuredRun(
            **facts,
            batch=running or None,
            draft_length=len(rates) or whole_draft_length(drafted, drafts),
            acceptance_length=1.0 + accepted / drafts,
            per_position=tuple(rates) or None,
            iterations=drafts,
            accepted_tokens=accepted,
            drafted_tokens=drafted,
            step_s=latency / count if latency and count else None,
            step_basis="mean inter-token latency: one chunk a step; prompts of other requests are in it",
        )
        if running and running > 0:
            run = run.found("batch_snapshot", f"batch {running:g} is a snapshot of the last scrape's running requests")
        runs.append(_told(run, before))
    return runs


def _sglang(group: Sequence[Scrape]) -> list[MeasuredRun]:
    runs = []
    for scrape in group:
        length = scrape.mean("sglang:spec_accept_length")
        if length is None and scrape.get("sglang:spec_accept_rate") is not None:
            raise ProfileError(
                "only an accept rate, whose meaning changed between SGLang versions",
                file=scrape.file,
                hint="sglang:spec_accept_length is what can be used",
            )
        running, speed = scrape.mean("sglang:num_running_reqs"), scrape.mean("sglang:gen_throughput")
        off = not length  # the gauge stands at 0 without speculation
        step = running * (length or 1.0) / speed if running and speed else None
        run = MeasuredRun(
            **_facts(scrape, "sglang"),
            batch=running or None,
            draft_length=0 if off else None,
            acceptance_length=1.0 if off else length,
            step_s=step,
            step_basis="running x accept length / generation throughput, at one moment",
            output_tokens_per_s=speed or None,
        )
        message = "gauges hold the last interval only: a log, or several scrapes, tell more"
        runs.append(run.found("single_moment", message))
    return runs


def _tensorrt(group: Sequence[Scrape]) -> list[MeasuredRun]:
    runs = []
    for before, after in _pairs(group):
        names = [after.named(f"spec_decode_{part}") for part in ("num_draft_tokens_total", "num_accepted_tokens_total")]
        gauge = after.named("spec_decode_acceptance_length")
        length = after.mean(gauge) if gauge else None
        totals = [
            (after.get(name) or 0.0) - ((before.get(name) or 0.0) if before is not None else 0.0) if name else None
            for name in names
        ]
        drafted, accepted = totals
        if length is None:
            raise ProfileError("no acceptance length", file=after.file, hint="a bare rate needs the draft length")
        iterations = accepted / (length - 1.0) if accepted and length > 1 else None
        drafted_length = whole_draft_length(drafted, iterations)
        run = MeasuredRun(
            **_facts(after, "tensorrt-llm"),
            draft_length=drafted_length,
            acceptance_length=length,
            iterations=iterations,
            accepted_tokens=accepted,
            drafted_tokens=drafted,
        )
        if drafted_length is not None:
            run = run.found("draft_length_derived", f"D = {drafted_length} from drafted tokens / iterations")
        runs.append(_told(run, before))
    return runs


def _max(group: Sequence[Scrape]) -> list[MeasuredRun]:
    base = "maxserve_spec_decode_acceptance_rate_per_position"
    runs = []
    for scrape in group:
        positions = sorted({int(p) for n, p in scrape.values if n == f"{base}_sum" and _POSITION.fullmatch(p)})
        rates = []
        for position in positions:
            count = scrape.get(f"{base}_count", str(position))
            rates.append((scrape.get(f"{base}_sum", str(position)) or 0.0) / count / 100 if count else 0.0)
        if not rates or max(rates) > 1:
            raise ProfileError("no acceptance by position, in percent", file=scrape.file)
        run = MeasuredRun(
            **_facts(scrape, "max"),
            draft_length=len(rates),
            acceptance_length=1.0 + sum(rates),
            per_position=tuple(rates),
        )
        runs.append(_told(run, None))
    return runs


_READERS = {"vllm": _vllm, "sglang": _sglang, "tensorrt-llm": _tensorrt, "max": _max, "llama-cpp": _llama}
_MARKS = {
    "vllm": "vllm:",
    "sglang": "sglang:",
    "max": "maxserve",
    "tensorrt-llm": "trtllm_",
    "llama-cpp": "llamacpp:",
}
