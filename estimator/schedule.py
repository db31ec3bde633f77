"""The schedule: publish what is due, every so often, until SIGTERM or Ctrl-C."""

import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from aggregator.connection import StoreUnavailable
from aggregator.machine.signals import ending
from client_sdk.errors import SottovoceError
from estimator.publish import Outcome

log = logging.getLogger(__name__)

_PROGRESS_SECONDS = 10.0
SAMPLE_SECONDS = 600.0
"""Between two looks at how much of their budget devices have spent."""


PREVIEW_SECONDS = 600.0
"""Between two looks at what may be shown of open epochs."""

NOTIFY_MINUTES = 5
"""Between two looks at whether a digest is due or waits; at full hours, UTC, among others."""
_NOTIFY_AFTER_SECONDS = 10.0
"""From the start on, so that a digest tells what the first tick has made up for."""


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


def sampled(sample: Callable[[], object]) -> None:
    """Look at the ledger; what fails is tried again next time."""
    try:
        sample()
    except StoreUnavailable as error:
        log.warning("the ledger could not be looked at: %s", error)


def notified(look: Callable[[], object]) -> None:
    """Send what is due; what fails is tried again at the next look, and publishing goes on."""
    try:
        look()
    except (SottovoceError, OSError) as error:
        log.warning("no digest could be composed or noted: %s", error)


def previewed(renew: Callable[[], object]) -> None:
    """Renew the previews of open epochs; what fails is tried again next time."""
    try:
        renew()
    except (SottovoceError, OSError) as error:
        log.warning("open epochs could not be previewed: %s", error)


def notify_trigger() -> CronTrigger:
    """Return when to look: by UTC, so that no clock change skips or doubles a look."""
    return CronTrigger(minute=f"*/{NOTIFY_MINUTES}", timezone=UTC)


def run(
    publish: Callable[[], Iterable[Outcome]],
    every_seconds: float,
    sample: Callable[[], object] = lambda: None,
    notify: Callable[[], object] | None = None,
    preview: Callable[[], object] = lambda: None,
) -> None:
    """Call `publish` now and every `every_seconds` until SIGTERM or SIGINT.

    Beside it `sample` is called now and every SAMPLE_SECONDS, `preview` now and every
    PREVIEW_SECONDS, and `notify` soon and every NOTIFY_MINUTES, each in a thread of its own that
    publishing never waits for.

    Ticks never overlap: those missed while one was running are made up for by a single one. A
    tick that is running when the signal comes is finished first. Main thread only.
    """
    scheduler = BackgroundScheduler(timezone=UTC)
    now = datetime.now(UTC)
    jobs: list[tuple[Callable[..., None], Callable[[], object], object, datetime]] = [
        (tick, publish, IntervalTrigger(seconds=every_seconds, timezone=UTC), now),
        (sampled, sample, IntervalTrigger(seconds=SAMPLE_SECONDS, timezone=UTC), now),
        (previewed, preview, IntervalTrigger(seconds=PREVIEW_SECONDS, timezone=UTC), now),
    ]
    if notify is not None:
        soon = now + timedelta(seconds=_NOTIFY_AFTER_SECONDS)
        jobs.append((notified, notify, notify_trigger(), soon))
    for act, argument, trigger, first in jobs:
        scheduler.add_job(
            act,
            trigger,
            args=(argument,),
            next_run_time=first,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
        )
    with ending() as told:
        scheduler.start()
        try:
            told.wait()
            log.info("stopping")
        finally:
            scheduler.shutdown(wait=True)
