"""A value between the host's call and the device's ledger, and the epoch it belongs to."""

from dataclasses import dataclass

from client_sdk.epochs import DAY_SECONDS, day_of, end_of, epoch_of, first_day
from client_sdk.mechanisms import Value
from client_sdk.metric import Metric


@dataclass(frozen=True, repr=False)
class Pending:
    """A value on its way from the host's thread to the transaction; lives in memory only.

    Its repr is the default one on purpose: values never reach a log or a traceback.
    """

    metric: Metric
    epoch: int
    value: Value


def current_epoch(metric: Metric, now: float) -> int:
    """Return the epoch that a value recorded now belongs to."""
    return epoch_of(metric.epoch, day_of(now))


def keep_until(metric: Metric, epoch: int) -> float:
    """Return the Unix time after which the server cannot want a report any more."""
    end = end_of(metric.epoch, epoch)
    if metric.epoch == "once":
        expires = metric.expires
        end = float((expires - first_day("day", 0)).days * DAY_SECONDS)
    return end + metric.grace_days * DAY_SECONDS
