"""Make invitations to a survey, each a link that is good for one answer; or count or end them.

The links are printed once, or written to a file that only you may read, and kept nowhere else: the
server has digests. Each link names the key that signs for the survey, the same in all: pages take
no other, so the server cannot have a key of its own for somebody. Which invitation an answer came
with is not known to it either: docs/surveys.md, "Invitations". Send each link to one person, and
delete the list.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from client_sdk.survey import Survey, load_survey
from sottovoce.progress import Progress
from sottovoce.surveys.places import add_data_argument, add_file_argument

if TYPE_CHECKING:
    from sottovoce.connect import ServerSide

MOST = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_argument(parser)
    act = parser.add_mutually_exclusive_group(required=True)
    act.add_argument("--count", type=int, metavar="N", help="make so many invitations")
    act.add_argument("--status", action="store_true", help="say how many were made and used")
    act.add_argument(
        "--forget",
        action="store_true",
        help="take back those that were not used; after the survey's last day forget all of them",
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help="where respondents find the survey, like https://host (with --count)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the links there; the file must be new (with --count)",
    )
    add_data_argument(parser, ", instead of REDIS_URL and SOTTOVOCE_KEYS_FILE")


def run(args: argparse.Namespace) -> int:
    from sottovoce.connect import server_side

    survey = load_survey(args.survey)
    today = datetime.now(UTC).date()
    if survey.admission != "invitation":
        raise ValueError(f'{args.survey} must have admission = "invitation", it is open to all')
    if args.count is not None:
        _check(args, survey, today)
    elif args.url is not None or args.out is not None:
        raise ValueError("--url and --out go with --count: no links are made without it")
    with server_side(args.data) as side:
        if args.count is not None:
            _invite(args, survey, side)
        elif args.forget:
            _forget(survey, side, today)
        _tell(survey, side, today)
    return 0


def _check(args: argparse.Namespace, survey: Survey, today: date) -> None:
    if not 1 <= args.count <= MOST:
        raise ValueError(f"--count must lie in 1..{MOST}, got {args.count}")
    if args.url is None:
        raise ValueError(
            "--url must say with --count where respondents find the survey, like "
            "https://survey.example.org; `sottovoce survey serve` prints the command with its own"
        )
    if not args.url.startswith(("https://", "http://")):
        raise ValueError(f"--url must begin with https:// or http://, got {args.url!r}")
    if survey.phase(today) == "over":
        raise ValueError(f"{args.survey} must not be over, its last day was {survey.expires}")


def _invite(args: argparse.Namespace, survey: Survey, side: "ServerSide") -> None:
    from aggregator.keyring.keys import Keys
    from aggregator.survey.invitations import MOST_AT_ONCE, SurveyKeys, invite, link

    invitations = side.store.invitations
    pseudonym_key = Keys.load(side.settings.keys_file).pseudonym_key
    with _written(args.out) as out:
        side.log.record("invitations_made", survey=survey.name, count=args.count)
        key = SurveyKeys(invitations, pseudonym_key).open(survey.name, survey.expires)
        digest = key.public.digest
        shown = args.count if args.count > MOST_AT_ONCE else 0
        with Progress("invitations", shown, sys.stderr) as progress:
            for tokens in invite(invitations, survey.name, args.count):
                out.writelines(
                    f"{link(args.url, survey.name, token, digest)}\n" for token in tokens
                )
                out.flush()
                if shown:
                    progress.advance(len(tokens))


@contextmanager
def _written(path: Path | None) -> Iterator[TextIO]:
    """Give a new file that only its owner may read, or standard output."""
    if path is None:
        yield sys.stdout
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise ValueError(f"--out must name a new file, {path} is there already") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("link\n")
        yield file
        os.fsync(file.fileno())


def _forget(survey: Survey, side: "ServerSide", today: date) -> None:
    side.log.record("invitations_forgotten", survey=survey.name)
    if survey.phase(today) == "over":
        side.store.invitations.forget(survey.name)
    else:
        side.store.invitations.forget_unused(survey.name)


def _tell(survey: Survey, side: "ServerSide", today: date) -> None:
    from aggregator.keyring.keys import Keys
    from aggregator.survey.invitations import SurveyKeys, told

    invitations = side.store.invitations
    print(f"{survey.name}: {told(invitations.figures(survey.name))}", file=sys.stderr)
    pseudonym_key = Keys.load(side.settings.keys_file).pseudonym_key
    key = SurveyKeys(invitations, pseudonym_key).of(survey.name, today)
    if key is not None:
        print(f"Its key is {key.public.digest}, for everybody.", file=sys.stderr)
