"""Several options at once: cases for the exact audit."""

from client_sdk.mechanisms import MultiHotUnary, PaddingAndSampling
from tests.conformance.exact import Case

CASES = [
    Case("multi-hot-all-of-2", MultiHotUnary.from_epsilon(2, 2, 1), "1"),
    Case("multi-hot-1-of-4", MultiHotUnary.from_epsilon(4, 1, 1), "1"),
    Case("multi-hot-2-of-5", MultiHotUnary.from_epsilon(5, 2, "0.5"), "0.5"),
    Case("multi-hot-3-of-5", MultiHotUnary.from_epsilon(5, 3, 3), "3"),
    Case("multi-hot-3-of-40", MultiHotUnary.from_epsilon(40, 3, 2), "2"),
    Case("multi-hot-all-of-20", MultiHotUnary.from_epsilon(20, 20, 4), "4"),
    Case("sampled-1-of-3", PaddingAndSampling.from_epsilon(3, 1, 1), "1"),
    Case("sampled-2-of-4", PaddingAndSampling.from_epsilon(4, 2, 1), "1"),
    # Two selections of 3 among 4 share 2: what they have in common hides where they differ.
    Case("sampled-3-of-4", PaddingAndSampling.from_epsilon(4, 3, 2), "2", attained=False),
    Case("sampled-3-of-40", PaddingAndSampling.from_epsilon(40, 3, "0.3"), "0.3"),
    Case("sampled-5-of-100", PaddingAndSampling.from_epsilon(100, 5, 4), "4"),
]
