"""Releases of canary metrics as honest devices would cause them, simulated at the tally."""

from datetime import date

import numpy as np

from aggregator.tally import Tally
from client_sdk import Registry, loads
from client_sdk.epochs import epoch_of
from client_sdk.metric import Metric
from estimator.canary.truth import Truth
from estimator.estimate import estimate
from estimator.releases.release import Release, compose
from sottovoce.canary import registry_text, truth_of
from tests.registries import registry as text_of
from tests.registries import theme

APPS = text_of(theme(), lifetime=100)
NAMES = ("canary.yes_no", "canary.one_of_6", "canary.one_of_16", "canary.text")


def registry() -> Registry:
    return loads(registry_text(loads(APPS), date(2026, 11, 1)))


def day(number: int) -> int:
    """The epoch so many days after 1 November 2026."""
    return epoch_of("day", date(2026, 11, 1)) + number


def pairs(metric: Metric, n: int, epochs: int, seed: int) -> list[tuple[Release, Truth]]:
    """Releases and what is known, for n devices a day."""
    chance = np.random.default_rng(seed)
    known = [truth_of(metric, day(number)) for number in range(epochs)]
    return [
        (
            compose(
                metric,
                "shop-app",
                day(i),
                estimate(metric, drawn(metric, each, n, chance)),
                now=1_796_600_000.0,
            ),
            each,
        )
        for i, each in enumerate(known)
    ]


def drawn(metric: Metric, known: Truth, n: int, chance: np.random.Generator) -> Tally:
    """The tally of n devices that draw their values, and noise, anew."""
    cohorts = metric.mechanism.cohorts
    sizes = chance.multinomial(n, np.full(cohorts, 1 / cohorts))
    values, shares = zip(*known.shares, strict=True)
    counts = np.zeros((cohorts, metric.mechanism.cells), np.int64)
    for cohort, size in enumerate(sizes):
        for value, held in zip(values, chance.multinomial(size, shares), strict=True):
            if value is None:
                for _ in range(held):
                    text = f"unlisted {chance.integers(500)}"
                    counts[cohort] += _supports(metric, text, 1, cohort, chance)
            else:
                own = metric.labels.index(value) if metric.labels else value
                counts[cohort] += _supports(metric, own, held, cohort, chance)
    return Tally(sizes.astype(np.int64), counts)


def _supports(metric, value, devices, cohort, chance):
    mechanism = metric.mechanism
    law = np.full(mechanism.cells, float(mechanism.p_false))
    law[list(mechanism.cells_for(value, cohort))] = float(mechanism.p_true)
    if mechanism.kind == "cell":
        return chance.multinomial(devices, law / law.sum())
    return chance.binomial(devices, law)
