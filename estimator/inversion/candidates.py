"""Strings: the shares of listed candidates are fitted to all cells, and of all else together."""

from aggregator.tally import Tally
from estimator.decode import decode, design_for
from estimator.estimates import Estimate, Estimates
from estimator.inversion.described import Described
from estimator.inversion.entries import Columns, entries_of

METHOD = "weighted least squares over candidates; normal interval from the sandwich covariance"


def estimates(metric: Described, tally: Tally, level: float) -> Estimates:
    """Estimate the shares of a metric's candidates, and of all other strings together."""
    mechanism = metric.mechanism
    epsilon, n = float(mechanism.epsilon), tally.n
    if n == 0 or not metric.candidates:
        # Without candidates there is nothing to look for, and all strings are "other".
        empty = tuple(Estimate(candidate) for candidate in metric.candidates)
        return Estimates(n, epsilon, level, METHOD, empty, Estimate(None))
    decoded = decode(tally, mechanism, design_for(mechanism, metric.candidates))
    cells = len(decoded.shares)
    columns = Columns(
        decoded.shares,
        decoded.population,
        decoded.reporters,
        decoded.interval(level),
        decoded.interval(level, cells),
        decoded.significant(level, cells),
    )
    *entries, other = entries_of((*metric.candidates, None), columns, n)
    return Estimates(
        n,
        epsilon,
        level,
        METHOD,
        tuple(entries),
        other,
        decoded.misfit,
        decoded.condition,
        decoded.worst_shift,
    )
