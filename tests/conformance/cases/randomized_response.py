"""Yes or no: cases for the exact audit."""

from client_sdk.mechanisms import RandomizedResponse
from tests.conformance.exact import Case

CASES = [
    Case("warner-0.01", RandomizedResponse.from_epsilon("0.01"), "0.01"),
    Case("warner-1", RandomizedResponse.from_epsilon(1), "1"),
    Case("warner-40", RandomizedResponse.from_epsilon(40), "40"),
    Case(
        "two-fair-coins",
        RandomizedResponse.from_probabilities("0.75", "0.25"),
        "1.0986122886681098",
    ),
    Case(
        "two-biased-coins",
        RandomizedResponse.from_probabilities("0.72", "0.12"),
        "1.791759469228055000812477358380702273",
    ),
    Case(
        "two-biased-coins-inverted",
        RandomizedResponse.from_probabilities("0.12", "0.72"),
        "1.791759469228055000812477358380702273",
    ),
]
