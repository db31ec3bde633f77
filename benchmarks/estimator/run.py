"""What a morning's publication costs: tallies read and estimated, releases written with pages.

    python benchmarks/estimator/run.py
    python benchmarks/estimator/run.py --metrics 100 --releases 20

Tallies lie in a real store, spread over 64 shards. Pages are those of releases with a history, so
with trends. Prints seconds on the wall and of this process's CPU; the store has another.
"""

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import redis  # noqa: E402

from aggregator.catalogue import Catalogue  # noqa: E402
from aggregator.group import Group  # noqa: E402
from aggregator.keyring.keys import Keys  # noqa: E402
from aggregator.machine.embedded import EmbeddedServer  # noqa: E402
from aggregator.settings import ServerSettings  # noqa: E402
from aggregator.store import Store  # noqa: E402
from aggregator.store.layout import Layout  # noqa: E402
from aggregator.tally import pack_counts  # noqa: E402
from client_sdk.epochs import end_of, parse  # noqa: E402
from client_sdk.metric import Metric  # noqa: E402
from client_sdk.registry import Registry, loads  # noqa: E402
from estimator.estimate import estimate  # noqa: E402
from estimator.publish import publish_due  # noqa: E402
from estimator.source import StoreSource  # noqa: E402

WEEKS = [parse("week", f"2026-W{week}") for week in range(40, 50)]
REPORTS_PER_SHARD = 500


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--metrics", type=int, default=1000, help="tallies to estimate (1000)")
    parser.add_argument("--cells", type=int, default=100, help="values of each metric (100)")
    parser.add_argument("--releases", type=int, default=200, help="releases to publish (200)")
    given = parser.parse_args(arguments)
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        with _store(Path(folder) / "a") as (store, url):
            metrics = _registry(store, given.metrics, given.cells, "once")
            _fill(url, store, metrics, [0])
            with _timed(f"{given.metrics} metrics x {given.cells} cells x 64 shards, estimated"):
                for metric in metrics:
                    estimate(metric, store.tallies.of(metric, 0))
        with _store(Path(folder) / "b") as (store, url):
            metrics = _registry(store, max(1, given.releases // len(WEEKS)), 12, "week")
            _fill(url, store, metrics, WEEKS)
            source = StoreSource(store, Catalogue(store))
            source.catalogue.load()
            with _timed(f"{len(metrics) * len(WEEKS)} releases with pages, published"):
                done = publish_due(source, Path(folder) / "releases", end_of("week", WEEKS[-1] + 2))
            assert [outcome.status for outcome in done] == ["OK"] * len(metrics) * len(WEEKS)


@contextmanager
def _store(folder: Path) -> Iterator[tuple[Store, str]]:
    server = EmbeddedServer.start(folder)
    try:
        settings = ServerSettings(redis_url=server.url, keys_file=folder / "keys.json")
        keys = Keys.load_or_create(settings.keys_file)
        store = Store.connect(settings, keys.pseudonym_key)
        store.check()
        yield store, server.url
        store.close()
    finally:
        server.stop()


def _registry(store: Store, metrics: int, values: int, epoch: str) -> list[Metric]:
    listed = ", ".join(f'"value {value}"' for value in range(values))
    text = 'schema = 1\n[project]\nname = "many"\nlifetime_epsilon = 1000\ncontact = "a@b.org"\n'
    for number in range(metrics):
        text += (
            f'[metrics.metric_{number:04}]\nquestion = "Which one?"\ntype = "category"\n'
            f'values = [{listed}]\ncatch_all = "value 0"\nsensitivity = "product"\nepsilon = 0.9\n'
            f'mechanism = "optimized_unary"\nepoch = "{epoch}"\nowners = ["ui@example.org"]\n'
            "starts = 2026-01-05\nexpires = 2027-01-04\n"
        )
    registry: Registry = loads(text)
    store.registries.add(registry.digest, text)
    return list(registry.metrics.values())


def _fill(url: str, store: Store, metrics: list[Metric], weeks: list[int]) -> None:
    """Write tallies as the fold would have, all shards of all groups."""
    chance = np.random.default_rng(1)
    layout = Layout(len(store.shards), 1, b"")
    with redis.Redis.from_url(url) as client:
        for metric in metrics:
            pipe = client.pipeline(transaction=False)
            p, q = float(metric.mechanism.p_true), float(metric.mechanism.p_false)
            shares = np.full(metric.mechanism.cells, 1 / metric.mechanism.cells)
            for week in weeks:
                group = Group.of(metric, week).name
                for shard in layout.all_shards:
                    counts = chance.binomial(REPORTS_PER_SHARD, q + (p - q) * shares)
                    row = pack_counts(np.concatenate(([REPORTS_PER_SHARD], counts)))
                    pipe.hset(shard.tally(group), 0, row)
                    pipe.sadd(shard.key("groups"), group)
            pipe.execute()


@contextmanager
def _timed(what: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{what}: {wall:.1f} s, {cpu:.1f} s of CPU")


if __name__ == "__main__":
    main()
