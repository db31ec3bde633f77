"""What docs/planning.md shows: charts, and plans beside simulated collections.

As a program (`python -m tests.planning_page`) it draws the charts anew and prints the table. An
SVG names the digest of the specification it was drawn from, since its own bytes depend on the
fonts of the machine.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from client_sdk.mechanisms import Rappor
from client_sdk.metric import Memoize
from estimator import uncertainty
from estimator.debias import Channel
from estimator.drawing import Spec, svg_of
from estimator.planning.curves import Curve, chart, curves
from estimator.planning.laws import ShareLaw
from estimator.planning.mechanism_laws import Unlisted, law_of, remembered_law
from estimator.planning.question import Question, made_up
from estimator.planning.ranking import choose, chosen
from sottovoce.population import shipped
from tests.conformance.simulated import tallies
from tests.conformance.test_worked_plans import (
    BROWSERS,
    RARE_BOOLEAN,
    START_PAGE,
    START_PAGES,
    WEEKS,
    best,
    ranked,
    weekly,
)

FOLDER = Path(__file__).parent.parent / "docs" / "planning"
LENGTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024)
COHORTS = (4, 8, 16, 32, 64, 128, 256)
WIDTH, HEIGHT = 480, 260
COLLECTIONS = 40_000, 200
"""Of reports of one bit, and of others."""


def charts() -> dict[str, Spec]:
    """Return the specification of each chart by the name of its file."""
    one_of = "one of 172 values"
    return {
        "devices": _titled(
            chart(curves(ranked(BROWSERS), "devices"), "devices", f"{one_of}, epsilon 2")
        ),
        "epsilon": _titled(
            chart(curves(ranked(BROWSERS), "epsilon"), "epsilon", f"{one_of}, 1,000,000 devices")
        ),
        "values": _titled(
            chart(tuple(_of_lengths()), "devices", "100,000 reports, the default mechanism"),
            x="values in the list",
            y="smallest visible share",
        ),
        "hashes": _titled(
            chart(tuple(_of_cohorts()), "devices", "RAPPOR of 128 bits, 50 candidates, epsilon 1"),
            x="cohorts",
            y="standard error of a candidate",
        ),
    }


def visible(values: int, epsilon: str, reports: int = 100_000) -> float:
    """Return the detection limit of so many reports over a list, by the default mechanism."""
    asked = Question("category", Decimal(epsilon), reports, made_up("value", values))
    limit = chosen(asked.metric(), asked).figures.detection_limit
    assert limit is not None
    return limit


@cache
def sketched(hashes: int, cohorts: int) -> float:
    """Return the error of an absent candidate, of 50 and with 50,000 reports, by RAPPOR."""
    asked = Question(
        "string",
        Decimal(1),
        50_000,
        candidates=made_up("candidate", 50),
        memoize=Memoize(Decimal(4), 2),
    )
    shape = {"name": "rappor", "bits": 128, "hashes": hashes, "cohorts": cohorts}
    error = choose(shape, asked).figures.rare_error
    assert error is not None
    return error


def _of_lengths() -> Iterator[Curve]:
    for epsilon in ("1", "2", "4"):
        points = tuple((values, visible(values, epsilon)) for values in LENGTHS)
        yield Curve(f"epsilon {epsilon}", points)


def _of_cohorts() -> Iterator[Curve]:
    for hashes in (1, 2, 4):
        points = tuple((cohorts, sketched(hashes, cohorts)) for cohorts in COHORTS)
        yield Curve(f"{hashes} hash{'es' if hashes > 1 else ''}", points)


def _titled(spec: Spec, x: str | None = None, y: str | None = None) -> Spec:
    """Return a chart in the page's size, its figures to four digits, with titles of its own."""
    for axis, title in (("x", x), ("y", y)):
        if title is not None:
            spec["encoding"][axis]["title"] = title
    for row in spec["data"]["values"]:
        row["error"] = float(f"{row['error']:.4g}")
    # The page says in words what each shows.
    config = spec["config"] | {"aria": False}
    return spec | {"width": WIDTH, "height": HEIGHT, "config": config}


def digest(spec: Spec) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()


def drawn(spec: Spec) -> str:
    return f"{svg_of(spec)}\n<!-- specification: {digest(spec)} -->\n"


# Plans beside simulated collections


@dataclass(frozen=True)
class Row:
    """One figure of a plan, as planned and as simulated.

    Attributes:
        plan: Which of the three.
        figure: What it is.
        planned: By the planner.
        simulated: In collections of reports.
        chance: Five standard errors of what is simulated: what another seed may make of it.
        form: How both are printed.
    """

    plan: str
    figure: str
    planned: float
    simulated: float
    chance: float
    form: str = ".3g"

    def cells(self, simulated: float) -> list[str]:
        """Return the row as the page has it, with what was simulated there."""
        unit = " %" if self.form == ".3g" else ""
        shown = [f"{each:{self.form}}{unit}" for each in (self.planned, simulated)]
        return [self.plan, self.figure, *shown]


@cache
def rows() -> tuple[Row, ...]:
    return (*_booleans(), *_browsers(), *_start_pages())


def _booleans() -> Iterator[Row]:
    choice, collections = best(RARE_BOOLEAN), COLLECTIONS[0]
    channel, n = Channel.of_values(choice.metric.mechanism), RARE_BOOLEAN.devices
    chance = np.random.default_rng(1)
    figures, limit = choice.figures, choice.figures.detection_limit
    assert figures.common_error is not None and limit is not None

    def counts(share: float) -> Any:
        held = [1 - share, share]
        return tallies(choice.metric.mechanism, (0, 1), held, n, collections, chance)[1][:, 0, 0]

    error = 100 * figures.common_error
    found = 100 * float(channel.invert(counts(0.03) / n).std())
    yield Row("crash dialog", "standard error of 3 %", error, found, 0.018 * error)
    called = uncertainty.significant(counts(limit), n, channel, level=0.95)
    said = f"collections in which {100 * limit:.3g} % is called present"
    yield Row("crash dialog", said, 95, 100 * float(called.mean()), 1)


def _browsers() -> Iterator[Row]:
    default = ranked(BROWSERS).default
    assert default is not None and isinstance(default.law, ShareLaw)
    law, n, collections = default.law, BROWSERS.devices, COLLECTIONS[1]
    shares = shipped("browser_version").shares
    mechanism, channel = default.metric.mechanism, Channel.of_values(default.metric.mechanism)
    chance = np.random.default_rng(2)
    counts = tallies(mechanism, range(172), shares.tolist(), n, collections, chance)[1][:, 0]
    stated = np.array([law.variance(float(share), n) for share in shares])
    found = channel.invert(counts / n) - shares
    planned = 100 * float(np.sqrt(stated.mean()))
    simulated = 100 * float(np.sqrt((found**2).mean()))
    yield Row("browsers", "root of the mean squared error", planned, simulated, 0.025 * planned)
    called = uncertainty.significant(counts, n, channel, level=0.95, cells=172)
    level = default.figures.decision_level
    assert level is not None
    expected = float(stats.norm.sf((level - shares) / np.sqrt(stated)).sum())
    many = float(called.sum(axis=1).mean())
    yield Row("browsers", "versions called present", expected, many, 0.6, ".1f")


def _start_pages() -> Iterator[Row]:
    (choice,) = ranked(START_PAGE).choices
    mechanism, n, collections = choice.metric.mechanism, START_PAGE.devices, COLLECTIONS[1]
    assert isinstance(mechanism, Rappor)
    shares = np.array([0.6, 0.3, 0.1, 0.0])
    first, year = weekly(mechanism, shares, n, collections, np.random.default_rng(3))
    none = Unlisted(())
    once, ever = (law(mechanism, START_PAGES, none) for law in (law_of, remembered_law))
    assert once is not None and ever is not None
    week, floor = once.variance(0, n), ever.variance(0, n)
    for said, variance, found in (
        ("standard error of an absent page, a week", week, first),
        (f"the same, average of {WEEKS} weeks", floor + (week - floor) / WEEKS, year),
    ):
        planned = 100 * float(variance**0.5)
        yield Row("start page", said, planned, 100 * float(found[:, 3].std()), 0.25 * planned)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, specification in charts().items():
        (FOLDER / f"{name}.svg").write_text(drawn(specification))
    for row in rows():
        print(f"| {' | '.join(row.cells(row.simulated))} |")
