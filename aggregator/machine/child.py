"""A child process that cannot outlive this one: `embedded` and `processes` start theirs with it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from aggregator.machine import _leash
from aggregator.machine._leash import GRACE_SECONDS

__all__ = ["GRACE_SECONDS", "Child", "end"]


class Child:
    """One running command, in a session of its own: Ctrl-C in the terminal reaches only its owner.

    When the owner ends, in whatever way, the command's process group gets SIGTERM and, after
    `GRACE_SECONDS`, SIGKILL.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
        pass_fds: Collection[int] = (),
    ) -> None:
        """Start `command`.

        Args:
            command: Program and arguments.
            log: File its output is appended to; None: it writes where its owner writes.
            environment: All of its environment; None: the owner's.
            pass_fds: Open files it inherits.
        """
        leash_end, self._lifeline = os.pipe()
        try:
            with nullcontext() if log is None else log.open("ab") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", _leash.__file__, *command],
                    stdin=leash_end,
                    stdout=output,
                    stderr=None if output is None else subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                    pass_fds=pass_fds,
                )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(leash_end)
        _leashed.add(self)

    @property
    def pid(self) -> int:
        """Process id of the command, and id of its process group."""
        return self._process.pid

    def ended(self) -> bool:
        """Whether the command has ended. If it has, whatever it left in its group is killed."""
        if self in _leashed and self._process.poll() is not None:
            self._release()
        return self not in _leashed

    def status_in_words(self) -> str:
        """How the command ended: `exit status 1`, `signal 9`; or that it is running."""
        status = self._process.returncode
        if status is None:
            return "running"
        return f"signal {-status}" if status < 0 else f"exit status {status}"

    def _terminate(self) -> None:
        if not self.ended():
            self._process.terminate()

    def _wait(self, deadline: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            if not self.ended():
                self._process.wait(max(0.0, deadline - time.monotonic()))
        if not self.ended():
            self._process.kill()
            self._process.wait()
            self._release()

    def _release(self) -> None:
        """Forget a command whose end has been seen; only then may its process id be used again."""
        _leashed.discard(self)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(BrokenPipeError):
            os.write(self._lifeline, b".")
        os.close(self._lifeline)


def end(children: Iterable[Child], *, grace_seconds: float = GRACE_SECONDS) -> None:
    """End all children together: SIGTERM, then SIGKILL for those left after `grace_seconds`."""
    ending = list(children)
    deadline = time.monotonic() + grace_seconds
    for child in ending:
        child._terminate()
    for child in ending:
        child._wait(deadline)


_leashed: set[Child] = set()


def _let_go_after_fork() -> None:
    # A forked copy of the owner (multiprocessing) owns no children, and a lifeline left open there
    # would keep them running after the owner's end.
    for child in _leashed:
        os.close(child._lifeline)
        child._process.returncode = 0  # so that Popen does not complain about a process it left
    _leashed.clear()


os.register_at_fork(after_in_child=_let_go_after_fork)
