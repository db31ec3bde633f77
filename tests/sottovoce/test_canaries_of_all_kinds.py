"""Canaries of every kind of mechanism: compared where their law is known, never by another's."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from aggregator.tally import Tally
from client_sdk import loads
from client_sdk.mechanisms import CATALOGUE, MEMOIZED
from estimator.canary import evidence, monitor, truth
from estimator.canary.truth import Truth
from estimator.canary.utility import ALARM, score
from estimator.errors import NotPublishable
from estimator.estimate import estimate
from estimator.releases.files import write
from estimator.releases.release import compose
from sottovoce.commands.monitor import _print
from tests.estimator.numbers import of_mean
from tests.registries import registry as text_of
from tests.sottovoce.canaries import day, pairs, registry

TODAY = date(2026, 11, 5)
OPTIONS = """
[metrics.options]
question = "Which of these are on?"
type = "multi_select"
values = ["a", "b", "c", "d", "e", "f", "g", "h"]
most = 8
mechanism = "multi_hot_unary"
sensitivity = "product"
epsilon = 30.0
epoch = "day"
owners = ["ui-team@example.org"]
starts = 2026-11-01
expires = 2026-12-01
"""


def of_options(epochs: int, n: int, seed: int) -> list[tuple[object, Truth]]:
    """Releases of devices of which half choose everything, and half nothing."""
    metric = loads(text_of(OPTIONS, lifetime=1000)).metrics["options"]
    chance = np.random.default_rng(seed)
    mechanism = metric.mechanism
    laws = [float(mechanism.p_false), float(mechanism.p_true)]
    found = []
    for number in range(epochs):
        held = chance.binomial(n, 0.5)
        counts = sum(
            chance.binomial(many, law, 8) for many, law in zip((n - held, held), laws, strict=True)
        )
        tally = Tally(np.array([n]), counts[None, :])
        release = compose(metric, "shop-app", day(number), estimate(metric, tally), now=1.8e9)
        shares = tuple((label, 0.5) for label in metric.labels)
        known = Truth(metric.name, release.epoch, release.fingerprint, shares, n, n)
        found.append((release, known))
    return found


def test_only_values_with_a_cell_or_bit_of_their_own_are_judged_exactly():
    own = {
        "randomized_response",
        "generalized_randomized_response",
        "symmetric_unary",
        "optimized_unary",
    }
    with_memory = {MEMOIZED[name] for name in own if name in MEMOIZED}
    exact = {name for name in CATALOGUE if evidence.is_exact(name, "category")}
    assert exact == own | with_memory
    assert {name for name in exact if evidence.independent_values(name, 9) == 1} == {
        "randomized_response"
    }
    assert not any(evidence.is_exact(name, "multi_select") for name in CATALOGUE)
    assert not evidence.is_exact(None, "category")
    assert evidence.independent_values("rappor", 9) is None
    # With memory, a yes/no question is one of two cells.
    assert evidence.independent_values("memoized_generalized_randomized_response", 9) == 8
    assert evidence.independent_values("memoized_symmetric_unary", 9) == 9
    assert evidence.independent_values("loloha", 9) is None
    assert evidence.independent_values("d_bit_flip", 9) is None


def test_options_that_are_chosen_together_raise_no_alarm():
    """Fixed seeds. Whoever took their errors for independent would raise one most of the time."""
    for seed in range(12):
        found = score(of_options(20, 2_000, seed))
        assert found.alarms == ()
        assert found.p_standard_error is None
        taken_apart = [
            (replace(r, type="category"), known) for r, known in of_options(20, 2000, seed)
        ]
        assert score(taken_apart).alarms == ()  # its name is on no list


def test_errors_of_options_are_noticed_all_the_same():
    found = of_options(20, 2_000, 1)
    wrong = [
        (release, replace(known, shares=tuple((v, 0.4) for v, _ in known.shares)))
        for release, known in found
    ]
    assert score(wrong).p_error < ALARM


def test_a_release_without_two_probabilities_is_compared_by_its_stated_errors():
    found = pairs(registry().metrics["canary.one_of_6"], 2_000, 10, seed=3)
    blank = [
        (replace(r, channels=replace(r.channels, p_true=None, p_false=None)), known)
        for r, known in found
    ]
    compared = score(blank)
    assert compared.alarms == ()
    assert compared.p_standard_error is None


@pytest.mark.parametrize(
    ("kind", "why"), [("mean", "says no shares"), ("smoothed", "is smoothed, which is biased")]
)
def test_what_cannot_be_compared_is_left_out_with_its_reason(tmp_path, capsys, kind, why):
    metric = registry().metrics["canary.one_of_6"]
    for release, known in pairs(metric, 2_000, 3, seed=5):
        shown = release
        if kind == "mean":
            number = metric._replace(type="number", labels=(), edges=(Decimal(0), Decimal(120)))
            found = compose(number, "shop-app", day(0), of_mean(30.0, n=2_000), now=1.8e9)
            shown = replace(release, type="number", range=found.range, estimates=found.estimates)
        else:
            shown = replace(release, channels=replace(release.channels, mechanism="square_wave"))
        write(shown, tmp_path)
        truth.write(replace(known, begun=2_000, delivered=2_000), tmp_path)
        with pytest.raises(NotPublishable, match=why):
            score([(shown, known)])
    (row,) = monitor.survey(tmp_path, TODAY, 0.01)
    assert row.alarms == ()
    assert row.score is None
    assert why in row.left_out
    _print([row], 1.0)
    assert why in capsys.readouterr().out


def test_a_mean_is_surveyed_by_the_width_of_its_interval(tmp_path):
    metric = (
        registry()
        .metrics["canary.one_of_6"]
        ._replace(type="number", labels=(), edges=(Decimal(0), Decimal(120)))
    )
    write(compose(metric, "shop-app", day(0), of_mean(30.0), now=1.8e9), tmp_path)
    (row,) = monitor.survey(tmp_path, TODAY, 0.01)
    assert row.half_width == pytest.approx(1.959964 * 0.8 / 120, rel=1e-6)
    assert row.n_needed == pytest.approx(5000 * (row.half_width / 0.01) ** 2, abs=1)
    assert row.negative_mass is None
    assert (row.alarms, row.left_out) == ((), "")
    assert row.to_dict()["left_out"] == ""
