"""The library and single profiles in the format asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from specdec_cli.report.columns import Column, Grid, grid_of
from specdec_cli.report.words import number

Record = dict[str, Any]

TITLES = {
    "hardware": "Hardware",
    "model": "Models",
    "drafter": "Drafters",
    "acceptance": "Measured acceptance",
    "engine": "Engines",
    "measurement": "Published measurements",
    "calibration": "Calibrations",
}
SOURCES = (
    Column("sources", lambda r: ", ".join(r["source_kinds"][:2]), numeric=False),
    Column("checked", lambda r: r["checked"] or "-", numeric=False),
)
"""How the figures came about, the two most frequent ways, and how old they are."""
COLUMNS: dict[str, tuple[Column, ...]] = {
    "hardware": (
        Column("name", lambda r: r["name"], numeric=False),
        Column("vendor", lambda r: r["vendor"], numeric=False),
        Column("memory GB", lambda r: number(r["memory_gb"], 3)),
        Column("GB/s", lambda r: number(r["memory_bandwidth_gb_per_s"], 3)),
        Column("bf16 TFLOP/s", lambda r: number(r["peak_bf16_tflops"], 3)),
        Column("fp8", lambda r: number(r["peak_fp8_tflops"], 3)),
        Column("fp4", lambda r: number(r["peak_fp4_tflops"], 3)),
        Column("ridge FLOP/byte", lambda r: number(r["ridge_bf16_flop_per_byte"], 3)),
        Column("link GB/s", lambda r: number(r["link_gb_per_s"], 3)),
        Column("kernels", lambda r: "fitted" if r["kernels_fitted"] else "taken over", numeric=False),
        Column("confidence", lambda r: r["confidence"], numeric=False),
        *SOURCES,
    ),
    "model": (
        Column("name", lambda r: r["name"], numeric=False),
        Column("maker", lambda r: r["maker"], numeric=False),
        Column("parameters 1e9", lambda r: number(r["parameters_b"], 3)),
        Column("active 1e9", lambda r: number(r["active_parameters_b"], 3)),
        Column("layers", lambda r: str(r["layers"])),
        Column("KV kB/token", lambda r: number(r["kv_kb_per_token"], 3)),
        Column("state MB/request", lambda r: number(r["state_mb_per_request"], 3)),
        Column("weights", lambda r: r["weight_dtype"], numeric=False),
        Column("MTP layers", lambda r: str(r["mtp_layers"])),
        *SOURCES,
    ),
    "drafter": (
        Column("name", lambda r: r["name"], numeric=False),
        Column("mechanism", lambda r: r["mechanism"], numeric=False),
        Column("targets", lambda r: ", ".join(r["targets"]) or "any", numeric=False),
        Column("parameters 1e6", lambda r: number(r["parameters_m"], 3)),
        Column("trained context tokens", lambda r: number(r["window_tokens"], 6)),
        *SOURCES,
    ),
    "acceptance": (
        Column("name", lambda r: r["name"], numeric=False),
        Column("data set", lambda r: r["data_set"], numeric=False),
        Column("D", lambda r: ",".join(str(d) for d in r["draft_lengths"]), numeric=False),
        Column("AL", lambda r: _span(r["acceptance_length_min"], r["acceptance_length_max"]), numeric=False),
        Column("measured by", lambda r: r["measured_by"], numeric=False),
        Column("default", lambda r: "*" if r["default"] else "", numeric=False),
        *SOURCES,
    ),
    "engine": (
        Column("name", lambda r: r["name"], numeric=False),
        Column("family", lambda r: r["family"], numeric=False),
        Column("version", lambda r: r["version"], numeric=False),
        Column("date", lambda r: r["date"], numeric=False),
        Column("fitted sweeps", lambda r: str(r["fitted_sweeps"])),
        *SOURCES,
    ),
    "measurement": (
        Column("name", lambda r: r["name"], numeric=False),
        Column("tier", lambda r: r["tier"], numeric=False),
        Column("published", lambda r: r["published"], numeric=False),
        Column("points", lambda r: str(r["points"])),
        Column("chips", lambda r: ", ".join(r["measured_on"]), numeric=False),
        Column("models", lambda r: ", ".join(r["models"]), numeric=False),
        *SOURCES,
    ),
    "calibration": (
        Column("name", lambda r: r["name"], numeric=False),
        Column("chip", lambda r: r["measured_on"], numeric=False),
        Column("tp", lambda r: str(r["tp"])),
        Column("model", lambda r: r["model"], numeric=False),
        Column("drafter", lambda r: r["drafter"] or "-", numeric=False),
        Column("engine", lambda r: r["engine"], numeric=False),
        Column("method", lambda r: r["method"], numeric=False),
        Column("rows", lambda r: str(r["rows"])),
        *SOURCES,
    ),
}


def _span(least: float | None, most: float | None) -> str:
    if least is None or most is None:
        return "-"
    return f"{least:.2f}" if least == most else f"{least:.2f}-{most:.2f}"


def render_listing(record: Record, style: str, *, width: int | None = None, colour: bool = False) -> str:
    """`specdec.profiles/1` as table, json, csv or markdown."""
    match style:
        case "json":
            from specdec_cli.report.json import render_json

            return render_json(record)
        case "csv":
            from specdec_cli.report.csv import listing_csv

            return listing_csv(record)
        case "markdown":
            from specdec_cli.report.markdown import listing_markdown

            return listing_markdown(_grids(record))
        case _:
            from specdec_cli.report.table import listing_table

            return listing_table(record, _grids(record), width=width, colour=colour)


def _grids(record: Record) -> list[tuple[str, Grid]]:
    grids = []
    for kind, columns in COLUMNS.items():
        rows = [row for row in record["profiles"] if row["kind"] == kind]
        if rows:
            grids.append((TITLES[kind], grid_of(columns, rows, lambda row: False)))
    return grids


def render_profile(
    record: Record, style: str, *, with_sources: bool, width: int | None = None, colour: bool = False
) -> str:
    """`specdec.profile/1` as text or json; the text holds the sources where they are asked for."""
    if style == "json":
        from specdec_cli.report.json import render_json

        return render_json(record)
    from specdec_cli.report.table import Page

    page = Page(width, colour)
    page.say(f"{record['name']}, a profile of kind {record['kind']}", style="bold")
    page.say(f"from {record['origin']}: {record['file']}")
    if record["also_kinds"]:
        page.say(f"also the name of a profile of kind {', '.join(record['also_kinds'])}: --kind chooses")
    page.say()
    for line in _yaml_like({key: value for key, value in record["profile"].items() if key not in ("format", "kind")}):
        page.say(line)
    if record["computed"]:
        page.say()
        page.say("computed from these", style="bold")
        for line in _yaml_like(record["computed"]):
            page.say(f"  {line}")
    page.say()
    if not with_sources:
        page.say(f"{len(record['sources'])} sources; --sources names them, each with the keys that it covers")
        return page.text
    page.say("sources", style="bold")
    for source in record["sources"]:
        page.say(f"  {_covered(source)}", indent="  ")
        page.say(f"      {source['from']} ({source['kind']}, checked {source['checked']})", indent="  ")
        if source["note"]:
            page.say(f"      {source['note']}", indent="  ")
    return page.text


def _covered(source: Record) -> str:
    """The entry and what it covers: a group by its name, the rest by its keys."""
    if source["entry"] is None:
        return f"WITHOUT A SOURCE: {', '.join(source['keys'])}"
    if source["entry"] == "*":
        tops = dict.fromkeys(re.split(r"[.\\[]", key)[0] for key in source["keys"])
        return f"all others: {', '.join(tops)}"
    return str(source["entry"])


def _yaml_like(data: Mapping[str, Any], indent: str = "") -> list[str]:
    """Plain data as YAML writes it: for reading, so strings stand unquoted."""
    lines = []
    for key, value in data.items():
        if isinstance(value, Mapping) and value and not _flat(value):
            lines += [f"{indent}{key}:", *_yaml_like(value, indent + "  ")]
        elif isinstance(value, list) and value and not _flat(value):
            lines.append(f"{indent}{key}:")
            lines += [f"{indent}  - {_inline(item)}" for item in value]
        else:
            lines.append(f"{indent}{key}: {_inline(value)}")
    return lines


def _flat(value: Any) -> bool:
    """Whether a map or list is short enough for one line."""
    parts: Sequence[Any] = list(value.values()) if isinstance(value, Mapping) else value
    return all(not isinstance(part, Mapping | list) for part in parts) and len(_inline(value)) <= 100


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)
