"""Uploads as devices send them, rendered in advance, and connections that send them at full speed.

Every upload is of a new device and holds the first reports of its life, which cost the server
most: a record, a mark and a paid memo for each are written.
"""

import multiprocessing
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from multiprocessing.synchronize import Barrier
from typing import Any
from urllib.parse import urlsplit

from aggregator.keyring.keys import Keys
from client_sdk.authentication import MAC_HEADER, batch_mac
from client_sdk.epochs import epoch_of
from client_sdk.registry import Registry, loads
from client_sdk.report import REPORTS_PATH, Report, encode_batch, report_to_json

METRICS, WEEKS = 10, 30
VARIANTS = 64
_METRIC = """
[metrics.page_{number}]
question = "Which page is the start page?"
type = "string"
sensitivity = "product"
epsilon = 1.0
memoize = {{ epsilon_permanent = 4.0, distinct_values = 1 }}
rappor = {{ bits = 128, hashes = 2, cohorts = 64 }}
epoch = "week"
owners = ["bench@example.org"]
starts = {starts}
expires = {expires}
"""


def registry(today: date) -> Registry:
    """Return ten metrics of 128 bits, in whose life the last thirty weeks lie."""
    head = 'schema = 1\n[project]\nname = "bench"\nlifetime_epsilon = 1000\n'
    head += 'contact = "bench@example.org"\n'
    starts, expires = today - timedelta(weeks=WEEKS + 1), today + timedelta(weeks=52)
    return loads(
        head
        + "".join(
            _METRIC.format(number=number, starts=starts, expires=expires)
            for number in range(METRICS)
        )
    )


class Renderer:
    """Makes requests with new devices and random responses.

    Args:
        keys: Of the server, which enrols.
        today: Decides which epochs are current.
        reports: How many an upload holds, at most METRICS * WEEKS.
    """

    def __init__(self, keys: Keys, today: date, reports: int) -> None:
        self._keys = keys
        self._variants = texts(today, reports)

    def request(self) -> bytes:
        """Return one whole HTTP request."""
        device, key = self._keys.enrol()
        chosen = secrets.token_bytes(len(self._variants))
        reports = [
            variants[number % VARIANTS]
            for variants, number in zip(self._variants, chosen, strict=True)
        ]
        return request_of(device, key, 1, reports)


def texts(today: date, reports: int) -> list[list[str]]:
    """Return so many reports of different (metric, epoch) pairs, in VARIANTS forms each."""
    week = epoch_of("week", today)
    metrics = list(registry(today).metrics.values())
    pairs = [(metric, week - back) for back in range(WEEKS) for metric in metrics][:reports]
    return [
        [
            report_to_json(
                Report(
                    metric.name,
                    metric.fingerprint,
                    epoch,
                    secrets.randbelow(64),
                    secrets.randbits(128),
                ),
                metric.mechanism,
            )
            for _ in range(VARIANTS)
        ]
        for metric, epoch in pairs
    ]


def request_of(device: str, key: bytes, sequence: int, reports: Sequence[str]) -> bytes:
    """Return the HTTP request that uploads a batch."""
    body = encode_batch(device, sequence, secrets.token_hex(16), reports)
    head = (
        f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"{MAC_HEADER}: {batch_mac(key, body)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(frozen=True)
class Sent:
    """What a load did.

    Attributes:
        seconds: From the first byte sent to the last answer.
        latencies: Of each upload in seconds, ascending.
    """

    seconds: float
    latencies: Sequence[float]

    @property
    def rate(self) -> float:
        """Uploads per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """Return a latency in seconds that `share` of all do not exceed."""
        return self.latencies[min(len(self.latencies) - 1, int(share * len(self.latencies)))]


def send(
    url: str,
    make_renderer: Callable[[], Renderer],
    uploads: int,
    connections: int,
    processes: int = 2,
) -> Sent:
    """Send new uploads over connections that stay open, each after the answer to the one before.

    Raises:
        AssertionError: An upload was not answered with 200.
    """
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    barrier = context.Barrier(processes)
    arguments = (
        url,
        make_renderer,
        uploads // processes,
        connections // processes,
        barrier,
        results,
    )
    children = [context.Process(target=_send, args=arguments) for _ in range(processes)]
    for child in children:
        child.start()
    found = [results.get() for _ in children]
    for child in children:
        child.join()
    wrong = [answer for _, _, _, answers in found for answer in answers]
    assert not wrong, wrong[0]
    seconds = max(end for _, end, _, _ in found) - min(begin for begin, _, _, _ in found)
    return Sent(seconds, sorted(each for _, _, latencies, _ in found for each in latencies))


def _send(
    url: str,
    make_renderer: Callable[[], Renderer],
    uploads: int,
    connections: int,
    barrier: Barrier,
    results: Any,
) -> None:
    renderer = make_renderer()
    requests = [renderer.request() for _ in range(uploads)]
    latencies: list[float] = []
    wrong: list[bytes] = []

    def work() -> None:
        with connected(url) as connection:
            while requests:
                try:
                    request = requests.pop()
                except IndexError:
                    return
                began = time.monotonic()
                answer = exchange(connection, request)
                latencies.append(time.monotonic() - began)
                if not answer.startswith(b"HTTP/1.1 200"):
                    wrong.append(answer)

    threads = [threading.Thread(target=work) for _ in range(connections)]
    barrier.wait()
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((began, time.monotonic(), latencies, wrong[:1]))


def connected(url: str) -> socket.socket:
    """Open a connection to a server."""
    where = urlsplit(url)
    connection = socket.create_connection((where.hostname, where.port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def exchange(connection: socket.socket, request: bytes) -> bytes:
    """Send a request and return its answer, which has a Content-Length."""
    connection.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += _piece(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    (length,) = [int(value) for name, _, value in lines if name == b"content-length"]
    while len(body) < length:
        body += _piece(connection)
    return head + b"\r\n\r\n" + body


def _piece(connection: socket.socket) -> bytes:
    piece = connection.recv(65536)
    if not piece:
        raise ConnectionError("the server closed the connection in the middle of an answer")
    return piece
