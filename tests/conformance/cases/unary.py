"""One bit for each value: cases for the exact audit."""

from client_sdk.mechanisms import OptimizedUnary, SymmetricUnary
from tests.conformance.exact import Case

CASES = [
    Case("sue-2-values", SymmetricUnary.from_epsilon(2, 1), "1"),
    Case("sue-5-values", SymmetricUnary.from_epsilon(5, 2), "2"),
    Case("sue-128-values", SymmetricUnary.from_epsilon(128, "0.7"), "0.7"),
    Case("oue-2-values", OptimizedUnary.from_epsilon(2, "0.5"), "0.5"),
    Case("oue-6-values", OptimizedUnary.from_epsilon(6, 1), "1"),
    Case("oue-128-values", OptimizedUnary.from_epsilon(128, 3), "3"),
]
