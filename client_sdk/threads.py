"""Threads and locks of the interpreter itself, also where the host has replaced Python's.

What gevent or eventlet put in place of threads shares the host's event loop: a worker made of that
would stop the loop with each write to the disk. And nothing of the `threading` module: starting
one of its threads takes locks and waits, where a signal handler or a finalizer of the host may be
what records first.
"""

import _thread
import sys
import time
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

RLock = _thread.RLock


def start(run: Callable[[], None]) -> None:
    """Run a function in a thread that does not keep the interpreter from exiting.

    Raises:
        RuntimeError: No thread can start: none is left, or the interpreter is ending.
    """
    _original("start_new_thread")(run, ())


def new_lock() -> Any:
    """Return a lock that is free."""
    return _original("allocate_lock")()


def wait_for(lock: Any, seconds: float) -> bool:
    """Take a lock within some time; where threads are patched, let other greenlets go on."""
    if not _is_patched():
        return bool(lock.acquire(True, min(max(0.0, seconds), _thread.TIMEOUT_MAX)))
    deadline = time.monotonic() + seconds
    while not lock.acquire(False):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True


def _is_patched() -> bool:
    return not isinstance(_thread.start_new_thread, BuiltinFunctionType)


def _original(name: str) -> Any:
    if _is_patched():
        gevent = sys.modules.get("gevent.monkey")
        if gevent is not None:
            return gevent.get_original("_thread", name)
        eventlet = sys.modules.get("eventlet.patcher")
        if eventlet is not None:
            return getattr(eventlet.original("_thread"), name)
    return getattr(_thread, name)


class Once:
    """A piece of work that is done once: by a thread of its own, or by whoever waits for it.

    Args:
        work: Does all of it; must not raise.

    Attributes:
        has_begun: Whether somebody does it, or has done it.
        has_ended: Whether it was done.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._role = new_lock()  # whoever takes it does the work
        self._going_on = new_lock()
        self._going_on.acquire()
        self.has_ended = False

    @property
    def has_begun(self) -> bool:
        return bool(self._role.locked())

    def start(self) -> None:
        """Start the thread unless it was started, or none can start now."""
        # Never waited for: who finds it taken has interrupted a starter, or was overtaken by one.
        if self._role.acquire(False):
            try:
                start(self._do)
            except RuntimeError:
                self._role.release()

    def take_over(self, work: Callable[[], None]) -> bool:
        """Do it here and now, in another way, if no thread has begun; say whether that is so."""
        if not self._role.acquire(False):
            return False
        self._work = work
        self._do()
        return True

    def wait(self, seconds: float) -> None:
        """Wait for the end, or for some seconds."""
        if not self.has_ended and wait_for(self._going_on, seconds):
            self._going_on.release()

    def _do(self) -> None:
        try:
            self._work()
        finally:
            self.has_ended = True
            self._going_on.release()
