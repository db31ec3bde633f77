"""Publish what is due, again and again, until SIGTERM or Ctrl-C.

An epoch is due when it is over and its grace has passed. Whatever fell due while nothing ran is
published at the next tick. Settings come from the environment; SOTTOVOCE_RELEASES names the
directory of the release files. Where SOTTOVOCE_SMTP_URL or SOTTOVOCE_WEBHOOK_URL is set, owners of
metrics get one digest a day.
"""

import argparse
import secrets
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from estimator.publish import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--every", type=float, default=60.0, metavar="SECONDS", help="time between ticks (60)"
    )


def run(args: argparse.Namespace) -> int:
    from estimator.due import close_due
    from estimator.publish import publish_due
    from estimator.publish_figures import note
    from estimator.schedule import progress_log
    from estimator.schedule import run as run_schedule
    from estimator.source import StoreSource
    from sottovoce.connect import connect, signing
    from sottovoce.notifications import notifier
    from sottovoce.system import releases_directory

    if args.every < 1:
        raise ValueError(f"--every must be at least 1 second, got {args.every}")
    settings, store, catalogue = connect()
    source = StoreSource(store, catalogue)
    found = notifier(settings, store)
    notify = found.look if found.settings.notifies else None

    def publish() -> "list[Outcome]":
        now = time.time()
        source.close_again()
        source.erase_again(now)
        close_due(source, now)
        keys = signing(settings)  # read anew: they may be rotated
        outcomes = publish_due(source, releases_directory(), now, progress_log(), keys)
        note(store.figures, outcomes, time.time())
        return outcomes

    def survey() -> None:
        versions = catalogue.load()
        if versions.names:
            store.figures.take_survey(
                cap=versions.cap,
                cheapest=versions.cheapest,
                now=time.time(),
                sample=secrets.SystemRandom().sample,
            )

    run_schedule(publish, args.every, survey, notify)
    return 0
