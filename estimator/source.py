"""The real source of tallies: the aggregator's store and its catalogue of registry versions."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from aggregator.catalogue import Catalogue
from aggregator.closing import close_again, close_epoch
from aggregator.purposes import foremost
from aggregator.recovery.erasure import erase_again
from aggregator.store import Store
from aggregator.tally import Tally
from client_sdk.metric import Metric
from client_sdk.registry import Registry
from estimator.errors import NotPublishable
from estimator.ledger.lifetime import Lifetime, lifetime

log = logging.getLogger(__name__)
_newest = lru_cache(maxsize=1)(foremost)


@dataclass(frozen=True)
class StoreSource:
    """A `due.Source` over a store."""

    store: Store
    catalogue: Catalogue

    def project(self) -> str:
        """Return the project's name in the registry version that the store is shown by."""
        return self.newest().project

    def newest(self) -> Registry:
        """Return the newest registry version for apps, or where no app has one a survey's."""
        registry = _newest(tuple(self.store.registries.texts()))
        if registry is None:
            raise NotPublishable("the store holds no registry yet")
        return registry

    def metrics(self) -> Iterable[Metric]:
        return list(self.catalogue.load().metrics.values())

    def epochs_with_reports(self, metric: Metric) -> list[int]:
        return self.store.tallies.epochs_with_reports(metric)

    def close(self, metric: Metric, epoch: int) -> None:
        close_epoch(self.store, metric, epoch)

    def close_again(self) -> None:
        """Assert anew what was closed and is not known as closed everywhere; see `closing`."""
        for series in close_again(self.store):
            log.warning("%s was closed in a part of the store only; closed everywhere now", series)

    def erase_again(self, now: float) -> None:
        """Erase anew whom the store has forgotten to be erased; see `erasure`."""
        if count := erase_again(self.store, self.catalogue.load(), now):
            log.warning("the store had lost %d erasures; they are done again", count)

    def tally(self, metric: Metric, epoch: int) -> Tally:
        return self.store.tallies.of(metric, epoch)

    def popcounts(self, metric: Metric, epoch: int) -> Sequence[int]:
        return self.store.tallies.popcounts(metric, epoch)

    def lifetime(self) -> Lifetime:
        versions = self.catalogue.current()
        return lifetime(self.store.accounts.every_spent(), versions.cap, max(1, versions.cheapest))
