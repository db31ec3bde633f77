"""Numbers whose mean is measured, numbers with quantiles, and options: as estimators state them."""

from dataclasses import replace
from decimal import Decimal

from client_sdk.metric import Metric
from estimator.estimate import estimate
from estimator.estimates import Estimates, Mean, Quantile
from tests.estimator.conftest import expected_tally

LABELS = ("0 to 30", "30 to 60", "60 to 90", "90 to 120")


def minutes(metrics: dict[str, Metric]) -> Metric:
    """A number without buckets, 0 to 120."""
    edges = (Decimal(0), Decimal(120))
    return metrics["theme"]._replace(
        name="minutes", type="number", question="How many minutes?", labels=(), edges=edges
    )


def bucketed(metrics: dict[str, Metric]) -> Metric:
    """The same in four buckets."""
    return minutes(metrics)._replace(
        name="buckets", labels=LABELS, edges=tuple(map(Decimal, (0, 30, 60, 90, 120)))
    )


def of_mean(value: float, error: float = 0.8, noise: float = 0.6, n: int = 5000) -> Estimates:
    """What is said of a mean, with a normal interval."""
    half = 1.959963984540054 * error
    mean = Mean(value, error, noise, (value - half, value + half))
    return Estimates(n, 1.0, 0.95, "a mean", (), worst_shift=1.5, mean=mean)


def of_quantiles(metric: Metric, median: float = 41.0, n: int = 5000) -> Estimates:
    """What is said of the shares of buckets and of the quantiles of a number."""
    quartiles = (
        Quantile(0.25, 14.5, (0.0, 30.0)),
        Quantile(0.5, median, (30.0, 60.0)),
        Quantile(0.75, 71.0, (60.0, 90.0)),
    )
    found = estimate(metric, expected_tally(metric, n, [0.4, 0.3, 0.2, 0.1]))
    return replace(found, quantiles=quartiles)
