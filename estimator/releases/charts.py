"""Charts of releases: one Vega-Lite specification each, drawn as SVG or PNG without a network.

Shares stand where they were estimated, negative ones left of zero; an epoch without a published
release is a gap, never a zero.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from client_sdk.metric import Label
from estimator.drawing import PAPER, Palette, Spec, spec
from estimator.estimates import Estimate
from estimator.releases.release import Release

MOST_SHARES = 20
MOST_IN_ORDER = 32
"""As many values as stay in an order of their own."""
MOST_TRENDS = 6
MOST_POINTS = 100
"""Epochs; of more, lines and bands alone are drawn, and points where no line is."""
UNLISTED = "(not listed)"
_LONGEST_NAME = 40
_UNDRAWABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no place for; the drawing library ends the process over it."""
_ORDERED = ("boolean", "number", "ordinal")
DAYS: Spec = {
    "field": "day",
    "type": "temporal",
    "title": None,
    "scale": {"type": "utc"},
    "axis": {"format": "%-d %b %Y", "labelOverlap": True, "labelSeparation": 12, "tickCount": 3},
}
"""Encoding of the days of releases."""
_GAPS = "break-paths-filter-domains"

Names = Mapping[tuple[type, Label | None], str]
"""Of values, by type and value."""


def shares_chart(
    release: Release,
    palette: Palette = PAPER,
    width: int = 560,
    label_width: int = 260,
    title: str | None = None,
    named: Sequence[tuple[str, Estimate]] | None = None,
) -> Spec | None:
    """Return the chart of a release's largest shares with their intervals; None if withheld.

    Args:
        release: What is drawn.
        palette: Its colours.
        width: Of the room for the shares, in pixels.
        label_width: Most that names take beside it, in pixels.
        title: What the picture says of itself, where it may go without its page.
        named: Its entries in an order and under names of somebody else's; None: see
            `shown_entries` and `names_of`.
    """
    if named is None:
        names = names_of(release)
        named = [(names[type(each.value), each.value], each) for each in shown_entries(release)]
    if not named:
        return None
    rows = [
        {
            "value": name,
            "share": entry.share,
            "low": entry.interval[0] if entry.interval else None,
            "high": entry.interval[1] if entry.interval else None,
            "text": in_percent(entry.share),
            "end": max(0.0, entry.interval[1] if entry.interval else entry.share or 0.0),
        }
        for name, entry in named
    ]
    level = release.estimates.level if release.estimates else 0.95
    y = {
        "field": "value",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"labelLimit": label_width},
    }
    x = {"field": "share", "type": "quantitative", "title": f"share, with {level:.0%} interval"}
    axis = {"axis": {"format": ".0%", "tickCount": max(3, width // 80), "labelOverlap": True}}
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
                "x": {"field": "end", "type": "quantitative"},
                "text": {"field": "text"},
            },
        },
    ]
    parts = {"data": {"values": rows}, "width": width, "height": {"step": 24}, "layer": marks}
    return spec(parts if title is None else parts | titled(title, palette), palette)


def titled(title: str, palette: Palette) -> Spec:
    """Return what puts a title above a chart."""
    look = {"anchor": "start", "color": palette.quiet, "fontSize": 12, "fontWeight": "normal"}
    return {"title": {"text": title, **look}}


def trend_chart(
    history: Sequence[Release], palette: Palette = PAPER, columns: int = 2
) -> Spec | None:
    """Return small charts of the largest shares over time, with their intervals as bands.

    Args:
        history: Releases of one metric and version, at most one per epoch, oldest first. Epochs
            between them that are missing or withheld show as gaps.
        palette: Its colours.
        columns: How many small charts stand side by side.

    Returns:
        None with fewer than two published ones.
    """
    published = [release for release in history if release.estimates is not None]
    if len(published) < 2 or not largest(published[-1], 1):
        return None
    names = names_of(published[-1])
    values = [entry.value for entry in largest(published[-1], MOST_TRENDS)]
    rows = [row for value in values for row in _trend_rows(value, names, history)]
    y_axis = {"format": ".0%", "tickCount": 4}
    y = {"field": "share", "type": "quantitative", "title": None, "axis": y_axis}
    marks = band_over_time(rows, y, palette, crowded=len(history) > MOST_POINTS)
    order = [names[type(value), value] for value in values]
    return spec(
        {
            "data": {"values": rows},
            "columns": columns,
            "facet": {"field": "value", "type": "nominal", "sort": order},
            "spec": {"width": 280, "height": 90, "layer": marks},
            "resolve": {"scale": {"y": "independent"}, "axis": {"x": "independent"}},
        },
        palette,
    )


def band_over_time(
    rows: Sequence[Mapping[str, Any]], y: Spec, palette: Palette, *, crowded: bool
) -> list[Spec]:
    """Return the marks of one figure over `day`: its line, and its interval as a band.

    Args:
        rows: With `day`, the figure, its ends `low` and `high`, and whether it is `alone`: an epoch
            between two gaps, which has neither line nor band.
        y: Encoding of the figure.
        palette: Its colours.
        crowded: Only what is alone has a point, for there is no room for more.
    """
    pointed: dict[str, Any] = {"transform": [{"filter": "datum.alone"}]} if crowded else {}
    ends = {"x": DAYS, "y": y | {"field": "low"}, "y2": {"field": "high"}}
    point = {"type": "point", "filled": True, "size": 30, "color": palette.accent, "opacity": 1}
    lines = [
        {
            "mark": {"type": "area", "color": palette.accent, "opacity": 0.2, "invalid": _GAPS},
            "encoding": ends,
        },
        {
            "mark": {"type": "line", "color": palette.accent, "invalid": _GAPS},
            "encoding": {"x": DAYS, "y": y},
        },
    ]
    if crowded and not any(row["alone"] and row[y["field"]] is not None for row in rows):
        return lines
    rule = {"type": "rule", "color": palette.accent, "opacity": 0.5}
    return [
        *lines,
        {"mark": rule, "encoding": ends, **pointed},
        {"mark": point, "encoding": {"x": DAYS, "y": y}, **pointed},
    ]


def shown_entries(release: Release, most: int = MOST_SHARES) -> list[Estimate]:
    """Return the entries that there is room for, largest first; unlisted strings last.

    Values that have an order of their own keep it where all of them fit.
    """
    estimates = release.estimates
    if estimates is None:
        return []
    entries = [entry for entry in estimates.entries if entry.share is not None]
    if release.type in _ORDERED and len(entries) <= max(most, MOST_IN_ORDER):
        most = len(entries)
    else:
        entries.sort(key=lambda entry: -(entry.share or 0.0))
    entries = entries[:most]
    if estimates.other is not None and estimates.other.share is not None:
        entries.append(estimates.other)
    return entries


def largest(release: Release, most: int) -> list[Estimate]:
    """Return the entries with the largest shares, in the order of `shown_entries`."""
    entries = shown_entries(release)
    kept = sorted(entries, key=lambda entry: -(entry.share or 0.0))[:most]
    return [entry for entry in entries if any(entry is each for each in kept)]


def names_of(release: Release) -> Names:
    """Return what values are called in charts and tables: no two of them alike."""
    entries = () if release.estimates is None else release.estimates.all_entries
    names = apart(whole(entry.value) for entry in entries)
    return {(type(e.value), e.value): name for e, name in zip(entries, names, strict=True)}


def apart(texts: Iterable[str]) -> list[str]:
    """Return texts, cut where they are very long, so that no two of them are alike."""
    names: dict[str, None] = {}
    for text in texts:
        name, number = short(text), 1
        while name in names:
            number += 1
            name = f"{short(text)} ({number})"
        names[name] = None
    return list(names)


def shown(value: Label | None) -> str:
    """Return a value as people read it, cut if it is very long."""
    return short(whole(value))


def short(text: str) -> str:
    """Return a text that can be drawn, cut if it is very long."""
    text = _UNDRAWABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    if len(text) > _LONGEST_NAME:
        text = text[: _LONGEST_NAME - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return text


def whole(value: Label | None) -> str:
    """Return a value as people read it, however long."""
    if value is None:
        return UNLISTED
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _UNDRAWABLE.sub("\N{REPLACEMENT CHARACTER}", str(value))


def in_percent(share: float | None) -> str:
    """Return a share in percent with two decimals and a true minus sign; a dash for None."""
    if share is None:
        return "\N{EN DASH}"
    return f"{in_points(share)} %"


def in_points(share: float) -> str:
    """Return a share, or a difference of two, in hundredths with two decimals."""
    return f"{100 * share:.2f}".replace("-", "\N{MINUS SIGN}")


def days_and_gaps(history: Sequence[Release]) -> Iterator[tuple[str, int | None]]:
    """Yield the first day of each release with its place, and of each run of missing epochs None.

    Args:
        history: Releases of one metric, at most one per epoch, oldest first.
    """
    due: date | None = None
    for place, release in enumerate(history):
        first, last = (date.fromisoformat(d) for d in (release.first_day, release.last_day))
        if due is not None and first > due:
            yield due.isoformat(), None
        due = last + timedelta(days=1)
        yield first.isoformat(), place


def _trend_rows(
    value: Label | None, names: Names, history: Sequence[Release]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for day, place in days_and_gaps(history):
        row = {"value": names[type(value), value], "day": day, "alone": False}
        entry = None if place is None else entry_of(history[place], value)
        if entry is None or entry.share is None or entry.interval is None:
            rows.append(row | dict.fromkeys(("share", "low", "high")))
            continue
        low, high = entry.interval
        rows.append(row | {"share": entry.share, "low": low, "high": high})
    ends = [None, *(row["share"] for row in rows), None]
    for place, row in enumerate(rows):
        row["alone"] = ends[place] is None and ends[place + 2] is None
    return rows


def entry_of(release: Release, name: Label | None) -> Estimate | None:
    """Return the entry of a value; None if the release has none."""
    estimates = release.estimates
    if estimates is None:
        return None
    if name is None:
        return estimates.other
    same = (entry for entry in estimates.entries if entry.value == name)
    return next((entry for entry in same if type(entry.value) is type(name)), None)
