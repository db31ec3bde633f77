"""Erasing a device: what is kept under its pseudonym goes, and nothing is taken from it again.

Tallies and streams stay: they hold no id, so nothing in them is that device's any more. What stays
of the device is its pseudonym, in the store and in a file beside the key file (aggregator.
tombstones), so that neither a copy of it nor a restored backup of the store brings it back.
"""

from collections.abc import Iterable, Mapping

from aggregator.catalogue import Versions
from aggregator.group import series_of
from aggregator.recovery.open_epochs import open_epochs
from aggregator.store import Store
from aggregator.store.layout import Place
from client_sdk.metric import Metric


def erase(store: Store, versions: Versions, device: str, now: float) -> bool:
    """Erase a device, known or not; safe to repeat.

    Args:
        store: Where it is erased.
        versions: All that a device can have reported.
        device: Its id, 32 hex digits.
        now: Unix time in seconds.

    Returns:
        Whether there was a record of it.

    Raises:
        StoreUnavailable, StoreRefused: It may not be erased yet; repeat it.
    """
    return _erase(store, versions, store.erasures.place(device), now, restored=False)


def erase_again(store: Store, versions: Versions, now: float) -> int:
    """Erase whom a store has forgotten to be erased, as after a backup; return how many.

    Raises:
        StoreUnavailable, StoreRefused: Some may not be erased yet; repeat it.
    """
    places = store.erasures.forgotten()
    for place in places:
        _erase(store, versions, place, now, restored=True)
    return len(places)


def _erase(store: Store, versions: Versions, place: Place, now: float, *, restored: bool) -> bool:
    marks = marks_of(versions.metrics.values(), store.tallies.frozen(place.shard), now)
    memos = {m.channel_hash for m in versions.metrics.values() if m.memoize is not None}
    return store.erasures.erase(place, sorted(marks), sorted(memos), restored=restored)


def marks_of(
    metrics: Iterable[Metric], frozen: Mapping[str, int], now: float
) -> set[tuple[str, int]]:
    """Return series and epoch of every mark that a shard can hold.

    Args:
        metrics: Every version of every metric.
        frozen: Per series the last epoch whose marks are gone.
        now: Unix time in seconds.
    """
    return {
        (series_of(metric), epoch)
        for metric in metrics
        for epoch in open_epochs(metric, frozen.get(series_of(metric), -1), now)
    }
