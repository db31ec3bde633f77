"""The end of the process: store what was recorded, wait a moment, never print.

One hook for all workers, and it holds none of them alive: `atexit` could not let go of them.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from client_sdk.threads import Once
    from client_sdk.worker import Worker

EXIT_SECONDS = 0.8
"""The longest that `Client.close`, and all clients together at the end of the process, may take."""
_LOOK_SECONDS = 0.01

_live: weakref.WeakValueDictionary[int, Worker] = weakref.WeakValueDictionary()
_pool_hooked: set[int] = set()


def watch(worker: Worker) -> None:
    """End a worker with the process, if it still lives then."""
    _live[id(worker)] = worker
    _watch_for_the_end_of_a_pool_process()


def _watch_for_the_end_of_a_pool_process() -> None:
    """Children of multiprocessing end without atexit, but they run what its own util is told."""
    processes = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if processes is None or util is None or os.getpid() in _pool_hooked:
        return
    if processes.parent_process() is not None:
        _pool_hooked.add(os.getpid())
        util.Finalize(None, end_all, exitpriority=1)


def end_all() -> None:
    """End all workers of this process within EXIT_SECONDS."""
    deadline = time.monotonic() + EXIT_SECONDS
    workers = [worker for ref in _live.valuerefs() if (worker := ref()) is not None]
    for worker in workers:
        with suppress(Exception):
            worker.stop(EXIT_SECONDS)
    for worker in workers:
        with suppress(Exception):
            worker.wait_until_ended(max(0.0, deadline - time.monotonic()))


def wait_unless_silent(
    work: Once,
    seconds: float,
    waits_since: Callable[[], float | None],
    answer_seconds: Callable[[], float],
) -> None:
    """Wait until a worker's thread has ended, but not long for a server that does not answer.

    Args:
        work: The thread.
        seconds: The longest to wait at all.
        waits_since: Since when it has been waiting for one answer; None: it is not.
        answer_seconds: How long to wait for one answer.
    """
    deadline = time.monotonic() + seconds
    asked, silent = waits_since(), 0.0
    while not work.has_ended and silent < answer_seconds():
        left = deadline - time.monotonic()
        if left <= 0:
            break
        work.wait(min(_LOOK_SECONDS, left))
        # Looks are counted, not time: on a busy machine both take longer, they and answers.
        before, asked = asked, waits_since()
        silent = silent + _LOOK_SECONDS if asked is not None and asked == before else 0.0


atexit.register(end_all)
