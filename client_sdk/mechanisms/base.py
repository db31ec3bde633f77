"""What every mechanism states about itself: shape, law, loss, and the two draws.

A mechanism is a noisy channel. It turns a value into a *permanent response* (remembered, never
sent; without memoization simply the encoded value) and each permanent response into a fresh
*instantaneous response*, which is what leaves the device. The server sees responses as supports
of cells and counts them; an estimate inverts the channel. All of that follows from what stands
here, so probabilities are written once.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Literal, Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import multiple
from client_sdk.randomness import Coin

Value = int | str
"""What a mechanism encodes: the index of a value in its domain, or a string of an open one."""

Encoding = Literal["one", "several", "number", "string"]
"""What a value is: the index of one value of a list; a set of indices, bit i for index i; the
place of a number in its range, 0 to POSITIONS; a string."""

POSITIONS = 1 << 32
"""Steps of a range. A number is rounded to the nearest: at most 2**-33 of the range away."""

MOST_COHORTS = MOST_CELLS = 65536
"""What a report can name: so many cohorts, and so many cells if a response is one of them."""
MOST_BITS = 4096
"""Cells of a response that is a bit vector."""


class Mechanism(ABC):
    """A randomizer with its exact channel.

    Attributes:
        name: On the wire and in files; a name never changes its meaning.
        kind: "cell": a response is one cell index; "bits": a bit vector, bit i for cell i.
        encodes: What a value is.
        memoizes: Whether permanent responses hold noise and must be remembered.
        ordered: Whether neighbouring values are taken for alike, so that they must have an order.
        counted: Whether reports that speak for a value are all that tells of it: that many of
            them are expected as support_true and support_false say, whatever the others hold.
        domain: Number of values for a closed domain (values are 0..domain-1), None for strings.
        cohorts: Number of disjoint device groups with hash functions of their own.
        cells: Counters per cohort.
        p_true: Probability that a cell which belongs to the value is supported.
        p_false: Probability that any other cell is supported.
        epsilon: Loss of one response, max over values v, v' and responses y of
            ln P(y|v)/P(y|v'), computed from the integer thresholds in use.
        epsilon_permanent: Loss of endlessly many responses for one value, None for mechanisms
            that do not memoize.
    """

    name: ClassVar[str]
    kind: ClassVar[Literal["cell", "bits"]]
    encodes: ClassVar[Encoding] = "one"
    memoizes: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    counted: ClassVar[bool] = True
    domain: int | None
    cohorts: int = 1
    cells: int
    p_true: Fraction
    p_false: Fraction
    epsilon: Decimal
    epsilon_permanent: Decimal | None = None

    @classmethod
    @abstractmethod
    def declared(cls, declared: Declared) -> Self:
        """Make the mechanism that a file declares.

        Raises:
            ParameterError: The declaration lacks something, has something unknown, or breaks a
                rule; says which.
        """

    @property
    def support_true(self) -> Fraction:
        """Probability that a report speaks for a value which is the truth, over all cohorts."""
        return self.p_true

    @property
    def support_false(self) -> Fraction:
        """The same for a value which is not the truth."""
        return self.p_false

    @property
    def even_parts(self) -> int:
        """Equal runs of cells that reports fall into evenly, whatever was reported.

        More than 1 where a response says which hash function or column the device drew.
        """
        return 1

    @property
    def rare_variance(self) -> float:
        """Variance of the estimated share of a value that nobody holds, times n (reference 0.2)."""
        p, q = self.support_true, self.support_false
        return float(q * (1 - q) / (p - q) ** 2)

    @property
    def epsilon_instantaneous(self) -> Decimal:
        """Loss of the fresh stage alone, whatever two responses were remembered.

        T times this bounds what T reports tell about *any* two histories, changes of the value
        included (reference 10.3). Without memoization it is the loss of a response.
        """
        return self.epsilon

    @property
    def most_memories(self) -> int | None:
        """Most permanent responses that one device can ever need; None: there is no most."""
        return self.domain

    def epsilon_of(self, reports: int) -> Decimal:
        """Return the exact loss of so many reports of one value that does not change.

        With fresh noise losses add up. Remembered noise is shared by all reports, which loses
        less in the long run and may lose more than the sum at first (reference 10.3).

        Args:
            reports: At least 1.
        """
        return multiple(self.epsilon, reports)

    @abstractmethod
    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        """Return the cells that belong to `value`, ascending and distinct."""

    @abstractmethod
    def instantaneous(self, permanent: int, coin: Coin) -> int:
        """Draw the response that is sent; `coin` must be fresh randomness."""

    @abstractmethod
    def parameters(self) -> Mapping[str, int]:
        """Return the integers that fix the law: what the channel hash is taken over."""

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        """Draw the response that is remembered; here the encoded value itself.

        Args:
            value: Index or string.
            cohort: In [0, cohorts).
            coin: A repeatable one, keyed by device secret, metric, channel and value.
        """
        if self.kind == "cell":
            return self.cells_for(value, cohort)[0]
        encoded = 0
        for cell in self.cells_for(value, cohort):
            encoded |= 1 << cell
        return encoded

    def remembered_as(self, value: Value, cohort: int) -> str:
        """Name what a permanent response belongs to: values of one name share it."""
        return str(value)

    def sample(self, most: int) -> Sequence[Value]:
        """Return at most `most` values of a closed domain that show the largest loss."""
        assert self.domain is not None
        if self.domain <= most:
            return range(self.domain)
        return [index * (self.domain - 1) // (most - 1) for index in range(most)]

    def channel(self, value: Value, cohort: int) -> list[Fraction]:
        """Return the exact probability that each cell is supported, given `value`."""
        own = set(self.cells_for(value, cohort))
        return [self.p_true if cell in own else self.p_false for cell in range(self.cells)]

    def support(self, response: int) -> tuple[int, ...]:
        """Return the cells that a response adds one to."""
        if self.kind == "cell":
            return (response,)
        return tuple(cell for cell in range(self.cells) if response >> cell & 1)


def require_domain(domain: int, least: int = 2, most: int | None = None) -> int:
    """Return `domain` if a mechanism can work on it, else raise ParameterError."""
    if domain < least:
        raise ParameterError(f"domain must have at least {least} values, got domain={domain}")
    if most is not None and domain > most:
        raise ParameterError(f"domain must have at most {most} values, got domain={domain}")
    return domain


def require_index(value: Value, domain: int) -> int:
    """Return `value` if it is the index of one of `domain` values.

    Raises:
        ParameterError: It is not; which one it is is not said, for errors end up in logs.
    """
    index = int(value)
    if not 0 <= index < domain:
        raise ParameterError(f"value must be an index in 0..{domain - 1}")
    return index
