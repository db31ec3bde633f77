"""The figures of a release as rows of words, with changes since the release before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from estimator.errors import NotPublishable
from estimator.estimates import Estimate, Estimates
from estimator.releases.across_epochs import AcrossEpochs, change
from estimator.releases.charts import Names, in_percent, in_points, names_of, whole
from estimator.releases.number import ends_in_unit, figure_in_unit, figures, in_unit
from estimator.releases.release import Release


@dataclass(frozen=True)
class Row:
    """One value's figures as they are shown.

    Attributes:
        value: Its name, as in the charts.
        whole: Its name, however long.
        share: In percent, as all others here.
        error: Standard error.
        interval: Of this value by itself.
        significant: "yes" or "no", judged over all values at once; a dash where it is not judged.
        change: Since the release before, in percentage points; * if significant; "" if unknown.
        negative: Whether the share is below zero.
    """

    value: str
    whole: str
    share: str
    error: str
    interval: str
    significant: str
    change: str
    negative: bool


@dataclass(frozen=True)
class NumberRow:
    """A mean or a quantile as it is shown, in the metric's unit.

    Attributes:
        name: What it is.
        value: The estimate.
        error: Standard error; "" for quantiles.
        interval: Its interval.
        change: Since the release before; * if significant; "" if unknown.
    """

    name: str
    value: str
    error: str
    interval: str
    change: str


@dataclass(frozen=True)
class Table:
    """The figures of a release.

    Attributes:
        rows: One per value that is shown.
        since: Epoch of the release before; None: there is none to compare with.
        hidden: How many smaller values are not shown.
        numbers: The mean, then quantiles; none of shares alone.
    """

    rows: tuple[Row, ...]
    since: str | None
    hidden: int
    numbers: tuple[NumberRow, ...] = ()


def table(release: Release, entries: Sequence[Estimate], history: Sequence[Release]) -> Table:
    """Return the figures of some entries, with changes since the last release before.

    Args:
        release: A published one.
        entries: Of the release.
        history: Releases that are comparable with it, oldest first.
    """
    moved = _change(release, history)
    changes = {} if moved is None else _changes(moved)
    names = names_of(release)
    listed = 0 if release.estimates is None else len(release.estimates.all_entries)
    return Table(
        rows=tuple(_row(entry, names, changes) for entry in entries),
        since=None if moved is None else moved.epochs[0],
        hidden=listed - len(entries),
        numbers=() if release.estimates is None else _numbers(release.estimates, moved),
    )


def _row(entry: Estimate, names: Names, changes: Mapping[object, str]) -> Row:
    ends = entry.interval
    key = (type(entry.value), entry.value)
    return Row(
        value=names[key],
        whole=whole(entry.value),
        share=in_percent(entry.share),
        error=in_percent(entry.standard_error),
        interval=f"{in_percent(ends[0])} to {in_percent(ends[1])}" if ends else "",
        significant=_judged(entry.significant),
        change=changes.get(key, ""),
        negative=(entry.share or 0.0) < 0,
    )


def _judged(significant: bool | None) -> str:
    if significant is None:  # smoothing blurs who is present
        return "\N{EN DASH}"
    return "yes" if significant else "no"


def _numbers(estimates: Estimates, moved: AcrossEpochs | None) -> tuple[NumberRow, ...]:
    return tuple(
        NumberRow(
            name=each.name,
            value=figure_in_unit(each),
            error="" if each.error is None else in_unit(each.error, each.error),
            interval=ends_in_unit(each),
            change="" if each.error is None else _change_of_mean(moved),
        )
        for each in figures(estimates)
    )


def _change_of_mean(moved: AcrossEpochs | None) -> str:
    if moved is None or moved.mean is None:
        return ""
    half = _half(moved.mean.interval)
    sure = " *" if moved.mean.significant else ""
    told, ends = (in_unit(each, moved.mean.standard_error) for each in (moved.mean.value, half))
    return f"{told} \N{PLUS-MINUS SIGN} {ends}{sure}"


def _change(release: Release, history: Sequence[Release]) -> AcrossEpochs | None:
    before = [other for other in history if other.last_day < release.first_day]
    if not before:
        return None
    try:
        return change(before[-1], release)
    except NotPublishable:  # withheld, or of other values
        return None


def _changes(moved: AcrossEpochs) -> dict[object, str]:
    return {
        (type(entry.value), entry.value): (
            f"{in_points(entry.share)} \N{PLUS-MINUS SIGN} {in_points(_half(entry.interval))}"
            f"{' *' if entry.significant else ''}"
        )
        for entry in moved.entries
    }


def _half(interval: tuple[float, float]) -> float:
    return (interval[1] - interval[0]) / 2
