"""When each metric's next epoch closes and falls due, from the registry alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from client_sdk.epochs import day_of, epoch_of, label
from client_sdk.metric import Metric
from estimator.due import due_at, series


@dataclass(frozen=True)
class Closing:
    """The next epoch of a metric that will be published.

    Attributes:
        metric: Name.
        epoch: ISO 8601 name.
        at: Unix time at which it closes.
    """

    metric: str
    epoch: str
    at: float


def closings(metrics: Iterable[Metric], now: float) -> list[Closing]:
    """Return the next closing of each metric that has one left, the soonest first.

    Args:
        metrics: All versions.
        now: Unix time in seconds.
    """
    found = [_next(versions, now) for versions in series(metrics)]
    return sorted(filter(None, found), key=lambda closing: (closing.at, closing.metric))


def _next(versions: Sequence[Metric], now: float) -> Closing | None:
    length = versions[0].epoch
    first = epoch_of(length, min(version.starts for version in versions))
    last = epoch_of(length, max(version.expires for version in versions) - timedelta(days=1))
    epoch = max(first, epoch_of(length, day_of(now)))
    while epoch > first and due_at(versions, epoch - 1) > now:
        epoch -= 1
    at = due_at(versions, epoch)
    if epoch > last or at <= now:
        return None
    return Closing(versions[0].name, label(length, epoch), at)
