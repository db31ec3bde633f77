"""Closed domains with a probability for each pair of value and response: the matrix is inverted."""

from aggregator.tally import Tally
from estimator.estimates import Estimate, Estimates
from estimator.inversion.described import Described
from estimator.inversion.entries import Columns, entries_of
from estimator.inversion.scores import (
    channel_rows,
    linear_estimate,
    unbiased_scores,
    worst_shift_of,
)

METHOD = "inverted channel matrix; outer ends of normal and score interval"


def estimates(metric: Described, tally: Tally, level: float) -> Estimates:
    """Estimate shares by the scores that invert the matrix P(response | value)."""
    epsilon, n = float(metric.mechanism.epsilon), tally.n
    if n == 0:
        empty = tuple(Estimate(label) for label in metric.labels)
        return Estimates(n, epsilon, level, METHOD, empty)
    rows = channel_rows(metric.mechanism)
    scores = unbiased_scores(rows)
    found = linear_estimate(tally.counts.sum(axis=0), scores, rows, n)
    entries = entries_of(metric.labels, Columns.stated(found, level), n)
    return Estimates(n, epsilon, level, METHOD, entries, worst_shift=worst_shift_of(scores))
