"""What was published, read from the release files and kept at hand while they do not change."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from estimator.dashboard.shelf import Entry, Shelf
from estimator.releases.files import read
from estimator.releases.release import POOLED, Release

MOST_KEPT = 4096
"""Releases: 200 metrics' latest, and a few years of those that somebody looks at."""


class Published:
    """Reads releases of a shelf; safe for threads."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._read = lru_cache(maxsize=MOST_KEPT)(_read)

    def metrics(self) -> list[str]:
        """Return the names of metrics that have releases, sorted."""
        return [name for name in self.shelf.metrics() if self.shelf.entries(name)]

    def release(self, entry: Entry) -> Release:
        """Return one release."""
        path = self.shelf.path(entry)
        seen = path.stat()
        return self._read(path, seen.st_mtime_ns, seen.st_size)

    def latest(self, metric: str) -> Release | None:
        """Return the release of a metric's latest epoch: the pooled one, if there is one."""
        chosen = self.chosen(metric)
        return self.release(chosen[-1]) if chosen else None

    def chosen(self, metric: str) -> list[Entry]:
        """Return one release per epoch, oldest first: the pooled one, or the last by version."""
        by_epoch: dict[str, Entry] = {}
        for entry in self.shelf.entries(metric):
            known = by_epoch.get(entry.epoch)
            if known is None or known.fingerprint != POOLED:
                by_epoch[entry.epoch] = entry
        return list(by_epoch.values())

    def history(self, metric: str, fingerprint: str, most: int) -> Sequence[Release]:
        """Return the latest releases of one version, or pooled ones, oldest first."""
        of_version = [e for e in self.shelf.entries(metric) if e.fingerprint == fingerprint]
        return [self.release(entry) for entry in of_version[-most:]]

    def comparable(self, entry: Entry, most: int) -> list[Release]:
        """Return the releases up to one that tell the same story, oldest first, one per epoch.

        Of a version that was in the field beside others those of this version; else those that
        stand for their epoch, as far as they ask the same.

        Args:
            entry: The release that ends it.
            most: So many, at most.
        """
        others = {each.fingerprint for each in self.shelf.of(entry.metric, entry.epoch)}
        same: Sequence[Entry] = self.chosen(entry.metric)
        if entry.fingerprint != POOLED and len(others) > 1:
            every = self.shelf.entries(entry.metric)
            same = [each for each in every if each.fingerprint == entry.fingerprint]
        before = [each for each in same if each.first_day <= entry.first_day][-most:]
        last = self.release(entry)
        found = [self.release(each) for each in before]
        return [each for each in found if _asks_the_same(each, last)]


def _asks_the_same(one: Release, other: Release) -> bool:
    if one.fingerprint == other.fingerprint:
        return True
    return _question(one) == _question(other) and (
        one.estimates is None or other.estimates is None or _values(one) == _values(other)
    )


def _question(release: Release) -> tuple[object, ...]:
    return release.question, release.type, release.range


def _values(release: Release) -> list[tuple[type, object]]:
    entries = () if release.estimates is None else release.estimates.all_entries
    return [(type(entry.value), entry.value) for entry in entries]


def _read(path: Path, changed_ns: int, size: int) -> Release:
    return read(path)
