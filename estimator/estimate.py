"""From a metric and its tally to published entries: one per value, each with its error.

Raw shares are the result: unbiased, possibly negative or above one. Beside each stands the
`consistent` one, projected to shares that add up to one, marked as biased and without an
interval. No reports means no estimate, None everywhere; that is not an estimate of zero.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aggregator.tally import Tally
from client_sdk.mechanisms import Mechanism, Rappor
from client_sdk.metric import Label
from estimator import uncertainty
from estimator.consistency import simplex_projection
from estimator.debias import Channel, Floats, shares
from estimator.decode import decode, design_for
from estimator.misfit import Misfit
from estimator.plausibility import worst_shift

Interval = tuple[float, float]


class Described(Protocol):
    """What an estimate needs of a metric; `Metric` and offline documents have it."""

    @property
    def labels(self) -> tuple[Label, ...]: ...
    @property
    def candidates(self) -> tuple[str, ...]: ...
    @property
    def mechanism(self) -> Mechanism: ...


@dataclass(frozen=True)
class Estimate:
    """One value's share of the devices that reported.

    Attributes:
        value: The label or candidate; None for all strings that are no candidate.
        share: Unbiased estimate.
        standard_error: About the population that reporters are a sample of.
        standard_error_reporters: About these reporters themselves: the noise alone.
        interval: For this value by itself, at the stated level, about the population.
        simultaneous_interval: All values together, at the stated level (Bonferroni).
        significant: Present, with a chance <= 1 - level of one false call over all values.
        consistent: Projected share: biased, for display.
        signal_to_noise: The share in standard errors.
        design_effect: Its variance, as a multiple of what as many direct answers would have; None
            at a consistent share of 0 or 1, where those would have none.
    """

    value: Label | None
    share: float | None = None
    standard_error: float | None = None
    standard_error_reporters: float | None = None
    interval: Interval | None = None
    simultaneous_interval: Interval | None = None
    significant: bool | None = None
    consistent: float | None = None
    signal_to_noise: float | None = None
    design_effect: float | None = None


@dataclass(frozen=True, repr=False)
class Estimates:
    """All that a tally says about a metric.

    Attributes:
        n: Reports.
        epsilon: Loss of one report.
        level: Of intervals and significance, in (0, 1).
        method: How share and interval were computed.
        entries: In label or candidate order.
        other: For strings, the share of all that are no candidate.
        misfit: For strings, whether the candidates explain the bits.
        condition: For strings, condition number of the design: 1 is ideal.
        worst_shift: Most by which one percent of fake reports can move a share; None without
            reports.
    """

    n: int
    epsilon: float
    level: float
    method: str
    entries: tuple[Estimate, ...]
    other: Estimate | None = None
    misfit: Misfit | None = None
    condition: float | None = None
    worst_shift: float | None = None

    @property
    def negative_mass(self) -> float:
        """Sum of what shares are below zero: noise, or a mechanism that was not followed."""
        return sum(max(0.0, -(entry.share or 0.0)) for entry in self.all_entries)

    @property
    def all_entries(self) -> tuple[Estimate, ...]:
        """The entries, and last the one for unlisted strings if there is one."""
        return self.entries if self.other is None else (*self.entries, self.other)

    @property
    def half_width(self) -> float | None:
        """Half the width of the widest interval, in shares of 1; None where there is none."""
        intervals = (entry.interval for entry in self.all_entries)
        return max(((ends[1] - ends[0]) / 2 for ends in intervals if ends), default=None)

    def __repr__(self) -> str:
        head = f"{'value':<24}{'share':>10}{'std. error':>12}{f'{self.level:.0%} interval':>22}"
        lines = [f"{self.n:,} reports, epsilon {self.epsilon:.4g} each", f"{head}  present"]
        return "\n".join([*lines, *(_line(entry) for entry in self.all_entries)])

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat row per value, for data frames and spreadsheets."""
        return [
            {"n": self.n, "level": self.level, **_row(entry, unlisted=entry is self.other)}
            for entry in self.all_entries
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the document of DESIGN section 4.6, with plain values only."""
        document: dict[str, Any] = {
            "n": self.n,
            "epsilon": self.epsilon,
            "level": self.level,
            "method": self.method,
            "worst_shift": self.worst_shift,
            "negative_mass": self.negative_mass,
            "estimates": [entry_to_dict(entry) for entry in self.entries],
        }
        if self.other is not None:
            document["other"] = entry_to_dict(self.other)
        if self.misfit is not None:
            document["misfit"] = asdict(self.misfit) | {"cohorts": list(self.misfit.cohorts)}
            document["condition"] = self.condition
        return document


def _row(entry: Estimate, unlisted: bool) -> dict[str, Any]:
    low, high = entry.interval or (None, None)
    outer_low, outer_high = entry.simultaneous_interval or (None, None)
    return {
        "value": entry.value,
        "unlisted": unlisted,
        "share": entry.share,
        "standard_error": entry.standard_error,
        "standard_error_reporters": entry.standard_error_reporters,
        "low": low,
        "high": high,
        "simultaneous_low": outer_low,
        "simultaneous_high": outer_high,
        "significant": entry.significant,
        "consistent": entry.consistent,
        "signal_to_noise": entry.signal_to_noise,
        "design_effect": entry.design_effect,
    }


def _line(entry: Estimate) -> str:
    name = "(not listed)" if entry.value is None else str(entry.value)
    if entry.share is None or entry.standard_error is None or entry.interval is None:
        return f"{name:<24}{'no estimate':>10}"
    low, high = (100 * end for end in entry.interval)
    ends = f"[{low:.2f}, {high:.2f}] %"
    present = "yes" if entry.significant else "no"
    share, error = f"{100 * entry.share:.2f} %", f"{100 * entry.standard_error:.2f} %"
    return f"{name:<24}{share:>10}{error:>12}{ends:>22}  {present:>7}"


def entry_to_dict(entry: Estimate) -> dict[str, Any]:
    """Return one entry with lists for intervals."""
    document = asdict(entry)
    for key in ("interval", "simultaneous_interval"):
        if document[key] is not None:
            document[key] = list(document[key])
    return document


def estimate(metric: Described, tally: Tally, level: float = 0.95) -> Estimates:
    """Estimate the shares of all values of a metric.

    Args:
        metric: Its labels or candidates, and the channel that produced the tally.
        tally: Sums of one fingerprint and epoch.
        level: Coverage of the intervals, in (0, 1).

    Raises:
        ValueError: `level` is not in (0, 1), or the tally has another shape than the channel.
        DecodeError: The candidates cannot be told apart.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got level={level}")
    shape = (metric.mechanism.cohorts, metric.mechanism.cells)
    if tally.counts.shape != shape or tally.reports.shape != shape[:1]:
        raise ValueError(f"the tally must have shape {shape}, got {tally.counts.shape}")
    if isinstance(metric.mechanism, Rappor):
        return _strings(metric, metric.mechanism, tally, level)
    return _closed(metric, tally, level)


CLOSED = "inverted channel; Wilson interval of the support count, mapped through the inverse"
STRINGS = "weighted least squares over candidates; normal interval from the sandwich covariance"


def _closed(metric: Described, tally: Tally, level: float) -> Estimates:
    epsilon, n = float(metric.mechanism.epsilon), tally.n
    if n == 0:
        empty = tuple(Estimate(label) for label in metric.labels)
        return Estimates(n, epsilon, level, CLOSED, empty)
    channel, counts = Channel.of(metric.mechanism), tally.counts.sum(axis=0)
    raw = shares(tally, metric.mechanism)
    if len(raw) == len(metric.labels):
        parts = [_Columns.of(raw, counts, n, channel, level, cells=len(raw))]
    else:
        # A yes/no answer has one cell, "yes". "No" is the same event, seen from the other side,
        # so the two intervals hold or fail together and need no correction.
        no = _Columns.of(1 - raw, n - counts, n, channel.complement(), level, cells=1)
        parts = [no, _Columns.of(raw, counts, n, channel, level, cells=1)]
    entries = _entries(metric.labels, _Columns.joined(parts), n)
    shift = worst_shift(metric.mechanism)
    return Estimates(n, epsilon, level, CLOSED, entries, worst_shift=shift)


def _strings(metric: Described, mechanism: Rappor, tally: Tally, level: float) -> Estimates:
    epsilon, n = float(mechanism.epsilon), tally.n
    if n == 0 or not metric.candidates:
        # Without candidates there is nothing to look for, and all strings are "other".
        empty = tuple(Estimate(candidate) for candidate in metric.candidates)
        return Estimates(n, epsilon, level, STRINGS, empty, Estimate(None))
    decoded = decode(tally, mechanism, design_for(mechanism, metric.candidates))
    cells = len(decoded.shares)
    columns = _Columns(
        decoded.shares,
        decoded.population,
        decoded.reporters,
        decoded.interval(level),
        decoded.interval(level, cells),
        decoded.significant(level, cells),
    )
    *entries, other = _entries((*metric.candidates, None), columns, n)
    return Estimates(
        n,
        epsilon,
        level,
        STRINGS,
        tuple(entries),
        other,
        decoded.misfit,
        decoded.condition,
        decoded.worst_shift,
    )


@dataclass(frozen=True, eq=False)
class _Columns:
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
    ) -> "_Columns":
        return cls(
            raw,
            uncertainty.standard_error_population(counts, n, channel),
            uncertainty.standard_error_reporters(counts, n, channel),
            uncertainty.interval(counts, n, channel, level=level),
            uncertainty.interval(counts, n, channel, level=level, cells=cells),
            uncertainty.significant(counts, n, channel, level=level, cells=cells),
        )

    @classmethod
    def joined(cls, parts: Sequence["_Columns"]) -> "_Columns":
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


def _entries(values: Sequence[Label | None], columns: _Columns, n: int) -> tuple[Estimate, ...]:
    consistent = simplex_projection(columns.shares)
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
