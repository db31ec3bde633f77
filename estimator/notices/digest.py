"""A digest: what has become of releases since the one before, for one owner or for all.

It says what releases say and no more: nothing of a release that is withheld but that it is, and
of failures no value that an error may quote.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from client_sdk.epochs import DAY_SECONDS
from client_sdk.metric import Label
from estimator.errors import DocumentError, NotPublishable
from estimator.notices.audience import Audience
from estimator.releases.across_epochs import AcrossEpochs, change
from estimator.releases.alarms import alarms
from estimator.releases.failures import Failure
from estimator.releases.files import path_of, read
from estimator.releases.number import ends_in_unit, figure_in_unit, foremost, in_unit
from estimator.releases.release import POOLED, Release
from estimator.releases.signatures import fault_of

log = logging.getLogger(__name__)

SCHEMA = 1
EXPIRY_MARKS = (30, 7, 1)
"""Days before a metric's end at which owners are told, also if there is nothing else to hear."""
_MOST_CHANGES = 3


@dataclass(frozen=True)
class Figure:
    """A share, or by how much it has changed, with its interval."""

    value: Label | None
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Number:
    """A mean, a median, or by how much a mean has changed, with its interval; in words."""

    name: str
    value: str
    interval: str


@dataclass(frozen=True)
class Released:
    """A release.

    Attributes:
        at: Unix time of its publication.
        status: OK or WITHHELD.
        min_reports: What WITHHELD means fewer than.
        n: Reports; None if withheld.
        level: Of all intervals; None if withheld.
        largest: The largest listed share, if there is any.
        since: The epoch that changes are counted from; None without one to compare with.
        changes: The largest significant ones.
        alarms: In words.
        link: Of its page, where releases are served.
        number: Of numbers, the mean or the median.
        number_change: By how much a mean has surely changed since then.
    """

    metric: str
    question: str
    epoch: str
    fingerprint: str
    at: float
    status: str
    min_reports: int
    n: int | None
    level: float | None
    largest: Figure | None
    since: str | None
    changes: tuple[Figure, ...]
    alarms: tuple[str, ...]
    link: str | None
    number: Number | None = None
    number_change: Number | None = None


@dataclass(frozen=True)
class Expiring:
    """A metric that ends soon: its first day without reports, and how many days are left."""

    metric: str
    expires: str
    days: int


@dataclass(frozen=True)
class Digest:
    """What somebody hears of one span of time.

    Attributes:
        project: The project's name.
        day: UTC date that it is the digest of, ISO 8601.
        since: Unix time from which on releases are listed.
        until: Unix time up to which they are.
        released: By metric, epoch and version.
        failed: What is FAILED now; reasons without values.
        expiring: Metrics that end within 30 days.
    """

    project: str
    day: str
    since: float
    until: float
    released: tuple[Released, ...]
    failed: tuple[Failure, ...]
    expiring: tuple[Expiring, ...]

    @property
    def is_news(self) -> bool:
        """Whether there is anything to hear."""
        return bool(self.released or self.failed) or any(map(self._has_begun, self.expiring))

    def _has_begun(self, each: Expiring) -> bool:
        end = _midnight(date.fromisoformat(each.expires))
        marks = (end - days * DAY_SECONDS for days in EXPIRY_MARKS)
        return any(self.since < mark <= self.until for mark in marks)

    def part(self, hears: Callable[[str], bool], since: float) -> "Digest":
        """Return what somebody hears who hears of some metrics, since some time."""
        return replace(
            self,
            since=since,
            released=tuple(r for r in self.released if r.at > since and hears(r.metric)),
            failed=tuple(f for f in self.failed if hears(f.metric)),
            expiring=tuple(e for e in self.expiring if hears(e.metric)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the document, with plain values only."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> "Digest":
        """Read what `to_dict` has written."""
        fields = {name: document[name] for name in ("project", "day", "since", "until")}
        return cls(
            **fields,
            released=tuple(_released_from(each) for each in document["released"]),
            failed=tuple(Failure(**each) for each in document["failed"]),
            expiring=tuple(Expiring(**each) for each in document["expiring"]),
        )


def compose(
    directory: Path,
    audience: Audience,
    failed: Sequence[Failure],
    *,
    day: date,
    since: float,
    until: float,
    releases_url: str | None,
    public: Mapping[int, bytes],
) -> Digest:
    """Gather everything that was published after `since`, up to `until`.

    To be called by the only publisher: a release that appears meanwhile would be in no digest.

    Args:
        directory: Of the releases; a release is as old as its file.
        audience: Metrics and their owners.
        failed: What is FAILED now.
        day: That it is the digest of.
        since: Unix time.
        until: Unix time.
        releases_url: Where the directory is served.
        public: The keys that releases are signed with; what none of them has signed is left out.
    """
    found = []
    for path in sorted(directory.glob("*/*.json")):
        at = path.stat().st_mtime
        if not since < at <= until:
            continue
        # The others must be heard of all the same.
        fault = fault_of(path, public)
        if fault is not None:
            log.warning("left out of the digest: %s %s", path.name, fault)
            continue
        try:
            found.append((read(path), at))
        except DocumentError as error:
            log.warning("left out of the digest: %s", error)
    pooled = {(r.metric, r.epoch) for r, _ in found if r.fingerprint == POOLED}
    listed = [
        _released(release, at, _before(release, directory, public), releases_url)
        for release, at in found
        if release.fingerprint == POOLED
        or (release.metric, release.epoch) not in pooled
        # A pooled release stands for its parts, but not for what is wrong with one of them.
        or release.estimates is None
        or alarms(release)
    ]
    return Digest(
        project=audience.project,
        day=day.isoformat(),
        since=since,
        until=until,
        released=tuple(listed),
        failed=tuple(replace(each, reason=_without_value(each.reason)) for each in failed),
        expiring=tuple(_expiring(audience, until)),
    )


def _released(release: Release, at: float, before: Release | None, url: str | None) -> Released:
    estimates = release.estimates
    page = f"{release.metric}/{release.epoch}.{release.fingerprint}.html"
    shown = [
        Figure(entry.value, entry.share, *entry.interval)
        for entry in (() if estimates is None else estimates.entries)
        if entry.share is not None and entry.interval is not None
    ]
    return Released(
        metric=release.metric,
        question=release.question,
        epoch=release.epoch,
        fingerprint=release.fingerprint,
        at=at,
        status="OK" if estimates is not None else "WITHHELD",
        min_reports=release.min_reports,
        n=None if estimates is None else estimates.n,
        level=None if estimates is None else estimates.level,
        largest=max(shown, key=lambda figure: figure.share, default=None),
        since=None if before is None else before.epoch,
        changes=_changes(before, release),
        alarms=tuple(alarms(release)),
        link=None if url is None else f"{url}/{quote(page)}",
        number=_number(release),
        number_change=_change_of_mean(before, release),
    )


def _number(release: Release) -> Number | None:
    found = foremost(release.estimates)
    if found is None:
        return None
    return Number(found.name, figure_in_unit(found), ends_in_unit(found))


def _before(release: Release, directory: Path, public: Mapping[int, bytes]) -> Release | None:
    """Return the published release of the same version before this one."""
    if release.estimates is None:
        return None
    folder = path_of(directory, release.metric, release.epoch, release.fingerprint).parent
    # Versions have one length of epochs, and ISO names of one length sort by time.
    named = sorted(path.name for path in folder.glob(f"*.{release.fingerprint}.json"))
    earlier = [name for name in named if name < f"{release.epoch}.{release.fingerprint}.json"]
    for name in reversed(earlier):
        if fault_of(folder / name, public) is not None:
            continue
        try:
            found = read(folder / name)
        except DocumentError:
            continue
        if found.estimates is not None:
            return found
    return None


def _changes(before: Release | None, release: Release) -> tuple[Figure, ...]:
    moved = _moved(before, release)
    entries = () if moved is None else moved.entries
    figures = [Figure(e.value, e.share, *e.interval) for e in entries if e.significant]
    return tuple(sorted(figures, key=lambda figure: -abs(figure.share))[:_MOST_CHANGES])


def _change_of_mean(before: Release | None, release: Release) -> Number | None:
    moved = _moved(before, release)
    if moved is None or moved.mean is None or not moved.mean.significant:
        return None
    low, high = moved.mean.interval
    told, half = (
        in_unit(each, moved.mean.standard_error) for each in (moved.mean.value, (high - low) / 2)
    )
    return Number("mean", told, f"\N{PLUS-MINUS SIGN} {half}")


def _moved(before: Release | None, release: Release) -> AcrossEpochs | None:
    try:
        return None if before is None else change(before, release)
    except NotPublishable:  # Of other values.
        return None


def _expiring(audience: Audience, until: float) -> list[Expiring]:
    today = datetime.fromtimestamp(until, UTC).date()
    metrics = [audience.metrics[name] for name in sorted(audience.current)]
    return [
        Expiring(metric.name, metric.expires.isoformat(), (metric.expires - today).days)
        for metric in metrics
        if 0 < (metric.expires - today).days <= max(EXPIRY_MARKS)
    ]


def _without_value(reason: str) -> str:
    # This project's errors name rule and value, in this order; a value may be a count.
    return reason.partition(", got ")[0]


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _released_from(document: dict[str, Any]) -> Released:
    largest = document["largest"]
    numbers = {name: document.get(name) for name in ("number", "number_change")}
    return Released(
        **document
        | {
            "largest": None if largest is None else Figure(**largest),
            "changes": tuple(Figure(**each) for each in document["changes"]),
            "alarms": tuple(document["alarms"]),
        }
        | {name: None if each is None else Number(**each) for name, each in numbers.items()}
    )
