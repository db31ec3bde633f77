"""Estimates as a table for people."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sottovoce.table import percent, table

if TYPE_CHECKING:
    from estimator.releases.across_epochs import AcrossEpochs

UNLISTED_SHOWN = "(not listed)"
"""How tables name strings that are no candidates, all together."""


def print_figures(document: Mapping[str, Any]) -> None:
    """Print all that a document says: shares, then mean and quantiles.

    Args:
        document: As releases and `sottovoce estimate --json` write it, not withheld.
    """
    other = document.get("other")
    entries = [*document["estimates"], *([other] if other else [])]
    if entries:
        print_entries(entries, document["level"])
    mean, quantiles = document.get("mean"), document.get("quantiles", ())
    rows = [] if mean is None else [_row_of(mean, "mean", f"{mean['standard_error']:.4g}")]
    rows += [_row_of(each, f"quantile {each['part']:g}", "-") for each in quantiles]
    if rows:
        interval = f"{100 * document['level']:g} % interval"
        print(table(("figure", "estimate", "std. error", interval), rows))


def print_entries(
    entries: Sequence[Mapping[str, Any]],
    level: float,
    truth: Sequence[float] | None = None,
    most: int | None = None,
) -> None:
    """Print one row per value.

    Args:
        entries: As releases and `sottovoce estimate --json` write them.
        level: Of the intervals.
        truth: The true share of each entry, in the same order.
        most: Print only the first so many.
    """
    header = ["value", "estimate", "std. error", f"{100 * level:g} % interval", "significant"]
    if truth is not None:
        header += ["truth", "inside"]
    rows = []
    for position, entry in enumerate(entries[:most]):
        row = [
            _named(entry["value"]),
            percent(entry["share"]),
            percent(entry["standard_error"]),
            _interval(entry["interval"]),
            _judged(entry["significant"]),
        ]
        if truth is not None:
            row += [percent(truth[position]), _inside(entry["interval"], truth[position])]
        rows.append(row)
    print(table(header, rows))


def print_combined(result: "AcrossEpochs", what: str) -> None:
    """Print one row per value of a change or an average."""
    header = ["value", what, "std. error", f"{100 * result.level:g} % interval"]
    judged = any(entry.significant is not None for entry in result.entries)
    rows = []
    for entry in result.entries:
        row = [
            _named(entry.value),
            percent(entry.share),
            percent(entry.standard_error),
            _interval(entry.interval),
        ]
        rows.append([*row, _judged(entry.significant)] if judged else row)
    if (mean := result.mean) is not None:
        judged = mean.significant is not None
        value, interval = _number({"value": mean.value, "interval": mean.interval})
        row = ["mean", value, f"{mean.standard_error:.4g}", interval]
        rows.append([*row, _judged(mean.significant)] if judged else row)
    print(table([*header, "changed"] if judged else header, rows))


def print_smoothed(epochs: Sequence[str], series: "Sequence[AcrossEpochs]") -> None:
    """Print one row per epoch and value of a moving average."""
    header = ("epoch", "value", "smoothed", "std. error", "interval", "epochs")
    rows = []
    for epoch, point in zip(epochs, series, strict=True):
        many = str(len(point.epochs))
        for entry in point.entries:
            figures = (percent(entry.share), percent(entry.standard_error))
            rows.append((epoch, _named(entry.value), *figures, _interval(entry.interval), many))
        if (mean := point.mean) is not None:
            value, interval = _number({"value": mean.value, "interval": mean.interval})
            rows.append((epoch, "mean", value, f"{mean.standard_error:.4g}", interval, many))
    print(table(header, rows, left=2))


def inside(interval: Sequence[float] | None, truth: float) -> bool | None:
    """Say whether an interval holds the truth; None without an interval."""
    return None if interval is None else interval[0] <= truth <= interval[1]


def _named(value: object) -> str:
    if value is None:
        return UNLISTED_SHOWN
    return str(value).lower() if isinstance(value, bool) else str(value)


def _interval(ends: Sequence[float] | None) -> str:
    return "-" if ends is None else f"[{100 * ends[0]:6.2f}, {100 * ends[1]:6.2f}]"


def _number(figure: Mapping[str, Any]) -> tuple[str, str]:
    """Return a figure in the metric's unit, and its interval."""
    low, high = figure["interval"]
    return f"{figure['value']:.6g}", f"[{low:.6g}, {high:.6g}]"


def _row_of(figure: Mapping[str, Any], name: str, error: str) -> tuple[str, ...]:
    value, interval = _number(figure)
    return name, value, error, interval


def _judged(significant: bool | None) -> str:
    return "-" if significant is None else ("yes" if significant else "no")


def _inside(ends: Sequence[float] | None, truth: float) -> str:
    found = inside(ends, truth)
    return "-" if found is None else ("yes" if found else "NO")
