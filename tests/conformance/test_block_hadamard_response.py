"""Hadamard response in blocks: exact laws of drawn parameters, and the matrix it stands on."""

import json
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from client_sdk.audit import audit, law
from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms import BlockHadamardResponse, build
from client_sdk.randomness import ONE, Coin
from estimator.inversion.blocks import block_estimate, variance_reporters
from estimator.inversion.scores import channel_rows

GOLDEN = json.loads(Path(__file__).with_name("golden_matrix.json").read_text())["hadamard_block"]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_drawn_parameters_have_the_channel_and_the_loss_that_they_state(
    data: st.DataObject,
) -> None:
    domain = data.draw(st.integers(2, 20))
    blocks = 1 << data.draw(st.integers(0, domain.bit_length() - 1))
    keep = data.draw(st.integers(ONE // (2 * blocks) + 1, ONE - 1))
    mechanism = BlockHadamardResponse(domain, blocks, keep)
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst == mechanism.epsilon


@pytest.mark.parametrize(("domain", "blocks"), [(2, 1), (7, 1), (8, 1), (12, 4), (13, 4), (100, 8)])
def test_own_cells_are_where_a_row_of_the_sylvester_matrix_is_one(domain: int, blocks: int) -> None:
    mechanism = BlockHadamardResponse.from_epsilon(domain, 1, blocks)
    matrix = hadamard(mechanism.size)
    rows = set()
    for value in range(domain):
        block, row = value % blocks, 1 + value // blocks
        own = np.flatnonzero(matrix[row] == 1) + block * mechanism.size
        assert mechanism.cells_for(value, 0) == tuple(own)
        rows.add((block, row))
    assert len(rows) == domain


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["id"])
def test_golden_values_are_met(case: dict) -> None:
    domain = case["B"] * (case["b"] - 1)
    mechanism = BlockHadamardResponse.from_epsilon(domain, case["eps"], case["B"])
    assert mechanism.size == case["b"]
    assert float(mechanism.scale) == pytest.approx(case["scale"], rel=1e-9)
    # Value 0 and the two others of its block, values 4 and 8, have the block's mass.
    shares = np.zeros(domain)
    shares[[0, 4, 1]] = case["f"], case["block_mass"] - case["f"], 1 - case["block_mass"]
    found = variance_reporters(shares, mechanism)[0] / case["n"]
    assert found == pytest.approx(case["var_fixed"], rel=1e-9)


@pytest.mark.parametrize("domain", [2, 3, 16, 100, 4096])
@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "2.5", "7", "20", "40"])
def test_the_loss_is_at_most_the_asked_one_and_close_to_it(domain: int, epsilon: str) -> None:
    mechanism = BlockHadamardResponse.from_epsilon(domain, epsilon)
    kept = Fraction(mechanism.keep, ONE)
    step = float(1 / (ONE * kept * (1 - kept)))
    assert 0 <= float(Decimal(epsilon) - mechanism.epsilon) <= 1.01 * step
    assert mechanism.cells <= 65_536


def test_one_block_is_the_one_bit_response_and_many_serve_a_large_epsilon() -> None:
    small = BlockHadamardResponse.from_epsilon(100, 1)
    large = BlockHadamardResponse.from_epsilon(100, 4)
    assert (small.blocks, small.cells) == (1, 128)
    power = float(np.e)
    assert small.rare_variance == pytest.approx(((power + 1) / (power - 1)) ** 2)
    assert large.blocks == 32
    one = BlockHadamardResponse.from_epsilon(100, 4, 1)
    assert large.rare_variance < one.rare_variance / 4


@pytest.mark.parametrize("blocks", [1, 2, 4, 8])
def test_a_domain_that_fills_no_power_of_two_is_padded(blocks: int) -> None:
    """Trap 25: pure-LDP raises IndexError for 100 values. Here every value has a row of its own."""
    mechanism = BlockHadamardResponse.from_epsilon(11, 2, blocks)
    expected = channel_rows(mechanism) * 1e6
    found = block_estimate(expected, mechanism, np.full(11, 1e6))
    assert found.shares == pytest.approx(np.eye(11), abs=1e-9)


class OwnHalfOnly(BlockHadamardResponse):
    """Never sends a cell of the block's other half."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        response = super().instantaneous(permanent, coin)
        own = self.cells_for(permanent, 0)
        same = response // self.size == own[0] // self.size
        return own[0] if same and response not in own else response


def test_a_half_that_is_never_sent_is_convicted() -> None:
    found = audit(OwnHalfOnly.from_epsilon(6, 1, 2))
    assert found.worst == Decimal("Infinity")
    assert not found.sound


def test_a_value_that_is_none_is_refused_and_not_counted_as_another() -> None:
    """Trap 18. Value 12 of 12 would have a row, since a block of 4 has one to spare."""
    mechanism = BlockHadamardResponse.from_epsilon(11, 1, 4)
    for value in (-1, 11):
        with pytest.raises(ParameterError, match=r"value must be an index in 0\.\.10"):
            mechanism.permanent(value, 0, Coin())
        with pytest.raises(ParameterError, match="value must be an index"):
            mechanism.cells_for(value, 0)


def test_all_draws_are_made_whatever_the_first_one_says() -> None:
    mechanism = BlockHadamardResponse.from_epsilon(12, 1, 4)
    _, branches = law(partial(mechanism.instantaneous, 5))
    assert branches == 2 * 7 * 2  # kept or not, one of 7 other halves, one of 2 places


@pytest.mark.parametrize("blocks", [0, 3, 16, "2", True])
def test_blocks_that_are_none_are_refused_by_name(blocks: object) -> None:
    with pytest.raises(OptionError, match="blocks must be"):
        build("block_hadamard_response", domain=12, epsilon=1, blocks=blocks)


def test_unknown_options_and_useless_channels_are_refused() -> None:
    with pytest.raises(OptionError, match="block is not a known key"):
        build("block_hadamard_response", domain=12, epsilon=1, block=4)
    with pytest.raises(ParameterError, match="above chance"):
        BlockHadamardResponse(12, 4, ONE // 8)
