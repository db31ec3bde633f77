"""What a reviewer of metrics.toml should look at twice; nothing here is an error."""

from decimal import Decimal

from client_sdk.metric import Metric
from client_sdk.registry import Registry

USUAL_EPSILON: dict[str, tuple[Decimal, Decimal]] = {
    "census": (Decimal("0.1"), Decimal(1)),
    "health": (Decimal("0.5"), Decimal(2)),
    "location": (Decimal(1), Decimal(3)),
    "product": (Decimal(1), Decimal(5)),
    "experiment": (Decimal(2), Decimal(8)),
    "public report": (Decimal("0.5"), Decimal(3)),
}
"""Epsilon of one report that is usual for each sensitivity."""

DAYS_OF_A_YEAR = 365


def yearly(metric: Metric) -> int:
    """Return the most micro-epsilon that the metric costs a device in a year.

    Of a memoized metric that is its whole reservation, though it is paid once in a life.
    """
    if metric.memoize is not None:
        return metric.charge
    return metric.charge * metric.most_reports_in(DAYS_OF_A_YEAR)


def covering_changes(metric: Metric) -> int | None:
    """Return the bound on a metric's life that also covers when values changed.

    Micro-epsilon: most reports times the loss of the fresh stage. None where there is no bound:
    no end, or the remembered response itself is sent.
    """
    if metric.memoize is None:
        return metric.share(metric.starts)
    if metric.change_charge is None or metric.endless:
        return None
    return metric.blocks(metric.starts, metric.expires) * metric.change_charge


def warnings(registry: Registry) -> list[str]:
    """Return one line for each thing that a reviewer should ask about."""
    found = []
    for metric in registry.metrics.values():
        low, high = USUAL_EPSILON[metric.sensitivity]
        if not low <= metric.epsilon <= high:
            side = "above" if metric.epsilon > high else "below"
            found.append(
                f"metrics.{metric.name}.epsilon: {metric.epsilon} is {side} what is usual for "
                f"sensitivity {metric.sensitivity}, {low} to {high}"
            )
        if metric.memoize is not None and metric.epoch != "once":
            found.append(
                f"metrics.{metric.name}.memoize: hides which values a device had, not when they "
                "changed; do not memoize where a change is sensitive"
            )
    silent = [each.name for each in registry.metrics.values() if each.when_absent is None]
    if silent:
        found.append(
            f"{', '.join(silent)}: a device that records nothing stays silent, and its silence "
            "shows; when_absent makes it report all the same"
        )
    return found
