"""Shares that look like shares: not negative and adding up to one. For display, never for sums.

Post-processing costs no privacy but adds bias (reference section 13), so these values stand
beside the raw estimates and carry no interval of their own.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def simplex_projection(values: ArrayLike, total: float = 1.0) -> NDArray[np.float64]:
    """Return the nearest point, by Euclidean distance, with entries >= 0 that add up to `total`.

    max(values - tau, 0) with the one tau that makes the sum right; found by sorting, so it is
    exact and the same on every run. Held, Wolfe, Crowder, "Validation of subgradient
    optimization" (1974). The iterative "Norm-Sub" differs when the positive parts sum to less
    than `total`.

    Args:
        values: Finite numbers, shape (..., entries); each row is a point of its own.
        total: Positive.
    """
    raw = np.asarray(values, np.float64)
    descending = np.sort(raw, axis=-1)[..., ::-1]
    excess = (np.cumsum(descending, axis=-1) - total) / np.arange(1, raw.shape[-1] + 1)
    # The largest entry always satisfies this, in exact arithmetic as in floats.
    kept = np.where(descending > excess, np.arange(raw.shape[-1]), 0).max(axis=-1, keepdims=True)
    tau = np.take_along_axis(excess, kept, axis=-1)
    return np.asarray(np.maximum(raw - tau, 0.0))
