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

from aggregator.machine.child import Child, end
from aggregator.machine.processes import Command, Supervisor, restart_delay_seconds

ROOT = Path(__file__).parents[2]
SLEEP = ("sleep", "600")
STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")


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


def pid_of(supervisor: Supervisor, name: str) -> int:
    pid = supervisor.pid(name)
    assert pid is not None
    return pid


def becomes(pid: int, name: str) -> None:
    """Wait until a child has become the command it was started for."""
    wait_until(lambda: psutil.Process(pid).name() == name)


def ignores(pid: int, number: signal.Signals) -> bool:
    """Whether a process ignores a signal; where there is no /proc, taken to be false."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return False
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return bool(int(fields["SigIgn"], 16) >> (number - 1) & 1)


def test_a_killed_process_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    with Supervisor([Command("sleeper", SLEEP), Command("other", SLEEP)]) as supervisor:
        first, other = pid_of(supervisor, "sleeper"), pid_of(supervisor, "other")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: supervisor.pid("sleeper") not in (first, None))
        assert supervisor.pid("other") == other
    assert "sleeper ended with signal 9; starting it again in 0.5 s" in caplog.text


def test_a_process_that_keeps_dying_is_started_less_and_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Supervisor([Command("failing", ("false",))]):
        wait_until(lambda: len(caplog.records) >= 2)
    messages = [record.getMessage() for record in caplog.records]
    assert messages[:2] == [
        "failing ended with exit status 1; starting it again in 0.5 s",
        "failing ended with exit status 1; starting it again in 1 s",
    ]


def test_restart_delays_double_up_to_ten_seconds() -> None:
    delays = [restart_delay_seconds(deaths) for deaths in (1, 2, 3, 4, 5, 6, 7, 10_000)]
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


def test_stop_leaves_nothing_behind() -> None:
    family = ("sh", "-c", "sleep 601 & sleep 602 & wait")
    before = {process.pid for process in psutil.process_iter()}
    with Supervisor([Command("family", family), Command("sleeper", SLEEP)]) as supervisor:
        parent = psutil.Process(pid_of(supervisor, "family"))
        wait_until(lambda: len(parent.children()) == 3)  # its two sleeps, and its watcher
        family_pids = [parent.pid, *(child.pid for child in parent.children())]
        sleeper = pid_of(supervisor, "sleeper")
    assert sleeper not in before
    wait_until(lambda: all(gone(pid) for pid in [*family_pids, sleeper]))


def test_a_process_that_ignores_sigterm_is_killed_within_the_grace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child(STUBBORN, log=log)
    wait_until(lambda: "ready" in log.read_text())
    began = time.monotonic()
    end([child], grace_seconds=0.3)
    assert time.monotonic() - began < 5
    assert child.ended()
    assert child.status_in_words() == "signal 9"


def test_output_goes_to_the_log_and_the_environment_reaches_the_command(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = Command(
        "echo", ("sh", "-c", "echo $GREETING; exec sleep 600"), log, {"GREETING": "hi"}
    )
    with Supervisor([command]):
        wait_until(lambda: log.exists() and log.read_text() == "hi\n")


def test_a_program_that_is_missing_is_reported_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child(["no-such-program"], log=log)
    wait_until(child.ended)
    assert log.read_text() == "cannot run no-such-program: No such file or directory\n"
    assert child.status_in_words() == "exit status 1"


def test_a_command_gets_the_usual_signal_actions() -> None:
    child = Child(SLEEP)
    try:
        becomes(child.pid, "sleep")
        # Python ignores SIGPIPE, and exec would keep that.
        assert not ignores(child.pid, signal.SIGPIPE)
        assert not ignores(child.pid, signal.SIGXFSZ)
    finally:
        end([child])


OWNER = textwrap.dedent("""
    import sys
    from aggregator.machine.processes import Command, Supervisor
    with Supervisor([Command("sleeper", ("sleep", "600"))]) as supervisor:
        print(supervisor.pid("sleeper"), flush=True)
        print(supervisor.run_until_signal(), flush=True)
""")


@pytest.fixture
def owner() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_owner_ends_everything(owner: "subprocess.Popen[str]", number: int) -> None:
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        becomes(pid, "sleep")
        time.sleep(0.3)  # until run_until_signal has taken the signals over
        owner.send_signal(number)
        assert owner.stdout.readline() == f"{int(number)}\n"
        assert owner.wait() == 0
        assert gone(pid)


def test_an_owner_killed_with_9_leaves_nothing_behind(owner: "subprocess.Popen[str]") -> None:
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.kill()
    wait_until(lambda: gone(pid))


@pytest.mark.slow
def test_a_stubborn_process_of_a_killed_owner_is_killed_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from aggregator.machine.child import Child
        child = Child(sys.argv[2:], log=Path(sys.argv[1]))
        print(child.pid, flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(log), *STUBBORN],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        wait_until(lambda: log.exists() and "ready" in log.read_text())
        owner.kill()
    wait_until(lambda: gone(pid), seconds=20)  # the grace of 10 s, then SIGKILL


def test_a_forked_copy_of_the_owner_does_not_keep_children_alive() -> None:
    script = textwrap.dedent("""
        import os, time
        from aggregator.machine.child import Child
        child = Child(["sleep", "600"])
        copy = os.fork()
        if copy == 0:
            time.sleep(5)
            os._exit(0)
        print(child.pid, flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.kill()
    wait_until(lambda: gone(pid), seconds=3)


def test_an_unhealthy_companion_ends_everything() -> None:
    answers = iter([True, True, False])
    with Supervisor([Command("sleeper", SLEEP)]) as supervisor:
        pid = pid_of(supervisor, "sleeper")
        assert supervisor.run_until_signal(healthy=lambda: next(answers)) is None
        assert gone(pid)
