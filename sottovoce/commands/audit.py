"""Rebuild each metric's exact channel from the shipped code and compare it with what is stated.

Every random decision of the randomizers is replayed with its exact probability; nothing is
sampled, so an error of any size shows. With --empirical the shipped client also makes reports, and
a lower bound on epsilon is derived from them alone, as an attacker would: one above the stated
epsilon convicts the client, one below is consistent with it and proves no more than that.

Exit status 1 if a mechanism departs from its statement or a bound exceeds the stated epsilon.
"""

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from client_sdk import Registry, load
from client_sdk.audit import Audit, audit
from client_sdk.metric import Metric
from sottovoce.table import table

if TYPE_CHECKING:
    from estimator.empirical_audit import LowerBound

CONSISTENT = "consistent"
BROKEN = "BROKEN"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("metrics", help="path of metrics.toml")
    parser.add_argument(
        "--empirical", action="store_true", help="also bound epsilon by real reports, from below"
    )
    parser.add_argument(
        "--reports",
        type=int,
        default=20_000,
        metavar="N",
        help="reports per value for --empirical (20000); of a memoized metric N/8 devices",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=0.999,
        help="that no sound client is called broken, over the whole file (0.999)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    if args.reports < 40:
        raise ValueError(f"--reports must be at least 40, got {args.reports}")
    if not 0 < args.confidence < 1:
        raise ValueError(f"--confidence must lie between 0 and 1, got {args.confidence}")
    registry = load(args.metrics)
    entries = [
        _entry(metric, audit(metric.mechanism, metric.candidates))
        for metric in registry.metrics.values()
    ]
    if args.empirical:
        for entry, found in zip(
            entries, _empirical(registry, args.reports, args.confidence), strict=True
        ):
            entry["empirical"] = found
    if args.json:
        print(json.dumps(entries, indent=2))
    else:
        _print(entries)
        if args.empirical:
            _print_empirical(entries, args.confidence)
    return 0 if all(_holds(entry) for entry in entries) else 1


def _holds(entry: dict[str, Any]) -> bool:
    return bool(entry["sound"]) and entry.get("empirical", {}).get("verdict") != BROKEN


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


def _empirical(registry: Registry, reports: int, confidence: float) -> list[dict[str, Any]]:
    # Here, because a plain install has no numpy.
    from estimator import real_reports
    from estimator.empirical_audit import bound_of
    from sottovoce.population import SEPARATOR

    metrics = list(registry.metrics.values())
    # Bonferroni: a collision test and one to three bounds per metric hold together.
    statements = sum(
        2 + (metric.memoize is not None) + (metric.mechanism.cohorts > 1) for metric in metrics
    )
    each = 1 - (1 - confidence) / statements
    found = []
    for metric in metrics:
        pair = real_reports.hardest_pair(metric)
        a, b = real_reports.collect(registry, metric, reports, max(2, os.cpu_count() or 1))
        mechanism = metric.mechanism
        bounds = [
            _bound("one report", float(mechanism.epsilon), bound_of(a.single, b.single, each))
        ]
        if a.together is not None and b.together is not None:
            assert mechanism.epsilon_permanent is not None
            figure = f"{real_reports.REPORTS_OF_ONE_VALUE} reports of one value"
            stated = float(mechanism.epsilon_permanent)
            bounds.append(_bound(figure, stated, bound_of(a.together, b.together, each)))
        if mechanism.cohorts > 1:
            alone = bound_of(real_reports.cohorts(a), real_reports.cohorts(b), each)
            bounds.append(_bound("cohort alone", 0.0, alone))
        repeats = real_reports.repeats(metric, pair[0], a, each)
        broken = repeats or any(bound["verdict"] == BROKEN for bound in bounds)
        found.append(
            {
                "method": real_reports.METHOD,
                "pair": [
                    SEPARATOR.join(map(str, value)) if isinstance(value, list) else str(value)
                    for value in pair
                ],
                "bounds": bounds,
                "noise_repeats": repeats,
                "verdict": BROKEN if broken else CONSISTENT,
            }
        )
    return found


def _bound(figure: str, stated: float, found: "LowerBound") -> dict[str, Any]:
    return {
        "figure": figure,
        "stated": stated,
        "bound": found.epsilon,
        "reach": found.reach,
        "confidence": found.confidence,
        "event": found.event,
        "towards": found.towards,
        "hits": list(found.hits),
        "trials": found.trials,
        "verdict": BROKEN if found.epsilon > stated else CONSISTENT,
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


def _print_empirical(entries: list[dict[str, Any]], confidence: float) -> None:
    rows = [
        (
            entry["metric"],
            bound["figure"],
            " / ".join(entry["empirical"]["pair"]),
            f"{bound['stated']:.4f}",
            f"{bound['bound']:.4f}",
            f"{bound['reach']:.2f}",
            f"{bound['hits'][0]}:{bound['hits'][1]} of {bound['trials']}",
            bound["verdict"],
        )
        for entry in entries
        for bound in entry["empirical"]["bounds"]
    ]
    header = ("metric", "figure", "values", "stated", "at least", "reach", "hits", "verdict")
    print()
    print(table(header, rows, left=3))
    print(
        "at least: epsilon that reports of the shipped client prove. With confidence "
        f"{confidence:g}\nfor the whole table no sound client exceeds what it states. reach: the "
        "most that so\nmany reports could prove; a larger excess, or one too small to be sampled, "
        "is left to\nthe exact audit above. Reports came from the real path:\n"
        f"{entries[0]['empirical']['method']}."
    )
    for entry in entries:
        repeats = entry["empirical"]["noise_repeats"]
        if repeats:
            print(f"{entry['metric']}: BROKEN, two devices sent the same row of responses")
        elif repeats is None:
            print(f"{entry['metric']}: too few reports to tell whether devices repeat noise")
