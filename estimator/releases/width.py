"""How wide intervals are, and how many reports would make them as narrow as wanted."""

import math
from collections.abc import Sequence

from estimator.drawing import PAPER, Palette, Spec, spec
from estimator.releases.caveats import SMOOTHED
from estimator.releases.charts import DAYS, days_and_gaps, titled
from estimator.releases.release import Release

TARGET = 0.01
"""Half-width that intervals should have: plus or minus one percentage point of a share, or one
percent of the range of a mean."""


def half_width(release: Release) -> float | None:
    """Return half the width of the widest interval of a share, or of a mean by itself.

    Returns:
        In shares of 1, of a mean in parts of its range; None where there is none.
    """
    estimates = release.estimates
    if estimates is None:
        return None
    mean = estimates.mean
    if estimates.all_entries or mean is None or release.range is None:
        return estimates.half_width
    low, high = release.range
    return (mean.interval[1] - mean.interval[0]) / 2 / (high - low)


def is_of_a_mean(release: Release) -> bool:
    """Say whether `half_width` is that of a mean."""
    estimates = release.estimates
    return estimates is not None and not estimates.all_entries and estimates.mean is not None


def n_needed(release: Release, target: float = TARGET) -> int | None:
    """Return with how many reports the widest interval would be `target`, figures as they are.

    None without intervals, and of smoothed shares: no number of reports takes their bias away.
    """
    half, estimates = half_width(release), release.estimates
    if half is None or estimates is None or release.channels.mechanism in SMOOTHED:
        return None
    return math.ceil(estimates.n * (half / target) ** 2)


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
    halves = [half_width(release) for release in history]
    if sum(half is not None for half in halves) < 2:
        return None
    rows = [
        {"day": day, "points": None if place is None else _points(halves[place])}
        for day, place in days_and_gaps(history)
    ]
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
            "encoding": {"x": DAYS, "y": y},
        },
        line | {"encoding": {"y": y}},
        named,
    ]
    of_means = any(is_of_a_mean(release) for release in history)
    unit = "% of the range" if of_means else "percentage points"
    heading = titled(f"widest interval, \N{PLUS-MINUS SIGN} {unit}", palette)
    parts = {"data": {"values": rows}, "width": width, "height": 110, "layer": marks}
    return spec(parts | heading, palette)


def _points(half: float | None) -> float | None:
    return None if half is None else 100 * half
