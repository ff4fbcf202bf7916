"""A record in the format asked for; the modules of the others are not loaded."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]


def render_sweep(record: Record, style: str, *, width: int | None = None, colour: bool = False) -> str:
    """`specdec.sweep/1` as table, json, csv or markdown; width and colour count for a table."""
    match style:
        case "json":
            from specdec_cli.report.json import render_json

            return render_json(record)
        case "csv":
            from specdec_cli.report.csv import sweep_csv

            return sweep_csv(record)
        case "markdown":
            from specdec_cli.report.markdown import sweep_markdown

            return sweep_markdown(record)
        case _:
            from specdec_cli.report.table import sweep_table

            return sweep_table(record, width=width, colour=colour)


def render_recommend(
    record: Record, style: str, *, width: int | None = None, colour: bool = False, working: bool = False
) -> str:
    """`specdec.recommend/1` as table, json, csv or markdown; `working` shows every number of the guidelines, which
    JSON holds in any case."""
    match style:
        case "json":
            from specdec_cli.report.json import render_json

            return render_json(record)
        case "csv":
            from specdec_cli.report.csv import recommend_csv

            return recommend_csv(record)
        case "markdown":
            from specdec_cli.report.markdown import recommend_markdown

            return recommend_markdown(record, working=working)
        case _:
            from specdec_cli.report.table import recommend_table

            return recommend_table(record, width=width, colour=colour, working=working)
