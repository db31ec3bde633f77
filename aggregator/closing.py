"""Closing an epoch: from then on its tallies never change, and hold every acknowledged report.

Intake is closed first, in all shards; whatever was acknowledged before that lies in a stream at or
before a fence. When all shards are folded past their fence, tallies are frozen. Each step only
raises something, so a closing that died anywhere is simply done again.
"""

from aggregator.fold import Folder
from aggregator.group import series_of
from aggregator.store import Store
from client_sdk.metric import Metric


def close_epoch(store: Store, metric: Metric, epoch: int) -> None:
    """Close an epoch of a metric, all its versions with this epoch length and all earlier epochs.

    Irrevocable. Safe to repeat, and beside other closers and folders.

    Raises:
        StoreUnavailable: A shard could not be reached; the epoch may be closed for intake already
            and is not yet final. Try again.
    """
    _close(store, series_of(metric), epoch)


def close_again(store: Store) -> list[str]:
    """Close in all shards what is closed in some; return the series of which that was so.

    A failover may take back the last second of a shard, and with it a closing that the others
    still know. Until this is done, that shard takes reports for an epoch that is published.

    Raises:
        StoreUnavailable: See `close_epoch`.
    """
    found = store.tallies.half_closed()
    for series, epoch in found.items():
        _close(store, series, epoch)
    return sorted(found)


def _close(store: Store, series: str, epoch: int) -> None:
    fences = {shard: store.tallies.close_intake(shard, series, epoch) for shard in store.shards}
    folder = Folder(store)
    for shard, fence in fences.items():
        folder.fold_past(shard, fence)
    for shard in store.shards:
        store.tallies.freeze(shard, series, epoch)
