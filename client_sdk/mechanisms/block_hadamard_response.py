"""Hadamard response in blocks: send one of few bits, some of which speak for the value.

The K = B b cells are B blocks of b = 2s. A value has a block and, in it, a row of the Sylvester
matrix of size b (not row 0, which is constant): the s cells where that row is +1 are its own.
Channel: P(y|v) = e^eps/D for its own cells and 1/D for all others, D = s e^eps + K - s.
Two values of one block share half of their cells, those of different blocks none.
Acharya, Sun, Zhang, "Hadamard Response: Estimating Distributions Privately, Efficiently, and with
Little Communication" (AISTATS 2019). One block is the one-bit Hadamard response; about e^eps of
them make the variance of a rare value small. A report takes log2 K bits, however many values.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms.base import Mechanism, Value, require_domain, require_index
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    Real,
    checked_epsilon,
    exponential,
    floor_threshold,
    log_ratio,
    probability,
)
from client_sdk.randomness import ONE, Coin


class BlockHadamardResponse(Mechanism):
    """Hadamard response on the domain 0..domain-1, in blocks.

    Value v is in block v mod blocks and has row 1 + v div blocks there.

    Attributes:
        blocks: B.
        size: Cells of a block, b: the least power of two above the rows in use.
        half: Cells of a value, s = b/2.

    Args:
        domain: Number of values, at least 2.
        blocks: A power of two, at most `domain`.
        keep: Threshold of sending one of the value's own cells, in (0, 2**64), above chance.
    """

    name = "block_hadamard_response"
    kind = "cell"
    counted = False

    def __init__(self, domain: int, blocks: int, keep: int) -> None:
        self.domain: int = require_domain(domain)
        if blocks < 1 or blocks & (blocks - 1) or blocks > domain:
            raise ParameterError(
                f"blocks must be a power of two, at most domain = {domain}, got blocks={blocks}"
            )
        self.blocks = blocks
        self.size = 1 << (-(-domain // blocks)).bit_length()
        self.half = self.size // 2
        self.cells = blocks * self.size
        if not ONE * self.half < keep * self.cells < ONE * self.cells:
            raise ParameterError(
                f"p_true must be above chance: keep = {float(probability(keep))} must lie between "
                f"{self.half}/{self.cells} and 1"
            )
        self.keep = keep
        kept = probability(keep)
        self.p_true = kept / self.half
        self.p_false = (1 - kept) / (self.cells - self.half)
        self.epsilon = log_ratio(self.p_true, self.p_false)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("blocks")
        domain = require_domain(declared.closed())
        blocks = None
        if "blocks" in declared.options:
            blocks = declared.integer("blocks", 1, domain)
            if blocks & (blocks - 1):
                raise OptionError("blocks", "must be a power of two", blocks)
        return cls.from_epsilon(domain, declared.once(), blocks)

    @classmethod
    def from_epsilon(cls, domain: int, epsilon: Real, blocks: int | None = None) -> Self:
        """The channel with a loss of at most `epsilon`.

        By default it has the number of blocks with the least variance for a rare value.
        """
        power = Fraction(exponential(checked_epsilon(epsilon)))
        numbers = [blocks]
        if blocks is None:
            numbers = [1 << k for k in range(require_domain(domain).bit_length())]
        made = [cls(domain, each, _keep(power, each)) for each in numbers if each is not None]
        return min(made, key=lambda mechanism: mechanism.rare_variance)

    @property
    def scale(self) -> Fraction:
        """What the mean of +1 (own cell), -1 (other half of the block), 0 is multiplied by."""
        return 1 / (self.half * (self.p_true - self.p_false))

    @property
    def support_true(self) -> Fraction:
        return self.half * self.p_true

    @property
    def support_false(self) -> Fraction:
        """Here of values that are spread evenly over blocks; it depends on the block."""
        return self.half * (self.p_false + (self.p_true - self.p_false) / 2 / self.blocks)

    @property
    def rare_variance(self) -> float:
        """Reference 6.1 at f = 0, where the values that are held spread evenly over blocks."""
        same = self.half * (self.p_true + self.p_false)
        other = 2 * self.half * self.p_false
        return float(self.scale**2 * (same + (self.blocks - 1) * other) / self.blocks)

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        block, row = self._place(require_index(value, self.domain))
        start = block * self.size
        # Columns with an even and an odd number of ones in common with the row, bit after bit.
        even, odd = [start], list[int]()
        for power in range(self.size.bit_length() - 1):
            bit = 1 << power
            more, less = (odd, even) if row & bit else (even, odd)
            even, odd = even + [c + bit for c in more], odd + [c + bit for c in less]
        return tuple(even)

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        return require_index(value, self.domain)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        # All draws are made whatever the first one says: one of the half-blocks that are not the
        # value's own, and a place in a half-block.
        block, row = self._place(permanent)
        own = 2 * block
        keep = coin.bernoulli(self.keep)
        other = coin.uniform(2 * self.blocks - 1)
        place = coin.uniform(self.half)
        chosen = own if keep else other + (other >= own)
        return chosen // 2 * self.size + _member(row, place, chosen % 2)

    def parameters(self) -> Mapping[str, int]:
        return {"domain": self.domain, "blocks": self.blocks, "keep": self.keep}

    def _place(self, value: int) -> tuple[int, int]:
        return value % self.blocks, 1 + value // self.blocks


def _keep(power: Fraction, blocks: int) -> int:
    """Return the threshold of s e^eps/D; K = 2 s B, so that it does not depend on s."""
    return floor_threshold(power / (power + 2 * blocks - 1))


def _member(row: int, place: int, parity: int) -> int:
    """Return one of the columns at which a row of the Sylvester matrix is +1, or -1.

    H[row, column] is -1 to the number of bits that both have. The lowest bit of the row is free
    to make that number even or odd; `place` fills all other bits of the column.

    Args:
        row: Not 0.
        place: In [0, half the size).
        parity: 0 for +1, 1 for -1.
    """
    free = row & -row
    low = place & (free - 1)
    column = (place ^ low) << 1 | low
    return column | free if ((column & row).bit_count() + parity) % 2 else column
