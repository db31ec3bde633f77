"""Servers' own figures, from servers that tell them, hang, and lie."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from aggregator.watching.metering import Meter
from estimator.dashboard.servers import Servers, read
from tests.aggregator.conftest import free_port

Act = Callable[[BaseHTTPRequestHandler], None]
Serve = Callable[[Act], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Answer each request by an act; return the address."""
    running = []

    def start(act: Act) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with suppress(ConnectionError):
                    act(self)

            def log_message(self, *args: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        running.append(server)
        return f"http://127.0.0.1:{server.server_port}/metrics"

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def telling(body: bytes, status: int = 200, **headers: str) -> Act:
    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return act


def figures(refused: int = 0, uploads: int = 0, workers: int = 1) -> bytes:
    """What a server of ours says, by its own meter."""
    meter = Meter(CollectorRegistry())
    meter.workers.set(workers)
    meter.refusals.labels("bad_mac").inc(refused)
    meter.violations.inc(refused)
    for number in range(uploads):
        meter.duration.observe(0.02 if number % 100 else 0.7)
    return generate_latest(meter.registry)


def test_servers_are_summed(serve: Serve) -> None:
    urls = [serve(telling(figures(2, 200, 3))), serve(telling(figures(5, 100, 4)))]
    answers = Servers(urls).ask()
    assert (answers.asked, answers.silent) == (2, ())
    told = answers.told
    assert told is not None
    assert told.refused["bad_mac"] == 7 and told.workers == 7 and told.violations == 7
    assert told.durations[math.inf] == 300 and told.durations[0.025] == 297


def test_quantiles_are_those_that_prometheus_reckons() -> None:
    told = read(figures(uploads=1000))
    # 990 of 1000 lie in (0.01, 0.025], the others in (0.5, 1]; linear within a bucket.
    assert told.within(0.5) == pytest.approx(0.01 + 0.015 * 500 / 990)
    assert told.within(0.995) == pytest.approx(0.5 + 0.5 * 5 / 10)
    assert read(figures()).within(0.5) is None


def test_what_the_histogram_does_not_reach_is_no_figure() -> None:
    meter = Meter(CollectorRegistry())
    meter.duration.observe(11)
    assert read(generate_latest(meter.registry)).within(0.99) == math.inf


def test_without_servers_nobody_is_asked() -> None:
    assert Servers().ask().told is None and Servers().ask().asked == 0


def hangs(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(20)


def drips(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b"#\n")
        time.sleep(0.1)


def drips_headers(handler: BaseHTTPRequestHandler) -> None:
    for letter in b"HTTP/1.1 200 OK\r\n" + b"X" * 100:
        handler.wfile.write(bytes([letter]))
        time.sleep(0.1)


def cuts(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(figures())


ODD = {
    "hangs": (hangs, "gave no"),
    "drips": (drips, "gave no whole answer within a second"),
    "drips headers": (drips_headers, "gave no"),
    "ends in the middle": (cuts, "ended its answer in the middle"),
    "10 MB": (telling(figures() + b"#" * 10_000_000), "more than 1 MiB"),
    "a page": (telling(b"<html><script>alert(1)</script></html>"), "something else"),
    "nothing": (telling(b""), "something else"),
    "half a line": (telling(b'ldp_server_workers{a="'), "something else"),
    "no figure": (telling(b"ldp_server_workers many\n"), "something else"),
    "NaN": (telling(b"ldp_server_workers NaN\n"), "something else"),
    "endless": (telling(b"ldp_server_workers +Inf\n"), "something else"),
    "negative": (telling(b"ldp_server_workers -4\n"), "something else"),
    "no reason": (telling(b"ldp_reports_rejected_total 4\n"), "something else"),
    "not UTF-8": (telling(b"ldp_server_workers 1\n\xff"), "something else"),
    "packed": (telling(b"\x1f\x8b" * 50, Content_Encoding="gzip"), "something else"),
    "an error": (telling(b"", 500), "status 500"),
    "sends elsewhere": (telling(b"", 302, Location="http://127.0.0.1:1/"), "status 302"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_server_that_hangs_or_lies_is_one_line_and_the_others_are_read(
    serve: Serve, name: str
) -> None:
    act, told = ODD[name]
    odd, sound = serve(act), serve(telling(figures(3)))
    began = time.monotonic()
    answers = Servers([odd, sound]).ask()
    assert time.monotonic() - began < 5  # a second, on a machine with much else to do
    ((server, why),) = answers.silent
    assert server == odd.split("/")[2] and told in why
    assert answers.told is not None and answers.told.refused["bad_mac"] == 3


def test_servers_that_hang_are_waited_for_together(serve: Serve) -> None:
    urls = [*(serve(hangs) for _ in range(6)), serve(telling(figures(3)))]
    began = time.monotonic()
    answers = Servers(urls).ask()
    assert len(answers.silent) == 6 and answers.told is not None
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("act", [drips, drips_headers])
def test_a_server_that_drips_takes_no_thread_from_another(serve: Serve, act: Act) -> None:
    servers = Servers([serve(act), serve(telling(figures(3)))])
    for _ in range(6):
        assert servers.ask().told is not None


def test_a_server_that_is_away_is_said_to_be() -> None:
    ((_, why),) = Servers([f"http://127.0.0.1:{free_port()}/metrics"]).ask().silent
    assert why.startswith("cannot be reached")


def test_reasons_that_no_server_has_are_not_taken_over(serve: Serve) -> None:
    odd = figures(1) + b'ldp_reports_rejected_total{reason="<script>"} 9\n'
    told = Servers([serve(telling(odd))]).ask().told
    assert told is not None and +told.refused == {"bad_mac": 1}
