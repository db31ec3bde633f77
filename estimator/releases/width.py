"""How wide intervals are, and how many reports would make them as narrow as wanted."""

import math
from collections.abc import Sequence

from estimator.drawing import PAPER, Palette, Spec, spec
from estimator.estimates import Estimates
from estimator.releases.charts import TIMES, days_and_gaps, titled
from estimator.releases.release import Release

TARGET = 0.01
"""Half-width that intervals should have, as a share: plus or minus one percentage point."""


def n_needed(estimates: Estimates, target: float = TARGET) -> int | None:
    """Return with how many reports the widest interval would be `target`, shares being as they are.

    None without intervals.
    """
    half = estimates.half_width
    return None if half is None else math.ceil(estimates.n * (half / target) ** 2)


def width_chart(
    history: Sequence[Release],
    palette: Palette = PAPER,
    width: int = 560,
    target: float = TARGET,
) -> Spec | None:
    """Return a chart of the widest interval over time, beside what is wanted.

    Returns:
        None with fewer than two published releases.
    """
    halves = [
        None if release.estimates is None else release.estimates.half_width for release in history
    ]
    if sum(half is not None for half in halves) < 2:
        return None
    rows = [
        {"day": day, "points": None if place is None else _points(halves[place])}
        for day, place in days_and_gaps(history)
    ]
    x = {
        "field": "day",
        "type": "temporal",
        "title": None,
        "scale": {"type": "utc"},
        "axis": TIMES,
    }
    y = {
        "field": "points",
        "type": "quantitative",
        "title": None,
        "scale": {"zero": True},
        "axis": {"tickCount": 4},
    }
    wanted = {
        "values": [{"points": 100 * target, "text": f"target \N{PLUS-MINUS SIGN} {100 * target:g}"}]
    }
    line = {
        "mark": {"type": "rule", "color": palette.warning, "strokeDash": [5, 4]},
        "data": wanted,
    }
    named = {
        "mark": {
            "type": "text",
            "align": "left",
            "baseline": "bottom",
            "dy": -3,
            "dx": 4,
            "color": palette.warning,
            "fontSize": 12,
        },
        "data": wanted,
        "encoding": {"y": y, "text": {"field": "text"}, "x": {"value": 0}},
    }
    marks = [
        {
            "mark": {
                "type": "line",
                "color": palette.accent,
                "invalid": "break-paths-filter-domains",
                "point": {"filled": True, "size": 24, "color": palette.accent},
            },
            "encoding": {"x": x, "y": y},
        },
        line | {"encoding": {"y": y}},
        named,
    ]
    heading = titled("widest interval, \N{PLUS-MINUS SIGN} percentage points", palette)
    parts = {"data": {"values": rows}, "width": width, "height": 110, "layer": marks}
    return spec(parts | heading, palette)


def _points(half: float | None) -> float | None:
    return None if half is None else 100 * half
