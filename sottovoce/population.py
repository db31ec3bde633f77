"""Populations: real distributions that simulated devices draw their values from.

numpy's generators are used here and only here on the device side's behalf: a population is
public and should be repeatable, its noise must be neither.
"""

import csv
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from client_sdk.mechanisms import POSITIONS
from client_sdk.mechanisms.selections import members
from client_sdk.metric import Label, Metric, number_at

UNLISTED = "__OTHER__"
SEPARATOR = "|"
"""Between the options of one device's answer to a question with several."""
_UNLISTED_KINDS = 500
_SPREAD = 16  # numbers of an even population, less one


@dataclass(frozen=True)
class Population:
    """A distribution over values, as a CSV file `value,count` with # comments gives it.

    Attributes:
        values: Distinct values; `__OTHER__` stands for many rare ones.
        shares: Their true shares, adding up to 1.
    """

    values: tuple[str, ...]
    shares: NDArray[np.float64]

    def draw(self, devices: int, chance: np.random.Generator) -> list[str]:
        """Return one value per device; unlisted mass is spread over 500 made-up strings."""
        picked = chance.choice(len(self.values), size=devices, p=self.shares)
        rare = chance.integers(_UNLISTED_KINDS, size=devices)
        return [
            f"unlisted {kind}" if self.values[index] == UNLISTED else self.values[index]
            for index, kind in zip(picked, rare, strict=True)
        ]

    def share_of(self, value: object) -> float:
        """Return the true share of a value as labels print it; 0 for one that is not there."""
        text = _text(value)
        return float(self.shares[self.values.index(text)]) if text in self.values else 0.0


def read(path: Path) -> Population:
    """Read a population file.

    Raises:
        ValueError: A line is not `value,count` with a count of at least 0; names the line.
    """
    values, counts = [], []
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(line for line in file if not line.startswith("#"))
        for number, row in enumerate(rows):
            if number == 0 and row == ["value", "count"]:
                continue
            if len(row) != 2 or not row[1].isdecimal():
                raise ValueError(f"{path}: row {number} must be value,count, got {row!r}")
            values.append(row[0])
            counts.append(int(row[1]))
    if not values or sum(counts) == 0 or len(set(values)) != len(values):
        raise ValueError(f"{path}: needs distinct values with a positive total")
    return Population(tuple(values), np.array(counts) / sum(counts))


def shipped(name: str) -> Population:
    """Read one of the populations that come with the package."""
    return read(Path(str(files("sottovoce") / "populations" / f"{name}.csv")))


def named(source: str) -> Population:
    """Read a population file, or one that is shipped.

    Args:
        source: A path, or a shipped population's name.

    Raises:
        ValueError: There is neither, or a line is not as `read` wants it.
    """
    if Path(source).exists():
        return read(Path(source))
    if source not in shipped_names():
        raise ValueError(
            f"{source}: no such file, and no shipped population of that name "
            f"({', '.join(shipped_names())})"
        )
    return shipped(source)


def shipped_names() -> list[str]:
    """Return the names of the populations that come with the package."""
    found = (files("sottovoce") / "populations").iterdir()
    return sorted(Path(each.name).stem for each in found if each.name.endswith(".csv"))


def uniform(metric: Metric) -> Population:
    """Return equal shares over a metric's labels, candidates, or numbers spread over its range."""
    if metric.mechanism.encodes == "number":
        places = (POSITIONS * part // _SPREAD for part in range(_SPREAD + 1))
        values = tuple(f"{number_at(place, metric.edges).normalize():f}" for place in places)
    else:
        values = tuple(_text(label) for label in metric.labels or metric.candidates) or ("",)
    return Population(values, np.full(len(values), 1 / len(values)))


def recordable(metric: Metric, text: str) -> Label | float | list[Label]:
    """Return what an app would pass to `record` for a population's value.

    For several options the population gives them with SEPARATOR in between. For a number it may
    give a bucket, as labels print it: its middle is recorded.

    Raises:
        ValueError: The metric takes no such value.
    """
    if metric.type == "boolean":
        return text == "true"
    try:
        if metric.type == "number":
            if text in metric.index_of:
                bucket = metric.index_of[text]
                return float((metric.edges[bucket] + metric.edges[bucket + 1]) / 2)
            return float(text)
        if metric.type == "multi_select":
            return [_label(metric, each) for each in text.split(SEPARATOR) if each]
        if metric.labels:
            return _label(metric, text)
    except ValueError as error:
        raise ValueError(f"{metric.name} takes a {metric.type}, got {text!r}") from error
    return text


def _label(metric: Metric, text: str) -> Label:
    return int(text) if isinstance(metric.labels[0], int) else text


def truth(metric: Metric, population: Population) -> dict[str, float]:
    """Return the share of devices that hold each value which a release of the metric lists.

    Strings that are no candidates, if the population holds any, are together under UNLISTED. Of a
    number without buckets a release lists none, see `true_mean`.

    Raises:
        ValueError: The metric takes no such value as the population has.
    """
    if metric.mechanism.encodes == "number":
        return {}
    listed = [_text(label) for label in metric.labels or metric.candidates]
    shares = dict.fromkeys(listed, 0.0)
    for value, share in zip(population.values, population.shares.tolist(), strict=True):
        answer = recordable(metric, value)
        if metric.labels:
            index, _ = metric.encode(answer)
            assert isinstance(index, int)
            held = [listed[i] for i in members(index)] if metric.most else [listed[index]]
        else:
            held = [value if value in shares else UNLISTED]
        for name in held:
            shares[name] = shares.get(name, 0.0) + share
    return shares


def true_mean(metric: Metric, population: Population) -> float | None:
    """Return the mean of what devices report, clamped to the range; None if nothing measures it.

    Raises:
        ValueError: The metric takes no such value as the population has.
    """
    if metric.mechanism.encodes != "number":
        return None
    low, high = metric.edges[0], metric.edges[-1]
    held = [
        float(number_at(metric.encode(recordable(metric, text))[0], (low, high)))
        for text in population.values
    ]
    return float(np.array(held) @ population.shares)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
