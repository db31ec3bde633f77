"""Local hashing and Hadamard response: drawn parameters, rounding, what a device may be given."""

from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk import loads
from client_sdk.audit import audit
from client_sdk.errors import OptionError, ParameterError, RegistryError
from client_sdk.mechanisms import (
    BinaryLocalHashing,
    HadamardResponse,
    LocalHashing,
    Mechanism,
    OptimizedLocalHashing,
    build,
)
from client_sdk.mechanisms.base import MOST_CELLS
from client_sdk.mechanisms.linear_hashing import LinearHashing, admissible
from client_sdk.mechanisms.local_hashing import best_cells
from client_sdk.randomness import ONE, Coin
from tests.registries import registry, theme

NAMES = ["optimized_local_hashing", "binary_local_hashing", "hadamard_response"]
EPSILONS = st.decimals("0.01", "20", allow_nan=False, places=4)


def supports_by_value(mechanism: Mechanism, truth: int) -> list[Fraction]:
    """The probability that a report speaks for each value, summed over the stated channel."""
    channel = mechanism.channel(truth, 0)
    domain = range(mechanism.domain or 0)
    return [sum((channel[c] for c in mechanism.cells_for(v, 0)), Fraction(0)) for v in domain]


def check(mechanism: Mechanism, asked: Decimal) -> None:
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst == mechanism.epsilon <= asked
    for truth in mechanism.sample(3):
        for value, chance in enumerate(supports_by_value(mechanism, int(truth))):
            stated = mechanism.support_true if value == truth else mechanism.support_false
            assert chance == stated


@settings(max_examples=25, deadline=None)
@given(
    domain=st.integers(2, 20),
    size=st.sampled_from([size for size in range(2, 14) if admissible(size)]),
    epsilon=EPSILONS,
)
def test_local_hashing_of_any_shape_is_what_it_states(domain, size, epsilon):
    check(OptimizedLocalHashing.from_epsilon(domain, epsilon, size), epsilon)


@settings(max_examples=15, deadline=None)
@given(domain=st.integers(2, 33), epsilon=EPSILONS)
def test_binary_hashing_and_hadamard_of_any_size_are_what_they_state(domain, epsilon):
    check(BinaryLocalHashing.from_epsilon(domain, epsilon, 2), epsilon)
    check(HadamardResponse.from_epsilon(domain, epsilon), epsilon)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(domain=st.integers(2, 5000), epsilon=EPSILONS)
def test_the_loss_is_never_above_what_is_asked_and_hardly_below(name, domain, epsilon):
    mechanism = build(name, domain=domain, epsilon=epsilon)
    # Of all probabilities the smallest is that of one other cell; a threshold is off by 2**-64.
    p = mechanism.support_true
    step = 1 / (p * ONE) + 1 / ((1 - p) * ONE)
    assert 0 <= epsilon - mechanism.epsilon <= 2 * Decimal(float(step))
    assert mechanism.support_false < mechanism.support_true


def test_two_values_share_support_in_exactly_one_column_of_two():
    mechanism = HadamardResponse.from_epsilon(100, 1)
    assert mechanism.columns == 128  # a length that is no power of two is padded
    own = [set(mechanism.cells_for(value, 0)) for value in range(100)]
    assert {len(one & other) for one, other in combinations(own, 2)} == {64}


@pytest.mark.parametrize(("domain", "columns"), [(2, 4), (3, 4), (4, 8), (7, 8), (8, 16)])
def test_there_is_a_row_for_each_value_beside_the_constant_one(domain, columns):
    assert HadamardResponse.from_epsilon(domain, 1).columns == columns


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [-1, 5, 6, 10**9])
def test_an_index_out_of_range_is_an_error_and_no_other_value(name, value):
    mechanism = build(name, domain=5, epsilon=1)
    for use in (
        lambda: mechanism.permanent(value, 0, Coin()),
        lambda: mechanism.cells_for(value, 0),
    ):
        with pytest.raises(ParameterError, match=r"value must be an index in 0\.\.4$"):
            use()


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_of_a_report_says_nothing_about_the_value(name):
    mechanism = build(name, domain=9, epsilon=2)
    each = mechanism.cells // mechanism.even_parts
    for value in range(9):
        channel = mechanism.channel(value, 0)
        parts = {sum(channel[at : at + each]) for at in range(0, mechanism.cells, each)}
        assert parts == {Fraction(1, mechanism.even_parts)}


@pytest.mark.parametrize("name", NAMES)
def test_every_draw_is_made_whatever_the_others_said(name):
    """The bytes that a report takes depend on the random words alone."""
    mechanism = build(name, domain=64, epsilon=1)
    taken = set()
    for byte in (0x00, 0x55, 0xFE):
        sizes: list[int] = []

        def source(count: int, byte: int = byte, sizes: list[int] = sizes) -> bytes:
            sizes.append(count)
            return bytes([byte]) * count

        for value in (0, 1, 63):
            sizes.clear()
            mechanism.instantaneous(value, Coin(source))
            taken.add(tuple(sizes))
    assert len(taken) == 1


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "2", "4", "8", "20"])
@pytest.mark.parametrize("domain", [2, 3, 10, 100, 4096])
def test_the_default_number_of_cells_has_least_variance(domain, epsilon):
    chosen = build("optimized_local_hashing", domain=domain, epsilon=epsilon)
    assert isinstance(chosen, LocalHashing) and chosen.cells <= MOST_CELLS
    for size in filter(admissible, range(2, 400)):
        if LinearHashing(domain, size).seeds * size <= MOST_CELLS:
            other = OptimizedLocalHashing.from_epsilon(domain, epsilon, size)
            assert chosen.rare_variance <= other.rare_variance * (1 + 1e-12)


def test_the_default_is_near_e_to_the_epsilon_plus_one_while_it_hashes():
    # Wang et al. 2017, section 4.4: 3.7, 8.4 and 21.1 for epsilon 1, 2 and 3.
    assert [best_cells(4096, epsilon) for epsilon in (1, 2, 3)] == [4, 8, 23]


def test_binary_hashing_has_the_variance_of_hadamard_and_optimized_less():
    """Reference 0.5, whose figures are those of endlessly many values."""
    variance = {n: build(n, domain=1000, epsilon=2).rare_variance for n in NAMES}
    assert variance["binary_local_hashing"] == pytest.approx(1.7240617, rel=0.01)
    assert variance["hadamard_response"] == pytest.approx(1.7240617, rel=1e-6)
    assert variance["optimized_local_hashing"] == pytest.approx(0.7240617, rel=0.01)


@pytest.mark.parametrize(
    ("options", "option", "rule"),
    [
        ({"cells": 6}, "cells", "must be a prime or a power of two, as 7 is"),
        ({"cells": 9}, "cells", "must be a prime or a power of two, as 11 is"),
        ({"cells": 1}, "cells", r"must be an integer in 2\.\.65536"),
        ({"cells": 257}, "cells", "must need at most 65536 counters for 500 values, as 4 does"),
        ({"buckets": 4}, "buckets", "is not a known key"),
    ],
)
def test_options_that_cannot_be_are_refused_with_what_can(options, option, rule):
    with pytest.raises(OptionError, match=rule) as refused:
        build("optimized_local_hashing", domain=500, epsilon=1, **options)
    assert refused.value.option == option


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0, -1, 41, float("nan"), float("inf")])
def test_an_epsilon_that_is_none_is_refused(name, epsilon):
    with pytest.raises(ParameterError):
        build(name, domain=10, epsilon=epsilon)


@pytest.mark.parametrize("name", NAMES)
def test_domains_that_do_not_fit_the_wire_are_refused_with_advice(name):
    with pytest.raises(ParameterError, match="declare fewer values, or strings"):
        build(name, domain=70_000, epsilon=1)
    with pytest.raises(ParameterError, match="domain must have at least 2 values, got domain=1"):
        build(name, domain=1, epsilon=1)


@pytest.mark.parametrize("keep", [0, ONE // 4, ONE])
def test_a_law_that_says_nothing_or_everything_is_refused(keep):
    with pytest.raises(ParameterError, match="p_true must lie between"):
        OptimizedLocalHashing(10, 4, keep)
    with pytest.raises(ParameterError, match="p_true must lie between"):
        HadamardResponse(10, keep)


def test_another_number_of_cells_is_another_version_of_the_metric():
    """Client and server cannot disagree about parameters without noticing: trap 16."""
    values = [f"v{number}" for number in range(99)] + ["other"]
    text = registry(theme(*values, mechanism="@"))
    prints = []
    for cells in ("", ", cells = 2", ", cells = 4", ", cells = 5"):
        written = f'{{ name = "optimized_local_hashing"{cells} }}'
        prints.append(loads(text.replace('"@"', written)).metrics["theme"].fingerprint)
    assert prints[0] == prints[2]  # 4 is the default for so many and epsilon 1
    assert len(set(prints)) == 3


def test_a_wrong_option_of_a_file_is_named_by_its_key():
    text = registry(theme(*(f"v{number}" for number in range(20)), "other", mechanism="@"))
    written = '{ name = "optimized_local_hashing", cells = 6 }'
    with pytest.raises(RegistryError, match=r"theme\.mechanism\.cells: must be a prime"):
        loads(text.replace('"@"', written))
