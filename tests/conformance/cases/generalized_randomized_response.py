"""One of few values: cases for the exact audit."""

from client_sdk.mechanisms import GeneralizedRandomizedResponse
from tests.conformance.exact import Case

CASES = [
    Case("grr-2-values", GeneralizedRandomizedResponse.from_epsilon(2, 1), "1"),
    Case("grr-7-values", GeneralizedRandomizedResponse.from_epsilon(7, 2), "2"),
    Case("grr-24-values", GeneralizedRandomizedResponse.from_epsilon(24, "0.3"), "0.3"),
    Case("grr-300-values", GeneralizedRandomizedResponse.from_epsilon(300, 4), "4"),
]
