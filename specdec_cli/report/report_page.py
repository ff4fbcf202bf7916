"""`specdec report`: one page for a colleague who was not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specdec_cli.report.chart_data import ChartData
from specdec_cli.report.chart_page import charts, footer, heading, payload, points_table, warnings
from specdec_cli.report.columns import Column, Grid, grid_of, key_numbers, schedule_grid, suggestion
from specdec_cli.report.html import bullets, document, table, text, to_copy
from specdec_cli.report.words import (
    answer_sentence,
    infeasible_lines,
    number,
    own_settings,
    pays_sentence,
    percent,
    runner_up_sentence,
    scenario_lines,
    settings_lines,
    step_sentence,
    times,
)

Record = dict[str, Any]

GUIDELINES_FROM = "NVIDIA Technical Blog, 2026-09-02"
LIMITS = (
    ("batch", "at batch {:g}"),
    ("min_interactivity", "with at least {:g} tokens/s for each user"),
    ("min_throughput", "with at least {:g} tokens/s/GPU"),
    ("max_tpot_ms", "with at most {:g} ms for each output token"),
)


def report_page(
    data: ChartData,
    record: Record,
    *,
    infeasible: Sequence[Mapping[str, Any]],
    sources: Sequence[Record],
    totals: Sequence[Record],
    command: str,
    library: str,
) -> str:
    """The whole page.

    Args:
        data: what the charts show. record: the answer of `specdec recommend`. infeasible: points that cannot be.
        sources: where the figures of the profiles come from, as `source_records` gives them. totals: errors against
            published measurements, of `specdec.validate/1`. command: what re-creates the page.
        library: the JavaScript of Vega.
    """
    question = question_sentence(record)
    parts = [
        heading(question, data.title),
        f'<p class="answer">{text(_answer(record))}</p>',
        _facts(record),
        "<h2>The charts</h2>",
        charts(data),
        points_table(data),
        "<h2>Draft length by batch</h2>",
        table(schedule_grid(record["schedule"]), caption="Draft length for every batch size"),
        _guidelines(record["guidelines"]),
        _settings(record),
        _how_far_off(record, totals),
        _assumptions(record, infeasible, sources),
        warnings(record["warnings"]),
        footer(record["specdec_version"], command),
    ]
    return document(question, "\n".join(part for part in parts if part), payload(data, "frontier"), library)


def question_sentence(record: Record) -> str:
    """What was asked, in a sentence."""
    inputs, first = record["inputs"], record["scenarios"][0]
    asked = [said.format(inputs[name]["value"]) for name, said in LIMITS if name in inputs]
    hardware = ", ".join(inputs["hardware"]["value"])
    gpus = f"{first['gpus']} x {hardware}" if len(inputs["hardware"]["value"]) == 1 else hardware
    where = f"{first['model']} on {gpus} with {first['engine']}"
    context = f"{first['context_tokens']:,} tokens of context"
    wanted = f" {', '.join(asked)}" if asked else " at each batch size"
    return f"Which draft length for {where}, {context},{wanted}?"


def source_records(profiles: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[Record]:
    """Sources of (kind, name, sources by key) profiles; keys of one source together."""
    found: dict[tuple[str, str, str, str, str], list[str]] = {}
    for kind, name, sources in profiles:
        for key, source in sources.items():
            found.setdefault((kind, name, source.from_, source.kind, source.checked), []).append(key)
    return [
        {"profile": kind, "name": name, "keys": keys, "from": origin, "kind": how, "checked": checked}
        for (kind, name, origin, how, checked), keys in found.items()
    ]


def _answer(record: Record) -> str:
    sentence = answer_sentence(record)
    lengths = {entry["draft_length"] for entry in record["schedule"]}
    if record["choice"] is None and lengths - {0}:
        drafted = sorted(lengths - {0})
        span = f"{drafted[0]}" if len(drafted) == 1 else f"{drafted[0]} to {drafted[-1]}"
        sentence += f" Draft {span} tokens, by batch; the table below has each."
    return sentence


def _facts(record: Record) -> str:
    choice = record["choice"]
    if choice is None:
        return ""
    speed, wide = choice["interactivity_tokens_per_s_per_user"], choice["throughput_tokens_per_s_per_gpu"]
    plain = choice["speedup"]
    beside = choice["speculate"]
    facts = [
        ("tokens/s/user", number(speed), f"{number(speed / plain)} without" if beside else ""),
        ("tokens/s/GPU", number(wide), f"{number(wide / plain)} without" if beside else ""),
        (
            "speedup",
            times(plain),
            f"band {times(choice['speedup_low'])} to {times(choice['speedup_high'])}" if beside else "",
        ),
        ("AL", f"{choice['acceptance_length']:.2f}", f"tokens a step, {choice['acceptance_basis']}"),
        ("step", f"{number(choice['step_ms'])} ms", f"bound by {choice['bound']}"),
    ]
    boxes = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}<small>{text(more)}</small></dd></div>"
        for name, value, more in facts
    )
    lines = [f"Step: {step_sentence(record['split'], choice)}."]
    second = runner_up_sentence(record)
    lines += [f"Runner-up: {second}."] if second else []
    lines.append(f"Speculation pays {pays_sentence(record)}.")
    return f'<dl class="facts">{boxes}</dl>{bullets(lines)}'


def _guidelines(rules: Sequence[Record]) -> str:
    if not rules:
        return ""
    parts = [f'<h2>The five guidelines</h2><p class="faint">As published ({GUIDELINES_FROM}), computed here.</p>']
    for rule in rules:
        numbers = "; ".join(part for part in (suggestion(rule), key_numbers(rule)) if part)
        parts.append(
            f'<div class="rule {text(rule["verdict"])}"><h3>{text(rule["id"])} {text(rule["title"])}'
            f'<span class="verdict">{text(rule["verdict"].replace("_", " "))}</span></h3>'
            f'<p>{text(rule["why"])}</p><p class="small faint">{text(numbers)}</p></div>'
        )
    return "\n".join(parts)


def _settings(record: Record) -> str:
    """The engine's own settings first; the others folded."""
    own = own_settings(record)
    parts = ["<h2>Engine settings</h2>"]
    parts += [_setting(entry) for entry in own]
    others = [entry for entry in record["engine_settings"].values() if entry not in own and entry["text"]]
    if others:
        inner = "".join(_setting(entry) for entry in others)
        parts.append(f"<details><summary>The same for other engines</summary>{inner}</details>")
    return "\n".join(parts)


def _setting(entry: Record) -> str:
    checked = f'<p class="small faint">checked against {text(entry["engine_version"])}</p>'
    said = [f"[{warning['code']}] {warning['message']}" for warning in entry["warnings"]]
    block = to_copy("\n".join(settings_lines(entry)), f"settings for {entry['engine']}") if entry["text"] else ""
    return f"<h3>{text(entry['title'])}</h3>{block}{checked}{bullets(said) if said else ''}"


def _how_far_off(record: Record, totals: Sequence[Record]) -> str:
    bands = sorted({one["time_band"] for one in record["scenarios"]})
    lines = [f"Step times against a plain step: +-{' or '.join(percent(band) for band in bands)}."]
    choice = record["choice"]
    if choice is not None and choice["speculate"]:
        low, high = times(choice["speedup_low"]), times(choice["speedup_high"])
        lines.append(f"The speedup lies between {low} and {high}, acceptance on other data sets included.")
    lines += [f"{entry['message']}." for entry in record["warnings"] if entry["code"] == "flips_inside_band"]
    parts = ["<h2>How far off it may be</h2>", bullets(lines)]
    if totals:
        parts += [
            "<p>Published measurements, re-created with the same model and profiles (<code>specdec validate</code>); "
            "rho is a speculative step over a plain one.</p>",
            table(_totals_grid(totals), caption="Errors against published measurements"),
        ]
    return "\n".join(parts)


def _totals_grid(totals: Sequence[Record]) -> Grid:
    def error(total: Record, quantity: str, name: str) -> str:
        found = total["errors"].get(quantity)
        return "-" if found is None else percent(found[name])

    columns = [
        Column("measurements", lambda t: str(t["name"]), numeric=False),
        Column("points", lambda t: str(t["points"])),
        Column("step, median error", lambda t: error(t, "base_step", "median")),
        Column("90 % below", lambda t: error(t, "base_step", "p90")),
        Column("rho, median error", lambda t: error(t, "rho", "median")),
        Column("90 % below ", lambda t: error(t, "rho", "p90")),
    ]
    return grid_of(columns, totals, lambda t: False)


def _assumptions(record: Record, infeasible: Sequence[Mapping[str, Any]], sources: Sequence[Record]) -> str:
    inputs = [{"name": name, **entry} for name, entry in record["inputs"].items()]
    columns = [
        Column("input", lambda i: str(i["name"]), numeric=False),
        Column("value", lambda i: _value(i["value"]), numeric=False),
        Column("from", lambda i: str(i["origin"]), numeric=False),
    ]
    source_columns = [
        Column("profile", lambda s: f"{s['profile']} {s['name']}", numeric=False),
        Column("figures", lambda s: _keys(s["keys"]), numeric=False),
        Column("from", lambda s: str(s["from"]), numeric=False),
        Column("kind", lambda s: str(s["kind"]), numeric=False),
        Column("checked", lambda s: str(s["checked"]), numeric=False),
    ]
    parts = [
        "<h2>What it assumes</h2>",
        bullets(scenario_lines(record)),
        table(grid_of(columns, inputs, lambda i: False), caption="Inputs"),
        f"<details><summary>Sources of the figures ({len(sources)})</summary>"
        f"{table(grid_of(source_columns, sources, lambda s: False), caption='Sources')}</details>",
    ]
    if infeasible:
        parts.append(bullets([line.strip() for line in infeasible_lines(infeasible)]))
    return "\n".join(parts)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_value(item)}" for key, item in value.items())
    return str(value)


def _keys(keys: Sequence[str]) -> str:
    shown = ["all not named" if key == "*" else key for key in keys[:6]]
    return ", ".join(shown) + (f" and {len(keys) - 6} more" if len(keys) > 6 else "")
