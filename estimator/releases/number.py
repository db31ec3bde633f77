"""Figures of numbers as people read them: means and quantiles in the metric's own unit."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from estimator.estimates import Estimates, Interval

_MOST_DECIMALS = 12


@dataclass(frozen=True)
class Figure:
    """A mean or a quantile.

    Attributes:
        name: What it is called.
        value: In the metric's unit, as all others.
        interval: At the level of its release.
        error: Standard error; None for quantiles.
    """

    name: str
    value: float
    interval: Interval
    error: float | None = None


def figures(estimates: Estimates) -> list[Figure]:
    """Return the mean, then the quantiles; none of shares alone."""
    return list(_figures(estimates))


def foremost(estimates: Estimates | None) -> Figure | None:
    """Return the one that says most: the mean, else the median or what is next to it."""
    if estimates is None:
        return None
    found = figures(estimates)
    if estimates.mean is not None or not found:
        return found[0] if found else None
    middle = min(estimates.quantiles, key=lambda each: abs(each.part - 0.5))
    return found[estimates.quantiles.index(middle)]


def name_of(part: float) -> str:
    """Return what the quantile of a part is called."""
    return "median" if part == 0.5 else f"{100 * part:g} % are below"


def in_unit(value: float, spread: float) -> str:
    """Return a figure with as many decimals as tell: two digits of a spread, in the same unit."""
    decimals = 0
    if math.isfinite(spread) and spread > 0:
        decimals = min(_MOST_DECIMALS, max(0, 1 - math.floor(math.log10(spread))))
    text = f"{value:,.{decimals}f}"
    if not float(text.replace(",", "")):  # "-0.0" is no figure
        text = text.lstrip("-")
    return text.replace("-", "\N{MINUS SIGN}")


def ends_in_unit(figure: Figure) -> str:
    """Return a figure's interval in words."""
    low, high = (in_unit(end, _spread(figure)) for end in figure.interval)
    return f"{low} to {high}"


def figure_in_unit(figure: Figure) -> str:
    """Return a figure without its interval."""
    return in_unit(figure.value, _spread(figure))


def _spread(figure: Figure) -> float:
    low, high = figure.interval
    return high - low if figure.error is None else figure.error


def _figures(estimates: Estimates) -> Iterator[Figure]:
    mean = estimates.mean
    if mean is not None:
        yield Figure("mean", mean.value, mean.interval, mean.standard_error)
    for each in estimates.quantiles:
        yield Figure(name_of(each.part), each.value, each.interval)
