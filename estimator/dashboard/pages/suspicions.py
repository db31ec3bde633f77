"""What is odd about the newest releases: reports that look made up, and what fakes could do.

A canary's releases are also held against the truth that they were drawn from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from aggregator.canary import is_canary
from estimator.canary import truth
from estimator.canary.monitor import EPOCHS, look
from estimator.dashboard.published import Published
from estimator.errors import DocumentError
from estimator.releases.alarms import alarms
from estimator.releases.release import POOLED, Release
from estimator.releases.width import TARGET


@dataclass(frozen=True)
class Suspicions:
    """All of it.

    Attributes:
        releases: Of each metric's newest epoch, each version that was not withheld.
        withheld: Metric and epoch of those that were.
        canaries: Name, epochs compared with the truth, and alarms of each canary.
        unreadable: Files that are not what their names say.
    """

    releases: tuple[Release, ...]
    withheld: tuple[str, ...]
    canaries: tuple[tuple[str, int, tuple[str, ...]], ...]
    unreadable: tuple[str, ...]

    @property
    def alarming(self) -> list[tuple[Release, list[str]]]:
        """Releases that somebody should look at before using them, and why."""
        return [(release, found) for release in self.releases if (found := alarms(release))]


def suspicions(published: Published, today: date) -> Suspicions:
    """Read the newest epoch of each metric, and of canaries the last `EPOCHS`."""
    found: list[Release] = []
    canaries, unreadable = [], []
    names = published.metrics()
    for name in names:
        try:
            found += _newest(published, name)
        except (DocumentError, OSError) as error:
            unreadable.append(str(error))
    folders = {path.parent.name for path in published.shelf.directory.glob("canary.*/*.truth")}
    for name in sorted(folders | set(filter(is_canary, names))):
        try:
            canaries.append(_canary(published, name, today))
        except (DocumentError, OSError) as error:
            unreadable.append(str(error))
    shown = tuple(release for release in found if release.estimates is not None)
    hidden = tuple(f"{r.metric} {r.epoch}" for r in found if r.estimates is None)
    return Suspicions(shown, hidden, tuple(canaries), tuple(unreadable))


def _newest(published: Published, name: str) -> list[Release]:
    entries = published.shelf.entries(name)
    newest = [entry for entry in entries if entry.epoch == entries[-1].epoch]
    # Of a pooled release the parts tell what their reports look like.
    return [published.release(entry) for entry in newest if entry.fingerprint != POOLED]


def _canary(published: Published, name: str, today: date) -> tuple[str, int, tuple[str, ...]]:
    entries = [entry for entry in published.shelf.entries(name) if entry.fingerprint != POOLED]
    releases = [published.release(entry) for entry in entries[-EPOCHS:]]
    since = releases[0].epoch if len(releases) == EPOCHS else ""
    about = _truths(published.shelf.directory / name, since)
    known = {(each.metric, each.epoch, each.fingerprint): each for each in about}
    row = look(name, releases, known, today, TARGET)
    return name, 0 if row.score is None else len(releases), row.alarms


def _truths(folder: Path, since: str) -> Sequence[truth.Truth]:
    paths = sorted(folder.glob("*.truth"))[-2 * EPOCHS :]
    return [truth.read(path) for path in paths if path.name >= since]
