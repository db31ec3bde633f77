"""Plan a survey: how many answers it takes, what they tell, which dice, before anybody is asked.

Says for a design what its device's odds are and what epsilon they give, how exact an estimate will
be, how many answers a margin or a difference between two groups takes, and how many direct answers
would tell as much; and compares devices. With --survey how exact each question of a browser survey
will be, in the browser and on paper, and with --margin how many answers it takes.

Errors are those of respondents who keep to the instructions, in equal samples, at the true share
that is supposed.
"""

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.surveys import design_options, plan_printed

if TYPE_CHECKING:
    from fractions import Fraction

    from estimator.designs.base import Design
    from estimator.designs.choosing import Choice

EPILOG = """\
examples:
  sottovoce survey plan --design warner --p 0.7
  sottovoce survey plan --design warner --epsilon 1 --share 0.1     dice for an epsilon
  sottovoce survey plan --design two-coins --margin 0.03            answers for a margin
  sottovoce survey plan --design forced --forced-yes 1/6 --forced-no 1/6 \\
    --answers 400 --share 0.2 --difference 0.1                      power between two groups
  sottovoce survey plan --design matrix --values 5 --epsilon 1.5    one of five answers
  sottovoce survey plan --survey habits.toml --margin 0.05          a survey in the browser
"""
_NAMELESS = ("unrelated-unknown", "item-count")
"""Designs whose harmless rate is no parameter, but decides how exact they are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    design_options.add_arguments(parser, without=("answers", "matrix"))
    asked = parser.add_argument_group("of whom, how exact")
    asked.add_argument(
        "--answers", type=int, default=1000, metavar="N", dest="n", help="of people (1000)"
    )
    asked.add_argument(
        "--share", type=float, default=0.2, metavar="PI", help="true share supposed (0.2)"
    )
    asked.add_argument(
        "--margin", type=float, metavar="M", help="how many answers share +- M takes"
    )
    asked.add_argument(
        "--difference", type=float, metavar="D", help="of a second group, whose share is PI + D"
    )
    asked.add_argument("--power", type=float, default=0.8, help="wanted, with --difference (0.8)")
    asked.add_argument("--level", type=float, default=0.95, help="of margins and tests (0.95)")
    asked.add_argument("--values", type=int, metavar="K", help="matrix: number of answers")
    asked.add_argument(
        "--survey", type=Path, metavar="SURVEY.toml", help="all questions of a browser survey"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    _check(args)
    document = _of_survey(args) if args.survey is not None else _of_design(args)
    if args.json:
        print(json.dumps(_finite(document), indent=2, allow_nan=False))
    elif args.survey is not None:
        plan_printed.survey(document)
    else:
        plan_printed.design(document)
    return 0


def _check(args: argparse.Namespace) -> None:
    if not 0 <= args.share <= 1:
        raise ValueError(f"--share must be in 0..1, got {args.share}")
    if not 0 < args.level < 1:
        raise ValueError(f"--level must be in 0..1, got {args.level}")
    if args.n < 1:
        raise ValueError(f"--answers must be at least 1, got {args.n}")
    if args.values is not None and not 2 <= args.values <= 50:
        raise ValueError(f"--values must be in 2..50, got {args.values}")
    if args.difference is not None and not 0 <= args.share + args.difference <= 1:
        raise ValueError(
            f"--difference must keep the second share in 0..1, got {args.share + args.difference:g}"
        )


def _of_design(args: argparse.Namespace) -> dict[str, Any]:
    """Return the plan of one design: of the simplest device, and of all others."""
    from estimator.designs.base import DesignError
    from estimator.designs.choosing import for_design
    from sottovoce.surveys.paper.procedure import TWO_FACTS

    told = design_options.given(args)
    harmless = _harmless(args, told)
    if args.values is not None:
        told["answers"] = ",".join(f"answer {number}" for number in range(1, args.values + 1))
    wished = design_options.wished(args, told)
    devices = design_options.devices_of(args)
    if args.epsilon is None:
        best = for_design(wished, devices)
    else:
        best = design_options.chosen(args, told, devices)
    rows = []
    for name in design_options.DEVICES:
        if name == "birthdays" and wished.name not in TWO_FACTS:
            continue
        try:
            choice = _of_device(args, told, wished, name)
        except DesignError:
            continue
        if choice.splits:
            rows.append({"device": name} | _figures(args, choice, harmless))
    return {
        "wished": _stated(wished) if args.epsilon is None else None,
        **_figures(args, best, harmless),
        **_needed(args, best.design, harmless),
        "level": args.level,
        "devices": rows,
    }


def _of_device(
    args: argparse.Namespace, told: dict[str, object], wished: "Design", name: str
) -> "Choice":
    from estimator.designs.choosing import for_design
    from estimator.designs.devices import CHOICES

    if args.epsilon is None:
        return for_design(wished, CHOICES[name])
    return design_options.chosen(args, told, CHOICES[name])


def _harmless(args: argparse.Namespace, told: dict[str, object]) -> "Fraction":
    """Return the supposed rate of harmless statements of designs that do not state it."""
    from estimator.designs.base import exact
    from estimator.planning.paper import HALF

    if args.design in _NAMELESS and "q" in told:
        return exact("q", str(told.pop("q")))
    return HALF


def _stated(design: "Design") -> dict[str, str]:
    from sottovoce.surveys.paper.tally import stated

    return {name: value for name, value in stated(design).items() if name != "answers"}


def _figures(args: argparse.Namespace, choice: "Choice", harmless: "Fraction") -> dict[str, Any]:
    from estimator.planning.paper import outlook
    from sottovoce.surveys.paper.stating import needs
    from sottovoce.surveys.paper.words import words_of

    found = outlook(choice.design, args.share, args.n, level=args.level, harmless=harmless)
    english = words_of("en")
    return {
        "design": choice.design.name,
        "parameters": _stated(choice.design),
        "needs": needs(choice, english),
        "odds": [
            {english.values(split.device, part): str(split.device.probability(part))}
            for split in choice.splits
            for part in split.parts
        ],
        "exact": choice.exact,
        "epsilon": choice.design.epsilon,
        "proofs": list(choice.design.proofs),
        "answers": found.n,
        "share": found.share,
        "standard_error": found.standard_error,
        "margin": found.margin,
        "worst_margin": found.worst_margin,
        "worst_share": found.worst_share,
        "worth": found.worth,
    }


def _needed(args: argparse.Namespace, design: "Design", harmless: "Fraction") -> dict[str, Any]:
    from estimator.planning.paper import answers_for_margin, answers_for_power, power

    found: dict[str, Any] = {}
    if args.margin is not None:
        needed = answers_for_margin(
            design, args.share, args.margin, level=args.level, harmless=harmless
        )
        found["wanted_margin"] = {"margin": args.margin, "answers": needed}
    if args.difference is not None:
        shares, each = (args.share, args.share + args.difference), args.n // 2
        if each < 1:
            raise ValueError(f"--difference takes two groups, got {args.n} answers")
        found["groups"] = {
            "shares": list(shares),
            "answers_each": each,
            "power": power(design, shares, each, level=args.level, harmless=harmless),
            "wanted_power": args.power,
            "answers_each_for_power": answers_for_power(
                design, shares, args.power, level=args.level, harmless=harmless
            ),
        }
    return found


def _of_survey(args: argparse.Namespace) -> dict[str, Any]:
    """Return the plan of each question of a browser survey, in the browser and on paper."""
    from client_sdk.survey import load_survey
    from estimator.planning.paper import HALF, answers_for_margin, outlook
    from sottovoce.surveys.paper import mixed

    design_options.refuse_beside_survey(args, ("values", "difference"))
    survey = load_survey(args.survey)
    devices = design_options.devices_of(args)
    questions = []
    for question, asked in zip(
        survey.questions,
        mixed.procedures(survey, survey.languages[0], devices),
        strict=True,
    ):
        in_browser = mixed.browser_design(question)
        browser = outlook(in_browser, args.share, args.n, level=args.level)
        paper = _figures(args, asked.choice, HALF)
        questions.append(
            {
                "question": question.name,
                "answer": question.answers[0].name,
                "browser": {
                    "parameters": _stated(in_browser),
                    "epsilon": asked.browser_epsilon,
                    "standard_error": browser.standard_error,
                    "margin": browser.margin,
                    "worth": browser.worth,
                }
                | (
                    {}
                    if args.margin is None
                    else {
                        "answers_for_margin": answers_for_margin(
                            in_browser, args.share, args.margin, level=args.level
                        )
                    }
                ),
                "paper": paper | {"epsilon": asked.epsilon},
            }
        )
    return {
        "survey": survey.name,
        "answers": args.n,
        "share": args.share,
        "level": args.level,
        "wanted_margin": args.margin,
        "questions": questions,
    }


def _finite(value: Any) -> Any:
    """Return a document with null for what is infinite: JSON has no word for it."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and math.isinf(value) else value
