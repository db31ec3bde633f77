"""Renyi composition: divergences of one order add, and the best order is turned into an epsilon.

Orders are kept apart until the end: an epsilon is converted once. Converting each report and adding
would be the plain sum with delta on top.
"""

import math
from collections.abc import Sequence

from client_sdk.accounting.law import Fresh, Law

ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 257))
"""Orders that are tried."""


def renyi(law: Law, order: float) -> float:
    """Return the Renyi divergence of one report, exactly.

    (1/(a-1)) ln E[e^{(a-1) loss}]; Mironov, "Renyi Differential Privacy", 2017, Proposition 5 for
    randomized response, of which the divergence is the largest at each epsilon.
    """
    high = (order - 1) * law.size
    gain, zero, minus = law.chances
    if high < 1:  # where E[...] is so close to 1 that its logarithm would lose its digits
        return math.log1p(gain * math.expm1(high) + minus * math.expm1(-high)) / (order - 1)
    rest = zero * math.exp(-high) + minus * math.exp(-2 * high)
    return (high + math.log(gain + rest)) / (order - 1)


def from_renyi(divergence: float, order: float, delta: float) -> float:
    """Turn a Renyi divergence into an epsilon at `delta`.

    Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020, Prop. 12:
    never more than Mironov's divergence + ln(1/delta) / (order - 1).
    """
    converted = divergence + math.log1p(-1 / order) - math.log(order * delta) / (order - 1)
    return max(0.0, converted)


def by_renyi(fresh: Sequence[Fresh], delta: float) -> float:
    """Bound the loss of reports, alone not at most their sum."""
    return min(
        from_renyi(sum(reports * renyi(law, order) for law, reports in fresh), order, delta)
        for order in ORDERS
    )
