"""Numbers of a range: exact channels at drawn parameters, published figures, and known traps."""

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.audit import audit, law
from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms import (
    POSITIONS,
    DiscreteLaplace,
    Mechanism,
    NumberGrid,
    OneBitMean,
    Piecewise,
    build,
)
from client_sdk.mechanisms.piecewise import default_steps
from client_sdk.mechanisms.thresholds import log_ratio
from client_sdk.randomness import ONE, Coin
from client_sdk.report import Report, report_to_json

GOLDEN: dict[str, dict[str, Any]] = {
    entry["id"]: entry
    for entry in json.loads((Path(__file__).parent / "golden_numbers.json").read_text())["numeric"]
}

epsilons = st.decimals("0.01", "20", places=3)
NAMES = ["one_bit_mean", "piecewise", "discrete_laplace"]


def golden(family: str) -> list[Any]:
    return [pytest.param(e, id=i) for i, e in GOLDEN.items() if i.rpartition("-")[0] == family]


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(epsilons)
def test_one_bit_at_any_epsilon_is_sound(epsilon: Decimal) -> None:
    mechanism = OneBitMean.from_epsilon(epsilon)
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst == mechanism.epsilon <= epsilon
    assert mechanism.epsilon > epsilon * Decimal("0.99")


@settings(max_examples=15, deadline=None)
@given(epsilons, st.integers(1, 6))
def test_piecewise_of_any_size_is_sound(epsilon: Decimal, steps: int) -> None:
    mechanism = Piecewise.from_epsilon(epsilon, steps)
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst == mechanism.epsilon <= epsilon
    assert mechanism.epsilon > epsilon * Decimal("0.99")


@settings(max_examples=15, deadline=None)
@given(epsilons, st.integers(1, 24))
def test_discrete_laplace_of_any_size_is_sound(epsilon: Decimal, steps: int) -> None:
    mechanism = DiscreteLaplace.from_epsilon(epsilon, steps)
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst == mechanism.epsilon <= epsilon
    assert mechanism.epsilon > epsilon * Decimal("0.99")


@pytest.mark.parametrize("steps", [2, 8, 64, 128])
@pytest.mark.parametrize("exponent", range(-18, -4))
def test_a_loss_that_rounding_would_exceed_is_refused_and_never_understated(
    steps: int, exponent: int
) -> None:
    # Eight steps at 1e-15 once stated 1e-15, and their 64-bit thresholds lost 0.0043.
    epsilon = Decimal(1).scaleb(exponent)
    try:
        mechanism = DiscreteLaplace.from_epsilon(epsilon, steps)
    except ParameterError:
        assert exponent < -5
        return
    laws = [mechanism.law(point) for point in range(steps + 1)]
    worst = max(max(cell) / min(cell) for cell in zip(*laws, strict=True))
    assert log_ratio(worst, Fraction(1)) == mechanism.epsilon <= epsilon


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "3", "8", "20", "40"])
def test_a_name_alone_works_and_never_loses_more_than_asked(name: str, epsilon: str) -> None:
    mechanism = build(name, epsilon=Decimal(epsilon))
    assert Decimal("0.5") * Decimal(epsilon) < mechanism.epsilon <= Decimal(epsilon)
    assert mechanism.cells <= 4096


@given(st.integers(0, POSITIONS))
def test_the_chance_of_the_one_bit_is_exactly_linear_in_the_number(place: int) -> None:
    mechanism = OneBitMean.from_epsilon("0.7")
    (chance,) = mechanism.channel(place, 0)
    p, q = mechanism.p_true, mechanism.p_false
    assert chance == q + (p - q) * Fraction(place, POSITIONS)
    assert p + q == 1


GRIDS: list[NumberGrid] = [
    Piecewise.from_epsilon("0.5", 7),
    Piecewise.from_epsilon(3, 20),
    Piecewise.from_epsilon(9, 4),
    DiscreteLaplace.from_epsilon("0.5", 7),
    DiscreteLaplace.from_epsilon(3, 1),
    DiscreteLaplace.from_epsilon(6, 20),
]


@pytest.mark.parametrize("mechanism", GRIDS, ids=lambda m: f"{m.name}-{m.steps}-{m.epsilon:.1f}")
def test_scores_and_squares_are_unbiased_and_the_noise_is_theirs(mechanism: NumberGrid) -> None:
    scores, squares = mechanism.scores(), mechanism.squares()
    # Exactly so for piecewise; Laplace's integers are rounded at 2**-64.
    off = 0 if isinstance(mechanism, Piecewise) else Fraction(1, 10**13)
    noises = []
    for point in range(mechanism.steps + 1):
        chances = mechanism.law(point)
        mean = sum(p * w for p, w in zip(chances, scores, strict=True))
        square = sum(p * s for p, s in zip(chances, squares, strict=True))
        noise = sum(p * (w - point) ** 2 for p, w in zip(chances, scores, strict=True))
        assert sum(chances) == 1
        assert abs(mean - point) <= off
        assert abs(square - point**2) <= off
        assert abs(noise - mechanism.noise(point)) <= off
        noises.append((mechanism.noise(point), (point - Fraction(mechanism.steps, 2)) ** 2))
    assert min(noises)[0] == mechanism.noise(mechanism.quietest)
    worst = max(noise + spread for noise, spread in noises)
    assert mechanism.rare_variance == close(float(worst) / mechanism.steps**2)


@given(st.integers(0, POSITIONS), st.sampled_from(GRIDS))
def test_rounding_to_the_grid_keeps_the_mean(place: int, mechanism: NumberGrid) -> None:
    points, _ = law(lambda coin: mechanism.permanent(place, 0, coin))
    mean = sum(point * chance for point, chance in points.items())
    assert mean == Fraction(place * mechanism.steps, POSITIONS)
    assert max(points) - min(points) <= 1


def test_the_largest_variance_of_one_bit_is_that_of_numbers_in_the_middle() -> None:
    mechanism = OneBitMean.from_epsilon(1)
    chances = [mechanism.channel(place, 0)[0] for place in range(0, POSITIONS + 1, POSITIONS // 8)]
    gap = mechanism.p_true - mechanism.p_false
    assert mechanism.rare_variance == float(max(c * (1 - c) for c in chances) / gap**2)


@pytest.mark.parametrize("entry", golden("duchi"))
def test_duchi_is_the_one_bit(entry: dict[str, Any]) -> None:
    mechanism = OneBitMean.from_epsilon(entry["eps"])
    gap = float(mechanism.p_true - mechanism.p_false)
    place = round((Fraction(str(entry["x"])) + 1) / 2 * POSITIONS)
    plus = float(mechanism.channel(place, 0)[0])
    assert 1 / gap == close(entry["C"])
    assert plus == close(entry["p_plus"])
    assert 4 * plus * (1 - plus) / gap**2 == close(entry["var"])


@pytest.mark.parametrize("entry", golden("1bitmean"))
def test_one_bit_has_the_published_variance(entry: dict[str, Any]) -> None:
    mechanism = OneBitMean.from_epsilon(entry["eps"])
    gap = float(mechanism.p_true - mechanism.p_false)
    place = round(Fraction(entry["x"]) / Fraction(entry["m"]) * POSITIONS)
    one = float(mechanism.channel(place, 0)[0])
    assert one == close(entry["p_one"])
    assert entry["m"] ** 2 * one * (1 - one) / gap**2 == close(entry["var_per_report"])


@pytest.mark.parametrize("entry", golden("piecewise"))
def test_piecewise_becomes_the_published_one_as_its_steps_grow(entry: dict[str, Any]) -> None:
    steps = 10**11
    mechanism = Piecewise.from_epsilon(entry["eps"], steps)

    def at(cell: int) -> float:
        """The left edge of a cell, in [-1, 1] and beyond."""
        return float(2 * (cell - Fraction(1, 2) - mechanism.offset) / mechanism.slope / steps - 1)

    point = int((Fraction(str(entry["x"])) + 1) / 2 * steps)
    width = float(2 / mechanism.slope / steps)
    assert at(mechanism.cells) == close(entry["C"])
    assert at(point) == close(entry["l"])
    assert at(point + mechanism.window) == close(entry["r"])
    assert float(mechanism.p_true) / width == close(entry["density_in"])
    assert float(mechanism.p_false) / width == close(entry["density_out"])
    assert float(mechanism.noise(point)) * (2 / steps) ** 2 == close(entry["var"])


@pytest.mark.parametrize("entry", golden("discrete-laplace"))
def test_discrete_laplace_is_the_published_one_between_its_ends(entry: dict[str, Any]) -> None:
    asked = DiscreteLaplace.from_epsilon(entry["eps"], entry["sensitivity"])
    assert float(asked.epsilon) == close(entry["eps"])
    # The same decay on a range so long that its ends are never met.
    mechanism = DiscreteLaplace(1000, asked.decay)
    assert float(mechanism.law(500)[500]) == close(entry["p0"])
    assert float(mechanism.noise(500)) == close(entry["var"])


def test_clamping_never_makes_the_estimate_worse() -> None:
    mechanism = DiscreteLaplace.from_epsilon(1, 10)
    a = float(Fraction(mechanism.decay, ONE))
    whole = 2 * a / (1 - a) ** 2
    noises = [float(mechanism.noise(point)) for point in range(11)]
    assert max(noises) < whole
    assert noises[0] < 0.7 * whole


def middle(mechanism: NumberGrid) -> float:
    return float(mechanism.noise(mechanism.steps // 2)) / mechanism.steps**2


def test_which_mechanism_is_best_in_the_middle_is_what_their_files_say() -> None:
    for epsilon, best in (("0.4", "one_bit_mean"), ("0.6", "one_bit_mean"), ("0.7", "piecewise")):
        one_bit = OneBitMean.from_epsilon(epsilon).rare_variance
        piecewise = middle(Piecewise.from_epsilon(epsilon, 512))
        assert (piecewise < one_bit) == (best == "piecewise")
    assert middle(Piecewise.from_epsilon("0.5", 64)) < middle(
        DiscreteLaplace.from_epsilon("0.5", 64)
    )


def test_more_steps_are_taken_where_the_window_would_be_too_narrow() -> None:
    assert [default_steps(epsilon) for epsilon in (1, 4, 5, 8, 40)] == [32, 32, 64, 256, 1024]
    for epsilon in (1, 4, 5, 8):
        assert Piecewise.from_epsilon(epsilon, default_steps(epsilon)).window >= 3


# Traps that other libraries have fallen into, and kinds of them.


@pytest.mark.parametrize("name", NAMES)
def test_no_report_of_a_number_holds_a_float(name: str) -> None:
    mechanism = build(name, epsilon=1)
    response = mechanism.instantaneous(mechanism.permanent(POSITIONS // 3, 0, Coin()), Coin())
    assert type(response) is int
    text = report_to_json(Report("load", "0" * 16, 1, 0, response), mechanism)
    assert "." not in text


@pytest.mark.parametrize("name", NAMES)
def test_each_report_draws_the_same_amount_of_chance_whatever_the_number(name: str) -> None:
    mechanism = build(name, epsilon=1)
    drawn = set()
    for place in (0, 1, POSITIONS // 3, POSITIONS - 1, POSITIONS):
        sizes: list[int] = []

        def source(count: int, sizes: list[int] = sizes) -> bytes:
            sizes.append(count)
            return bytes([len(sizes)] * count)

        coin = Coin(source)
        mechanism.instantaneous(mechanism.permanent(place, 0, coin), coin)
        drawn.add(tuple(sizes))
    assert len(drawn) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0, -1, "nan", "inf", 41])
def test_an_epsilon_that_promises_nothing_is_refused(name: str, epsilon: Any) -> None:
    with pytest.raises(ParameterError, match=r"epsilon|number"):
        build(name, epsilon=epsilon)


@pytest.mark.parametrize("name", NAMES)
def test_an_epsilon_without_any_effect_is_refused_and_not_inverted(name: str) -> None:
    # The channel of equal probabilities has no inverse: opendp's debias(f=1) returned -inf.
    with pytest.raises(ParameterError):
        build(name, epsilon=Decimal("1e-25"))


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("one_bit_mean", "steps", 4),
        ("piecewise", "window", 4),
        ("piecewise", "steps", 0),
        ("piecewise", "steps", 32769),
        ("discrete_laplace", "steps", 1025),
        ("discrete_laplace", "steps", True),
    ],
)
def test_an_option_that_does_not_exist_or_fit_is_named(name: str, option: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        build(name, epsilon=1, **{option: value})
    assert caught.value.option == option


class FloatLaplace(DiscreteLaplace):
    """Clamps after the draw but leaves the point its own tail: a float's rounding, made large."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        drawn = super().instantaneous(permanent, coin)
        return permanent if drawn in (0, self.steps) else drawn


class WindowOfTheOthers(Piecewise):
    """Redraws from all cells, the window among them, under the law of the others'."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        keep = coin.bernoulli(self.keep)
        within, anywhere = coin.uniform(self.window), coin.uniform(self.cells)
        return (permanent + within if keep else anywhere) % self.cells


class RoundsToNearest(Piecewise):
    """Rounds to the grid without chance: the mean of many numbers between points is off."""

    def permanent(self, value: Any, cohort: int, coin: Coin) -> int:
        return round(Fraction(int(value) * self.steps, POSITIONS))


class OneTooFar(OneBitMean):
    def threshold(self, place: int) -> int:
        return super().threshold(place) + (place == POSITIONS)

    def channel(self, value: Any, cohort: int) -> list[Fraction]:
        return [Fraction(super().threshold(int(value)), ONE)]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(FloatLaplace.from_epsilon(1, 8), id="unclamped-tails"),
        pytest.param(WindowOfTheOthers.from_epsilon(1, 8), id="redraw-from-all"),
        pytest.param(RoundsToNearest.from_epsilon(1, 8), id="rounds-to-nearest"),
        pytest.param(OneTooFar.from_epsilon(1), id="one-part-in-2**64"),
    ],
)
def test_a_broken_mechanism_of_numbers_is_reported(broken: Mechanism) -> None:
    assert audit(broken).problems


@pytest.mark.parametrize("steps", [4, 64, 256])
def test_where_rounding_exceeds_a_tiny_epsilon_it_is_refused_and_never_understated(
    steps: int,
) -> None:
    for epsilon in ("1e-9", "1e-8", "1e-6", "1e-4"):
        try:
            mechanism = build("discrete_laplace", epsilon=epsilon, steps=steps)
        except ParameterError as error:
            assert "too small to tell anything" in str(error) and epsilon != "1e-4"
        else:
            found = audit(mechanism)
            assert (found.problems, found.worst) == ([], mechanism.epsilon)
            assert mechanism.epsilon <= Decimal(epsilon)
