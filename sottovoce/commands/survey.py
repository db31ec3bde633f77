"""Surveys: in the browser, on paper, and what comes of them.

`sottovoce survey ACT --help` says more about each.
"""

import argparse
from importlib import import_module

ACTS: dict[str, str] = {
    "new": "write an example survey to begin with",
    "check": "check the file of a survey: epsilon, odds, deniability, errors",
    "plan": "how many answers a survey takes, in the browser or on paper, and which dice",
    "serve": "ask people in their browsers, everything on this machine",
    "invite": "make links that are good for one answer each",
    "results": "what came of a survey, or what comes of it so far",
    "close": "end a survey before its last day, for good",
    "export": "the reports as R reads them, to check the results with other programs",
    "cards": "print a question for paper: instructions, answer cards, slips, tally sheet",
    "estimate": "what the answers of a survey on paper or in interviews say",
}
"""Each is a module in `sottovoce/surveys/`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="act", title="acts", metavar="ACT", required=True)
    for name, told in ACTS.items():
        module = import_module(f"sottovoce.surveys.{name}")
        act = acts.add_parser(
            name,
            help=told,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(act)


def run(args: argparse.Namespace) -> int:
    return int(import_module(f"sottovoce.surveys.{args.act}").run(args))
