"""One bit of a row of signs: cases for the exact audit."""

from client_sdk.mechanisms import HadamardResponse
from tests.conformance.exact import Case

CASES = [
    Case("hadamard-2-values", HadamardResponse.from_epsilon(2, 1), "1"),
    Case("hadamard-7-values", HadamardResponse.from_epsilon(7, "0.5"), "0.5"),
    Case("hadamard-8-values", HadamardResponse.from_epsilon(8, 2), "2"),
    Case("hadamard-100-values", HadamardResponse.from_epsilon(100, 1), "1"),
]
