"""Publish every due epoch now, or close one early with --close, irrevocably.

After --close METRIC EPOCH, reports of that epoch and of earlier ones are refused as epoch_closed.
--dry-run says what is due and changes nothing. --data DIR works on what `sottovoce up` has there,
running or not. Exit status 1 if a release failed.
"""

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimator.due import Due
    from estimator.publish import Outcome
    from estimator.source import StoreSource
    from sottovoce.connect import ServerSide


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="list what is due, publish nothing")
    what.add_argument(
        "--close",
        nargs=2,
        metavar=("METRIC", "EPOCH"),
        help="close an open epoch, like 2026-W49, and publish it",
    )
    parser.add_argument(
        "--releases",
        type=Path,
        help="directory of the release files (SOTTOVOCE_RELEASES, releases)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="data directory of `sottovoce up`, instead of the environment's store, keys, releases",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from estimator.due import due
    from estimator.source import StoreSource
    from sottovoce.connect import server_side
    from sottovoce.system import releases_directory

    directory = args.releases or releases_directory(args.data)
    with server_side(args.data) as opened:
        source = StoreSource(opened.store, opened.catalogue)
        now = time.time()
        if args.dry_run:
            _print_due(list(due(source, directory, now)), args.json)
            return 0
        outcomes = _publish(opened, source, directory, now, args.close)
    print_outcomes(outcomes, args.json)
    return 1 if any(outcome.status == "FAILED" for outcome in outcomes) else 0


def _publish(
    opened: "ServerSide",
    source: "StoreSource",
    directory: Path,
    now: float,
    close: "Sequence[str] | None",
) -> "Sequence[Outcome]":
    from estimator.due import close_due
    from estimator.publish import publish_due
    from estimator.publish_figures import note
    from sottovoce.connect import signing

    if close is not None:
        metric, epoch = close
        return close_early(opened, source, directory, now, metric, epoch)
    keys = signing(opened.settings)
    source.close_again()
    source.erase_again(now)
    close_due(source, now)
    with Progress("epochs") as progress:
        outcomes = publish_due(source, directory, now, progress.set, keys)
    note(opened.store.figures, outcomes, now)
    return outcomes


def close_early(
    opened: "ServerSide",
    source: "StoreSource",
    directory: Path,
    now: float,
    metric: str,
    epoch: str,
) -> "Sequence[Outcome]":
    """Close an open epoch of a metric and publish it, irrevocably; the log is told before.

    Raises:
        NotPublishable: There is no such metric or epoch, or nothing to publish.
    """
    from estimator.publish import publish_epoch
    from estimator.publish_figures import note_newest
    from sottovoce.connect import signing

    outcomes = publish_epoch(
        source,
        directory,
        now,
        metric,
        epoch,
        early=True,
        record=opened.log.record,
        signing=signing(opened.settings),
    )
    opened.log.anchor(opened.store.log_heads)
    note_newest(opened.store.figures, outcomes)
    return outcomes


def _print_due(found: "Sequence[Due]", as_json: bool) -> None:
    if as_json:
        print(
            json.dumps([{"metric": each.metric, "epoch": each.label} for each in found], indent=2)
        )
        return
    for each in found:
        print(f"{each.metric} {each.label} is due")
    if not found:
        print("Nothing is due.")


def print_outcomes(outcomes: "Sequence[Outcome]", as_json: bool) -> None:
    """Print what has been published, and what could not be."""
    if as_json:
        print(json.dumps([vars(outcome) for outcome in outcomes], indent=2, default=str))
        return
    for outcome in outcomes:
        reason = f": {outcome.reason}" if outcome.reason else ""
        place = f"  {outcome.path}" if outcome.path else ""
        print(f"{outcome.status:9}{outcome.metric} {outcome.epoch}{reason}{place}")
    if not outcomes:
        print("Nothing is due.")
