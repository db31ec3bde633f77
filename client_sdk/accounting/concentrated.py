"""Zero-concentrated composition: one number for each report that adds, and bounds every order.

Bun and Steinke, "Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds",
2016. Their Proposition 1.4 gives rho = epsilon**2 / 2; what is used is the sharp value, the largest
Renyi divergence of randomized response over its order, which is met as the order tends to 1.
"""

import math
from collections.abc import Sequence

from client_sdk.accounting.law import Fresh


def concentrated(epsilon: float) -> float:
    """Return rho of any mechanism with this epsilon: epsilon tanh(epsilon / 2)."""
    return epsilon * math.tanh(epsilon / 2)


def from_concentrated(rho: float, delta: float) -> float:
    """Turn rho into an epsilon at `delta` (Proposition 1.3)."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def by_concentrated(fresh: Sequence[Fresh], delta: float) -> float:
    """Bound the loss of reports, alone not at most their sum."""
    return from_concentrated(sum(reports * concentrated(law.size) for law, reports in fresh), delta)
