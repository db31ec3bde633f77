"""A bound for reports of which only the summed epsilon is known, as a server's ledger knows it."""

import math
from collections.abc import Collection

from client_sdk.accounting.advanced import from_sums
from client_sdk.accounting.law import DELTA, Fresh, worst_law
from client_sdk.accounting.loss_distribution import by_losses
from client_sdk.accounting.renyi import ORDERS, from_renyi, renyi


def of_unknown_reports(total: float, epsilons: Collection[float], delta: float = DELTA) -> float:
    """Bound the loss of reports with fresh noise of which only the sum of epsilons is known.

    Every bound used grows with sums over reports, and in a sum of f(epsilon) each unit of epsilon
    weighs at most the largest f(epsilon) / epsilon.

    Args:
        total: Sum of the reports' epsilons.
        epsilons: What single reports can have cost.
        delta: Probability with which the bound may fail.

    Returns:
        At most `total`.
    """
    if not total or not epsilons:
        return total
    laws = [worst_law(epsilon) for epsilon in set(epsilons)]
    mean = total * max(math.tanh(epsilon / 2) for epsilon in epsilons)
    bounds = [total, from_sums(total, mean, total * max(epsilons), delta)]
    for order in ORDERS:
        worst = max(renyi(law, order) / law.size for law in laws)
        bounds.append(from_renyi(total * worst, order, delta))
    if len(laws) == 1:
        reports = math.ceil(total / laws[0].size - 1e-9)
        exact = by_losses([Fresh(laws[0], reports)], delta)
        bounds += [] if exact is None else [exact]
    return min(bounds)
