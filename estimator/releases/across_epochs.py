"""Several epochs of one metric: their average, the change from one to another, a smoothed series.

The same devices report epoch after epoch, so epochs are not independent samples, and no count says
how much they share. What is stated holds for any overlap. Fresh noise is drawn anew in each epoch,
so its variances add; the sample of people may be the same one, so its standard errors add
(full overlap: correlation 1 for an average, -1 for a change). Of memoized metrics the noise is
shared as well, and whole standard errors add. Means of numbers follow the same rules. Quantiles
do not: an average of medians is no median, and their errors are known as buckets only.

Weights follow from numbers of reports or are given; never from responses (reference 0.4).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from client_sdk.metric import Label
from estimator.debias import Floats
from estimator.errors import NotPublishable
from estimator.releases.release import Release
from estimator.uncertainty import normal_quantile


@dataclass(frozen=True)
class Combined:
    """One value's figure over several epochs.

    Attributes:
        value: The label or candidate; None for all strings that are no candidate.
        share: The average share, or by how much the share has changed. Unbiased.
        standard_error: Bound about the population, whatever the epochs have in common.
        standard_error_reporters: The same, about these reporters themselves.
        interval: Normal interval about the population at the releases' level, for this value.
        simultaneous_interval: For all values together (Bonferroni).
        significant: For a change: the simultaneous interval does not hold 0. None for averages.
    """

    value: Label | None
    share: float
    standard_error: float
    standard_error_reporters: float
    interval: tuple[float, float]
    simultaneous_interval: tuple[float, float]
    significant: bool | None = None


@dataclass(frozen=True)
class CombinedMean:
    """A mean's figure over several epochs, in the metric's unit; see `Combined`."""

    value: float
    standard_error: float
    standard_error_reporters: float
    interval: tuple[float, float]
    significant: bool | None = None


@dataclass(frozen=True)
class AcrossEpochs:
    """An average or a change, and what it is made of.

    Attributes:
        metric: Name.
        epochs: ISO 8601 names, in time order.
        n: Reports of each epoch.
        method: How the error was bounded.
        level: Of the intervals.
        entries: In label or candidate order, unlisted strings last.
        mean: Of numbers whose mean is measured.
    """

    metric: str
    epochs: tuple[str, ...]
    n: tuple[int, ...]
    method: str
    level: float
    entries: tuple[Combined, ...]
    mean: CombinedMean | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the document, with lists for intervals; `mean` only where there is one."""
        mean = None if self.mean is None else asdict(self.mean)
        document: dict[str, Any] = {
            "metric": self.metric,
            "epochs": list(self.epochs),
            "n": list(self.n),
            "method": self.method,
            "level": self.level,
            "estimates": [
                asdict(entry)
                | {
                    "interval": list(entry.interval),
                    "simultaneous_interval": list(entry.simultaneous_interval),
                }
                for entry in self.entries
            ],
        }
        if mean is not None:
            document["mean"] = mean | {"interval": list(mean["interval"])}
        return document


FRESH = "fresh noise adds in variance, the sample of people in standard error (full overlap)"
MEMOIZED = "memoized: whole standard errors add (full overlap)"
WITHOUT_QUANTILES = "; quantiles cannot be combined"


def average(releases: Sequence[Release], weights: Sequence[float] | None = None) -> AcrossEpochs:
    """Average the shares of several epochs.

    Args:
        releases: Published ones of one metric, one per epoch, naming the same values.
        weights: Planned ones, not negative; by default in proportion to the devices that reports
            stand for, n / inclusion.

    Raises:
        NotPublishable: The releases cannot be combined; says which and why.
        ValueError: Weights that do not fit.
    """
    parts = _parts(releases)
    if weights is None:
        weights = [part.n / (part.release.channels.inclusion or 1.0) for part in parts]
    given = np.asarray(weights, np.float64)
    if given.shape != (len(parts),) or (given < 0).any() or not given.sum() > 0:
        raise ValueError(f"weights must be {len(parts)} numbers >= 0, not all 0, got {weights}")
    return _combined(parts, given / given.sum(), judge=False)


def change(before: Release, after: Release) -> AcrossEpochs:
    """Return by how much each share has changed.

    Raises:
        NotPublishable: The releases cannot be compared.
    """
    return _combined(_parts((before, after)), np.array([-1.0, 1.0]), judge=True)


def smoothed(releases: Sequence[Release], epochs: int = 3) -> list[AcrossEpochs]:
    """Return a moving average over `epochs` neighbouring releases; to be labelled as such.

    Each point averages the release itself and those before and after it, fewer at the ends.

    Raises:
        NotPublishable: As `average`.
        ValueError: `epochs` is not odd and positive.
    """
    if epochs < 1 or epochs % 2 == 0:
        raise ValueError(f"epochs must be odd and positive, got {epochs}")
    half = epochs // 2
    return [
        average(releases[max(0, middle - half) : middle + half + 1])
        for middle in range(len(releases))
    ]


@dataclass(frozen=True, eq=False)
class _Part:
    release: Release
    n: int
    level: float
    values: tuple[Label | None, ...]
    has_mean: bool
    shares: Floats
    population: Floats
    reporters: Floats


def _parts(releases: Sequence[Release]) -> list[_Part]:
    if not releases:
        raise NotPublishable("there must be at least one release to combine")
    parts = [_part(release) for release in releases]
    first = parts[0]
    for part in parts[1:]:
        named = f"{part.release.metric} {part.release.epoch}"
        if part.release.metric != first.release.metric:
            raise NotPublishable(f"{named}: releases of one metric can be combined, not of two")
        same_values = [(type(v), v) for v in part.values] == [(type(v), v) for v in first.values]
        same_range = part.release.range == first.release.range and part.has_mean == first.has_mean
        if not same_values or not same_range or part.level != first.level:
            raise NotPublishable(
                f"{named}: names other values than {first.release.epoch}, has another range, or "
                "is of another level"
            )
    if len({part.release.epoch for part in parts}) != len(parts):
        raise NotPublishable(f"{first.release.metric}: an epoch can be combined only once")
    return parts


def _part(release: Release) -> _Part:
    estimates = release.estimates
    named = f"{release.metric} {release.epoch}"
    if estimates is None:
        raise NotPublishable(f"{named}: is withheld")
    entries, mean = estimates.all_entries, estimates.mean
    columns = []
    for field in ("share", "standard_error", "standard_error_reporters"):
        column = [getattr(entry, field) for entry in entries]
        if mean is not None:  # last, and not one of the values
            column.append(mean.value if field == "share" else getattr(mean, field))
        if not column or None in column:
            raise NotPublishable(f"{named}: holds no estimates")
        columns.append(np.array(column, np.float64))
    values = tuple(entry.value for entry in entries)
    return _Part(release, estimates.n, estimates.level, values, mean is not None, *columns)


def _combined(parts: Sequence[_Part], weights: Floats, *, judge: bool) -> AcrossEpochs:
    memoized = any(part.release.privacy.epsilon_permanent is not None for part in parts)
    shares = weights @ np.array([part.shares for part in parts])
    population = np.array([part.population for part in parts])
    reporters = np.array([part.reporters for part in parts])
    sizes = np.abs(weights)
    if memoized:
        error, noise = sizes @ population, sizes @ reporters
    else:
        sampling = sizes @ np.sqrt(np.maximum(population**2 - reporters**2, 0))
        noise = np.sqrt(sizes**2 @ reporters**2)
        error = np.hypot(noise, sampling)
    level, cells = parts[0].level, max(1, len(parts[0].values))
    half, outer = (normal_quantile(level, many) * error for many in (1, cells))
    entries = tuple(
        Combined(
            value=value,
            share=float(shares[i]),
            standard_error=float(error[i]),
            standard_error_reporters=float(noise[i]),
            interval=(float(shares[i] - half[i]), float(shares[i] + half[i])),
            simultaneous_interval=(float(shares[i] - outer[i]), float(shares[i] + outer[i])),
            significant=bool(abs(shares[i]) > outer[i]) if judge else None,
        )
        for i, value in enumerate(parts[0].values)
    )
    mean = None
    if parts[0].has_mean:
        ends = float(shares[-1] - half[-1]), float(shares[-1] + half[-1])
        surely = bool(abs(shares[-1]) > half[-1]) if judge else None
        mean = CombinedMean(float(shares[-1]), float(error[-1]), float(noise[-1]), ends, surely)
    method = MEMOIZED if memoized else FRESH
    if any(part.release.estimates and part.release.estimates.quantiles for part in parts):
        method += WITHOUT_QUANTILES
    return AcrossEpochs(
        metric=parts[0].release.metric,
        epochs=tuple(part.release.epoch for part in parts),
        n=tuple(part.n for part in parts),
        method=method,
        level=level,
        entries=entries,
        mean=mean,
    )
