"""After a backup was restored: charge every device the most that it can have spent since.

The restored ledger lacks what was charged after the backup was taken. A device can have been
charged at most once for each epoch that the backup does not know as closed, if the backup does not
show that it had reported it, and once for each memoized channel that it had not paid. That is added
to its record, capped at the lifetime cap, so nobody can spend more than the cap; what is added too
much is lost to the device. A device without a record that is not new starts at the floor.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from aggregator.administration.record import Record, unrecorded
from aggregator.canary import is_canary
from aggregator.catalogue import Versions
from aggregator.connection import StoreRefused
from aggregator.group import series_of
from aggregator.recovery.erasure import erase_again
from aggregator.recovery.open_epochs import open_epochs
from aggregator.recovery.witness import FILE_NAME
from aggregator.store import Store
from aggregator.store.recovery import Charged, Plan, Recovery, Since
from client_sdk.epochs import day_of
from client_sdk.metric import Metric
from client_sdk.survey import is_survey


@dataclass(frozen=True)
class Recovered:
    """A recovery that has ended.

    Attributes:
        plan: What it did.
        charged: To how many devices it did it.
        erased: Devices that had been erased, and that the backup did not know as erased.
    """

    plan: Plan
    charged: Charged
    erased: int


def recover(
    store: Store, versions: Versions, day: date, now: float, record: Record = unrecorded
) -> Recovered:
    """Charge the devices of a restored store and let servers use it again.

    Safe to repeat: one that died on the way is taken up where it was left.

    Args:
        store: Restored, its shape checked.
        versions: All that devices can have run since the backup.
        day: The backup's day, in UTC: guards against a mix-up.
        now: Unix time in seconds.
        record: Told before the first device is charged.

    Raises:
        StoreRefused: The store was not restored, or not from a backup of that day.
        StoreUnavailable: Run it again.
    """
    recovery = store.recovery
    plan = recovery.begun()
    if plan is None:
        plan = _planned(recovery, versions, day, now)
        record("store_recovered", backup_of=plan.day, generation=plan.number)
        recovery.begin(plan)
    elif plan.day != day.isoformat():
        raise StoreRefused(
            f"a recovery from the backup of {plan.day} has begun and not ended: "
            f"run it again with that day, not with {day}"
        )
    erased = erase_again(store, versions, now)
    for shard in recovery.generation.restored(None if plan.required < 0 else plan.required):
        since = possible_since(versions.metrics.values(), recovery.closed(shard), plan.now)
        recovery.charge_shard(shard, plan, since)
        recovery.generation.lift(shard, plan.number, now)
    for shard in store.shards:
        recovery.generation.lift(shard, plan.number, now)
    recovery.generation.saw(plan.number)
    recovery.end()
    return Recovered(plan, recovery.charged(plan), erased)


def _planned(recovery: Recovery, versions: Versions, day: date, now: float) -> Plan:
    generation = recovery.generation
    known, found = generation.witness.generation(), generation.of_shards()
    restored = generation.restored(known)
    if not restored:
        done = recovery.finished()
        if done is not None and done.day == day.isoformat():
            raise StoreRefused(f"the recovery from the backup of {day} has been done already")
        raise StoreRefused(
            f"the store is not behind {FILE_NAME}, so it was not restored from a backup; if that "
            "file was restored together with the store, delete the file and run this again"
        )
    _check_day(day, max(generation.last_raised(shard) for shard in restored))
    worst = max(
        possible_since(versions.metrics.values(), recovery.closed(shard), now).total
        for shard in restored
    )
    return Plan(
        number=max(known or 0, *found) + 2,
        day=day.isoformat(),
        now=int(now),
        required=-1 if known is None else known,
        cap=versions.cap,
        floor=min(recovery.highest_floor() + worst, versions.cap),
    )


def _check_day(day: date, last_raised: int) -> None:
    """A store is written every minute that servers run: its last day is about the backup's."""
    if not last_raised:
        return
    last = day_of(last_raised)
    if not last <= day <= last + timedelta(days=1):
        raise StoreRefused(
            f"this store was in use until {last}, so it is not from a backup of {day}: "
            f"restore the right one, or run this with {last}"
        )


def possible_since(metrics: Iterable[Metric], closed: Mapping[str, int], now: float) -> Since:
    """Return what a device may have been charged since a shard was backed up.

    Args:
        metrics: Every version of every metric.
        closed: Per series the last epoch that the backup knows as closed.
        now: Unix time in seconds.
    """
    fresh: defaultdict[tuple[str, int], int] = defaultdict(int)
    memos: defaultdict[str, int] = defaultdict(int)
    for metric in metrics:
        # No device that will report again can have been charged for these: a canary's are no
        # user's, and who answers a survey is never heard of afterwards.
        if is_canary(metric.name) or is_survey(metric.name):
            continue
        series = series_of(metric)
        epochs = open_epochs(metric, closed.get(series, -1), now)
        if metric.memoize is None:
            for epoch in epochs:
                # Whichever version a device ran, it reported a series once per epoch.
                fresh[series, epoch] = max(fresh[series, epoch], metric.charge)
        elif epochs:
            memos[metric.channel_hash] = max(memos[metric.channel_hash], metric.charge)
    return Since(dict(fresh), dict(memos))
