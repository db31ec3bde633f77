"""Columns of figures, one row per value, and the entries that they become."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from client_sdk.metric import Label
from estimator import uncertainty
from estimator.consistency import simplex_projection
from estimator.debias import Channel, Floats
from estimator.estimates import Estimate


class Stated(Protocol):
    """Estimates that come with their errors, intervals and decisions: `Linear`, `Decoded`."""

    @property
    def shares(self) -> Floats: ...
    @property
    def population(self) -> Floats: ...
    @property
    def reporters(self) -> Floats: ...
    def interval(self, level: float, cells: int = 1) -> tuple[Floats, Floats]: ...
    def significant(self, level: float, cells: int) -> NDArray[np.bool_]: ...


@dataclass(frozen=True, eq=False)
class Columns:
    """The fields of all entries, as arrays of one length."""

    shares: Floats
    population: Floats
    reporters: Floats
    interval: tuple[Floats, Floats]
    simultaneous: tuple[Floats, Floats]
    significant: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        raw: Floats,
        counts: NDArray[np.int64],
        n: int,
        channel: Channel,
        level: float,
        cells: int,
    ) -> "Columns":
        return cls(
            raw,
            uncertainty.standard_error_population(counts, n, channel),
            uncertainty.standard_error_reporters(counts, n, channel),
            uncertainty.interval(counts, n, channel, level=level),
            uncertainty.simultaneous_interval(counts, n, channel, level=level, cells=cells),
            uncertainty.significant(counts, n, channel, level=level, cells=cells),
        )

    @classmethod
    def stated(cls, found: Stated, level: float) -> "Columns":
        cells = len(found.shares)
        return cls(
            found.shares,
            found.population,
            found.reporters,
            found.interval(level),
            found.interval(level, cells),
            found.significant(level, cells),
        )

    @classmethod
    def joined(cls, parts: Sequence["Columns"]) -> "Columns":
        return cls(
            np.concatenate([part.shares for part in parts]),
            np.concatenate([part.population for part in parts]),
            np.concatenate([part.reporters for part in parts]),
            _joined_ends([part.interval for part in parts]),
            _joined_ends([part.simultaneous for part in parts]),
            np.concatenate([part.significant for part in parts]),
        )


def _joined_ends(ends: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    return np.concatenate([low for low, _ in ends]), np.concatenate([high for _, high in ends])


def entries_of(
    values: Sequence[Label | None], columns: Columns, n: int, *, exclusive: bool = True
) -> tuple[Estimate, ...]:
    """Return one entry per value.

    Args:
        values: Names of the rows.
        columns: Their figures.
        n: Reports.
        exclusive: A device holds exactly one of the values, so that true shares add up to one.
    """
    raw = columns.shares
    consistent = simplex_projection(raw) if exclusive else np.clip(raw, 0.0, 1.0)
    effects = uncertainty.design_effects(columns.population, consistent, n)
    low, high = columns.interval
    outer_low, outer_high = columns.simultaneous
    return tuple(
        Estimate(
            value=value,
            share=float(columns.shares[i]),
            standard_error=float(columns.population[i]),
            standard_error_reporters=float(columns.reporters[i]),
            interval=(float(low[i]), float(high[i])),
            simultaneous_interval=(float(outer_low[i]), float(outer_high[i])),
            significant=bool(columns.significant[i]),
            consistent=float(consistent[i]),
            signal_to_noise=uncertainty.signal_to_noise(columns.shares[i], columns.population[i]),
            design_effect=effects[i],
        )
        for i, value in enumerate(values)
    )
