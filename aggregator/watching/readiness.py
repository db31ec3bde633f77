"""Readiness: whether this server should be sent uploads now, and if not, the one reason."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aggregator.catalogue import Catalogue
from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.problems import Problem
from aggregator.store import Store

LEAST_FREE_SHARE = 0.1
"""Rewriting its append-only file takes the store as much disk again, and without it it fills up."""


def free_share_of(directory: Path) -> float:
    """Return the share of a directory's disk that is free, 0..1.

    Raises:
        OSError: It cannot be looked at.
    """
    usage = shutil.disk_usage(directory)
    return usage.free / usage.total


def free_share_in(directory: Path | None) -> Callable[[], float] | None:
    """Return what tells the free share of a directory's disk; None: the store is elsewhere."""
    return None if directory is None else partial(free_share_of, directory)


@dataclass(frozen=True)
class Readiness:
    """Asks all that an upload depends on, anew each time.

    Attributes:
        most_lag_seconds: Age at which an unfolded report shows that nobody folds.
        free_share: Share of the store's disk that is free; None: the store is elsewhere.
    """

    store: Store
    catalogue: Catalogue
    most_lag_seconds: float = 600.0
    free_share: Callable[[], float] | None = None

    def check(self) -> None:
        """Return if the server is ready.

        Raises:
            Problem: It is not: `unavailable` with a member `reason`.
        """
        for reason, act in self._checks():
            try:
                act()
            except StoreUnavailable as error:
                raise _not_ready("store", str(error)) from error
            except StoreRefused as error:
                raise _not_ready(reason, str(error)) from error

    def _checks(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "store", self.store.check_writable
        yield "policy", self.store.check_policy
        yield "restored", self.store.check_generation
        yield "schema", self.store.check_schema
        yield "catalogue", self._check_catalogue
        yield "disk", self._check_disk
        yield "fold_lag", self._check_lag

    def _check_catalogue(self) -> None:
        if not self.catalogue.current().names:
            raise StoreRefused("no registry has been registered yet")

    def _check_disk(self) -> None:
        if self.free_share is None:
            return
        try:
            free = self.free_share()
        except OSError as error:
            raise StoreRefused(f"the store's disk cannot be looked at: {error.strerror}") from error
        if free < LEAST_FREE_SHARE:
            raise StoreRefused(
                f"the store's disk must have {LEAST_FREE_SHARE:.0%} free, it has {free:.1%}"
            )

    def _check_lag(self) -> None:
        oldest = self.store.figures.oldest_seconds()
        if oldest > self.most_lag_seconds:
            raise StoreRefused(
                f"reports must be folded within {self.most_lag_seconds:g} seconds, one has waited "
                f"for {oldest:.0f}: is `sottovoce fold` running?"
            )


def _not_ready(reason: str, detail: str) -> Problem:
    return Problem("unavailable", detail, more={"reason": reason})
