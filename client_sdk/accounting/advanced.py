"""Bounds on many losses from sums of their sizes: advanced composition and its sharper successor.

Both use that a report of epsilon loses less on average than epsilon, and rarely much more than on
average. With few or large epsilons they say more than the plain sum does, which is then the bound.
"""

import math
from collections.abc import Sequence

from client_sdk.accounting.law import Fresh


def advanced(fresh: Sequence[Fresh], delta: float) -> float:
    """Bound the loss of reports of any epsilons, alone not at most their sum.

    Dwork, Rothblum, Vadhan, "Boosting and Differential Privacy", 2010, Theorem III.3, with sums of
    epsilon squared and of epsilon (e**epsilon - 1) in place of k times one of each.
    """
    squares = sum(reports * law.size**2 for law, reports in fresh)
    drift = sum(reports * law.size * math.expm1(law.size) for law, reports in fresh)
    return math.sqrt(2 * squares * math.log(1 / delta)) + drift


def kairouz_oh_viswanath(fresh: Sequence[Fresh], delta: float) -> float:
    """Bound the loss of reports of any epsilons.

    Kairouz, Oh, Viswanath, "The Composition Theorem for Differential Privacy", 2015, Theorem 3.5.
    """
    return from_sums(
        sum(reports * law.size for law, reports in fresh),
        sum(reports * law.size * math.tanh(law.size / 2) for law, reports in fresh),
        sum(reports * law.size**2 for law, reports in fresh),
        delta,
    )


def from_sums(plain: float, mean: float, squares: float, delta: float) -> float:
    """The same from the sums of epsilon, of its mean loss epsilon tanh(epsilon/2), of squares."""
    return min(
        plain,
        mean + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / delta)),
        mean + math.sqrt(2 * squares * math.log(1 / delta)),
    )


def optimal_pairs(epsilon: float, reports: int) -> list[tuple[float, float]]:
    """Return (epsilon, delta) pairs that no rule for any mechanisms of `epsilon` can better.

    The same paper, Theorem 3.3; the exact loss distribution of randomized response goes through
    all of them, and says what lies between.

    Args:
        epsilon: Of each report, positive.
        reports: How many, at least 1.

    Returns:
        For i = 0, 1, ... while it is at least 0: (reports - 2 i) epsilon, with its delta.
    """
    pairs = []
    none_flips = -reports * math.log1p(math.exp(-epsilon))  # log of (e^eps / (1 + e^eps))^reports
    for i in range(reports // 2 + 1):
        terms = (
            -math.exp(none_flips + _log_choose(reports, flips) - flips * epsilon)
            * math.expm1(2 * (flips - i) * epsilon)
            for flips in range(i)
        )
        pairs.append(((reports - 2 * i) * epsilon, math.fsum(terms)))
    return pairs


def _log_choose(of: int, chosen: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)
