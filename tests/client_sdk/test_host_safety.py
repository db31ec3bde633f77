"""What an SDK must not do to the program that embeds it.

Numbers are those of the list of bugs that other SDKs hit, in the order of issue 4's requirements.
"""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, exits

DAY = 86_400
NOON = 1_796_126_400  # of 2026-12-01
MakeClient = Callable[..., Client]


def queued(host: Any) -> int:
    """How many reports wait in the host's state."""
    return int(host.run("client = client_of()\nprint(len(client.preview().waiting))"))


# Bug 4, in part: a thread at init. (Forks: test_fork.py.)


def test_there_is_one_thread_until_the_first_record_and_two_after_it(host: Any) -> None:
    said = host.run("""
        def count():
            print(len(os.listdir("/proc/self/task")), end=" ")
        count()
        client = client_of()
        client.status(), client.preview()
        count()
        client.record("theme", "dark")
        count()
        client.close(5)
        time.sleep(0.2)
        count()
    """)
    assert said == "1 1 2 1 "


# Bug 5: thread start at interpreter shutdown.


def test_record_in_an_atexit_hook_that_runs_before_ours_is_stored(host: Any) -> None:
    host.run("client = client_of()\natexit.register(client.record, 'theme', 'dark')")
    assert queued(host) == 1


def test_record_in_an_atexit_hook_is_stored_where_no_thread_can_start_any_more(host: Any) -> None:
    """As in Python 3.12 and later, where threads cannot start once the interpreter is ending."""
    host.run("""
        from client_sdk import threads
        client = client_of()
        def last():
            def start(run):
                raise RuntimeError("can't create new thread at interpreter shutdown")
            threads.start = start
            client.record("theme", "dark")
        atexit.register(last)
    """)
    assert queued(host) == 1


def test_record_after_the_end_is_contained(host: Any) -> None:
    """A hook that was there before ours runs after it; module teardown comes later still."""
    host.run("""
        def late():
            client.record("theme", "dark")
        atexit.register(late)
        class Finalized:
            def __del__(self):
                client.record("home_page", "example.org")
        client = client_of()
        kept = Finalized()
        sys.modules["kept"] = kept
    """)


# Bug 6: exit hangs when the server is down.


@pytest.mark.parametrize("mode", ["hung", 500])
def test_exit_takes_less_than_a_second_whatever_the_server_does(
    host: Any, sink: Any, mode: Any
) -> None:
    sink.mode = mode
    took = float(
        host.run("""
            client = client_of(upload_within_seconds=0)
            client.record("theme", "dark")
            time.sleep(0.5)  # by now an upload is under way
            began = time.perf_counter()
            atexit.register(lambda: print(time.perf_counter() - began))  # runs before ours ...
            import weakref
            class Last:
                def __del__(self):
                    os.write(1, str(time.perf_counter() - began).encode() + b"\\n")
            sys.modules["last"] = Last()  # ... and this after it
        """).split()[-1]
    )
    assert took < 1.0
    assert sink.paths
    sink.mode = "up"
    host.run("print(client_of().flush())")
    # A hung enrolment leaves nothing to wait for; a pause after status 500 is kept.
    host.run(f"print(client_of(clock=lambda: NOON + {DAY}).flush())")
    assert len(sink.reports) == 1


def test_an_ending_program_waits_for_the_disk_and_not_for_a_server_that_hangs(
    host: Any, sink: Any
) -> None:
    """Also what was recorded while the SDK's thread was waiting for that server is stored."""
    sink.mode = "hung"
    took = host.run("""
        from client_sdk import exits
        exits.EXIT_SECONDS = 30  # so that time is no matter of how busy the machine is
        client = client_of(upload_within_seconds=0)
        client.record("theme", "dark")
        while client._workers[os.getpid()]._waits_since() is None:
            time.sleep(0.01)
        client.record("home_page", "example.org")
        began = time.perf_counter()
        exits.end_all()
        print(time.perf_counter() - began)
    """)
    assert float(took) < 5  # an upload may take 10 s
    shown = host.run("seen = client_of().preview()\nprint(len(seen.uploaded), len(seen.waiting))")
    assert shown == "1 1\n"
    sink.mode = "up"
    host.run(f"print(client_of(clock=lambda: NOON + {DAY}).flush())")
    assert sorted(report["metric"] for report in sink.reports) == ["home_page", "theme"]


def test_a_server_that_is_always_slow_is_reached_by_programs_that_end_at_once(
    host: Any, sink: Any
) -> None:
    """Each try waits twice as long as the one before."""
    sink.delay = 0.3
    tries = 0
    while not sink.reports and tries < 10:
        tries += 1
        host.run(f"""
            client = client_of(upload_within_seconds=0, clock=lambda: NOON + {tries * DAY})
            client.record("home_page", "example.org")
        """)
    assert sink.reports


def test_exit_is_quick_when_nothing_is_due(host: Any, sink: Any) -> None:
    took = float(
        host.run("""
            client = client_of()
            client.record("theme", "dark")
            began = time.perf_counter()
            client.close()
            print(time.perf_counter() - began)
        """)
    )
    assert took < 0.2
    assert queued(host) == 1


# Bug 7: short-lived hosts lose every event.


def test_a_program_that_runs_twenty_times_for_a_moment_loses_nothing(host: Any, sink: Any) -> None:
    for day in range(20):
        host.run(f"client_of(clock=lambda: NOON + {day} * 86400).record('home_page', 'a.org')")
    host.run("assert client_of(clock=lambda: NOON + 3 * 86400).flush()")
    assert len(sink.reports) == 20
    assert len({report["epoch"] for report in sink.reports}) == 20


def test_programs_that_run_for_a_moment_deliver_without_ever_flushing(host: Any, sink: Any) -> None:
    """The planned moment is kept: the first run after it uploads at once."""
    program = "client_of(clock=lambda: NOON + {}, upload_within_seconds=3600).record('theme', 'a')"
    host.run(program.format(0))
    host.run(program.format(1))
    assert sink.bodies == []
    for later in range(2, 12):
        host.run(program.format(7200 + later))
        if sink.bodies:
            break
    assert len(sink.reports) == 1


# Bug 10: the SDK observes itself.


def test_a_log_handler_that_records_does_not_feed_itself(host: Any, sink: Any) -> None:
    sink.mode = 500
    said = host.run("""
        import logging
        now, calls = [NOON], [0]
        client = client_of(clock=lambda: now[0], upload_within_seconds=0)
        class Handler(logging.Handler):
            def emit(self, record):
                calls[0] += 1
                client.record("theme", "dark")
                client.record("home_page", record.getMessage())
        logging.basicConfig(level=logging.DEBUG, handlers=[Handler()])
        client.record("theme", "dark")
        for _ in range(20):
            client.flush(5)
        print(calls[0], client.status().queued, client.status().summary)
    """)
    calls, waiting, summary = said.split(maxsplit=2)
    assert summary.strip() == "collecting"
    assert int(waiting) == 2
    assert int(calls) < 20 * 10


# Bug 13: disk full.


def test_a_full_disk_raises_nothing_and_sends_nothing_that_was_not_charged(
    client_of: MakeClient, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_of().flush()
    from client_sdk import state

    connect = state.connect

    def full(path: Path, patience: float) -> Any:
        connection = connect(path, patience)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(state, "connect", full)
    client = client_of(upload_within_seconds=0, clock=lambda: 1_796_126_400.0)
    with state.State(tmp_path / "state").transaction() as connection:
        # Fills the free pages, so that the next report needs another.
        connection.execute("INSERT INTO marks VALUES ('x', 'day', 1)")
    client.record("theme", "dark")
    client.flush()
    sent, spent = len(server.reports), client.status().spent_epsilon or 0.0
    assert spent >= sent
    assert client.status().summary == "collecting" or client.dropped["no_state"] == 1


# Bug 14: read-only or missing home.


@pytest.mark.parametrize("home", ["/dev/null/x", "/proc/nothing"])
def test_an_unwritable_home_costs_the_reports_only(home: str, host: Any, sink: Any) -> None:
    said = host.run(
        """
        client = client_of(upload_within_seconds=0)
        client.record("theme", "dark")
        client.flush(5)
        print(client.status().summary)
        """,
        HOME=home,
        XDG_STATE_HOME=home,
    )
    assert said.startswith("disabled: no state, no report")
    assert sink.paths == []


# Bug 21: memory grows while the server is down.


@pytest.mark.slow
def test_a_million_records_need_no_memory_while_the_server_hangs(host: Any, sink: Any) -> None:
    sink.mode = "hung"
    growth, dropped = host.run("""
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        client = client_of(upload_within_seconds=0)
        client.record("theme", "dark")
        time.sleep(2)  # requests is loaded now, and waits for an answer
        before = resident()
        for number in range(1_000_000):
            client.record("home_page", f"example{number}.org")
        print(resident() - before, client.dropped["already_reported"])
    """).split()
    assert int(growth) < 5_000_000
    assert int(dropped) == 999_999


# Bug 23: import does work.


def bare(program: str, host: Any, *flags: str) -> tuple[str, str]:
    """What a program says and complains of that has not loaded the SDK yet."""
    done = subprocess.run(
        [sys.executable, "-B", *flags, "-c", program],
        env=host.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


HEAVY = "ssl http.client sqlite3 asyncio tomllib requests dataclasses logging typing decimal"
IMPORT = """
import sys
seen = []
def hook(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.mkdir", "os.rename", "os.fork")):
        seen.append(event)
    if event == "open" and arguments[1] not in (None, "r", "rb", "rt"):
        seen.append(f"open {arguments[0]} for {arguments[1]}")
sys.addaudithook(hook)
before = set(sys.modules)
import client_sdk
from client_sdk import Client
print(seen, sorted(set("HEAVY".split()) & (set(sys.modules) - before)))
""".replace("HEAVY", HEAVY)


def test_an_import_is_pure_and_loads_next_to_nothing(host: Any) -> None:
    said, complaints = bare(IMPORT, host)
    assert (said, complaints) == ("[] []\n", "")


def test_an_import_takes_less_than_25_milliseconds(host: Any) -> None:
    """Best of nine beyond a bare interpreter, by -X importtime."""

    def best(program: str) -> float:
        times = []
        for _ in range(9):
            _, lines = bare(program, host, "-X", "importtime")
            own = [line.partition(":")[2].split("|")[0].strip() for line in lines.splitlines()]
            times.append(sum(int(each) for each in own if each.isdigit()) / 1000)
        return min(times)

    assert best("import client_sdk\nfrom client_sdk import Client") - best("pass") < 25


# Bug 27: flush() hangs when sending is off.


@pytest.mark.parametrize("off", ["never enabled", "opted out", "closed", "objected"])
def test_flush_returns_at_once_when_sending_is_off(
    off: str, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    client = client_of(enabled=off != "never enabled", respect_environment=off == "objected")
    if off == "opted out":
        client.opt_out()
    if off == "closed":
        client.close()
    began = time.perf_counter()
    assert not client.flush(30)
    assert time.perf_counter() - began < 0.2


# Bug 28: a sub-process that uploads breaks frozen apps.


def test_no_process_is_started_by_anything(host: Any, sink: Any) -> None:
    said = host.run("""
        seen = []
        def hook(event, arguments):
            if event.startswith(("subprocess.", "os.fork", "os.exec", "os.spawn", "os.posix_spawn",
                                 "os.system", "os.startfile", "pty.spawn")):
                seen.append(event)
        sys.addaudithook(hook)
        client = client_of()
        client.record("theme", "dark")
        print(client.flush(20), client.preview().waiting)
        client.close()
        atexit.register(lambda: os.write(1, repr(seen).encode()))
    """)
    assert said.split() == ["[]", "True", "()"] or said.split() == ["True", "()", "[]"]
    assert len(sink.reports) == 1


# Bug 29: an error log for every failed try.


def test_a_server_that_is_down_for_long_is_not_news(
    client_of: MakeClient, server: Any, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    client = client_of(transport=None, endpoint="http://127.0.0.1:9", upload_within_seconds=0)
    client.record("theme", "dark")
    for _ in range(60):
        assert not client.flush()
        clock.now += 60
    assert len(caplog.records) >= 60
    assert [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")] == []


def test_a_host_that_does_not_use_logging_hears_nothing(host: Any) -> None:
    host.run(
        "client = client_of()\nclient.record('theme', 'dark')\nclient.flush(5)",
        HOME="/dev/null/x",
        XDG_STATE_HOME="/dev/null/x",
    )
    host.run(
        "import logging\nclient = client_of()\nclient.record('theme', 'dark')\nclient.flush(5)",
        HOME="/dev/null/x",
        XDG_STATE_HOME="/dev/null/x",
    )


# Threads, coroutines, signals, finalizers.


def test_a_coroutine_that_records_does_not_block_its_loop(
    client_of: MakeClient, server: Any
) -> None:
    client = client_of()
    worst = 0.0

    async def service() -> None:
        nonlocal worst
        for number in range(2000):
            began = time.perf_counter()
            client.record("theme", "dark" if number % 2 else "light")
            worst = max(worst, time.perf_counter() - began)
            if number % 50 == 0:
                await asyncio.sleep(0)
        assert await asyncio.to_thread(client.flush)

    asyncio.run(service())
    assert len(server.reports) == 1
    assert worst < 0.05  # with the disk in it: a commit alone takes milliseconds


def test_record_does_not_wait_while_the_disk_does(client_of: MakeClient, clock: Any) -> None:
    """The state is held by somebody else, as a slow disk or another process would hold it."""
    client = client_of()
    client.flush()
    worker = client._workers[os.getpid()]
    assert worker._session is not None
    taken, done = threading.Event(), threading.Event()
    state = worker._session.state

    def hold() -> None:
        with worker._guard, state._lock:
            taken.set()
            done.wait(5)

    holder = threading.Thread(target=hold)
    holder.start()
    assert taken.wait(5)
    began = time.perf_counter()
    client.record("theme", "dark")
    assert time.perf_counter() - began < 0.05
    done.set()
    holder.join()
    assert client.flush()


def test_record_in_a_signal_handler_that_interrupted_record_does_not_deadlock(host: Any) -> None:
    said = host.run("""
        now = [NOON]
        client = client_of(clock=lambda: now[0])
        handled = [0]
        def handler(number, frame):
            handled[0] += 1
            client.record("home_page", "example.org")
            client.record("theme", "dark")
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            now[0] += 86400
            if now[0] > NOON + 86400 * 5:
                now[0] = NOON
            client.record("theme", "light")
            threading.enumerate()
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(handled[0], client.flush(10), client.status().summary)
    """)
    handled, flushed, summary = said.split()
    assert int(handled) > 100
    assert (flushed, summary) == ("True", "collecting")


def test_the_first_record_may_come_from_a_handler_inside_the_threading_module(host: Any) -> None:
    said = host.run("""
        client = client_of()
        def handler(number, frame):
            client.record("theme", "dark")
        signal.signal(signal.SIGUSR1, handler)
        with threading._active_limbo_lock:  # as inside threading.enumerate
            os.kill(os.getpid(), signal.SIGUSR1)
            for _ in range(1000):
                pass
        print(client.flush(10))
    """)
    assert said == "True\n"


def test_finalizers_may_record_at_any_allocation(host: Any) -> None:
    said = host.run("""
        gc.set_threshold(1)
        now, finalized = [NOON], [0]
        client = client_of(clock=lambda: now[0])
        class Cycle:
            def __init__(self):
                self.me = self
            def __del__(self):
                finalized[0] += 1
                client.record("home_page", "example.org")
        def churn():
            for day in range(400):
                now[0] = NOON + day % 5 * 86400
                Cycle()
                client.record("theme", "dark")
        others = [threading.Thread(target=churn) for _ in range(4)]
        for other in others:
            other.start()
        for other in others:
            other.join()
        gc.collect()
        print(finalized[0], client.flush(10), client.status().summary)
    """)
    finalized, flushed, summary = said.split()
    assert int(finalized) == 1600
    assert (flushed, summary) == ("True", "collecting")


def test_a_record_that_is_interrupted_by_an_exception_leaves_everything_in_order(
    client_of: MakeClient, server: Any
) -> None:
    """KeyboardInterrupt is the host's: it passes, and the next record works."""
    client = client_of()

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003)
                while True:
                    client.record("theme", "dark")
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted == 300
    assert client.flush()
    assert len(server.reports) == 1


def test_a_client_that_is_forgotten_stores_what_it_had_and_goes_away(
    client_of: MakeClient, tmp_path: Path, clock: Any, server: Any, registry_of: Any
) -> None:
    options = {"enabled": True, "respect_environment": False, "state_dir": tmp_path / "state"}
    client = Client(registry_of(), clock=clock, transport=server, **options)
    client.record("theme", "dark")
    gone, work = weakref.ref(client), client._workers[os.getpid()]._work
    del client
    gc.collect()
    assert gone() is None
    work.wait(5)
    assert work.has_ended
    assert len(client_of().preview().waiting) == 1
    assert client_of().flush()
    assert len(server.reports) == 1


def test_all_clients_together_end_within_the_bound(
    client_of: MakeClient, server: Any, tmp_path: Path
) -> None:
    released = threading.Event()

    def hang(body: bytes) -> Any:
        released.wait(30)
        return server.dead()

    server.answer = hang
    clients = [
        client_of(state_dir=tmp_path / str(number), upload_within_seconds=0) for number in range(5)
    ]
    for client in clients:
        client.record("theme", "dark")
    time.sleep(0.3)
    began = time.perf_counter()
    exits.end_all()
    assert time.perf_counter() - began < exits.EXIT_SECONDS + 0.2
    released.set()


PATCHED = """
# What gevent.monkey does to the modules that matter here, with threads and locks that end the
# program when the SDK uses them. Modules are loaded before: importing takes locks of its own.
import _thread, types
client_of(state_dir=FOLDER + "/other").preview()
originals = {name: getattr(_thread, name) for name in ("start_new_thread", "allocate_lock")}
def cooperative(*arguments, **options):
    os.write(2, b"a cooperative thread or lock was used")
    os._exit(1)
_thread.start_new_thread = lambda *arguments: cooperative()
_thread.allocate_lock = lambda: cooperative()
monkey = types.ModuleType("gevent.monkey")
monkey.get_original = lambda module, name: originals[name]
sys.modules["gevent.monkey"] = monkey
slept, sleep = [], time.sleep
time.sleep = lambda seconds: (slept.append(seconds), sleep(seconds))
client = client_of()
client.record("theme", "dark")
print(client.preview(5).waiting[0].words.split(",")[0], bool(slept))
client.close()
for name, original in originals.items():
    setattr(_thread, name, original)
"""


def test_where_threads_are_patched_the_worker_is_still_a_thread(host: Any) -> None:
    assert host.run(PATCHED) == "theme True\n"


GEVENT = """
import sys
{before}
import gevent, os, threading, time
from client_sdk import Client, exits, schedule
{after}
# However busy the machine is.
exits.EXIT_SECONDS = schedule.LEAST_ANSWER_SECONDS = schedule.MOST_ANSWER_SECONDS = 20
# Other greenlets go on while the SDK works or is waited for.
turns = 0
def turn():
    global turns
    while True:
        turns += 1
        gevent.sleep(0.001)
turning = gevent.spawn(turn)
made = dict(endpoint={url!r}, enabled=True, upload_within_seconds={within!r})
client = Client({metrics!r}, clock=lambda: {now}, **made)
def work(number):
    client.record("theme", "dark")
    client.record("home_page", f"example{{number}}.org")
gevent.joinall([gevent.spawn(work, number) for number in range(10)])
if {flush!r}:
    turns = 0
    assert client.flush(30)
    assert turns > 1, turns
print(client.dropped["internal_error"], client.dropped["already_reported"])
"""


@pytest.mark.parametrize("flush", [True, False], ids=["flushed", "delivered at exit"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_host_that_gevent_has_patched_delivers(
    when: str, flush: bool, host: Any, sink: Any
) -> None:
    """The real one, patched before the SDK is imported and after."""
    patch = "from gevent import monkey; monkey.patch_all()"
    program = GEVENT.format(
        before=patch if when == "before" else "",
        after=patch if when == "after" else "",
        url=host.url,
        within=1e9 if flush else 0.0,
        metrics=str(host.folder / "metrics.toml"),
        now=NOON,
        flush=flush,
    )
    said, complaints = bare(program, host)
    assert (said, complaints) == ("0 18\n", "")
    assert sorted(report["metric"] for report in sink.reports) == ["home_page", "theme"]
