"""Few cells for many values, by hashing: cases for the exact audit."""

from client_sdk.mechanisms import BinaryLocalHashing, OptimizedLocalHashing, build
from tests.conformance.exact import Case

CASES = [
    Case("olh-10-values", build("optimized_local_hashing", domain=10, epsilon=1), "1"),
    Case("olh-not-hashed", OptimizedLocalHashing.from_epsilon(6, 2, 7), "2"),
    Case("olh-30-values-8-cells", OptimizedLocalHashing.from_epsilon(30, 2, 8), "2"),
    Case("olh-100-values", build("optimized_local_hashing", domain=100, epsilon="0.5"), "0.5"),
    Case("blh-2-values", BinaryLocalHashing.from_epsilon(2, 1, 2), "1"),
    Case("blh-9-values", BinaryLocalHashing.from_epsilon(9, "0.5", 2), "0.5"),
    Case("blh-64-values", build("binary_local_hashing", domain=64, epsilon=1), "1"),
]
