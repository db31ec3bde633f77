"""Estimates of a survey on paper, in interviews or by phone, from its file of answers or counts.

FILE is CSV with a header, or JSON; - is standard input. Either a row is one respondent:
  answer,age,sex      the answer in the design's words, or 1 and 0; blank or "refused" is no answer
or a row is many, with a column `count`, or with a column of counts for each report:
  yes,no,blank,refused
Columns with a meaning: weight (people that a respondent stands for), stratum (with --stratum for
each), sample (of designs with two), respondent (several lines may be one's), and any parameter of
the design: then each row has its own, as where a survey has several birthday questions. Other
columns are left alone until --by or --covariates names them. JSON is
  {"design": {"name": "warner", "p": "0.7"}, "rows": [{"answer": "yes"}, ...]}
or "counts": {"yes": 60, "no": 65} for rows; "population", "strata" and "one" may stand there, too.

Bad rows are all named by line, and then nothing is used. Estimates below 0 or above 1 are printed,
and it is said whether that is noise or a misfit. Errors are corrected for a finite population
where its size is given.

An example of each design:
  sottovoce survey estimate answers.csv --design direct
  sottovoce survey estimate answers.csv --design warner --p 0.7
  sottovoce survey estimate answers.csv --design two-coins
  sottovoce survey estimate answers.csv --design forced --forced-yes 1/6 --forced-no 1/6
  sottovoce survey estimate answers.csv --design forced --truth 3/4 --yes-if-forced 2/3
  sottovoce survey estimate answers.csv --design unrelated --p 1/2 --q 1/12
  sottovoce survey estimate answers.csv --design unrelated-unknown --p1 0.7 --p2 0.3
  sottovoce survey estimate answers.csv --design mangat --p 0.6
  sottovoce survey estimate answers.csv --design kuk --red-if-yes 0.8 --red-if-no 0.2
  sottovoce survey estimate answers.csv --design kuk-draws --red-if-yes 0.8 --red-if-no 0.2 \\
    --draws 3
  sottovoce survey estimate answers.csv --design crosswise --p 1/4 --one same
  sottovoce survey estimate answers.csv --design triangular --p 1/4 --one triangle
  sottovoce survey estimate answers.csv --design lie-detector --p1 2/12 --p2 10/12
  sottovoce survey estimate answers.csv --design item-count --items 4
  sottovoce survey estimate answers.csv --design matrix --answers never,once,often --truth 1/2
  sottovoce survey estimate answers.csv --design matrix --answers a,b --matrix "0.9 0.1; 0.2 0.8"
Groups and causes:
  sottovoce survey estimate answers.csv --design warner --p 0.7 --by sex
  sottovoce survey estimate answers.csv --design warner --p 0.7 --covariates age,sex
"""

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.surveys import design_options

if TYPE_CHECKING:
    from estimator.designs.analysis import Request
    from estimator.designs.table import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="answers or counts, CSV or JSON")
    parser.add_argument("--design", metavar="NAME", help="how people were asked: see above")
    group = parser.add_argument_group("parameters of the design", "numbers, or fractions like 1/6")
    design_options.add_parameters(group)
    reading = parser.add_argument_group("reading the file")
    reading.add_argument("--answer", default="answer", metavar="COLUMN", help="of answers (answer)")
    reading.add_argument("--one", metavar="REPORT", help="which report the file codes as 1")
    reading.add_argument("--population", type=int, metavar="N", help="people in the population")
    reading.add_argument(
        "--stratum",
        action="append",
        default=[],
        metavar="NAME=N",
        help="people in one stratum; for each of them",
    )
    wanted = parser.add_argument_group("what is wanted")
    wanted.add_argument("--by", metavar="COLUMN", help="compare the groups of a column")
    wanted.add_argument(
        "--covariates", metavar="COLUMNS", help="logistic regression on these columns, with commas"
    )
    wanted.add_argument("--level", type=float, default=0.95, help="of intervals (0.95)")
    wanted.add_argument(
        "--variance", choices=("n-1", "n"), default="n-1", help="divisor of variances (n-1)"
    )
    wanted.add_argument(
        "--exact", action="store_true", help="Clopper and Pearson's intervals, not Wilson's"
    )
    form = wanted.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the result as JSON")
    form.add_argument("--csv", action="store_true", help="print the numbers as CSV")


def run(args: argparse.Namespace) -> int:
    from estimator.designs.analysis import analyse
    from estimator.designs.document import ROW, document, rows
    from estimator.designs.table import read
    from sottovoce.surveys.estimate_printed import print_analysis

    read_in = read(_text(args.file))
    request = _request(args, read_in)
    analysis = analyse(read_in, request)
    if args.json:
        print(json.dumps(document(analysis, request), indent=2, allow_nan=False))
    elif args.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(ROW)
        writer.writerows(rows(analysis))
    else:
        print_analysis(analysis, request)
    return 0


def _text(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(
            f"{file} is not UTF-8: save it from the spreadsheet as CSV UTF-8"
        ) from None


def _request(args: argparse.Namespace, read_in: "Table") -> "Request":
    """Return what is asked for: by the document, or by options; nothing by both."""
    from estimator.designs.analysis import Request
    from estimator.designs.answers import Reading
    from estimator.errors import DocumentError

    given = design_options.given(args)
    name, own = args.design, read_in.said.get("design")
    if own is not None:
        if name is not None or given:
            raise ValueError("the document states the design: leave --design and parameters out")
        if not isinstance(own, dict) or not isinstance(own.get("name"), str):
            raise DocumentError("design", 'must be {"name": ..., parameters}', own)
        name = own["name"]
        given = {key: value for key, value in own.items() if key != "name"}
    if name is None:
        raise ValueError("say how people were asked: --design NAME")
    options = {"strata": args.stratum or None, "population": args.population, "one": args.one}
    twice = [
        key
        for key, option in options.items()
        if option is not None and read_in.said.get(key) is not None
    ]
    if twice:
        raise ValueError(f"the document states {', '.join(twice)}: leave the options out")
    strata = dict(_stratum(text) for text in args.stratum) or read_in.said.get("strata") or {}
    if not isinstance(strata, dict) or not all(_is_whole(size) for size in strata.values()):
        raise DocumentError("strata", "must give people by name", strata)
    population = args.population
    if population is None:
        population = read_in.said.get("population")
        if population is not None and not _is_whole(population):
            raise DocumentError("population", "must be a whole number", population)
    one = args.one or read_in.said.get("one")
    if one is not None and not isinstance(one, str):
        raise DocumentError("one", "must be the name of a report", one)
    covariates = tuple(dict.fromkeys(_names(args.covariates)))
    others = tuple(dict.fromkeys([*covariates, *([args.by] if args.by else [])]))
    reading = Reading(name, given, args.answer, one, tuple(strata), others)
    return Request(
        reading,
        args.level,
        args.variance,
        "clopper_pearson" if args.exact else "wilson",
        population,
        strata,
        args.by,
        covariates,
    )


def _names(text: str | None) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()] if text else []


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _stratum(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isdigit():
        raise ValueError(f"--stratum must be NAME=PEOPLE, got {text!r}")
    return name, int(size)
