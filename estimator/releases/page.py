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
    asked, mark, reason = release.question.partition("?")
    context: dict[str, Any] = {
        "release": release,
        "file": f"{release.epoch}.{release.fingerprint}",
        "heading": asked + mark,
        "reason": reason.strip(),
        "days": _days(release),
        "privacy": _privacy(release),
        # What documents say of their fields is for who reads documents.
        "caveats": [caveat for caveat in release.caveats if "`" not in caveat],
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


def _days(release: Release) -> str:
    days = release.first_day
    if release.last_day != release.first_day:
        days += f" to {release.last_day}"
    early = "; closed early, so it covers the part before that" if release.closed_early else ""
    return f"{days} (UTC), published {release.published_on}{early}"


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
        "significant": "yes" if entry.significant else "no",
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
            f"{' *' if entry.significant else ''}"
        )
        for entry in moved.entries
    }


def _half(interval: tuple[float, float]) -> float:
    return (interval[1] - interval[0]) / 2


def _sureness(release: Release, estimates: Estimates) -> Facts:
    widths = [_half(entry.interval) for entry in estimates.entries if entry.interval]
    facts = [("Reports", f"{estimates.n:,}")]
    inclusion = release.channels.inclusion
    if inclusion is not None and inclusion < 1:
        facts.append(("Sample", f"one device in {1 / inclusion:.3g} is asked in each epoch"))
    if widths:
        points = f"\N{PLUS-MINUS SIGN} {in_points(max(widths))} percentage points"
        facts.append(("Widest interval", points))
    effects = [entry.design_effect for entry in estimates.entries if entry.design_effect]
    if effects:
        facts.append(
            (
                "Price of privacy",
                f"as precise as about {round(estimates.n / min(effects)):,} answers without noise, "
                "at best",
            )
        )
    if estimates.worst_shift is not None:
        facts.append(
            (
                "If 1 % of reports are fakes",
                f"a share may be off by up to {in_points(estimates.worst_shift)} percentage points "
                "more",
            )
        )
    facts.append(
        ("Sum of negative estimates", f"{in_percent(estimates.negative_mass)} (noise around zero)")
    )
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
                "not protected"
                if fresh is None
                else f"not protected beyond epsilon {fresh:.4g} per report",
            )
        )
    spent = release.lifetime
    if spent is not None and spent.highest is not None:
        facts.append(
            (
                "Lifetime, all metrics",
                f"{spent.devices:,} devices have spent: median epsilon {spent.median:.4g}, highest "
                f"{spent.highest:.4g}; no device may pass {spent.cap:g}",
            )
        )
    return facts
