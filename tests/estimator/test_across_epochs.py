"""Averages and changes over epochs: unbiased, and their errors hold whatever epochs share."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from aggregator.tally import Tally
from client_sdk.epochs import parse
from client_sdk.metric import Metric
from estimator.errors import NotPublishable
from estimator.estimate import estimate
from estimator.releases.across_epochs import FRESH, MEMOIZED, average, change, smoothed
from estimator.releases.release import Release, compose, compose_pooled

WEEKS = [parse("week", f"2026-W{number}") for number in (49, 50, 51, 52)]
RUNS = 1500
SLACK = 0.22
"""Of a variance found in `RUNS` runs: more than six standard deviations, chance below 1e-8."""


def released(metric: Metric, tally: Tally, epoch: int = WEEKS[0]) -> Release:
    return compose(metric, "shop-app", epoch, estimate(metric, tally), now=1_796_600_000.0)


def answered(metric: Metric, values: NDArray[np.int64], chance: np.random.Generator) -> Tally:
    """The tally of people with these values under fresh noise (one cell per report)."""
    p, domain = float(metric.mechanism.p_true), metric.mechanism.cells
    kept = chance.random(len(values)) < p
    others = (values + chance.integers(1, domain, len(values))) % domain
    sent = np.where(kept, values, others)
    return Tally(np.array([len(values)]), np.bincount(sent, minlength=domain)[None, :])


def variances(
    metric: Metric, combine: Callable[[list[Release]], float], turn: int
) -> tuple[float, float]:
    """The variance of a figure over runs that draw people once and ask them in two epochs.

    Args:
        turn: By how much everybody's value moves between the epochs.

    Returns:
        The variance found, and its standard error's.
    """
    chance = np.random.default_rng(5)
    found = []
    for _ in range(RUNS):
        people = chance.choice(4, 400, p=[0.5, 0.5, 0, 0])
        tallies = [answered(metric, people, chance), answered(metric, people ^ turn, chance)]
        found.append(combine([released(metric, t, WEEKS[i]) for i, t in enumerate(tallies)]))
    return float(np.var(found)), float(np.mean(found))


def test_the_error_of_an_average_is_exact_when_the_same_people_report(metrics, version_of):
    theme = version_of(metrics["theme"], "4")  # little noise: people matter
    errors = []

    def first_share(releases: list[Release]) -> float:
        entry = average(releases).entries[0]
        errors.append(entry.standard_error)
        return entry.share

    variance, mean = variances(theme, first_share, turn=0)
    stated = float(np.mean(np.square(errors)))
    assert variance == pytest.approx(stated, rel=SLACK)
    # Six standard errors of the mean: the average is unbiased.
    assert mean == pytest.approx(0.5, abs=6 * np.sqrt(variance / RUNS))


def test_the_error_of_a_change_is_exact_when_everybody_swaps(metrics, version_of):
    theme = version_of(metrics["theme"], "4")  # little noise: people matter
    errors = []

    def first_change(releases: list[Release]) -> float:
        entry = change(*releases).entries[0]
        errors.append(entry.standard_error)
        return entry.share

    variance, mean = variances(theme, first_change, turn=1)
    assert variance == pytest.approx(float(np.mean(np.square(errors))), rel=SLACK)
    assert mean == pytest.approx(0, abs=6 * np.sqrt(variance / RUNS))


def test_the_error_of_a_change_is_a_bound_when_nobody_changes(metrics):
    theme = metrics["theme"]
    errors = []

    def first_change(releases: list[Release]) -> float:
        entry = change(*releases).entries[0]
        errors.append(entry.standard_error)
        return entry.share

    variance, _ = variances(theme, first_change, turn=0)
    assert variance < float(np.mean(np.square(errors))) * (1 + SLACK)


def test_whole_errors_of_memoized_metrics_add(metrics):
    home = metrics["home_page"]
    days = [parse("day", f"2026-12-0{day}") for day in (1, 2)]
    tallies = [Tally(np.full(4, n), np.full((4, 32), n // 2)) for n in (100, 300)]
    parts = [released(home, tally, day) for tally, day in zip(tallies, days, strict=True)]
    mean = average(parts)
    assert mean.method == MEMOIZED and mean.n == (400, 1200)
    errors = [part.estimates.entries[0].standard_error for part in parts]
    assert mean.entries[0].standard_error == pytest.approx(0.25 * errors[0] + 0.75 * errors[1])
    moved = change(*parts)
    assert moved.entries[0].standard_error == pytest.approx(sum(errors))
    assert moved.entries[-1].value is None


def test_weights_stand_for_devices_and_may_be_planned(metrics, tally_of):
    theme = metrics["theme"]
    few, many = (
        released(theme, tally_of(theme, n, shares), week)
        for n, shares, week in ((1000, [1, 0, 0, 0], WEEKS[0]), (3000, [0, 1, 0, 0], WEEKS[1]))
    )
    assert average([few, many]).entries[0].share == pytest.approx(0.25, abs=5e-3)
    assert average([few, many], [1, 1]).entries[0].share == pytest.approx(0.5, abs=5e-3)
    seldom = replace(few, channels=replace(few.channels, inclusion=0.2))
    assert average([seldom, many]).entries[0].share == pytest.approx(5 / 8, abs=5e-3)
    for wrong in ([1], [1, -1], [0, 0]):
        with pytest.raises(ValueError, match="weights must be 2 numbers"):
            average([few, many], wrong)


def test_a_change_that_is_larger_than_its_error_is_called_and_no_other(metrics, tally_of):
    theme = metrics["theme"]
    before = released(theme, tally_of(theme, 9000, [0.5, 0.3, 0.2, 0]), WEEKS[0])
    after = released(theme, tally_of(theme, 9000, [0.2, 0.6, 0.2, 0]), WEEKS[1])
    moved = change(before, after)
    assert moved.method == FRESH and moved.epochs == ("2026-W49", "2026-W50")
    assert [entry.significant for entry in moved.entries] == [True, True, False, False]
    assert moved.entries[0].share == pytest.approx(-0.3, abs=5e-3)
    document = moved.to_dict()
    assert document["estimates"][1]["interval"][0] > 0


def test_smoothing_averages_neighbours_and_shortens_at_the_ends(metrics, tally_of):
    theme = metrics["theme"]
    shares = ([1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0])
    series = [
        released(theme, tally_of(theme, 1000, list(share)), week)
        for share, week in zip(shares, WEEKS, strict=True)
    ]
    points = smoothed(series)
    assert [point.entries[0].share for point in points] == pytest.approx(
        [1 / 2, 2 / 3, 2 / 3, 1], abs=5e-3
    )
    assert [len(point.epochs) for point in points] == [2, 3, 3, 2]
    with pytest.raises(ValueError, match="odd"):
        smoothed(series, 2)


def test_what_does_not_belong_together_is_refused_by_name(metrics, tally_of, version_of):
    theme = metrics["theme"]
    enough = tally_of(theme, 1000, [0.4, 0.3, 0.2, 0.1])
    one, other = (released(theme, enough, week) for week in WEEKS[:2])
    withheld = released(theme, tally_of(theme, 50, [0.4, 0.3, 0.2, 0.1]), WEEKS[1])
    smokes = metrics["smokes"]
    foreign = released(smokes, tally_of(smokes, 1000, [0.5, 0.5]), 0)
    for pair, reason in (
        ((one, withheld), "2026-W50: is withheld"),
        ((one, one), "only once"),
        ((one, foreign), "not of two"),
        ((one, replace(other, estimates=replace(other.estimates, level=0.9))), "another level"),
    ):
        with pytest.raises(NotPublishable, match=reason):
            change(*pair)
    with pytest.raises(NotPublishable, match="at least one"):
        average([])
    pooled = compose_pooled(theme, [one, released(version_of(theme, "2"), enough)])
    assert average([pooled, other]).n == (2000, 1000)
