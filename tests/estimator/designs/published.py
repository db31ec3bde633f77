"""Published estimates of paper surveys beside ours, digit by digit.

`python -m tests.estimator.designs.published` prints the table. `published.json` holds counts and
printed figures, with their source: "published" is what the source prints; "recomputed" was worked
out apart from this project from the source's counts, where it prints less or nothing. A figure is
reproduced if ours, rounded to the printed digits, is the printed one.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from estimator.designs import Analysis, analyse
from estimator.designs.analysis import Request
from estimator.designs.answers import Reading
from estimator.designs.logistic import Fit, Term, fit, number
from estimator.designs.table import read

HERE = Path(__file__).parent
SURVEYS = json.loads((HERE / "published.json").read_text())
REGRESSION = json.loads((HERE / "published_regression.json").read_text())


@dataclass(frozen=True)
class Reproduced:
    """One printed figure, and ours rounded alike."""

    survey: str
    figure: str
    by: str
    printed: str
    ours: str

    @property
    def alike(self) -> bool:
        return self.printed == self.ours


def rounded(value: float, printed: str) -> str:
    """Return a number with as many digits behind the point as the printed one."""
    return f"{value:.{len(printed.partition('.')[2])}f}"


def survey(entry: dict, divisor: str = "n-1", finite: bool = False) -> Analysis:
    """Estimate a survey of `published.json`, by the way that files take."""
    table = read(json.dumps({"rows": entry["rows"]}))
    given = {key: value for key, value in entry["design"].items() if key != "name"}
    population = entry.get("population") if finite else None
    reading = Reading(entry["design"]["name"], given)
    return analyse(table, Request(reading, divisor=divisor, population=population))


def value(entry: dict, what: str) -> float:
    """Return ours of a figure such as "share: error, n-1"."""
    name, _, rest = what.partition(": ")
    kind, _, how = rest.partition(", ")
    divisor = how if how in ("n", "n-1") else "n-1"
    found = survey(entry, divisor, how == "finite population")
    (figure,) = (each for each in found.figures if each.name == name)
    return {
        "": figure.estimate,
        "error": figure.standard_error,
        "variance": figure.standard_error**2,
        "low": figure.normal[0],
        "high": figure.normal[1],
    }[kind]


def reproduced() -> Iterator[Reproduced]:
    """Yield every printed figure of `published.json`."""
    for entry in SURVEYS:
        for figure in entry["figures"]:
            printed = figure["printed"]
            ours = rounded(value(entry, figure["figure"]), printed)
            yield Reproduced(entry["id"], figure["figure"], figure["by"], printed, ours)


def regression(*, interaction: bool = True) -> Fit:
    """Fit the published regression: format (-1 direct, 1 randomized) and left-right position."""
    rows = np.array(REGRESSION["rows"])
    repeats = rows[:, 2:].ravel()
    sample, left_right = (np.repeat(np.repeat(rows[:, i], 2), repeats) for i in (0, 1))
    yes = np.repeat(np.tile([0.0, 1.0], len(rows)), repeats)
    p = np.array([0, 2 / 12, 10 / 12])[sample]
    lying = sample > 0
    a, c = np.where(lying, 1 - p, 0.0), np.where(lying, p - 1, 1.0)
    terms: list[Term] = [number("format", np.where(lying, 1.0, -1.0))]
    if interaction:
        centred = left_right - left_right.mean()
        terms.append(number("left_right", centred))
        terms.append(number("format:left_right", terms[0].columns[:, 0] * centred))
    return fit(yes, a, c, terms, lying=lying)


def regression_reproduced() -> Iterator[Reproduced]:
    """Yield every printed figure of the published regression."""
    printed, ours = REGRESSION["printed"], regression()
    name = REGRESSION["id"]

    def told(figure: str, text: str, own: float) -> Reproduced:
        return Reproduced(name, figure, "published", text, rounded(own, text))

    yield told("n", printed["n"], ours.n)
    yield told("log-likelihood", printed["log_likelihood"], ours.log_likelihood)
    for each in (*ours.coefficients, ours.honesty):
        estimate, error = printed["coefficients"][each.label]
        yield told(each.label, estimate, each.estimate)
        yield told(f"{each.label}: error", error, each.standard_error)
    for test in ours.tests:
        if test.name in printed["likelihood_ratio"]:
            text = printed["likelihood_ratio"][test.name]
            yield told(f"{test.name}: likelihood ratio", text, test.chi_square)
    (alone,) = regression(interaction=False).tests
    yield told("format alone: likelihood ratio", printed["format_alone"], alone.chi_square)


def markdown() -> str:
    """Return the table."""
    lines = ["| survey | figure | by | printed | ours | |", "|---|---|---|---|---|---|"]
    for each in (*reproduced(), *regression_reproduced()):
        same = "=" if each.alike else "differs"
        lines.append(
            f"| {each.survey} | {each.figure} | {each.by} | {each.printed} | {each.ours} | {same} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
