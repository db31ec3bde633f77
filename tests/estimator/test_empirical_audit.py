"""The empirical audit convicts broken randomizers and, but for a stated chance, no sound one.

Everything that must not be flagged is tested at a confidence of 1 - 1e-6: that is the chance of a
false alarm of each such test. Broken ones are flagged at the same confidence; their excess is so
large at the n used that they escape with a probability below 1e-6 too.
"""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from client_sdk.audit import audit
from client_sdk.mechanisms import (
    GeneralizedRandomizedResponse,
    Mechanism,
    OptimizedUnary,
    RandomizedResponse,
    Rappor,
    SymmetricUnary,
)
from client_sdk.metric import Metric
from client_sdk.randomness import ONE, Coin
from client_sdk.recorder import Recorder, device_cohort, permanent_response
from client_sdk.registry import Registry, loads
from estimator import real_reports
from estimator.empirical_audit import (
    Rows,
    bound_of,
    collision_chance,
    lower_bound,
    noise_repeats,
)
from sottovoce.__main__ import main

SURE = 1 - 1e-6
REGISTRY = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 100
contact = "telemetry@example.org"

[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "month"
starts = 2026-11-30
expires = 2027-12-31

[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.4
memoize = { epsilon_permanent = 1.5, distinct_values = 2 }
rappor = { bits = 128, hashes = 2, cohorts = 64 }
epoch = "week"
"""


@pytest.fixture
def registry() -> Registry:
    return loads(REGISTRY)


def bits_of(response: int, width: int) -> list[int]:
    return [response >> bit & 1 for bit in range(width)]


def one_by_one(draw: Callable[[], list[int]]) -> Callable[[int], Rows]:
    return lambda n: np.array([draw() for _ in range(n)], np.int64)


def responses(mechanism: Mechanism, value: int) -> Callable[[int], Rows]:
    """Responses of a mechanism with fresh noise: its cell, or its bits."""
    coin = Coin()

    def draw() -> list[int]:
        response = mechanism.instantaneous(mechanism.permanent(value, 0, coin), coin)
        return [response] if mechanism.kind == "cell" else bits_of(response, mechanism.cells)

    return one_by_one(draw)


SOUND = [
    RandomizedResponse.from_epsilon(2),
    RandomizedResponse.from_probabilities("0.72", "0.12"),
    GeneralizedRandomizedResponse.from_epsilon(4, 1),
    GeneralizedRandomizedResponse.from_epsilon(100, 2),
    SymmetricUnary.from_epsilon(8, 1),
    OptimizedUnary.from_epsilon(8, 1),
]


@pytest.mark.parametrize(
    "mechanism", SOUND, ids=lambda m: f"{m.name}-{m.domain}-{float(m.epsilon):.2f}"
)
def test_a_sound_mechanism_comes_close_to_its_epsilon_and_never_above(mechanism):
    found = lower_bound(responses(mechanism, 0), responses(mechanism, 1), 20_000, SURE)
    assert 0.45 * float(mechanism.epsilon) < found.epsilon <= float(mechanism.epsilon)


def test_a_truth_kept_too_often_is_caught():
    # Stated epsilon 1 on four values: keep 0.475. The broken client keeps 0.6: epsilon 1.50.
    stated = GeneralizedRandomizedResponse.from_epsilon(4, 1)
    broken = GeneralizedRandomizedResponse(4, ONE * 6 // 10)
    found = lower_bound(responses(broken, 0), responses(broken, 3), 40_000, SURE)
    assert float(stated.epsilon) < found.epsilon <= float(broken.epsilon)


class KeepsItsTrueBit(OptimizedUnary):
    """Case C06 (pure-LDP issue 11): the true bit is not cleared before it is kept w.p. p."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        noise = coin.flip_bits(0, self.cells, self.one_if_zero, self.one_if_zero)
        return noise | (permanent if coin.bernoulli(self.one_if_one) else 0)


def test_a_true_bit_that_is_not_cleared_is_caught():
    broken = KeepsItsTrueBit.from_epsilon(8, 1)
    found = lower_bound(responses(broken, 2), responses(broken, 5), 40_000, SURE)
    assert 1 < found.epsilon <= 1.551445  # what the faulty client really loses, cases.json C06


class OneWordForAllBits(OptimizedUnary):
    """Each bit has the right law; together they give the value away."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        word = coin.word()
        return sum(
            (word < (self.one_if_one if permanent >> bit & 1 else self.one_if_zero)) << bit
            for bit in range(self.cells)
        )


def test_one_random_word_for_several_bits_is_caught():
    broken = OneWordForAllBits.from_epsilon(4, 1)
    found = lower_bound(responses(broken, 0), responses(broken, 1), 20_000, SURE)
    assert found.epsilon > 3


def subset(value: int, true_first: bool) -> Callable[[int], Rows]:
    """Subset selection, 27 of 100 values at epsilon 1 (reference section 7)."""
    chance = random.Random(5)
    keep = 27 * np.e / (27 * np.e + 73)

    def draw() -> list[int]:
        others = [other for other in range(100) if other != value]
        with_truth = chance.random() < keep
        listed = [value] * with_truth + chance.sample(others, 27 - with_truth)
        return listed if true_first else sorted(listed)

    return one_by_one(draw)


def test_a_subset_that_lists_the_truth_first_is_caught_and_a_sorted_one_is_not():
    # As multi-freq-ldpy does: ln ratio 4.60 where 1 was asked for.
    broken = lower_bound(subset(7, True), subset(8, True), 10_000, SURE)
    assert 3 < broken.epsilon <= 4.61
    assert lower_bound(subset(7, False), subset(8, False), 10_000, SURE).epsilon <= 1


def test_thresholds_rounded_up_at_four_bits_are_caught():
    # e/(1+e) = 0.7311 becomes 12/16, towards less noise: epsilon ln 3 = 1.0986 instead of 1.
    broken = RandomizedResponse(12 * ONE // 16, 4 * ONE // 16)
    found = lower_bound(responses(broken, 0), responses(broken, 1), 120_000, SURE)
    assert 1 < found.epsilon <= float(broken.epsilon)


def test_an_excess_in_the_last_of_64_bits_is_left_to_the_exact_audit():
    stated = RandomizedResponse.from_epsilon(1)
    broken = RandomizedResponse(stated.yes_if_yes + 1, stated.yes_if_no - 1)
    assert stated.epsilon <= 1 < broken.epsilon  # exact
    assert audit(broken).worst > 1
    assert lower_bound(responses(broken, 0), responses(broken, 1), 20_000, SURE).epsilon < 1


def memoized(
    metric: Metric, value: str, reports: int, remember: bool = True
) -> Callable[[int], Rows]:
    """Reports of one value from devices with fresh secrets, by the recorder's own functions."""
    pair, coin = real_reports.hardest_pair(metric), Coin()
    encoded, _ = metric.encode(value)

    def device() -> list[tuple[int, int]]:
        secret = os.urandom(32)
        cohort = device_cohort(secret, metric)

        def memory() -> int:
            if remember:
                return permanent_response(secret, metric, encoded, cohort)
            return metric.mechanism.permanent(encoded, cohort, coin)

        return [(cohort, metric.mechanism.instantaneous(memory(), coin)) for _ in range(reports)]

    return lambda n: real_reports.describe(metric, pair, [device() for _ in range(n)])


def test_endlessly_many_reports_of_one_value_stay_below_epsilon_permanent():
    metric = loads(REGISTRY.replace("= 1.5", "= 4.0")).metrics["home_page"]
    one, other = map(str, real_reports.hardest_pair(metric))
    found = lower_bound(memoized(metric, one, 64), memoized(metric, other, 64), 3000, SURE)
    assert 0.8 < found.epsilon <= 4 < found.reach


@pytest.mark.parametrize(
    "mechanism",
    [
        '"symmetric_unary"',
        '"optimized_unary"',
        '"generalized_randomized_response"',
        '{ name = "loloha", cells = 2 }',
        '{ name = "d_bit_flip", bits = 4 }',
        '{ name = "d_bit_flip", bits = 1 }',
    ],
)
def test_many_reports_of_a_value_of_a_list_stay_below_epsilon_permanent(mechanism):
    """Where a cohort says which cells are a value's, each device is read by its own. Noise that is
    drawn anew in every report is caught."""
    epsilon = "1.5" if "d_bit_flip" in mechanism else "1.0"
    keys = f"epsilon = {epsilon}\nmechanism = {mechanism}\n"
    keys += "memoize = { epsilon_permanent = 1.5, distinct_values = 2 }\n"
    text = REGISTRY.replace('"light", "dark",', '"light", "dark", "sepia", "blue",')
    metric = loads(text.replace("epsilon = 1.0\n", keys, 1)).metrics["theme"]
    one, other = map(str, real_reports.hardest_pair(metric))
    found = lower_bound(memoized(metric, one, 16), memoized(metric, other, 16), 2500, SURE)
    assert found.epsilon <= 1.5 < found.reach
    forgetful = [memoized(metric, value, 16, remember=False) for value in (one, other)]
    assert lower_bound(*forgetful, 2500, SURE).epsilon > 1.5


def redrawn(self: Recorder, connection: object, metric: Metric, value: str, cohort: int) -> int:
    return metric.mechanism.permanent(value, cohort, Coin())


@pytest.mark.slow
def test_a_permanent_response_redrawn_on_each_report_is_caught(registry, monkeypatch):
    # The real recorder with one method broken.
    monkeypatch.setattr(Recorder, "_remembered", redrawn)
    monkeypatch.setattr(real_reports, "REPORTS_OF_ONE_VALUE", 128)
    metric = registry.metrics["home_page"]
    pair = real_reports.hardest_pair(metric)
    a, b = (
        real_reports.describe(metric, pair, real_reports.draw(registry, metric, value, 250))
        for value in pair
    )
    assert bound_of(a, b, SURE).epsilon > 1.5


def test_two_devices_of_a_seeded_generator_are_caught(registry):
    def seeded() -> Coin:
        return Coin(random.Random(7).randbytes)

    metric = registry.metrics["theme"]
    chance = collision_chance(metric.mechanism, 0)
    devices = {
        coin: [real_reports.draw(registry, metric, "light", 60, coin) for _ in range(3)]
        for coin in (seeded, Coin)
    }
    assert noise_repeats(devices[seeded], chance, SURE) is True
    assert noise_repeats(devices[Coin], chance, SURE) is False
    # Each seeded device by itself looks as it should.
    one_device = np.array([[cell] for ((_, cell),) in devices[seeded][0]])
    assert 10 < np.count_nonzero(one_device == 0) < 50  # 60 draws of 0.576, 5 sd


def test_too_few_reports_cannot_tell_a_seeded_generator():
    assert noise_repeats([[1, 0], [1, 0]], 0.6, SURE) is None
    assert noise_repeats([[1, 0]], 0.6, SURE) is None


def test_collision_chance_is_that_of_the_channel():
    # Two coins: 0.75^2 + 0.25^2; two bits of symmetric_unary at epsilon 2 ln 3: the same, squared.
    coins = RandomizedResponse.from_probabilities("0.75", "0.25")
    assert collision_chance(coins, 1) == pytest.approx(0.625)
    unary = SymmetricUnary.from_probabilities(2, "0.75", "0.25")
    assert collision_chance(unary, 0) == pytest.approx(0.625**2)
    grr = GeneralizedRandomizedResponse.from_probabilities(3, "0.5", "0.25")
    assert collision_chance(grr, 2) == pytest.approx(0.25 + 2 * 0.0625)


def test_the_bound_is_the_clopper_pearson_ratio_of_the_held_out_half():
    chance = np.random.default_rng(3)
    a, b = ((chance.random((4000, 1)) < p).astype(np.int64) for p in (0.7, 0.3))
    found = bound_of(a, b, 0.99)
    half_a, half_b = a[2000:, 0], b[2000:, 0]
    own, other = (half_a, half_b) if found.towards == "a" else (1 - half_b, 1 - half_a)
    assert found.hits == (own.sum(), other.sum()) and found.trials == 2000
    # statsmodels' independent implementation of the same interval.
    low, _ = proportion_confint(own.sum(), 2000, alpha=0.01, method="beta")
    _, high = proportion_confint(other.sum(), 2000, alpha=0.01, method="beta")
    assert found.epsilon == pytest.approx(np.log(low / high))


def test_the_bound_exceeds_the_truth_as_rarely_as_it_says_and_the_naive_ratio_often():
    # 1,000 audits of randomized response at epsilon 1, confidence 0.9. False alarm: at most 100
    # expected, 145 is 4.75 standard deviations above (7e-7).
    chance = np.random.default_rng(11)
    p = np.e / (1 + np.e)
    above = naive = 0
    for _ in range(1000):
        a, b = ((chance.random((400, 1)) < x).astype(np.int64) for x in (p, 1 - p))
        found = bound_of(a, b, 0.9)
        above += found.epsilon > 1
        naive += found.hits[0] > np.e * found.hits[1]
    assert above <= 145 < 350 < naive


def test_what_cannot_be_audited_is_refused():
    good = np.zeros((40, 1), np.int64)
    assert bound_of(good, good, 0.9).epsilon == 0
    for a, b, confidence in (
        (good[:39], good[:39], 0.9),
        (good, np.zeros((40, 2), np.int64), 0.9),
        (good, good, 1.0),
    ):
        with pytest.raises(ValueError, match=r"40 rows|confidence"):
            bound_of(a, b, confidence)


def test_the_hardest_strings_share_no_bit_where_such_strings_exist(registry):
    metric = registry.metrics["home_page"]
    one, other = map(str, real_reports.hardest_pair(metric))
    shared = [
        set(metric.mechanism.cells_for(one, c)) & set(metric.mechanism.cells_for(other, c))
        for c in range(64)
    ]
    assert sum(map(len, shared)) <= 2  # of 256 bits


def test_the_shipped_client_is_audited_by_command(tmp_path: Path, capsys: Any):
    # 1,600 reports of each value of theme, 200 devices of home_page. False alarm: 1e-6 for all.
    path = tmp_path / "metrics.toml"
    path.write_text(REGISTRY)
    arguments = ["--empirical", "--reports", "1600", "--confidence", str(SURE), "--json"]
    assert main(["audit", str(path), *arguments]) == 0
    theme, home_page = (entry["empirical"] for entry in json.loads(capsys.readouterr().out))
    figures = [bound["figure"] for bound in home_page["bounds"]]
    assert figures == ["one report", "32 reports of one value", "cohort alone"]
    assert len(theme["bounds"]) == 1  # it has one cohort
    assert theme["noise_repeats"] is False and home_page["noise_repeats"] is False
    assert 0.1 < theme["bounds"][0]["bound"] <= 1
    assert "Recorder" in theme["method"] and theme["verdict"] == "consistent"


@pytest.mark.parametrize("fault", ["truth", "seed"])
def test_a_broken_client_is_exit_status_1(
    registry: Registry, tmp_path: Path, capsys: Any, monkeypatch: Any, fault: str
):
    honest = registry.metrics["theme"]
    broken = honest._replace(mechanism=GeneralizedRandomizedResponse(3, ONE * 9 // 10))
    coin = Coin() if fault == "truth" else None

    def collect(registry: Registry, metric: Metric, reports: int, processes: int) -> Any:
        client = broken if fault == "truth" else honest
        pair = real_reports.hardest_pair(metric)
        parts = [
            real_reports.draw(
                registry, client, value, 1000, lambda: coin or Coin(random.Random(7).randbytes)
            )
            for value in pair
            for _ in range(2)
        ]
        return tuple(
            real_reports.Drawn(
                real_reports.describe(metric, pair, two[0] + two[1]),
                None,
                tuple(tuple(each[0] for each in part) for part in two),
            )
            for two in (parts[:2], parts[2:])
        )

    monkeypatch.setattr(real_reports, "collect", collect)
    path = tmp_path / "metrics.toml"
    path.write_text(REGISTRY[: REGISTRY.index("[metrics.home_page]")])
    assert main(["audit", str(path), "--empirical"]) == 1
    shown = capsys.readouterr().out
    assert "BROKEN" in shown
    assert fault == "truth" or "two devices sent the same row of responses" in shown


@pytest.mark.parametrize(
    ("often", "verdict"),
    [((0, 1, 2), "consistent"), ((0, 1, 1, 1, 1, 2, 2, 2, 2), "BROKEN")],
    ids=["whatever the value", "by the value"],
)
def test_a_client_whose_cohort_depends_on_the_value_is_exit_status_1(
    tmp_path: Path, capsys: Any, monkeypatch: Any, often: tuple[int, ...], verdict: str
):
    """Of a tree the cohort is the level. Its reports look right at every level by themselves."""
    text = REGISTRY[: REGISTRY.index("[metrics.home_page]")].replace(
        '"category"', '"ordinal"\nmechanism = { name = "hierarchical_histogram", branching = 2 }'
    )
    text = text.replace('catch_all = "other"', 'missing = "other"')
    text = text.replace('"dark", "other"', '"dark", "dim", "grey", "other"')

    def collect(registry: Registry, metric: Metric, reports: int, processes: int) -> Any:
        sides, pair = [], real_reports.hardest_pair(metric)
        for value, levels in zip(pair, ((0, 1, 2), often), strict=True):
            monkeypatch.setattr(
                "client_sdk.recorder.cohort_of_report",
                lambda secret, metric, coin, levels=levels: levels[coin.uniform(len(levels))],
            )
            parts = [real_reports.draw(registry, metric, value, 1000) for _ in range(2)]
            sides.append(
                real_reports.Drawn(
                    real_reports.describe(metric, pair, parts[0] + parts[1]),
                    None,
                    tuple(tuple(each[0] for each in part) for part in parts),
                )
            )
        return tuple(sides)

    monkeypatch.setattr(real_reports, "collect", collect)
    path = tmp_path / "metrics.toml"
    path.write_text(text)
    status = main(["audit", str(path), "--empirical", "--confidence", str(SURE), "--json"])
    (entry,) = json.loads(capsys.readouterr().out)
    found = {each["figure"]: each["verdict"] for each in entry["empirical"]["bounds"]}
    assert found == {"one report": "consistent", "cohort alone": verdict}
    assert status == (verdict == "BROKEN")


@pytest.mark.parametrize("wrong", [["--reports", "39"], ["--confidence", "1"]])
def test_the_command_refuses_numbers_that_prove_nothing(tmp_path, capsys, wrong):
    path = tmp_path / "metrics.toml"
    path.write_text(REGISTRY)
    assert main(["audit", str(path), "--empirical", *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err


def test_rappor_bits_of_one_report_stay_below_epsilon():
    mechanism = Rappor(16, 2, 1, f="0.5", p="0.25", q="0.75")
    strings = [f"value {i}" for i in range(40)]
    one = strings[0]
    other = next(
        s for s in strings if not set(mechanism.cells_for(s, 0)) & set(mechanism.cells_for(one, 0))
    )
    coin = Coin()

    def draw(value: str) -> Callable[[int], Rows]:
        return one_by_one(
            lambda: bits_of(mechanism.instantaneous(mechanism.permanent(value, 0, coin), coin), 16)
        )

    found = lower_bound(draw(one), draw(other), 20_000, SURE)
    assert 0.6 * float(mechanism.epsilon) < found.epsilon <= float(mechanism.epsilon)
