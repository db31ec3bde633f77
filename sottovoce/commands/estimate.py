"""Estimate shares from a tally document, offline: a metric's definition and its counts.

The document is JSON:
  {"metric": {"type": "category", "values": ["a", "b", "c"],
              "mechanism": {"name": "generalized_randomized_response", "epsilon": 1.0}},
   "reports": [1000], "counts": [[420, 310, 270]]}
with one entry of `reports` and one row of `counts` per cohort. A mechanism has the options that it
has in a metrics.toml, one with memory "epsilon_permanent" too; some may be given by their
probabilities, "p_true" and "p_false". A string has "candidates" instead of values, several
answers at once ("multi_select") have "most". A number's buckets are "values"; with "edges", one
more than those, its quantiles are estimated too. A number without buckets has its "range".
"""

import argparse
import json
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="tally document, - for standard input")
    parser.add_argument("--level", type=float, default=0.95, help="of intervals (0.95)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from estimator.document import parse
    from estimator.estimate import estimate
    from sottovoce.estimates import print_figures

    text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text(encoding="utf-8")
    document = parse(text)
    result = estimate(document, document.tally, args.level).to_dict()
    if args.json:
        print(json.dumps(result, indent=2, allow_nan=False))
        return 0
    print(f"{result['n']} reports, epsilon {result['epsilon']:.4f} each, level {result['level']:g}")
    print_figures(result)
    print(f"method: {result['method']}")
    return 0
