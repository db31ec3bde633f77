"""A release as one self-contained page: charts, numbers and what they mean, in plain words.

The page loads nothing, runs no script, and holds nothing that the release does not publish.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from estimator.errors import NotPublishable
from estimator.estimate import Estimate, Estimates
from estimator.releases.across_epochs import AcrossEpochs, change
from estimator.releases.alarms import alarms
from estimator.releases.charts import (
    MOST_SHARES,
    Drawn,
    in_percent,
    in_points,
    shown,
    shown_entries,
)
from estimator.releases.release import Release

Facts = list[tuple[str, str]]


def page(release: Release, history: Sequence[Release], drawn: Drawn) -> str:
    """Return the HTML text.

    Args:
        release: What the page is about.
        history: Releases that are comparable with it, it included, oldest first.
        drawn: Its charts.
    """
    context: dict[str, Any] = {
        "release": release,
        "document": f"{release.metric}/{release.epoch}.{release.fingerprint}.json",
        "privacy": _privacy(release),
    }
    if release.estimates is not None:
        context |= _numbers(release, release.estimates, history)
        # Drawn by Vega from data, which it escapes.
        context |= {"shares": Markup(drawn.shares or ""), "trend": Markup(drawn.trend or "")}
    return render("release.html", **context)


def render(template: str, **context: Any) -> str:
    """Fill in a template of this package; every text is escaped."""
    return _templates().get_template(template).render(context)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("estimator"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _numbers(release: Release, estimates: Estimates, history: Sequence[Release]) -> dict[str, Any]:
    moved = _change(release, history)
    entries = shown_entries(release)
    changes = {} if moved is None else _changes(moved)
    return {
        "level": f"{estimates.level:.0%}",
        "level_of_100": f"{100 * estimates.level:g}",
        "odds": f"{1 / (1 - estimates.level):.0f}",
        "alarms": alarms(release),
        "summary": _summary(estimates, entries),
        "hidden": max(0, len(estimates.entries) - MOST_SHARES),
        "since": moved.epochs[0] if moved is not None else None,
        "rows": [_row(entry, changes) for entry in entries],
        "sureness": _sureness(release, estimates),
    }


def _summary(estimates: Estimates, entries: Sequence[Estimate]) -> str:
    devices = f"{estimates.n:,} devices reported."
    listed = [entry for entry in entries if entry.value is not None and entry.interval]
    if not listed:
        return devices
    top = max(listed, key=lambda entry: entry.share or 0.0)
    low, high = top.interval or (0.0, 0.0)
    return (
        f"{devices} The largest estimated share is \N{LEFT DOUBLE QUOTATION MARK}{shown(top.value)}"
        f"\N{RIGHT DOUBLE QUOTATION MARK}: {in_percent(top.share)}, probably between "
        f"{in_percent(low)} and {in_percent(high)}."
    )


def _row(entry: Estimate, changes: Mapping[object, str]) -> dict[str, str]:
    ends = entry.interval
    return {
        "value": shown(entry.value),
        "share": in_percent(entry.share),
        "error": in_percent(entry.standard_error),
        "interval": f"{in_percent(ends[0])} to {in_percent(ends[1])}" if ends else "",
        "present": "yes" if entry.significant else "no",
        "change": changes.get((type(entry.value), entry.value), ""),
    }


def _change(release: Release, history: Sequence[Release]) -> AcrossEpochs | None:
    before = [other for other in history if other.last_day < release.first_day]
    if not before:
        return None
    try:
        return change(before[-1], release)
    except NotPublishable:  # withheld, or of other values
        return None


def _changes(moved: AcrossEpochs) -> dict[object, str]:
    return {
        (type(entry.value), entry.value): (
            f"{in_points(entry.share)} \N{PLUS-MINUS SIGN} {in_points(_half(entry.interval))}"
            f" points{'' if entry.significant else ' (may be noise)'}"
        )
        for entry in moved.entries
    }


def _half(interval: tuple[float, float]) -> float:
    return (interval[1] - interval[0]) / 2


def _sureness(release: Release, estimates: Estimates) -> Facts:
    widths = [_half(entry.interval) for entry in estimates.entries if entry.interval]
    facts = [("Reports", f"{estimates.n:,}")]
    if widths:
        facts.append(("Widest interval", f"\N{PLUS-MINUS SIGN} {in_percent(max(widths))}"))
    effects = [entry.design_effect for entry in estimates.entries if entry.design_effect]
    if effects:
        facts.append(
            (
                "Price of privacy",
                f"as sure as {round(estimates.n / min(effects)):,} answers without any noise, for "
                "the share known best",
            )
        )
    if estimates.worst_shift is not None:
        facts.append(
            (
                "If 1 % of reports are fakes",
                f"a share may be off by up to {in_percent(estimates.worst_shift)} more",
            )
        )
    facts.append(("Below zero in all", in_percent(estimates.negative_mass)))
    facts.append(("Method", estimates.method))
    return facts


def _privacy(release: Release) -> Facts:
    given = release.privacy
    facts = [("Of one report", f"epsilon {given.epsilon:.4g}")]
    if given.epsilon_permanent is not None and given.distinct_values is not None:
        facts.append(
            (
                "Of all reports, ever",
                f"epsilon {given.epsilon_permanent:.4g} for each of {given.distinct_values} "
                "distinct values, between histories that change at the same times",
            )
        )
        fresh = given.epsilon_instantaneous
        facts.append(
            (
                "Whether a value changed",
                "not hidden" if fresh is None else f"bounded by {fresh:.4g} in each report only",
            )
        )
    spent = release.lifetime
    if spent is not None and spent.highest is not None:
        facts.append(
            (
                "Lifetime, all metrics",
                f"{spent.devices:,} devices have spent {spent.median:.4g} in the middle, "
                f"{spent.highest:.4g} at most; no device may pass {spent.cap:g}",
            )
        )
    return facts
