"""A set of values that may hold the truth: cases for the exact audit."""

from client_sdk.mechanisms import SubsetSelection
from tests.conformance.exact import Case

CASES = [
    Case("subset-2-values", SubsetSelection.from_epsilon(2, 1), "1"),
    Case("subset-1-of-7", SubsetSelection.from_epsilon(7, 3), "3"),
    Case("subset-2-of-7", SubsetSelection.from_epsilon(7, 1), "1"),
    Case("subset-3-of-6", SubsetSelection.from_epsilon(6, "0.01"), "0.01"),
    Case("subset-5-of-6", SubsetSelection.from_epsilon(6, 2, 5), "2"),
    Case("subset-4-of-16", SubsetSelection.from_epsilon(16, 1), "1"),
    Case("subset-27-of-100", SubsetSelection.from_epsilon(100, 1), "1"),
    Case("subset-1-of-100", SubsetSelection.from_epsilon(100, 12), "12"),
    Case("subset-73-of-150", SubsetSelection.from_epsilon(150, "0.05"), "0.05"),
]
