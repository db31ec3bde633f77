"""List releases, show one, or export all as one CSV.

Without arguments: one line per release. With METRIC: its releases only; with METRIC EPOCH: the
estimates of that release. --csv FILE writes every selected estimate as one table.
"""

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sottovoce.table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimator.release import Release


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("metric", nargs="?", help="only this metric")
    parser.add_argument("epoch", nargs="?", help="only this epoch, like 2026-W49")
    parser.add_argument(
        "--releases",
        type=Path,
        help="directory of the release files (SOTTOVOCE_RELEASES, releases)",
    )
    parser.add_argument("--csv", metavar="FILE", help="export to a CSV file, - for standard output")
    parser.add_argument("--json", action="store_true", help="print the releases as JSON")


def run(args: argparse.Namespace) -> int:
    from estimator.release_files import releases
    from sottovoce.system import releases_directory

    directory = args.releases or releases_directory()
    if not directory.is_dir():
        raise ValueError(f"{directory} is no directory; --releases or SOTTOVOCE_RELEASES names it")
    found = [
        release
        for release in releases(directory)
        if args.metric in (None, release.metric) and args.epoch in (None, release.epoch)
    ]
    if args.csv is not None:
        _export(found, args.csv)
    elif args.json:
        print(json.dumps([release.as_json() for release in found], indent=2, allow_nan=False))
    elif args.epoch is not None:
        for release in found:
            _show(release)
    else:
        _list(found)
    return 0 if found else 1


def _list(found: "Sequence[Release]") -> None:
    rows = [
        (
            release.metric,
            release.epoch,
            release.status,
            "-" if release.estimates is None else str(release.estimates.n),
            release.fingerprint,
        )
        for release in found
    ]
    print(table(("metric", "epoch", "status", "n", "version"), rows, left=3))


def _show(release: "Release") -> None:
    from sottovoce.estimates import print_entries

    print(f"{release.metric}, {release.epoch}: {release.question}")
    document = release.as_json()
    if document["estimates"] is None:
        print(f"WITHHELD: fewer than {release.min_reports} reports")
        return
    other = [document["other"]] if "other" in document else []
    print_entries([*document["estimates"], *other], document["level"])
    for caveat in release.caveats:
        print(f"- {caveat}")


def _export(found: "Sequence[Release]", target: str) -> None:
    if target == "-":
        _write(found, sys.stdout)
        return
    with open(target, "w", newline="", encoding="utf-8") as file:
        _write(found, file)


def _write(found: "Sequence[Release]", file: TextIO) -> None:
    """Write the releases' tables under one header."""
    from estimator.release_table import as_csv

    writer = csv.writer(file)
    for number, release in enumerate(found):
        rows = list(csv.reader(as_csv(release).splitlines()))
        writer.writerows(rows if number == 0 else rows[1:])
