"""The record as JSON: strict (no NaN, no Infinity) and ASCII, so that any pipe carries it."""

from __future__ import annotations

import json
from typing import Any


def render_json(record: dict[str, Any]) -> str:
    """The whole record. Raises ValueError for a number that JSON cannot hold."""
    return json.dumps(record, indent=2, allow_nan=False)
