"""A group: the tally that a report adds to, as stream entries and tallies name it.

Its name carries the shape of a response, so the fold needs no registry. A report becomes a row
of fixed width: cohort (16 bits), then the cell index (16 bits) or the bit vector, all little
endian, so bit i of a vector is bit i % 8 of byte i // 8.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, Self

from client_sdk.metric import Metric

_KINDS: dict[str, Literal["cell", "bits"]] = {"c": "cell", "b": "bits"}


@dataclass(frozen=True)
class Group:
    """One metric version and epoch.

    Attributes:
        series: Epoch length and metric name, `week:theme`: what an epoch is closed for, and what
            a device may report once per epoch, whichever version of the metric it runs.
        epoch: Epoch number.
        fingerprint: Version of the metric.
        kind: Whether a response is one cell or a bit vector.
        cells: Number of cells.
    """

    series: str
    epoch: int
    fingerprint: str
    kind: Literal["cell", "bits"]
    cells: int

    @classmethod
    def of(cls, metric: Metric, epoch: int) -> Self:
        """The group of a metric's reports of one epoch."""
        mechanism = metric.mechanism
        return cls(series_of(metric), epoch, metric.fingerprint, mechanism.kind, mechanism.cells)

    @cached_property
    def name(self) -> str:
        """The name in the store; holds no space."""
        return f"{self.series}:{self.epoch}:{self.fingerprint}:{self.kind[0]}{self.cells}"

    @cached_property
    def row_bytes(self) -> int:
        """Width of a row."""
        return 4 if self.kind == "cell" else 2 + (self.cells + 7) // 8

    def row(self, cohort: int, response: int) -> bytes:
        """Pack a report whose cohort and response have been checked."""
        return cohort.to_bytes(2, "little") + response.to_bytes(self.row_bytes - 2, "little")


def series_of(metric: Metric) -> str:
    """Return epoch length and metric name, as a group and a watermark name them."""
    return f"{metric.epoch}:{metric.name}"


@lru_cache(maxsize=4096)
def parse_group(name: bytes) -> Group:
    """Read a group's name."""
    length, metric, epoch, fingerprint, shape = name.decode().split(":")
    cells = int(shape[1:])
    return Group(f"{length}:{metric}", int(epoch), fingerprint, _KINDS[shape[0]], cells)
