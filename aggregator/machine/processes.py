"""A small supervisor: keeps named processes running, and ends them all with their owner."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from aggregator.machine.child import Child, end
from aggregator.machine.signals import ending

_log = logging.getLogger(__name__)

LONGEST_DELAY_SECONDS = 10.0
_HEALTHY_AFTER_SECONDS = 30.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Command:
    """One process to keep running.

    Attributes:
        name: What the log calls it; unique in its supervisor.
        argv: Program and arguments.
        log: File its output is appended to; None: it writes where its owner writes.
        environment: Variables set for it, on top of the owner's.
    """

    name: str
    argv: tuple[str, ...]
    log: Path | None = None
    environment: Mapping[str, str] | None = None


def restart_delay_seconds(deaths: int) -> float:
    """How long to wait before a restart, after `deaths` >= 1 early deaths in a row."""
    return float(min(LONGEST_DELAY_SECONDS, 0.25 * 2.0 ** min(deaths, 10)))


class Supervisor:
    """Starts commands, restarts those that die, with growing delays, and ends them all in the end.

    A context manager: `with Supervisor(commands): ...` starts on entry and stops on exit. A command
    that has run for 30 seconds starts again from the shortest delay.
    """

    def __init__(self, commands: Iterable[Command]) -> None:
        self._keepers = {command.name: _Keeper(command) for command in commands}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_running, name="supervisor", daemon=True)

    def __enter__(self) -> Self:
        try:
            for keeper in self._keepers.values():
                keeper.start()
            self._thread.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def pid(self, name: str) -> int | None:
        """Process id of a command, None while it waits for its restart."""
        child = self._keepers[name].child
        return None if child is None else child.pid

    def stop(self) -> None:
        """End every process, within the grace of `child.end`. Safe to call twice."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        end(keeper.child for keeper in self._keepers.values() if keeper.child is not None)

    def run_until_signal(self, healthy: Callable[[], bool] = lambda: True) -> int | None:
        """Wait for SIGINT or SIGTERM, or until `healthy()` is false; then stop.

        To be called from the main thread. Further signals are taken and ignored while stopping,
        which is bounded.

        Returns:
            The signal's number; None if `healthy()` turned false.
        """
        with ending() as told:
            try:
                while healthy() and not told.wait(_POLL_SECONDS):
                    pass
            finally:
                self.stop()
        return told.number

    def _keep_running(self) -> None:
        while not self._stopping.wait(_POLL_SECONDS):
            for keeper in self._keepers.values():
                keeper.look_after(time.monotonic())


class _Keeper:
    """One command's process, its deaths, and when it is due to start again."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.child: Child | None = None
        self._started = 0.0
        self._deaths = 0
        self._due = 0.0

    def start(self) -> None:
        command = self.command
        environment = {**os.environ, **(command.environment or {})}
        self.child = Child(command.argv, log=command.log, environment=environment)
        self._started = time.monotonic()

    def look_after(self, now: float) -> None:
        if self.child is None:
            if now >= self._due:
                self._restart(now)
        elif self.child.ended():
            lived = now - self._started
            self._deaths = 1 if lived >= _HEALTHY_AFTER_SECONDS else self._deaths + 1
            self._wait_for_restart(now, f"ended with {self.child.status_in_words()}")

    def _restart(self, now: float) -> None:
        try:
            self.start()
        except OSError as error:  # no memory or no process to spare: that may pass
            self._deaths += 1
            self._wait_for_restart(now, f"did not start ({error})")

    def _wait_for_restart(self, now: float, what_happened: str) -> None:
        delay = restart_delay_seconds(self._deaths)
        self.child = None
        self._due = now + delay
        where = f", see {self.command.log}" if self.command.log else ""
        _log.warning(
            "%s %s%s; starting it again in %g s", self.command.name, what_happened, where, delay
        )
