"""Finished bytes move; only an answer with a valid MAC changes anything."""

import hashlib
import json
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Registry
from client_sdk.authentication import batch_mac
from client_sdk.ledger import Ledger
from client_sdk.report import MAX_BATCH_BYTES, MAX_BATCH_REPORTS
from client_sdk.state import State
from client_sdk.transport import Reply
from client_sdk.uploader import REFUSED_DAYS, Outcome, Uploader

ROOT = Path(__file__).parents[2]
DAY = 86_400
NOW = 1_796_083_200.0  # 2026-12-01


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    opened = State(tmp_path / "state")
    yield opened
    opened.close()


def spool(state: State, *reports: str, keep_until: float = NOW + 1) -> None:
    with state.transaction() as connection:
        connection.executemany(
            "INSERT INTO spool (keep_until, report) VALUES (?, ?)",
            [(keep_until, report) for report in reports],
        )


def run(
    state: State, server: Any, refused: Counter[str] | None = None, now: float = NOW
) -> Outcome:
    counter = Counter() if refused is None else refused
    return Uploader(state, server, 100_000_000, counter).run(now)


def spent(state: State) -> int:
    with state.transaction() as connection:
        return Ledger(connection, 100_000_000).spent()


def everything(state: State) -> dict[str, str]:
    with state.transaction() as connection:
        return {
            table: repr(connection.execute(f"SELECT * FROM {table}").fetchall())
            for table in ("device", "shares", "paid", "marks", "memory", "spool", "batch")
        }


def test_a_retry_sends_the_same_bytes(state: State, server: Any) -> None:
    spool(state, '{"a":1}')
    server.answer = server.dead
    for _ in range(3):
        assert run(state, server).kind == "later"
        spool(state, '{"b":2}')  # what comes later must not change what is under way
    assert len(set(server.bodies)) == len(set(server.macs)) == 1
    server.answer = server.accepted
    assert run(state, server).kind == "done"
    assert server.bodies[3] == server.bodies[0]
    assert [len(json.loads(body)["reports"]) for body in server.bodies] == [1, 1, 1, 1, 3]


def test_a_lost_answer_is_settled_by_the_servers_duplicate(state: State, server: Any) -> None:
    spool(state, '{"a":1}')
    server.answer = server.dead
    run(state, server)
    server.answer = lambda body: server.signed(body, verdict="duplicate")
    assert run(state, server).kind == "done"
    assert state.queued() == 0


def test_batches_are_signed_numbered_and_have_fresh_nonces(state: State, server: Any) -> None:
    for number in range(3):
        spool(state, f'{{"n":{number}}}')
        run(state, server)
    batches = [json.loads(body) for body in server.bodies]
    assert [batch["sequence"] for batch in batches] == [1, 2, 3]
    assert len({batch["nonce"] for batch in batches}) == 3
    assert {batch["device"] for batch in batches} == {server.device}
    assert server.macs == [batch_mac(server.key, body) for body in server.bodies]
    assert server.enrolments == 1


def test_a_large_queue_is_split_by_reports_and_by_bytes(state: State, server: Any) -> None:
    small = [f'{{"n":{number}}}' for number in range(600)]
    large = [json.dumps({"n": number, "bits": "f" * 1024}) for number in range(600, 800)]
    spool(state, *small)
    spool(state, *large, keep_until=NOW + 2)
    assert run(state, server).kind == "done"
    assert all(len(body) <= MAX_BATCH_BYTES for body in server.bodies)
    sizes = [len(json.loads(body)["reports"]) for body in server.bodies]
    assert sizes[:2] == [MAX_BATCH_REPORTS] * 2
    assert sorted(report["n"] for report in server.reports) == list(range(800))
    assert {report["n"] for report in server.reports[:600]} == set(range(600))  # oldest first
    assert state.queued() == 0


def test_the_refused_are_counted_by_reason(state: State, server: Any) -> None:
    spool(state, "{}", "{}", "{}")
    verdicts = ["epoch_closed", "accepted", "epoch_closed"]
    server.answer = lambda body: server.signed(body, reports=verdicts)
    refused: Counter[str] = Counter()
    assert run(state, server, refused).kind == "done"
    assert refused == {"epoch_closed": 2}


def test_overdue_reports_are_dropped_and_counted(state: State, server: Any) -> None:
    spool(state, '{"a":1}', keep_until=NOW + 5)
    server.answer = server.dead
    run(state, server)  # makes a batch of it
    spool(state, '{"b":2}', keep_until=NOW + 5)
    spool(state, '{"c":3}', keep_until=NOW + 50)
    server.answer = server.accepted
    refused: Counter[str] = Counter()
    assert run(state, server, refused, now=NOW + 6).kind == "done"
    assert refused == {"too_old": 2}
    assert json.loads(server.bodies[-1])["reports"] == [{"c": 3}]
    # Nothing has shown that the server knows the first identity: another one begins with 1.
    assert json.loads(server.bodies[-1])["sequence"] == 1
    assert server.enrolments == 2


def give_up_unanswered(state: State, server: Any) -> None:
    server.answer = lambda body: Reply(400, b"{}")
    spool(state, '{"lost":1}', keep_until=NOW + 30 * DAY)
    for now in (NOW, NOW + REFUSED_DAYS * DAY):
        run(state, server, now=now)


def let_be_overdue(state: State, server: Any) -> None:
    server.answer = server.dead
    spool(state, '{"lost":1}')
    for now in (NOW, NOW + 2):
        run(state, server, now=now)


def be_overdue_before_enrolment(state: State, server: Any) -> None:
    server.enrolment = server.dead
    let_be_overdue(state, server)
    server.enrolment = server.identity


def withdraw(state: State, server: Any) -> None:
    server.answer = server.dead
    spool(state, '{"lost":1}')
    run(state, server)
    assert state.withdraw() == 1


LOSSES = {
    "unanswered": give_up_unanswered,
    "overdue": let_be_overdue,
    "overdue before enrolment": be_overdue_before_enrolment,
    "withdrawn": withdraw,
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_every_identity_begins_with_the_first_sequence_number(
    lose: Callable[[State, Any], None], state: State, server: Any
) -> None:
    """Else a server that was restored takes it for a device whose record was lost."""
    secret = state.secret
    for life in range(3):
        server.device = f"{life:032x}"
        lose(state, server)
    assert state.queued() == 0
    server.device, server.answer = "5" * 32, server.accepted
    spool(state, '{"kept":1}', keep_until=NOW + 30 * DAY)
    assert run(state, server, now=NOW + 5).kind == "done"
    sent = json.loads(server.bodies[-1])
    assert (sent["device"], sent["sequence"], sent["reports"]) == ("5" * 32, 1, [{"kept": 1}])
    assert state.secret == secret


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_an_identity_that_the_server_has_answered_is_kept_when_a_batch_is_lost(
    lose: Callable[[State, Any], None], state: State, server: Any
) -> None:
    spool(state, '{"first":1}')
    run(state, server)
    lose(state, server)
    server.answer = server.accepted
    spool(state, '{"kept":1}', keep_until=NOW + 30 * DAY)
    assert run(state, server, now=NOW + 5).kind == "done"
    sent = json.loads(server.bodies[-1])
    assert (sent["device"], sent["sequence"], server.enrolments) == (server.device, 3, 1)


def test_a_batch_that_is_withdrawn_during_the_enrolment_is_not_sent(
    state: State, server: Any
) -> None:
    def enrolled_late() -> Reply:
        assert state.withdraw() == 1
        reply: Reply = server.identity()
        return reply

    spool(state, '{"lost":1}')
    server.enrolment = enrolled_late
    assert run(state, server) == Outcome("later")
    assert server.bodies == []
    spool(state, '{"kept":1}')
    assert run(state, server).kind == "done"
    assert json.loads(server.bodies[-1])["sequence"] == 1


def test_the_servers_figure_is_adopted_only_upwards(state: State, server: Any) -> None:
    for figure, expected in ((5_000_000, 5_000_000), (1, 5_000_000), (6_000_000, 6_000_000)):
        spool(state, "{}")
        server.answer = lambda body, figure=figure: server.signed(body, spent=figure)
        run(state, server)
        assert spent(state) == expected


FORGERIES: dict[str, Callable[[Any, bytes], Reply]] = {
    "another key": lambda s, body: s.signed(body, key=bytes(32)),
    "spent raised": lambda s, body: Reply(
        200, s.signed(body).body.replace(b'"spent": 0', b'"spent": 9000000')
    ),
    "verdict changed": lambda s, body: Reply(
        200, s.signed(body).body.replace(b'"verdict": "accepted"', b'"verdict": "duplicate"')
    ),
    "reports changed": lambda s, body: Reply(
        200, s.signed(body).body.replace(b'["accepted"', b'["too_early"')
    ),
    "reports dropped": lambda s, body: s.signed(body, reports=[]),
    "no mac": lambda s, body: s.signed(body, mac=None),
    "mac of a wrong type": lambda s, body: s.signed(body, mac=5),
    "mac beyond ascii": lambda s, body: s.signed(body, mac="é" * 64),
    "mac of half a surrogate": lambda s, body: s.signed(body, mac="\ud800"),
    "another sequence": lambda s, body: s.signed(body, sequence=2),
    "a replayed answer": lambda s, body: s.signed(
        json.dumps({**json.loads(body), "nonce": "0" * 32}).encode()
    ),
    "spent is a text": lambda s, body: s.signed(body, spent="9"),
    "spent is true": lambda s, body: s.signed(body, spent=True),
    "spent is negative": lambda s, body: s.signed(body, spent=-1),
    "spent is beyond sqlite": lambda s, body: s.signed(body, spent=2**70),
    "reports is a text": lambda s, body: s.signed(body, reports="accepted"),
    "reports hold numbers": lambda s, body: Reply(
        200, s.signed(body).body.replace(b'"accepted"', b"5")
    ),
    "reports joined": lambda s, body: Reply(
        200, s.signed(body).body.replace(b'"accepted", "accepted"', b'"accepted\\u0000accepted"')
    ),
    "a list": lambda s, body: Reply(200, b"[]"),
    "not JSON": lambda s, body: Reply(200, b"<html>welcome to our hotel</html>"),
    "not UTF-8": lambda s, body: Reply(200, b'{"mac": "\xff"}'),
    "nothing": lambda s, body: Reply(200, b""),
    "deeply nested": lambda s, body: Reply(200, b"[" * 100_000),
    "huge number": lambda s, body: Reply(200, b'{"spent": ' + b"9" * 5000 + b"}"),
    "a success that is none": lambda s, body: Reply(204, b""),
    "a redirect": lambda s, body: Reply(302, b""),
    "clone told with 200": lambda s, body: s.signed(body, verdict="clone_suspected", reports=[]),
    "forged 409": lambda s, body: s.signed(
        body, status=409, verdict="clone_suspected", reports=[], key=bytes(32)
    ),
    "foreign revocation": lambda s, body: s.signed(
        body, status=401, verdict="identity_revoked", reports=[], key=bytes(32)
    ),
    "revocation told with 200": lambda s, body: s.signed(
        body, verdict="identity_revoked", reports=[]
    ),
    "unsigned 401": lambda s, body: Reply(401, b'{"verdict": "identity_revoked"}'),
    "unsigned 409": lambda s, body: Reply(409, b'{"verdict": "clone_suspected"}'),
    "409 with an accepted batch": lambda s, body: s.signed(body, status=409),
    "malformed, says the server": lambda s, body: Reply(400, b"{}"),
}


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_an_answer_that_cannot_be_believed_changes_nothing(
    forgery: Callable[[Any, bytes], Reply], state: State, server: Any
) -> None:
    spool(state, '{"a":1}', '{"b":2}')
    server.answer = server.dead
    run(state, server)
    before = everything(state)
    server.answer = lambda body: forgery(server, body)
    refused: Counter[str] = Counter()
    assert run(state, server, refused).kind == "later"
    assert everything(state) == before
    assert not refused
    assert state.suspended is None


def test_a_genuine_409_ends_reporting_for_good(state: State, server: Any) -> None:
    spool(state, '{"a":1}')
    server.answer = lambda body: server.signed(
        body, status=409, verdict="clone_suspected", reports=[]
    )
    assert run(state, server).kind == "suspended"
    assert state.queued() == 0
    directory = Path(state.path).parent
    state.close()
    again = State(directory)
    spool(again, '{"b":2}')
    server.answer = server.accepted
    assert run(again, server).kind == "suspended"
    assert len(server.bodies) == 1
    again.close()


def test_a_device_whose_identity_was_revoked_enrols_anew_and_keeps_what_it_spent(
    state: State, server: Any
) -> None:
    spool(state, '{"a":1}', '{"b":2}')
    server.answer = lambda body: server.signed(body, spent=7_000_000)
    run(state, server)
    secret, refused = state.secret, Counter[str]()
    spool(state, '{"c":3}')
    server.answer = lambda body: server.signed(
        body, status=401, verdict="identity_revoked", reports=[]
    )
    assert run(state, server, refused) == Outcome("later")
    # That batch may have been counted, its answer lost; sent anew it would count twice.
    assert refused == {"identity_revoked": 1} and state.queued() == 0
    assert (state.device, state.device_key, server.enrolments) == (None, b"", 1)
    server.device, server.key = "5" * 32, bytes(32)
    server.answer = server.accepted
    spool(state, '{"d":4}')
    assert run(state, server, refused).kind == "done"
    sent = json.loads(server.bodies[-1])
    assert (sent["device"], sent["sequence"], sent["reports"]) == ("5" * 32, 1, [{"d": 4}])
    assert server.enrolments == 2 and state.secret == secret and spent(state) == 7_000_000


@pytest.mark.parametrize("status", [429, 503])
def test_the_pause_that_the_server_asks_for_is_handed_on(
    status: int, state: State, server: Any
) -> None:
    spool(state, "{}")
    server.answer = lambda body: Reply(status, b"{}", retry_after=77.0)
    assert run(state, server) == Outcome("later", 77.0)
    assert len(server.bodies) == 1


def test_the_pause_of_an_enrolment_is_handed_on(state: State, server: Any) -> None:
    spool(state, "{}")
    server.enrolment = lambda: Reply(429, b"{}", retry_after=5.0)
    assert run(state, server) == Outcome("later", 5.0)
    assert server.bodies == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"device": 5, "key": "00"}',
        json.dumps({"device": "ab" * 16, "key": "00" * 31}).encode(),
        json.dumps({"device": "ab" * 16, "key": "zz" * 32}).encode(),
        json.dumps({"device": "ab" * 16, "key": 5}).encode(),
        json.dumps({"device": "../" * 10 + "ab", "key": "00" * 32}).encode(),
        json.dumps({"device": "\ud800" * 32, "key": "00" * 32}).encode(),
        json.dumps({"device": "AB" * 16, "key": "00" * 32}).encode(),
    ],
    ids=range(11),
)
@pytest.mark.usefixtures("uncollected")
def test_an_identity_that_makes_no_sense_is_not_taken(
    body: bytes, state: State, server: Any
) -> None:
    spool(state, "{}")
    server.enrolment = lambda: Reply(201, body)
    assert run(state, server) == Outcome("later")
    assert state.device is None
    server.enrolment = server.identity
    assert run(state, server).kind == "done"
    assert state.device == server.device


def test_nothing_is_sent_without_permission(state: State, server: Any) -> None:
    spool(state, "{}")
    refused: Counter[str] = Counter()
    uploader = Uploader(state, server, 1, refused, may_send=lambda: False)
    assert uploader.run(NOW).kind == "later"
    assert (server.enrolments, server.bodies) == (0, [])


def test_permission_is_asked_for_each_batch(state: State, server: Any) -> None:
    spool(state, *["{}"] * (MAX_BATCH_REPORTS + 1))
    uploader = Uploader(state, server, 1, Counter(), may_send=lambda: not server.bodies)
    assert uploader.run(NOW).kind == "later"
    assert len(server.bodies) == 1


def test_an_empty_queue_sends_and_enrols_nothing(state: State, server: Any) -> None:
    assert run(state, server) == Outcome("done")
    assert (server.enrolments, server.bodies) == (0, [])


CRASH = textwrap.dedent("""
    import os, signal, sys, time
    from pathlib import Path
    from client_sdk import Client, load
    from client_sdk.errors import TransportError
    from client_sdk.transport import Reply

    folder, moment = Path(sys.argv[1]), sys.argv[2]

    class Dying:
        def enrol(self):
            return Reply(201, b'{"device": "%s", "key": "%s"}' % (b"ab" * 16, b"cd" * 32))

        def send(self, body, mac):
            with open(folder / f"sent.{time.time_ns()}", "wb") as file:
                file.write(body)
            if moment == "in send":
                os.kill(os.getpid(), signal.SIGKILL)
            raise TransportError("no answer")

    if moment == "before send":
        Dying.enrol = lambda self: os.kill(os.getpid(), signal.SIGKILL)
    client = Client(folder / "metrics.toml", enabled=True, respect_environment=False,
                    state_dir=folder / "state",
                    transport=Dying(), clock=lambda: 1_796_126_400.0)
    client.record("theme", "dark")
    client.record("home_page", "example.org")
    client.flush()
""")


def start(folder: Path, moment: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", CRASH, str(folder), moment], cwd=ROOT, timeout=30, check=False
    ).returncode


@pytest.mark.parametrize("moment", ["before send", "in send"])
def test_after_kill_9_the_same_bytes_go_out_and_nothing_is_charged_again(
    moment: str, tmp_path: Path, registry_of: Callable[..., Registry], tables: dict[str, str]
) -> None:
    registry = registry_of(*tables.values())
    (tmp_path / "metrics.toml").write_text(registry.text)
    assert start(tmp_path, moment) == -signal.SIGKILL
    state = State(tmp_path / "state")
    assert spent(state) == 9_000_000
    with state.transaction() as connection:
        stored = connection.execute("SELECT reports FROM batch").fetchall()
        charged = connection.execute("SELECT * FROM shares").fetchall()
    assert stored == [(2,)]
    state.close()
    for _ in range(2):
        assert start(tmp_path, "no answer") == 0
    sent = {
        hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(tmp_path.glob("sent.*"))
    }
    assert len(sent) == 1
    assert len(list(tmp_path.glob("sent.*"))) == (3 if moment == "in send" else 2)
    state = State(tmp_path / "state")
    with state.transaction() as connection:
        assert connection.execute("SELECT * FROM shares").fetchall() == charged
    state.close()
