"""A survey of the ledger: how much of their lifetime budget devices have spent.

Over a sample of whole buckets, scaled up. Devices lie in buckets by a keyed hash, so a sample of
buckets is one of devices, drawn without looking at what they spent.
"""

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Self

RATIOS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Upper ends of the classes of spent / cap."""
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Survey:
    """What was found; numbers of devices are scaled up to all buckets.

    Attributes:
        taken_at: Unix time in seconds.
        devices: Devices that have a ledger record: that ever reported.
        exhausted: Those that cannot pay for the cheapest metric any more.
        within: Devices whose spent / cap is at most each of RATIOS.
        spent_ratio_sum: Sum of spent / cap over devices.
        remaining: Epsilon left at each of QUANTILES of the devices; empty without devices.
        remaining_mean: Mean epsilon left; 0 without devices.
    """

    taken_at: float
    devices: int
    exhausted: int
    within: tuple[int, ...]
    spent_ratio_sum: float
    remaining: tuple[float, ...]
    remaining_mean: float

    @classmethod
    def of(cls, spent: Sequence[int], *, cap: int, cheapest: int, scale: float, now: float) -> Self:
        """Sum up a sample.

        Args:
            spent: Micro-epsilon spent by each device of the sample.
            cap: Lifetime cap in micro-epsilon, at least 1.
            cheapest: Micro-epsilon of the cheapest first report.
            scale: Buckets in all / buckets in the sample.
            now: Unix time in seconds.
        """
        ordered = sorted(spent)
        n = len(ordered)
        left = [max(0, cap - each) for each in reversed(ordered)]
        return cls(
            taken_at=now,
            devices=round(n * scale),
            exhausted=round(scale * sum(each + cheapest > cap for each in ordered)),
            within=tuple(round(scale * _at_most(ordered, ratio * cap)) for ratio in RATIOS),
            spent_ratio_sum=scale * sum(ordered) / cap,
            remaining=tuple(left[int(q * (n - 1))] / 1e6 for q in QUANTILES) if n else (),
            remaining_mean=sum(left) / n / 1e6 if n else 0.0,
        )

    def text(self) -> str:
        """Return what the store keeps."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Read what the store keeps."""
        kept = json.loads(text)
        lists = {name: tuple(kept[name]) for name in ("within", "remaining")}
        return cls(**(kept | lists))


def _at_most(ordered: Sequence[int], limit: float) -> int:
    return bisect_left(ordered, limit + 0.5)
