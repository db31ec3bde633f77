"""Draws Vega-Lite specifications as SVG or PNG, for light and for dark pages, without a network."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import vl_convert

Spec = dict[str, Any]


@dataclass(frozen=True)
class Palette:
    """The colours of a chart, CSS colours all.

    Attributes:
        background: Behind everything; transparent where a page shines through.
        ink: Texts and intervals.
        quiet: Titles of axes and lines that only orient.
        accent: What is estimated.
        warning: What should not be.
        grid: Lines of the grid.
        series: Of several things side by side, told apart also by people who see few colours.
    """

    background: str
    ink: str
    quiet: str
    accent: str
    warning: str
    grid: str
    series: tuple[str, ...]


PAPER = Palette(
    background="white",
    ink="#1a1a2e",
    quiet="#6b7280",
    accent="#2457a8",
    warning="#b45309",
    grid="#e5e7eb",
    series=("#2457a8", "#b45309", "#0f766e", "#7e3f98", "#6b7280", "#9f1239"),
)
"""For files that are printed and sent."""
DAYLIGHT = Palette("transparent", *list(vars(PAPER).values())[1:])
"""For light pages."""
NIGHT = Palette(
    background="transparent",
    ink="#e6e8ee",
    quiet="#9aa3b2",
    accent="#82b1ff",
    warning="#f0a04b",
    grid="#2c3443",
    series=("#82b1ff", "#f0a04b", "#5fd3c0", "#cf9df0", "#9aa3b2", "#ff8fa8"),
)
"""For dark pages."""


def spec(parts: Spec, palette: Palette = PAPER) -> Spec:
    """Return a whole specification: its parts in the house's look."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "config": _config(palette),
        **parts,
    }


def svg_of(chart: Spec) -> str:
    """Draw a specification; needs no fonts, scripts or network to be shown."""
    return _drawn(json.dumps(chart))


def png_of(svg: str) -> bytes:
    """Return a drawn chart as PNG, at twice its size."""
    return bytes(vl_convert.svg_to_png(svg, scale=2))


@lru_cache(maxsize=128)
def _drawn(text: str) -> str:
    return str(vl_convert.vegalite_to_svg(text))


def _config(palette: Palette) -> Spec:
    return {
        "background": palette.background,
        "font": "Helvetica, Arial, sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": palette.ink,
            "titleColor": palette.quiet,
            "titleFontWeight": "normal",
            "gridColor": palette.grid,
            "domain": False,
            "ticks": False,
            "labelLimit": 260,
            "labelFontSize": 12,
            "labelPadding": 6,
        },
        "header": {
            "labelFontSize": 12,
            "labelColor": palette.ink,
            "labelAnchor": "start",
            "title": None,
        },
        "legend": {
            "labelColor": palette.ink,
            "labelFontSize": 12,
            "labelLimit": 260,
            "titleColor": palette.quiet,
            "titleFontWeight": "normal",
        },
    }
