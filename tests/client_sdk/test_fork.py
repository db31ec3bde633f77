"""A fork copies one thread and every lock: what the child inherits must not stop or mislead it.

Numbers are those of the list of bugs that other SDKs hit.
"""

import ctypes
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from client_sdk import Client, forks, locks
from client_sdk.errors import StateError, TransportError
from client_sdk.state import State

DAY = 86_400
MakeClient = Callable[..., Client]
Lock = type(threading.Lock())
RLock = type(threading.RLock())


def fork_by_hooks() -> int:
    return os.fork()


def fork_in_c() -> int:
    """As uWSGI does: Python's hooks do not run."""
    return int(ctypes.CDLL(None).fork())


FORKS = {"hooks": fork_by_hooks, "C": fork_in_c}
forked = pytest.mark.parametrize("fork", FORKS.values(), ids=FORKS)


def in_child(fork: Callable[[], int], act: Callable[[], bool], seconds: float = 10.0) -> None:
    """Fork; the child must find `act` true in time."""
    child = fork()
    if child == 0:
        status = 1
        try:
            status = 0 if act() else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def locks_of(*roots: object) -> list[Any]:
    """Every lock that can be reached from the SDK's objects and modules."""
    found: list[Any] = []
    seen: set[int] = set()
    modules = [m for name, m in sys.modules.items() if name.startswith("client_sdk")]
    waiting: list[object] = [*roots, *modules]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, Lock | RLock):
            found.append(thing)
            continue
        if isinstance(thing, ModuleType):
            if thing.__name__.startswith("client_sdk"):
                waiting += vars(thing).values()
            continue
        if isinstance(thing, dict | list | tuple | set):
            waiting += thing.values() if isinstance(thing, dict) else thing
        elif type(thing).__module__.startswith("client_sdk"):
            waiting += vars(thing).values() if hasattr(thing, "__dict__") else []
            waiting += [getattr(thing, name) for name in getattr(thing, "__slots__", ())]
    return found


# Bug 1: a lock held at fork deadlocks the child.


@forked
def test_a_child_works_while_another_thread_holds_every_lock_of_the_sdk(
    fork: Callable[[], int], client_of: MakeClient, server: Any, clock: Any
) -> None:
    client = client_of()
    client.record("theme", "dark")
    assert client.flush()
    worker = client._workers[os.getpid()]
    assert worker._session is not None
    held = locks_of(client)
    for known in (worker._guard, worker._session.state._lock, forks._import_lock):
        assert any(lock is known for lock in held)
    assert len(held) > 5
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as stack:
            for lock in held:
                if lock.acquire(timeout=0.2):
                    stack.callback(lock.release)
            taken.set()
            done.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert taken.wait(10)
    clock.now += DAY

    def child() -> bool:
        began = time.monotonic()
        client.record("theme", "light")
        flushed = client.flush(5)
        return flushed and time.monotonic() - began < 2

    in_child(fork, child)
    done.set()
    holder.join()
    again = client_of()  # the child's report is in the ledger, and was sent
    again.flush()
    assert again.status().spent_epsilon == 2.0


def test_a_fork_waits_only_a_moment_for_a_state_that_is_held(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of()
    client.flush()
    session = client._workers[os.getpid()]._session
    assert session is not None
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with session.state._lock:
            taken.set()
            done.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert taken.wait(5)
    began = time.monotonic()
    in_child(os.fork, lambda: True)
    assert time.monotonic() - began < forks.MOST_WAIT_SECONDS + 1
    done.set()
    holder.join()


# Bug 2: threads do not survive a fork.


@forked
def test_parent_and_child_each_deliver_their_own_report_once(
    fork: Callable[[], int], host: Any, sink: Any
) -> None:
    name = "os.fork()" if fork is fork_by_hooks else "__import__('ctypes').CDLL(None).fork()"
    host.run(f"""
        client = client_of()
        client.record("theme", "dark")
        client.preview(5)  # it is on the disk now, and waits
        child = {name}
        if child == 0:
            client.record("home_page", "example.org")
            os._exit(0 if client.flush(10) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.flush(10)
    """)
    assert sorted(report["metric"] for report in sink.reports) == ["home_page", "theme"]


def test_what_the_parent_had_not_stored_yet_the_child_does_not_store_again(
    client_of: MakeClient, server: Any
) -> None:
    client = client_of()
    client.flush()
    worker = client._workers[os.getpid()]
    with worker._guard:
        client.record("theme", "dark")
        in_child(os.fork, lambda: client.flush(5) and client.status().spent_epsilon == 0.0)
    assert client.flush()
    assert len(server.reports) == 1


def test_prefork_servers_deliver_one_report_a_device_whoever_recorded(host: Any, sink: Any) -> None:
    """gunicorn with preload: a client made and used in the master, then eight workers."""
    said = host.run("""
        client = client_of()
        client.record("theme", "dark")
        workers = []
        for number in range(8):
            worker = os.fork()
            if worker == 0:
                for day in range(3):
                    client.record("theme", "light")
                    client.record("home_page", f"example{number}.org")
                client.close(5)
                os._exit(0)
            workers.append(worker)
        print([os.waitpid(worker, 0)[1] for worker in workers])
        while not client.flush(10):
            time.sleep(0.05)
        print(client.status().spent_epsilon)
    """)
    assert said == f"{[0] * 8}\n9.0\n"
    assert sorted(report["metric"] for report in sink.reports) == ["home_page", "theme"]


def test_children_of_multiprocessing_store_what_they_recorded(host: Any, sink: Any) -> None:
    """They end without atexit."""
    host.run("""
        import multiprocessing
        client = client_of()
        def work():
            client.record("theme", "dark")
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        assert child.exitcode == 0
        assert len(client.preview().waiting) == 1
    """)


# Bug 3: the at-fork hook leaks the client.


def test_neither_fork_nor_exit_hooks_keep_clients_alive(
    registry_of: Any, tmp_path: Path, clock: Any, server: Any
) -> None:
    registry = registry_of()
    alive = []
    for number in range(1000):
        client = Client(
            registry,
            enabled=True,
            respect_environment=False,
            state_dir=tmp_path / "state",
            transport=server,
            clock=clock,
        )
        if number % 100 == 0:
            client.record("theme", "dark")
        client.close(5)
        alive.append((weakref.ref(client), weakref.ref(client._workers[os.getpid()])))
    del client
    gc.collect()
    deadline = time.monotonic() + 5
    while any(c() or w() for c, w in alive) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert [(c(), w()) for c, w in alive if c() or w()] == []
    assert not forks._states
    in_child(os.fork, lambda: True)


# Bug 4: forks in C, threads at init. (No thread at init: test_client.py,
# test_no_thread_and_no_file_before_the_first_record.)


def test_a_fork_in_c_while_the_state_is_open_ends_reporting_in_the_child_only(
    client_of: MakeClient, server: Any, tmp_path: Path, clock: Any
) -> None:
    """SQLite's own bookkeeping is inherited then, and would let the child lose commits."""
    client = client_of()
    client.flush()
    clock.now += DAY
    session = client._workers[os.getpid()]._session
    assert session is not None
    with session.state.transaction():

        def child() -> bool:
            client.record("theme", "dark")
            stopped = not client.flush(5)
            return (
                stopped and "forked" in client.status().summary and client.dropped["no_state"] == 1
            )

        in_child(fork_in_c, child)
    client.record("theme", "dark")
    assert client.flush()
    assert len(server.reports) == 1


def test_python_s_own_fork_finds_the_state_closed(tmp_path: Path) -> None:
    state = State(tmp_path)
    with state.transaction() as connection:
        connection.execute("INSERT INTO marks VALUES ('m', 'day', 1)")
    assert state._open is not None

    def child() -> bool:
        own = State(tmp_path)
        with own.transaction() as connection:
            rows = connection.execute("SELECT * FROM marks").fetchall()
        own.close()
        return state._open is None and rows == [("m", "day", 1)]

    in_child(os.fork, child)
    assert state.queued() == 0  # and the parent opens it again
    state.close()


def test_a_child_never_loses_commits_because_its_parent_closed_the_file(tmp_path: Path) -> None:
    """With an inherited connection the parent would delete the journal that the child writes."""
    state = State(tmp_path)
    state.queued()
    assert state._open is not None
    ready, go = os.pipe()

    def child() -> bool:
        own = State(tmp_path)
        with own.transaction() as connection:
            connection.execute("INSERT INTO marks VALUES ('m', 'day', 1)")
        os.read(ready, 1)  # meanwhile the parent closes
        with own.transaction() as connection:
            connection.execute("INSERT INTO marks VALUES ('m', 'day', 2)")
        own.close()
        return True

    threading.Timer(0.2, lambda: (state.queued(), state.close(), os.write(go, b"x"))).start()
    in_child(os.fork, child)
    again = State(tmp_path)
    with again.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM marks").fetchone() == (2,)
    again.close()
    os.close(ready)
    os.close(go)


# A fork while the SDK's thread imports requests.


def test_a_fork_waits_until_an_import_on_our_thread_is_done(host: Any, sink: Any) -> None:
    said = host.run("""
        import importlib.abc, importlib.machinery
        importing = threading.Event()
        class Slow(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "requests.adapters":
                    # Slow to run, not to find: a fork waits for finders by itself.
                    spec = importlib.machinery.PathFinder.find_spec(name, path, target)
                    run = spec.loader.exec_module
                    def slowly(module):
                        importing.set()
                        time.sleep(0.6)
                        run(module)
                    spec.loader.exec_module = slowly
                    return spec
        sys.meta_path.insert(0, Slow())
        client = client_of(upload_within_seconds=0)
        client.record("theme", "dark")
        assert importing.wait(10)
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            client.record("home_page", "example.org")
            while not client.flush(5):  # while the parent uploads
                time.sleep(0.05)
            os._exit(0)
        print(3 > time.monotonic() - began > 0.3, os.waitpid(child, 0)[1])
        while not client.flush(5):
            time.sleep(0.05)
    """)
    assert said == "True 0\n"


def test_a_child_forked_in_c_during_an_import_stores_but_does_not_send(
    host: Any, sink: Any
) -> None:
    said = host.run("""
        import ctypes, importlib.abc
        importing, go = threading.Event(), threading.Event()
        class Slow(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "requests.adapters":
                    importing.set()
                    go.wait(10)
        sys.meta_path.insert(0, Slow())
        client = client_of(upload_within_seconds=0)
        client.record("theme", "dark")
        assert importing.wait(10)
        child = ctypes.CDLL(None).fork()
        if child == 0:
            began = time.monotonic()
            client.record("home_page", "example.org")
            flushed, status = client.flush(5), client.status()
            quick = time.monotonic() - began < 2
            good = quick and not flushed and status.summary == "collecting"
            os._exit(0 if good and status.spent_epsilon == 9 else 1)
        print(os.waitpid(child, 0)[1])
        go.set()
        print(client.flush(10))
    """)
    assert said == "0\nTrue\n"
    assert sorted(report["metric"] for report in sink.reports) == ["home_page", "theme"]


def test_an_import_that_a_fork_has_cut_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with forks.importing():
        assert forks._importing == [os.getpid()]
    monkeypatch.setattr(forks, "_importing", [os.getpid() + 1])
    with pytest.raises(TransportError, match="forked in the middle"), forks.importing():
        pass


# Bug 15, in part: a lock frees itself although a child holds a copy.


def test_a_lock_of_a_killed_parent_does_not_live_on_in_its_child(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        held = locks.ProcessLock(tmp_path / "lock")
        held.acquire()
        child = os.fork()
        if child == 0:
            os.write(writer, b"%d" % os.getpid())
            time.sleep(20)
        time.sleep(20)
        os._exit(0)
    child = int(os.read(reader, 20))
    other = locks.ProcessLock(tmp_path / "lock")
    assert not other.acquire()
    os.kill(parent, 9)
    os.waitpid(parent, 0)
    assert other.acquire()
    other.release()
    os.kill(child, 9)
    os.close(reader)
    os.close(writer)


def test_a_child_does_not_free_its_parents_lock(tmp_path: Path) -> None:
    held = locks.ProcessLock(tmp_path / "lock")
    assert held.acquire()
    in_child(os.fork, lambda: held.release() is None)
    in_child(fork_in_c, lambda: held.release() is None)
    assert not locks.ProcessLock(tmp_path / "lock").acquire()
    held.release()


# Bug 18, in part: the state of a generator that a fork has copied.


def test_forked_children_draw_different_noise(registry_of: Any, tmp_path: Path, clock: Any) -> None:
    """64 children, the same value; of 128 fresh bits two are never equal by chance."""
    from client_sdk.testing import RecordingTransport

    registry = registry_of(
        '[metrics.home_page]\nquestion = "Which?"\ntype = "string"\nsensitivity = "location"\n'
        "epsilon = 1.0\nmemoize = { epsilon_permanent = 4.0, distinct_values = 2 }\n"
        'rappor = { bits = 128, hashes = 2, cohorts = 1 }\nepoch = "day"\n'
        'owners = ["a@example.org"]\nstarts = 2026-12-01\nexpires = 2027-12-01\n'
    )
    client = Client(
        registry,
        enabled=True,
        respect_environment=False,
        state_dir=tmp_path / "master",
        transport=RecordingTransport(),
        clock=clock,
    )
    client.record("home_page", "example.org")
    assert client.flush()
    for number in range(64):
        if os.fork() == 0:
            try:
                transport = RecordingTransport()
                own = Client(
                    registry,
                    enabled=True,
                    respect_environment=False,
                    state_dir=tmp_path / str(number),
                    transport=transport,
                    clock=clock,
                )
                own.record("home_page", "example.org")
                own.flush(20)
                (tmp_path / f"{number}.out").write_text(transport.reports[0]["response"])
            finally:
                os._exit(0)
    for _ in range(64):
        os.wait()
    responses = {path.read_text() for path in tmp_path.glob("*.out")}
    assert len(responses) == 64
    client.close(5)


def test_a_state_object_refuses_to_work_where_another_was_open_at_the_fork(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.queued()

    def child() -> bool:
        try:
            State(tmp_path / "other")
        except StateError as error:
            return "forked" in str(error)
        return False

    in_child(fork_in_c, child)
    state.close()
