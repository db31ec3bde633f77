"""Whether memory grows under a steady load: server, fold worker and store, at a given rate.

    python benchmarks/server/soak.py                 # ten minutes
    python benchmarks/server/soak.py --seconds 60 --rate 50

A fixed set of devices sends batches at a steady rate, with ever new sequence numbers and repeated
reports (so that the store's contents come to rest, as they do in life once every device is known),
while a fold worker runs. Memory is read every second; the first quarter does not count. Prints
growth in percent of the mean over ten minutes, by a line of least squares.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import numpy as np  # noqa: E402
import psutil  # noqa: E402
import redis  # noqa: E402
from run import line, machine  # noqa: E402
from serving import REAL, served  # noqa: E402
from uploads import connected, exchange, registry, request_of, texts  # noqa: E402

from aggregator.catalogue import Catalogue  # noqa: E402
from aggregator.fold import Folder  # noqa: E402
from aggregator.keyring.keys import Keys  # noqa: E402
from aggregator.machine.embedded import EmbeddedServer  # noqa: E402
from aggregator.settings import ServerSettings  # noqa: E402
from aggregator.store import Store  # noqa: E402
from sottovoce.system import free_port  # noqa: E402

HEADER = ("of", "MB at the end", "growth in ten minutes")
TEN_MINUTES = 600.0
SENDERS = 8


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=TEN_MINUTES)
    parser.add_argument("--rate", type=float, default=200.0, help="uploads a second (200)")
    parser.add_argument("--reports", type=int, default=10, help="in an upload (10)")
    parser.add_argument("--devices", type=int, default=800)
    args = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine()}\n")
    print(line(HEADER))
    print(line(["---"] * len(HEADER)))
    for name, found in soaked(args.seconds, args.rate, args.reports, args.devices).items():
        growth = found.bytes_per_second * TEN_MINUTES / found.mean
        print(line([name, f"{found.end / 1e6:.1f}", f"{growth:+.2%}"]))
    return 0


@dataclass(frozen=True)
class Memory:
    """Memory in bytes: at the end and in the mean, and its growth."""

    end: float
    mean: float
    bytes_per_second: float


def soaked(seconds: float, rate: float, reports: int, devices: int) -> dict[str, Memory]:
    """Run a load and return the memory of server and store.

    Raises:
        AssertionError: An upload was not answered with 200, or the fold fell behind.
    """
    with tempfile.TemporaryDirectory(prefix="sv-") as folder:
        directory = Path(folder)
        keys = Keys.load_or_create(directory / "keys.json")
        with EmbeddedServer.start(directory / "store", appendfsync="everysec") as server:
            settings = ServerSettings(
                redis_url=server.url, keys_file=directory / "keys.json", port=free_port()
            )
            store = Store.connect(settings, keys.pseudonym_key)
            store.check()
            Catalogue(store).register(registry(datetime.now(UTC).date()).text)
            ended, samples, wrong = threading.Event(), [], []
            with served(REAL, settings) as (url, process):
                threads = [
                    threading.Thread(target=Folder(store).run, args=(ended, 0.5)),
                    *(
                        threading.Thread(
                            target=_send,
                            args=(url, keys, reports, devices // SENDERS, rate / SENDERS),
                            kwargs={"ended": ended, "wrong": wrong},
                        )
                        for _ in range(SENDERS)
                    ),
                ]
                for thread in threads:
                    thread.start()
                with redis.Redis.from_url(server.url) as client:
                    began = time.monotonic()
                    while time.monotonic() - began < seconds and not wrong:
                        ended.wait(1)
                        samples.append((time.monotonic() - began, *_memory(process, client)))
                ended.set()
                for thread in threads:
                    thread.join()
            assert not wrong, wrong[0]
            Folder(store).fold_once()
            assert store.figures.lag() == 0
            store.close()
    return {
        "server": _growth(samples, 1),
        "store, used memory": _growth(samples, 2),
        "store, resident": _growth(samples, 3),
    }


def _memory(process: psutil.Process, client: redis.Redis) -> tuple[float, float, float]:
    server = sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
    store = client.info("memory")
    return server, store["used_memory"], store["used_memory_rss"]


def _growth(samples: Sequence[tuple[float, ...]], column: int) -> Memory:
    kept = np.array(samples[len(samples) // 4 :])
    slope, _ = np.polyfit(kept[:, 0], kept[:, column], 1)
    return Memory(float(kept[-1, column]), float(kept[:, column].mean()), float(slope))


def _send(
    url: str,
    keys: Keys,
    reports: int,
    devices: int,
    rate: float,
    *,
    ended: threading.Event,
    wrong: list[bytes],
) -> None:
    """Let devices take turns, each with a sequence of its own."""
    known = [keys.enrol() for _ in range(devices)]
    variants = [each[0] for each in texts(datetime.now(UTC).date(), reports)]
    with connected(url) as connection:
        sequence = 0
        while True:
            sequence += 1
            for device, key in known:
                if ended.wait(1 / rate):
                    return
                answer = exchange(connection, request_of(device, key, sequence, variants))
                if not answer.startswith(b"HTTP/1.1 200"):
                    wrong.append(answer)
                    return


if __name__ == "__main__":
    sys.exit(main())
