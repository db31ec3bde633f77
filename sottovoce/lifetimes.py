"""Lifetime epsilon over devices, in words."""

from estimator.ledger.lifetime import Lifetime
from estimator.ledger.spending import Composed, Spending
from sottovoce.table import table


def lifetime_in_words(found: Lifetime) -> str:
    """Return the distribution as a short paragraph."""
    if found.highest is None:
        return f"Lifetime epsilon: no device has reported yet; the cap is {found.cap:g}."
    return (
        f"Lifetime epsilon over {found.devices} devices: lowest {found.lowest:g}, "
        f"median {found.median:g}, 95th percentile {found.p95:g}, highest {found.highest:g}, "
        f"mean {found.mean:.3f}; cap {found.cap:g}, {found.exhausted} exhausted."
    )


def spending_in_words(found: Spending) -> str:
    """Return the whole view: distribution, metrics, and the figures that nothing enforces."""
    parts = [lifetime_in_words(found.lifetime)]
    if found.lifetime.devices:
        parts.append(
            "A device is exhausted when what it has left does not pay for the cheapest report of "
            "the newest\nregistry; metrics that it has paid for whole go on reporting."
        )
    rows = [
        (
            name,
            str(metric.reports),
            "-" if metric.devices_paid is None else str(metric.devices_paid),
            f"{metric.epsilon:g}",
            "no bound"
            if metric.epsilon_covering_changes is None
            else f"{metric.epsilon_covering_changes:g}",
        )
        for name, metric in found.metrics.items()
    ]
    header = ("metric", "reports counted", "devices paid", "epsilon, all devices", "with changes")
    parts.append(
        table(header, rows)
        + "\nTotals over all devices: the server keeps one sum per device, not one per metric. "
        "Devices paid: those\nthat have paid a memoized metric's whole reservation, once in their "
        "life: it bounds what tells histories apart\nthat change at the same times; with changes "
        "covers in addition when they changed. Reports that wait to be\nfolded, and charges added "
        "after a backup was restored, are in the distribution only."
    )
    shown = (
        ("The device that has spent most", found.highest),
        ("The median device", found.median),
    )
    figures = [composed_in_words(which, device) for which, device in shown if device]
    if figures:
        parts.append("\n".join(figures))
    return "\n\n".join(parts)


def composed_in_words(who: str, found: Composed) -> str:
    """Return one device's figures, plain sum first."""
    kept = f", {found.remembered:g} of it for remembered answers" if found.remembered else ""
    return (
        f"{who}: {found.spent:g} by plain addition, which is what the cap holds{kept}.\n"
        f"  For comparison, not enforced: at most {found.epsilon:.4g}, except with probability "
        f"{found.delta:g}."
    )
