"""A release: the published document of one metric and epoch, and what it says beside numbers."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from importlib import metadata
from typing import Any, Literal

from client_sdk.epochs import day_of, first_day, label
from client_sdk.mechanisms import Mechanism
from client_sdk.metric import Metric
from estimator.estimates import Estimates
from estimator.ledger.lifetime import Lifetime
from estimator.plausibility import Plausibility
from estimator.pool import pool, poolable
from estimator.releases.caveats import caveats_of

SCHEMA = 1
POOLED = "pooled"
"""Stands in for the fingerprint of a release over several versions of a metric."""

Status = Literal["PUBLISHED", "WITHHELD"]


@dataclass(frozen=True)
class Privacy:
    """What one device gave for this metric.

    Attributes:
        epsilon: Loss of one report.
        epsilon_permanent: For memoized metrics, loss of all reports ever of one value.
        distinct_values: For memoized metrics, how many values are paid for.
        epsilon_instantaneous: For memoized metrics, loss of the fresh stage alone; None for
            others, and where there is no bound.
    """

    epsilon: float
    epsilon_permanent: float | None = None
    distinct_values: int | None = None
    epsilon_instantaneous: float | None = None

    @classmethod
    def of(cls, metric: Metric) -> "Privacy":
        """The figures of a metric's channel."""
        mechanism = metric.mechanism
        if metric.memoize is None or mechanism.epsilon_permanent is None:
            return cls(float(mechanism.epsilon))
        fresh = mechanism.epsilon_instantaneous
        return cls(
            float(mechanism.epsilon),
            float(mechanism.epsilon_permanent),
            metric.memoize.distinct_values,
            None if fresh.is_infinite() else float(fresh),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures with what they bound, in words."""
        document: dict[str, Any] = {"epsilon_per_report": self.epsilon}
        if self.epsilon_permanent is None or self.distinct_values is None:
            return document
        return document | {
            "epsilon_permanent": self.epsilon_permanent,
            "distinct_values": self.distinct_values,
            "epsilon_instantaneous": self.epsilon_instantaneous,
            "epsilon_same_changes": self.epsilon_permanent * self.distinct_values,
            "bounds": (
                "Between two histories that change at the same times a device loses at most "
                "epsilon_same_changes in its life. Whether and when its value changed is bounded "
                "only by T x epsilon_instantaneous over T reports (null: not at all)."
            ),
        }


@dataclass(frozen=True)
class Channels:
    """What the reports went through; None where versions differ.

    Attributes:
        mechanism: Name.
        p_true: P(a report speaks for a value | it is the truth); None for mechanisms whose law has
            more than two probabilities.
        p_false: P(a report speaks for a value | it is not); None likewise.
        inclusion: P(a device reports in an epoch).
        pooled_from: For pooled releases, fingerprints and reports of the parts.
    """

    mechanism: str | None
    p_true: float | None
    p_false: float | None
    inclusion: float | None = None
    pooled_from: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, metric: Metric) -> "Channels":
        """The channel of one version."""
        mechanism, inclusion = metric.mechanism, float(metric.inclusion)
        law_of_its_own = type(mechanism).channel is not Mechanism.channel
        if law_of_its_own or not mechanism.counted:
            return cls(mechanism.name, None, None, inclusion)
        p_true, p_false = float(mechanism.support_true), float(mechanism.support_false)
        return cls(mechanism.name, p_true, p_false, inclusion)


@dataclass(frozen=True)
class Release:
    """What is published about one metric and epoch.

    Attributes:
        project: The project's name.
        metric: The metric's name.
        question: What was asked.
        epoch: ISO 8601 name of the epoch.
        first_day: First UTC date of the epoch.
        last_day: Last UTC date of the epoch.
        fingerprint: Version of the metric, or "pooled".
        type: The metric's type, as in the registry.
        published_on: UTC date.
        closed_early: The epoch was closed before its end and grace: the release covers what came
            until then.
        status: WITHHELD: fewer than min_reports; then there are no estimates and not even n.
        min_reports: Least number of reports that is published.
        privacy: What it cost a device.
        channels: What the reports went through.
        estimates: None if withheld.
        plausibility: Whether the reports look honest; None if withheld or pooled.
        lifetime: What devices have spent of their lifetime epsilon, over all devices that have
            ever reported anything; None if withheld.
        caveats: What the numbers are not.
        code_version: Of the program that estimated.
        range: For numbers, the lowest and the highest that count as they are; None for others.
    """

    project: str
    metric: str
    question: str
    epoch: str
    first_day: str
    last_day: str
    fingerprint: str
    type: str
    published_on: str
    closed_early: bool
    status: Status
    min_reports: int
    privacy: Privacy
    channels: Channels
    estimates: Estimates | None
    plausibility: Plausibility | None
    lifetime: Lifetime | None
    caveats: tuple[str, ...]
    code_version: str
    range: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the document."""
        empty = {"n": None, "epsilon": self.privacy.epsilon, "level": None, "estimates": None}
        channels = asdict(self.channels)
        channels["pooled_from"] = [
            {"fingerprint": fingerprint, "n": n} for fingerprint, n in self.channels.pooled_from
        ]
        ends = {} if self.range is None else {"range": list(self.range)}
        return {
            "schema": SCHEMA,
            "project": self.project,
            "metric": self.metric,
            "question": self.question,
            "epoch": self.epoch,
            "first_day": self.first_day,
            "last_day": self.last_day,
            "fingerprint": self.fingerprint,
            "type": self.type,
            **ends,
            "published_on": self.published_on,
            "closed_early": self.closed_early,
            "status": self.status,
            "min_reports": self.min_reports,
            "privacy": self.privacy.to_dict(),
            **channels,
            **(empty if self.estimates is None else self.estimates.to_dict()),
            "plausibility": None if self.plausibility is None else self.plausibility.to_dict(),
            "lifetime_epsilon": None if self.lifetime is None else self.lifetime.to_dict(),
            "caveats": list(self.caveats),
            "code_version": self.code_version,
        }

    def text(self) -> str:
        """Return the JSON file's text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def compose(
    metric: Metric,
    project: str,
    epoch: int,
    estimates: Estimates,
    plausibility: Plausibility | None = None,
    lifetime: Lifetime | None = None,
    *,
    now: float,
    closed_early: bool = False,
) -> Release:
    """Make the release of one version of a metric; withheld if it has too few reports.

    Args:
        metric: The version.
        project: The project's name.
        epoch: Its number.
        estimates: Of its tally.
        plausibility: Of its reports.
        lifetime: Of all devices.
        now: Unix time in seconds.
        closed_early: Whether the epoch was closed before its end and grace.
    """
    withheld = estimates.n < metric.min_reports
    first, last = _days(metric, epoch)
    return Release(
        project=project,
        metric=metric.name,
        question=metric.question,
        epoch=label(metric.epoch, epoch),
        first_day=first.isoformat(),
        last_day=last.isoformat(),
        fingerprint=metric.fingerprint,
        type=metric.type,
        published_on=day_of(now).isoformat(),
        closed_early=closed_early,
        status="WITHHELD" if withheld else "PUBLISHED",
        min_reports=metric.min_reports,
        privacy=Privacy.of(metric),
        channels=Channels.of(metric),
        estimates=None if withheld else estimates,
        plausibility=None if withheld else plausibility,
        lifetime=None if withheld else lifetime,
        caveats=_withheld(metric) if withheld else caveats_of(metric, estimates),
        code_version=code_version(),
        range=(float(metric.edges[0]), float(metric.edges[-1])) if metric.edges else None,
    )


def can_pool(parts: Sequence[Release]) -> bool:
    """Return whether published releases of one metric and epoch are of the same figures."""
    known = [part.estimates for part in parts if part.estimates is not None]
    alike = len({(part.type, part.range) for part in parts}) == 1
    return alike and len(known) == len(parts) and poolable(known)


def compose_pooled(metric: Metric, parts: Sequence[Release]) -> Release:
    """Make the release over several published versions of a metric.

    Withheld parts stay out: with them in, subtraction would give their number of reports.

    Args:
        metric: Version whose question and caveats are shown.
        parts: Published releases of one metric and epoch, of which `can_pool` holds.
    """
    known = [part.estimates for part in parts if part.estimates is not None]
    together = tuple((part.fingerprint, part.estimates.n) for part in parts if part.estimates)
    worst = max(parts, key=lambda part: part.privacy.epsilon)
    pooled = pool(
        known,
        [part.channels.inclusion or 1.0 for part in parts],
        adding_up=metric.type != "multi_select",
    )
    caveats = caveats_of(metric, pooled)
    if any(each.quantiles for each in known):
        caveats = (*caveats, "Quantiles are those of single versions: here are none.")
    return replace(
        worst,
        question=metric.question,
        fingerprint=POOLED,
        min_reports=max(part.min_reports for part in parts),
        channels=Channels(None, None, None, pooled_from=together),
        estimates=pooled,
        plausibility=None,
        caveats=caveats,
    )


def _days(metric: Metric, epoch: int) -> tuple[date, date]:
    one = timedelta(days=1)
    if metric.epoch == "once":
        return metric.starts, metric.expires - one
    return first_day(metric.epoch, epoch), first_day(metric.epoch, epoch + 1) - one


def _withheld(metric: Metric) -> tuple[str, ...]:
    return (f"Withheld: fewer than {metric.min_reports} reports. That says nothing of shares.",)


def code_version() -> str:
    """Return the version of the installed distribution."""
    try:
        return metadata.version("sottovoce")
    except metadata.PackageNotFoundError:
        return "not installed"
