"""A whole system under planted identifiers, and a search of everything that it has written."""

import base64
import io
import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from aggregator.store.layout import Layout
from client_sdk import Client, loads
from client_sdk.authentication import MAC_HEADER, batch_mac
from client_sdk.report import DEVICES_PATH, REPORTS_PATH, encode_batch
from client_sdk.state import State
from client_sdk.transport import HttpTransport, Reply
from sottovoce.__main__ import main
from sottovoce.system import free_port, running

REGISTRY = """
schema = 1
[project]
name = "planted"
lifetime_epsilon = 1000
contact = "telemetry@example.org"
[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "month"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2100-01-01
min_reports = 1
[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 2 }
rappor = { bits = 16, hashes = 2, cohorts = 8 }
epoch = "month"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2100-01-01
"""
AGENT = "PlantedAgent/7.31 (Wintermute)"
COOKIE = "planted-cookie-55d1c2"
REFERER = "https://planted-referer.example.org/"
VALUE = "planted-value.example.org"
ADDRESSES = ("203.0.113.77", "2001:db8:4d:7731:acdc:1234:5678:9abc")
PLANTED = {"User-Agent": AGENT, "Cookie": COOKIE, "Referer": REFERER}
MAY_HOLD_PSEUDONYMS = re.compile(r"\{s\d\d\}:(ledger|answers|mark|memo):")


class PlantedTransport(HttpTransport):
    """The SDK's own transport on a network that adds what networks and hosts add."""

    def __init__(self, endpoint: str, write_key: str, address: str) -> None:
        super().__init__(endpoint, write_key)
        self._address = address

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        return super()._post(path, body, headers | PLANTED | {"X-Forwarded-For": self._address})


@dataclass
class Needles:
    """What must not be found, in the forms in which it could be."""

    forms: dict[bytes, str] = field(default_factory=dict)

    def text(self, what: str, text: str) -> None:
        for each in (text, text.upper()):
            self.forms[each.encode()] = what
            self.forms[base64.b64encode(each.encode()).rstrip(b"=")[:-1]] = f"{what} in base64"

    def secret(self, what: str, secret: bytes) -> None:
        self.text(f"{what} in hex", secret.hex())
        self.forms[secret] = f"{what} as bytes"
        self.forms[secret[::-1]] = f"{what} as bytes, little-endian"
        for encode in (base64.b64encode, base64.urlsafe_b64encode, base64.b32encode):
            self.forms[encode(secret).rstrip(b"=")[:-1]] = f"{what}, {encode.__name__}"

    def found_in(self, content: bytes) -> set[str]:
        return {what for form, what in self.forms.items() if form in content}


def written(root: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of a system but the key file, by its name."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name != "keys.json":
            yield str(path.relative_to(root)), path.read_bytes()


def stored(url: str) -> Iterator[tuple[str, bytes]]:
    """Every key of the store with all that it holds, as text and as bytes."""
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter():
            kind = client.type(key)
            held: Any = {
                b"string": lambda k: [client.get(k)],
                b"hash": lambda k: [part for pair in client.hgetall(k).items() for part in pair],
                b"set": lambda k: list(client.smembers(k)),
                b"list": lambda k: client.lrange(k, 0, -1),
                b"stream": lambda k: [
                    part
                    for number, fields in client.xrange(k)
                    for part in (number, *(p for pair in fields.items() for p in pair))
                ],
            }[kind](key)
            yield key.decode(), b"\n".join([key, *held])


def rudely(system: Any, device: str, address: str) -> None:
    """What errors are made of: each with the id somewhere in it."""
    headers = PLANTED | {"X-Forwarded-For": address, "Content-Type": "application/json"}
    key = bytes(32)
    report = '{"metric":"theme","fingerprint":"0123456789abcdef","epoch":1,"cohort":0,"response":0}'
    for body in (
        encode_batch(device, 1, "0" * 32, [report]),  # in all but its MAC
        f'{{"version": 1, "device": "{device}", "sequence": 1}}'.encode(),
        f'{{"{device}": NaN}}'.encode(),
        f'["{device}"'.encode(),
        device.encode() * 3000,
    ):
        requests.post(
            system.endpoint + REPORTS_PATH,
            data=body,
            headers=headers | {MAC_HEADER: batch_mac(key, body)},
            timeout=30,
        )
    requests.post(
        system.endpoint + DEVICES_PATH,
        data=json.dumps({"device": device}),
        headers=headers | {"Authorization": f"Bearer {system.write_key}"},
        timeout=30,
    )
    for path in (f"/v1/devices/{device}", f"/{device}?device={device}", "/livez", "/metrics"):
        requests.get(system.endpoint + path, headers=headers, timeout=30)
    port = int(system.endpoint.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(f"GET /{device} NONSENSE\r\n{device}\r\n\r\n".encode())
        connection.recv(100)


def test_the_search_finds_each_form() -> None:
    """The control: what would be found if it were there."""
    secret = os.urandom(16)
    needles = Needles()
    needles.secret("id", secret)
    needles.text("agent", AGENT)
    assert not needles.found_in(os.urandom(100_000))
    for form in (
        secret.hex().encode(),
        secret.hex().upper().encode(),
        secret,
        secret[::-1],
        base64.b64encode(secret),
        base64.urlsafe_b64encode(secret),
        base64.b32encode(secret),
        base64.b64encode(secret.hex().encode()),
        AGENT.encode(),
        base64.b64encode(AGENT.encode()),
    ):
        assert needles.found_in(b"before" + form + b"after"), form


@pytest.mark.slow
def test_no_identifier_is_written_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Logs, metrics, store, both its files before and after a rewrite, releases, administrators'
    log, output."""
    data, states, logs = tmp_path / "data", tmp_path / "states", tmp_path / "data" / "logs"
    for name in ("SOTTOVOCE_KEYS_FILE", "REDIS_URL", "SOTTOVOCE_METRICS"):
        monkeypatch.delenv(name, raising=False)
    logs.mkdir(parents=True)
    registry, needles, places = loads(REGISTRY), Needles(), []
    for name, planted in (("agent", AGENT), ("cookie", COOKIE), ("referer", REFERER)):
        needles.text(name, planted)
    needles.text("value", VALUE)
    for address in ADDRESSES:
        needles.text("address", address)
    needles.text("network", "203.0.113.")
    needles.text("network", "2001:db8:4d:7731")
    packed = socket.inet_pton(socket.AF_INET6, ADDRESSES[1])
    for name, part in (("address", packed), ("network", packed[:8])):
        needles.secret(name, part)

    settings = ServerSettings(
        port=free_port(), fold_interval_seconds=0.2, trusted_proxies=1, metrics_port=free_port()
    )
    output = io.StringIO()
    with running(
        registry.text, data, settings=settings, with_schedule=True, log_directory=logs
    ) as system:
        for number in range(6):
            directory = states / str(number)
            client = Client(
                registry,
                enabled=True,
                respect_environment=False,
                state_dir=directory,
                transport=PlantedTransport(
                    system.endpoint, system.write_key, ADDRESSES[number % 2]
                ),
            )
            client.record("theme", VALUE)
            client.record("home_page", VALUE)
            assert client.flush(30)
            client.close()
            state = State(directory)
            device, key = state.device or "", state.device_key
            state.close()
            needles.secret("device id", bytes.fromhex(device))
            needles.secret("device key", key)
            layout = Layout(
                settings.shards, settings.buckets, Keys.load(data / "keys.json").pseudonym_key
            )
            places.append(layout.place(device))
            rudely(system, device, ADDRESSES[number % 2])
        assert sum(system.store.figures.counters()[name] for name in ("batches",)) == 6
        monkeypatch.setenv("REDIS_URL", system.server.url)
        monkeypatch.setenv("SOTTOVOCE_KEYS_FILE", str(data / "keys.json"))
        monkeypatch.setenv("SOTTOVOCE_RELEASES", str(system.releases))
        epoch = client_epoch(registry)
        with redirect_stdout(output):
            assert main(["publish", "--close", "theme", epoch]) == 0
            assert main(["keys", "rotate", "sealing"]) == 0
            assert main(["keys", "new", "read", "--label", "ana"]) == 0
            assert main(["ledger", "--device", device]) == 0
            assert main(["ledger", "--json"]) == 0
            assert main(["log", "verify"]) == 0
            assert main(["releases"]) == 0
        scraped = requests.get(
            f"http://127.0.0.1:{settings.metrics_port}/metrics", headers=PLANTED, timeout=30
        ).text
        in_store = dict(stored(system.server.url))
        before = dict(written(data))
        with redis.Redis.from_url(system.server.url) as client_of_store:
            client_of_store.save()
            client_of_store.bgrewriteaof()
            while client_of_store.info("persistence")["aof_rewrite_in_progress"]:
                pass
        after = dict(written(data))
    ended = dict(written(data))

    names = " ".join([*before, *after, *ended])
    for expected in ("appendonlydir", "dump.rdb", "serve.log", "fold.log", "schedule.log",
                     "releases/", "admin_log.jsonl", "generation.json"):  # fmt: skip
        assert expected in names, expected
    assert 'ldp_reports_rejected_total{reason="bad_mac"} 6.0' in scraped
    out, err = capfd.readouterr()
    everything = {
        "stdout": out.encode(),
        "stderr": err.encode(),
        "metrics": scraped.encode(),
        "commands": output.getvalue().encode(),
        **{f"store {key}": content for key, content in in_store.items()},
        **{f"before {name}": content for name, content in before.items()},
        **{f"after {name}": content for name, content in after.items()},
        **{f"ended {name}": content for name, content in ended.items()},
    }
    hits = {name: needles.found_in(content) for name, content in everything.items()}
    assert not {name: found for name, found in hits.items() if found}
    # The pseudonym is in the ledger, its marks and nowhere else.
    for place in places:
        forms = (place.pseudonym, str(place.member).encode(), place.pseudonym.hex().encode())
        holding = [key for key, content in in_store.items() if any(f in content for f in forms)]
        assert holding and all(MAY_HOLD_PSEUDONYMS.match(key) for key in holding), holding
        outside = {
            name: content
            for name, content in everything.items()
            if not name.startswith("store ")
            and "appendonlydir" not in name
            and not name.endswith("dump.rdb")
        }
        assert not [name for name, content in outside.items() if any(f in content for f in forms)]


def client_epoch(registry: Any) -> str:
    """The label of the running epoch of the metric that is published."""
    import time

    from client_sdk.epochs import label
    from client_sdk.pending import current_epoch

    metric = registry.metrics["theme"]
    return label(metric.epoch, current_epoch(metric, time.time()))
