"""What the list of releases costs: the dashboard over 200 metrics with a release a day for a year.

    python benchmarks/server/listing.py
    python benchmarks/server/listing.py --metrics 20 --epochs 30 --asks 10

Beside each of the 73,000 documents (100 values each) lie its table, page and pictures, as in life.
Prints the time of the first question, for which every folder is looked through, and the median and
slowest of some that follow, over HTTP.
"""

import argparse
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import requests  # noqa: E402

from aggregator.catalogue import Catalogue  # noqa: E402
from aggregator.keyring.keys import Keys  # noqa: E402
from aggregator.machine.child import Child, end  # noqa: E402
from aggregator.machine.embedded import EmbeddedServer  # noqa: E402
from aggregator.settings import ServerSettings  # noqa: E402
from aggregator.store import Store  # noqa: E402
from aggregator.tally import Tally  # noqa: E402
from client_sdk.registry import loads  # noqa: E402
from estimator.estimate import estimate  # noqa: E402
from estimator.releases.release import compose  # noqa: E402

REGISTRY = f"""\
schema = 1
[project]
name = "many"
lifetime_epsilon = 1000
contact = "telemetry@example.org"
[metrics.one]
question = "Which of a hundred?"
type = "category"
values = {[f"value number {i}" for i in range(99)] + ["other"]}
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "day"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2026-12-31
"""
SUFFIXES = ("csv", "html", "shares.svg", "shares.png", "trend.svg", "trend.png")
FIRST_DAY = date(2026, 1, 1)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--metrics", type=int, default=200, help="metrics (200)")
    parser.add_argument("--epochs", type=int, default=365, help="releases of each (365)")
    parser.add_argument("--asks", type=int, default=30, help="questions to time (30)")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sv-") as folder:
        fill(Path(folder) / "releases", args.metrics, args.epochs)
        print(f"{args.metrics * args.epochs} releases")
        with running(Path(folder)) as url:
            for name, query in questions(args.metrics, args.epochs).items():
                seconds = [timed(f"{url}/v1/releases?{query}") for _ in range(args.asks)]
                print(
                    f"{name:28} first {seconds[0] * 1e3:6.0f} ms   "
                    f"median {statistics.median(seconds) * 1e3:6.1f} ms   "
                    f"slowest {max(seconds[1:]) * 1e3:6.1f} ms"
                )


def questions(metrics: int, epochs: int) -> dict[str, str]:
    """What is asked, by name. The first makes the server look through every folder."""
    last_day = FIRST_DAY + timedelta(days=epochs - 1)
    return {
        "all metrics, the last day": f"since={last_day}&limit=200",
        "from the start, 50": "",
        "from the start, 200": "limit=200",
        "one metric, 200": f"metric={_name(metrics - 1)}&limit=200",
        "a status that none has": "status=WITHHELD",
    }


def timed(url: str) -> float:
    """Return the seconds that an answer took."""
    began = time.perf_counter()
    requests.get(url, timeout=60).raise_for_status()
    return time.perf_counter() - began


def fill(directory: Path, metrics: int, epochs: int) -> None:
    """Put so many releases in place; but for metric and days all are the same."""
    metric = loads(REGISTRY).metrics["one"]
    found = estimate(metric, Tally(np.array([10_000]), np.full((1, 100), 100)))
    release = compose(metric, "many", 0, found, now=time.time())
    for number in range(metrics):
        folder = directory / _name(number)
        folder.mkdir(parents=True)
        for epoch in range(epochs):
            day = (FIRST_DAY + timedelta(days=epoch)).isoformat()
            path = folder / f"{day}.{metric.fingerprint}.json"
            named = {"metric": _name(number), "epoch": day, "first_day": day, "last_day": day}
            path.write_text(replace(release, **named).text())
            for suffix in SUFFIXES:
                path.with_suffix(f".{suffix}").touch()


def _name(number: int) -> str:
    return f"metric_{number:04}"


@contextmanager
def running(folder: Path, registry: str = REGISTRY) -> Iterator[str]:
    """Start store and dashboard; yield its address."""
    settings = ServerSettings(keys_file=folder / "keys.json")
    keys = Keys.load_or_create(settings.keys_file, datetime.now(UTC).date())
    with EmbeddedServer.start(folder / "store") as server:
        environment = {
            "PYTHONPATH": str(ROOT),
            "REDIS_URL": server.url,
            "SOTTOVOCE_KEYS_FILE": str(settings.keys_file),
            "SOTTOVOCE_RELEASES": str(folder / "releases"),
            "SOTTOVOCE_DASHBOARD_PORT": str(free_port()),
        }
        store = Store.connect(ServerSettings.from_env(environment), keys.pseudonym_key)
        store.check()
        Catalogue(store).register(registry)
        store.close()
        dashboard = Child(
            (sys.executable, "-m", "sottovoce", "dashboard"), environment=os.environ | environment
        )
        url = f"http://127.0.0.1:{environment['SOTTOVOCE_DASHBOARD_PORT']}"
        try:
            wait_until_ready(url, dashboard)
            yield url
        finally:
            end([dashboard])


def wait_until_ready(url: str, dashboard: Child) -> None:
    """Wait for the dashboard; raise OSError if it ends."""
    while not dashboard.ended():
        try:
            if requests.get(f"{url}/readyz", timeout=10).status_code == 200:
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.1)
    raise OSError(f"the dashboard did not come up ({dashboard.status_in_words()})")


def free_port() -> int:
    """Return a TCP port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
