"""Options by which a paper design is named: its parameters, or an epsilon, and a device.

What computes is imported when it is needed: other acts of `sottovoce survey` do without numpy.
"""

import argparse
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from estimator.designs.base import Design
    from estimator.designs.choosing import Choice
    from estimator.designs.devices import Device

PARAMETERS = {
    "p": "chance of the sensitive question; crosswise, triangular: share of yes to the other",
    "q": "unrelated: share of yes to the harmless question",
    "p1": "chance of the sensitive question in sample 1",
    "p2": "chance of the sensitive question in sample 2",
    "truth": "forced, two-coins, matrix: chance of being asked for the truth",
    "second": "two-coins: chance that the second coin says yes",
    "forced_yes": "forced: chance of the order to say yes",
    "forced_no": "forced: chance of the order to say no",
    "yes_if_forced": "forced, with --truth: chance of yes among the orders",
    "red_if_yes": "kuk: share of red cards in the deck of those who hold it",
    "red_if_no": "kuk: share of red cards in the other deck",
    "draws": "kuk-draws: cards that each respondent draws",
    "items": "item-count: statements on the short list",
    "answers": "matrix: answers, with commas",
    "matrix": "matrix: P(report | truth), rows by truth, with ; between them",
    "reports": "matrix: names of the reports, if not those of the answers",
}
"""Of all designs."""
_ESTIMATED_ONLY = ("draws", "reports")
"""Of estimates only: several draws from Kuk's decks, and reports that are not called as answers."""
DEVICES = ("coins", "die", "dice", "ten-sided", "cards", "slips", "birthdays")
"""The keys of `estimator.designs.devices.CHOICES`."""


def add_arguments(parser: argparse.ArgumentParser, *, without: Sequence[str] = ()) -> None:
    """Add the options of a design.

    Args:
        parser: Of an act.
        without: Parameters that the act names otherwise.
    """
    group = parser.add_argument_group("the design", "numbers, or fractions like 1/6")
    group.add_argument("--design", metavar="NAME", help="as of sottovoce survey estimate")
    add_parameters(group, without=(*without, *_ESTIMATED_ONLY))
    group.add_argument(
        "--epsilon", type=float, metavar="E", help="instead of parameters: what it may cost at most"
    )
    group.add_argument("--device", choices=DEVICES, help="what there is (the simplest that fits)")


def add_parameters(group: argparse._ArgumentGroup, *, without: Sequence[str] = ()) -> None:
    """Add the parameters of designs, but some."""
    for name, told in PARAMETERS.items():
        if name not in without:
            group.add_argument(f"--{name.replace('_', '-')}", metavar="X", help=told)


def given(args: argparse.Namespace) -> dict[str, object]:
    """Return the parameters that were given."""
    return {name: value for name in PARAMETERS if (value := getattr(args, name, None)) is not None}


def refuse_beside_survey(args: argparse.Namespace, others: Sequence[str]) -> None:
    """Raise ValueError for options that say what the file of --survey says.

    Args:
        args: Of an act.
        others: Options of the act that do so, but those of a design.
    """
    own = ("design", "epsilon", *others)
    found = [*given(args), *(name for name in own if getattr(args, name) not in (None, "", []))]
    if found:
        raise ValueError(f"--survey says what is asked: leave out {_as_options(found)}")


def _as_options(names: Iterable[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def devices_of(args: argparse.Namespace) -> "Sequence[Device] | None":
    """Return the devices among which to choose; None: those that are usual."""
    from estimator.designs.devices import CHOICES

    return None if args.device is None else CHOICES[args.device]


def wished(args: argparse.Namespace, told: dict[str, object] | None = None) -> "Design":
    """Return the design of the options, as wished for.

    Args:
        args: With a design.
        told: Parameters, if not those that were given.

    Raises:
        DesignError: Options are missing, or break a rule.
    """
    from estimator.designs.base import DesignError
    from estimator.designs.catalogue import CATALOGUE, design
    from estimator.designs.kuk import KukDraws

    if args.design is None:
        raise DesignError(f"--design must be given, one of {', '.join(CATALOGUE)}")
    if args.design == KukDraws.name:
        raise DesignError(
            f"{args.design} is for estimates only: take kuk, of which each draw costs the epsilon"
        )
    own = given(args) if told is None else told
    if args.epsilon is None:
        return design(args.design, own)
    return chosen(args, own, devices_of(args)).design


def chosen(
    args: argparse.Namespace, told: dict[str, object], devices: "Sequence[Device] | None"
) -> "Choice":
    """Return the devices that come nearest to --epsilon from below.

    Args:
        args: With a design and an epsilon.
        told: What else is known of the design.
        devices: Among which to choose; None: those that are usual.
    """
    from estimator.designs.base import DesignError, exact
    from estimator.designs.catalogue import parameters
    from estimator.designs.choosing import for_epsilon, usual
    from estimator.designs.draws import family

    known = set(parameters(args.design)) & {"q", "answers"}
    if set(told) - known:
        names = _as_options(sorted(set(told) - known))
        raise DesignError(f"--epsilon chooses the parameters: leave out {names}")
    q: Fraction | None = exact("q", str(told["q"])) if "q" in told else None
    answers = [part.strip() for part in str(told.get("answers", "")).split(",") if part.strip()]
    of = usual(args.design) if devices is None else devices
    choice = for_epsilon(family(args.design, q=q, answers=answers), args.epsilon, of)
    if choice is None:
        raise DesignError(
            f"no such device keeps {args.design} within epsilon {args.epsilon:g}: take a larger "
            "epsilon, or --device slips"
        )
    return choice
