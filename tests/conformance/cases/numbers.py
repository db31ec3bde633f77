"""Numbers of a range: cases for the exact audit."""

from client_sdk.mechanisms import DiscreteLaplace, OneBitMean, Piecewise
from tests.conformance.exact import Case

CASES = [
    Case("one-bit-0.01", OneBitMean.from_epsilon("0.01"), "0.01"),
    Case("one-bit-1", OneBitMean.from_epsilon(1), "1"),
    Case("one-bit-20", OneBitMean.from_epsilon(20), "20"),
    Case("piecewise-1-step", Piecewise.from_epsilon(1, 1), "1"),
    Case("piecewise-5-steps", Piecewise.from_epsilon("0.3", 5), "0.3"),
    Case("piecewise-16-steps", Piecewise.from_epsilon(2, 16), "2"),
    Case("piecewise-64-steps", Piecewise.from_epsilon(9, 64), "9"),
    Case("laplace-1-step", DiscreteLaplace.from_epsilon(1, 1), "1"),
    Case("laplace-10-steps", DiscreteLaplace.from_epsilon("0.1", 10), "0.1"),
    Case("laplace-64-steps", DiscreteLaplace.from_epsilon(1, 64), "1"),
    Case("laplace-7-steps-40", DiscreteLaplace.from_epsilon(40, 7), "40"),
]
