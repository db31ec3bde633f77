"""Check a metrics.toml: every rule that the SDK and the server apply at load, then what a data
review would ask: expiry, owners, wording, epsilon in a year, names, and, --against the file that
devices have now, what changes for them.

What a question can tell before there is a file, what it takes, and which mechanism is best for it:
sottovoce plan.

A note is a question to the author. An error is something that does not work as it is written, or
that weakens what users were promised; --strict makes notes count as much.

Exit status 0: good, perhaps with notes; 1: an error, or with --strict a note; 2: a rule is broken,
or a file cannot be read.
"""

import argparse
import json
import math
import sys
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from client_sdk import Registry, load
from client_sdk.accounting import DELTA, Life, shuffled, whole_life
from client_sdk.changes import changes
from client_sdk.errors import RegistryError, UnreadableRegistry
from client_sdk.mechanisms import Mechanism
from client_sdk.metric import Metric
from client_sdk.review import Finding, covering_changes, error_of_a_rare_value, review, yearly
from client_sdk.web_definition import definitions
from sottovoce.table import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("metrics", nargs="+", help="path of metrics.toml; more than one may follow")
    parser.add_argument(
        "--against",
        metavar="OLD",
        help="the file that devices have now: say what changes for them",
    )
    parser.add_argument("--strict", action="store_true", help="a note fails the check, too")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="show each metric's mechanism, exact epsilons, share, and the error to expect; "
        "sottovoce plan says more",
    )
    parser.add_argument(
        "--devices", type=int, default=10_000, metavar="N", help="n for --explain (10000)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--web",
        metavar="OUT",
        help="write what client_sdk/web/telemetry.js needs of the file, as JSON, unless the check "
        "fails; refused where browsers cannot answer a metric",
    )


def run(args: argparse.Namespace) -> int:
    if args.devices < 1:
        raise ValueError(f"--devices must be at least 1, got {args.devices}")
    if args.against is not None and len(args.metrics) > 1:
        raise ValueError(f"--against compares one file, got {len(args.metrics)}")
    old = None if args.against is None else _load(args.against)
    if args.web is not None and len(args.metrics) > 1:
        raise ValueError(f"--web writes one file, got {len(args.metrics)}")
    today = datetime.now(UTC).date()
    checked = [_Checked(_load(path), old, today, args.devices) for path in args.metrics]
    if args.json:
        documents = [each.document() for each in checked]
        print(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2))
    else:
        for each in checked:
            each.print(explain=args.explain)
    failing = ("note", "error") if args.strict else ("error",)
    failed = any(found.level in failing for each in checked for found in each.findings)
    if args.web is not None and not failed:
        Path(args.web).write_text(json.dumps(definitions(checked[0].registry)) + "\n")
    return int(failed)


def _load(path: str) -> Registry:
    """Read one of several files; an error says which."""
    try:
        return load(path)
    except UnreadableRegistry:
        raise
    except RegistryError as error:
        raise ValueError(f"{path}: {error}") from error


class _Checked:
    """One file, and what was found in it."""

    def __init__(self, registry: Registry, old: Registry | None, today: date, devices: int) -> None:
        self.registry = registry
        self.devices = devices
        self.findings = review(registry, today) + ([] if old is None else changes(old, registry))
        self.explained = [_explained(metric, devices) for metric in registry.metrics.values()]

    def of_level(self, level: str) -> list[Finding]:
        return [found for found in self.findings if found.level == level]

    def document(self) -> dict[str, Any]:
        return {
            "project": self.registry.project,
            "lifetime_epsilon": float(self.registry.lifetime_epsilon),
            "reserved_epsilon": sum(entry["share"] for entry in self.explained),
            "yearly_epsilon": sum(entry["yearly"] for entry in self.explained),
            "composed": _life(whole_life(self.registry.metrics.values())),
            "metrics": [
                each | _composed(metric, self.devices)
                for each, metric in zip(self.explained, self.registry.metrics.values(), strict=True)
            ],
            "notes": [str(found) for found in self.of_level("note")],
            "errors": [str(found) for found in self.of_level("error")],
            "findings": [asdict(found) for found in self.findings],
        }

    def print(self, *, explain: bool) -> None:
        _print(self.registry, self.explained if explain else [], self.devices)
        for found in self.of_level("note"):
            print(f"note: {found}")
        for found in self.of_level("error"):
            print(f"error: {found}", file=sys.stderr)


def _explained(metric: Metric, devices: int) -> dict[str, Any]:
    mechanism = metric.mechanism
    permanent = mechanism.epsilon_permanent
    changes = covering_changes(metric)
    return {
        "metric": metric.name,
        "type": metric.type,
        "values": len(metric.labels) or None,
        "mechanism": mechanism.name,
        "epsilon": float(mechanism.epsilon),
        "epsilon_permanent": None if permanent is None else float(permanent),
        **({} if metric.memoize is None else {"epsilon_of_reports": _of_reports(mechanism)}),
        "share": metric.share(metric.starts) / 1e6,
        "share_covering_changes": None if changes is None else changes / 1e6,
        "yearly": yearly(metric) / 1e6,
        "inclusion": float(metric.inclusion),
        "epoch": metric.epoch,
        "starts": metric.starts.isoformat(),
        "expires": metric.expires.isoformat(),
        "fingerprint": metric.fingerprint,
        "devices": devices,
        "standard_error_of_a_rare_value": error_of_a_rare_value(
            metric, devices * float(metric.inclusion)
        ),
    }


def _composed(metric: Metric, devices: int) -> dict[str, Any]:
    """Return what reports with fresh noise reveal together, and in a shuffled batch."""
    if metric.memoize is not None:
        return {"composed": None, "shuffled": None}
    batch = max(1, int(devices * metric.inclusion))
    hidden = shuffled(metric.mechanism.epsilon, batch, DELTA)
    return {
        "composed": _life(whole_life([metric])),
        "shuffled": None if hidden is None else hidden._asdict(),
    }


def _life(life: Life) -> dict[str, Any]:
    return {
        "enforced": life.enforced / 1e6,
        "remembered": life.remembered / 1e6,
        "epsilon": life.epsilon,
        "delta": life.delta,
        "rule": life.rule,
    }


def _of_reports(mechanism: Mechanism) -> dict[str, float]:
    """Return what so many reports of one value lose, which no sum of single losses says."""
    return {str(reports): float(mechanism.epsilon_of(reports)) for reports in (1, 7, 30)}


def _print(registry: Registry, explained: list[dict[str, Any]], devices: int) -> None:
    metrics = registry.metrics.values()
    shares = sum(metric.share(metric.starts) for metric in metrics)
    print(
        f"{registry.project}: {len(metrics)} metrics, which reserve {shares / 1e6:g} of "
        f"{registry.lifetime_epsilon} lifetime epsilon, at most "
        f"{sum(map(yearly, metrics)) / 1e6:g} of it in one year"
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
            _together(metric),
            _or_dash(entry["share_covering_changes"], ".6g", "no bound"),
            f"{entry['yearly']:g}",
            entry["epoch"] + ("" if entry["inclusion"] == 1 else f" x {entry['inclusion']:.3g}"),
            f"{100 * entry['standard_error_of_a_rare_value']:.2f} %"
            + ("" if entry["values"] or entry["type"] != "number" else " of range"),
        )
        for entry, metric in zip(explained, metrics, strict=True)
    ]
    header = (
        "metric",
        "mechanism",
        "epsilon",
        "permanent",
        "share",
        "together",
        "changes",
        "yearly",
        "epoch",
        "error",
    )
    print(table(header, rows, left=2))
    print(_LEGEND.format(devices=devices, delta=DELTA))
    print(_of_the_file(whole_life(metrics)))


def _together(metric: Metric) -> str:
    return "-" if metric.memoize is not None else _bound(whole_life([metric]).epsilon)


def _of_the_file(life: Life) -> str:
    kept = f" ({life.remembered / 1e6:g} of it remembered)" if life.remembered else ""
    return (
        f"All reports of a life cost {life.enforced / 1e6:g}, which is enforced.\n"
        f"Together they reveal at most {_bound(life.epsilon)}{kept} at delta {life.delta:g}, by "
        f"{life.rule}; never enforced."
    )


def _bound(epsilon: float) -> str:
    """Write a bound with three decimals, rounded up so that it remains one."""
    return f"{math.ceil(epsilon * 1000) / 1000:.7g}"


def _or_dash(figure: float | None, form: str, gap: str = "-") -> str:
    return gap if figure is None else format(figure, form)


_LEGEND = """\
epsilon    exact loss of one report
permanent  loss of endlessly many reports of one value
share      reserved of the lifetime budget: bounds what tells two histories apart that change
           at the same times
together   what a life's reports with fresh noise reveal together, but for a probability of
           {delta:g}; never enforced: the share is
changes    the bound that also covers whether and when values changed
yearly     most that a device spends in a year
epoch      with the probability that a device reports in one, if not 1
error      standard error of a rare value's share with {devices} devices; of a number without
           buckets, the largest one of its mean, as a part of its range; of strings, without
           what collides with frequent ones that are no candidates; of square_wave, of a whole
           window of buckets, without what smoothing makes of peaks"""
