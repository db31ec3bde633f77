"""What the dashboard's pages and pictures cost: 200 metrics with a release a day for a year.

    python benchmarks/dashboard/run.py
    python benchmarks/dashboard/run.py --metrics 20 --epochs 90 --looks 3

Beside each of the 73,000 documents (20 values each) lie its table, page and pictures, as in life.
The dashboard is started anew and left alone for some seconds, in which it looks ahead. Then each
address is asked for over HTTP: of some metrics that nobody has looked at since, and then of the
same ones again. Prints least, median and most of both.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from aggregator.tally import Tally  # noqa: E402
from benchmarks.server.listing import FIRST_DAY, SUFFIXES, running, timed  # noqa: E402
from client_sdk.registry import Registry, loads  # noqa: E402
from estimator.estimate import estimate  # noqa: E402
from estimator.ledger.lifetime import lifetime  # noqa: E402
from estimator.releases.release import compose  # noqa: E402

PROJECT = """\
schema = 1
[project]
name = "many"
lifetime_epsilon = 1000
contact = "telemetry@example.org"
"""
METRIC = f"""\
[metrics.metric_{{number:04}}]
question = "Which of twenty? To see what pages cost."
type = "category"
values = {[f"value number {i}" for i in range(19)] + ["other"]}
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "day"
every = 120
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2027-01-01
"""
VARIETY = 97
"""So many different tallies: no two metrics have the same history, and few days the same shares."""


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--metrics", type=int, default=200, help="metrics (200)")
    parser.add_argument("--epochs", type=int, default=365, help="releases of each (365)")
    parser.add_argument("--looks", type=int, default=10, help="metrics to look at (10)")
    parser.add_argument("--alone", type=float, default=15.0, help="seconds of that (15)")
    args = parser.parse_args(arguments)
    text = PROJECT + "".join(METRIC.format(number=number) for number in range(args.metrics))
    registry = loads(text)
    with tempfile.TemporaryDirectory(prefix="sv-") as folder:
        fill(Path(folder) / "releases", registry, args.epochs)
        print(f"{args.metrics * args.epochs} releases; milliseconds: least, median, most")
        with running(Path(folder), text) as url:
            time.sleep(args.alone)
            for name, address in addresses(args.epochs).items():
                asked = [url + address.format(number) for number in range(args.looks)]
                asked = asked if "{" in address else [url + address]
                again = asked * (1 if "{" in address else args.looks)
                print(f"{name:24} first {told(asked)}   again {told(again)}")


def addresses(epochs: int) -> Mapping[str, str]:
    """What is asked for, by name; {} is the number of a metric."""
    metric = "/metrics/metric_{:04}"
    middle = FIRST_DAY + timedelta(days=epochs // 2)
    return {
        "overview": "/",
        "registry": "/registry",
        "metric, 60 epochs": metric,
        "metric, 365 epochs": f"{metric}?epochs=365",
        "metric, half a year ago": f"{metric}?epoch={middle}",
        "shares.svg": f"{metric}/shares.svg",
        "trend.svg, 60 epochs": f"{metric}/trend.svg",
        "trend.svg, 365 epochs": f"{metric}/trend.svg?epochs=365",
        "width.svg, 365 epochs": f"{metric}/width.svg?epochs=365",
    }


def told(asked: list[str]) -> str:
    """Ask, and return least, median and most."""
    took = [1e3 * timed(url) for url in asked]
    return f"{min(took):6.0f} {statistics.median(took):6.0f} {max(took):6.0f}"


def fill(directory: Path, registry: Registry, epochs: int) -> None:
    """Put a year of releases of each metric in place."""
    rng = np.random.default_rng(20261130)
    metrics = list(registry.metrics.values())
    spent = lifetime(rng.integers(0, 300, 24_000) * 1_000_000, registry.lifetime_micro)
    shares = rng.dirichlet(np.full(20, 5.0), VARIETY)
    found = [
        estimate(metrics[0], Tally(np.array([10_000]), rng.multinomial(10_000, share)[None, :]))
        for share in shares
    ]
    for number, metric in enumerate(metrics):
        folder = directory / metric.name
        folder.mkdir(parents=True)
        first = compose(metric, "many", 0, found[0], lifetime=spent, now=time.time())
        for epoch in range(epochs):
            day = (FIRST_DAY + timedelta(days=epoch)).isoformat()
            path = folder / f"{day}.{metric.fingerprint}.json"
            estimates = found[(epoch * (number + 1) + number) % VARIETY]
            named = {"epoch": day, "first_day": day, "last_day": day}
            path.write_text(replace(first, estimates=estimates, **named).text())
            for suffix in SUFFIXES:
                path.with_suffix(f".{suffix}").touch()


if __name__ == "__main__":
    main()
