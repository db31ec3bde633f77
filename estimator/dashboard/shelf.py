"""Which releases there are, known from file names alone: none of them is opened to list them.

A folder is looked through again only when it has changed.
"""

import os
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from client_sdk.epochs import EpochLength, first_day, parse
from estimator.errors import DocumentError
from estimator.releases.files import path_of, read
from estimator.releases.release import POOLED

METRIC = r"[a-z][a-z0-9_.]{0,63}"
"""Names of metrics, as in `client_sdk.registry`."""
EPOCH = r"(?:[0-9]{4}-(?:[0-9]{2}-[0-9]{2}|W[0-9]{2}|[0-9]{2})|once)"
FINGERPRINT = rf"(?:[0-9a-f]{{16}}|{POOLED})"

_FOLDER = re.compile(METRIC)
_FILE = re.compile(rf"({EPOCH})\.({FINGERPRINT})\.json")
_LENGTHS: dict[int, EpochLength] = {10: "day", 8: "week", 7: "month"}
_UNKNOWN_DAY = "0001-01-01"
_SETTLED_SECONDS = 2.0
"""Clocks of file systems are coarse: what is written in one tick with a look at it goes unseen."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One release on disk; in order of metric, time and version.

    Attributes:
        metric: Name.
        first_day: First UTC date of the epoch, ISO 8601.
        epoch: ISO 8601 name.
        fingerprint: Version, or "pooled".
    """

    metric: str
    first_day: str
    epoch: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class _Look:
    changed_ns: int
    looked_at: float
    entries: Sequence[Entry]


class Shelf:
    """The release files of a directory; safe for threads.

    Args:
        directory: Of the releases; it may come into being later.
        clock: Unix time in seconds.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self._clock = clock
        self._looks: dict[str, _Look] = {}

    def metrics(self) -> list[str]:
        """Return the names that have a folder, sorted."""
        try:
            with os.scandir(self.directory) as found:
                names = [e.name for e in found if _FOLDER.fullmatch(e.name) and e.is_dir()]
        except FileNotFoundError:
            return []
        return sorted(names)

    def entries(self, metric: str) -> Sequence[Entry]:
        """Return one metric's releases by time and version.

        Args:
            metric: Any text; one that is no metric's name has no releases.
        """
        if not _FOLDER.fullmatch(metric):
            return ()
        folder, now = self.directory / metric, self._clock()
        try:
            changed_ns = folder.stat().st_mtime_ns
            known = self._looks.get(metric)
            if known and known.changed_ns == changed_ns and _settled(known):
                return known.entries
            found = tuple(sorted(self._entries_in(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        self._looks[metric] = _Look(changed_ns, now, found)
        return found

    def after(self, last: Entry | None, metric: str | None = None) -> Iterator[Entry]:
        """Yield all releases that come after one, in order.

        Args:
            last: Where to go on; None: begin.
            metric: Only this one's.
        """
        for name in self.metrics() if metric is None else [metric]:
            if last is None or name > last.metric:
                yield from self.entries(name)
            elif name == last.metric:
                entries = self.entries(name)
                yield from entries[bisect_right(entries, last) :]

    def of(self, metric: str, epoch: str) -> list[Entry]:
        """Return all versions of one epoch's release."""
        return [entry for entry in self.entries(metric) if entry.epoch == epoch]

    def path(self, entry: Entry) -> Path:
        """Return where a release's JSON file lies."""
        return path_of(self.directory, entry.metric, entry.epoch, entry.fingerprint)

    def _entries_in(self, folder: Path) -> Iterator[Entry]:
        with os.scandir(folder) as found:
            for each in found:
                named = _FILE.fullmatch(each.name)
                if named is None:
                    continue
                epoch, fingerprint = named.groups()
                day = _day_of(epoch)
                if epoch == "once":  # nobody but the file knows when that began
                    day = _day_in(Path(each.path))
                if day is not None:
                    yield Entry(folder.name, day, epoch, fingerprint)


def _day_in(path: Path) -> str:
    try:
        return read(path).first_day
    except DocumentError:  # whoever opens it is told
        return _UNKNOWN_DAY


def _settled(look: _Look) -> bool:
    return look.looked_at - look.changed_ns / 1e9 > _SETTLED_SECONDS


def length_of(epoch: str) -> EpochLength | None:
    """Return how long an epoch is by its name; None for "once", which is as long as its metric."""
    return _LENGTHS.get(len(epoch))


@lru_cache(maxsize=10_000)
def _day_of(epoch: str) -> str | None:
    """Return the first day of an epoch by its name; None if there is no such epoch."""
    length = length_of(epoch)
    try:
        return None if length is None else first_day(length, parse(length, epoch)).isoformat()
    except ValueError:
        return None
