"""Check a metrics.toml: every rule that the SDK and the server apply at load, and expiry.

Exit status 0: good; 1: a metric has expired; 2: a rule is broken.
"""

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

from client_sdk import Registry, load
from client_sdk.mechanisms import Rappor
from client_sdk.metric import Metric
from sottovoce.table import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("metrics", help="path of metrics.toml")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="show each metric's mechanism, exact epsilons, share, and the error to expect",
    )
    parser.add_argument(
        "--devices", type=int, default=10_000, metavar="N", help="n for --explain (10000)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    if args.devices < 1:
        raise ValueError(f"--devices must be at least 1, got {args.devices}")
    registry = load(args.metrics)
    today = datetime.now(UTC).date()
    expired = registry.expired(today)
    explained = [_explained(metric, args.devices) for metric in registry.metrics.values()]
    if args.json:
        print(json.dumps(_document(registry, explained, [str(e) for e in expired]), indent=2))
    else:
        _print(registry, explained if args.explain else [], args.devices)
        for error in expired:
            print(f"error: {error}; remove the metric or extend it", file=sys.stderr)
    return 1 if expired else 0


def _document(
    registry: Registry, explained: list[dict[str, Any]], errors: list[str]
) -> dict[str, Any]:
    return {
        "project": registry.project,
        "lifetime_epsilon": float(registry.lifetime_epsilon),
        "reserved_epsilon": sum(entry["share"] for entry in explained),
        "metrics": explained,
        "errors": errors,
    }


def _explained(metric: Metric, devices: int) -> dict[str, Any]:
    mechanism = metric.mechanism
    p, q = float(mechanism.p_true), float(mechanism.p_false)
    cells_per_value = mechanism.hashes if isinstance(mechanism, Rappor) else 1
    error = (q * (1 - q) / (devices * cells_per_value)) ** 0.5 / abs(p - q)
    permanent = mechanism.epsilon_permanent
    return {
        "metric": metric.name,
        "type": metric.type,
        "values": len(metric.labels) or None,
        "mechanism": mechanism.name,
        "epsilon": float(mechanism.epsilon),
        "epsilon_permanent": None if permanent is None else float(permanent),
        "share": metric.share(metric.starts) / 1e6,
        "epoch": metric.epoch,
        "starts": metric.starts.isoformat(),
        "expires": metric.expires.isoformat(),
        "fingerprint": metric.fingerprint,
        "devices": devices,
        "standard_error_of_a_rare_value": error,
    }


def _print(registry: Registry, explained: list[dict[str, Any]], devices: int) -> None:
    shares = sum(metric.share(metric.starts) for metric in registry.metrics.values())
    print(
        f"{registry.project}: {len(registry.metrics)} metrics, which reserve "
        f"{shares / 1e6:g} of {registry.lifetime_epsilon} lifetime epsilon"
    )
    if not explained:
        return
    rows = [
        (
            entry["metric"],
            entry["mechanism"],
            f"{entry['epsilon']:.4f}",
            "-" if entry["epsilon_permanent"] is None else f"{entry['epsilon_permanent']:.4f}",
            f"{entry['share']:g}",
            f"{entry['epoch']}, until {entry['expires']}",
            f"{100 * entry['standard_error_of_a_rare_value']:.2f} %",
        )
        for entry in explained
    ]
    header = ("metric", "mechanism", "epsilon", "permanent", "share", "epoch", "error")
    print(table(header, rows, left=2))
    print(
        f"epsilon: exact loss of one report. permanent: of endlessly many reports of one value.\n"
        f"share: reserved of the lifetime budget. error: standard error of a rare value's share\n"
        f"with {devices} devices. A memoized metric hides which values a device had, not whether\n"
        f"they changed: over T reports that is bounded by T x epsilon."
    )
