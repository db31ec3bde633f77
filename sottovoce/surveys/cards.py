"""Print a question for paper: instruction sheets, answer cards, slips and a tally sheet.

The device is the simplest one (coins, dice, numbered slips) whose probabilities are exactly those
of the design; where there is none, the nearest, and then the design printed is the device's. With
--survey the questions of a browser survey, by devices of the same odds or of a little less epsilon.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.surveys import design_options

if TYPE_CHECKING:
    from sottovoce.surveys.paper.procedure import Procedure

EPILOG = """\
examples:
  sottovoce survey cards --design warner --p 0.7 --question "Have you ever ...?" --out sheet.pdf
  sottovoce survey cards --design two-coins --question "Have you ever ...?" --out sheet.html
  sottovoce survey cards --design forced --forced-yes 1/6 --forced-no 1/12 --device dice \\
    --question "Have you ever ...?" --out sheet.pdf --paper letter
  sottovoce survey cards --design warner --epsilon 1 --question "Have you ...?" --out sheet.pdf
  sottovoce survey cards --design crosswise --p 1/4 --question "I have ..." --out sheet.pdf
  sottovoce survey cards --survey habits.toml --language ar --parts sheets,cards --out sheet.pdf
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    design_options.add_arguments(parser)
    asked = parser.add_argument_group("what is asked")
    asked.add_argument("--question", metavar="TEXT", help="as printed; of statements a statement")
    asked.add_argument("--opposite", default="", metavar="TEXT", help="of warner: statement B")
    asked.add_argument(
        "--harmless", default="", metavar="TEXT", help="second question of known rate (a birthday)"
    )
    asked.add_argument(
        "--item", action="append", default=[], metavar="TEXT", help="of item-count; once for each"
    )
    asked.add_argument(
        "--survey", type=Path, metavar="SURVEY.toml", help="all questions of a browser survey"
    )
    shown = parser.add_argument_group("what is printed")
    shown.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="ends with .html or .pdf"
    )
    shown.add_argument("--language", metavar="TAG", help="en, de, ar (en; of a survey, its first)")
    shown.add_argument("--copies", type=int, default=20, metavar="N", help="answer cards (20)")
    shown.add_argument(
        "--parts",
        metavar="LIST",
        help="of sheets,interviewer,tallies,slips,cards (all): to print cards alone, or what the "
        "team keeps in another language than what respondents read",
    )
    shown.add_argument(
        "--paper", choices=("a4", "letter"), default="a4", help="of a PDF (a4); HTML prints on both"
    )


def run(args: argparse.Namespace) -> int:
    from sottovoce.surveys.paper import html, pdf, sheet
    from sottovoce.surveys.paper.words import words_of

    if args.out.suffix not in (".html", ".pdf"):
        raise ValueError(f"--out must end with .html or .pdf, got {args.out}")
    asked, language = _asked(args)
    parts = sheet.PARTS if args.parts is None else [*map(str.strip, args.parts.split(","))]
    document = sheet.document(asked, words_of(language), copies=args.copies, parts=parts)
    if args.out.suffix == ".html":
        args.out.write_text(html.page_of(document), "utf-8")
    else:
        args.out.write_bytes(pdf.pdf_of(document, args.paper))
    for each in asked:
        print(_told(each))
    print(f"wrote {args.out}")
    return 0


def _asked(args: argparse.Namespace) -> "tuple[list[Procedure], str]":
    """Return the questions, and the language to print them in."""
    from client_sdk.survey import load_survey
    from sottovoce.surveys.paper import mixed
    from sottovoce.surveys.paper.words import languages

    if args.survey is None:
        return [_own(args)], args.language or languages()[0]
    design_options.refuse_beside_survey(args, ("question", "opposite", "harmless", "item"))
    survey = load_survey(args.survey)
    language = args.language or survey.languages[0]
    return mixed.procedures(survey, language, design_options.devices_of(args)), language


def _own(args: argparse.Namespace) -> "Procedure":
    from sottovoce.surveys.paper.procedure import procedure

    if args.question is None:
        raise ValueError("--question must be given, or --survey")
    if args.design == "item-count" and args.items is None:
        args.items = str(len(args.item))
    return procedure(
        design_options.wished(args),
        args.question,
        devices=design_options.devices_of(args),
        opposite=args.opposite,
        harmless=args.harmless,
        items=args.item,
    )


def _told(asked: "Procedure") -> str:
    from sottovoce.surveys.paper.stating import epsilon, needs, parameters
    from sottovoce.surveys.paper.words import words_of

    english = words_of("en")
    parts = [asked.design.name, parameters(asked.design)]
    parts += needs(asked.choice, english)
    parts.append(f"epsilon {epsilon(asked, english)}")
    if asked.wished is not None:
        parts.append(f"wished for {parameters(asked.wished)}")
    return (f"{asked.name}: " if asked.name else "") + ", ".join(part for part in parts if part)
