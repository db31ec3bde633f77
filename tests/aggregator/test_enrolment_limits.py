"""Enrolment is limited in all and by network, fails closed, and no address is kept."""

import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from aggregator.enrolment.limits import EnrolmentLimits
from aggregator.enrolment.networks import Networks, is_this_machine
from aggregator.machine.embedded import EmbeddedServer
from client_sdk.report import DEVICES_PATH
from client_sdk.state import State
from client_sdk.transport import HttpTransport
from client_sdk.uploader import Uploader

SECRET = b"s" * 32


def app_of(world: Any, project: int = 10**6, network: int = 10**6, proxies: int = 0) -> Any:
    return world.app_with(
        limits=EnrolmentLimits(project, network),
        network_secret=SECRET,
        trusted_proxies=proxies,
    )


def enrol(world: Any, app: Any, address: str, **headers: str) -> Any:
    shown = {"Authorization": f"Bearer {world.keys.write_key}"}
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return app.test_client().post(
        DEVICES_PATH, headers=shown | more, environ_overrides={"REMOTE_ADDR": address}
    )


def limit_keys(world: Any) -> dict[str, int]:
    with redis.Redis.from_url(world.redis_url) as client:
        return {key.decode(): client.ttl(key) for key in client.scan_iter(match="limit:*")}


@pytest.fixture
def world(world: Any) -> Any:
    with redis.Redis.from_url(world.redis_url) as client:
        for key in client.scan_iter(match="limit:*"):
            client.delete(key)
    return world


def test_exactly_as_many_enrol_from_one_network_as_may(world: Any) -> None:
    app = app_of(world, network=5)
    told = [enrol(world, app, f"198.51.100.{n}").status_code for n in range(12)]
    assert told == [201] * 5 + [429] * 7
    assert enrol(world, app, "198.51.101.1").status_code == 201


@pytest.mark.slow
def test_ten_thousand_enrolments_from_one_network_are_limited(world: Any) -> None:
    """The default, from every address of a /24: T4 of the threat model."""
    app = app_of(world, network=EnrolmentLimits().network)
    told = Counter(enrol(world, app, f"203.0.113.{n % 256}").status_code for n in range(10_000))
    assert told == {201: 300, 429: 9700}


def test_what_one_network_has_too_much_uses_up_nothing_of_all(world: Any) -> None:
    app = app_of(world, project=4, network=2)
    assert [enrol(world, app, "198.51.100.1").status_code for _ in range(9)].count(201) == 2
    others = [enrol(world, app, f"192.0.2.{n}").status_code for n in range(2)]
    assert others == [201, 201]
    assert enrol(world, app, "100.64.0.1").status_code == 429  # the project's four are used up


def test_without_the_write_key_nothing_is_counted(world: Any) -> None:
    app = app_of(world, project=1, network=1)
    for _ in range(5):
        answer = app.test_client().post(DEVICES_PATH, headers={"Authorization": "Bearer wrong"})
        assert answer.status_code == 401
    assert limit_keys(world) == {}
    assert enrol(world, app, "198.51.100.1").status_code == 201


def test_a_limited_answer_says_how_long_and_the_window_ends_by_itself(world: Any) -> None:
    app = app_of(world, network=1)
    enrol(world, app, "198.51.100.1")
    answer = enrol(world, app, "198.51.100.1")
    assert answer.json["type"] == "urn:sottovoce:problem:rate_limited"
    assert 3590 <= int(answer.headers["Retry-After"]) <= 7201
    keys = limit_keys(world)
    assert len(keys) == 2 and all(0 < seconds <= 3600 for seconds in keys.values())
    with redis.Redis.from_url(world.redis_url) as client:
        for key in keys:
            client.pexpire(key, 1)
            while client.exists(key):
                pass
    assert enrol(world, app, "198.51.100.1").status_code == 201


def test_a_thousand_who_wait_come_again_spread_over_the_next_window(world: Any) -> None:
    """Uniform over an hour: all within ten minutes, or in one half, by chance below 1e-200."""
    app = app_of(world, network=1)
    enrol(world, app, "198.51.100.1")
    pauses = sorted(
        int(enrol(world, app, "198.51.100.1").headers["Retry-After"]) for _ in range(1000)
    )
    assert pauses[-1] - pauses[0] > 600 and pauses[0] >= 3500
    middle = (pauses[0] + pauses[-1]) / 2
    assert 300 < sum(pause < middle for pause in pauses) < 700


def test_ipv6_is_cut_to_64_bits_and_mapped_ipv4_is_ipv4(world: Any) -> None:
    app = app_of(world, network=1)
    assert enrol(world, app, "2001:db8:0:1::1").status_code == 201
    assert enrol(world, app, "2001:db8:0:1:ffff::9").status_code == 429
    assert enrol(world, app, "2001:db8:0:2::1").status_code == 201
    assert enrol(world, app, "::ffff:198.51.100.7").status_code == 201
    assert enrol(world, app, "198.51.100.8").status_code == 429


def test_a_site_of_many_ipv6_networks_has_ten_times_the_limit_of_one(world: Any) -> None:
    app = app_of(world, project=100, network=3)
    told = [
        enrol(world, app, f"2001:db8:1:{network:x}::{host}").status_code
        for network in range(20)
        for host in range(1, 4)
    ]
    assert told == [201] * 30 + [429] * 30
    # What it had too much used up nothing of all, of its neighbour, or of IPv4.
    for address in ("2001:db8:2::1", "192.0.2.9"):
        assert enrol(world, app, address).status_code == 201


def test_what_one_ipv6_network_has_too_much_uses_up_nothing_of_its_site(world: Any) -> None:
    app = app_of(world, network=1)
    for host in range(1, 20):
        enrol(world, app, f"2001:db8:1:1::{host:x}")
    assert enrol(world, app, "2001:db8:1:2::1").status_code == 201


def test_a_port_beside_the_address_is_not_part_of_it(world: Any) -> None:
    app = app_of(world, network=1, proxies=1)
    for plain, *same in (
        ("198.51.100.1", "198.51.100.2:4000", "[::ffff:198.51.100.3]:1"),
        ("2001:db8:0:1::1", "[2001:db8:0:1::2]:4000", "[2001:db8:0:1::3]"),
    ):
        assert enrol(world, app, "10.0.0.1", X_Forwarded_For=plain).status_code == 201
        for address in same:
            assert enrol(world, app, "10.0.0.1", X_Forwarded_For=address).status_code == 429
    for n in range(3):
        other = f"203.0.{n}.1:4{n:03d}"
        assert enrol(world, app, "10.0.0.1", X_Forwarded_For=other).status_code == 201


@pytest.mark.parametrize("text", ["", "[]", "[]:1", "1:2", "198.51.100.1:", "198.51.100.1:a", "["])
def test_what_is_no_address_is_one_network(text: str) -> None:
    networks = Networks(SECRET, lambda: 0.0)
    assert networks.name(text) == networks.name(None) and networks.site_name(text) is None


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP", "Forwarded"])
def test_a_proxy_on_this_machine_that_is_not_named_does_not_lift_the_limit(
    world: Any, header: str
) -> None:
    app = app_of(world, project=100, network=5)
    for address in ("127.0.0.1", "::1"):
        told = [enrol(world, app, address, **{header: "203.0.113.5"}).status_code for _ in range(9)]
        assert told == [201] * 5 + [429] * 4


@pytest.mark.parametrize(
    ("proxies", "header", "counted_as"),
    [
        (0, "192.0.2.1", "198.51.100.1"),
        (1, "192.0.2.1", "192.0.2.1"),
        (1, "203.0.113.9, 192.0.2.1", "192.0.2.1"),  # what came before is the client's own word
        (2, "203.0.113.9, 192.0.2.1, 10.0.0.1", "192.0.2.1"),
        (2, "192.0.2.1", "198.51.100.1"),  # fewer hops than there must be
        (1, "nonsense", "unreadable"),
        (1, "127.0.0.1, 192.0.2.1", "192.0.2.1"),
    ],
)
def test_only_the_word_of_trusted_proxies_counts(
    world: Any, proxies: int, header: str, counted_as: str
) -> None:
    app = app_of(world, network=1, proxies=proxies)
    enrol(world, app, "198.51.100.1", X_Forwarded_For=header)
    (name,) = [key.split("/")[2] for key in limit_keys(world) if "project" not in key]
    assert name == Networks(SECRET, lambda: world.now).name(counted_as)


def test_a_forged_header_buys_nothing(world: Any) -> None:
    for proxies, address in ((0, "198.51.100.1"), (1, "10.0.0.1")):
        app = app_of(world, network=3, proxies=proxies)
        told = []
        for n in range(20):
            forged = f"192.0.{n}.1" if proxies == 0 else f"192.0.{n}.1, 203.0.113.{n}"
            told.append(enrol(world, app, address, X_Forwarded_For=forged).status_code)
        assert told.count(201) == 3


def test_the_servers_own_machine_is_no_network_but_counts_in_all(world: Any) -> None:
    app = app_of(world, project=3, network=1)
    for address in ("127.0.0.1", "::1", "127.8.8.8"):
        assert is_this_machine(address) and enrol(world, app, address).status_code == 201
    assert enrol(world, app, "127.0.0.1").status_code == 429


def test_two_servers_count_together_what_comes_from_everywhere(world: Any) -> None:
    first, second = app_of(world, project=4), app_of(world, project=4)
    told = [enrol(world, app, "192.0.2.1").status_code for app in (first, second) * 4]
    assert told == [201] * 4 + [429] * 4


def test_no_address_is_in_the_names_and_tomorrow_they_are_others(world: Any) -> None:
    app = app_of(world)
    enrol(world, app, "198.51.100.77")
    names = " ".join(limit_keys(world))
    assert names and "198" not in names.replace(Networks(SECRET, lambda: world.now).name("198"), "")
    today = Networks(SECRET, lambda: world.now).name("198.51.100.77")
    assert today in names
    for other in (
        Networks(SECRET, lambda: world.now + 86_400).name("198.51.100.77"),
        Networks(b"t" * 32, lambda: world.now).name("198.51.100.77"),
        Networks(SECRET, lambda: world.now).name("198.51.101.77"),
    ):
        assert other != today
    assert today == Networks(SECRET, lambda: world.now).name("198.51.100.1")


@pytest.mark.parametrize("address", ["198.51.100.1", "127.0.0.1"])
def test_where_the_counters_cannot_be_asked_nobody_enrols(
    tmp_path: Path, new_world: Callable[..., Any], address: str
) -> None:
    with EmbeddedServer.start(tmp_path / "store", appendfsync="no") as server:
        lone = new_world(server.url)
        app = app_of(lone)
        assert enrol(lone, app, address).status_code == 201
    answer = enrol(lone, app, address)
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
    assert "device" not in answer.json and "key" not in answer.json
    lone.store.close()


def test_behind_an_unnamed_proxy_the_log_says_once_what_to_set(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = app_of(world, network=1)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            enrol(world, app, "10.0.0.1", X_Forwarded_For="192.0.2.1")
    (record,) = caplog.records
    assert "SOTTOVOCE_TRUSTED_PROXIES" in record.message
    assert "192.0.2" not in caplog.text and "10.0.0" not in caplog.text


def test_the_sdk_waits_as_long_as_it_is_told_and_keeps_everything(
    world: Any, serve: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real HTTP, and the limit of all, for these requests come from this machine."""
    monkeypatch.setenv("SOTTOVOCE_ENROL_LIMIT", "1")
    server = serve(world)
    http = HttpTransport(server.url, world.keys.write_key)
    assert json.loads(http.enrol().body)["device"]
    state = State(tmp_path / "state")
    with state.transaction() as connection:
        connection.execute(
            "INSERT INTO spool (keep_until, report) VALUES (?, ?)",
            (world.now + 1000, world.report("theme")),
        )
    outcome = Uploader(state, http, 10**9, Counter()).run(world.now)
    assert outcome.kind == "later" and 3500 < outcome.pause_seconds <= 7201
    assert state.queued() == 1 and state.device is None
    http.close()
    state.close()
