"""A value between the host's call and the device's ledger, and the epoch it belongs to."""

from client_sdk.epochs import DAY_SECONDS, day_of, end_of, epoch_of, first_day
from client_sdk.mechanisms import Value
from client_sdk.metric import Metric


class Pending:
    """A value on its way from the host's thread to the transaction; lives in memory only.

    No tuple, and its repr is the default one, on purpose: values never reach a log, a traceback
    or a document.
    """

    __slots__ = ("epoch", "metric", "value")

    def __init__(self, metric: Metric, epoch: int, value: Value) -> None:
        self.metric = metric
        self.epoch = epoch
        self.value = value


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
