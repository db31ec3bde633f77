"""Run a command that ends when its owner ends, even if the owner is killed with -9.

Started by `child` as a file of its own: `python -I -S _leash.py COMMAND ...`, as the
leader of a new session, with the read end of a pipe as standard input. Only the owner holds the
write end, so the kernel closes it however the owner ends. This process becomes COMMAND, under the
same process id; a watcher beside it reads the pipe, and when that ends it ends the command's
process group. A byte on the pipe says that the owner has seen the command's end itself.

Why not Linux's parent-death signal: it fires when the thread that started the command ends, and
macOS has none.
"""

import os
import signal
import sys
import time
from contextlib import suppress

GRACE_SECONDS = 10.0
"""How long a process may take to end after SIGTERM before it gets SIGKILL."""


def main(command: list[str]) -> None:
    """Become `command`, leaving a watcher behind; exit with status 1 if it cannot be run."""
    group = os.getpid()
    if os.fork() == 0:
        watch(group)
        os._exit(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


def watch(group: int) -> None:
    """Wait until the owner is gone or lets go; in the first case end the process group."""
    os.setsid()  # neither the terminal nor the end of the group may reach the watcher
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.dup2(nowhere, sys.stderr.fileno())
    # Files passed on to the command may hold locks, which must fall with the command.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    owner_let_go = os.read(sys.stdin.fileno(), 1)
    if owner_let_go:
        return
    deadline = time.monotonic() + GRACE_SECONDS
    with suppress(ProcessLookupError, PermissionError):  # macOS says the second of a dead group
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
