"""Run the fold worker: it adds the reports that wait in the store's streams to the tallies.

Any number may run side by side, on any machine that reaches the store; what one does is committed
only if no other did it first. Settings come from the environment.
"""

import argparse
import logging
import time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="fold what is there now and end")


def run(args: argparse.Namespace) -> int:
    from aggregator.fold import Folder
    from aggregator.machine.signals import ending
    from sottovoce.connect import admin_log, connect

    settings, store, _ = connect()
    log = admin_log(settings)

    def note() -> None:
        store.history.note(time.time())

    def anchor() -> None:
        log.anchor(store.log_heads)

    def tell_store() -> None:
        """Note how far things have come; folding is what matters, so what fails is only logged."""
        for act, failed in (
            (note, "the counters were not noted"),
            (anchor, "the administrators' log was not read"),
        ):
            try:
                act()
            except (OSError, ValueError) as error:
                logging.getLogger(__name__).warning("%s: %s", failed, error)

    folder = Folder(
        store,
        aof_rewrite_interval_seconds=settings.aof_rewrite_interval_seconds,
        every_minute=tell_store,
    )
    if args.once:
        print(f"{folder.fold_once()} reports folded")
        return 0
    with ending() as stop:
        folder.run(stop, settings.fold_interval_seconds)
    return 0
