"""Terms: what reports of one metric and epoch must be and cost, worked out once for all of them."""

from dataclasses import dataclass

from aggregator.group import Group
from client_sdk.epochs import DAY_SECONDS, epoch_of, first_day
from client_sdk.metric import Metric
from client_sdk.report import hex_digits

_UNIX_EPOCH_ORDINAL = first_day("day", 0).toordinal()


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one metric version and epoch.

    Attributes:
        group: The tally that reports add to.
        cohorts: Reports carry a cohort below this.
        digits: Exact length of a response's hex text; 0 where it is the number of a cell.
        once: Whether the metric is asked once, in epoch 0.
        begins: Unix time in seconds at which the epoch begins.
        in_life: Whether the epoch is one of the metric's.
        charge: Micro-epsilon that a report costs; with `memo`, what the first one costs.
        memo: Channel hash of a memoized metric, which is charged once in a device's life.
    """

    group: Group
    cohorts: int
    digits: int
    once: bool
    begins: float
    in_life: bool
    charge: int
    memo: str | None

    @classmethod
    def of(cls, metric: Metric, epoch: int) -> "Terms":
        """Work out the terms of an epoch, which may lie outside the metric's life."""
        mechanism = metric.mechanism
        once = metric.epoch == "once"
        begins = metric.starts if once else first_day(metric.epoch, epoch)
        return cls(
            group=Group.of(metric, epoch),
            cohorts=mechanism.cohorts,
            digits=0 if mechanism.kind == "cell" else hex_digits(mechanism),
            once=once,
            begins=(begins.toordinal() - _UNIX_EPOCH_ORDINAL) * float(DAY_SECONDS),
            in_life=epoch == 0
            if once
            else epoch_of(metric.epoch, metric.starts) <= epoch and begins < metric.expires,
            charge=metric.charge,
            memo=metric.channel_hash if metric.memoize is not None else None,
        )
