"""A sample of the ledger: how much of their lifetime budget devices have spent.

Over a sample of whole buckets, scaled up. Devices lie in buckets by a keyed hash, so a sample of
buckets is one of devices, drawn without looking at what they spent.
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Self

from aggregator.store.accounts import Account

RATIOS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Upper ends of the classes of spent / cap."""
QUANTILES = (0.1, 0.5, 0.9)
CLASSES = 20
"""Equal classes of spent / cap in the histogram."""


@dataclass(frozen=True)
class Spender:
    """One device of the sample.

    Attributes:
        spent: Micro-epsilon in its life.
        remembered: The part of it that is reserved for memoized metrics. Of devices that have
            spent the same, the one with the largest part is taken: composition tightens it least.
    """

    spent: int
    remembered: int


@dataclass(frozen=True)
class LedgerSample:
    """What was found; numbers of devices are scaled up to all buckets.

    Attributes:
        taken_at: Unix time in seconds.
        devices: Devices that have a ledger record: that ever reported.
        exhausted: Those that cannot pay for the cheapest metric any more.
        within: Devices whose spent / cap is at most each of RATIOS.
        spent_ratio_sum: Sum of spent / cap over devices.
        remaining: Epsilon left at each of QUANTILES of the devices; empty without devices.
        remaining_mean: Mean epsilon left; 0 without devices.
        histogram: Devices in each of CLASSES classes of spent / cap, a class holding its lower
            end; the last also holds what is at the cap or above.
        payers: Devices that have paid for each memoized channel, by its hash.
        highest: The device of the sample that has spent most; None without devices.
        median: One in the middle.
    """

    taken_at: float
    devices: int
    exhausted: int
    within: tuple[int, ...]
    spent_ratio_sum: float
    remaining: tuple[float, ...]
    remaining_mean: float
    histogram: tuple[int, ...]
    payers: Mapping[str, int]
    highest: Spender | None
    median: Spender | None

    @classmethod
    def of(
        cls,
        accounts: Sequence[Account],
        *,
        cap: int,
        cheapest: int,
        scale: float,
        now: float,
        memos: Mapping[str, int] = MappingProxyType({}),
    ) -> Self:
        """Sum up a sample.

        Args:
            accounts: Of each device of the sample.
            cap: Lifetime cap in micro-epsilon, at least 1.
            cheapest: Micro-epsilon of the cheapest first report.
            scale: Buckets in all / buckets in the sample.
            now: Unix time in seconds.
            memos: Micro-epsilon reserved for each memoized channel, by its hash.
        """
        ordered = sorted(account.spent for account in accounts)
        n = len(ordered)
        left = [max(0, cap - each) for each in reversed(ordered)]
        payers = Counter(channel for account in accounts for channel in account.paid)
        classes = Counter(min(CLASSES - 1, each * CLASSES // cap) for each in ordered)
        return cls(
            taken_at=now,
            devices=round(n * scale),
            exhausted=round(scale * sum(each + cheapest > cap for each in ordered)),
            within=tuple(round(scale * _at_most(ordered, ratio * cap)) for ratio in RATIOS),
            spent_ratio_sum=scale * sum(ordered) / cap,
            remaining=tuple(left[int(q * (n - 1))] / 1e6 for q in QUANTILES) if n else (),
            remaining_mean=sum(left) / n / 1e6 if n else 0.0,
            histogram=tuple(round(scale * classes[number]) for number in range(CLASSES)),
            payers={channel: round(scale * count) for channel, count in payers.items()},
            highest=_spender(accounts, ordered[-1], memos) if n else None,
            median=_spender(accounts, ordered[(n - 1) // 2], memos) if n else None,
        )

    def text(self) -> str:
        """Return what the store keeps."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str | bytes) -> Self | None:
        """Read what the store keeps; None if a version with other fields has written it."""
        kept = json.loads(text)
        if kept.keys() != cls.__dataclass_fields__.keys():
            return None
        lists = {name: tuple(kept[name]) for name in ("within", "remaining", "histogram")}
        spenders = {
            name: None if kept[name] is None else Spender(**kept[name])
            for name in ("highest", "median")
        }
        return cls(**(kept | lists | spenders))


def _at_most(ordered: Sequence[int], limit: float) -> int:
    return bisect_left(ordered, limit + 0.5)


def _spender(accounts: Sequence[Account], spent: int, memos: Mapping[str, int]) -> Spender:
    remembered = max(
        sum(memos[channel] for channel in account.paid)
        for account in accounts
        if account.spent == spent
    )
    return Spender(spent, min(spent, remembered))
