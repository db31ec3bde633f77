"""Strings, with remembered noise: cases for the exact audit."""

from client_sdk.mechanisms import Rappor
from tests.conformance.exact import Case

CASES = [
    Case("rappor-1-bit", Rappor.from_epsilons(1, 1, 1, epsilon=1, epsilon_permanent=2), "1", False),
    Case("rappor-one-hot", Rappor(4, 1, 2, f="0.5", p="0.5", q="0.75"), "0.537143"),
    Case("rappor-two-hashes", Rappor(5, 2, 4, f="0.5", p="0.5", q="0.75"), "1.074286"),
    Case("rappor-one-time", Rappor(4, 1, 1, f="0.5", p=0, q=1), "2.197225"),
    Case("rappor-values-always-overlap", Rappor(4, 3, 8, f="0.5", p="0.25", q="0.75"), "1.021652"),
    Case("rappor-128-bits", Rappor.from_epsilons(128, 2, 64, epsilon=1, epsilon_permanent=4), "1"),
    Case(
        "rappor-4096-bits", Rappor.from_epsilons(4096, 2, 64, epsilon=2, epsilon_permanent=8), "2"
    ),
]
