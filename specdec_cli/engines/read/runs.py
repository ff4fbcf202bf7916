"""Files of serving engines -> measured runs. What `acceptance` and `calibrate` read their input with."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specdec_cli.engines.read import (
    clients,
    detect,
    llama_bench,
    llama_log,
    plain_table,
    prometheus,
    sglang_json,
    sglang_log,
    texts,
    traces,
    trtllm_report,
    vllm_json,
    vllm_log,
)
from specdec_cli.engines.read.json_objects import LEAST, MOST, Entry, read_objects
from specdec_cli.engines.read.pool import MOST_RUNS, possible_draft_length
from specdec_cli.engines.read.source import LONG_OBJECTS, STREAMED, Progress, Source
from specdec_cli.errors import ProfileError, UsageError, did_you_mean
from specdec_cli.profiles.measured_run import Finding, MeasuredRun, RunFile, Skipped

TEXT_BYTES = 16 << 20  # what prints such tables and counters prints little beside them

_LOGS: dict[str, Callable[[Source], RunFile]] = {
    vllm_log.FORMAT: vllm_log.read_vllm_log,
    sglang_log.FORMAT: sglang_log.read_sglang_log,
    llama_log.FORMAT: llama_log.read_llama_log,
}
_OBJECTS: dict[str, Callable[[str, Sequence[Entry]], list[MeasuredRun]]] = {
    vllm_json.REQUEST: vllm_json.read_requests,
    vllm_json.SERVE: vllm_json.read_bench_serve,
    sglang_json.SPECULATIVE: sglang_json.read_bench_speculative,
    sglang_json.SERVING: sglang_json.read_bench_serving,
    sglang_json.ONE_BATCH: sglang_json.read_one_batch,
    sglang_json.SPECFORGE: sglang_json.read_specforge,
    trtllm_report.FORMAT: trtllm_report.read_reports,
    llama_bench.TIMINGS: llama_bench.read_timings,
    llama_bench.BENCH: llama_bench.read_bench,
    llama_bench.BATCHED: llama_bench.read_batched_bench,
    clients.GUIDELLM: clients.read_guidellm,
    clients.INFERENCEX: clients.read_inferencex,
    traces.FORMAT: traces.read_traces,
}
_TEXTS: dict[str, Callable[[str, str], list[MeasuredRun]]] = {
    texts.OFFLINE: texts.read_offline,
    texts.SPECULATIVE: texts.read_llama_speculative,
    clients.GOLDEN: clients.read_golden,
}


def read_runs(
    files: Sequence[Path | str],
    *,
    forced: str | None = None,
    progress: Progress | None = None,
    tables: bool = False,
) -> list[RunFile]:
    """Read every file, in their order; scrapes of one server are taken together, so theirs does not matter.

    Args:
        files: paths; a pipe will do for a log. forced: a name of `detect.FORMATS`, instead of looking at the content.
        tables: whether a table of the user's own (plain_table.py) will do too.

    Raises:
        UsageError: an unknown format, no file, or one given twice. ProfileError: a file that cannot be read, or what
        it says cannot be (AL above D + 1, a base that drafted, an acceptance rate alone).
    """
    if forced is not None and forced not in detect.FORMATS:
        hint = did_you_mean(forced, detect.FORMATS) or f"known: {', '.join(detect.FORMATS)}"
        raise UsageError(f"--from {forced!r} is no format; {hint}")
    seen: dict[str, str] = {}
    for file in files:
        real = os.path.realpath(file)  # Path.resolve raises where a link leads to itself
        if real in seen:
            raise UsageError(f"{file} is given twice: its iterations would count double")
        seen[real] = str(file)
    found: list[RunFile] = []
    scrapes: list[Source] = []
    try:
        for file in files:
            source = Source(file, progress)
            try:
                if tables and forced is None and plain_table.is_plain_table(source.head):
                    form: str | None = plain_table.FORMAT
                else:
                    form = forced or _format_of(source)
                if form != prometheus.FORMAT:
                    found.append(_read(source, form))
            except MemoryError:
                source.close()
                raise ProfileError("too large for the memory there is", file=source.name, hint=STREAMED) from None
            except BaseException:
                source.close()
                raise
            if form == prometheus.FORMAT:
                scrapes.append(source)
            else:
                source.close()
        if scrapes:
            found += prometheus.read_scrapes(scrapes)
    finally:
        for source in scrapes:
            source.close()
    places = {str(file): place for place, file in enumerate(files)}
    found.sort(key=lambda file: places[file.file])
    for one in found:
        if len(one.runs) > MOST_RUNS:
            message = f"{len(one.runs):,} runs, more than the {MOST_RUNS:,} that one file may hold"
            raise ProfileError(message, file=one.file, hint="one run a setting is enough: the mean of its repetitions")
    return [replace(file, runs=tuple(_possible(run) for run in file.runs)) for file in found]


_POSITIVE = ("batch", "step_s", "draft_s", "output_tokens_per_s", "iterations", "context_tokens")


def _possible(run: MeasuredRun) -> MeasuredRun:
    """The run without quantities that cannot be: a time or count of zero or less says nothing.

    Raises ProfileError for a draft length that cannot be.
    """
    if run.draft_length is not None:
        possible_draft_length(run.draft_length, run.file, run.first_line)
    wrong = [name for name in _POSITIVE if (value := getattr(run, name)) is not None and not LEAST < value < MOST]
    nothing: dict[str, Any] = dict.fromkeys(wrong)
    return replace(run, **nothing) if wrong else run


def _format_of(source: Source) -> str | None:
    """The format; None: JSON, told object by object. Raises ProfileError where nothing is recognised."""
    form = detect.of_head(source.head)
    if form is not None or detect.looks_like_json(source.head):
        return form
    form = detect.further_down(source)
    if form is None:
        raise ProfileError(
            "no format recognised",
            file=source.name,
            hint=f"--from forces one of {', '.join(detect.FORMATS)}",
        )
    return form


def _read(source: Source, form: str | None) -> RunFile:
    if form == plain_table.FORMAT:
        return plain_table.read_plain_table(source)
    if form in _LOGS:
        return _LOGS[form](source)
    if form in _TEXTS:
        text = source.whole(TEXT_BYTES, "such a text").decode("utf-8", errors="replace")
        return RunFile(source.name, form, tuple(_TEXTS[form](source.name, text)), (), (), source.size)
    if form in (llama_bench.BENCH, llama_bench.BATCHED) and not detect.looks_like_json(source.head):
        return _table(source, form)
    return _objects(source, form)


def _table(source: Source, form: str) -> RunFile:
    """llama-bench's csv and markdown."""
    text = source.whole(TEXT_BYTES, "a table of llama-bench").decode("utf-8", errors="replace")
    entries = llama_bench.markdown_entries(text)
    if not entries and form == llama_bench.BENCH:
        entries = llama_bench.csv_entries(text)
    runs = _OBJECTS[form](source.name, entries)
    if not runs:
        raise ProfileError("no row can be read", file=source.name)
    return RunFile(source.name, form, tuple(runs), (), (), source.size)


def _objects(source: Source, forced: str | None) -> RunFile:
    reading = read_objects(source)
    grouped: dict[str, list[Entry]] = {}
    strange: list[Entry] = []
    for entry in reading.entries:
        form = forced or detect.of_object(entry.data)
        if form is None:
            strange.append(entry)
        else:
            grouped.setdefault(form, []).append(entry)
    if not grouped:
        keys = ", ".join(list(strange[0].data)[:8])
        raise ProfileError(
            f"no format recognised by its keys ({keys})",
            file=source.name,
            line=strange[0].line,
            hint=f"--from forces one of {', '.join(detect.FORMATS)}",
        )
    runs = [run for form, entries in grouped.items() for run in _OBJECTS[form](source.name, entries)]
    if not runs:
        raise ProfileError(f"nothing measured in it ({', '.join(grouped)})", file=source.name)
    skipped = []
    findings = []
    if strange:
        skipped.append(Skipped("objects of no known format", len(strange), strange[0].line))
    if source.longest_passed_over:
        skipped.append(Skipped(LONG_OBJECTS, source.longest_passed_over, None))
    if reading.broken:
        skipped.append(Skipped("unreadable objects", reading.broken, reading.broken_line))
        message = f"not whole JSON from line {reading.broken_line} on: cut short, or mixed with other output"
        findings.append(Finding("cut_short", message))
    form = next(iter(grouped)) if len(grouped) == 1 else "several"
    return RunFile(source.name, form, tuple(runs), tuple(skipped), tuple(findings), source.size)
