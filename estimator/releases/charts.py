"""Charts of releases: one Vega-Lite specification each, drawn as SVG or PNG without a network.

Shares stand where they were estimated, negative ones left of zero; an epoch without a published
release is a gap, never a zero.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from client_sdk.metric import Label
from estimator.drawing import PAPER, Palette, Spec, spec, svg_of
from estimator.estimate import Estimate
from estimator.releases.release import Release

MOST_SHARES = 20
MOST_TRENDS = 6
UNLISTED = "(not listed)"
_LONGEST_NAME = 40
_UNDRAWABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no place for; the drawing library ends the process over it."""
_ORDERED = ("boolean", "number", "ordinal")
_GAPS = "break-paths-filter-domains"


def shares_chart(release: Release, palette: Palette = PAPER) -> Spec | None:
    """Return the chart of a release's largest shares with their intervals; None if withheld."""
    entries = shown_entries(release)
    if not entries:
        return None
    rows = [
        {
            "value": shown(entry.value),
            "share": entry.share,
            "low": entry.interval[0] if entry.interval else None,
            "high": entry.interval[1] if entry.interval else None,
            "text": in_percent(entry.share),
        }
        for entry in entries
    ]
    level = release.estimates.level if release.estimates else 0.95
    y = {"field": "value", "type": "nominal", "sort": None, "title": None}
    x = {"field": "share", "type": "quantitative", "title": f"share, with {level:.0%} interval"}
    axis = {"axis": {"format": ".0%", "tickCount": 7, "labelOverlap": True}}
    marks: list[dict[str, Any]] = [
        {
            "mark": {
                "type": "bar",
                "color": palette.accent,
                "opacity": 0.25,
                "height": {"band": 0.55},
            },
            "encoding": {"y": y, "x": x | axis},
        },
        {
            "mark": {"type": "rule", "color": palette.ink, "strokeWidth": 1.5},
            "encoding": {
                "y": y,
                "x": {"field": "low", "type": "quantitative"},
                "x2": {"field": "high"},
            },
        },
        {
            "mark": {
                "type": "point",
                "filled": True,
                "size": 55,
                "color": palette.accent,
                "opacity": 1,
            },
            "encoding": {"y": y, "x": x},
        },
        {
            "mark": {"type": "rule", "color": palette.quiet},
            "data": {"values": [{"zero": 0}]},
            "encoding": {"x": {"field": "zero", "type": "quantitative"}},
        },
        {
            "mark": {
                "type": "text",
                "align": "left",
                "dx": 8,
                "color": palette.ink,
                "fontSize": 12,
            },
            "encoding": {
                "y": y,
                "x": {"field": "high", "type": "quantitative"},
                "text": {"field": "text"},
            },
        },
    ]
    parts = {"data": {"values": rows}, "width": 560, "height": {"step": 24}, "layer": marks}
    return spec(parts, palette)


def trend_chart(history: Sequence[Release], palette: Palette = PAPER) -> Spec | None:
    """Return small charts of the largest shares over time, with their intervals as bands.

    Args:
        history: Releases of one metric and version, at most one per epoch, oldest first. Epochs
            between them that are missing or withheld show as gaps.
        palette: Its colours.

    Returns:
        None with fewer than two published ones.
    """
    published = [release for release in history if release.estimates is not None]
    if len(published) < 2:
        return None
    names = [entry.value for entry in shown_entries(published[-1])[:MOST_TRENDS]]
    rows = [row for name in names for row in _trend_rows(name, history)]
    x = {
        "field": "day",
        "type": "temporal",
        "title": None,
        "scale": {"type": "utc"},
        "axis": {"format": "%d %b %Y", "labelOverlap": True, "tickCount": 4},
    }
    y_axis = {"format": ".0%", "tickCount": 4}
    y = {"field": "share", "type": "quantitative", "title": None, "axis": y_axis}
    marks = [
        {
            "mark": {
                "type": "area",
                "color": palette.accent,
                "opacity": 0.2,
                "invalid": _GAPS,
            },
            "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "line", "color": palette.accent, "invalid": _GAPS},
            "encoding": {"x": x, "y": y},
        },
        {  # an epoch between two gaps has no band
            "mark": {"type": "rule", "color": palette.accent, "opacity": 0.5},
            "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {
                "type": "point",
                "filled": True,
                "size": 30,
                "color": palette.accent,
                "opacity": 1,
            },
            "encoding": {"x": x, "y": y},
        },
    ]
    return spec(
        {
            "data": {"values": rows},
            "columns": 2,
            "facet": {"field": "value", "type": "nominal", "sort": [shown(n) for n in names]},
            "spec": {"width": 280, "height": 90, "layer": marks},
            "resolve": {"scale": {"y": "independent"}},
        },
        palette,
    )


@dataclass(frozen=True)
class Drawn:
    """A release's charts as SVG, which needs no fonts, scripts or network; None: there is none.

    Attributes:
        shares: See `shares_chart`.
        trend: See `trend_chart`.
    """

    shares: str | None
    trend: str | None


def draw(release: Release, history: Sequence[Release]) -> Drawn:
    """Draw the charts of a release; `history` is that of `trend_chart`, the release included."""
    return Drawn(_svg(shares_chart(release)), _svg(trend_chart(history)))


def shown_entries(release: Release) -> list[Estimate]:
    """Return the entries that a chart has room for, largest first; unlisted strings last.

    Values that have an order of their own keep it where all of them fit.
    """
    estimates = release.estimates
    if estimates is None:
        return []
    entries = [entry for entry in estimates.entries if entry.share is not None]
    if len(entries) > MOST_SHARES or release.type not in _ORDERED:
        entries.sort(key=lambda entry: -(entry.share or 0.0))
    entries = entries[:MOST_SHARES]
    if estimates.other is not None and estimates.other.share is not None:
        entries.append(estimates.other)
    return entries


def shown(value: Label | None) -> str:
    """Return a value as people read it, cut if it is very long."""
    if value is None:
        return UNLISTED
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = _UNDRAWABLE.sub("\N{REPLACEMENT CHARACTER}", str(value))
    if len(text) > _LONGEST_NAME:
        text = text[: _LONGEST_NAME - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return text


def in_percent(share: float | None) -> str:
    """Return a share in percent with two decimals and a true minus sign; a dash for None."""
    if share is None:
        return "\N{EN DASH}"
    return f"{in_points(share)} %"


def in_points(share: float) -> str:
    """Return a share, or a difference of two, in hundredths with two decimals."""
    return f"{100 * share:.2f}".replace("-", "\N{MINUS SIGN}")


def _svg(chart: Spec | None) -> str | None:
    return None if chart is None else svg_of(chart)


def _trend_rows(name: Label | None, history: Sequence[Release]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    due: date | None = None
    for release in history:
        first, last = (date.fromisoformat(d) for d in (release.first_day, release.last_day))
        if due is not None and first > due:
            rows.append(_gap(name, due))
        due = last + timedelta(days=1)
        entry = _entry(release, name)
        if entry is None or entry.share is None or entry.interval is None:
            rows.append(_gap(name, first))
            continue
        low, high = entry.interval
        rows.append(
            {
                "value": shown(name),
                "day": first.isoformat(),
                "share": entry.share,
                "low": low,
                "high": high,
            }
        )
    return rows


def _gap(name: Label | None, day: date) -> dict[str, Any]:
    nothing = dict.fromkeys(("share", "low", "high"))
    return {"value": shown(name), "day": day.isoformat()} | nothing


def _entry(release: Release, name: Label | None) -> Estimate | None:
    estimates = release.estimates
    if estimates is None:
        return None
    if name is None:
        return estimates.other
    same = (entry for entry in estimates.entries if entry.value == name)
    return next((entry for entry in same if type(entry.value) is type(name)), None)
