"""What a scrape of /metrics costs: a real server with two processes, a store with 1,000 metrics.

    python benchmarks/server/scrape.py
    python benchmarks/server/scrape.py --metrics 100 --scrapes 50

Every shard of the store has counted every metric, which is the most there can be. Prints the time
of a scrape over HTTP (median and slowest), its series and its bytes, and the same for /readyz.
"""

import argparse
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import redis  # noqa: E402
import requests  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from aggregator.keyring.keys import Keys  # noqa: E402
from aggregator.machine.child import Child, end  # noqa: E402
from aggregator.machine.embedded import EmbeddedServer  # noqa: E402
from aggregator.settings import ServerSettings  # noqa: E402
from aggregator.store.layout import Layout  # noqa: E402

_HEAD = """\
schema = 1
[project]
name = "many"
lifetime_epsilon = 1000
contact = "telemetry@example.org"
"""
_METRIC = """
[metrics.metric_with_a_name_{0:04}]
question = "Is it on?"
type = "boolean"
sensitivity = "product"
epsilon = 0.005
epoch = "week"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2027-12-31
"""
_COUNT = 123_456


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--metrics", type=int, default=1000, help="metrics in the registry (1000)")
    parser.add_argument("--scrapes", type=int, default=30, help="scrapes to time (30)")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sv-") as folder:
        with running(Path(folder), args.metrics) as (endpoint, metrics):
            text = requests.get(metrics, timeout=60).text
            samples = sum(len(family.samples) for family in text_string_to_metric_families(text))
            print(f"{args.metrics} metrics: {samples} series, {len(text)} bytes")
            for name, url in (("/metrics", metrics), ("/readyz", f"{endpoint}/readyz")):
                median, worst = timed(lambda url=url: requests.get(url, timeout=60), args.scrapes)
                print(f"{name:10} median {median * 1e3:6.1f} ms   slowest {worst * 1e3:6.1f} ms")


def timed(ask: Callable[[], requests.Response], times: int) -> tuple[float, float]:
    """Return median and longest seconds of some requests, which must succeed."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        ask().raise_for_status()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), max(seconds)


@contextmanager
def running(folder: Path, metrics: int) -> Iterator[tuple[str, str]]:
    """Start store and server; yield the addresses of the server and of /metrics."""
    keys_file = folder / "keys.json"
    keys = Keys.load_or_create(keys_file, datetime.now(UTC).date())
    (folder / "metrics.toml").write_text(_HEAD + "".join(map(_METRIC.format, range(metrics))))
    port, metrics_port = free_ports(2)
    with EmbeddedServer.start(folder / "store") as store:
        fill(store.url, keys, metrics)
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "REDIS_URL": store.url,
            "SOTTOVOCE_KEYS_FILE": str(keys_file),
            "SOTTOVOCE_METRICS": str(folder / "metrics.toml"),
            "SOTTOVOCE_PORT": str(port),
            "SOTTOVOCE_METRICS_PORT": str(metrics_port),
        }
        server = Child((sys.executable, "-m", "sottovoce", "serve"), environment=environment)
        try:
            wait_until_ready(f"http://127.0.0.1:{port}", server)
            yield f"http://127.0.0.1:{port}", f"http://127.0.0.1:{metrics_port}/metrics"
        finally:
            end([server])


def fill(url: str, keys: Keys, metrics: int) -> None:
    """Count reports of every metric in every shard."""
    settings = ServerSettings()
    layout = Layout(settings.shards, settings.buckets, keys.pseudonym_key)
    counted = {f"metric_with_a_name_{number:04}": _COUNT for number in range(metrics)}
    with redis.Redis.from_url(url) as client:
        for shard in layout.all_shards:
            client.hset(shard.key("reports"), mapping=counted)


def wait_until_ready(endpoint: str, server: Child) -> None:
    """Wait for the server; raise OSError if it ends."""
    while not server.ended():
        try:
            if requests.get(f"{endpoint}/readyz", timeout=10).status_code == 200:
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.1)
    raise OSError(f"the server did not come up ({server.status_in_words()})")


def free_ports(number: int) -> list[int]:
    """Return different TCP ports that are free now."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


if __name__ == "__main__":
    main()
