"""Options by which a paper design is named: its parameters, or an epsilon and a device."""

import argparse
from collections.abc import Sequence
from fractions import Fraction

from estimator.designs.base import Design, DesignError, exact
from estimator.designs.catalogue import CATALOGUE, all_parameters, design, parameters
from estimator.designs.choosing import Choice, for_epsilon, usual
from estimator.designs.devices import CHOICES, Device
from estimator.designs.draws import family

_HELP = {
    "p": "P(the sensitive question or statement); of crosswise and triangular the rate of the "
    "harmless statement",
    "q": "of unrelated: rate of yes to the harmless question",
    "answers": "of matrix: names, with commas",
    "matrix": "of matrix: P(report | truth), rows with ';' between them",
    "items": "of item-count: number of harmless statements",
    "truth": "P(the truth is asked for)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a design."""
    group = parser.add_argument_group("the design")
    group.add_argument(
        "--design", choices=list(CATALOGUE), metavar="NAME", help=", ".join(CATALOGUE)
    )
    for name in all_parameters():
        group.add_argument(f"--{name.replace('_', '-')}", metavar="X", help=_HELP.get(name))
    group.add_argument(
        "--epsilon", type=float, metavar="E", help="instead of parameters: what it may cost at most"
    )
    group.add_argument(
        "--device", choices=list(CHOICES), help="what there is; by default the simplest that fits"
    )


def given(args: argparse.Namespace) -> dict[str, object]:
    """Return the parameters that were given."""
    return {name: value for name in all_parameters() if (value := getattr(args, name)) is not None}


def devices_of(args: argparse.Namespace) -> Sequence[Device] | None:
    """Return the devices among which to choose; None: those that are usual."""
    return None if args.device is None else CHOICES[args.device]


def wished(args: argparse.Namespace) -> Design:
    """Return the design of the options, as wished for.

    Raises:
        DesignError: Options are missing, or break a rule.
    """
    if args.design is None:
        raise DesignError(f"--design must be given, one of {', '.join(CATALOGUE)}")
    if args.epsilon is None:
        return design(args.design, given(args))
    return chosen(args).design


def chosen(args: argparse.Namespace, devices: Sequence[Device] | None = None) -> Choice:
    """Return the devices that come nearest to --epsilon from below.

    Args:
        args: With a design and an epsilon.
        devices: Instead of those of the options.
    """
    told = given(args)
    rest = {key: told.pop(key) for key in ("q", "answers") if key in told}
    if told:
        raise DesignError(f"--epsilon chooses the parameters: leave out {', '.join(sorted(told))}")
    for key in rest:
        if key not in parameters(args.design):
            raise DesignError(f"{args.design} has no parameter {key!r}")
    q: Fraction | None = exact("q", str(rest["q"])) if "q" in rest else None
    answers = [part.strip() for part in str(rest.get("answers", "")).split(",") if part.strip()]
    of = devices or devices_of(args) or usual(args.design)
    choice = for_epsilon(family(args.design, q=q, answers=answers), args.epsilon, of)
    if choice is None:
        raise DesignError(
            f"no such device keeps {args.design} within epsilon {args.epsilon:g}: a larger "
            "epsilon, another device, or --device slips"
        )
    return choice
