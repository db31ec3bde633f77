"""A page of the list of releases: opens no more files than it must."""

from dataclasses import dataclass
from typing import Any

from estimator.dashboard.api.queries import Selection
from estimator.dashboard.shelf import Entry, Shelf
from estimator.releases.files import read
from estimator.releases.release import Release

MOST_OPENED = 1000
"""Files that one page may cost where a filter asks for what names do not tell. Then the page is
short, and the next goes on."""


@dataclass(frozen=True)
class Page:
    """Part of the list.

    Attributes:
        releases: What it shows.
        last: After which release the next page begins; None: there is none.
    """

    releases: list[Release]
    last: Entry | None


def page(shelf: Shelf, selection: Selection) -> Page:
    """Read one page."""
    found: list[Release] = []
    last, opened = selection.after, 0
    for entry in shelf.after(selection.after, selection.metric):
        if not selection.named(entry):
            continue
        if len(found) == selection.limit or opened == MOST_OPENED:
            return Page(found, last)
        release = read(shelf.path(entry))
        last, opened = entry, opened + 1
        if selection.status in (None, release.status):
            found.append(release)
    return Page(found, None)


def summary(release: Release) -> dict[str, Any]:
    """Return what a list says of a release; of a withheld one not its number of reports."""
    estimates = release.estimates
    seen = release.plausibility
    return {
        "metric": release.metric,
        "epoch": release.epoch,
        "first_day": release.first_day,
        "last_day": release.last_day,
        "fingerprint": release.fingerprint,
        "status": release.status,
        "min_reports": release.min_reports,
        "n": None if estimates is None else estimates.n,
        "epsilon": release.privacy.epsilon,
        "alarm": None if seen is None else seen.alarm,
    }
