"""Lost, cut, delayed and repeated messages: whatever the network does, a report counts once."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from aggregator.fold import Folder
from aggregator.store import Store
from aggregator.store.layout import Shard
from client_sdk import Client, loads
from tests.faults.census import Census, Senders
from tests.faults.folding import folding
from tests.faults.proxy import FAULTS, Fault, FaultProxy, to_port, to_unix

SCRIPT, UPLOAD = b"EVALSHA", b"POST /v1/reports"


@pytest.fixture
def proxy(valkey: Any, proxy_to: Callable[..., FaultProxy]) -> FaultProxy:
    """Between the server and its store."""
    return proxy_to(to_unix(str(valkey.socket)), delay_seconds=0.6)


@pytest.fixture
def behind(redis_url: str, proxy: FaultProxy, new_world: Callable[..., Any]) -> Iterator[Any]:
    """A world whose store is reached through the proxy, and whose patience is short."""
    url = f"redis://127.0.0.1:{proxy.port}/0"
    made = new_world(url, store_timeout_seconds=0.3)
    _warm(made)
    yield made
    made.store.close()


def _warm(world: Any) -> None:
    """Have scripts loaded and versions read, so that a batch is one exchange with the store."""
    device = world.device()
    body = device.batch(world.report("theme", metric="nobody"))
    assert world.send(device, body).status_code == 200
    assert world.send(device, body).status_code == 200
    world.folder.fold_once()


def waiting(redis_url: str) -> int:
    """Entries in all streams."""
    with redis.Redis.from_url(redis_url) as client:
        return sum(client.xlen(stream) for stream in client.scan_iter(match="*:stream"))


def test_a_replayed_batch_is_counted_once_and_always_gets_its_first_answer(
    world: Any, serve: Callable[[Any], Any]
) -> None:
    server, census = serve(world), Census(world)
    for _ in range(10):
        number, device, body = census.upload()
        for _ in range(3):
            census.note(number, server.post(device, body))
    for _ in range(10):
        number, device, body = census.upload()
        gate = threading.Barrier(8)

        def send(device: Any = device, body: bytes = body, gate: Any = gate) -> Any:
            gate.wait()
            return server.post(device, body)

        with ThreadPoolExecutor(8) as pool:
            for answer in [job.result() for job in [pool.submit(send) for _ in range(8)]]:
                census.note(number, answer)
    assert census.verdicts == {"accepted": 20, "duplicate": 10 * 2 + 10 * 7}
    world.folder.fold_once()
    census.check()


ONE_FAULT = {
    "drop_request": ["accepted"],
    "cut_request": ["accepted"],
    "drop_reply": ["duplicate"],
    "cut_reply": ["duplicate"],
    # Not sent again by the server: a store that is slow needs no second load.
    "delay_reply": [503, "duplicate"],
}
TWO_FAULTS = {
    "drop_request": [503, "accepted"],
    "cut_request": [503, "accepted"],
    "drop_reply": [503, "duplicate"],
    "cut_reply": [503, "duplicate"],
    "delay_reply": [503, 503, "duplicate"],
}


THREE_FAULTS = TWO_FAULTS | {"delay_reply": [503, 503, 503, "duplicate"]}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("times", "expected"), [(1, ONE_FAULT), (2, TWO_FAULTS), (3, THREE_FAULTS)]
)
def test_the_stream_grows_by_one_whatever_happens_between_server_and_store(
    behind: Any, proxy: FaultProxy, redis_url: str, fault: Fault, times: int, expected: Any
) -> None:
    census = Census(behind)
    rounds = 1 if fault == "delay_reply" else 10
    for done in range(rounds):
        number, device, body = census.upload()
        proxy.arm(fault, SCRIPT, times)
        told: list[object] = []
        while not told or told[-1] == 503:
            answer = behind.send(device, body)
            if answer.status_code == 503:
                told.append(503)
                time.sleep(0.7 if fault == "delay_reply" else 0)
            else:
                census.note(number, answer)
                told.append(answer.json["verdict"])
        assert told == expected[fault]
        assert waiting(redis_url) == done + 1
    assert proxy.met == {fault: times * rounds}
    # What the store has seen twice is what lost its answer, and nothing else.
    answers_lost = rounds * times if fault.endswith("reply") else 0
    assert behind.store.figures.counters()["duplicates"] == answers_lost + 1  # one of _warm
    behind.folder.fold_once()
    counted = census.counted()
    assert counted == set(census.acknowledged) == set(range(rounds))


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fold_whose_commit_meets_a_fault_counts_once(
    behind: Any, proxy: FaultProxy, redis_url: str, fault: Fault, times: int
) -> None:
    census = Census(behind)
    for _ in range(40):
        number, device, body = census.upload()
        census.note(number, behind.send(device, body))
    proxy.arm(fault, SCRIPT, times, after=3)
    stop = threading.Event()
    worker = threading.Thread(
        target=Folder(behind.store, entries_per_commit=2, clock=lambda: 0.0).run, args=(stop, 0.01)
    )
    worker.start()
    while waiting(redis_url):
        stop.wait(0.01)
    stop.set()
    worker.join()
    assert proxy.met == {fault: times}
    assert behind.store.figures.lag() == 0 and census.counted() == set(range(40))


@pytest.mark.slow
@pytest.mark.parametrize("side", ["store", "clients"])
def test_random_faults_under_load_neither_lose_nor_double(
    redis_url: str,
    valkey: Any,
    new_world: Callable[..., Any],
    serve: Callable[[Any], Any],
    proxy_to: Callable[..., FaultProxy],
    seed: int,
    side: str,
) -> None:
    """One exchange in eight is spoilt, in one of five ways; the fold has the same proxy."""
    before_store = proxy_to(to_unix(str(valkey.socket)))
    world = new_world(f"redis://127.0.0.1:{before_store.port}/0")
    server = serve(world)
    before_server = proxy_to(to_port(int(server.url.rpartition(":")[2])))
    census = Census(world)
    noisy = before_store if side == "store" else before_server
    behind = replace(server, url=f"http://127.0.0.1:{before_server.port}")
    with folding(world, entries_per_commit=5):
        noisy.chaos(seed, 1 / 8)
        senders = Senders(census, behind, 1200)
        senders.wait()
        noisy.calm()
    world.folder.fold_once()
    print(f"{side}: {dict(noisy.met)}, 503: {senders.refused[503]}, broken: {senders.broken}")
    assert min(noisy.met[fault] for fault in FAULTS) > 10
    assert senders.sent == 1200
    census.check()
    world.store.close()


DEVICES = 40
# 2**31 times likelier to say the truth than any other value: the chance that one of the reports
# below lies is under 40 reports x 40 values x 1e-13 = 2e-10.
OWN_VALUE = f"""
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 100
contact = "telemetry@example.org"

[metrics.own]
question = "Which device of the test is this?"
type = "category"
values = [{", ".join(f'"v{number}"' for number in range(DEVICES))}, "other"]
catch_all = "other"
mechanism = "generalized_randomized_response"
sensitivity = "public report"
epsilon = 30
epoch = "once"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2036-01-01
"""


@pytest.fixture
def real_clients(
    redis_url: str,
    new_world: Callable[..., Any],
    serve: Callable[[Any], Any],
    proxy_to: Callable[..., FaultProxy],
    tmp_path: Path,
) -> Iterator[tuple[Any, FaultProxy, Callable[[int], Client]]]:
    """A server, a proxy before it, and what makes the shipped client of a device."""
    world = new_world(redis_url, registry=OWN_VALUE)
    server = serve(world)
    proxy = proxy_to(to_port(int(server.url.rpartition(":")[2])))
    made: list[Client] = []

    def client(number: int) -> Client:
        made.append(
            Client(
                loads(OWN_VALUE),
                endpoint=f"http://127.0.0.1:{proxy.port}",
                write_key=world.keys.write_key,
                enabled=True,
                respect_environment=False,
                state_dir=tmp_path / f"device{number}",
                upload_within_seconds=1e9,
            )
        )
        return made[-1]

    yield world, proxy, client
    for each in made:
        each.close()
    world.store.close()


def delivered(client: Client) -> None:
    """Flush until nothing is left to send."""
    deadline = time.monotonic() + 60
    while not client.flush(20):
        assert time.monotonic() < deadline, client.status()


def test_ten_lost_replies_to_a_real_client_count_once(real_clients: Any) -> None:
    world, proxy, client_of = real_clients
    client = client_of(7)
    proxy.arm("drop_reply", UPLOAD, times=10)
    client.record("own", "v7")
    delivered(client)
    status = client.status()
    assert proxy.met == {"drop_reply": 10} and (status.queued, status.refused) == (0, {})
    assert world.store.figures.counters()["duplicates"] == 10
    assert world.folder.fold_once() == 1
    tally = world.store.tallies.of(world.metric("own"), world.epoch("own"))
    assert tally.n == tally.counts[0, 7] == 1


@pytest.mark.slow
def test_real_clients_deliver_exactly_once_over_a_bad_network(real_clients: Any, seed: int) -> None:
    world, proxy, client_of = real_clients
    proxy.chaos(seed, 1 / 3)

    def live(number: int) -> Client:
        client = client_of(number)
        client.record("own", f"v{number}")
        delivered(client)
        return client

    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(live, range(DEVICES)))
    print(dict(proxy.met))
    assert sum(proxy.met.values()) > DEVICES / 3
    for client in clients:
        status = client.status()
        assert (status.queued, status.refused, status.dropped) == (0, {}, {}), status
    assert world.folder.fold_once() == DEVICES
    tally = world.store.tallies.of(world.metric("own"), world.epoch("own"))
    assert tally.counts.tolist() == [[1] * DEVICES + [0]]
    assert sorted(world.store.accounts.every_spent()) == [world.metric("own").charge] * DEVICES


def test_sixty_four_uploads_at_once_over_http_meet_the_cap_exactly(
    world: Any, serve: Callable[[Any], Any]
) -> None:
    """One device whose budget has room for one more report, sent 64 different batches at once."""
    server, device = serve(world), world.device()
    place = world.store._layout.place(device.id)
    ledger = Shard(place.shard).in_bucket("ledger", place.bucket)
    spent = 1_000_000_000 - 1_500_000  # of the project's 1000, and a report costs 1
    with redis.Redis.from_url(world.redis_url) as client:
        client.hset(ledger, place.pseudonym, spent.to_bytes(6, "big") + bytes(20))
    week = world.epoch("theme")
    bodies = [device.batch(world.report("theme", epoch=week - past % 30)) for past in range(64)]
    gate = threading.Barrier(64)

    def send(body: bytes) -> requests.Response:
        gate.wait()
        answer: requests.Response = server.post(device, body)
        return answer

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(send, bodies))
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert sum(answer.json()["reports"] == ["accepted"] for answer in answers) == 1
    assert world.store.accounts.spent(device.id) == spent + 1_000_000
    assert world.store.figures.counters()["accepted"] == world.folder.fold_once() == 1


def test_a_store_behind_a_closed_port_is_a_503_until_it_is_back(
    behind: Any, proxy: FaultProxy, redis_url: str
) -> None:
    census = Census(behind)
    number, device, body = census.upload()
    away = Store.connect(
        replace(behind.settings, redis_url="redis://127.0.0.1:1/0"), behind.keys.pseudonym_key
    )
    behind.store, back = away, behind.store
    behind.__post_init__()
    assert behind.send(device, body).status_code == 503
    behind.store = back
    behind.__post_init__()
    census.note(number, behind.send(device, body))
    assert waiting(redis_url) == 1
    away.close()
