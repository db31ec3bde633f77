"""Say how sure each metric's latest release is, and what is alarming. Exit status 1 on an alarm.

"n for" is the number of reports with which the widest interval would be as narrow as --target.
Of a canary (`sottovoce canary`) its last 30 releases are compared with the known truth. Reads
release files only; made for cron.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.table import percent, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimator.canary.monitor import Row
    from estimator.canary.utility import Score


_HEADER = ("metric", "epoch", "n", "widest", "below zero", "expected", "design effect", "alarms")
_CANARY_HEADER = (
    *("metric", "epochs", "stated error", "observed", "covered", "level"),
    *("s/n to direct", "verdict"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--releases",
        type=Path,
        help="directory of the release files (SOTTOVOCE_RELEASES, releases)",
    )
    parser.add_argument(
        "--target", type=float, default=1.0, help="half-width wanted of intervals, in percent (1)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from estimator.canary.monitor import survey
    from sottovoce.system import releases_directory

    if not 0 < args.target < 100:
        raise ValueError(f"--target must lie between 0 and 100 percent, got {args.target}")
    directory = args.releases or releases_directory()
    if not directory.is_dir():
        raise ValueError(f"{directory} is no directory; --releases or SOTTOVOCE_RELEASES names it")
    rows = survey(directory, datetime.now(UTC).date(), args.target / 100)
    if args.json:
        print(json.dumps([row.to_dict() for row in rows], indent=2, allow_nan=False))
    else:
        _print(rows, args.target)
    return 1 if any(row.alarms for row in rows) else 0


def _print(rows: "Sequence[Row]", target: float) -> None:
    header = [*_HEADER[:4], f"n for +-{target:g} %", *_HEADER[4:]]
    print(table(header, [_cells(row) for row in rows], left=2))
    scores = [row.score for row in rows if row.score is not None]
    if scores:
        print("\nCanary, estimates beside the known truth:\n")
        print(table(_CANARY_HEADER, [_compared(each) for each in scores]))
    for row in rows:
        if row.left_out:
            print(f"\n{row.metric} is not compared with the truth: {row.left_out}.")
        for alarm in row.alarms:
            print(f"\nALARM {row.metric}: {alarm}.")
    if not rows:
        print("\nNothing is released yet.")
    elif not any(row.alarms for row in rows):
        print("\nNo alarms.")


def _cells(row: "Row") -> tuple[str, ...]:
    return (
        row.metric,
        row.epoch,
        "n < min" if row.n is None else f"{row.n:,}",
        "-" if row.half_width is None else f"+-{percent(row.half_width)}",
        "-" if row.n_needed is None else f"{row.n_needed:,}",
        percent(row.negative_mass),
        percent(row.negative_mass_expected),
        "-" if row.design_effect is None else f"{row.design_effect:.1f}",
        str(len(row.alarms)),
    )


def _compared(score: "Score") -> tuple[str, ...]:
    low, high = score.coverage_interval
    direct = score.signal_to_noise_to_direct
    return (
        score.metric,
        str(len(score.epochs)),
        percent(score.predicted_error),
        percent(score.root_mean_square_error),
        f"{score.coverage:.0%} ({low:.0%} to {high:.0%})",
        f"{score.level:.0%}",
        "-" if direct is None else f"{direct:.2f}",
        "ALARM" if score.alarms else "as stated",
    )
