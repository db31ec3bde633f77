"""What is estimated: one entry per value, each with its error; of numbers a mean and quantiles.

Raw shares are the result: unbiased, possibly negative or above one. Beside each stands the
`consistent` one, made to be possible, marked as biased and without an interval. No reports
means no estimate, None everywhere; that is not an estimate of zero.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from client_sdk.metric import Label
from estimator.misfit import Misfit

Interval = tuple[float, float]


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
        significant: Present, with a chance <= 1 - level of one false call over all values; None
            where the estimate is smoothed, which blurs who is present.
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


@dataclass(frozen=True)
class Mean:
    """The mean of a number over the devices that reported, in the metric's own unit.

    Attributes:
        value: Unbiased estimate; noise may carry it out of the range.
        standard_error: About the population that reporters are a sample of.
        standard_error_reporters: About these reporters themselves: the noise alone.
        interval: At the stated level, about the population.
    """

    value: float
    standard_error: float
    standard_error_reporters: float
    interval: Interval


@dataclass(frozen=True)
class Quantile:
    """A quantile of a number, in the metric's own unit.

    Attributes:
        part: Which: 0.5 is the median.
        value: Where the estimated distribution reaches it.
        interval: At the stated level, about the population; ends at bucket edges.
    """

    part: float
    value: float
    interval: Interval


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
        worst_shift: Most by which one percent of fake reports can move a share, or the mean of a
            number in its unit; None without reports.
        mean: For numbers whose mechanism measures it.
        quantiles: For numbers with buckets, by ascending part.
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
    mean: Mean | None = None
    quantiles: tuple[Quantile, ...] = ()

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
        """Half the width of the widest interval of a share, in shares of 1; None without shares."""
        intervals = (entry.interval for entry in self.all_entries)
        return max(((ends[1] - ends[0]) / 2 for ends in intervals if ends), default=None)

    def __repr__(self) -> str:
        head = f"{'value':<24}{'share':>10}{'std. error':>12}{f'{self.level:.0%} interval':>22}"
        lines = [f"{self.n:,} reports, epsilon {self.epsilon:.4g} each"]
        if self.all_entries:
            lines += [f"{head}  present", *(_line(entry) for entry in self.all_entries)]
        return "\n".join([*lines, *_lines_of_number(self)])

    def rows(self) -> list[dict[str, Any]]:
        """Return flat rows, for data frames and spreadsheets: one per value.

        Of numbers with a mean or quantiles also one for each of those, and in every row `figure`
        ("share", "mean" or "quantile"), `part` of a quantile, and `estimate`, which stands in the
        metric's unit beside errors and ends of that row.
        """
        head = {"n": self.n, "level": self.level}
        rows = [head | _row(entry, unlisted=entry is self.other) for entry in self.all_entries]
        if self.mean is None and not self.quantiles:
            return rows
        empty = dict.fromkeys(_row(Estimate(None), unlisted=False))
        rows = [row | {"figure": "share", "part": None, "estimate": None} for row in rows]
        return [*rows, *(head | empty | row for row in _rows_of_number(self))]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a release states them, with plain values only."""
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
        if self.mean is not None:
            document["mean"] = asdict(self.mean) | {"interval": list(self.mean.interval)}
        if self.quantiles:
            document["quantiles"] = [
                asdict(each) | {"interval": list(each.interval)} for each in self.quantiles
            ]
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


def _rows_of_number(estimates: Estimates) -> Iterator[dict[str, Any]]:
    mean = estimates.mean
    if mean is not None:
        yield {
            "figure": "mean",
            "part": None,
            "estimate": mean.value,
            "standard_error": mean.standard_error,
            "standard_error_reporters": mean.standard_error_reporters,
            "low": mean.interval[0],
            "high": mean.interval[1],
        }
    for each in estimates.quantiles:
        low, high = each.interval
        told = {"figure": "quantile", "part": each.part, "estimate": each.value}
        yield told | {"low": low, "high": high}


def _lines_of_number(estimates: Estimates) -> Iterator[str]:
    for row in _rows_of_number(estimates):
        name = "mean" if row["part"] is None else f"quantile {row['part']:g}"
        error = row.get("standard_error")
        told = "" if error is None else f"{error:.4g}"
        ends = f"[{row['low']:.6g}, {row['high']:.6g}]"
        yield f"{name:<24}{row['estimate']:>10.6g}{told:>12}{ends:>22}"


def _line(entry: Estimate) -> str:
    name = "(not listed)" if entry.value is None else str(entry.value)
    if entry.share is None or entry.standard_error is None or entry.interval is None:
        return f"{name:<24}{'no estimate':>10}"
    low, high = (100 * end for end in entry.interval)
    ends = f"[{low:.2f}, {high:.2f}] %"
    present = {True: "yes", False: "no", None: "-"}[entry.significant]
    share, error = f"{100 * entry.share:.2f} %", f"{100 * entry.standard_error:.2f} %"
    return f"{name:<24}{share:>10}{error:>12}{ends:>22}  {present:>7}"


def entry_to_dict(entry: Estimate) -> dict[str, Any]:
    """Return one entry with lists for intervals."""
    document = asdict(entry)
    for key in ("interval", "simultaneous_interval"):
        if document[key] is not None:
            document[key] = list(document[key])
    return document
