"""What devices have spent in their lives: the distribution of the server's ledger."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

MICRO = 1_000_000


@dataclass(frozen=True)
class Lifetime:
    """Lifetime epsilon over devices; None where there are no devices.

    Attributes:
        devices: Number of ledger records.
        highest: Most that one device has spent.
        mean: Over devices.
        median: Over devices.
        p95: 95 of 100 devices have spent at most this.
        cap: What no device may exceed.
        exhausted: Devices that have spent all of it.
    """

    devices: int
    highest: float | None
    mean: float | None
    median: float | None
    p95: float | None
    cap: float
    exhausted: int

    def as_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


def lifetime(spent: Iterable[int], cap_micro: int) -> Lifetime:
    """Summarise ledger records.

    Args:
        spent: Micro-epsilon of each device, in any order; read once.
        cap_micro: The lifetime cap in micro-epsilon. Compared as integers: sums of floats
            would miss it.
    """
    values = np.fromiter(spent, np.int64)
    cap = cap_micro / MICRO
    if not values.size:
        return Lifetime(0, None, None, None, None, cap, 0)
    # Percentiles are records that exist ("at most"), not values between two of them.
    p95 = np.quantile(values, 0.95, method="inverted_cdf")
    return Lifetime(
        devices=values.size,
        highest=int(values.max()) / MICRO,
        mean=float(values.mean()) / MICRO,
        median=float(np.median(values)) / MICRO,
        p95=float(p95) / MICRO,
        cap=cap,
        exhausted=int((values >= cap_micro).sum()),
    )
