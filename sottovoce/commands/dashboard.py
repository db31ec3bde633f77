"""Serve what was published over HTTP: releases, metrics, and what devices have spent.

Only this machine reaches it unless SOTTOVOCE_DASHBOARD_HOST says otherwise; then a read key is
required (`sottovoce keys new read --label WHO`). SOTTOVOCE_RELEASES names the directory of the
release files. /openapi.yaml is the contract; docs/api.md shows how to ask.
"""

import argparse
import os
from dataclasses import replace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (SOTTOVOCE_DASHBOARD_HOST, 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, help="TCP port to listen on (SOTTOVOCE_DASHBOARD_PORT, 8090)"
    )


def run(args: argparse.Namespace) -> int:
    from aggregator.settings import ServerSettings
    from estimator.dashboard.server import run as run_dashboard
    from sottovoce.system import releases_directory

    given = {"dashboard_host": args.host, "dashboard_port": args.port}
    settings = ServerSettings.from_env(os.environ)
    settings = replace(
        settings, **{key: value for key, value in given.items() if value is not None}
    )
    run_dashboard(settings, releases_directory())
    return 0
