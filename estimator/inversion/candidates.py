"""Strings: the shares of listed candidates are fitted to all cells, and of all else together."""

from aggregator.tally import Tally
from estimator.decode import decode, design_for, predicted_standard_error
from estimator.errors import DecodeError
from estimator.estimates import Estimate, Estimates
from estimator.inversion.described import Described
from estimator.inversion.entries import Columns, entries_of

METHOD = "weighted least squares over candidates; normal interval from the sandwich covariance"


def estimates(metric: Described, tally: Tally, level: float) -> Estimates:
    """Estimate the shares of a metric's candidates, and of all other strings together.

    None where the cohorts that have reports are too few to tell the candidates apart.

    Raises:
        DecodeError: All cohorts together could not tell them apart either.
    """
    mechanism = metric.mechanism
    epsilon, n = float(mechanism.epsilon), tally.n
    empty = tuple(Estimate(candidate) for candidate in metric.candidates)
    nothing = Estimates(n, epsilon, level, METHOD, empty, Estimate(None))
    if n == 0 or not metric.candidates:
        # Without candidates there is nothing to look for, and all strings are "other".
        return nothing
    try:
        decoded = decode(tally, mechanism, design_for(mechanism, metric.candidates))
    except DecodeError:
        # The few cohorts of few reports may not tell apart what all of them do.
        predicted_standard_error(mechanism, metric.candidates, n)
        return nothing
    columns = Columns.stated(decoded, level)
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
