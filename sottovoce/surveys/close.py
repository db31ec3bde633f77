"""End a survey before its last day, for good: all its questions are closed and published.

The server need not be started again: ten seconds later its page says that the survey has ended.
What is sent from pages that are open by then is refused, and they say so.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.surveys.places import add_data_argument, add_file_argument, require_asked

if TYPE_CHECKING:
    from estimator.publish import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_argument(parser)
    add_data_argument(parser, ", instead of the environment's store, keys and releases")
    parser.add_argument(
        "--releases",
        type=Path,
        metavar="DIR",
        help="directory of the release files (SOTTOVOCE_RELEASES, releases)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from client_sdk.survey import load_survey
    from estimator.errors import NotPublishable
    from estimator.source import StoreSource
    from estimator.surveys.results import ONCE
    from sottovoce.commands.publish import close_early, print_outcomes
    from sottovoce.connect import server_side
    from sottovoce.system import releases_directory

    survey = load_survey(args.survey)
    directory = args.releases or releases_directory(args.data)
    outcomes: list[Outcome] = []
    unpublished = []
    with server_side(args.data) as opened:
        require_asked(survey, opened, args.data)
        source = StoreSource(opened.store, opened.catalogue)
        for question in survey.questions:
            metric = question.metric.name
            try:
                outcomes += close_early(opened, source, directory, time.time(), metric, ONCE)
            except NotPublishable as error:  # the others are to be closed all the same
                unpublished.append(str(error))
    if outcomes or args.json:
        print_outcomes(outcomes, args.json)
    print("".join(f"sottovoce survey: {each}\n" for each in unpublished), end="", file=sys.stderr)
    return int(bool(unpublished) or any(outcome.status == "FAILED" for outcome in outcomes))
