"""A window of cells that slides with the value: its cells are likely, all others are not.

Channel: a value at place i of 0..places-1 owns the `window` cells from i on. With probability
`keep` one of them is sent, each alike, else one of the places - 1 others, each alike. So
epsilon = ln[keep (places - 1) / ((1 - keep) window)]. One cell wide it is generalized randomized
response; wide ones are the piecewise mechanism and the square wave, on integers.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism
from client_sdk.mechanisms.thresholds import exponential, floor_threshold, log_ratio, probability
from client_sdk.randomness import ONE, Coin


class SlidingWindow(Mechanism):
    """The channel from places to cells.

    Attributes:
        others: Cells outside the window: places - 1.
        window: Cells inside.
        keep: Threshold of staying inside.
    """

    kind = "cell"
    others: int
    window: int
    keep: int

    def _slide(self, places: int, window: int, keep: int) -> None:
        others = places - 1
        if others < 1 or not 1 <= window:
            raise ParameterError(
                f"need at least 2 places and a window of 1, got {places} and {window}"
            )
        if not ONE * window < keep * (others + window) < ONE * (others + window):
            raise ParameterError(
                "the window must be more likely than by chance and not certain, "
                f"got {float(probability(keep))}"
            )
        self.others, self.window, self.keep = others, window, keep
        self.cells = others + window
        self.p_true = probability(keep) / window
        self.p_false = probability(ONE - keep) / others
        self.epsilon = log_ratio(self.p_true, self.p_false)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        # All three draws are made whatever the first one says, so that both paths do the same work.
        keep = coin.bernoulli(self.keep)
        within, beyond = coin.uniform(self.window), coin.uniform(self.others)
        shift = within if keep else self.window + beyond
        return (permanent + shift) % self.cells

    def parameters(self) -> Mapping[str, int]:
        return {"others": self.others, "window": self.window, "keep": self.keep}


def keeping(others: int, window: int, epsilon: Decimal) -> int:
    """Return the threshold of staying in a window with a loss of at most `epsilon`."""
    weight = Fraction(exponential(epsilon)) * window
    return floor_threshold(weight / (weight + others))
