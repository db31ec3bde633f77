"""What a fork must find at rest: open state files, and imports that the SDK's thread has begun.

SQLite forbids to carry a connection through a fork, and a child whose parent was importing a
module on another thread can never import it: the lock is held by a thread that the child has not.
So a fork waits, for a moment, until neither is under way. Where a fork runs no hooks (uWSGI forks
in C) or could not wait, the child can tell and does without: it stores and sends nothing rather
than something wrong.

The hooks are set once per process and hold nothing alive.
"""

import os
import time
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from client_sdk import locks, threads
from client_sdk.errors import TransportError

if TYPE_CHECKING:
    from client_sdk.state import State

MOST_WAIT_SECONDS = 0.5
MOST_IMPORT_SECONDS = 5.0

_states: "weakref.WeakValueDictionary[int, State]" = weakref.WeakValueDictionary()
_import_lock = threads.RLock()
_importing: list[int] = []
_waits_for_imports: list[bool] = []
_held: dict[int, list[Callable[[], None]]] = {}


def watch(state: "State") -> None:
    """Keep a state at rest during forks, for as long as it lives."""
    _states[id(state)] = state


@contextmanager
def importing() -> Iterator[None]:
    """Guard imports on the SDK's own thread: a fork waits until they are done.

    Raises:
        TransportError: A fork that did not wait has made this process; it can never import
            what its parent was importing.
    """
    if any(pid != os.getpid() for pid in _importing):
        raise TransportError("this process was forked in the middle of an import")
    _importing.append(os.getpid())
    try:
        with _import_lock:
            if not _waits_for_imports:
                _wait_for_imports()
            yield
    finally:
        _importing.remove(os.getpid())


def _wait_for_imports() -> None:
    """Set the hook that waits, in its place: hooks run in reverse order.

    That of logging takes a lock which importing `requests` needs too, so ours has to come first,
    and logging, which not every host has loaded, before ours.
    """
    import logging  # noqa: F401

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hold_imports, after_in_parent=_let_go, after_in_child=_let_go)
    _waits_for_imports.append(True)


def _hold_imports() -> None:
    if _importing and _import_lock.acquire(True, MOST_IMPORT_SECONDS):
        _held.setdefault(get_ident(), []).append(_import_lock.release)


def _hold_states() -> None:
    with suppress(Exception):  # nothing may keep the host from forking
        deadline = time.monotonic() + MOST_WAIT_SECONDS
        for reference in _states.valuerefs():
            state = reference()
            if state is not None and state.hold(max(0.0, deadline - time.monotonic())):
                _held.setdefault(get_ident(), []).append(state.let_go)


def _let_go() -> None:
    for let_go in _held.pop(get_ident(), []):
        with suppress(Exception):
            let_go()


def _let_go_in_child() -> None:
    _let_go()
    _held.clear()
    locks.drop_copies()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_states, after_in_parent=_let_go, after_in_child=_let_go_in_child
    )
