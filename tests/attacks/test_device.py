"""Attacks on a device: a server that wants more than was agreed, and a stolen state file."""

import json
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import redis

from client_sdk import Client, Registry
from client_sdk.authentication import answer_mac
from client_sdk.ledger import Ledger
from client_sdk.mechanisms import Rappor
from client_sdk.pending import Pending
from client_sdk.randomness import Coin
from client_sdk.recorder import Recorder, device_cohort, memory_tag
from client_sdk.registry import loads
from client_sdk.state import State
from client_sdk.testing import RecordingTransport, WsgiTransport
from client_sdk.transport import Reply
from client_sdk.uploader import REFUSED_DAYS, Uploader

DAY = 86_400
START = 1_796_083_200.0 + DAY / 2  # 1 December 2026, 12:00 UTC

TABLE = """
[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "day"
starts = 2026-12-01
expires = 2027-01-01
"""


DAYS = 12
REMEMBERED = """
[metrics.page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 2.0, distinct_values = 1 }
rappor = { bits = 128, hashes = 2, cohorts = 64 }
epoch = "day"
starts = 2026-12-01
expires = 2027-12-01
"""


class Greedy:
    """A server that holds the device's key, so all its MACs are valid, and offers more epsilon.

    Attributes:
        spent: What it claims that the device has spent, in micro-epsilon.
        offer: Keys that it adds to each answer.
    """

    def __init__(self, offer: dict[str, Any]) -> None:
        self.key = os.urandom(32)
        self.offer = offer
        self.spent = 0
        self.reports: list[dict[str, Any]] = []

    def enrol(self) -> Reply:
        identity = {"device": os.urandom(16).hex(), "key": self.key.hex()}
        return Reply(201, json.dumps({**self.offer, **identity}).encode())

    def send(self, body: bytes, mac: str) -> Reply:
        batch = json.loads(body)
        self.reports += batch["reports"]
        verdicts = ["accepted"] * len(batch["reports"])
        told = (batch["nonce"], batch["sequence"], "accepted", self.spent, verdicts)
        answer = {
            "sequence": batch["sequence"],
            "verdict": "accepted",
            "spent": self.spent,
            "reports": verdicts,
            "mac": answer_mac(self.key, *told),
        }
        return Reply(200, json.dumps({**self.offer, **answer}).encode())


def live(
    registry: Registry, folder: Path, server: Greedy, days: int, first: int = 0
) -> tuple[list[dict[str, Any]], float]:
    """Record for some days; return what was sent, but for responses, and epsilon spent."""
    now = [START + first * DAY]
    client = Client(
        registry,
        enabled=True,
        respect_environment=False,
        state_dir=folder,
        transport=server,
        clock=lambda: now[0],
        upload_within_seconds=1e9,
    )
    for _ in range(days):
        client.record("theme", "dark")
        assert client.flush()
        now[0] += DAY
    spent = client.status().spent_epsilon
    assert spent is not None
    client.close(10)
    return [{k: v for k, v in r.items() if k != "response"} for r in server.reports], spent


def test_a_server_that_offers_a_larger_epsilon_changes_nothing(
    registry_of: Any, note: Any, tmp_path: Path
) -> None:
    """Bound: the same channel, the same charge, whatever enrolment and answers say.

    Not random. Control: an app that takes the offered registry for its own.
    """
    registry = registry_of(TABLE)
    generous = registry.text.replace("epsilon = 1.0", "epsilon = 8.0")
    offer = {
        "epsilon": 8.0,
        "p_true": 0.999,
        "mechanism": {"name": "generalized_randomized_response", "epsilon": 8.0},
        "lifetime_epsilon": 1e9,
        "registry": generous,
        "metrics": {"theme": {"epsilon": 8.0}},
        "secret": "00" * 32,
        "reset": True,
    }
    plain = live(registry, tmp_path / "plain", Greedy({}), 10)
    offered = live(registry, tmp_path / "offered", Greedy(offer), 10)
    control = live(loads(generous), tmp_path / "control", Greedy(offer), 10)
    note(
        "a server offers epsilon 8 instead of 1, 10 reports (epsilon spent)",
        bound=plain[1],
        measured=offered[1],
        control=control[1],
    )
    assert offered == plain
    assert control[1] > 7 * plain[1] and control[0] != plain[0]


def test_a_lower_spent_figure_never_lowers_the_ledger_and_a_higher_one_raises_it(
    registry_of: Any, note: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Bound: the ledger is the larger of both figures. Not random.

    Control: a ledger that adopts what it is told.
    """
    registry = registry_of(TABLE)
    server = Greedy({"spent": 0})
    _, honest = live(registry, tmp_path / "state", server, 5)
    server.spent = 9_000_000
    _, raised = live(registry, tmp_path / "state", server, 1, first=5)
    server.spent = 0
    _, kept = live(registry, tmp_path / "state", server, 1, first=6)

    def adopt(self: Ledger, server_spent: int) -> None:
        self._connection.execute("UPDATE shares SET spent = ?", (server_spent,))

    monkeypatch.setattr(Ledger, "raise_to", adopt)
    _, control = live(registry, tmp_path / "control", Greedy({}), 5)
    note(
        "a server claims that nothing was spent (epsilon in the ledger)",
        bound=">= 10",
        measured=kept,
        control=control,
    )
    assert honest == 5 and raised == 9 and kept == 10
    assert control == 0


HOME_PAGE = """
[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 0.5
memoize = { epsilon_permanent = 1.0, distinct_values = 2 }
rappor = { bits = 512, hashes = 1, cohorts = 64 }
epoch = "day"
"""
CANDIDATES = [f"site-{number}.example" for number in range(10)]


def stolen_rows(path: Path) -> tuple[bytes | None, list[tuple[bytes, int]]]:
    """Read a stolen file: the secret if it is there, and remembered tags and responses."""
    with closing(sqlite3.connect(path)) as connection:
        secret = connection.execute("SELECT value FROM device WHERE name = 'secret'").fetchone()
        rows = connection.execute("SELECT tag, permanent FROM memory").fetchall()
    return (secret[0] if secret else None), [(t, int.from_bytes(p, "little")) for t, p in rows]


def test_a_stolen_state_file_gives_values_to_a_dictionary_with_its_secret_only(
    registry_of: Any, note: Any, most_hits: Any, tmp_path: Path
) -> None:
    """Documented as possible: tag and secret together test guesses, one HMAC each.

    Without the secret no tag can be tested, and remembered responses give at most
    e^E / (e^E + 9) of 10 candidates, E = epsilon_permanent = 1, even to a thief who knows the
    cohort; 200 devices, more hits than allowed have a chance of 1e-6. Control: with the secret.
    """
    registry = registry_of(HOME_PAGE)
    metric = registry.metrics["home_page"]
    mechanism = metric.mechanism
    assert isinstance(mechanism, Rappor) and mechanism.epsilon_permanent is not None
    chance = np.random.default_rng()
    by_tag = by_tag_without = by_response = 0
    devices = 200
    for number in range(devices):
        value = CANDIDATES[number % len(CANDIDATES)]
        state = State(tmp_path / str(number))
        epoch = number % 7
        recorder = Recorder(state, registry, START, Coin())
        assert not recorder.store([Pending(metric, epoch, value)])
        cohort = device_cohort(state.secret, metric)
        state.close()
        stolen = tmp_path / "stolen.sqlite3"
        shutil.copy(state.path, stolen)

        secret, ((tag, permanent),) = stolen_rows(stolen)
        assert secret is not None
        by_tag += [v for v in CANDIDATES if memory_tag(secret, metric, v, cohort) == tag] == [value]

        with closing(sqlite3.connect(stolen)) as connection, connection:
            connection.execute("DELETE FROM device WHERE name IN ('secret', 'seal')")
        nothing, ((tag, permanent),) = stolen_rows(stolen)
        assert nothing is None
        keys = [b"", bytes(32), tag, tag + tag, os.urandom(32), metric.channel_hash.encode()]
        by_tag_without += any(
            memory_tag(k, metric, v, cohort) == tag for k in keys for v in CANDIDATES
        )
        fitting = [v for v in CANDIDATES if permanent >> mechanism.cells_for(v, cohort)[0] & 1]
        by_response += chance.choice(fitting or CANDIDATES) == value

    power = float(np.exp(float(mechanism.epsilon_permanent)))
    bound = power / (power + len(CANDIDATES) - 1)
    note(
        "dictionary attack on a stolen state file without its secret, 1 of 10",
        bound=bound,
        measured=f"{by_response / devices:.3f} by response, {by_tag_without} by tag",
        control=by_tag / devices,
    )
    assert by_tag == devices
    assert by_tag_without == 0
    assert by_response <= most_hits(devices, bound) < 0.5 * devices


def test_erasing_again_and_again_buys_no_more_noise_than_the_life_has(
    registry_of: Any, note: Any, tmp_path: Path
) -> None:
    """Bound: draws of remembered answers to one value are at most cap / reservation.

    A host that has the device erased every day, to average the permanent noise away. Not random.
    Control: a host that deletes the state instead, as whoever wipes a device can.
    """
    registry = registry_of(REMEMBERED, lifetime=10)

    def draws(folder: Path, end_life: Any) -> int:
        now, drawn = [START], set()
        transport = RecordingTransport()
        for _ in range(DAYS):
            client = Client(
                registry,
                enabled=True,
                respect_environment=False,
                state_dir=folder,
                transport=transport,
                clock=lambda: now[0],
                upload_within_seconds=1e9,
            )
            client.record("page", "example.org")
            client.flush()
            with closing(sqlite3.connect(folder / "state.sqlite3")) as disk:
                drawn.update(disk.execute("SELECT permanent FROM memory").fetchall())
            end_life(client)
            client.close(10)
            now[0] += DAY
        return len(drawn)

    charge, cap = registry.metrics["page"].charge, registry.lifetime_micro
    measured = draws(tmp_path / "erased", lambda client: client.erase())

    def wipe(client: Client) -> None:
        client.close(10)
        shutil.rmtree(tmp_path / "wiped")

    control = draws(tmp_path / "wiped", wipe)
    note(
        "a device is erased every day for 12 days (draws of permanent noise for one value)",
        bound=cap // charge,
        measured=measured,
        control=control,
    )
    assert measured == cap // charge < control == DAYS


def test_nobody_on_the_way_burns_a_device_that_enrolled_after_a_recovery(
    registry_of: Any, lasting: Any, world_of: Any, tmp_path: Path, note: Any
) -> None:
    """Bound: what the one report costs that arrives.

    A recovery leaves a floor for ever: who begins with a later number than 1 starts there. Somebody
    on the way answers the first batch with a refusal until the device gives it up. Control: the
    floor, which a device would adopt for life if it went on with number 2.
    """
    world = world_of(registry_of(lasting("theme", 'type = "boolean"\nepsilon = 1.0')))
    floor, now = 900_000_000, world.now
    with redis.Redis.from_url(world.settings.redis_url) as client:
        for shard in world.store.shards:
            client.hset(f"{{s{shard:02d}}}:life", "floor", floor)
    honest = WsgiTransport(world.app.test_client(), world.keys.write_key)

    class OnTheWay:
        enrol = honest.enrol
        erase = honest.erase

        def send(self, body: bytes, mac: str) -> Reply:
            return Reply(400, b"{}")

    state, refused = State(tmp_path / "state"), Counter[str]()

    def run(transport: Any, days: float) -> int:
        Uploader(state, transport, 1000_000_000, refused).run(now + days * DAY)
        with state.transaction() as connection:
            return Ledger(connection, 1000_000_000).spent()

    def queue(before: int) -> None:
        with state.transaction() as connection:
            keep, report = now + 30 * DAY, world.report("theme", before=before)
            connection.execute(
                "INSERT INTO spool (keep_until, report) VALUES (?, ?)", (keep, report)
            )

    queue(1)
    run(OnTheWay(), 0)
    run(OnTheWay(), REFUSED_DAYS)
    assert refused == {"unanswered": 1}
    queue(0)
    spent = run(honest, REFUSED_DAYS + 1)
    state.close()
    note(
        "burning a new device after a recovery (micro-epsilon spent)",
        bound=world.metric("theme").charge,
        measured=spent,
        control=floor,
    )
    assert spent == world.metric("theme").charge
    assert (world.tally("theme").n, world.tally("theme", 1).n) == (1, 0)
