"""What a reviewer of metrics.toml should look at twice, as a data review would.

A note is a question to the author; an error says that something does not work as it is written.
Every rule that a device or server needs is checked at load (`registry`), not here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import combinations
from typing import Literal

from client_sdk.metric import Metric
from client_sdk.registry import Registry

USUAL_EPSILON: dict[str, tuple[Decimal, Decimal]] = {
    "census": (Decimal("0.1"), Decimal(1)),
    "health": (Decimal("0.5"), Decimal(2)),
    "location": (Decimal(1), Decimal(3)),
    "product": (Decimal(1), Decimal(5)),
    "experiment": (Decimal(2), Decimal(8)),
    "public report": (Decimal("0.5"), Decimal(3)),
}
"""Epsilon of one report that is usual for each sensitivity."""

USUAL_YEARLY_EPSILON = 20
"""What a device spends in a year on all metrics together, at most, before a reviewer asks."""

DAYS_OF_A_YEAR = 365
LONGEST_LIFE_DAYS = 731
"""Two years: by then somebody should decide anew."""
FEWEST_WORDS = 4
SIMILARITY = 0.85
LARGEST_ERROR = 0.25
"""Standard error of a rare value's share above which a release says nothing."""
LONGEST_GRACE_OF_A_DAY = 7

_ADDRESS = re.compile(r"[^@\s<>]+@[^@\s<>.]+(\.[^@\s<>.]+)+")
_UNITS = re.compile(
    r"(seconds?|minutes?|hours?|days?|weeks?|months?|years?|ms|s|milliseconds?|[kmg]i?b|bytes?"
    r"|kilobytes?|megabytes?|gigabytes?|percent|%|pixels?|px|meters?|metres?|km|kilometers?"
    r"|kilometres?|kilograms?|kg|euros?|dollars?|degrees?|hertz|hz|times|count|many|number)"
)


@dataclass(frozen=True)
class Finding:
    """One thing that a reviewer should know.

    Attributes:
        level: "error" where something does not work or a promise weakens, else "note".
        rule: Short name of what was looked at.
        key: Which key of metrics.toml, or which metrics.
        text: What was found and what follows from it.
    """

    level: Literal["note", "error"]
    rule: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text} [{self.rule}]"


def review(registry: Registry, today: date) -> list[Finding]:
    """Return what a reviewer should ask about.

    Args:
        registry: A file that keeps every rule.
        today: A UTC date, for what has expired.
    """
    found = list(_of_project(registry))
    for metric in registry.metrics.values():
        found += [*_of_life(metric, today), *_of_wording(metric)]
        found += [*_of_privacy(metric), *_of_releases(metric)]
    return found


def yearly(metric: Metric) -> int:
    """Return the most micro-epsilon that the metric costs a device in a year.

    Of a memoized metric that is its whole reservation, though it is paid once in a life.
    """
    if metric.memoize is not None:
        return metric.charge
    return metric.charge * metric.most_reports_in(DAYS_OF_A_YEAR)


def covering_changes(metric: Metric) -> int | None:
    """Return the bound on a metric's life that also covers when values changed.

    Micro-epsilon: most reports times the loss of the fresh stage. None where there is no bound:
    no end, or the remembered response itself is sent. Without memory it is the share.
    """
    if metric.change_charge is None or metric.endless:
        return None
    return metric.blocks(metric.starts, metric.expires) * metric.change_charge


def unusual_epsilon(metric: Metric, key: str) -> Iterator[Finding]:
    """Yield a note if epsilon is not what is usual for the sensitivity.

    Args:
        metric: What is asked.
        key: Of its table.
    """
    low, high = USUAL_EPSILON[metric.sensitivity]
    if not low <= metric.epsilon <= high:
        side = "above" if metric.epsilon > high else "below"
        yield Finding(
            "note",
            "usual_epsilon",
            f"{key}.epsilon",
            f"{metric.epsilon} is {side} what is usual for sensitivity {metric.sensitivity}, "
            f"{low} to {high}",
        )


def error_of_a_rare_value(metric: Metric, reports: float) -> float:
    """Return the standard error of a rare value's share at n reports.

    Of a number without buckets, the largest one of its mean, as a part of the range.
    """
    error: float = (metric.mechanism.rare_variance / reports) ** 0.5
    return error


def _of_project(registry: Registry) -> Iterator[Finding]:
    if not _ADDRESS.search(registry.contact) and "://" not in registry.contact:
        yield Finding(
            "note",
            "contact",
            "project.contact",
            f"{registry.contact} is no address: whom does a user ask?",
        )
    total = sum(map(yearly, registry.metrics.values())) / 1e6
    if total > USUAL_YEARLY_EPSILON:
        most = max(registry.metrics.values(), key=yearly)
        yield Finding(
            "note",
            "yearly_epsilon",
            "project",
            f"a device can spend {total:g} epsilon in a year, more than {USUAL_YEARLY_EPSILON}; "
            f"most of it on {most.name}, {yearly(most) / 1e6:g}",
        )
    for one, other in combinations(registry.metrics, 2):
        if _similar(one, other):
            yield Finding(
                "note",
                "similar_names",
                f"{one}, {other}",
                "the names are easily taken for each other; a value recorded under the wrong "
                "one is lost or counted wrongly",
            )
    silent = [
        each.name
        for each in registry.metrics.values()
        if each.when_absent is None and each.epoch != "once"  # where it is refused
    ]
    if silent:
        yield Finding(
            "note",
            "silence",
            ", ".join(silent),
            "a device that records nothing stays silent, and its silence shows; when_absent "
            "makes it report all the same",
        )


def _similar(one: str, other: str) -> bool:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.quick_ratio() > SIMILARITY and matcher.ratio() > SIMILARITY


def _of_life(metric: Metric, today: date) -> Iterator[Finding]:
    key = f"metrics.{metric.name}.expires"
    if metric.expires <= today:
        yield Finding(
            "error",
            "expired",
            key,
            f"must lie ahead, got {metric.expires}; remove the metric or extend it",
        )
    elif metric.endless:
        yield Finding("note", "expiry", key, "there is no end; two years make somebody decide anew")
    elif metric.expires > max(today, metric.starts) + timedelta(days=LONGEST_LIFE_DAYS):
        yield Finding(
            "note",
            "expiry",
            key,
            f"{metric.expires} is more than two years ahead; who will look at it then?",
        )


def _of_wording(metric: Metric) -> Iterator[Finding]:
    key = f"metrics.{metric.name}"
    for owner in metric.owners:
        if not _ADDRESS.fullmatch(owner):
            yield Finding(
                "note", "owners", f"{key}.owners", f"{owner} is no address that can be written to"
            )
    words = re.findall(r"\w+", metric.question.lower())
    if "?" not in metric.question:
        yield Finding("note", "question", f"{key}.question", "asks nothing: no question mark")
    if len(words) < FEWEST_WORDS or words == re.findall(r"[a-z0-9]+", metric.name):
        yield Finding(
            "note",
            "question",
            f"{key}.question",
            f'"{metric.question}" will not tell a user what is asked; write it out',
        )
    if metric.type == "number" and not any(
        _UNITS.fullmatch(word) for word in (*re.split(r"[_.]", metric.name), *words)
    ):
        yield Finding(
            "note",
            "unit",
            key,
            "a number without a unit: name it (load_seconds), or ask with it (How many ...?)",
        )


def _of_privacy(metric: Metric) -> Iterator[Finding]:
    yield from unusual_epsilon(metric, f"metrics.{metric.name}")
    if metric.memoize is not None and metric.epoch != "once":
        yield Finding(
            "note",
            "memoize",
            f"metrics.{metric.name}.memoize",
            "hides which values a device had, not when they changed; do not memoize where a "
            "change is sensitive",
        )


def _of_releases(metric: Metric) -> Iterator[Finding]:
    error = error_of_a_rare_value(metric, metric.min_reports)
    if error > LARGEST_ERROR:
        of = " of the range" if metric.edges and not metric.labels else ""
        yield Finding(
            "note",
            "min_reports",
            f"metrics.{metric.name}.min_reports",
            f"a release of {metric.min_reports} reports has a standard error of "
            f"{100 * error:.0f} %{of} and says nothing; ask for more",
        )
    key = f"metrics.{metric.name}.grace"
    if metric.grace_days == 0 and metric.epoch != "once":
        yield Finding(
            "note", "grace", key, "0 days lose what is recorded shortly before an epoch ends"
        )
    elif metric.epoch == "day" and metric.grace_days > LONGEST_GRACE_OF_A_DAY:
        yield Finding(
            "note",
            "grace",
            key,
            f"each day's release waits {metric.grace_days} days for latecomers",
        )
