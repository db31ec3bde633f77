"""Plan a question: how exact its answer will be, and what it costs, before a device reports.

Says for every mechanism that can answer what n reports tell: standard errors, what is visible at
all, intervals, the worst that fakes can do, bytes and counters. And the other way round: how many
devices or how much epsilon a target takes, how long a budget lasts, what spreading costs. Nothing
is simulated and nothing is sent: the figures are those of the mechanisms that devices run.

Exit status 0: the smallest share that matters is visible, or no formula says it; 1: it is not, and
what would help is said; 2: the question cannot be asked.
"""

import argparse
import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, get_args

from client_sdk import load
from client_sdk.declaration.table import MOST_VALUES
from client_sdk.epochs import LENGTHS
from client_sdk.metric import Memoize, MetricType
from estimator.drawing import svg_of
from estimator.planning.curves import Curve, chart, curves
from estimator.planning.inverse import Needed, Target, needed
from estimator.planning.of_file import planned
from estimator.planning.question import COMMON_SHARE, LEVEL, Question, made_up
from estimator.planning.ranking import Ranking, rank
from estimator.planning.spending import Lifetime, Spread, lifetime, spreading
from estimator.planning.verdict import Verdict, verdict
from sottovoce import plan_tables
from sottovoce.interview import terminal as interactive

MOST_BUDGET = 1000
"""As of a file's lifetime_epsilon."""

EPILOG = """\
examples:
  sottovoce plan --devices 20000                            a yes/no question at epsilon 1
  sottovoce plan --values 172 --devices 1000000             one of 172, all mechanisms compared
  sottovoce plan --values 172 --devices 5000 --share 0.02   can 2 % be seen? if not, what helps
  sottovoce plan --range 0 100 --buckets 20 --devices 50000
  sottovoce plan --values 12 --most 3 --devices 50000       up to three of twelve
  sottovoce plan --candidates 50 --devices 50000 --permanent 4 --distinct 2
                                                            strings, remembered: RAPPOR, solved
  sottovoce plan --values 20 --devices 50000 --target-error 0.005
                                                            devices and epsilon for an error
  sottovoce plan --values 20 --devices 50000 --budget 24    how long it lasts, what `every` costs
  sottovoce plan --values 20 --devices 50000 --chart errors.svg --over epsilon
  sottovoce plan metrics.toml --devices 50000               every metric of a file
  sottovoce plan --interactive                              asks in plain words, prints an entry
  sottovoce plan --interactive --write metrics.toml         adds it to a file, which may be new
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "metrics", nargs="?", help="path of metrics.toml: plan what it asks instead of options"
    )
    asked = parser.add_argument_group("what is asked")
    asked.add_argument(
        "--type",
        choices=get_args(MetricType),
        help="by default what the options below say; without them boolean",
    )
    asked.add_argument("--values", type=int, metavar="K", help="number of values of a list")
    asked.add_argument("--most", type=int, metavar="M", help="of several options, most selected")
    asked.add_argument("--range", nargs=2, metavar=("LOW", "HIGH"), help="ends of a number")
    asked.add_argument("--buckets", type=int, default=0, metavar="B", help="of a number (none)")
    asked.add_argument("--candidates", type=int, metavar="C", help="number of strings looked for")
    asked.add_argument("--mechanism", help="look at one mechanism, not at all that can answer")
    price = parser.add_argument_group("of whom, at which price")
    price.add_argument("--devices", type=int, default=10_000, metavar="N", help="(10000)")
    price.add_argument("--epsilon", default="1", metavar="E", help="of one report (1)")
    price.add_argument(
        "--permanent", metavar="E", help="epsilon of all reports of one value: memoize"
    )
    price.add_argument(
        "--distinct", type=int, metavar="D", help="values remembered, with --permanent (1)"
    )
    price.add_argument("--epoch", choices=LENGTHS, default="week", help="(week)")
    price.add_argument("--every", type=int, default=1, help="a device reports in 1 of so many (1)")
    price.add_argument("--sample", default="1", help="part of the devices that take part (1)")
    price.add_argument(
        "--budget", metavar="E", help="epsilon of a device's life: how long it lasts"
    )
    exact = parser.add_argument_group("how exact")
    exact.add_argument(
        "--share",
        type=float,
        metavar="F",
        help="smallest share that matters; of a mean, part of the range (even share, 1 to 5 %%)",
    )
    exact.add_argument(
        "--common", type=float, default=COMMON_SHARE, metavar="F", help=f"({COMMON_SHARE})"
    )
    exact.add_argument("--level", type=float, default=LEVEL, help=f"of intervals ({LEVEL})")
    target = exact.add_mutually_exclusive_group()
    target.add_argument(
        "--target-error", type=float, metavar="S", help="what a standard error of --share takes"
    )
    target.add_argument(
        "--target-limit", type=float, metavar="F", help="what it takes that a share F is visible"
    )
    dialogue = parser.add_argument_group(
        "asked one by one",
        "What a team has to decide is asked in plain words, with a default and a reason, and "
        "checked at once; answers may also come from a pipe, a line each. The entry goes to "
        "standard output, the questions to standard error. Exit status 0: there is a checked "
        "entry; 1: it was not wanted; 2: the answers ended too soon. Until the end nothing is "
        "written.",
    )
    dialogue.add_argument("--interactive", action="store_true", help="ask")
    dialogue.add_argument(
        "--write",
        type=Path,
        metavar="metrics.toml",
        help="add the entry to this file instead of printing it; other metrics stay as they are",
    )
    shown = parser.add_argument_group("how it is shown")
    shown.add_argument("--json", action="store_true", help="print the result as JSON")
    shown.add_argument("--chart", type=Path, metavar="FILE.svg", help="draw errors by mechanism")
    shown.add_argument("--plot", action="store_true", help="draw them in the terminal")
    shown.add_argument(
        "--over", choices=("devices", "epsilon"), default="devices", help="for both (devices)"
    )


def run(args: argparse.Namespace) -> int:
    if args.interactive:
        _refuse_other_options(args)
        return interactive.run(args.write, args.devices)
    if args.write is not None:
        raise ValueError("--write goes with --interactive")
    if args.metrics is not None:
        return _run_file(args)
    question = _question(args)
    if args.chart is not None and args.chart.suffix != ".svg":
        raise ValueError(f"--chart must name a .svg file, got {args.chart}")
    budget = _decimal("--budget", args.budget)
    if budget is not None and not 0 < budget <= MOST_BUDGET:
        raise ValueError(f"--budget must be positive and at most {MOST_BUDGET}, got {args.budget}")
    found = _Plan(question, _target(args), budget)
    lines = curves(found.ranking, args.over) if args.chart or args.plot else ()
    best = found.ranking.best
    if args.chart is not None and best is not None:
        title = plan_tables.title(question, args.over)
        args.chart.write_text(svg_of(chart(lines, args.over, title, best.figures.of)))
    if args.json:
        print(json.dumps(found.document(lines), indent=2))
    else:
        found.print()
        if args.plot:
            print("\n" + plan_tables.plot(lines, args.over))
    return int(found.verdict.answers is False)


def _refuse_other_options(args: argparse.Namespace) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    usual = vars(parser.parse_args([]))
    for name, value in vars(args).items():
        if name not in ("interactive", "write", "devices") and value != usual[name]:
            raise ValueError(f"--interactive asks for it itself: leave out {name}, got {value}")


def _run_file(args: argparse.Namespace) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    for name, default in vars(parser.parse_args([])).items():
        if name not in _OF_A_FILE and getattr(args, name) != default:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is for a question of its own: {args.metrics} says it")
    rows = planned(load(args.metrics), args.devices)
    if args.json:
        metrics = [row.to_dict() for row in rows]
        print(json.dumps({"devices": args.devices, "metrics": metrics}, indent=2))
    else:
        print(plan_tables.of_file(rows, args.devices))
    return int(any(row.verdict.answers is False for row in rows))


class _Plan:
    """All that is said about one question."""

    def __init__(self, question: Question, target: Target | None, budget: Decimal | None) -> None:
        self.question = question
        self.ranking: Ranking = rank(question)
        self.verdict: Verdict = verdict(self.ranking)
        self.needed: tuple[Needed, ...] = ()
        self.lifetime: Lifetime | None = None
        self.spreading: tuple[Spread, ...] = ()
        if target is not None:
            self.needed = tuple(
                needed(choice, question, target)
                for choice in self.ranking.choices
                if choice.law is not None
            )
        best = self.ranking.best
        if budget is not None and best is not None:
            self.lifetime = lifetime(best.metric, budget)
            self.spreading = spreading(best, question, budget)

    def document(self, lines: Sequence[Curve]) -> dict[str, Any]:
        ranking, question = self.ranking, self.question
        default = ranking.default
        document: dict[str, Any] = {
            "type": question.type,
            "values": question.listed or None,
            "epsilon": float(question.epsilon),
            "devices": question.devices,
            "reports": question.reports,
            "smallest_share": question.smallest_share,
            "common_share": question.common,
            "level": question.level,
            "mechanisms": [
                choice.figures.to_dict() | {"notes": list(choice.notes)}
                for choice in ranking.choices
            ],
            "refused": dict(ranking.refused),
            "default": None if default is None else default.figures.to_dict(),
            "default_over_best": ranking.gain,
            "verdict": self.verdict.to_dict(),
        }
        if self.needed:
            document["needed"] = [each.to_dict() for each in self.needed]
        if self.lifetime is not None:
            document["lifetime"] = self.lifetime.to_dict()
            document["spreading"] = [each.to_dict() for each in self.spreading]
        if lines:
            document["curves"] = {line.mechanism: line.points for line in lines}
        return document

    def print(self) -> None:
        print(plan_tables.of_question(self.ranking, self.verdict))
        if self.needed:
            print("\n" + plan_tables.of_needed(self.needed))
        if self.lifetime is not None:
            print("\n" + plan_tables.of_spreading(self.lifetime, self.spreading, self.question))


def _question(args: argparse.Namespace) -> Question:
    kind = args.type or _type_of(args)
    permanent = _decimal("--permanent", args.permanent)
    for name, (least, most) in _BOUNDS.items():
        given = getattr(args, name)
        if given is not None and not least <= given <= most:
            raise ValueError(f"--{name} must lie in {least}..{most}, got {given}")
    if kind in ("category", "ordinal", "multi_select") and not args.values:
        raise ValueError(f"--values is required for type {kind}")
    if kind == "number" and args.range is None:
        raise ValueError("--range is required for type number")
    if kind == "string" and not args.candidates:
        raise ValueError("--candidates is required for type string, at least 1")
    for name, of in _ONLY_FOR.items():
        if getattr(args, name) and kind not in of:
            raise ValueError(f"--{name} is for type {' or '.join(of)}, got type {kind}")
    if args.distinct is not None and permanent is None:
        raise ValueError("--distinct is for remembered noise: give --permanent, too")
    low_high = None
    if args.range is not None:
        low_high = (_number("--range", args.range[0]), _number("--range", args.range[1]))
    return Question(
        type=kind,
        epsilon=_number("--epsilon", args.epsilon),
        devices=args.devices,
        values=made_up("value", args.values) if args.values else (),
        most=args.most or 0,
        range=low_high,
        buckets=args.buckets,
        candidates=made_up("candidate", args.candidates) if args.candidates else (),
        memoize=None
        if permanent is None
        else Memoize(permanent, 1 if args.distinct is None else args.distinct),
        mechanism=args.mechanism,
        epoch=args.epoch,
        every=args.every,
        sample=_number("--sample", args.sample),
        share=args.share,
        common=args.common,
        level=args.level,
    )


_OF_A_FILE = ("metrics", "devices", "json")
_BOUNDS = {"values": (2, MOST_VALUES), "most": (1, MOST_VALUES), "candidates": (1, MOST_VALUES)}
_ONLY_FOR: dict[str, tuple[MetricType, ...]] = {
    "values": ("category", "ordinal", "multi_select"),
    "most": ("multi_select",),
    "range": ("number",),
    "buckets": ("number",),
    "candidates": ("string",),
}


def _type_of(args: argparse.Namespace) -> MetricType:
    if args.most is not None:
        return "multi_select"
    if args.range is not None:
        return "number"
    if args.candidates is not None:
        return "string"
    return "boolean" if args.values is None else "category"


def _target(args: argparse.Namespace) -> Target | None:
    if args.target_error is None and args.target_limit is None:
        return None
    return Target(args.target_error, args.target_limit)


def _decimal(option: str, text: str | None) -> Decimal | None:
    return None if text is None else _number(option, text)


def _number(option: str, text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise ValueError(f"{option} must be a number, got {text!r}")
    return number
