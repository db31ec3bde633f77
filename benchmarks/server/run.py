"""What the aggregation server takes, beside a route that only reads the body, in one run.

    python benchmarks/server/run.py                  # all, about three minutes
    python benchmarks/server/run.py --fsync always --reports 100

Starts a store, gunicorn and a load generator on this machine, and prints a Markdown table. Every
upload is of a new device, with reports of 128 bits in different (metric, epoch) pairs; a fifth of
them warms the server up and is not counted.

uploads/s    answered with "accepted", over 64 connections that are never idle
p50, p99     of an upload, with all connections busy
of reading   uploads/s as a share of what the same gunicorn answers when it only reads the body
CPU          processor time of one upload: server, store, with all that they do for it; together
             with the load generator's they decide what a machine takes
script       in the store, for one upload: p50 and p99 of all that the store was asked to run
fold         reports/s that one fold worker adds up afterwards
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import psutil  # noqa: E402
import redis  # noqa: E402
from serving import READING, REAL, cpu_seconds, served  # noqa: E402
from uploads import METRICS, WEEKS, Renderer, registry, send  # noqa: E402

from aggregator.catalogue import Catalogue  # noqa: E402
from aggregator.fold import Folder  # noqa: E402
from aggregator.keyring.keys import Keys  # noqa: E402
from aggregator.machine.embedded import EmbeddedServer  # noqa: E402
from aggregator.settings import ServerSettings  # noqa: E402
from aggregator.store import Store  # noqa: E402
from benchmarks.peers import line, machine  # noqa: E402
from sottovoce.system import free_port  # noqa: E402

HEADER = (
    "fsync",
    "reports in an upload",
    "uploads/s",
    "reports/s",
    "p50 / p99 ms",
    "of reading",
    "CPU us, server / store",
    "script p50 / p99 us",
    "fold reports/s",
)
MOST_REPORTS = 256


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fsync", default="always,everysec", help="always, everysec or both")
    parser.add_argument("--reports", default="1,10,100,256", help="sizes, separated by commas")
    parser.add_argument("--uploads", type=int, default=6000, metavar="N", help="a figure (6000)")
    parser.add_argument("--connections", type=int, default=64, metavar="N")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="server processes (2)")
    parser.add_argument("--threads", type=int, default=32, metavar="N", help="in each (32)")
    args = parser.parse_args()
    sizes = [int(size) for size in args.reports.split(",")]
    if not all(1 <= size <= min(MOST_REPORTS, METRICS * WEEKS) for size in sizes):
        parser.error(f"--reports takes sizes in 1..{MOST_REPORTS}; got {args.reports}")

    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine()}\n")
    print(line(HEADER))
    print(line(["---"] * len(HEADER)))
    for fsync in args.fsync.split(","):
        for size in sizes:
            print(line(measured(fsync, size, args)), flush=True)
    return 0


def measured(fsync: str, reports: int, args: argparse.Namespace) -> list[str]:
    """Return the cells of one row, measured with a new store."""
    today = datetime.now(UTC).date()
    with prepared(fsync, today, args) as (settings, store, keys):

        def load(url: str, uploads: int) -> float:
            sent = send(url, lambda: Renderer(keys, today, reports), uploads, args.connections)
            times.append((sent.percentile(0.5) * 1e3, sent.percentile(0.99) * 1e3))
            return sent.rate

        times: list[tuple[float, float]] = []
        with served(READING, settings) as (url, _):
            load(url, args.uploads // 5)
            reading = load(url, args.uploads)
        with served(REAL, settings) as (url, process):
            load(url, args.uploads // 5)
            with redis.Redis.from_url(settings.required_redis_url()) as client:
                client.config_resetstat()
                stored_by = psutil.Process(client.info("server")["process_id"])
                before = cpu_seconds(process), cpu_seconds(stored_by)
                rate = load(url, args.uploads)
                server_us = (cpu_seconds(process) - before[0]) / args.uploads * 1e6
                store_us = (cpu_seconds(stored_by) - before[1]) / args.uploads * 1e6
                script = client.info("latencystats")["latency_percentiles_usec_evalsha"]
        p50_ms, p99_ms = times[-1]
        began = time.monotonic()
        folded = Folder(store).fold_once()
        assert folded == reports * (args.uploads + args.uploads // 5), "an upload was lost"
        fold = folded / (time.monotonic() - began)
    return [
        fsync,
        str(reports),
        f"{rate:,.0f}",
        f"{rate * reports:,.0f}",
        f"{p50_ms:.0f} / {p99_ms:.0f}",
        f"{rate / reading:.0%}",
        f"{server_us:.0f} / {store_us:.0f}",
        f"{script['p50']:.0f} / {script['p99']:.0f}",
        f"{fold:,.0f}",
    ]


@contextmanager
def prepared(
    fsync: str, today: date, args: argparse.Namespace
) -> Iterator[tuple[ServerSettings, Store, Keys]]:
    """Start an empty store that has the registry."""
    with tempfile.TemporaryDirectory(prefix="sv-") as folder:
        directory = Path(folder)
        keys = Keys.load_or_create(directory / "keys.json")
        with EmbeddedServer.start(
            directory / "store", appendfsync="always" if fsync == "always" else "everysec"
        ) as server:
            settings = ServerSettings(
                redis_url=server.url,
                keys_file=directory / "keys.json",
                port=free_port(),
                workers=args.workers,
                threads=args.threads,
            )
            store = Store.connect(settings, keys.pseudonym_key)
            store.check()
            Catalogue(store).register(registry(today).text)
            yield settings, store, keys
            store.close()


if __name__ == "__main__":
    sys.exit(main())
