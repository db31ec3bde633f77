"""A public set of hash functions from values to few cells, balanced exactly: lines over a field.

A value is written in base g, as a vector of m digits of the field with g elements. A *seed* is a
point of the projective space over that field: a vector a whose highest digit other than 0 is 1.
Seed a sends v to <a, v> = a_0 v_0 + ... + a_(m-1) v_(m-1), one of g cells.

Two different values share a cell under the seeds with <a, v - u> = 0, a hyperplane, whatever the
two are: (g**(m-1) - 1) of every (g**m - 1) seeds, which is a little less than 1/g. Random
functions (Carter and Wegman, "Universal Classes of Hash Functions", 1979) have that chance on
average only; a set of them that all devices share gives each pair of values its own, and estimates
a bias that no number of reports removes (reference 5.1). Here the chance is the same for all pairs.
"""

from fractions import Fraction
from functools import cached_property

from client_sdk.errors import ParameterError


class LinearHashing:
    """The functions of all seeds.

    Args:
        domain: Number of values, at least 2.
        size: Cells g of each function, a prime or a power of two.

    Raises:
        ParameterError: `size` is neither.
    """

    def __init__(self, domain: int, size: int) -> None:
        if not admissible(size):
            raise ParameterError(
                "cells of a hash function must be a prime or a power of two, "
                f"got {size}; {admissible_from(size)} is the next"
            )
        self.domain = domain
        self.size = size

    @cached_property
    def digits(self) -> int:
        """Digits m of a value: the least with g**m >= domain."""
        digits, reach = 1, self.size
        while reach < self.domain:
            digits, reach = digits + 1, reach * self.size
        return digits

    @cached_property
    def seeds(self) -> int:
        """Number of functions, (g**m - 1) / (g - 1)."""
        return int((self.size**self.digits - 1) // (self.size - 1))

    @property
    def collision(self) -> Fraction:
        """Part of the seeds under which any two different values share a cell."""
        return Fraction(self.size ** (self.digits - 1) - 1, self.size**self.digits - 1)

    @cached_property
    def modulus(self) -> int:
        """The polynomial that products are reduced by, bit i for x**i; 0 in a prime field."""
        degree = self.size.bit_length() - 1
        return 0 if _is_prime(self.size) else smallest_irreducible(degree)

    def cell(self, seed: int, value: int) -> int:
        """Return the cell of a value under a seed.

        Args:
            seed: In [0, seeds). Seed (g**t - 1) / (g - 1) + r, r < g**t, is the vector with a 1
                as digit t and the digits of r below.
            value: In [0, g**digits).
        """
        if self.size == 2:
            return (seed + 1 & value).bit_count() & 1
        leading = 1
        while seed >= leading:
            seed, leading = seed - leading, leading * self.size
        result = value // leading % self.size
        while seed:
            seed, one = divmod(seed, self.size)
            value, other = divmod(value, self.size)
            result = self.sum(result, self.product(one, other))
        return result

    def cells(self, value: int) -> list[int]:
        """Return the cells of a value under all seeds, in order; quicker than one by one."""
        result: list[int] = []
        below = [0]
        for _ in range(self.digits):
            value, digit = divmod(value, self.size)
            result += [self.sum(digit, cell) for cell in below]
            if len(result) < self.seeds:
                multiples = [self.product(factor, digit) for factor in range(self.size)]
                below = [self.sum(each, cell) for each in multiples for cell in below]
        return result

    def sum(self, one: int, other: int) -> int:
        """Add two elements of the field."""
        return one ^ other if self.modulus else (one + other) % self.size

    def product(self, one: int, other: int) -> int:
        """Multiply two elements of the field."""
        if not self.modulus:
            return one * other % self.size
        result = 0
        while other:
            if other & 1:
                result ^= one
            one <<= 1
            if one & self.size:
                one ^= self.modulus
            other >>= 1
        return result


def admissible(size: int) -> bool:
    """Return whether functions can have that many cells: a prime or a power of two, from 2."""
    return size >= 2 and (size & (size - 1) == 0 or _is_prime(size))


def admissible_from(least: int) -> int:
    """Return the least admissible number of cells that is at least `least`."""
    size = max(least, 2)
    while not admissible(size):
        size += 1
    return size


def smallest_irreducible(degree: int) -> int:
    """Return the first polynomial of a degree over bits that no other divides, bit i for x**i."""
    candidate = 1 << degree
    while any(_remainder(candidate, low) == 0 for low in range(2, 2 << degree // 2)):
        candidate += 1
    return candidate


def _remainder(polynomial: int, divisor: int) -> int:
    width = divisor.bit_length()
    while polynomial.bit_length() >= width:
        polynomial ^= divisor << polynomial.bit_length() - width
    return polynomial


def _is_prime(number: int) -> bool:
    factor = 2
    while factor * factor <= number:
        if number % factor == 0:
            return False
        factor += 1
    return number >= 2
