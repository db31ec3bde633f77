"""Where a survey's file, data and results are: options that acts share."""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client_sdk.survey import Survey
    from estimator.surveys.results import Result
    from sottovoce.connect import ServerSide


def data_beside(survey: Path) -> Path:
    """Return the directory in which `survey serve` keeps the state of a survey's file."""
    return Path(f"{survey.stem}-data")


def add_file_argument(parser: argparse.ArgumentParser) -> None:
    """Add the survey's file."""
    parser.add_argument("survey", type=Path, metavar="FILE", help="file of the survey")


def add_data_argument(parser: argparse._ActionsContainer, told: str) -> None:
    """Add the data directory.

    Args:
        parser: Of an act, or a group of its options.
        told: What it is for there.
    """
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help=f"directory of `sottovoce survey serve` or `sottovoce up`, running or not{told}",
    )


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where results are."""
    add_file_argument(parser)
    where = parser.add_mutually_exclusive_group()
    add_data_argument(where, "; what may be shown of an open survey is looked at anew")
    where.add_argument(
        "--releases",
        type=Path,
        metavar="DIR",
        help="directory of the release files (SOTTOVOCE_RELEASES, releases); of an open survey "
        "what the schedule has seen last",
    )


def require_asked(survey: "Survey", opened: "ServerSide", data: Path | None) -> None:
    """Raise ValueError unless the survey has been asked there, by any version of its file."""
    known = opened.catalogue.current().survey_caps
    if survey.name not in known:
        raise ValueError(
            f"{data or 'the store'} has never asked the survey {survey.name!r}; its surveys: "
            f"{', '.join(sorted(known)) or 'none'}"
        )


@dataclass(frozen=True)
class Found:
    """What has come of a survey.

    Attributes:
        survey: Its file.
        results: Of its questions.
        invitations: How many were made and used, in words that tell of no single person; None:
            anybody may answer, or there was no store to ask.
    """

    survey: "Survey"
    results: "list[Result]"
    invitations: str | None


def found_at(args: argparse.Namespace) -> Found:
    """Return the survey and what has come of it.

    Raises:
        SurveyError, DocumentError, SettingsError, KeysError, StoreRefused, StoreUnavailable,
            OSError, ValueError: Says what to do.
    """
    from client_sdk.survey import load_survey
    from estimator.previews import renew
    from estimator.source import StoreSource
    from estimator.surveys import words
    from estimator.surveys.results import results
    from sottovoce.connect import server_side
    from sottovoce.system import releases_directory

    survey = load_survey(args.survey)
    directory = args.releases or releases_directory(args.data)
    invitations = None
    if args.data is not None:
        with server_side(args.data) as opened:
            require_asked(survey, opened, args.data)
            renew(StoreSource(opened.store, opened.catalogue), directory, time.time())
            if survey.admission == "invitation":
                known = opened.store.invitations.figures(survey.name)
                invitations = words.invitations(survey, known.made, known.used)
    if not directory.is_dir():
        raise ValueError(
            f"{directory} is no directory; --data, --releases or SOTTOVOCE_RELEASES names it. "
            f"`sottovoce survey serve {args.survey}` keeps all in {data_beside(args.survey)} "
            f"unless told otherwise: --data {data_beside(args.survey)}"
        )
    return Found(survey, results(survey, directory), invitations)
