import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import redis

from aggregator.machine.embedded import EmbeddedServer, EmbeddedServerError, find_server
from aggregator.machine.server_program import bundled_program

ROOT = Path(__file__).parents[2]


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the awaited condition did not come true"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    # A zombie counts as gone: reaping is the business of whatever process adopted it.
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def client(server: EmbeddedServer) -> redis.Redis:
    return redis.Redis.from_url(server.url, decode_responses=True)


def program_that_says(folder: Path, name: str, version: str) -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    return program


OWNER = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from aggregator.machine.embedded import EmbeddedServer
    server = EmbeddedServer.start(Path(sys.argv[1]))
    print(server.pid, flush=True)
    time.sleep(600)
""")


def start_owner(directory: Path) -> tuple[subprocess.Popen[str], int]:
    """Another process that starts the server, and the server's process id."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(directory)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    with owner.stdout:
        return owner, int(owner.stdout.readline())


def kill(owner: subprocess.Popen[str]) -> None:
    owner.kill()
    owner.wait()


def test_the_server_has_the_settings_that_the_ledger_relies_on(tmp_path: Path) -> None:
    expected = {
        "port": "0",
        "save": "",
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "aof-load-truncated": "yes",
        "maxmemory": str(64 * 1024**2),
        "maxmemory-policy": "noeviction",
        "hash-max-listpack-entries": "512",
        "hash-max-listpack-value": "320",
        "set-max-intset-entries": "512",
        "busy-reply-threshold": "1000",
    }
    with EmbeddedServer.start(tmp_path / "store", maxmemory="64mb") as server:
        with client(server) as connection:
            assert connection.config_get(*expected) == expected
        assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700


def test_a_directory_open_to_others_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    directory.mkdir()
    directory.chmod(0o750)
    with pytest.raises(EmbeddedServerError, match=r"chmod 700 .* got mode 0750"):
        EmbeddedServer.start(directory)


def test_acknowledged_writes_survive_kill_9(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path) as server:
        with client(server) as connection:
            for number in range(200):
                connection.rpush("acknowledged", number)
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not server.running())
    with EmbeddedServer.start(tmp_path) as server, client(server) as connection:
        assert connection.lrange("acknowledged", 0, -1) == [str(number) for number in range(200)]


def test_a_second_starter_attaches_and_leaves_the_server_running(tmp_path: Path) -> None:
    owner, pid = start_owner(tmp_path)
    try:
        with EmbeddedServer.start(tmp_path) as attached:
            assert attached.attached
            assert attached.pid == pid
            assert attached.running()
        assert not gone(pid)
        with client(attached) as connection:
            assert connection.ping()
    finally:
        kill(owner)
    wait_until(lambda: not attached.running())


def test_an_owner_killed_with_9_leaves_no_server_behind(tmp_path: Path) -> None:
    owner, pid = start_owner(tmp_path)
    kill(owner)
    wait_until(lambda: gone(pid))


def test_a_new_owner_waits_for_the_server_of_a_killed_one(tmp_path: Path) -> None:
    owner, pid = start_owner(tmp_path)
    # Stopped, the old server cannot obey SIGTERM: it is still there when the new one is asked for.
    os.kill(pid, signal.SIGSTOP)
    kill(owner)
    waker = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -CONT {pid}"])
    with EmbeddedServer.start(tmp_path) as server:
        assert not server.attached
        assert gone(pid)
    assert waker.wait() == 0


def test_many_starters_at_once_end_up_with_one_server(tmp_path: Path) -> None:
    started = [start_owner(tmp_path)]
    try:
        started += [start_owner(tmp_path) for _ in range(3)]
        assert len({pid for _, pid in started}) == 1
    finally:
        for owner, _ in started:
            kill(owner)
    wait_until(lambda: gone(started[0][1]))


def test_a_path_too_long_for_a_socket_gets_a_short_private_one(tmp_path: Path) -> None:
    directory = tmp_path / ("with a space, and long " + "x" * 100) / "store"
    directory.mkdir(parents=True, mode=0o700)
    with EmbeddedServer.start(directory) as server:
        folder = server.socket.parent
        assert folder != directory
        assert folder.stat().st_mode & 0o777 == 0o700
        with client(server) as connection:
            connection.set("where", "here")
        assert EmbeddedServer.start(directory).socket == server.socket
    assert not folder.exists()
    assert (directory / "appendonlydir").exists()


def test_stop_leaves_neither_process_nor_socket(tmp_path: Path) -> None:
    server = EmbeddedServer.start(tmp_path)
    pid = server.pid
    server.stop()
    server.stop()
    assert gone(pid)
    assert not server.socket.exists()
    assert not server.running()


def test_a_server_that_does_not_come_up_is_explained_by_its_log(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedServerError, match=r"exit status 1.*(?s:.*)argument must be"):
        EmbeddedServer.start(tmp_path, maxmemory="a lot")


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path) as server:
        assert os.getsid(server.pid) == server.pid != os.getsid(0)


def test_an_old_server_is_refused(tmp_path: Path) -> None:
    old = program_that_says(tmp_path, "redis-server", "Redis server v=6.2.14 sha=0 bits=64")
    with pytest.raises(EmbeddedServerError, match=r"must be version 7\.0 or newer.*v=6\.2\.14"):
        EmbeddedServer.start(tmp_path / "store", program=old)


def test_an_old_or_broken_server_on_the_path_is_passed_over(tmp_path: Path) -> None:
    program_that_says(tmp_path, "redis-server", "Redis server v=6.2.14 sha=0 bits=64")
    (tmp_path / "valkey-server").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "valkey-server").chmod(0o755)
    assert find_server(str(tmp_path)) == bundled_program()


@pytest.mark.parametrize("name", ["valkey-server", "redis-server"])
def test_a_new_enough_server_on_the_path_comes_before_the_bundled_one(
    tmp_path: Path, name: str
) -> None:
    program = program_that_says(tmp_path, name, "Redis server v=7.0.0 sha=0 bits=64")
    assert find_server(str(tmp_path)) == program


def test_without_any_server_the_error_says_what_to_do(tmp_path: Path) -> None:
    program_that_says(tmp_path, "redis-server", "Redis server v=6.2.14 sha=0 bits=64")
    with pytest.raises(EmbeddedServerError, match=r"v=6\.2\.14.*install Valkey or Redis 7\.0"):
        find_server(str(tmp_path), bundled=lambda: None)
