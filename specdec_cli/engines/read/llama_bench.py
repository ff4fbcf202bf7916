"""llama.cpp's JSON and tables: `timings` of an answer, llama-bench, llama-batched-bench.

timings (tools/server): the first token comes with the prompt, before predicted_ms starts, so target iterations =
predicted_n - 1 - draft_n_accepted; draft keys are absent without drafts.
llama-bench: `pp n` is one target pass over n tokens, T(n) = n / (tokens/s); `tg n` is plain decoding.
llama-batched-bench: the step at batch B = pl is t_tg / tg, in seconds.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from specdec_cli.engines.read.json_objects import Entry, number, text_of
from specdec_cli.engines.read.pool import WindowPool, run_from, whole_draft_length
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import MeasuredRun

TIMINGS, BENCH, BATCHED = "llama-cpp-timings", "llama-bench", "llama-batched-bench"

_TEST = re.compile(r"(pp|tg)\s*(\d{1,15})(?:\s*@\s*d(\d{1,15}))?$")
_SPEED = re.compile(r"(\d+\.?\d*)\s*(?:±|\+/-|\\u00b1)?")


def timings_of(data: dict[str, Any]) -> dict[str, Any] | None:
    """The timings of an answer; None where it has none."""
    found = data.get("timings", data)
    return found if isinstance(found, dict) and "predicted_n" in found and "predicted_ms" in found else None


def read_timings(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """Answers with drafts as one run, answers without as another; each answer is a window.

    Raises ProfileError for more tokens accepted than made.
    """
    drafted, plain = WindowPool(), WindowPool()
    cached = prompted = 0.0
    model = None
    for line, data in entries:
        timings = timings_of(data)
        if timings is None:
            continue
        model = model or text_of(data, "model")
        made, ms = number(timings, "predicted_n") or 0.0, number(timings, "predicted_ms") or 0.0
        drafts, accepted = number(timings, "draft_n"), number(timings, "draft_n_accepted") or 0.0
        kept, fresh = number(timings, "cache_n") or 0.0, number(timings, "prompt_n") or 0.0
        if made < 2 or ms <= 0:
            continue
        cached, prompted = cached + kept, prompted + kept + fresh
        steps = number(data, "draft_rounds") or made - 1 - accepted
        if steps <= 0:
            raise ProfileError(f"{accepted:g} of {made:g} tokens accepted", file=file, line=line)
        pool = drafted if drafts else plain
        pool.at(line)
        if drafts:
            pool.accept(steps, accepted, drafts)
        pool.timed(ms / 1e3 / steps, steps)
        pool.ran((made - 1) / ms * 1e3)
        pool.held(kept + fresh + made / 2, steps)
    facts: dict[str, Any] = {
        "file": file,
        "format": TIMINGS,
        "engine": "llama-cpp",
        "batch": 1.0,
        "model": model,
        "cached_prompt_share": cached / prompted if prompted else None,
    }
    runs = []
    if drafted.count:
        length = whole_draft_length(drafted.drafted, drafted.n)
        run = run_from(
            drafted, **facts, draft_length=length, step_basis="predicted_ms / (predicted_n - 1 - draft_n_accepted)"
        )
        if length is not None:
            run = run.found("draft_length_derived", f"D = {length} from drafted tokens / iterations")
        runs.append(run)
    if plain.steps:
        runs.append(
            run_from(
                plain, **facts, draft_length=0, acceptance_length=1.0, step_basis="predicted_ms / (predicted_n - 1)"
            )
        )
    return runs


def read_bench(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """llama-bench: `tg` rows are plain steps, `pp n` rows are target passes over n tokens."""
    runs = []
    for line, data in entries:
        prompt, made = number(data, "n_prompt") or 0.0, number(data, "n_gen") or 0.0
        speed, depth = number(data, "avg_ts"), number(data, "n_depth") or 0.0
        ns, ubatch = number(data, "avg_ns"), number(data, "n_ubatch")
        tokens = prompt + made
        seconds = ns / 1e9 if ns else tokens / speed if speed and tokens else None
        if seconds is None or (prompt and made):  # `pg` tests mix both
            continue
        runs += _test(file, line, data, (prompt, made, depth), seconds, ubatch)
    return runs


def _test(
    file: str,
    line: int,
    data: dict[str, Any],
    test: tuple[float, float, float],
    seconds: float,
    ubatch: float | None,
) -> list[MeasuredRun]:
    prompt, made, depth = test
    facts: dict[str, Any] = {
        "file": file,
        "format": BENCH,
        "engine": "llama-cpp",
        "first_line": line,
        "model": text_of(data, "model_type", "model_filename"),
        "batch": 1.0,
    }
    if made:
        return [
            MeasuredRun(
                **facts,
                label=f"tg{made:.0f}",
                draft_length=0,
                acceptance_length=1.0,
                step_s=seconds / made,
                step_basis="time / tokens",
                output_tokens_per_s=made / seconds,
                context_tokens=depth + made / 2,
            )
        ]
    if ubatch and prompt > ubatch:  # several passes
        return []
    return [
        MeasuredRun(
            **facts,
            label=f"pp{prompt:.0f}",
            measures="verify_pass",
            verify_width=int(prompt),
            step_s=seconds,
            step_basis="one target pass over so many tokens",
            context_tokens=depth + prompt / 2,
        )
    ]


def read_batched_bench(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """llama-batched-bench: a plain step for each number of sequences."""
    runs = []
    for line, data in entries:
        batch, made, seconds = number(data, "pl", "b"), number(data, "tg"), number(data, "t_tg")
        prompt = number(data, "pp") or 0.0
        if not batch or not made or not seconds:
            continue
        runs.append(
            MeasuredRun(
                file=file,
                format=BATCHED,
                engine="llama-cpp",
                first_line=line,
                batch=batch,
                draft_length=0,
                acceptance_length=1.0,
                step_s=seconds / made,
                step_basis="t_tg / tg",
                output_tokens_per_s=batch * made / seconds,
                context_tokens=prompt + made / 2,
            )
        )
    return runs


def csv_entries(text: str) -> list[Entry]:
    """llama-bench -o csv: one object a row, text values and all."""
    reader = csv.DictReader(io.StringIO(text))
    try:
        return [Entry(number + 2, {k: v for k, v in row.items() if k is not None}) for number, row in enumerate(reader)]
    except csv.Error:  # a quote that is never closed
        return []


def markdown_entries(text: str) -> list[Entry]:
    """llama-bench or llama-batched-bench tables, their columns named as in the JSON."""
    entries: list[Entry] = []
    columns: list[str] = []
    for line, row in enumerate(text.splitlines(), start=1):
        if not row.lstrip().startswith("|"):
            continue
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        if {"test", "t/s"} <= set(cells) or {"PP", "TG", "B"} <= set(cells):
            columns = cells
        elif columns and len(cells) == len(columns) and not set("".join(cells)) <= set("-: "):
            entries += _markdown_row(line, dict(zip(columns, cells, strict=True)))
    return entries


def _markdown_row(line: int, row: dict[str, str]) -> Iterable[Entry]:
    if "test" not in row:
        names = {"PP": "pp", "TG": "tg", "B": "pl", "N_KV": "n_kv", "T_TG s": "t_tg", "S_TG t/s": "speed_tg"}
        data: dict[str, Any] = {names[key]: value for key, value in row.items() if key in names}
        made, batch, speed = number(data, "tg"), number(data, "pl"), number(data, "speed_tg")
        if made and batch and speed:  # five digits in tokens/s, three in seconds
            data["t_tg"] = made * batch / speed
        return [Entry(line, data)]
    test, speed_text = _TEST.match(row["test"]), _SPEED.match(row["t/s"])
    if test is None or speed_text is None:
        return []
    kind, tokens, depth = test.group(1), int(test.group(2)), int(test.group(3) or 0)
    data = {
        "n_prompt": tokens if kind == "pp" else 0,
        "n_gen": tokens if kind == "tg" else 0,
        "n_depth": depth,
        "avg_ts": float(speed_text.group(1)),
        "model_type": row.get("model"),
        "n_ubatch": row.get("n_ubatch"),
    }
    return [Entry(line, data)]
