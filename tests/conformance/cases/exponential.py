"""Near misses are likelier than far ones: cases for the exact audit."""

from client_sdk.mechanisms import Exponential
from client_sdk.mechanisms.utility import checked_utility
from tests.conformance.exact import Case

LOPSIDED = checked_utility([[3, 2, 0], [0, 5, 1], [1, 1, 1]], 3)

CASES = [
    Case("exponential-2-values", Exponential.from_epsilon(2, 1), "1"),
    Case("exponential-4-in-order", Exponential.from_epsilon(4, 2), "2"),
    Case("exponential-not-rescaled", Exponential.from_epsilon(4, 2, rescale=False), "1.000001"),
    Case("exponential-lopsided", Exponential.from_epsilon(3, "0.5", LOPSIDED), "0.5"),
    Case("exponential-4-of-tiny-chances", Exponential.from_epsilon(4, 40), "40"),
    Case("exponential-100-in-order", Exponential.from_epsilon(100, 6), "6"),
]
