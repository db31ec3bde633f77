"""Closing an epoch: from then on its tallies never change, and hold every acknowledged report.

Intake is closed first, in all shards; whatever was acknowledged before that lies in a stream at or
before a fence. When all shards are folded past their fence, tallies are frozen. Each step only
raises something, so a closing that died anywhere is simply done again.
"""

from aggregator.fold import Folder
from aggregator.store import Store
from client_sdk.metric import Metric


def close_epoch(store: Store, metric: Metric, epoch: int) -> None:
    """Close an epoch of a metric, all its versions with this epoch length and all earlier epochs.

    Irrevocable. Safe to repeat, and beside other closers and folders.

    Raises:
        StoreUnavailable: A shard could not be reached; the epoch may be closed for intake already
            and is not yet final. Try again.
    """
    fences = {shard: store.close_intake(shard, metric, epoch) for shard in store.shards}
    folder = Folder(store)
    for shard, fence in fences.items():
        folder.fold_past(shard, fence)
    for shard in store.shards:
        store.freeze(shard, metric, epoch)
