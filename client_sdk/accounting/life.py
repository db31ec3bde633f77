"""What all reports that a file can ask of one device reveal together, beside what they cost."""

from collections.abc import Iterable
from typing import NamedTuple

from client_sdk.accounting.account import account
from client_sdk.accounting.law import DELTA
from client_sdk.metric import Metric


class Life(NamedTuple):
    """A device's whole life with some metrics: it is in every sample and reports whenever it may.

    Attributes:
        enforced: Micro-epsilon of all reports, the sum of the metrics' shares; what caps are kept
            with.
        remembered: The part of it that is reserved for memoized metrics, which nothing tightens.
        epsilon: Bound on the loss with probability 1 - delta, for two lives whose memoized values
            change at the same times. Never enforced.
        delta: Probability with which the loss may be larger.
        rule: Which rule gave the part of reports with fresh noise.
    """

    enforced: int
    remembered: int
    epsilon: float
    delta: float
    rule: str


def whole_life(metrics: Iterable[Metric], delta: float = DELTA) -> Life:
    """Account for everything that one device can ever be asked.

    Raises:
        ParameterError: delta does not lie in [1e-30, 1).
    """
    each = list(metrics)
    fresh = [
        (metric.mechanism, metric.blocks(metric.starts, metric.expires))
        for metric in each
        if metric.memoize is None
    ]
    shares = {metric.name: metric.share(metric.starts) for metric in each}
    remembered = sum(shares[metric.name] for metric in each if metric.memoize is not None)
    found = account(fresh, delta=delta)
    enforced = sum(shares.values())
    epsilon = min(found.epsilon + remembered / 1e6, enforced / 1e6)
    return Life(enforced, remembered, epsilon, delta, found.rule)
