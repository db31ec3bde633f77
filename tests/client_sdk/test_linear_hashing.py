"""Linear hash functions: balance by enumeration, the field's laws, what is refused."""

from fractions import Fraction
from itertools import combinations, product

import pytest

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.linear_hashing import (
    LinearHashing,
    admissible,
    admissible_from,
    smallest_irreducible,
)

FIELDS = [2, 3, 4, 5, 7, 8, 11, 13, 16, 32]


def domains(size: int) -> list[int]:
    """One, two and three digits, each at both of its ends, while it can be enumerated."""
    ends = [2, size, size + 1, size**2, size**2 + 1, size**3]
    return [domain for domain in sorted(set(ends)) if 2 <= domain <= 130]


SHAPES = [(size, domain) for size in FIELDS for domain in domains(size)] + [(2, 64), (3, 81)]


@pytest.mark.parametrize(("size", "domain"), SHAPES)
def test_any_two_values_share_a_cell_under_the_same_number_of_seeds(size, domain):
    hashing = LinearHashing(domain, size)
    rows = [[hashing.cell(seed, value) for seed in range(hashing.seeds)] for value in range(domain)]
    for one, other in combinations(rows, 2):
        common = sum(x == y for x, y in zip(one, other, strict=True))
        assert Fraction(common, hashing.seeds) == hashing.collision
    assert {cell for row in rows for cell in row} <= set(range(size))


@pytest.mark.parametrize(("size", "domain"), [*SHAPES, (4, 300), (5, 600)])
def test_the_cells_under_all_seeds_are_those_under_each(size, domain):
    hashing = LinearHashing(domain, size)
    for value in {0, 1, domain // 2, domain - 1}:
        each = [hashing.cell(seed, value) for seed in range(hashing.seeds)]
        assert hashing.cells(value) == each


@pytest.mark.parametrize("size", FIELDS)
def test_a_cell_holds_one_in_size_of_all_digit_vectors_under_every_seed(size):
    hashing = LinearHashing(size**2, size)
    for seed in range(hashing.seeds):
        cells = [hashing.cell(seed, value) for value in range(size**2)]
        assert [cells.count(cell) for cell in range(size)] == [size] * size


def test_seeds_are_different_functions():
    hashing = LinearHashing(64, 4)
    tables = {tuple(hashing.cell(s, v) for v in range(64)) for s in range(hashing.seeds)}
    assert len(tables) == hashing.seeds == 21


def test_a_domain_of_one_digit_is_not_hashed_at_all():
    hashing = LinearHashing(100, 101)
    assert (hashing.seeds, hashing.collision) == (1, 0)
    assert [hashing.cell(0, value) for value in range(100)] == list(range(100))


@pytest.mark.parametrize("size", [2, 3, 4, 8, 16])
def test_sums_and_products_are_those_of_a_field(size):
    hashing = LinearHashing(4096, size)
    elements = range(size)
    for a, b, c in product(elements, repeat=3):
        together = hashing.product(a, hashing.sum(b, c))
        assert together == hashing.sum(hashing.product(a, b), hashing.product(a, c))
        assert hashing.product(hashing.product(a, b), c) == hashing.product(
            a, hashing.product(b, c)
        )
    for a in elements[1:]:
        assert sorted(hashing.product(a, b) for b in elements) == list(elements)


def test_polynomials_are_the_known_ones():
    # The least irreducible polynomials over GF(2): Church, "Tables of Irreducible Polynomials for
    # the First Four Prime Moduli" (1935); that of degree 8 is the one of AES (FIPS 197).
    known = [0x7, 0xB, 0x13, 0x25, 0x43, 0x83, 0x11B, 0x203, 0x409]
    assert [smallest_irreducible(degree) for degree in range(2, 11)] == known


def test_two_cells_take_the_short_way_to_the_same_answer():
    hashing = LinearHashing(64, 2)
    for seed, value in product(range(hashing.seeds), range(64)):
        digits = [(seed + 1) >> i & value >> i & 1 for i in range(6)]
        assert hashing.cell(seed, value) == sum(digits) % 2


@pytest.mark.parametrize("size", [-2, 0, 1, 6, 9, 10, 12, 25, 27, 100])
def test_a_size_without_a_field_here_is_refused_and_the_next_is_named(size):
    with pytest.raises(ParameterError, match=rf"got {size}; {admissible_from(size)} is the next"):
        LinearHashing(50, size)


def test_sizes_are_the_primes_and_the_powers_of_two():
    found = [size for size in range(40) if admissible(size)]
    assert found == [2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 19, 23, 29, 31, 32, 37]
    assert (admissible_from(0), admissible_from(9), admissible_from(32)) == (2, 11, 32)


def test_a_huge_domain_needs_no_table():
    hashing = LinearHashing(4**40, 4)
    assert hashing.digits == 40
    assert float(hashing.collision) == pytest.approx(1 / 4, rel=1e-15)
    assert 0 <= hashing.cell(hashing.seeds - 1, 4**40 - 1) < 4
