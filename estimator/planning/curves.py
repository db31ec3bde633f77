"""How errors fall with devices and with epsilon, by mechanism: as rows, and as a chart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from client_sdk.errors import ParameterError, RegistryError
from estimator.drawing import PAPER, Palette, Spec, spec
from estimator.errors import DecodeError
from estimator.planning.question import Question
from estimator.planning.ranking import Choice, Ranking, choose

Over = Literal["devices", "epsilon"]
"""What errors are drawn over."""

EPSILONS = tuple(Decimal(text) for text in ("0.25", "0.5", "0.75", "1", "1.5", "2", "3", "4", "6"))
TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
"""Numbers of devices that are looked at, as multiples of those asked about."""
MOST_CURVES = 6
_CLOSE = 0.02
_MOST_TIMES = 10


@dataclass(frozen=True)
class Curve:
    """The errors of one mechanism.

    Attributes:
        mechanism: Name.
        points: Devices or epsilon, and the standard error of a rare value (of a mean, the worst).
    """

    mechanism: str
    points: tuple[tuple[float, float], ...]


def curves(ranking: Ranking, over: Over) -> tuple[Curve, ...]:
    """Return the errors of the default and of the most exact mechanisms besides.

    Of those that estimate the same thing and have no more than ten times the least error; of curves
    that would lie on one another one is drawn. A sketch keeps its shape.
    """
    best = ranking.best
    if best is None:
        return ()
    able = [each for each in ranking.choices if each.law and each.figures.of == best.figures.of]
    default = None if ranking.default is None else ranking.default.name
    kept: list[Choice] = []
    for choice in sorted(able, key=lambda each: each.name != default):
        if choice.name == default or _worth_drawing(choice, best, kept):
            kept.append(choice)
    kept = sorted(kept[:MOST_CURVES], key=able.index)
    points = _over_devices if over == "devices" else _over_epsilon
    return tuple(Curve(each.name, points(each, ranking.question)) for each in kept)


def _worth_drawing(choice: Choice, best: Choice, kept: Sequence[Choice]) -> bool:
    least, error = best.figures.rare_error or 0.0, choice.figures.rare_error or 0.0
    return error <= _MOST_TIMES * least and all(_apart(choice, other) for other in kept)


def _apart(one: Choice, other: Choice) -> bool:
    errors = one.figures.rare_error or 0.0, other.figures.rare_error or 0.0
    return max(errors) > (1 + _CLOSE) * min(errors)


def _over_devices(choice: Choice, question: Question) -> tuple[tuple[float, float], ...]:
    numbers = sorted({max(1, round(question.devices * times)) for times in TIMES})
    return tuple((n, _error(choice, replace(question, devices=n).reports)) for n in numbers)


def _over_epsilon(choice: Choice, question: Question) -> tuple[tuple[float, float], ...]:
    found = []
    for epsilon in EPSILONS:
        asked = question.at(epsilon)
        try:
            there = choose(choice.declared(), asked)
        except (RegistryError, ParameterError, DecodeError):
            continue  # not below what may be remembered, or too small for its channel
        found.append((float(epsilon), _error(there, asked.reports)))
    return tuple(found)


def _error(choice: Choice, reports: float) -> float:
    assert choice.law is not None
    if choice.law.of == "mean":
        return choice.law.worst_error(reports)
    return choice.law.error(0.0, reports)


def chart(
    lines: Sequence[Curve],
    over: Over,
    title: str,
    of: Literal["share", "mean"] = "share",
    palette: Palette = PAPER,
) -> Spec:
    """Return a chart of errors, both axes logarithmic.

    Args:
        lines: At most MOST_CURVES.
        over: What is on the horizontal axis.
        title: What the picture says of itself.
        of: What is estimated.
        palette: Its colours.
    """
    rows = [
        {"mechanism": line.mechanism, "at": at, "error": error}
        for line in lines
        for at, error in line.points
    ]
    what = "a rare value's share" if of == "share" else "a mean, part of its range"
    x_axis = {"format": "~s" if over == "devices" else "~g", "tickCount": 7, "labelOverlap": True}
    colours = {"domain": [line.mechanism for line in lines], "range": list(palette.series)}
    log = {"type": "log", "nice": False}
    encoding = {
        "x": {
            "field": "at",
            "type": "quantitative",
            "title": over,
            "scale": log,
            "axis": x_axis,
        },
        "y": {
            "field": "error",
            "type": "quantitative",
            "title": f"standard error of {what}",
            "scale": log,
            "axis": {"format": "~%", "tickCount": 6},
        },
        "color": {
            "field": "mechanism",
            "type": "nominal",
            "title": None,
            "scale": colours,
            "sort": None,
        },
    }
    parts = {
        "title": {"text": title, "anchor": "start", "color": palette.ink, "fontSize": 13},
        "data": {"values": rows},
        "width": 520,
        "height": 320,
        "mark": {"type": "line", "point": True, "strokeWidth": 2},
        "encoding": encoding,
    }
    return spec(parts, palette)
