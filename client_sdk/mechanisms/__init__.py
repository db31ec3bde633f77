"""The catalogue of mechanisms: one file each, one entry each.

`build` makes a mechanism from its name and parameters, `choose` picks the one with the least
variance for a closed domain.
"""

from collections.abc import Mapping
from decimal import Decimal

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism, Value
from client_sdk.mechanisms.generalized_randomized_response import GeneralizedRandomizedResponse
from client_sdk.mechanisms.randomized_response import RandomizedResponse
from client_sdk.mechanisms.rappor import Rappor
from client_sdk.mechanisms.thresholds import Real, exponential
from client_sdk.mechanisms.unary import OptimizedUnary, SymmetricUnary, UnaryEncoding

CATALOGUE: Mapping[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        RandomizedResponse,
        GeneralizedRandomizedResponse,
        SymmetricUnary,
        OptimizedUnary,
        Rappor,
    )
}

__all__ = [
    "CATALOGUE",
    "GeneralizedRandomizedResponse",
    "Mechanism",
    "OptimizedUnary",
    "RandomizedResponse",
    "Rappor",
    "SymmetricUnary",
    "UnaryEncoding",
    "Value",
    "build",
    "choose",
]


def choose(domain: int, epsilon: Decimal) -> str:
    """Return the name of the mechanism with the least variance for rare values.

    Two values: Warner's design, optimal at every share. Otherwise generalized randomized
    response beats optimized unary encoding exactly while domain < 3 e^epsilon + 2
    (Wang et al. 2017, section 5).
    """
    if domain == 2:
        return RandomizedResponse.name
    if domain < 3 * exponential(epsilon) + 2:
        return GeneralizedRandomizedResponse.name
    return OptimizedUnary.name


def build(
    name: str,
    *,
    domain: int,
    epsilon: Real | None = None,
    p_true: Real | None = None,
    p_false: Real | None = None,
) -> Mechanism:
    """Make a closed-domain mechanism, by epsilon or by its two probabilities.

    Raises:
        ParameterError: Unknown name, a domain or parameters that the mechanism cannot have,
            or neither or both ways of saying how private it is.
    """
    mechanism = CATALOGUE.get(name)
    if mechanism is None or mechanism is Rappor:
        closed = ", ".join(sorted(set(CATALOGUE) - {Rappor.name}))
        raise ParameterError(f"mechanism must be one of {closed}, got {name!r}")
    by_probabilities = p_true is not None and p_false is not None
    if (epsilon is None) == (not by_probabilities) or (p_true is None) != (p_false is None):
        raise ParameterError("give either epsilon or both p_true and p_false")
    if mechanism is RandomizedResponse:
        if domain != 2:
            raise ParameterError(f"{name} needs exactly two values, got {domain}")
        if epsilon is not None:
            return RandomizedResponse.from_epsilon(epsilon)
        assert p_true is not None and p_false is not None
        return RandomizedResponse.from_probabilities(p_true, p_false)
    assert issubclass(mechanism, GeneralizedRandomizedResponse | SymmetricUnary | OptimizedUnary)
    if epsilon is not None:
        return mechanism.from_epsilon(domain, epsilon)
    assert p_true is not None and p_false is not None
    return mechanism.from_probabilities(domain, p_true, p_false)
