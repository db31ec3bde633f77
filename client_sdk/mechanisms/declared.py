"""What a file says about a mechanism, before it is one."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms.thresholds import Real


class Declared(NamedTuple):
    """A declaration that a mechanism's `declared` reads.

    Attributes:
        domain: Number of values of a closed domain, None for strings.
        epsilon: Loss of one report that is allowed; None where `options` give probabilities.
        epsilon_permanent: Loss of endlessly many reports of one value, None without memory.
        options: The mechanism's own parameters, as they are written.
    """

    domain: int | None
    epsilon: Real | None = None
    epsilon_permanent: Real | None = None
    options: Mapping[str, Any] = {}

    def only(self, *known: str) -> None:
        """Raise OptionError for the first option that is not one of `known`."""
        for name in self.options:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise OptionError(name, f"is not a known key ({listed})", self.options[name])

    def integer(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """Return an integer option, or its default.

        Raises:
            OptionError: It lies out of range, or is missing and has no default.
        """
        value = self.options.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise OptionError(name, f"must be an integer in {least}..{most}", value)
        return value

    def number(self, name: str) -> Real | None:
        """Return a numeric option, None if it is not written."""
        value: Real | None = self.options.get(name)
        if isinstance(value, bool | str | list):
            raise OptionError(name, "must be a number", value)
        return value

    def closed(self) -> int:
        """Return the size of the closed domain."""
        if self.domain is None:
            raise ParameterError("this mechanism needs a closed list of values")
        return self.domain

    def once(self) -> Real:
        """Return epsilon, for a mechanism that has no other parameter of privacy."""
        if self.epsilon is None:
            raise ParameterError("epsilon is required")
        return self.epsilon

    def probabilities(self) -> tuple[Real, Real] | None:
        """Return p_true and p_false if they are written instead of epsilon.

        Raises:
            ParameterError: Only one of them is written, or epsilon as well, or nothing.
        """
        p_true, p_false = self.number("p_true"), self.number("p_false")
        if (p_true is None) != (p_false is None) or (self.epsilon is None) == (p_true is None):
            raise ParameterError("give either epsilon or both p_true and p_false")
        return None if p_true is None or p_false is None else (p_true, p_false)
