"""Publish what is due, again and again, until SIGTERM or Ctrl-C.

An epoch is due when it is over and its grace has passed. Whatever fell due while nothing ran is
published at the next tick. Settings come from the environment; SOTTOVOCE_RELEASES names the
directory of the release files. --data DIR takes store, keys and releases of `sottovoce up` instead,
which has a schedule of its own while it runs. Where SOTTOVOCE_SMTP_URL or SOTTOVOCE_WEBHOOK_URL is
set, owners of metrics get one digest a day.
"""

import argparse
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from estimator.publish import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--every", type=float, default=60.0, metavar="SECONDS", help="time between ticks (60)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="data directory of `sottovoce up`, instead of the environment's store, keys, releases",
    )


def run(args: argparse.Namespace) -> int:
    from estimator.due import close_due
    from estimator.ledger.spending import Prices
    from estimator.previews import renew
    from estimator.publish import publish_due
    from estimator.publish_figures import note
    from estimator.schedule import progress_log
    from estimator.schedule import run as run_schedule
    from estimator.source import StoreSource
    from sottovoce.connect import server_side, signing
    from sottovoce.notifications import notifier
    from sottovoce.system import releases_directory

    if args.every < 1:
        raise ValueError(f"--every must be at least 1 second, got {args.every}")
    directory = releases_directory(args.data)
    with server_side(args.data) as opened:
        settings, store, catalogue = opened.settings, opened.store, opened.catalogue
        source = StoreSource(store, catalogue)
        found = notifier(settings, store, directory)
        notify = found.look if found.settings.notifies else None

        def publish() -> "list[Outcome]":
            now = time.time()
            source.close_again()
            source.erase_again(now)
            close_due(source, now)
            keys = signing(settings)  # read anew: they may be rotated
            outcomes = publish_due(source, directory, now, progress_log(), keys)
            note(store.figures, outcomes, time.time())
            return outcomes

        def sample() -> None:
            versions = catalogue.load()
            if versions.cap:  # or there are no apps yet, and nothing to have spent
                store.figures.sample_ledger(
                    cap=versions.cap,
                    cheapest=versions.cheapest,
                    now=time.time(),
                    sample=secrets.SystemRandom().sample,
                    memos=Prices.of(versions.metrics.values()).memos,
                )

        def preview() -> None:
            renew(source, directory, time.time())

        run_schedule(publish, args.every, sample, notify, preview)
    return 0
