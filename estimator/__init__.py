"""From tallies to published shares: the floor that knows statistics.

May import `client_sdk` (what a metric and a mechanism are), the tally and ledger readers of
`aggregator` (nothing that loads Flask), numpy, scipy and APScheduler. Whatever is computed here
is post-processing of randomized reports and cannot cost anybody privacy; it can only be wrong,
so every number states its error.

In a notebook:

    from client_sdk import load
    from estimator import Tally, estimate

    theme = load("metrics.toml").metrics["theme"]
    found = estimate(theme, Tally.of([4200, 3100, 2700, 150]))
    found           # a table
    found.rows()    # for a data frame
"""

from aggregator.tally import Tally
from estimator.estimate import estimate
from estimator.estimates import Estimate, Estimates, Mean, Quantile

__all__ = ["Estimate", "Estimates", "Mean", "Quantile", "Tally", "estimate"]
