"""Rebuild each metric's exact channel from the shipped code and compare it with what is stated.

Every random decision of the randomizers is replayed with its exact probability; nothing is
sampled, so an error of any size shows. Exit status 1 if any mechanism departs from its statement.
"""

import argparse
import json
from typing import Any

from client_sdk import load
from client_sdk.audit import Audit, audit
from client_sdk.metric import Metric
from sottovoce.table import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("metrics", help="path of metrics.toml")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    registry = load(args.metrics)
    entries = [
        _entry(metric, audit(metric.mechanism, metric.candidates))
        for metric in registry.metrics.values()
    ]
    if args.json:
        print(json.dumps(entries, indent=2))
    else:
        _print(entries)
    return 0 if all(entry["sound"] for entry in entries) else 1


def _entry(metric: Metric, result: Audit) -> dict[str, Any]:
    stated = result.mechanism.epsilon_permanent
    return {
        "metric": metric.name,
        "mechanism": result.mechanism.name,
        "configured": float(metric.epsilon),
        "stated": float(result.mechanism.epsilon),
        "found": float(result.worst),
        "stated_permanent": None if stated is None else float(stated),
        "found_permanent": None if stated is None else float(result.worst_permanent or 0),
        "method": result.method,
        "branches": result.branches,
        "sound": result.sound,
        "problems": result.problems,
    }


def _print(entries: list[dict[str, Any]]) -> None:
    rows = [
        (
            entry["metric"],
            entry["mechanism"],
            f"{entry['configured']:g}",
            f"{entry['stated']:.9f}",
            f"{entry['found']:.9f}",
            "-" if entry["found_permanent"] is None else f"{entry['found_permanent']:.9f}",
            "sound" if entry["sound"] else "WRONG",
        )
        for entry in entries
    ]
    header = ("metric", "mechanism", "configured", "stated", "found", "permanent", "verdict")
    print(table(header, rows, left=2))
    for entry in entries:
        print(f"{entry['metric']}: {entry['method']}, {entry['branches']} branches replayed")
        for problem in entry["problems"]:
            print(f"{entry['metric']}: {problem}")
