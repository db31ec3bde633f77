"""List releases, show one, or export all as one CSV.

Without arguments: one line per release, and first those that FAILED and are tried again. With
METRIC: its releases only; with METRIC EPOCH: the estimates of that release. --csv FILE writes
every selected estimate as one table.

METRIC --change EPOCH EPOCH: by how much shares, or a mean, have changed. METRIC --average EPOCH...:
their average over epochs. METRIC --smoothed [N]: a moving average. All with errors that hold
although the same devices report again and again.
--schema: the JSON schema of release files.

verify [METRIC]: check every release's signature, and that tables say what the signed documents say;
pages and pictures are drawn from the documents and are not checked. The public keys are those of
--keys, else of the server's key file if it is here, else those that lie beside the releases, which
show changes but not a forger of both. Exit status 1 if there is a fault.
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

    from estimator.releases.failures import Failure
    from estimator.releases.release import Release


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("metric", nargs="?", help="only this metric; or `verify`")
    parser.add_argument(
        "epoch", nargs="?", help="only this epoch, like 2026-W49; after `verify`, only this metric"
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
        help="data directory of `sottovoce up`: its releases, and for verify its keys",
    )
    parser.add_argument(
        "--keys", type=Path, metavar="FILE", help="with verify: public keys (signing_keys.json)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--change", nargs=2, metavar="EPOCH", help="compare two epochs of METRIC")
    what.add_argument("--average", nargs="+", metavar="EPOCH", help="average epochs of METRIC")
    what.add_argument(
        "--smoothed",
        nargs="?",
        type=int,
        const=3,
        metavar="N",
        help="moving average over N neighbouring epochs of METRIC (3)",
    )
    what.add_argument("--schema", action="store_true", help="print the JSON schema of releases")
    what.add_argument("--csv", metavar="FILE", help="export to a CSV file, - for standard output")
    parser.add_argument("--json", action="store_true", help="print the releases as JSON")


def run(args: argparse.Namespace) -> int:
    from estimator.releases.failures import failures
    from estimator.releases.files import releases, schema_text
    from sottovoce.system import releases_directory

    if args.schema:
        print(schema_text(), end="")
        return 0
    directory = args.releases or releases_directory(args.data)
    if not directory.is_dir():
        raise ValueError(
            f"{directory} is no directory; --releases, --data or SOTTOVOCE_RELEASES names it"
        )
    if args.metric == "verify" and not (directory / "verify").is_dir():
        return _verify(directory, args)
    if args.keys is not None:
        raise ValueError("--keys goes with verify")
    found = [
        release
        for release in releases(directory)
        if args.metric in (None, release.metric) and args.epoch in (None, release.epoch)
    ]
    failed = [
        failure
        for failure in failures(directory)
        if args.metric in (None, failure.metric) and args.epoch in (None, failure.epoch)
    ]
    if args.smoothed is not None:
        _smooth(found, args)
    elif args.change or args.average:
        _across(found, args)
    elif args.csv is not None:
        _export(found, args.csv)
    elif args.json:
        print(json.dumps([release.to_dict() for release in found], indent=2, allow_nan=False))
    elif args.epoch is not None and found:
        for release in found:
            _show(release)
    else:
        _list(found, failed)
    if not found and not failed:
        print(_nothing(args), file=sys.stderr)
    return 0 if found else 1


def _verify(directory: Path, args: argparse.Namespace) -> int:
    from sottovoce.verify_releases import own_key_file, verify

    if args.change or args.average or args.smoothed is not None or args.csv is not None:
        raise ValueError("verify goes with --keys, --releases, --data and --json only")
    return verify(directory, args.epoch, args.keys, own_key_file(args.data), as_json=args.json)


def _nothing(args: argparse.Namespace) -> str:
    if args.metric is None:
        return "Nothing is released yet."
    named = " ".join(filter(None, (args.metric, args.epoch)))
    return f"{named}: no such release; `sottovoce releases` lists them"


def _list(found: "Sequence[Release]", failed: "Sequence[Failure]") -> None:
    rows = [
        (failure.metric, failure.epoch, "FAILED", "-", failure.fingerprint or "-")
        for failure in failed
    ]
    rows += [
        (
            release.metric,
            release.epoch,
            release.status,
            "-" if release.estimates is None else str(release.estimates.n),
            release.fingerprint,
        )
        for release in found
    ]
    if rows:
        print(table(("metric", "epoch", "status", "n", "version"), rows, left=3))
    for failure in failed:
        print(f"FAILED {failure.metric} {failure.epoch}, {failure.tries} tries: {failure.reason}")


def _smooth(found: "Sequence[Release]", args: argparse.Namespace) -> None:
    """Print a series of its own beside the releases: it follows changes late and too little."""
    from estimator.releases.across_epochs import smoothed
    from sottovoce.estimates import print_smoothed

    if args.metric is None or args.epoch is not None:
        raise ValueError("--smoothed takes METRIC before it, and no epoch")
    epochs = dict.fromkeys(release.epoch for release in found if release.estimates is not None)
    chosen = [_only(found, args.metric, epoch) for epoch in epochs]
    series = smoothed(chosen, args.smoothed)
    if args.json:
        points = [
            {"epoch": release.epoch, "smoothed": True} | point.to_dict()
            for release, point in zip(chosen, series, strict=True)
        ]
        print(json.dumps(points, indent=2, allow_nan=False))
        return
    print(f"{args.metric}, smoothed over up to {args.smoothed} epochs: not the releases themselves")
    print_smoothed([release.epoch for release in chosen], series)


def _across(found: "Sequence[Release]", args: argparse.Namespace) -> None:
    """Print a change or an average; a pooled release stands for an epoch of several versions."""
    from estimator.releases.across_epochs import average, change
    from sottovoce.estimates import print_combined

    if args.metric is None or args.epoch is not None:
        raise ValueError("--change and --average take METRIC before them, and their epochs after")
    chosen = [_only(found, args.metric, epoch) for epoch in args.change or args.average]
    result = change(*chosen) if args.change else average(chosen)
    if args.json:
        print(json.dumps(result.to_dict(), indent=2, allow_nan=False))
        return
    kind = "change" if args.change else "average"
    print(f"{result.metric}: {kind} of {', '.join(result.epochs)}")
    print_combined(result, kind)
    print(f"Errors: {result.method}.")


def _only(found: "Sequence[Release]", metric: str, epoch: str) -> "Release":
    from estimator.releases.release import POOLED

    of_epoch = [release for release in found if release.epoch == epoch]
    pooled = [release for release in of_epoch if release.fingerprint == POOLED]
    if not of_epoch:
        raise ValueError(f"{metric} has no release of {epoch}; `sottovoce releases {metric}` lists")
    if len(of_epoch) > 1 and not pooled:
        raise ValueError(f"{metric} {epoch} has several versions and no pooled release")
    return (pooled or of_epoch)[0]


def _show(release: "Release") -> None:
    from sottovoce.estimates import print_figures

    print(f"{release.metric}, {release.epoch}: {release.question}")
    document = release.to_dict()
    if document["estimates"] is None:
        print(f"WITHHELD: fewer than {release.min_reports} reports")
        return
    print_figures(document)
    for caveat in release.caveats:
        print(f"- {caveat}")


def _export(found: "Sequence[Release]", target: str) -> None:
    if target == "-":
        _write(found, sys.stdout)
        return
    with open(target, "w", newline="", encoding="utf-8") as file:
        _write(found, file)


def _write(found: "Sequence[Release]", file: TextIO) -> None:
    """Write the releases' tables under one header: the longest, columns of numbers come last."""
    from estimator.releases.table import as_csv

    tables = [list(csv.reader(as_csv(release).splitlines())) for release in found]
    header = max((rows[0] for rows in tables), key=len, default=[])
    writer = csv.writer(file)
    writer.writerow(header)
    for rows in tables:
        gap = [""] * (len(header) - len(rows[0]))
        writer.writerows([*row, *gap] for row in rows[1:])
