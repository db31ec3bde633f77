"""Send the reports of simulated devices to a server: for load, and to see the accuracy to expect.

Each device draws a value per metric from a population (by default all values alike), randomizes
it with the SDK's own code and delivers one batch. `--complete` of them are full SDK clients with
state on disk. What was true is printed, to compare with what the server publishes.

With `every` and `sample` only devices report whose turn it is, as in the field. Reports of metrics
with `when_absent` may not leave before the epoch ends: the simulated devices act as if it had, the
full clients hold them back, and they end with the command.
"""

import argparse
import json
import os
from collections.abc import Mapping

from client_sdk import load
from sottovoce.estimates import UNLISTED_SHOWN
from sottovoce.fleet import Plan, Tour
from sottovoce.fleet import run as run_fleet
from sottovoce.population import UNLISTED, named, true_mean, truth, uniform
from sottovoce.progress import Progress
from sottovoce.table import percent, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metrics", required=True, help="path of metrics.toml")
    parser.add_argument(
        "--endpoint", default="http://127.0.0.1:8080", help="base URL of the server"
    )
    parser.add_argument(
        "--write-key",
        default=os.environ.get("SOTTOVOCE_WRITE_KEY"),
        help="for enrolment; by default SOTTOVOCE_WRITE_KEY",
    )
    parser.add_argument("--devices", type=int, default=1000, help="how many devices (1000)")
    parser.add_argument("--complete", type=int, default=10, help="of them full SDK clients (10)")
    parser.add_argument("--processes", type=int, default=2, help="simulating processes (2)")
    parser.add_argument("--seed", type=int, default=1, help="of the populations, not of noise (1)")
    parser.add_argument(
        "--population",
        action="append",
        default=[],
        metavar="METRIC=FILE",
        help="CSV of value,count for a metric, or the name of a shipped one; may be repeated; "
        "several options of one device stand as a|b",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    if not args.write_key:
        raise ValueError("--write-key is required (or SOTTOVOCE_WRITE_KEY)")
    for name in ("devices", "processes"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name} must be at least 1, got {getattr(args, name)}")
    if args.complete < 0:
        raise ValueError(f"--complete must be at least 0, got {args.complete}")
    registry = load(args.metrics)
    populations = {name: uniform(metric) for name, metric in registry.metrics.items()}
    for option in args.population:
        name, _, source = option.partition("=")
        if name not in populations or not source:
            raise ValueError(
                f"--population must be METRIC=FILE with a known metric, got {option!r}"
            )
        populations[name] = named(source)
    true = {name: truth(registry.metrics[name], each) for name, each in populations.items()}
    means = {
        name: mean
        for name, each in populations.items()
        if (mean := true_mean(registry.metrics[name], each)) is not None
    }
    plan = Plan(registry.text, args.endpoint, args.write_key, populations, seed=args.seed)
    with Progress("devices", args.devices) as progress:
        tour = run_fleet(plan, args.devices, args.complete, args.processes, progress.advance)
    if args.json:
        document = {
            "devices": tour.devices,
            "reports": dict(tour.reports),
            "dropped": dict(tour.dropped),
            "held": tour.held,
            "truth": true,
            "true_means": means,
        }
        print(json.dumps(document))
    else:
        _print(tour, true, means)
    return 0


def _print(tour: Tour, true: Mapping[str, Mapping[str, float]], means: Mapping[str, float]) -> None:
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in tour.reports.most_common())
    print(f"{tour.devices} devices delivered their reports: {verdicts or 'none'}")
    for reason, count in tour.dropped.most_common():
        print(f"{count} values were not reported: {reason}")
    if tour.held:
        print(
            f"{tour.held} reports of full clients were held back until their epoch ends "
            "(when_absent), and are gone"
        )
    rows = [
        (name, UNLISTED_SHOWN if value == UNLISTED else value, percent(share))
        for name, shares in true.items()
        for value, share in shares.items()
    ]
    rows += [(name, "(mean)", f"{mean:.6g}") for name, mean in means.items()]
    print(table(("metric", "value", "truth"), rows, left=2))
