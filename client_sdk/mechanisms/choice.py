"""Which mechanism a metric gets unless its file names one."""

from decimal import Decimal
from fractions import Fraction

from client_sdk.mechanisms.thresholds import exponential


def choose(domain: int, epsilon: Decimal) -> str:
    """Return the name of the mechanism that a closed domain gets unless its file names one.

    It has the least variance for rare values among those whose reports are simple. Two values:
    Warner's design, optimal at every share. Otherwise generalized randomized response beats
    optimized unary encoding exactly while domain < 3 e^epsilon + 2 (Wang et al. 2017, section 5).
    """
    if domain == 2:
        return "randomized_response"
    if domain < 3 * Fraction(exponential(epsilon)) + 2:
        return "generalized_randomized_response"
    return "optimized_unary"


def choose_several(options: int, most: int, epsilon: Decimal) -> str:
    """Return the name of the mechanism that a choice of several options gets by default."""
    # Here: most apps ask no such question.
    from client_sdk.mechanisms.multi_hot_unary import MultiHotUnary
    from client_sdk.mechanisms.padding_and_sampling import PaddingAndSampling

    all_bits = MultiHotUnary.from_epsilon(options, most, epsilon)
    one_of_them = PaddingAndSampling.from_epsilon(options, most, epsilon)
    return min(all_bits, one_of_them, key=lambda mechanism: mechanism.rare_variance).name
