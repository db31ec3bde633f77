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
        lowest: Least that one device has spent.
        highest: Most that one device has spent.
        mean: Over devices.
        median: Over devices.
        p95: 95 of 100 devices have spent at most this.
        cap: What no device may exceed.
        exhausted: Devices whose rest pays for nothing new, not even for the cheapest charge.
    """

    devices: int
    lowest: float | None
    highest: float | None
    mean: float | None
    median: float | None
    p95: float | None
    cap: float
    exhausted: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


def lifetime(spent: Iterable[int], cap_micro: int, cheapest_micro: int = 1) -> Lifetime:
    """Summarise ledger records.

    Args:
        spent: Micro-epsilon of each device, in any order; read once.
        cap_micro: The lifetime cap in micro-epsilon. Compared as integers: sums of floats
            would miss it.
        cheapest_micro: What the cheapest report costs that a device could still be asked for.
    """
    values = np.fromiter(spent, np.int64)
    cap = cap_micro / MICRO
    if not values.size:
        return Lifetime(0, None, None, None, None, None, cap, 0)
    # Percentiles are records that exist ("at most"), not values between two of them.
    p95 = np.quantile(values, 0.95, method="inverted_cdf")
    return Lifetime(
        devices=values.size,
        lowest=int(values.min()) / MICRO,
        highest=int(values.max()) / MICRO,
        mean=float(values.mean()) / MICRO,
        median=float(np.median(values)) / MICRO,
        p95=float(p95) / MICRO,
        cap=cap,
        exhausted=int((values + cheapest_micro > cap_micro).sum()),
    )
