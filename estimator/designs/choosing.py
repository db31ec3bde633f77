"""Which device people are handed for a design or an epsilon, and what it makes of both."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from estimator.designs.base import Design, DesignError
from estimator.designs.crosswise import Crosswise
from estimator.designs.devices import BIRTHDAYS, DEVICES, Device
from estimator.designs.draws import Draw, Family, draws, realised
from estimator.designs.splits import Split, largest_epsilon, simplest
from estimator.designs.triangular import Triangular


@dataclass(frozen=True)
class Choice:
    """A design as real devices give it.

    Attributes:
        design: With the devices' probabilities.
        draws: What chance orders in it.
        splits: One for each draw.
    """

    design: Design
    draws: tuple[Draw, ...]
    splits: tuple[Split, ...]

    @property
    def exact(self) -> bool:
        """Whether probabilities are exact, and not those of a calendar."""
        return all(split.device.exact for split in self.splits)


def usual(design: str) -> tuple[Device, ...]:
    """Return the devices of a design: birthdays where a second fact is asked for, else all."""
    return BIRTHDAYS if design in (Crosswise.name, Triangular.name) else DEVICES


def for_design(wished: Design, devices: Sequence[Device] | None = None) -> Choice:
    """Return the simplest devices whose probabilities are a design's, or lie nearest.

    Raises:
        DesignError: No device can give its orders, or what the nearest one gives says nothing.
    """
    of = usual(wished.name) if devices is None else devices
    acts = draws(wished)
    try:
        splits = tuple(simplest(draw.wanted, of) for draw in acts)
    except ValueError as error:
        raise DesignError(f"{wished.name}: {error}") from None
    return Choice(realised(wished, splits), acts, splits)


def for_epsilon(
    choices: Family, epsilon: float, devices: Sequence[Device] = DEVICES
) -> Choice | None:
    """Return the devices whose epsilon comes nearest to one from below; None if none does."""
    if not epsilon > 0:
        raise DesignError(f"epsilon must be above 0, got {epsilon}")
    split = largest_epsilon(devices, choices.parts, lambda p: _epsilon(choices, p), epsilon)
    if split is None:
        return None
    probabilities = split.probabilities
    some = [place for place, chance in enumerate(probabilities) if chance]
    draw = Draw(
        tuple(choices.orders[place] for place in some),
        tuple(probabilities[place] for place in some),
    )
    kept = Split(split.device, tuple(split.parts[place] for place in some))
    return Choice(choices.design(probabilities), (draw,), (kept,))


def _epsilon(choices: Family, probabilities: Sequence[Fraction]) -> float:
    try:
        return choices.epsilon(choices.design(probabilities))
    except DesignError:
        return 0.0  # says nothing
