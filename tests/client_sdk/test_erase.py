"""Erasing a device: nothing old stays or leaves, nothing is refunded, the server is told."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Registry
from client_sdk.authentication import answer_mac
from client_sdk.erasure import MOST_TAGS, erase
from client_sdk.errors import NoRandomness, StateErased, StateError, TransportError
from client_sdk.ledger import ELSEWHERE
from client_sdk.recorder import permanent_response
from client_sdk.state import FILE_NAME, State, split_tags
from client_sdk.transport import Reply

ROOT = Path(__file__).parents[2]
DAY = 86_400
NOON = 1_796_126_400.0
MakeClient = Callable[..., Client]


@pytest.fixture
def both(registry_of: Any, tables: dict[str, str]) -> Registry:
    made: Registry = registry_of(*tables.values())
    return made


def rows(folder: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(folder / "state" / FILE_NAME)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def kept(folder: Path) -> dict[str, bytes]:
    return dict(rows(folder, "SELECT name, value FROM device"))


def shares(folder: Path) -> dict[str, tuple[int, ...]]:
    found = rows(folder, "SELECT metric, reserved, spent, fits, reports, changes FROM shares")
    return {name: tuple(rest) for name, *rest in found}


def bytes_of(directory: Path) -> bytes:
    return b"\x00".join(path.read_bytes() for path in directory.iterdir())


def test_everything_goes_but_the_total_and_the_marks(
    client_of: MakeClient, server: Any, both: Registry, tmp_path: Path
) -> None:
    client = client_of(both)
    client.record("home_page", "example.org")
    assert client.flush()
    server.answer = server.dead
    client.record("theme", "dark")
    assert not client.flush()  # a batch is outstanding
    before, paid = kept(tmp_path), shares(tmp_path)
    assert client.erase()
    after = kept(tmp_path)
    assert after.keys() == {"secret", "seal", "erased_from"}
    assert after["secret"] != before["secret"] and len(after["secret"]) == 32
    changes = sum(share[4] for share in paid.values())
    assert shares(tmp_path) == {ELSEWHERE: (9_000_000, 9_000_000, 0, 0, changes)}
    for table in ("spool", "batch", "watched", "memory", "paid", "sqlite_sequence"):
        assert rows(tmp_path, f"SELECT * FROM {table}") == [], table
    assert sorted(rows(tmp_path, "SELECT metric, epoch FROM marks")) == [
        ("home_page", 20_788),
        ("theme", 20_788),
    ]
    (request,) = server.erasures
    document = json.loads(request)
    assert document.keys() == {"version", "device", "nonce"}
    assert (document["version"], document["device"]) == (1, server.device)
    status = client.status()
    assert (status.queued, status.spent_epsilon) == (0, 9.0)
    assert status.summary == "disabled: erased, and not enabled by the app since"
    client.record("theme", "dark")
    assert client.dropped == {"opted_out": 1, "disabled": 1}


def test_the_file_and_its_journal_keep_no_old_byte(
    client_of: MakeClient, server: Any, both: Registry, tmp_path: Path
) -> None:
    client = client_of(both)
    server.answer = server.dead
    # Enough for pages that are free, and for a journal.
    state = State(tmp_path / "state")
    with state.transaction() as connection:
        connection.executemany(
            "INSERT INTO spool (keep_until, report) VALUES (?, ?)",
            [(9e9, f"old-report-{number:05d}-" + "x" * 200) for number in range(300)],
        )
    with state.transaction() as connection:  # deleted before anybody erased anything
        connection.execute("PRAGMA secure_delete = OFF")  # some builds of SQLite have it on
        connection.execute("DELETE FROM spool WHERE id > 20")
    secret = state.secret
    state.close()
    client.record("home_page", "example.org")
    client.record("theme", "dark")
    client.flush()
    (tag,) = rows(tmp_path, "SELECT tag FROM memory")[0]
    (body,) = rows(tmp_path, "SELECT body FROM batch")[0]
    sought = {
        "secret": secret,
        "id": server.device.encode(),
        "id in bytes": bytes.fromhex(server.device),
        "key": server.key,
        "memory": tag,
        "batch": bytes(body)[:80],
        "a report": b"old-report-00299",
        "an older report": b"old-report-00007",
        "fingerprint": both.metrics["theme"].fingerprint.encode(),
    }
    held = bytes_of(tmp_path / "state")
    found = {name for name, its in sought.items() if its in held}
    assert found == sought.keys() - {"id in bytes"}
    # Others hold the file open, so that the journal is not simply removed.
    beside = sqlite3.connect(tmp_path / "state" / FILE_NAME)
    beside.execute("SELECT count(*) FROM device").fetchone()
    assert client.erase()
    client.close(5)
    held = bytes_of(tmp_path / "state")
    assert [name for name, its in sought.items() if its in held] == []
    assert (tmp_path / "state" / f"{FILE_NAME}-wal").exists()
    beside.close()


def test_what_a_reader_keeps_from_being_scrubbed_is_scrubbed_at_the_next_start(
    client_of: MakeClient, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client_sdk.worker.PATIENCE_SECONDS", 0.1)
    client = client_of()
    client.record("theme", "dark")
    assert client.flush()
    secret = kept(tmp_path)["secret"]
    # As an app that is suspended in the middle of a look.
    reader = sqlite3.connect(tmp_path / "state" / FILE_NAME, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM device").fetchone()
    assert client.erase()
    assert "unscrubbed" in kept(tmp_path)
    reader.execute("COMMIT")
    reader.close()
    again = client_of()
    assert again.flush()
    assert "unscrubbed" not in kept(tmp_path)
    again.close(5)
    assert secret not in bytes_of(tmp_path / "state")


def test_erasing_without_an_answer_keeps_a_farewell_and_nothing_else(
    client_of: MakeClient, server: Any, both: Registry, tmp_path: Path
) -> None:
    client = client_of(both)
    client.record("home_page", "example.org")
    client.flush()
    server.erasure = server.dead
    assert not client.erase()
    farewell = bytes.fromhex(server.device) + server.key
    assert kept(tmp_path).keys() == {"secret", "seal", "erased_from", "farewell"}
    assert kept(tmp_path)["farewell"] == farewell
    preview = client.preview()
    assert preview.leaving and preview.as_json()["leaving"] is True
    assert "has not confirmed yet" in preview.in_words()
    assert "(erased, or known to the server only): epsilon 8 spent" in preview.in_words()
    # Once more, by hand: now it is confirmed, and gone from the disk.
    server.erasure = server.erased
    assert client.erase()
    assert len(server.erasures) == 2
    assert kept(tmp_path).keys() == {"secret", "seal", "erased_from"}
    assert farewell not in bytes_of(tmp_path / "state")
    assert not client.preview().leaving
    assert client.erase() and len(server.erasures) == 2  # nothing is left to ask for


BAD_ANSWERS = {
    "unsigned": lambda s, body: Reply(200, b'{"verdict": "erased"}'),
    "other nonce": lambda s, body: s.erased(json.dumps({"nonce": "0" * 32}).encode()),
    "other status": lambda s, body: Reply(202, s.erased(body).body),
    "other verdict": lambda s, body: Reply(
        200, json.dumps({**json.loads(s.erased(body).body), "verdict": "accepted"}).encode()
    ),
    "number for a mac": lambda s, body: Reply(200, b'{"verdict": "erased", "mac": 5}'),
    "list": lambda s, body: Reply(200, b"[]"),
    "no JSON": lambda s, body: Reply(200, b"\xff"),
    "refused": lambda s, body: Reply(401, b"{}"),
    "not found": lambda s, body: Reply(404, b"{}"),
    "dead": lambda s, body: s.dead(),
}


@pytest.mark.parametrize("bad", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_an_answer_that_cannot_be_believed_confirms_nothing(
    bad: Any, client_of: MakeClient, server: Any, tmp_path: Path
) -> None:
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    server.erasure = lambda body: bad(server, body)
    assert client.erase() is False
    assert "farewell" in kept(tmp_path)


def test_the_server_is_told_to_erase_also_what_it_has_under_former_ids(
    client_of: MakeClient, server: Any, clock: Any, tmp_path: Path
) -> None:
    """One was never answered, so that nobody knows whether it is known; one was revoked."""
    ids = [os.urandom(16).hex() for _ in range(3)]
    client = client_of()

    def give(answer: Callable[[bytes], Reply]) -> None:
        server.answer = answer
        client.record("theme", "dark")
        client.flush()
        clock.now += DAY

    server.device = ids[0]
    give(server.dead)
    clock.now += 3 * DAY  # beyond its grace
    server.device = ids[1]
    give(server.accepted)
    give(lambda body: server.signed(body, status=401, verdict="identity_revoked", reports=[]))
    server.device = ids[2]
    give(server.accepted)
    assert kept(tmp_path)["former"] == b"".join(bytes.fromhex(i) + server.key for i in ids[:2])
    assert not client.preview().leaving and server.erasures == []
    server.erasure = server.dead
    assert not client.erase()
    server.erasure = server.erased
    assert client.erase()
    assert [json.loads(body)["device"] for body in server.erasures] == [ids[0], *ids]
    assert kept(tmp_path).keys() == {"secret", "seal", "erased_from"}
    held = bytes_of(tmp_path / "state")
    assert [i for i in ids if bytes.fromhex(i) in held] == []


def test_after_opting_in_again_the_farewell_comes_before_everything_else(
    client_of: MakeClient, server: Any, both: Registry, clock: Any, tmp_path: Path
) -> None:
    client = client_of(both)
    client.record("home_page", "example.org")
    client.flush()
    server.erasure = server.dead
    assert not client.erase()
    again = client_of(both)
    clock.now += DAY
    again.record("theme", "dark")
    assert not again.flush()
    assert (server.enrolments, len(server.bodies), len(server.erasures)) == (1, 1, 2)
    old, server.device = server.device, os.urandom(16).hex()
    server.erasure = server.erased
    assert again.flush()
    assert (server.enrolments, len(server.bodies), len(server.erasures)) == (2, 2, 3)
    assert {json.loads(body)["device"] for body in server.erasures} == {old}
    batch = json.loads(server.bodies[-1])
    assert (batch["device"], batch["sequence"]) == (server.device, 1)
    assert "farewell" not in kept(tmp_path)


def test_a_farewell_is_sent_by_a_start_with_consent_that_has_nothing_else_to_send(
    client_of: MakeClient, server: Any
) -> None:
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    server.erasure = server.dead
    assert not client.erase()
    server.erasure = server.erased
    again = client_of(upload_within_seconds=0)
    again.record("theme", "dark")  # recorded today already
    deadline = time.monotonic() + 20
    while len(server.erasures) < 2:
        assert time.monotonic() < deadline, "nothing was sent by itself"
        time.sleep(0.01)
    assert len(server.bodies) == 1


def test_flush_is_not_done_while_a_farewell_waits(client_of: MakeClient, server: Any) -> None:
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    server.erasure = server.dead
    client.erase()
    assert not client_of().flush()


# Nothing is refunded


def test_erase_no_refund(
    client_of: MakeClient, server: Any, clock: Any, registry_of: Any, tmp_path: Path
) -> None:
    """Spend all, erase, opt in again, record: silent."""
    registry = registry_of(lifetime=7)
    client = client_of(registry)
    for _ in range(7):
        client.record("theme", "dark")
        assert client.flush()
        clock.now += DAY
    assert client.status().spent_epsilon == 7.0
    clock.now -= DAY  # on the last day
    assert client.erase()
    more = registry_of(lifetime=7, starts="2026-12-08", expires="2026-12-15")
    again = client_of(more)
    for _ in range(5):
        clock.now += DAY
        again.record("theme", "dark")
        assert again.flush()
    assert again.dropped == {"does_not_fit": 5}
    assert len(server.bodies) == 7 and server.enrolments == 1
    assert again.status().spent_epsilon == 7.0


def test_many_erasures_never_spend_more_than_the_cap(
    client_of: MakeClient, server: Any, clock: Any, both: Registry, tmp_path: Path
) -> None:
    for _ in range(12):
        client = client_of(both)  # 7 for theme, 8 for the remembered answers, of 100
        client.record("home_page", "example.org")
        client.record("theme", "dark")
        client.flush()
        spent = client.status().spent_epsilon
        assert spent is not None and spent <= 100
        assert client.erase()
        clock.now += DAY
    (total,) = rows(tmp_path, "SELECT sum(spent) FROM shares")[0]
    # theme lives a week; home_page is paid anew by each life while it fits: 7 + 11 * 8 = 95.
    assert total == 95_000_000


def test_an_epoch_is_not_reported_twice_by_two_lives(
    client_of: MakeClient, server: Any, both: Registry, clock: Any, tmp_path: Path
) -> None:
    for _ in range(3):
        client = client_of(both)
        client.record("home_page", "example.org")
        client.record("theme", "dark")
        client.flush()
        assert client.erase()
    assert len(server.reports) == 2
    clock.now += 90 * DAY
    client = client_of(both)
    client.record("home_page", "example.org")
    client.flush()
    assert client.erase()
    # What can no longer be reported is forgotten.
    (mark,) = rows(tmp_path, "SELECT metric, epoch FROM marks")
    assert mark == ("home_page", 20_788 + 90)


def test_marks_of_a_block_and_of_the_future_stay(
    client_of: MakeClient, clock: Any, registry_of: Any, tables: dict[str, str], tmp_path: Path
) -> None:
    registry = registry_of(tables["home_page"].replace('epoch = "day"', 'epoch = "day"\nevery = 7'))
    state = State(tmp_path / "state")
    today = 20_788
    first = today // 7 * 7
    marks = [first - 4, first - 3, first, today, today + 400]
    with state.transaction() as connection:
        for epoch in marks:
            connection.execute("INSERT INTO marks VALUES ('home_page', 'day', ?)", (epoch,))
        connection.execute("INSERT INTO marks VALUES ('gone', 'day', ?)", (today - 30,))
        connection.execute("INSERT INTO marks VALUES ('gone', 'day', ?)", (today - 33,))
        connection.execute("INSERT INTO marks VALUES ('asked', 'once', 0)")
    erase(state, registry, NOON + DAY / 4)
    state.close()
    found = rows(tmp_path, "SELECT metric, epoch FROM marks WHERE metric = 'home_page'")
    grace = registry.metrics["home_page"].grace_days
    expected = [e for e in marks if (e // 7 + 1) * 7 + grace > today]
    assert sorted(epoch for _, epoch in found) == expected and len(expected) < len(marks) + 1
    others = rows(tmp_path, "SELECT metric, epoch FROM marks WHERE metric != 'home_page'")
    assert sorted(others) == [("asked", 0), ("gone", today - 30)]


def test_what_is_asked_once_is_not_answered_by_two_lives_however_long_it_is_prolonged(
    client_of: MakeClient, server: Any, clock: Any, registry_of: Any
) -> None:
    old = registry_of(epoch='"once"')  # expires on 2026-12-08
    new = registry_of(epoch='"once"', expires="2027-12-08")
    assert old.metrics["theme"].fingerprint == new.metrics["theme"].fingerprint
    client = client_of(old)
    client.record("theme", "dark")
    assert client.flush()
    clock.now += 60 * DAY
    assert client_of(old).erase()  # by an app that knows of no prolongation
    clock.now += DAY
    again = client_of(new)
    again.record("theme", "dark")
    assert again.flush()
    assert again.dropped == {"already_reported": 1}
    assert len(server.reports) == 1


def test_remembered_answers_are_drawn_anew_and_paid_anew(
    client_of: MakeClient, server: Any, clock: Any, both: Registry, tmp_path: Path
) -> None:
    drawn = []
    for _ in range(2):
        client = client_of(both)
        client.record("home_page", "example.org")
        client.flush()
        metric, secret = both.metrics["home_page"], kept(tmp_path)["secret"]
        (permanent,) = rows(tmp_path, "SELECT permanent FROM memory")[0]
        drawn.append(permanent)
        answer = int.from_bytes(permanent, "little")
        cohort = server.reports[-1]["cohort"]
        assert answer == permanent_response(secret, metric, "example.org", cohort)
        client.erase()
        clock.now += DAY
    assert drawn[0] != drawn[1]
    assert shares(tmp_path)[ELSEWHERE][1] == 16_000_000


def test_a_metric_without_a_bound_on_changes_leaves_a_total_without_one(tmp_path: Path) -> None:
    state = State(tmp_path)
    with state.transaction() as connection:
        connection.execute("INSERT INTO shares VALUES ('a', 9, 4, 1, 2, 6)")
        connection.execute("INSERT INTO shares VALUES ('b', 9, 5, 1, 1, NULL)")
    from client_sdk import loads

    registry = loads((ROOT / "examples" / "cli_tool" / "metrics.toml").read_text())
    assert erase(state, registry, NOON) == (0, 9)
    state.close()
    state = State(tmp_path)
    with state.transaction() as connection:
        found = connection.execute("SELECT * FROM shares").fetchall()
    state.close()
    assert found == [("", 9, 9, 0, 0, None)]


# Others on the same state


@pytest.mark.parametrize("times", [1, 3])
def test_another_client_goes_on_with_the_new_life_and_charges_no_old_one(
    times: int, client_of: MakeClient, server: Any, both: Registry, clock: Any, tmp_path: Path
) -> None:
    other = client_of(both)
    other.record("home_page", "example.org")
    assert other.flush()
    for _ in range(times):
        assert client_of(both).erase()
    clock.now += DAY
    other.record("home_page", "example.org")
    server.device = os.urandom(16).hex()
    assert other.flush()
    batch = json.loads(server.bodies[-1])
    assert (batch["device"], batch["sequence"]) == (server.device, 1)
    metric, secret = both.metrics["home_page"], kept(tmp_path)["secret"]
    (permanent,) = rows(tmp_path, "SELECT permanent FROM memory")[0]
    cohort = batch["reports"][0]["cohort"]
    expected = permanent_response(secret, metric, "example.org", cohort)
    assert int.from_bytes(permanent, "little") == expected
    assert other.status().spent_epsilon == 16.0
    assert other.status().summary == "collecting"
    other.opt_out()
    assert other.dropped == {}


def test_another_client_withdraws_also_after_an_erasure(
    client_of: MakeClient, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    other = client_of()
    other.record("theme", "dark")
    other.flush()
    client_of().erase()
    other.opt_out()
    assert caplog.records == []


def test_a_state_that_was_erased_in_use_writes_nothing_and_reads_nothing_new(
    tmp_path: Path, both: Registry
) -> None:
    state, other = State(tmp_path), State(tmp_path)
    state.enrolled("a" * 32, bytes(32))
    erase(other, both, NOON)
    for stale in (state, other):
        with pytest.raises(StateErased), stale.transaction() as connection:
            connection.execute("INSERT INTO marks VALUES ('m', 'day', 1)")
        stale.rest()
        with pytest.raises(StateErased):
            stale.queued()
        with pytest.raises(StateErased):
            stale.enrolled("b" * 32, bytes(32))
        stale.close()
    fresh = State(tmp_path)
    with fresh.transaction() as connection:
        assert connection.execute("SELECT * FROM marks").fetchall() == []
    assert fresh.device is None
    fresh.close()


def test_who_slept_through_too_many_erasures_stops(tmp_path: Path, both: Registry) -> None:
    sleeper = State(tmp_path)
    sleeper.rest()
    for _ in range(MOST_TAGS):
        state = State(tmp_path)
        erase(state, both, NOON)
        state.close()
    with pytest.raises(StateErased):
        sleeper.queued()
    state = State(tmp_path)
    erase(state, both, NOON)
    state.close()
    with pytest.raises(StateError, match="was replaced"):
        sleeper.queued()
    sleeper.close()


def test_what_is_being_sent_during_an_erasure_is_neither_believed_nor_sent_again(
    client_of: MakeClient, server: Any, both: Registry, tmp_path: Path
) -> None:
    """By another client: its batch was under way. Whatever the answer is, the new life lives."""
    under_way, released = threading.Event(), threading.Event()

    def slow(body: bytes) -> Reply:
        under_way.set()
        assert released.wait(10)
        reply: Reply = server.signed(body, status=410, verdict="erased", reports=[])
        return reply

    server.answer = slow
    other = client_of(both, upload_within_seconds=0)
    other.record("theme", "dark")
    assert under_way.wait(5)
    client = client_of(both)
    assert client.erase()
    server.answer = server.accepted
    released.set()
    assert other.flush()
    assert len(server.bodies) == 1
    assert other.status().summary == "collecting"
    assert "suspended" not in kept(tmp_path)
    assert "device" not in kept(tmp_path)


def test_a_batch_under_way_in_the_same_client_is_waited_for_and_then_the_server_told(
    client_of: MakeClient, server: Any, tmp_path: Path
) -> None:
    under_way, released = threading.Event(), threading.Event()

    def slow(body: bytes) -> Reply:
        under_way.set()
        assert released.wait(10)
        # An empty key must open nothing.
        batch = json.loads(body)
        told = (batch["nonce"], batch["sequence"], "clone_suspected", 0, [])
        return Reply(
            409,
            json.dumps(
                {
                    "sequence": batch["sequence"],
                    "verdict": "clone_suspected",
                    "spent": 0,
                    "reports": [],
                    "mac": answer_mac(b"", *told),
                }
            ).encode(),
        )

    server.answer = slow
    client = client_of(upload_within_seconds=0)
    client.record("theme", "dark")
    assert under_way.wait(5)
    assert client.erase(0.2) is False
    assert "device" not in kept(tmp_path) and server.erasures == []
    released.set()
    assert client.erase()
    assert len(server.bodies) == 1 and len(server.erasures) == 1
    assert "suspended" not in kept(tmp_path)


def test_erasing_waits_no_longer_than_it_may(client_of: MakeClient, server: Any) -> None:
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    released = threading.Event()

    def hung(body: bytes) -> Reply:
        released.wait(30)
        raise TransportError("gone")

    server.erasure = hung
    began = time.perf_counter()
    assert client.erase(0.2) is False
    assert time.perf_counter() - began < 10
    assert client.status().queued == 0
    released.set()


# What may be there, or not


def test_without_a_state_or_an_identity_there_is_nothing_to_confirm(
    client_of: MakeClient, server: Any, tmp_path: Path
) -> None:
    assert client_of(enabled=False).erase()
    assert not (tmp_path / "state").exists()
    server.enrolment = server.dead
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    assert client.erase()
    assert server.erasures == []
    assert shares(tmp_path) == {ELSEWHERE: (1_000_000, 1_000_000, 0, 0, 1_000_000)}


def test_a_client_that_was_never_enabled_erases_what_an_earlier_run_left(
    client_of: MakeClient, server: Any, tmp_path: Path
) -> None:
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    client.close(5)
    assert client_of(enabled=False).erase()
    assert len(server.erasures) == 1


def test_suspended_stays(client_of: MakeClient, server: Any, tmp_path: Path) -> None:
    server.answer = lambda body: server.signed(
        body, status=409, verdict="clone_suspected", reports=[]
    )
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    assert client.erase() and len(server.erasures) == 1
    server.answer = server.accepted
    again = client_of()
    again.record("theme", "dark")
    assert not again.flush()
    assert again.status().summary.startswith("disabled: the server saw this device's identity")
    assert len(server.bodies) == 1


def test_a_damaged_state_is_not_erased_and_nothing_raises(
    client_of: MakeClient, server: Any, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / FILE_NAME).write_bytes(b"this is no database" * 400)
    client = client_of()
    assert client.erase() is False
    assert (tmp_path / "state" / FILE_NAME).read_bytes() == b"this is no database" * 400


def test_without_randomness_the_queue_goes_and_the_rest_is_said_not_to_be_erased(
    client_of: MakeClient, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = server.dead
    client = client_of()
    client.record("theme", "dark")
    client.flush()

    def broken(count: int) -> bytes:
        raise NoRandomness("broken")

    monkeypatch.setattr("client_sdk.erasure.random_bytes", broken)
    before = kept(tmp_path)["secret"]
    assert client.erase() is False
    assert kept(tmp_path)["secret"] == before
    assert rows(tmp_path, "SELECT * FROM batch") == []
    assert client.status().queued == 0


def test_a_transport_of_the_host_that_knows_no_erasure_confirms_nothing(
    client_of: MakeClient, server: Any, tmp_path: Path
) -> None:
    class Old:
        enrol, send = server.enrol, server.send

    client = client_of(transport=Old())
    client.record("theme", "dark")
    client.flush()
    assert client.erase() is False
    assert "farewell" in kept(tmp_path)


def test_a_state_from_before_the_erasure_is_suspended_by_the_servers_answer(
    client_of: MakeClient, server: Any, clock: Any, tmp_path: Path
) -> None:
    """What a backup of the device brings back has noise and budget of a life that has ended."""
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    client.close(5)
    for forged in (
        {"key": bytes(32)},
        {"status": 200},
        {"status": 409},
    ):
        server.answer = lambda body, forged=forged: server.signed(
            body, **{"status": 410, "verdict": "erased", "reports": [], **forged}
        )
        clock.now += DAY
        copy = client_of()
        copy.record("theme", "dark")
        assert not copy.flush()
        assert copy.status().summary == "collecting", forged
        copy.close(5)
    server.answer = lambda body: server.signed(body, status=410, verdict="erased", reports=[])
    clock.now += DAY
    copy = client_of()
    assert not copy.flush()
    assert "this device was erased" in copy.status().summary
    assert kept(tmp_path)["suspended"].startswith(b"this device was erased")


# Crashes


class Dying(sqlite3.Connection):
    """Kills the process at a statement."""

    at = -1
    passed = 0

    def execute(self, *arguments: Any) -> sqlite3.Cursor:  # type: ignore[override]
        self._moment()
        cursor = super().execute(*arguments)
        self._moment()
        return cursor

    @staticmethod
    def _moment() -> None:
        if Dying.passed == Dying.at:
            os.kill(os.getpid(), signal.SIGKILL)
        Dying.passed += 1


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from client_sdk import new_state

    connect = sqlite3.connect
    monkeypatch.setattr(
        new_state.sqlite3, "connect", lambda *a, **o: connect(*a, **o, factory=Dying)
    )
    yield
    Dying.at, Dying.passed = -1, 0


def erased_with_a_crash(
    folder: Path, at: int, make: Callable[[Path], Client], prepared: Path
) -> bool:
    """Erase in a child that dies at a point; say whether it died."""
    subprocess.run(["cp", "-r", str(prepared), str(folder / "state")], check=True)
    child = os.fork()
    if child == 0:
        try:
            Dying.at, Dying.passed = at, 0
            make(folder).erase()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_a_crash_at_any_statement_erases_all_or_nothing_and_loses_no_total(
    step: int, dying: None, client_of: MakeClient, server: Any, both: Registry, tmp_path: Path
) -> None:
    client = client_of(both)
    client.record("home_page", "example.org")
    assert client.flush()
    client.record("theme", "dark")
    client.close(5)
    prepared = tmp_path / "state"
    secret = kept(tmp_path)["secret"]
    whole = 0
    for at in range(0, 400, step):
        folder = tmp_path / f"at {at}"
        folder.mkdir()

        def confirm(body: bytes, folder: Path = folder) -> Reply:
            (folder / "confirmed").touch()
            reply: Reply = server.erased(body)
            return reply

        server.erasure = confirm
        died = erased_with_a_crash(
            folder, at, lambda where: client_of(both, state_dir=where / "state"), prepared
        )
        # Whatever is there, is all of the old life or all of the new one.
        found = State(folder / "state")
        is_old = found.secret == secret
        found.close()
        spent = sum(share[1] for share in shares(folder).values())
        assert spent == 9_000_000, at
        marks = rows(folder, "SELECT metric, epoch FROM marks")
        assert len(marks) == 2, at
        queued = rows(folder, "SELECT report FROM spool")
        memory = rows(folder, "SELECT tag FROM memory")
        names = kept(folder).keys()
        if is_old:
            assert (len(queued), len(memory)) == (1, 1) and "device" in names, at
        else:
            whole += 1
            assert (queued, memory) == ([], []) and "device" not in names, at
            # The identity is there until it was confirmed, and no byte of the old life is.
            assert "farewell" in names or (folder / "confirmed").exists(), at
            held = bytes_of(folder / "state")
            assert secret not in held, at
            assert both.metrics["theme"].fingerprint.encode() not in held, at
        # Once more, and all is done.
        server.erasures.clear()
        last = client_of(both, state_dir=folder / "state")
        assert last.erase(), at
        assert kept(folder).keys() == {"secret", "seal", "erased_from"}, at
        assert sum(share[1] for share in shares(folder).values()) == 9_000_000, at
        if is_old:
            assert len(server.erasures) == 1, at
        last.close(5)
        if not died:
            break
    else:
        pytest.fail("the last point was not reached")
    assert whole > 2


WRITER = """
import os, sys, time
from client_sdk import Client, load
registry = load(sys.argv[1])
now = [1_796_126_400.0]
client = Client(registry, enabled=True, respect_environment=False, state_dir=sys.argv[2],
                endpoint=sys.argv[3], clock=lambda: now[0], upload_within_seconds=1e9)
for number in range(400):
    now[0] = 1_796_126_400.0 + number // 100 * 86400
    client.record("theme", "dark")
    client.record("home_page", "example.org")
    time.sleep(0.003)
    if number % 100 == 50:
        client.flush(20)
client.flush(20)
client.close(20)
print(client.status().summary)
"""
ERASER = (
    WRITER.split("for number")[0]
    + """
while not os.path.exists(sys.argv[2] + "/state.sqlite3"):
    time.sleep(0.01)
for number in range(4):
    time.sleep(0.1)
    eraser = Client(registry, enabled=False, state_dir=sys.argv[2], endpoint=sys.argv[3],
                    clock=lambda: 1_796_126_400.0 + number * 86400)
    eraser.erase(5)
"""
)


def test_processes_that_go_on_during_erasures_charge_no_epoch_twice_and_pass_no_cap(
    both: Registry, tmp_path: Path, sink: Any
) -> None:
    (tmp_path / "metrics.toml").write_text(both.text)
    arguments = [str(tmp_path / "metrics.toml"), str(tmp_path / "state"), sink.url]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for program in [WRITER] * 3 + [ERASER]
    ]
    said = [each.communicate(timeout=100) for each in running]
    assert [complaint for _, complaint in said] == [""] * 4
    assert [summary for summary, _ in said[:3]] == ["collecting\n"] * 3
    reported = [(report["metric"], report["epoch"]) for report in sink.reports]
    assert len(reported) == len(set(reported))
    assert len(split_tags(kept(tmp_path)["erased_from"])) == 4
    state = State(tmp_path / "state")
    with state.transaction() as connection:
        (spent,) = connection.execute("SELECT sum(spent) FROM shares").fetchone()
        (lives,) = connection.execute("SELECT count(*) FROM memory").fetchone()
    state.close()
    assert lives <= 1
    # theme costs 1 a day, home_page 8 a life, and there were at most five lives.
    assert spent <= 4_000_000 + 5 * 8_000_000
