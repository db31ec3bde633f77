"""kill -9 anywhere: never charged twice, never sent uncharged, the same bytes again.

A device lives through a crash at one point, then starts again until everything is delivered. A
crash point is a statement of SQLite or a call of the transport, before or after it; what lies
within a commit is a journal that was cut at some byte. Crashes are real: SIGKILL to a child.

The two guarantees, as a server and the disk see them:
- whatever arrives was charged before: at each send, the state of another connection shows it;
- an epoch is charged once, and only one set of bytes ever arrives for it.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Registry
from client_sdk import state as state_module
from client_sdk.state import FILE_NAME, State
from client_sdk.transport import Reply

DAY = 86_400
NOON = 1_796_126_400.0
CHARGE = {"theme": 1_000_000, "home_page": 8_000_000}


class Server:
    """Takes batches in whatever process sends them, and checks each against the disk.

    Args:
        folder: Where batches are kept, one file each.
        moment: Called before and after each batch and enrolment.
    """

    def __init__(self, folder: Path, script: Any, moment: Callable[[str], None]) -> None:
        self._folder = folder
        self._script = script
        self._moment = moment

    def enrol(self) -> Reply:
        self._moment("before enrolment")
        reply: Reply = self._script.identity()
        self._moment("after enrolment")
        return reply

    def send(self, body: bytes, mac: str) -> Reply:
        self._moment("before send")
        problem = uncharged(self._folder / "state" / FILE_NAME, body)
        name = f"{time.monotonic_ns()}.{'sent' if problem is None else 'problem'}"
        with open(self._folder / name, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        self._moment("within send")
        reply: Reply = self._script.accepted(body)
        self._moment("after send")
        return reply


def uncharged(path: Path, body: bytes) -> str | None:
    """Return what the state on the disk does not know about a batch that is being sent."""
    disk = sqlite3.connect(path)
    try:
        spent = dict(disk.execute("SELECT metric, spent FROM shares").fetchall())
        marks = set(disk.execute("SELECT metric, epoch FROM marks").fetchall())
        nonces = [nonce for (nonce,) in disk.execute("SELECT nonce FROM batch")]
    finally:
        disk.close()
    batch = json.loads(body)
    for report in batch["reports"]:
        if (report["metric"], report["epoch"]) not in marks:
            return "not marked"
        if spent[report["metric"]] < CHARGE[report["metric"]]:
            return "not charged"
    return None if batch["nonce"] in nonces else "not kept for a retry"


class Watched(sqlite3.Connection):
    """A connection that tells of each statement before and after it."""

    moment: Callable[[str], None] = staticmethod(lambda what: None)

    def execute(self, *arguments: Any) -> sqlite3.Cursor:  # type: ignore[override]
        statement = str(arguments[0]).split("(")[0].strip()
        Watched.moment(f"before {statement}")
        cursor = super().execute(*arguments)
        Watched.moment(f"after {statement}")
        return cursor


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every state of this process is opened through a watched connection."""
    from client_sdk import new_state

    connect = sqlite3.connect

    def watch(*arguments: Any, **options: Any) -> sqlite3.Connection:
        return connect(*arguments, **options, factory=Watched)

    monkeypatch.setattr(new_state.sqlite3, "connect", watch)
    yield
    Watched.moment = staticmethod(lambda what: None)


def live(registry: Registry, folder: Path, script: Any, moment: Callable[[str], None]) -> bool:
    """One life of the app: record, flush, end. Says whether everything was delivered."""
    Watched.moment = staticmethod(moment)
    client = Client(
        registry,
        enabled=True,
        respect_environment=False,
        state_dir=folder / "state",
        transport=Server(folder, script, moment),
        clock=lambda: NOON,
        upload_within_seconds=1e9,
    )
    client.record("theme", "dark")
    client.record("home_page", "example.org")
    delivered = client.flush(20)
    client.close(20)
    return delivered


def live_and_die(
    registry: Registry, folder: Path, script: Any, at: int | Callable[[str], bool]
) -> str | None:
    """Live in a child that kills itself at a point; return the point, None if never reached."""
    child = os.fork()
    if child == 0:
        passed = [0]

        def moment(what: str) -> None:
            here = passed[0] == at if isinstance(at, int) else at(what)
            passed[0] += 1
            if here:
                (folder / "died").write_text(what)
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            live(registry, folder, script, moment)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    died = folder / "died"
    return died.read_text() if died.exists() else None


def check_that_all_is_well(registry: Registry, folder: Path, script: Any, died: str) -> None:
    """Start again, once more than needed, and look at what was sent and charged."""
    for _ in range(2):
        assert live(registry, folder, script, lambda what: None), died
    assert not list(folder.glob("*.problem")), died
    sent = {path.read_bytes() for path in folder.glob("*.sent")}
    reports = [json.dumps(report) for body in sent for report in json.loads(body)["reports"]]
    assert len(reports) == len({json.loads(r)["metric"] for r in reports}) == 2, died
    sequences = [json.loads(body)["sequence"] for body in sent]
    assert len(sequences) == len(set(sequences)), died
    state = State(folder / "state")
    with state.transaction() as connection:
        spent = dict(connection.execute("SELECT metric, spent FROM shares").fetchall())
    state.close()
    assert spent == CHARGE, died


@pytest.fixture
def registry(registry_of: Any, tables: dict[str, str]) -> Registry:
    made: Registry = registry_of(*tables.values())
    return made


MOMENTS = {
    f"{when} {what}": lambda here, when=when, what=what: here == f"{when} {what}"
    for what in ("enrolment", "send", "COMMIT", "BEGIN IMMEDIATE")
    for when in ("before", "within", "after")
    if when != "within" or what == "send"
}


@pytest.mark.parametrize("at", MOMENTS.values(), ids=MOMENTS)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_a_crash_before_within_or_after_a_commit_or_send_costs_nothing(
    at: Callable[[str], bool], count: int, registry: Registry, tmp_path: Path, server: Any
) -> None:
    met = [0]

    def nth(here: str) -> bool:
        met[0] += at(here)
        return met[0] == count and at(here)

    died = live_and_die(registry, tmp_path, server, nth)
    check_that_all_is_well(registry, tmp_path, server, f"{died} {count}")


@pytest.mark.slow
def test_a_crash_at_any_statement_costs_nothing(
    registry: Registry, tmp_path: Path, server: Any
) -> None:
    at = points = 0
    while True:
        folder = tmp_path / str(at)
        folder.mkdir()
        died = live_and_die(registry, folder, server, at)
        check_that_all_is_well(registry, folder, server, f"{at}: {died}")
        shutil.rmtree(folder)
        if died is None:
            break
        points, at = points + 1, at + 1
    assert points > 100


def test_two_crashes_in_a_row_cost_nothing_either(
    registry: Registry, tmp_path: Path, server: Any
) -> None:
    for first in ("after COMMIT", "before send", "within send"):
        for second in ("before COMMIT", "within send", "after send"):
            folder = tmp_path / f"{first} {second}"
            folder.mkdir()
            for at in (first, second):
                live_and_die(registry, folder, server, lambda here, at=at: here == at)
            check_that_all_is_well(registry, folder, server, f"{first}, then {second}")


def test_a_commit_that_was_cut_within_is_whole_or_nothing(
    registry: Registry, tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cut of the journal, as a crash of the machine leaves it, is a state from before or
    after; whichever it is, the device charges and sends once."""
    images: list[tuple[bytes, bytes]] = []

    def photograph(here: str) -> None:
        journal = tmp_path / "state" / f"{FILE_NAME}-wal"
        if here == "after COMMIT" and journal.exists():
            main = (tmp_path / "state" / FILE_NAME).read_bytes()
            images.append((main, journal.read_bytes()))

    live(registry, tmp_path, server, photograph)
    assert len(images) >= 4
    tried = 0
    for number, (main, journal) in enumerate(images):
        for cut in {*range(0, len(journal), 4096 + 24 + 7), len(journal) - 1, len(journal)}:
            folder = tmp_path / f"{number} {cut}"
            (folder / "state").mkdir(parents=True)
            (folder / "state" / FILE_NAME).write_bytes(main)
            (folder / "state" / f"{FILE_NAME}-wal").write_bytes(journal[:cut])
            assert live(registry, folder, server, lambda what: None)
            state = State(folder / "state")
            with state.transaction() as connection:
                spent = dict(connection.execute("SELECT metric, spent FROM shares").fetchall())
            state.close()
            assert spent == CHARGE
            assert not list(folder.glob("*.problem"))
            tried += 1
    assert tried > 20


def test_a_torn_journal_is_never_read_as_something_else(tmp_path: Path) -> None:
    """The same at every 64th byte, of one transaction that moves a charge and a report."""
    state = State(tmp_path / "state")
    with state.transaction() as connection:
        connection.execute("INSERT INTO shares VALUES ('m', 9, 0, 1, 0, 0)")
    state.rest()
    with state.transaction() as connection:
        connection.execute("UPDATE shares SET spent = 1")
        connection.execute("INSERT INTO marks VALUES ('m', 'day', 1)")
        connection.execute("INSERT INTO spool (keep_until, report) VALUES (9e9, '{}')")
    main = Path(state.path).read_bytes()
    journal = Path(f"{state.path}-wal").read_bytes()
    state.close()
    seen = set()
    for cut in {*range(0, len(journal), 64), len(journal)}:
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / FILE_NAME).write_bytes(main)
        (folder / f"{FILE_NAME}-wal").write_bytes(journal[:cut])
        again = State(folder)
        with again.transaction() as connection:
            found = tuple(
                connection.execute(f"SELECT {what}").fetchone()[0]
                for what in (
                    "spent FROM shares",
                    "count(*) FROM marks",
                    "count(*) FROM spool",
                )
            )
        again.close()
        shutil.rmtree(folder)
        seen.add(found)
    assert seen == {(0, 0, 0), (1, 1, 1)}


# Bug 15: several processes on one state.

WRITER = """
import sys
from client_sdk import Client, load
from client_sdk.testing import RecordingTransport
registry = load(sys.argv[1])
now = [1_796_126_400.0]
client = Client(registry, enabled=True, respect_environment=False, state_dir=sys.argv[2],
                endpoint=sys.argv[3], clock=lambda: now[0], upload_within_seconds=1e9)
print("ready", flush=True)
for number in range(1000):
    now[0] = 1_796_126_400.0 + number // 250 * 86400
    client.record("theme", "dark")
    client.record("home_page", "example.org")
    if number % 250 == 100:
        client.preview(20)
client.flush(20)
client.close(20)
"""


@pytest.mark.parametrize("killed", [0, 3])
def test_eight_processes_on_one_state_charge_and_report_each_epoch_once(
    killed: int, registry: Registry, tmp_path: Path, sink: Any
) -> None:
    """Four days, two metrics; some of the processes are killed in the middle."""
    (tmp_path / "metrics.toml").write_text(registry.text)
    root = Path(state_module.__file__).parents[1]
    arguments = [str(tmp_path / "metrics.toml"), str(tmp_path / "state"), sink.url]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, *arguments],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for writer in writers[:killed]:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.02)
        writer.kill()
    said = [writer.communicate(timeout=100)[1] for writer in writers]
    assert said[killed:] == [""] * (8 - killed)
    last = subprocess.run(
        [sys.executable, "-c", WRITER, *arguments], cwd=root, capture_output=True, check=True
    )
    assert last.stderr == b""
    state = State(tmp_path / "state")
    with state.transaction() as connection:
        spent = dict(connection.execute("SELECT metric, spent FROM shares").fetchall())
        remembered = connection.execute("SELECT count(*) FROM memory").fetchone()
    assert state.queued() == 0
    state.close()
    assert spent == {"theme": 4_000_000, "home_page": 8_000_000}
    assert remembered == (1,)  # one value, one remembered answer
    reported = [(report["metric"], report["epoch"]) for report in sink.reports]
    assert len(reported) == len(set(reported)) == 8
