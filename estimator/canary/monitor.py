"""The utility monitor: how sure the latest release of each metric is, and what is alarming.

Of metrics whose truth is known, a canary's, also how its last releases compare with it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from estimator.canary import truth
from estimator.canary.evidence import below_zero, is_exact
from estimator.canary.truth import Truth
from estimator.canary.utility import ALARM, Score, incomparable, score
from estimator.estimates import Estimates
from estimator.releases.files import releases
from estimator.releases.release import POOLED, Release
from estimator.releases.width import half_width, n_needed

EPOCHS = 30
"""So many of its latest releases a canary is judged by."""
_LATEST_DAYS = 2
"""A canary's day is published by the end of the next one."""

Known = Mapping[tuple[str, str, str], Truth]


@dataclass(frozen=True)
class Row:
    """One metric.

    Attributes:
        metric: Name.
        epoch: The latest that is released.
        n: Reports; None if withheld.
        half_width: Half of the widest interval, in shares of 1, of a mean in parts of its range.
        n_needed: Reports with which that would be the target, if shares stay as they are.
        negative_mass: What estimates are below zero, summed; None without shares, as its p.
        negative_mass_expected: The most to expect of that, were all of those shares 0.
        negative_mass_p: A bound on the probability of so much or more.
        design_effect: Variance as a multiple of that of as many direct answers, for the share
            known best.
        alarms: In words.
        score: Of a canary: its releases beside the truth.
        left_out: Why releases of a canary are not compared with the truth, "" if they are.
    """

    metric: str
    epoch: str
    n: int | None = None
    half_width: float | None = None
    n_needed: int | None = None
    negative_mass: float | None = None
    negative_mass_expected: float | None = None
    negative_mass_p: float | None = None
    design_effect: float | None = None
    alarms: tuple[str, ...] = ()
    score: Score | None = None
    left_out: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        compared = None if self.score is None else self.score.to_dict()
        return {**vars(self), "alarms": list(self.alarms), "score": compared}


def survey(directory: Path, today: date, target: float) -> list[Row]:
    """Look at all metrics of a directory of releases.

    Args:
        directory: Of the releases.
        today: UTC.
        target: Half-width that intervals should have, in (0, 1).

    Raises:
        DocumentError: A file among them is no release, or no truth.
    """
    known = truth.truths(directory)
    rows = [
        _row(list(group), known, today, target)
        for _, group in groupby(releases(directory), key=lambda release: release.metric)
    ]
    seen = {row.metric for row in rows}
    unseen = sorted({name for name, _, _ in known} - seen)
    missing = ((name, _unpublished((), name, known, today)) for name in unseen)
    return [*rows, *(Row(name, "-", alarms=tuple(found)) for name, found in missing if found)]


def look(metric: str, found: Sequence[Release], known: Known, today: date, target: float) -> Row:
    """Look at one metric.

    Args:
        metric: Name.
        found: Its releases, oldest first; of a canary `EPOCHS` are enough.
        known: What is known of its epochs from the first of those on.
        today: UTC.
        target: Half-width that intervals should have, in (0, 1).
    """
    if found:
        return _row(found, known, today, target)
    return Row(metric, "-", alarms=tuple(_unpublished((), metric, known, today)))


def _row(found: Sequence[Release], known: Known, today: date, target: float) -> Row:
    last = max(release.last_day for release in found)
    latest = [release for release in found if release.last_day == last]
    shown = next((r for r in latest if r.fingerprint == POOLED), latest[-1])
    alarms = [*_reports(latest), *_unpublished(found, shown.metric, known, today)]
    compared, wrong, left_out = _compared(found, known)
    alarms += wrong
    estimates = shown.estimates
    if estimates is None or not estimates.n:
        return Row(
            shown.metric, shown.epoch, alarms=tuple(alarms), score=compared, left_out=left_out
        )
    if not estimates.all_entries:
        return Row(
            metric=shown.metric,
            epoch=shown.epoch,
            n=estimates.n,
            half_width=half_width(shown),
            n_needed=n_needed(shown, target),
            alarms=tuple(alarms),
            left_out=left_out,
        )
    entries = estimates.all_entries
    effects = [entry.design_effect for entry in entries if entry.design_effect is not None]
    expected, p = _negative(shown, estimates, latest)
    if p < ALARM:
        alarms.append(
            f"estimates are {estimates.negative_mass:.2%} below zero in all, where values that "
            f"nobody holds explain {expected:.2%} (p < {p:.1g}): reports do not follow the "
            "mechanism, or it is inverted wrongly"
        )
    return Row(
        metric=shown.metric,
        epoch=shown.epoch,
        n=estimates.n,
        half_width=half_width(shown),
        n_needed=n_needed(shown, target),
        negative_mass=estimates.negative_mass,
        negative_mass_expected=expected,
        negative_mass_p=p,
        design_effect=min(effects, default=None),
        alarms=tuple(alarms),
        score=compared,
        left_out=left_out,
    )


def _negative(
    release: Release, estimates: Estimates, latest: Sequence[Release]
) -> tuple[float, float]:
    """Return expected negative mass and p, with no standard error below that of a share of 0."""
    errors = np.array([entry.standard_error or 0.0 for entry in estimates.all_entries])
    channels = release.channels
    parts = [each for each in latest if each.fingerprint != POOLED]
    exact = all(is_exact(each.channels.mechanism, each.type) for each in parts)
    if exact and channels.p_true is not None and channels.p_false is not None:
        spread = channels.p_false * (1 - channels.p_false) / estimates.n
        errors = np.maximum(errors, math.sqrt(spread) / abs(channels.p_true - channels.p_false))
    return below_zero(estimates.negative_mass, errors, exact)


def _reports(latest: Iterable[Release]) -> list[str]:
    alarms = []
    for release in latest:
        seen, found = release.plausibility, release.estimates
        if seen is not None and seen.alarm:
            ps = [p for p in (seen.popcount_p, seen.cohort_p) if p is not None]
            alarms.append(
                f"{release.epoch}.{release.fingerprint}: reports do not look like those of honest "
                f"devices (p = {min(ps):.1g})"
            )
        if found is not None and found.misfit is not None and found.misfit.alarm:
            alarms.append(
                f"{release.epoch}.{release.fingerprint}: the candidates do not explain the reports"
            )
    return alarms


def _unpublished(found: Sequence[Release], metric: str, known: Known, today: date) -> list[str]:
    """Say which of a canary's days should be released by now and are not."""
    there = {(release.epoch, release.fingerprint) for release in found}
    late = (today - timedelta(days=_LATEST_DAYS)).isoformat()
    missing = sorted(
        epoch
        for (name, epoch, fingerprint), about in known.items()
        if name == metric
        and (epoch, fingerprint) not in there
        and epoch <= late
        and about.delivered
    )
    return [f"{epoch} is not released: is `sottovoce schedule` running?" for epoch in missing]


def _compared(found: Sequence[Release], known: Known) -> tuple[Score | None, list[str], str]:
    """Score the latest releases of a canary that have the version and truth of the last one.

    Returns:
        The score, alarms, and why there is none although something is known.
    """
    pairs = [
        (release, about)
        for release in found
        if (about := known.get((release.metric, release.epoch, release.fingerprint)))
    ]
    alarms = [
        f"{release.epoch}: {wrong}"
        for release, about in pairs[-EPOCHS:]
        if release.estimates is not None and (wrong := about.mismatch(release.estimates.n))
    ]
    published = [pair for pair in pairs if pair[0].estimates is not None]
    if not published:
        return None, alarms, ""
    newest, last = published[-1]
    if why := incomparable(newest):
        return None, alarms, f"{newest.epoch} {why}"
    alike = [
        (release, about)
        for release, about in published
        if release.fingerprint == newest.fingerprint
        and about.shares == last.shares
        and not incomparable(release)
    ]
    result = score(alike[-EPOCHS:])
    return result, [*alarms, *result.alarms], ""
