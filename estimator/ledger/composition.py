"""How much fresh-noise reports of one device reveal together, at a small delta.

Caps are enforced with the plain sum of epsilons, which holds with delta 0 and in any order. What is
computed here is shown beside it, never enforced: with probability at most delta the loss may be
larger. It holds for reports with fresh noise only; reports of a memoized metric share their noise,
and what they cost is added plainly.
"""

import math
from collections.abc import Collection, Iterable

import numpy as np
from scipy import stats

DELTA = 1e-6
ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 257))
"""Renyi orders that are tried."""


def kairouz_oh_viswanath(epsilons: Iterable[float], delta: float) -> float:
    """Bound the loss of reports of unequal epsilon.

    Kairouz, Oh, Viswanath, "The Composition Theorem for Differential Privacy", 2015, Theorem 3.5.
    """
    all_of_them = list(epsilons)
    return _kairouz_oh_viswanath(
        sum(all_of_them),
        sum(epsilon * math.tanh(epsilon / 2) for epsilon in all_of_them),
        sum(epsilon**2 for epsilon in all_of_them),
        delta,
    )


def _kairouz_oh_viswanath(plain: float, mean: float, squares: float, delta: float) -> float:
    """The same from the sums of epsilon, of its mean loss epsilon tanh(epsilon/2), of squares."""
    return min(
        plain,
        mean + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / delta)),
        mean + math.sqrt(2 * squares * math.log(1 / delta)),
    )


def renyi(epsilon: float, order: float) -> float:
    """Renyi divergence of randomized response, the worst of all mechanisms with this epsilon.

    Mironov, "Renyi Differential Privacy", 2017, Proposition 5.
    """
    log_keep = -math.log1p(math.exp(-epsilon))
    log_flip = log_keep - epsilon
    high = order * log_keep + (1 - order) * log_flip
    low = order * log_flip + (1 - order) * log_keep
    return (high + math.log1p(math.exp(low - high))) / (order - 1)


def from_renyi(divergence: float, order: float, delta: float) -> float:
    """Turn a Renyi divergence into an epsilon at `delta`.

    Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020, Prop. 12.
    """
    return divergence + math.log1p(-1 / order) - math.log(order * delta) / (order - 1)


def by_renyi(epsilons: Iterable[float], delta: float) -> float:
    """Bound the loss of reports: divergences add at each order, the best order is converted."""
    all_of_them = list(epsilons)
    return min(
        from_renyi(sum(renyi(epsilon, order) for epsilon in all_of_them), order, delta)
        for order in ORDERS
    )


def of_equal_reports(epsilon: float, reports: int, delta: float) -> float:
    """Exact loss of randomized response, the worst of all mechanisms, sent `reports` times.

    The loss is (reports - 2 flips) epsilon with binomial flips (reference 11); solved by halving.
    """
    flips = np.arange(reports + 1)
    chances = stats.binom.pmf(flips, reports, 1 / (1 + math.exp(epsilon)))
    losses = (reports - 2 * flips) * epsilon
    low, high = 0.0, reports * epsilon
    for _ in range(200):
        middle = (low + high) / 2
        larger = losses > middle
        beyond = -(chances[larger] * np.expm1(middle - losses[larger])).sum()
        low, high = (middle, high) if beyond > delta else (low, middle)
    return high


def of_unknown_reports(total: float, epsilons: Collection[float], delta: float = DELTA) -> float:
    """Bound the loss of reports of which only the sum of epsilons is known.

    Every bound above grows with sums over reports, and in a sum of f(epsilon) each unit of epsilon
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
    mean = total * max(math.tanh(epsilon / 2) for epsilon in epsilons)
    bounds = [total, _kairouz_oh_viswanath(total, mean, total * max(epsilons), delta)]
    for order in ORDERS:
        worst = max(renyi(epsilon, order) / epsilon for epsilon in epsilons)
        bounds.append(from_renyi(total * worst, order, delta))
    if len(set(epsilons)) == 1:
        epsilon = max(epsilons)
        bounds.append(of_equal_reports(epsilon, math.ceil(total / epsilon - 1e-9), delta))
    return min(bounds)
