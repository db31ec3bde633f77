"""Check a metrics.toml: every rule that the SDK and the server apply at load, expiry, and what is
unusual: epsilons for their sensitivity, silence that shows, changes that show.

Exit status 0: good; 1: a metric has expired; 2: a rule is broken.
"""

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

from client_sdk import Registry, RegistryError, load
from client_sdk.mechanisms import Rappor
from client_sdk.metric import Metric
from client_sdk.review import covering_changes, warnings, yearly
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
    expired = registry.expired(datetime.now(UTC).date())
    notes = warnings(registry)
    explained = [_explained(metric, args.devices) for metric in registry.metrics.values()]
    if args.json:
        print(json.dumps(_document(registry, explained, expired, notes), indent=2))
    else:
        _print(registry, explained if args.explain else [], args.devices)
        for note in notes:
            print(f"note: {note}")
        for error in expired:
            print(f"error: {error}; remove the metric or extend it", file=sys.stderr)
    return 1 if expired else 0


def _document(
    registry: Registry,
    explained: list[dict[str, Any]],
    expired: list[RegistryError],
    notes: list[str],
) -> dict[str, Any]:
    return {
        "project": registry.project,
        "lifetime_epsilon": float(registry.lifetime_epsilon),
        "reserved_epsilon": sum(entry["share"] for entry in explained),
        "yearly_epsilon": sum(entry["yearly"] for entry in explained),
        "metrics": explained,
        "notes": notes,
        "errors": [str(error) for error in expired],
    }


def _explained(metric: Metric, devices: int) -> dict[str, Any]:
    mechanism = metric.mechanism
    p, q = float(mechanism.p_true), float(mechanism.p_false)
    cells_per_value = mechanism.hashes if isinstance(mechanism, Rappor) else 1
    reports = devices * float(metric.inclusion)
    permanent = mechanism.epsilon_permanent
    changes = covering_changes(metric)
    return {
        "metric": metric.name,
        "type": metric.type,
        "values": len(metric.labels) or None,
        "mechanism": mechanism.name,
        "epsilon": float(mechanism.epsilon),
        "epsilon_permanent": None if permanent is None else float(permanent),
        "share": metric.share(metric.starts) / 1e6,
        "share_covering_changes": None if changes is None else changes / 1e6,
        "yearly": yearly(metric) / 1e6,
        "inclusion": float(metric.inclusion),
        "epoch": metric.epoch,
        "starts": metric.starts.isoformat(),
        "expires": metric.expires.isoformat(),
        "fingerprint": metric.fingerprint,
        "devices": devices,
        "standard_error_of_a_rare_value": (
            (q * (1 - q) / (reports * cells_per_value)) ** 0.5 / abs(p - q)
        ),
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
            _or_dash(entry["epsilon_permanent"], ".4f"),
            f"{entry['share']:g}",
            _or_dash(entry["share_covering_changes"], ".6g", "no bound"),
            f"{entry['yearly']:g}",
            entry["epoch"] + ("" if entry["inclusion"] == 1 else f" x {entry['inclusion']:.3g}"),
            f"{100 * entry['standard_error_of_a_rare_value']:.2f} %",
        )
        for entry in explained
    ]
    header = (
        "metric",
        "mechanism",
        "epsilon",
        "permanent",
        "share",
        "changes",
        "yearly",
        "epoch",
        "error",
    )
    print(table(header, rows, left=2))
    print(_LEGEND.format(devices=devices))


def _or_dash(figure: float | None, form: str, gap: str = "-") -> str:
    return gap if figure is None else format(figure, form)


_LEGEND = """\
epsilon    exact loss of one report
permanent  loss of endlessly many reports of one value
share      reserved of the lifetime budget: bounds what tells two histories apart that change
           at the same times
changes    the bound that also covers whether and when values changed
yearly     most that a device spends in a year
epoch      with the probability that a device reports in one, if not 1
error      standard error of a rare value's share with {devices} devices"""
