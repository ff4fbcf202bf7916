"""Specifications into files: SVG, PNG and PDF, and the JavaScript that a page draws with; all without a network."""

from __future__ import annotations

from typing import Any

import vl_convert

from specdec_cli.report.chart_spec import vega_lite_version

PIXELS_PER_UNIT = 2
"""Of a PNG: sharp on the usual dense screens."""


def image(spec: dict[str, Any], style: str) -> bytes:
    """The chart as an image file. style: svg, png or pdf."""
    version = vega_lite_version()
    match style:
        case "svg":
            return vl_convert.vegalite_to_svg(spec, vl_version=version).encode()
        case "png":
            return vl_convert.vegalite_to_png(spec, vl_version=version, scale=PIXELS_PER_UNIT)
        case _:
            return vl_convert.vegalite_to_pdf(spec, vl_version=version)


def library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, in the versions that the charts are written for."""
    # Without a snippet of one's own, which its types ask for and its code does not, it sets window.vegaEmbed.
    return vl_convert.javascript_bundle(vl_version=vega_lite_version())  # type: ignore[call-arg]
