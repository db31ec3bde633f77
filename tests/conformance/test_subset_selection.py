"""Subset selection: exact laws of drawn parameters, golden values, and sets that tell no order."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.audit import audit, law
from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms import SubsetSelection, build
from client_sdk.randomness import ONE, Coin
from estimator import uncertainty
from estimator.debias import Channel

GOLDEN = json.loads(Path(__file__).with_name("golden_matrix.json").read_text())["subset_selection"]
EPSILONS = ["0.01", "0.1", "0.5", "1", "2.5", "7", "20", "40"]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_drawn_parameters_have_the_channel_and_the_loss_that_they_state(
    data: st.DataObject,
) -> None:
    domain = data.draw(st.integers(2, 6))
    size = data.draw(st.integers(1, domain - 1))
    keep = data.draw(st.integers(ONE * size // domain + 1, ONE - 1))
    mechanism = SubsetSelection(domain, size, keep)
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst == mechanism.epsilon


@pytest.mark.parametrize(("domain", "size"), [(2, 1), (5, 2), (6, 3), (6, 5)])
def test_every_set_has_the_probability_of_the_definition(domain: int, size: int) -> None:
    mechanism = SubsetSelection.from_epsilon(domain, 1, size)
    keep = mechanism.p_true
    for value in range(domain):
        outcomes, _ = law(partial(mechanism.instantaneous, 1 << value))
        assert outcomes == {
            sum(1 << member for member in members): (
                keep / math.comb(domain - 1, size - 1)
                if value in members
                else (1 - keep) / math.comb(domain - 1, size)
            )
            for members in combinations(range(domain), size)
        }


@pytest.mark.parametrize("domain", [2, 3, 16, 100, 4096])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_loss_is_at_most_the_asked_one_and_close_to_it(domain: int, epsilon: str) -> None:
    mechanism = SubsetSelection.from_epsilon(domain, epsilon)
    # One step of a threshold moves the loss by 2**-64 / (p (1 - p)).
    step = float(1 / (ONE * mechanism.p_true * (1 - mechanism.p_true)))
    assert 0 <= float(Decimal(epsilon) - mechanism.epsilon) <= 1.01 * step


@pytest.mark.parametrize("domain", [2, 7, 16, 100])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_the_default_size_is_the_best_of_all(domain: int, epsilon: str) -> None:
    best = SubsetSelection.from_epsilon(domain, epsilon).rare_variance
    for size in range(1, domain):
        assert best <= SubsetSelection.from_epsilon(domain, epsilon, size).rare_variance * (
            1 + 1e-9
        )


def test_sets_of_one_are_generalized_randomized_response() -> None:
    one = SubsetSelection.from_epsilon(9, 2, 1)
    other = build("generalized_randomized_response", domain=9, epsilon=2)
    assert (one.p_true, one.p_false, one.epsilon) == (other.p_true, other.p_false, other.epsilon)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["id"])
def test_golden_values_are_met(case: dict) -> None:
    written, n, count = case["params"], case["n"], case["tally_count"]
    mechanism = build("subset_selection", domain=written["d"], epsilon=written["eps"])
    channel, close = Channel.of_values(mechanism), partial(pytest.approx, rel=1e-9, abs=1e-11)
    assert isinstance(mechanism, SubsetSelection)
    assert mechanism.size == written["w"]
    assert float(mechanism.epsilon) == close(case["eps"])
    assert (channel.p_true, channel.p_false) == close((case["p_star"], case["q_star"]))
    assert n * channel.support(case["f"]) == close(case["expected_count"])
    assert uncertainty.variance_reporters(case["f"], n, channel) == close(case["var_fixed"])
    assert uncertainty.variance_population(case["f"], n, channel) == close(case["var_sampling"])
    assert channel.invert(count / n) == close(case["estimate"])
    population = uncertainty.standard_error_population(count, n, channel)
    reporters = uncertainty.standard_error_reporters(count, n, channel)
    assert (population, reporters) == close((case["se_sampling_hat"], case["se_fixed_hat"]))
    for method in ("wald", "wilson", "clopper_pearson"):
        ends = uncertainty.interval(count, n, channel, level=0.95, method=method)
        assert [float(end) for end in ends] == close(case[f"ci95_{method}"])


class Listed(SubsetSelection):
    """Sends the members as a list: a number with one digit, in base `domain`, for each."""

    kind = "cell"

    def __init__(self, domain: int, size: int, keep: int) -> None:
        super().__init__(domain, size, keep)
        self.cells = domain**size

    def permanent(self, value, cohort, coin):
        return 1 << value

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        held = super().instantaneous(permanent, coin)
        members = [member for member in range(self.domain) if held >> member & 1]
        return self.listed(members, permanent.bit_length() - 1)

    def listed(self, members: list[int], value: int) -> int:
        return sum(member * self.domain**place for place, member in enumerate(members))


class TruthFirst(Listed):
    """As multi-freq-ldpy does: the true value is listed first."""

    def listed(self, members: list[int], value: int) -> int:
        return super().listed(sorted(members, key=lambda member: member != value), value)


def test_a_list_that_begins_with_the_truth_is_convicted_and_a_sorted_one_is_not() -> None:
    domain, size, epsilon = 6, 2, 1
    asked = SubsetSelection.from_epsilon(domain, epsilon, size).epsilon
    assert audit(Listed.from_epsilon(domain, epsilon, size)).worst == asked
    found = audit(TruthFirst.from_epsilon(domain, epsilon, size))
    assert found.worst > 1.5 * float(asked)
    assert any("exceeds the stated" in problem for problem in found.problems)


class SkipsADraw(SubsetSelection):
    """Draws the last member only where it is needed."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        if coin.bernoulli(self.keep):
            others = coin.subset(self.size - 1, self.domain - 1)
        else:
            others = coin.subset(self.size, self.domain - 1)
        below = others & (permanent - 1)
        kept = permanent if others.bit_count() < self.size else 0
        return below | kept | (others ^ below) << 1


def test_work_does_not_depend_on_whether_the_value_is_kept() -> None:
    """The same draws are made, of the same sizes, whatever the first one says."""

    class Noted(Coin):
        def __init__(self, keep: bool) -> None:
            super().__init__()
            self.keep = keep
            self.draws: list[tuple[int, ...]] = []

        def bernoulli(self, threshold: int) -> bool:
            return self.keep

        def uniform(self, bound: int) -> int:
            self.draws.append((bound,))
            return 0

    def draws(mechanism: SubsetSelection) -> list[list[tuple[int, ...]]]:
        made = [Noted(True), Noted(False)]
        for coin in made:
            mechanism.instantaneous(1, coin)
        return [coin.draws for coin in made]

    kept, left = draws(SubsetSelection.from_epsilon(9, "0.5", 4))
    assert kept == left
    kept, left = draws(SkipsADraw.from_epsilon(9, "0.5", 4))
    assert kept != left


@pytest.mark.parametrize("size", [0, 5, -1, "2", 1.5, True])
def test_a_size_that_is_none_is_refused_by_its_name(size: object) -> None:
    with pytest.raises(OptionError, match=r"size must be an integer in 1\.\.4"):
        build("subset_selection", domain=5, epsilon=1, size=size)


def test_unknown_options_and_useless_channels_are_refused() -> None:
    with pytest.raises(OptionError, match="sizes is not a known key"):
        build("subset_selection", domain=5, epsilon=1, sizes=2)
    with pytest.raises(ParameterError, match="epsilon must be positive"):
        build("subset_selection", domain=5, epsilon=0)
    with pytest.raises(ParameterError, match="p_true must lie between"):
        SubsetSelection(5, 2, ONE * 2 // 5)  # trap 25: p = q tells nothing
    with pytest.raises(ParameterError, match="size must lie in"):
        SubsetSelection(5, 5, ONE - 1)
    with pytest.raises(ParameterError, match="at least 2 values"):
        build("subset_selection", domain=1, epsilon=1)


def test_the_loss_is_that_of_its_thresholds() -> None:
    """A set is so many times likelier for a member: p (d - w) / ((1 - p) w)."""
    mechanism = SubsetSelection(5, 2, ONE // 2)
    assert mechanism.epsilon == audit(mechanism).worst
    assert float(mechanism.epsilon) == pytest.approx(math.log(1.5), abs=1e-15)
    assert mechanism.p_false == Fraction(1, 2) * Fraction(3, 4)
