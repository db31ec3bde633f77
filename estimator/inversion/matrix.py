"""Closed domains with a probability for each pair of value and response: the matrix is inverted."""

from aggregator.tally import Tally
from client_sdk.metric import Label
from estimator.estimates import Estimate, Estimates
from estimator.inversion.described import Described
from estimator.inversion.entries import Columns, entries_of
from estimator.inversion.scores import (
    Linear,
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
    entries = entries_from(metric.labels, found, n, level)
    return Estimates(n, epsilon, level, METHOD, entries, worst_shift=worst_shift_of(scores))


def entries_from(
    labels: tuple[Label, ...], found: Linear, n: int, level: float
) -> tuple[Estimate, ...]:
    """Return one entry per label of a closed domain, of one collection's estimates."""
    cells = len(labels)
    columns = Columns(
        found.shares,
        found.population,
        found.reporters,
        found.interval(level),
        found.interval(level, cells),
        found.significant(level, cells),
    )
    return entries_of(labels, columns, n)
