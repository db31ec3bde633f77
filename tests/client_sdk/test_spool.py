"""What waits on the device is bounded, and leaves in a rhythm that outlives the program."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.intake import parse
from client_sdk import Client, spool
from client_sdk.authentication import batch_mac
from client_sdk.randomness import Coin
from client_sdk.schedule import ASKED_AGAIN_SECONDS, MOST_BACKOFF_SECONDS, Plan, Schedule
from client_sdk.state import State
from client_sdk.transport import Reply
from client_sdk.uploader import REFUSED, SIZES, Uploader

DAY = 86_400
NOW = 1_796_126_400.0
MakeClient = Callable[..., Client]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    opened = State(tmp_path / "state")
    yield opened
    opened.close()


def fill(state: State, count: int, size: int = 2) -> None:
    with state.transaction() as connection:
        for number in range(count):
            text = json.dumps({"n": number}).ljust(size)
            spool.add(connection, text, not_before=0, keep_until=9e9)


def waiting(state: State) -> list[int]:
    with state.transaction() as connection:
        rows = connection.execute("SELECT report FROM spool ORDER BY id").fetchall()
    return [json.loads(text)["n"] for (text,) in rows]


# Bounds (bug 21 on the disk).


@pytest.mark.parametrize(
    ("count", "size", "kept"),
    [
        pytest.param(10_000, 10, 10_000, id="as many as may wait"),
        pytest.param(10_007, 10, 10_000, id="too many"),
        pytest.param(60, 100_000, 50, id="too many bytes"),
        pytest.param(3, 6_000_000, 0, id="one alone too large"),
    ],
)
def test_the_oldest_reports_beyond_the_bounds_are_dropped(
    count: int, size: int, kept: int, state: State
) -> None:
    fill(state, count, size)
    with state.transaction() as connection:
        assert spool.trim(connection) == count - kept
    assert waiting(state) == list(range(count - kept, count))
    with state.transaction() as connection:
        assert spool.trim(connection) == 0


def test_a_client_counts_what_its_full_queue_has_dropped(
    client_of: MakeClient, state: State, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "MOST_REPORTS", 3)
    client = client_of()
    for _ in range(5):
        client.record("theme", "dark")
        client.preview(5)
        clock.now += DAY
    assert len(client.preview(5).waiting) == 3
    assert client.status().dropped == {"spool_full": 2}
    assert client.status().spent_epsilon == 5.0  # what is dropped stays charged


def test_no_report_is_older_than_the_grace_of_its_epoch(
    client_of: MakeClient, clock: Any, server: Any
) -> None:
    client = client_of()
    client.record("theme", "dark")  # a day and three days of grace
    client.preview(5)
    clock.now = 1_796_083_200.0 + 4 * DAY + 1
    assert client.flush()
    assert server.bodies == []
    assert client.status().refused == {"too_old": 1}


def test_a_report_of_a_metric_that_is_asked_once_waits_thirty_days_at_most(
    client_of: MakeClient, registry_of: Any, tables: dict[str, str], clock: Any, server: Any
) -> None:
    once = registry_of(tables["theme"], epoch='"once"', expires="2028-12-01")
    client = client_of(once)
    client.record("theme", "dark")
    client.preview(5)
    clock.now += 30 * DAY - 1
    server.answer = server.dead
    assert not client.flush()
    assert client.status().queued == 1
    clock.now += 2
    assert client.flush()
    assert client.status().refused == {"too_old": 1}


# A batch that is refused by nobody knows whom.


def run(state: State, server: Any, refused: Counter[str], now: float) -> Any:
    return Uploader(state, server, 100_000_000, refused).run(now)


@pytest.mark.parametrize("status", REFUSED)
def test_a_refused_batch_does_not_block_the_queue_for_more_than_three_days(
    status: int, client_of: MakeClient, clock: Any, server: Any
) -> None:
    """A server that refuses the first batch for ever, and would take the next."""
    server.answer = lambda body: (
        Reply(status, b"{}") if body == server.bodies[0] else server.accepted(body)
    )
    client = client_of(upload_within_seconds=60)
    client.record("theme", "dark")
    first, sent = clock.now, 0
    while client.status().queued and clock.now < first + 3 * DAY:
        client.preview()  # lets the background do what is due
        if len(server.bodies) == sent:
            clock.now += 1800
            continue
        sent = len(server.bodies)
    assert client.status().refused == {"unanswered": 1}
    assert len(set(server.bodies)) == 1
    assert sent <= 8  # a long back-off, not a hail
    client.record("theme", "dark")
    assert client.flush()
    # Nothing has shown that the server knows the first identity: another one begins with 1.
    assert json.loads(server.bodies[-1])["sequence"] == 1
    assert server.enrolments == 2


@pytest.mark.parametrize("status", REFUSED)
def test_an_app_that_asks_may_try_a_refused_batch_again_after_some_seconds(
    status: int, client_of: MakeClient, clock: Any, server: Any
) -> None:
    """A stranger on the way refuses, such as a hotel's login page, and then lets through."""
    server.answer = lambda body: Reply(status, b"<html>Please log in</html>")
    client = client_of(upload_within_seconds=60)
    client.record("theme", "dark")
    assert not client.flush()
    clock.now += ASKED_AGAIN_SECONDS - 1
    assert not client.flush()
    assert len(server.bodies) == 1
    clock.now += 3600
    client.preview()  # the background goes on waiting
    assert len(server.bodies) == 1
    server.answer = server.accepted
    assert client.flush()
    assert len(server.bodies) == 2
    assert len(set(server.bodies)) == 1


@pytest.mark.parametrize("status", [404, 429, 500, 503])
def test_other_troubles_keep_a_batch_as_long_as_it_may_be_wanted(
    status: int, state: State, server: Any
) -> None:
    fill(state, 1)
    server.answer = lambda body: Reply(status, b"{}")
    refused: Counter[str] = Counter()
    for day in range(10):
        assert run(state, server, refused, NOW + day * DAY).kind == "later"
    assert not refused
    assert len(set(server.bodies)) == 1


def test_a_clock_that_was_set_back_does_not_keep_a_refused_batch_for_ever(
    state: State, server: Any
) -> None:
    fill(state, 1)
    server.answer = lambda body: Reply(400, b"{}")
    refused: Counter[str] = Counter()
    assert run(state, server, refused, NOW + 1000 * DAY).kind == "later"
    assert run(state, server, refused, NOW).kind == "done"
    assert refused == {"unanswered": 1}


# Padding.


def test_uploads_have_few_sizes_and_the_server_reads_them(state: State, server: Any) -> None:
    seen = set()
    for count in (1, 3, 8, 30, 90, 250):
        with state.transaction() as connection:
            for number in range(count):
                report = {
                    "metric": "home_page",
                    "fingerprint": "0" * 16,
                    "epoch": 20_000 + number,
                    "cohort": 5,
                    "response": f"{number:032x}",
                }
                text = json.dumps(report, separators=(",", ":"))
                spool.add(connection, text, not_before=0, keep_until=9e9)
        assert run(state, server, Counter(), NOW).kind == "done"
        body = server.bodies[-1]
        assert len(parse(body).reports) == count
        assert server.macs[-1] == batch_mac(server.key, body)  # of the padded bytes
        assert body.rstrip(b" ").endswith(b"]}")
        seen.add(len(body))
    assert seen == set(SIZES) == {1024, 4096, 16_384, 65_536}


# The schedule.


class Moments:
    """Schedules of one device, each as a program that has just started would make it."""

    def __init__(self, state: State, clock: Any) -> None:
        self.state = state
        self.clock = clock

    def __call__(self, within: float = 3600.0) -> Schedule:
        return Schedule(self.state, within, self.clock, Coin())


@pytest.fixture
def schedule(state: State, clock: Any) -> Moments:
    return Moments(state, clock)


def test_a_planned_moment_is_kept_over_restarts(schedule: Moments, clock: Any) -> None:
    first = schedule()
    assert first.wait() is None
    first.something_waits()
    planned = first.plan.upload_at
    assert planned is not None and clock.now <= planned <= clock.now + 3600
    for _ in range(5):
        again = schedule()
        again.something_waits()
        assert again.plan.upload_at == planned
        assert not again.is_due(asked=False)
    clock.now = planned
    assert schedule().is_due(asked=False)


def test_planned_moments_are_spread_over_the_window(schedule: Moments, clock: Any) -> None:
    """Of 400 uniform draws: beyond 6 standard deviations of the mean once in 5e8."""
    shares = []
    for _ in range(400):
        own = schedule()
        own.done()
        clock.now += 7200
        own.something_waits()
        assert own.plan.upload_at is not None
        shares.append((own.plan.upload_at - clock.now) / 3600)
    assert all(0 <= share <= 1 for share in shares)
    assert abs(sum(shares) / 400 - 0.5) < 6 * (1 / 12 / 400) ** 0.5


def test_there_is_one_upload_a_window(client_of: MakeClient, server: Any, clock: Any) -> None:
    client = client_of(upload_within_seconds=3600)
    assert client.flush()
    own = client._workers[next(iter(client._workers))]
    assert own._session is not None
    plan = own._session._schedule.plan
    client.record("theme", "dark")
    client.preview(5)
    planned = own._session._schedule.plan.upload_at
    assert planned is not None and planned >= plan.uploaded_at + 3600


def test_a_pause_that_the_server_asked_for_is_remembered_over_restarts(
    client_of: MakeClient, server: Any, clock: Any
) -> None:
    server.answer = lambda body: Reply(503, b"{}", retry_after=7200.0)
    client = client_of()
    client.record("theme", "dark")
    assert not client.flush()
    client.close(5)
    server.answer = server.accepted
    for _ in range(3):
        clock.now += 2300
        again = client_of()
        assert not again.flush()
        again.close(5)
    assert len(server.bodies) == 1
    clock.now += 301
    assert client_of().flush()
    assert len(set(server.bodies)) == 1


def test_back_off_doubles_up_to_six_hours_with_full_jitter(schedule: Moments, clock: Any) -> None:
    waits: list[list[float]] = [[] for _ in range(14)]
    for _ in range(60):
        schedule().done()
        for failure in range(14):
            own = schedule()  # each time as after a restart
            own.begin()
            assert own.plan.upload_at is not None
            waits[failure].append(own.plan.upload_at - clock.now)
    for failure, of_one in enumerate(waits):
        ceiling = min(30 * 2**failure, MOST_BACKOFF_SECONDS)
        assert all(0 <= wait <= ceiling for wait in of_one)
        # Full jitter reaches both ends: 60 draws all in one half once in 6e17.
        assert min(of_one) < ceiling / 2 < max(of_one)


def test_a_program_that_ends_waits_twice_as_long_after_each_failure(
    schedule: Moments,
) -> None:
    waits = []
    for _ in range(5):
        started = schedule()
        started.begin()
        waits.append(started.answer_seconds())
    assert waits == [0.1, 0.2, 0.4, 0.8, 0.8]
    started.done()
    started.begin()
    assert started.answer_seconds() == 0.1


def test_an_attempt_that_was_killed_has_backed_off(
    client_of: MakeClient, server: Any, clock: Any, schedule: Moments
) -> None:
    def look(body: bytes) -> Reply:
        plan = Schedule(State(os.path.dirname(schedule.state.path)), 0.0, clock, Coin()).plan
        assert plan.failures == 1 and plan.upload_at is not None
        return Reply(200, b"")

    server.answer = look
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    assert client.status().summary == "collecting"


def test_a_plan_that_cannot_be_read_is_made_anew(state: State, clock: Any) -> None:
    for kept in (b"", b"[]", b"{", b'{"other": 1}', b"\xff", b"null"):
        with state.transaction():
            state.put("schedule", kept)
        own = Schedule(state, 3600.0, clock, Coin())
        assert own.plan == Plan()
        own.something_waits()
        assert own.plan.upload_at is not None
