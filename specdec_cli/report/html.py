"""Pieces of pages: escaped text, tables, blocks to copy, and a whole document that asks nothing of any network."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Sequence
from html import escape
from typing import Any

from specdec_cli.errors import shown
from specdec_cli.report.columns import Grid

# Nothing but this file: no request leaves it. Vega compiles its expressions, hence 'unsafe-eval'.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def text(value: object) -> str:
    """Text as it stands, its lines too: nothing in it is read as markup or turns the direction of reading."""
    return escape("\n".join(map(shown, str(value).split("\n"))))


def table(grid: Grid, *, caption: str = "", chosen: frozenset[int] = frozenset()) -> str:
    """A table that scrolls sideways where it is too wide."""
    numeric = [' class="n"' if right else "" for right in grid.numeric]
    head = "".join(f'<th scope="col"{c}>{text(h)}</th>' for h, c in zip(grid.headers, numeric, strict=True))
    rows = []
    for at, cells in enumerate(grid.rows):
        body = "".join(f"<td{c}>{text(cell)}</td>" for cell, c in zip(cells, numeric, strict=True))
        rows.append(f'<tr class="chosen">{body}</tr>' if at in chosen else f"<tr>{body}</tr>")
    title = f'<caption class="visually-hidden">{text(caption)}</caption>' if caption else ""
    return (
        f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def bullets(lines: Sequence[str]) -> str:
    """A list of sentences."""
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>"


def to_copy(content: str, what: str) -> str:
    """A block of text with a button that copies it."""
    return (
        f'<div class="copyable"><pre tabindex="0" aria-label="{text(what)}">{text(content)}</pre>'
        f'<button type="button" data-copy aria-label="Copy {text(what)}">Copy</button></div>'
    )


def document(title: str, body: str, payload: dict[str, Any], library: str) -> str:
    """The whole page. payload: what page.js draws. library: the JavaScript of Vega, Vega-Lite and Vega-Embed."""
    data = json.dumps(payload, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    vega = library.replace("</script", "<\\/script")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="specdec">
<link rel="icon" href="data:,">
<title>{text(title)}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<main>
{body}
</main>
<noscript><p>The charts need JavaScript; the tables and texts do not.</p></noscript>
<script type="application/json" id="specdec-data">{data}</script>
<script>
{vega}
</script>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    """A part of this package: styles and behaviour of the page, kept in files of their own."""
    found = pkgutil.get_data("specdec_cli.report", f"web/{name}")
    assert found is not None  # it is part of the package
    return found.decode("utf-8")
