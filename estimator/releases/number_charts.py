"""Charts of numbers: mean and quantiles with their intervals, now and over time."""

from collections.abc import Sequence
from typing import Any

from estimator.drawing import PAPER, Palette, Spec, spec
from estimator.releases.charts import MOST_POINTS, band_over_time, days_and_gaps, titled
from estimator.releases.number import figure_in_unit, figures, foremost
from estimator.releases.release import Release


def number_chart(
    release: Release, palette: Palette = PAPER, width: int = 560, title: str | None = None
) -> Spec | None:
    """Return the chart of a release's mean and quantiles on the range; None if it has none.

    Args:
        release: What is drawn.
        palette: Its colours.
        width: Of the room for the range, in pixels.
        title: What the picture says of itself, where it may go without its page.
    """
    estimates = release.estimates
    found = [] if estimates is None else figures(estimates)
    if estimates is None or not found:
        return None
    rows = [
        {
            "name": each.name,
            "value": each.value,
            "low": each.interval[0],
            "high": each.interval[1],
            "text": figure_in_unit(each),
        }
        for each in found
    ]
    y = {"field": "name", "type": "nominal", "sort": None, "title": None}
    scale: dict[str, Any] = {"zero": False}
    if release.range is not None:
        ends = [*release.range, *(each.value for each in found)]
        ends += [end for each in found for end in each.interval]
        scale |= {"domain": [min(ends), max(ends)], "nice": True}
    x = {
        "field": "value",
        "type": "quantitative",
        "title": f"with {estimates.level:.0%} interval; the axis is the range",
        "scale": scale,
        "axis": {"tickCount": max(3, width // 80), "labelOverlap": True},
    }
    marks: list[dict[str, Any]] = [
        {
            "mark": {"type": "rule", "color": palette.ink, "strokeWidth": 1.5},
            "encoding": {"y": y, "x": x | {"field": "low"}, "x2": {"field": "high"}},
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
            "mark": {"type": "text", "dy": -11, "color": palette.ink, "fontSize": 12},
            "encoding": {"y": y, "x": x, "text": {"field": "text"}},
        },
    ]
    parts = {"data": {"values": rows}, "width": width, "height": {"step": 36}, "layer": marks}
    return spec(parts if title is None else parts | titled(title, palette), palette)


def number_trend_chart(
    history: Sequence[Release], palette: Palette = PAPER, width: int = 560
) -> Spec | None:
    """Return the mean, or else the median, over time, with its interval as a band.

    Args:
        history: Releases of one metric and version, at most one per epoch, oldest first. Epochs
            between them that are missing or withheld show as gaps.
        palette: Its colours.
        width: In pixels.

    Returns:
        None with fewer than two that have the figure of the last one.
    """
    published = [release for release in history if release.estimates is not None]
    last = foremost(published[-1].estimates) if published else None
    if last is None:
        return None
    rows = _rows(history, last.name)
    if sum(row["value"] is not None for row in rows) < 2:
        return None
    y = {
        "field": "value",
        "type": "quantitative",
        "title": None,
        "scale": {"zero": False},
        "axis": {"tickCount": 5},
    }
    marks = band_over_time(rows, y, palette, crowded=len(history) > MOST_POINTS)
    parts = {
        "data": {"values": rows},
        "width": width,
        "height": 160,
        "layer": marks,
    }
    return spec(parts | titled(last.name, palette), palette)


def _rows(history: Sequence[Release], name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for day, place in days_and_gaps(history):
        row = {"day": day, "alone": False}
        estimates = None if place is None else history[place].estimates
        known = [] if estimates is None else figures(estimates)
        found = next((each for each in known if each.name == name), None)
        if found is None:
            rows.append(row | dict.fromkeys(("value", "low", "high")))
            continue
        low, high = found.interval
        rows.append(row | {"value": found.value, "low": low, "high": high})
    ends = [None, *(row["value"] for row in rows), None]
    for place, row in enumerate(rows):
        row["alone"] = ends[place] is None and ends[place + 2] is None
    return rows
