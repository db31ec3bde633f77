"""The schedule: publish what is due, every so often, until SIGTERM or Ctrl-C."""

import logging
import signal
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import FrameType

from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.interval import IntervalTrigger

from estimator.publish import Outcome

log = logging.getLogger(__name__)

_PROGRESS_SECONDS = 10.0


class _Stop(Exception):
    """Ends the scheduler's main loop from a signal handler."""


def tick(publish: Callable[[], Iterable[Outcome]]) -> None:
    """Publish what is due and log each result; whatever fails is due again next time."""
    try:
        outcomes = publish()
    except Exception:
        # The schedule outlives a store that is away; the next tick finds the same work due.
        log.exception("FAILED: nothing could be published; next try at the next tick")
        return
    for outcome in outcomes:
        level = logging.ERROR if outcome.status == "FAILED" else logging.INFO
        named = f"{outcome.metric} {outcome.epoch} {outcome.fingerprint}".rstrip()
        log.log(
            level, "%s %s%s", outcome.status, named, f": {outcome.reason}" * bool(outcome.reason)
        )


def progress_log(monotonic: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """Return what logs how far a long publication is, every ten seconds."""
    last = monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        if monotonic() - last >= _PROGRESS_SECONDS:
            last = monotonic()
            log.info("%d of %d due epochs are done", done, total)

    return tell


def run(publish: Callable[[], Iterable[Outcome]], every_seconds: float) -> None:
    """Call `publish` now and every `every_seconds` until SIGTERM or SIGINT.

    Ticks never overlap: those missed while one was running are made up for by a single one. A
    tick that is running when the signal comes is finished first. Main thread only.
    """
    scheduler = BlockingScheduler(timezone=UTC)
    scheduler.add_job(
        tick,
        IntervalTrigger(seconds=every_seconds, timezone=UTC),
        args=(publish,),
        next_run_time=datetime.now(UTC),
        coalesce=True,
        max_instances=1,
        misfire_grace_time=None,
    )
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for number in before:
            signal.signal(number, _stop)
        scheduler.start()
    except _Stop:
        log.info("stopping")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if scheduler.running:
            scheduler.shutdown(wait=True)


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stop
