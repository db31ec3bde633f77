"""What the server's ledger and tallies say about spent epsilon: over devices and by metric.

The ledger holds one sum per device, so what a metric has cost is known over all devices only: from
the reports in its tallies, and from how many devices have paid for its remembered answers.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aggregator.store.accounts import Account
from aggregator.store.ledger_sample import LedgerSample
from client_sdk.accounting import DELTA, of_unknown_reports
from client_sdk.metric import Metric
from estimator.ledger.lifetime import MICRO, Lifetime, lifetime


@dataclass(frozen=True)
class Composed:
    """One device's spent epsilon, and what its reports reveal together at a small delta.

    Attributes:
        spent: By plain addition; this is what the cap holds.
        remembered: The part of it that is reserved for memoized metrics, which nothing tightens.
        epsilon: Bound on the loss with probability 1 - delta; at most `spent`. Never enforced.
        delta: Probability with which the loss may be larger.
    """

    spent: float
    remembered: float
    epsilon: float
    delta: float


@dataclass(frozen=True)
class MetricSpending:
    """One metric, all its versions, over all devices.

    Attributes:
        reports: In its tallies, of open and closed epochs.
        devices_paid: Devices that have paid for its remembered answers, per version's channel;
            None unless it is memoized.
        epsilon: What all devices together were charged for it.
        epsilon_covering_changes: Bound that also covers when values changed, over all devices:
            for memoized metrics the loss of the fresh stage in every report. None: no bound.
    """

    reports: int
    devices_paid: int | None
    epsilon: float
    epsilon_covering_changes: float | None


@dataclass(frozen=True)
class Spending:
    """The whole view.

    Attributes:
        lifetime: The distribution over devices.
        highest: The device that has spent most; None without devices.
        median: A device in the middle; None without devices.
        metrics: By name.
    """

    lifetime: Lifetime
    highest: Composed | None
    median: Composed | None
    metrics: Mapping[str, MetricSpending]

    def to_dict(self) -> dict[str, Any]:
        """Return the distribution's fields, with `composition` and `metrics` beside them."""
        composition = {
            name: None if found is None else asdict(found)
            for name, found in (("highest", self.highest), ("median", self.median))
        }
        metrics = {name: asdict(found) for name, found in self.metrics.items()}
        return self.lifetime.to_dict() | {"composition": composition, "metrics": metrics}


@dataclass(frozen=True)
class Prices:
    """What reports cost, over all registry versions.

    Attributes:
        fresh: Micro-epsilon of one report, by fingerprint.
        changes: What one report adds to the bound that covers changes, by fingerprint; None
            where there is no bound.
        memos: Micro-epsilon of a reservation, by channel hash.
        names: Name of each fingerprint and channel's metric.
    """

    fresh: Mapping[str, int]
    changes: Mapping[str, int | None]
    memos: Mapping[str, int]
    names: Mapping[str, str]

    @classmethod
    def of(cls, metrics: Iterable[Metric]) -> "Prices":
        """Gather the prices; of several reservations for one channel the largest counts."""
        fresh: dict[str, int] = {}
        changes: dict[str, int | None] = {}
        memos: dict[str, int] = {}
        names: dict[str, str] = {}
        for metric in metrics:
            names[metric.fingerprint] = metric.name
            changes[metric.fingerprint] = metric.change_charge
            if metric.memoize is None:
                fresh[metric.fingerprint] = metric.charge
            else:
                channel = metric.channel_hash
                names[channel] = metric.name
                memos[channel] = max(memos.get(channel, 0), metric.charge)
        return cls(fresh, changes, memos, names)

    def remembered(self, account: Account) -> int:
        """Return the micro-epsilon of an account that is reserved for memoized metrics."""
        return min(account.spent, sum(self.memos[channel] for channel in account.paid))

    def composed(self, spent: int, remembered: int) -> Composed:
        """Bound what a device's reports reveal together."""
        epsilons = {charge / MICRO for charge in self.fresh.values()}
        tight = of_unknown_reports((spent - remembered) / MICRO, epsilons, DELTA)
        kept = remembered / MICRO
        return Composed(spent / MICRO, kept, min(kept + tight, spent / MICRO), DELTA)

    def account(self, account: Account, cap_micro: int) -> dict[str, Any]:
        """Return what one device has spent in its life, as a document."""
        found = self.composed(account.spent, self.remembered(account))
        return {
            "spent_epsilon": found.spent,
            "lifetime_epsilon": cap_micro / MICRO,
            "left_epsilon": max(0, cap_micro - account.spent) / MICRO,
            "batches": account.sequence,
            "remembered": sorted({self.names[channel] for channel in account.paid}),
            "composition": asdict(found),
        }


def spending(
    accounts: Iterable[Account],
    reports: Mapping[tuple[str, str], int],
    prices: Prices,
    cap_micro: int,
    cheapest_micro: int,
) -> Spending:
    """Summarise the ledger and the tallies.

    Args:
        accounts: Of all devices; read once.
        reports: Ever folded, by metric and fingerprint.
        prices: Of all registry versions.
        cap_micro: The lifetime cap in micro-epsilon.
        cheapest_micro: Least that a report of the newest registry costs; 0 without a registry.
    """
    spent, remembered, payers = _columns(accounts, prices)
    highest = median = None
    if spent.size:
        highest = _device_at(spent, remembered, int(spent.max()), prices)
        middle = np.quantile(spent, 0.5, method="inverted_cdf")
        median = _device_at(spent, remembered, int(middle), prices)
    found = lifetime(spent.tolist(), cap_micro, max(1, cheapest_micro))
    return Spending(found, highest, median, _by_metric(reports, payers, prices))


@dataclass(frozen=True)
class Sampled:
    """The view from a sample, scaled up; reports are counted exactly.

    Attributes:
        sample: What was looked at.
        cap: The lifetime cap, epsilon.
        highest: The device of the sample that has spent most; None without devices.
        median: One in the middle; None without devices.
        metrics: By name; what memoized ones have cost is scaled up.
    """

    sample: LedgerSample
    cap: float
    highest: Composed | None
    median: Composed | None
    metrics: Mapping[str, MetricSpending]


def sampled(
    sample: LedgerSample, reports: Mapping[tuple[str, str], int], prices: Prices, cap_micro: int
) -> Sampled:
    """See `spending`, which reads the whole ledger; this costs nothing."""
    highest, median = (
        None if device is None else prices.composed(device.spent, device.remembered)
        for device in (sample.highest, sample.median)
    )
    metrics = _by_metric(reports, sample.payers, prices)
    return Sampled(sample, cap_micro / MICRO, highest, median, metrics)


def _columns(
    accounts: Iterable[Account], prices: Prices
) -> tuple[NDArray[np.int64], NDArray[np.int64], Counter[str]]:
    payers: Counter[str] = Counter()
    flat: list[int] = []
    for account in accounts:
        flat += (account.spent, prices.remembered(account))
        payers.update(account.paid)
    pairs = np.array(flat, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1], payers


def _device_at(
    spent: NDArray[np.int64], remembered: NDArray[np.int64], figure: int, prices: Prices
) -> Composed:
    """Of the devices that have spent so much, the one with the least to gain from composition."""
    return prices.composed(figure, int(remembered[spent == figure].max()))


def _by_metric(
    reports: Mapping[tuple[str, str], int], payers: Mapping[str, int], prices: Prices
) -> dict[str, MetricSpending]:
    counted: Counter[str] = Counter()
    charged: Counter[str] = Counter()
    changes: dict[str, int | None] = dict.fromkeys(prices.names.values(), 0)
    paid: Counter[str] = Counter()
    for (_, fingerprint), number in reports.items():
        if fingerprint not in prices.names:  # of a version registered since the prices were read
            continue
        name = prices.names[fingerprint]
        counted[name] += number
        charged[name] += number * prices.fresh.get(fingerprint, 0)
        before, each = changes[name], prices.changes[fingerprint]
        changes[name] = None if before is None or each is None else before + number * each
    for channel, price in prices.memos.items():
        paid[prices.names[channel]] += payers.get(channel, 0)
        charged[prices.names[channel]] += payers.get(channel, 0) * price
    return {
        name: MetricSpending(
            counted[name],
            paid[name] if name in paid else None,
            charged[name] / MICRO,
            None if bound is None else bound / MICRO,
        )
        for name, bound in sorted(changes.items())
    }
