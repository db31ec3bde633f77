"""Write a survey's reports as R reads them, to check the results with other people's programs.

Of each question responses_QUESTION.csv with one row per report, in the order of answers and not of
arrival; design.csv, how R's packages rr and RRreg are told of the chances; expected.csv, our
estimates and errors; analysis.R, which estimates anew and compares. Nothing in them says more than
the results do: they are counted out from those.
"""

import argparse
from pathlib import Path

from sottovoce.surveys.places import add_place_arguments, found_at


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place_arguments(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="directory to write to; made if new"
    )


def run(args: argparse.Namespace) -> int:
    from estimator.surveys.export import exported

    found = found_at(args)
    texts = exported(found.survey, found.results)
    args.out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (args.out / name).write_text(text, encoding="utf-8", newline="")
    left_out = [each.question.name for each in found.results if not each.answers]
    print(f"{len(texts)} files are in {args.out}: {', '.join(texts)}")
    if left_out:
        print(f"Left out, for they have no figures yet: {', '.join(left_out)}")
    return 0
