"""Which epochs of a metric the server takes reports for, and may hold marks of."""

from datetime import timedelta

from aggregator.intake import CLOCK_TOLERANCE_SECONDS
from client_sdk.epochs import day_of, epoch_of
from client_sdk.metric import Metric


def open_epochs(metric: Metric, closed: int, now: float) -> range:
    """The epochs after `closed` whose reports intake takes, see `aggregator.intake.judge`."""
    today = day_of(now + CLOCK_TOLERANCE_SECONDS)
    if metric.starts > today and metric.epoch == "once":
        return range(0)
    first = 0 if metric.epoch == "once" else epoch_of(metric.epoch, metric.starts)
    last = min(today, metric.expires - timedelta(days=1))
    return range(max(first, closed + 1), epoch_of(metric.epoch, last) + 1)
