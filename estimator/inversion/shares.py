"""Closed domains: supports of each value are counted, the two-probability channel is inverted."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from aggregator.tally import Tally
from estimator.debias import Channel
from estimator.estimates import Estimate, Estimates
from estimator.inversion.cumulative import quantiles_of
from estimator.inversion.described import Described
from estimator.inversion.entries import Columns, entries_of
from estimator.plausibility import worst_shift

METHOD = (
    "inverted channel; Wilson interval of the support count, of all together Clopper-Pearson, "
    "mapped through the inverse"
)


def estimates(metric: Described, tally: Tally, level: float) -> Estimates:
    """Estimate shares where a value's supports are the counts of its one cell.

    Of numbers also quantiles.
    """
    found = from_supports(metric, tally.counts.sum(axis=0), tally.n, level)
    if not metric.edges or tally.n == 0:
        return found
    raw = np.array([entry.share for entry in found.entries], np.float64)
    return replace(
        found, quantiles=quantiles_of(metric.mechanism, metric.edges, raw, tally.n, level)
    )


def from_supports(metric: Described, counts: NDArray[np.int64], n: int, level: float) -> Estimates:
    """Estimate the shares of a closed domain.

    Args:
        metric: Its labels and mechanism.
        counts: How many of the reports support each value; of a yes/no answer, "yes" alone.
        n: Reports.
        level: Of intervals and significance.
    """
    epsilon = float(metric.mechanism.epsilon)
    if n == 0:
        empty = tuple(Estimate(label) for label in metric.labels)
        return Estimates(n, epsilon, level, METHOD, empty)
    channel = Channel.of_values(metric.mechanism)
    raw = channel.invert(counts / n)
    if len(raw) == len(metric.labels):
        parts = [Columns.of(raw, counts, n, channel, level, cells=len(raw))]
    else:
        # "No" is the same event as "yes", seen from the other side, so the two intervals hold or
        # fail together and need no correction.
        no = Columns.of(1 - raw, n - counts, n, channel.complement(), level, cells=1)
        parts = [no, Columns.of(raw, counts, n, channel, level, cells=1)]
    exclusive = metric.mechanism.encodes != "several"
    entries = entries_of(metric.labels, Columns.joined(parts), n, exclusive=exclusive)
    shift = worst_shift(metric.mechanism)
    return Estimates(n, epsilon, level, METHOD, entries, worst_shift=shift)
