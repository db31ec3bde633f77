"""One of few bits, in blocks: cases for the exact audit."""

from client_sdk.mechanisms import BlockHadamardResponse
from tests.conformance.exact import Case

CASES = [
    Case("hadamard-blocks-2-values", BlockHadamardResponse.from_epsilon(2, 1), "1"),
    Case("hadamard-1-block-of-8", BlockHadamardResponse.from_epsilon(7, 1, 1), "1"),
    Case("hadamard-4-blocks-of-4", BlockHadamardResponse.from_epsilon(12, 3, 4), "3"),
    Case("hadamard-4-blocks-of-2", BlockHadamardResponse.from_epsilon(4, "0.01", 4), "0.01"),
    Case("hadamard-blocks-half-empty", BlockHadamardResponse.from_epsilon(5, 2, 4), "2"),
    Case("hadamard-blocks-100-values", BlockHadamardResponse.from_epsilon(100, 4), "4"),
]
