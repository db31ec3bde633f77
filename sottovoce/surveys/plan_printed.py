"""Plans of surveys, for the terminal."""

import math
from fractions import Fraction
from typing import Any

from sottovoce.table import percent, table


def design(plan: dict[str, Any]) -> None:
    """Print the plan of one design."""
    needs = " and ".join(plan["needs"]) or "no device"
    parameters = _stated(plan["parameters"])
    print(f"{plan['design']}{', ' if parameters else ''}{parameters}: {needs}")
    if plan["wished"] not in (None, plan["parameters"]):
        print(f"  wished for {_stated(plan['wished'])}; this is the nearest")
    for odds in plan["odds"]:
        for values, chance in odds.items():
            print(f"  {values}: {chance}")
    if not plan["exact"]:
        print("  odds by the calendar: births are not spread quite evenly over the year")
    if math.isinf(plan["epsilon"]):
        print("epsilon: none that holds for every answer")
        for proof in plan["proofs"]:
            print(f"  {proof}")
    else:
        print(f"epsilon {plan['epsilon']:.3f}")
    level = f"{100 * plan['level']:g} %"
    print(f"\nat a true share of {percent(plan['share'], 0)}, {plan['answers']:,} answers:")
    print(f"  standard error {percent(plan['standard_error'])}")
    print(
        f"  margin +- {percent(plan['margin'])} ({level}); at worst, at a share of "
        f"{percent(plan['worst_share'], 0)}, +- {percent(plan['worst_margin'])}"
    )
    print(f"  your {plan['answers']:,} answers are worth {plan['worth']:,.0f} direct ones")
    if "wanted_margin" in plan:
        wanted = plan["wanted_margin"]
        print(f"  a margin of +- {percent(wanted['margin'])} takes {wanted['answers']:,} answers")
    if "groups" in plan:
        groups = plan["groups"]
        one, other = (percent(share, 0) for share in groups["shares"])
        print(
            f"  two groups of {groups['answers_each']:,} with {one} and {other}: called different "
            f"{100 * groups['power']:.0f} times in 100; for {100 * groups['wanted_power']:.0f} "
            f"take {groups['answers_each_for_power']:,} in each"
        )
    if plan["devices"]:
        print("\n" + _devices(plan))


def _devices(plan: dict[str, Any]) -> str:
    rows = [
        (
            row["device"],
            _stated(row["parameters"]),
            _epsilon(row["epsilon"]),
            percent(row["standard_error"]),
            f"{row['worth']:,.0f}",
        )
        for row in plan["devices"]
    ]
    return table(("device", "gives", "epsilon", "error", "worth"), rows, left=2)


def _stated(parameters: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in parameters.items())


def _epsilon(value: float) -> str:
    return "none" if math.isinf(value) else f"{value:.3f}"


def survey(plan: dict[str, Any]) -> None:
    """Print the plan of a browser survey."""
    margin, level = plan["wanted_margin"], f"{100 * plan['level']:g} %"
    print(
        f"{plan['survey']}: {plan['answers']:,} answers each, a true share of "
        f"{percent(plan['share'], 0)}"
    )
    rows = [
        (
            each["question"],
            " and ".join(each["paper"]["needs"]),
            _epsilon(each["browser"]["epsilon"]),
            _epsilon(each["paper"]["epsilon"]),
            percent(each["browser"]["standard_error"]),
            percent(each["paper"]["standard_error"]),
            f"{each['browser']['worth']:,.0f}",
            *(() if margin is None else (f"{each['browser']['answers_for_margin']:,}",)),
        )
        for each in plan["questions"]
    ]
    header = (
        *("question", "on paper", "epsilon: browser", "paper", "error: browser", "paper", "worth"),
        *(() if margin is None else (f"answers for +- {percent(margin, 1)}",)),
    )
    print(table(header, rows, left=2))
    print(
        "error  standard error of the share of a question's first answer\n"
        f"worth  how many direct answers tell as much as {plan['answers']:,} in the browser"
    )
    if margin is not None:
        print(f"answers for a {level} interval in the browser that reaches so far to each side")
    print("\nTo estimate both modes together, each in its own stratum (docs/paper.md):")
    print(table(("question", "parameter", "browser", "on paper"), _parameters(plan), left=2))


def _parameters(plan: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return each parameter in both modes: the browser's to 12 digits, the paper's exactly."""
    return [
        (
            each["question"],
            name,
            f"{float(Fraction(value)):.12g}",
            each["paper"]["parameters"][name],
        )
        for each in plan["questions"]
        for name, value in each["browser"]["parameters"].items()
    ]
