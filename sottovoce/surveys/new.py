"""Write an example survey to begin with: a file with comments, open from today for 30 days.

It passes `sottovoce survey check` as it is. A file that is there already is left alone.
"""

import argparse
import re
import shlex
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path

from client_sdk.survey.names import NAME

DAYS = 30
_NAME, _STARTS, _EXPIRES = "example", "2026-01-01", "2026-01-31"
"""What starter.toml says of itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("survey", type=Path, metavar="FILE", help="file to write; must be new")


def run(args: argparse.Namespace) -> int:
    path: Path = args.survey
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starter(path.stem, datetime.now(UTC).date()))
    except FileExistsError as error:
        raise ValueError(f"FILE must be new, {path} is there already") from error
    print(
        f"{path} asks two questions as an example. Change it, then\n"
        f"  sottovoce survey check {shlex.quote(str(path))}\n"
        f"  sottovoce survey serve {shlex.quote(str(path))}"
    )
    return 0


def starter(called: str, today: date) -> str:
    """Return the text of a survey that opens today.

    Args:
        called: What it should be called; what no name may hold becomes `_`.
    """
    name = re.sub("[^a-z0-9]+", "_", called.lower())[:24].strip("_")
    text = files("sottovoce.surveys").joinpath("starter.toml").read_text("utf-8")
    for written, told in (
        (f'"{_NAME}"', f'"{name if NAME.fullmatch(name) else _NAME}"'),
        (_STARTS, f"{today}"),
        (_EXPIRES, f"{today + timedelta(days=DAYS)}"),
    ):
        text = text.replace(written, told)
    return text
