"""From epsilon to integers and back, never above what was configured."""

from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_sdk.errors import ParameterError
from client_sdk.mechanisms import (
    GeneralizedRandomizedResponse,
    OptimizedUnary,
    RandomizedResponse,
    Rappor,
    SymmetricUnary,
    build,
    choose,
)
from client_sdk.mechanisms.thresholds import (
    budget_micro,
    ceil_threshold,
    checked_epsilon,
    exact,
    exponential,
    floor_threshold,
    log_ratio,
    logistic,
    micro,
    part,
)
from client_sdk.randomness import ONE

# The 64-bit "safe" cases of golden.json, section thresholds (two coins included).
GOLDEN_BIT = [
    pytest.param("0.5", 11482347978973021681, 6964396094736529935, id="thr-warner-0.5-64-safe"),
    pytest.param("1", 13485650502877570762, 4961093570831980854, id="thr-warner-1-64-safe"),
    pytest.param("2", 16247838278329192790, 2198905795380358826, id="thr-warner-2-64-safe"),
    pytest.param("4", 18114957061682843468, 331787012026708148, id="thr-warner-4-64-safe"),
]
GOLDEN_UNARY = [
    pytest.param("1", 9223372036854775808, 4961093570831980854, id="thr-oue-1-64-safe"),
    pytest.param("2", 9223372036854775808, 2198905795380358826, id="thr-oue-2-64-safe"),
]

epsilons = st.decimals(Decimal("0.001"), Decimal(20), places=4)
domains = st.integers(2, 4096)


@pytest.mark.parametrize(("epsilon", "yes", "no"), GOLDEN_BIT)
def test_warner_thresholds_are_the_golden_ones(epsilon: str, yes: int, no: int) -> None:
    mechanism = RandomizedResponse.from_epsilon(epsilon)
    assert (mechanism.yes_if_yes, mechanism.yes_if_no) == (yes, no)


@pytest.mark.parametrize(("epsilon", "one", "zero"), GOLDEN_UNARY)
def test_optimized_unary_thresholds_are_the_golden_ones(epsilon: str, one: int, zero: int) -> None:
    mechanism = OptimizedUnary.from_epsilon(2, epsilon)
    assert (mechanism.one_if_one, mechanism.one_if_zero) == (one, zero)


def test_generalized_thresholds_are_the_golden_ones() -> None:
    # golden.json thr-grr-2-d100-64-safe
    mechanism = GeneralizedRandomizedResponse.from_epsilon(100, 2)
    assert mechanism.keep == 1281184661291739996
    assert 0 < Decimal(2) - mechanism.epsilon < Decimal("3.1e-19")


def test_two_fair_coins_lose_the_logarithm_of_three() -> None:
    # golden.json thr-two-coin-64; the common mistakes are ln 2 and ln 4.
    mechanism = RandomizedResponse.from_probabilities(0.75, 0.25)
    assert (mechanism.yes_if_yes, mechanism.yes_if_no) == (13835058055282163712, ONE // 4)
    assert mechanism.epsilon == log_ratio(Fraction(3), Fraction(1))
    assert float(mechanism.epsilon) == pytest.approx(1.0986122886681098, abs=1e-15)


@pytest.mark.parametrize(
    ("k", "flip"),
    [(165, 0.000136352115), (969, 0.000804272425), (2925, 0.002425492657)],
)
def test_generalized_flip_rates_follow_the_domain(k: int, flip: float) -> None:
    # Case C03 (WICG/attribution-reporting-api#734): epsilon 14, flip-to-other parameterisation;
    # its middle figure (0.000804274225) has two digits swapped: 968 / (968 + e^14) is this.
    mechanism = GeneralizedRandomizedResponse.from_epsilon(k, 14)
    assert float(1 - mechanism.p_true) == pytest.approx(flip, abs=1e-12)
    # The redraw-from-all rate of the same channel is (k / (k - 1)) times that.
    redraw = (1 - mechanism.p_true) * k / (k - 1)
    assert mechanism.p_false == redraw / k


@given(epsilons, domains)
def test_the_stated_loss_never_exceeds_the_configured_one(epsilon: Decimal, domain: int) -> None:
    for mechanism in (
        RandomizedResponse.from_epsilon(epsilon),
        GeneralizedRandomizedResponse.from_epsilon(domain, epsilon),
        SymmetricUnary.from_epsilon(domain, epsilon),
        OptimizedUnary.from_epsilon(domain, epsilon),
    ):
        assert Decimal("-1e-9") < mechanism.epsilon - epsilon <= 0
        assert micro(mechanism.epsilon) <= micro(epsilon)


@given(
    st.integers(1, 200),
    st.integers(1, 4),
    st.decimals(Decimal("0.05"), Decimal(6), places=3),
    st.decimals(Decimal("0.1"), Decimal(6), places=3),
)
def test_solved_rappor_parameters_never_exceed_either_loss(
    bits: int, hashes: int, epsilon: Decimal, more: Decimal
) -> None:
    mechanism = Rappor.from_epsilons(
        bits, min(hashes, bits), 1, epsilon=epsilon, epsilon_permanent=epsilon + more
    )
    assert Decimal("-1e-9") < mechanism.epsilon - epsilon <= 0
    assert mechanism.epsilon_permanent is not None
    assert Decimal("-1e-9") < mechanism.epsilon_permanent - epsilon - more <= 0
    assert mechanism.p_true > mechanism.p_false


@given(epsilons, st.integers(1, 60))
def test_the_hosts_decimal_context_shapes_nothing(epsilon: Decimal, precision: int) -> None:
    plain = build("symmetric_unary", domain=9, epsilon=epsilon)
    rappor = Rappor.from_epsilons(16, 3, 4, epsilon=epsilon, epsilon_permanent=2 * epsilon)
    with localcontext(Context(prec=precision)):
        assert build("symmetric_unary", domain=9, epsilon=epsilon).epsilon == plain.epsilon
        again = Rappor.from_epsilons(
            16, 3, 4, epsilon=epsilon, epsilon_permanent=exact(2 * Fraction(epsilon))
        )
        assert again.parameters() == rappor.parameters()
        assert micro(plain.epsilon) == micro(epsilon)


def test_the_hosts_decimal_context_chooses_no_mechanism_and_stops_none() -> None:
    # Four times e^2.08 is 32.02, three times e^4 are 163.8: a digit less is the other side.
    shaped = (
        ("piecewise", {"epsilon": Decimal("4.16")}),
        ("exponential", {"domain": 5, "epsilon": Decimal("0.7")}),
    )
    plain = [build(name, **fields).parameters() for name, fields in shaped]
    for context in (Context(prec=1), Context(prec=2), Context(prec=9, traps=[Inexact])):
        with localcontext(context):
            assert choose(160, Decimal(4)) == "generalized_randomized_response"
            assert [build(name, **fields).parameters() for name, fields in shaped] == plain


def test_a_charge_is_rounded_up_to_a_millionth() -> None:
    assert micro(Decimal("0.1")) == 100_000
    assert micro(Decimal("0.1000001")) == 100_001
    assert micro(Decimal("1e-30")) == 1
    assert micro(Decimal("1") - Decimal("4e-20")) == 1_000_000
    assert micro(Decimal("1.0000000000000000000000000000000000000000001")) == 1_000_001
    assert micro(Decimal("1.1"), 3) == 3_300_000


def test_a_cap_is_rounded_down_to_a_millionth() -> None:
    assert budget_micro(Decimal("0.3")) == 300_000
    assert budget_micro(Decimal("0.9999999")) == 999_999
    assert budget_micro(Decimal("23.99999999999999999999999999999999999999")) == 23_999_999


@given(st.fractions(0, 1))
def test_floor_and_ceiling_enclose_a_probability(probability: Fraction) -> None:
    low, high = floor_threshold(probability), ceil_threshold(probability)
    assert Fraction(low, ONE) <= probability <= Fraction(high, ONE)
    assert high - low <= 1


@pytest.mark.parametrize("epsilon", [0, -1, "-0.5", "1e-400", 41, 1e9])
def test_an_epsilon_that_protects_nobody_or_everybody_is_refused(epsilon: object) -> None:
    with pytest.raises(ParameterError):
        RandomizedResponse.from_epsilon(epsilon)  # an endless number of reports would be needed


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), Decimal("Infinity")])
def test_an_epsilon_that_is_no_number_is_refused(epsilon: float | Decimal) -> None:
    with pytest.raises(ParameterError, match="need a finite number"):
        checked_epsilon(epsilon)


def test_a_float_means_what_it_prints() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert (
        RandomizedResponse.from_epsilon(0.1).parameters()
        == RandomizedResponse.from_epsilon("0.1").parameters()
    )


def test_powers_are_computed_to_sixty_digits() -> None:
    # e to 50 places, OEIS A001113.
    assert abs(
        exponential(Decimal(1)) - Decimal("2.71828182845904523536028747135266249775724709369995")
    ) < Decimal("1e-50")
    with localcontext(Context(prec=80)):
        assert abs(logistic(Decimal(3)) + logistic(Decimal(-3)) - 1) < Decimal("1e-58")
        assert abs(part(Decimal(1), 3) * 3 - 1) < Decimal("1e-58")


@pytest.mark.parametrize(("epsilon", "largest_grr"), [("0.5", 6), ("1", 10), ("2", 24), ("4", 165)])
def test_generalized_response_is_chosen_up_to_the_crossover(epsilon: str, largest_grr: int) -> None:
    # MECHANISMS.md section 0.5: d = 6, 10, 24, 165 at eps = 0.5, 1, 2, 4.
    assert choose(largest_grr, Decimal(epsilon)) == "generalized_randomized_response"
    assert choose(largest_grr + 1, Decimal(epsilon)) == "optimized_unary"
    assert choose(2, Decimal(epsilon)) == "randomized_response"


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("warner", {"domain": 2, "epsilon": 1}, "mechanism must be one of"),
        ("rappor", {"domain": 2, "epsilon": 1}, "is for strings"),
        ("randomized_response", {"domain": 3, "epsilon": 1}, "exactly two values, got 3"),
        ("symmetric_unary", {"domain": 1, "epsilon": 1}, "at least 2 values, got domain=1"),
        ("symmetric_unary", {"domain": 3}, "give either epsilon or both"),
        ("symmetric_unary", {"domain": 3, "p_true": 0.7}, "give either epsilon or both"),
        ("symmetric_unary", {"domain": 3, "epsilon": 1, "p_true": 0.7}, "give either epsilon"),
        ("symmetric_unary", {"domain": 3, "p_true": 0.2, "p_false": 0.7}, "p_false < p_true"),
        ("symmetric_unary", {"domain": 3, "p_true": 1, "p_false": 0.5}, "p_false < p_true < 1"),
        ("symmetric_unary", {"domain": 3, "p_true": 0.5, "p_false": 0}, "0 < p_false"),
        ("optimized_unary", {"domain": 3, "p_true": 1.5, "p_false": 0.1}, r"lie in \[0, 1\]"),
        ("randomized_response", {"domain": 2, "p_true": 0.5, "p_false": 0.5}, "must differ"),
        (
            "generalized_randomized_response",
            {"domain": 4, "p_true": 0.7, "p_false": 0.2},
            r"p_false must be \(1 - p_true\)/\(domain - 1\) = 0\.1, got p_false=0\.2",
        ),
        (
            "generalized_randomized_response",
            {"domain": 4, "p_true": 0.25, "p_false": 0.25},
            "between 1/domain",
        ),
    ],
)
def test_parameters_that_make_no_private_channel_are_refused(
    name: str, arguments: dict[str, float], complaint: str
) -> None:
    with pytest.raises(ParameterError, match=complaint):
        build(name, **arguments)
