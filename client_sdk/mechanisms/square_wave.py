"""Square wave: a bucket is sent as one near it or, less often, as any other; for distributions.

Channel: the value i of 0..domain-1 owns the 2b + 1 cells that lie at most b = half_width from it,
on a line with b more cells at either end; each of them is e^eps times as likely as any other. Li,
Wang, Lopuhaa-Zwakenberg, Skoric, Li, "Estimating Numerical Distributions under Local Differential
Privacy" (SIGMOD 2020), on buckets. By default b is the part of the range that the paper finds
best, rounded down to buckets.

What is estimated is the whole distribution, by maximum likelihood with smoothing: better for
shapes and quantiles than counts of single buckets are, but biased. Numbers outside the range are
clamped into the outer buckets.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Self

from client_sdk.mechanisms.base import Value, require_domain
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.sliding_window import SlidingWindow, keeping
from client_sdk.mechanisms.thresholds import Real, checked_epsilon, exponential, probability

MOST_BUCKETS = 256
"""More than noise lets anybody see apart; and a bootstrap has to work through them in a second."""
_SMALLEST = Decimal("1e-9")  # below, half of the range is best to nine digits


class SquareWave(SlidingWindow):
    """A window of cells around the bucket.

    Args:
        domain: Buckets, at least 2.
        half_width: Cells of the window on either side of the bucket, at least 0.
        keep: Threshold of sending one of the window.
    """

    name = "square_wave"
    ordered = True

    def __init__(self, domain: int, half_width: int, keep: int) -> None:
        self._slide(require_domain(domain), 2 * half_width + 1, keep)
        self.domain: int = domain
        self.half_width = half_width

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("half_width")
        domain = require_domain(declared.closed(), most=MOST_BUCKETS)
        epsilon = declared.once()
        default = best_half_width(epsilon, domain)
        return cls.from_epsilon(
            domain, epsilon, declared.integer("half_width", 0, domain // 2, default)
        )

    @classmethod
    def from_epsilon(cls, domain: int, epsilon: Real, half_width: int | None = None) -> Self:
        """The channel with a loss of at most `epsilon`, by default of the best width."""
        if half_width is None:
            half_width = best_half_width(epsilon, domain)
        window = 2 * half_width + 1
        return cls(domain, half_width, keeping(domain - 1, window, checked_epsilon(epsilon)))

    @property
    def support_true(self) -> Fraction:
        """Probability that the cell sent lies in the window of the truth."""
        return probability(self.keep)

    @property
    def support_false(self) -> Fraction:
        """The same for the window of a value far from the truth.

        So `rare_variance` is that of the share of all values around one, as wide as a window.
        """
        return self.window * self.p_false

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return tuple(range(int(value), int(value) + self.window))

    def parameters(self) -> Mapping[str, int]:
        return {"domain": self.domain, "half_width": self.half_width, "keep": self.keep}


def best_half_width(epsilon: Real, domain: int) -> int:
    """Return the half width that tells most, in whole buckets."""
    return int(best_part(checked_epsilon(epsilon)) * domain)


def best_part(epsilon: Decimal) -> Fraction:
    """Return the half width that tells most, as a part of the range (the paper's equation for b).

    It maximises the mutual information of a uniform input and its report: 1/2 for the smallest
    epsilon, then less and less.
    """
    eps = Fraction(max(epsilon, _SMALLEST))
    power = Fraction(exponential(max(epsilon, _SMALLEST)))
    return (eps * power - power + 1) / (2 * power * (power - 1 - eps))
