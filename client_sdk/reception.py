"""From what the host says to a value on its way, or the reason why it goes no further.

Runs on the host's thread, so it takes no lock, waits for nothing and leaves the work to others.
"""

from collections.abc import Callable

from client_sdk.epochs import day_of
from client_sdk.pending import Pending, current_epoch
from client_sdk.registry import Registry


class Reception:
    """Decides for each value of one process whether it may come in.

    Args:
        registry: The metrics.
        clock: Unix time in seconds.
    """

    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self._metrics = registry.metrics
        self._clock = clock
        self._latest: dict[str, int] = {}

    def receive(
        self, name: str, value: object, hand_over: Callable[[Pending], str | None]
    ) -> str | None:
        """Hand a value over, or return why not.

        Returns:
            None when handed over as it is, "clamped" when handed over changed, else the reason.

        Raises:
            WrongType: The value cannot answer the metric's question.
        """
        metric = self._metrics.get(name)
        if metric is None:
            return "unknown_metric"
        encoded, clamped = metric.encode(value)
        now = self._clock()
        today = day_of(now)
        if today < metric.starts:
            return "not_started"
        if today >= metric.expires:
            return "expired"
        epoch = current_epoch(metric, now)
        if self._latest.get(name) == epoch:
            return "already_reported"
        reason = hand_over(Pending(metric, epoch, encoded))
        if reason is None:
            self._latest[name] = epoch
            return "clamped" if clamped else None
        return reason
