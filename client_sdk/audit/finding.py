"""What the audit of one mechanism found."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeVar

from client_sdk.mechanisms import Mechanism, Value

_Law = TypeVar("_Law")


@dataclass
class Audit:
    """The findings.

    Attributes:
        method: How the channel was rebuilt, in words.
        branches: Branches of the shipped code that were replayed.
        worst: Largest exact loss found over all pairs of values and all responses.
        worst_permanent: The same for the permanent stage, None without memoization.
        worst_instantaneous: The same for the fresh stage over any two remembered responses.
        problems: Every way in which the code departs from what it states; empty when sound.
    """

    mechanism: Mechanism
    method: str
    branches: int = 0
    worst: Decimal = Decimal(0)
    worst_permanent: Decimal | None = None
    worst_instantaneous: Decimal | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether the code does what the mechanism states."""
        return not self.problems

    def expect(self, holds: bool, problem: str) -> None:
        """Note a problem unless `holds`."""
        if not holds:
            self.problems.append(problem)

    def share_memory(self, memories: dict[str, _Law], value: Value, cohort: int, law: _Law) -> None:
        """Note a problem if a value shares a memory with one that is remembered otherwise.

        Args:
            memories: Laws by what they are remembered as, so far.
            value: Whose permanent response has `law`.
            cohort: Of the device.
            law: In any form that compares.
        """
        name = self.mechanism.remembered_as(value, cohort)
        self.expect(
            memories.setdefault(name, law) == law,
            f"{value!r} is remembered as another value with another law, {name!r}",
        )

    def raise_to(self, loss: Decimal) -> None:
        """Note a loss of a response."""
        self.worst = max(self.worst, loss)

    def raise_permanent_to(self, loss: Decimal) -> None:
        """Note a loss of a permanent response."""
        self.worst_permanent = max(self.worst_permanent or Decimal(0), loss)

    def raise_instantaneous_to(self, loss: Decimal) -> None:
        """Note a loss of the fresh stage between two permanent responses."""
        self.worst_instantaneous = max(self.worst_instantaneous or Decimal(0), loss)
