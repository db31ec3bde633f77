"""Run the aggregation server: enrolment and uploads over HTTP.

Settings come from the environment (docs/operations.md lists them); options override them. Put a
proxy that terminates TLS and buffers requests in front of it on the open internet.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aggregator.settings import ServerSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    add_survey_argument(parser)


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that every command has which starts a server."""
    parser.add_argument("--host", help="address to listen on (SOTTOVOCE_HOST, 127.0.0.1)")
    parser.add_argument("--port", type=int, help="TCP port to listen on (SOTTOVOCE_PORT, 8080)")
    parser.add_argument("--workers", type=int, help="server processes (SOTTOVOCE_WORKERS, 2)")


def add_survey_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that names surveys."""
    parser.add_argument(
        "--survey",
        type=Path,
        action="append",
        metavar="FILE",
        dest="survey_files",
        help="file of a survey to ask in browsers; may be given again (SOTTOVOCE_SURVEYS)",
    )


def settings_from(args: argparse.Namespace) -> "ServerSettings":
    """Return the environment's settings with the options given."""
    from aggregator.settings import ServerSettings

    given = {key: getattr(args, key) for key in ("host", "port", "workers")}
    if args.survey_files:
        given["survey_files"] = tuple(args.survey_files)
    settings = ServerSettings.from_env(os.environ)
    return replace(settings, **{key: value for key, value in given.items() if value is not None})


def run(args: argparse.Namespace) -> int:
    from aggregator.server import run as run_server

    run_server(settings_from(args))
    return 0
