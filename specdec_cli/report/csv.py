"""Points as comma-separated values: the JSON's keys as headers, the JSON's numbers in full."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from specdec_cli.errors import shown

Record = dict[str, Any]

POINT_KEYS = (
    *("batch", "draft_length", "verify_width", "acceptance_length", "acceptance_basis", "target_ms", "verify_ms"),
    *("draft_ms", "step_ms", "speedup", "speedup_low", "speedup_high", "interactivity_tokens_per_s_per_user"),
    *("throughput_tokens_per_s_per_gpu", "bound", "on_frontier", "drafter", "hardware", "tp", "gpus"),
)
OPTIONAL_KEYS = (
    "step_basis",
    *("cost_usd_per_million_tokens", "serving_tpot_ms", "serving_throughput_tokens_per_s_per_gpu", "serving_speedup"),
    *("decode_batch", "serving_cost_usd_per_million_tokens"),
)
"""Keys that points have with a calibration, where a price is known, and where prompt lengths were given."""
FORMULA = ("=", "+", "-", "@")
"""How a cell begins that spreadsheets compute, were it a name or a path: an apostrophe before it keeps it text."""
SCHEDULE_KEYS = ("batch_from", "batch_to", "draft_length")


def sweep_csv(record: Record) -> str:
    """One row a point."""
    return csv_table(point_keys(record["points"]), record["points"])


def recommend_csv(record: Record) -> str:
    """The choice and its alternatives, marked so in `role`; the schedule where no single point was asked for."""
    choice = record["choice"]
    if choice is None:
        return csv_table(SCHEDULE_KEYS, record["schedule"])
    roles = [{"role": "choice", **choice}, *({"role": "alternative", **point} for point in record["alternatives"])]
    return csv_table(("role", *point_keys([choice])), roles)


def point_keys(points: Sequence[Record]) -> tuple[str, ...]:
    """The columns of these points."""
    return (*POINT_KEYS, *(key for key in OPTIONAL_KEYS if points and key in points[0]))


def listing_csv(record: Record) -> str:
    """One row a profile; the columns of all kinds listed."""
    keys = dict.fromkeys(key for profile in record["profiles"] for key in profile)
    return csv_table(tuple(keys), record["profiles"])


def csv_table(keys: Sequence[str], rows: Iterable[Record]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([_cell(row.get(key)) for key in keys] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Booleans as JSON writes them; missing is empty; lists in one cell; text that no spreadsheet takes as a formula.

    Lines stay lines, for a cell may hold commands to copy.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = " ".join(str(item) for item in value)
    if isinstance(value, str):
        safe = "\n".join(map(shown, value.split("\n")))
        return f"'{safe}" if value.startswith(FORMULA) else safe
    return "" if value is None else repr(value) if isinstance(value, float) else value
