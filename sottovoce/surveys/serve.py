"""Ask people in their browsers: pages, server, store, schedule and results, all on this machine.

The pages are at the printed link. On the open internet they belong behind a proxy that terminates
TLS: browsers have no cryptography for pages that come without it, except from this machine.
State lies in --data and survives restarts and kill -9; the same command goes on where the last one
ended. `sottovoce up --survey FILE` asks apps beside it.
"""

import argparse
from pathlib import Path

from sottovoce.commands.serve import settings_from
from sottovoce.commands.up import add_running_arguments, keep_running
from sottovoce.surveys.places import data_beside


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "survey_files", nargs="+", type=Path, metavar="FILE", help="file of a survey"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="directory of all state (the first file's name with -data, in this directory: "
        "habits.toml is asked in ./habits-data)",
    )
    add_running_arguments(parser)


def run(args: argparse.Namespace) -> int:
    data = args.data or data_beside(args.survey_files[0])
    return keep_running(None, settings_from(args), data, args.fsync)
