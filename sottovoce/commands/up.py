"""Run everything on this machine for real use: store, server, fold worker, scheduler, dashboard.

State lies in --data and survives restarts and kill -9; the same command continues where the last
one ended. Edit metrics.toml and run it again to add a version; old versions stay accepted until
their metrics expire. It asks apps (--metrics), people in browsers (--survey), or both.
"""

import argparse
import os
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.commands.serve import (
    add_server_arguments,
    add_survey_argument,
    settings_from,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.settings import ServerSettings
    from client_sdk.registry import Registry
    from client_sdk.survey import Survey
    from sottovoce.system import Fsync, System

METRICS_PORT = 9464
"""What Prometheus exporters of OpenTelemetry use; another one if it is taken."""

_DAYS = {
    "coming": "not open yet: from {0} (UTC) until {1}",
    "open": "until {1}",
    "over": "over: the last day was {1}",
}
"""Of a survey, by its phase."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metrics", type=Path, help="path of metrics.toml")
    parser.add_argument(
        "--data",
        required=True,
        type=Path,
        help="directory of all state (docs/operations.md: backups)",
    )
    add_running_arguments(parser)
    add_survey_argument(parser)


def add_running_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how everything on this machine runs."""
    parser.add_argument(
        "--fsync",
        choices=("always", "everysec"),
        default="always",
        help="everysec is faster and may lose a second of acknowledged reports in a power cut, or "
        "if the store is killed during a sync",
    )
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from client_sdk import load

    registry = None if args.metrics is None else load(args.metrics)
    settings = settings_from(args)
    if registry is None and not settings.survey_files:
        raise ValueError("--metrics or --survey must say what is asked; both may be given")
    return keep_running(registry, settings, args.data, args.fsync)


def keep_running(
    registry: "Registry | None", settings: "ServerSettings", data: Path, fsync: "Fsync"
) -> int:
    """Run everything until a signal comes; return the exit status.

    Args:
        registry: What apps are asked; None: nothing.
        settings: Name the surveys, host and port; ports of dashboard and figures that are taken
            are replaced.
        data: Directory of all state.
        fsync: See `running`.

    Raises:
        OSError: The port is taken, or the store, which another process had started, has ended.
    """
    from aggregator.survey_files import surveys_in
    from estimator.settings import NotifySettings
    from sottovoce.revival import Revival
    from sottovoce.system import free_port, require_port, running

    NotifySettings.from_env(os.environ)  # told here at once, not by the scheduler again and again
    surveys = surveys_in(settings)
    require_port(settings.host, settings.port)
    if not settings.metrics_port:
        wanted = METRICS_PORT if settings.port != METRICS_PORT else 0
        port = free_port(settings.metrics_host, wanted)
        settings = replace(settings, metrics_port=port)
    if not settings.metrics_urls:
        settings = replace(settings, metrics_urls=(_metrics_url(settings),))
    taken = settings.dashboard_port in (settings.port, settings.metrics_port)
    port = free_port(settings.dashboard_host, 0 if taken else settings.dashboard_port)
    settings = replace(settings, dashboard_port=port)
    with running(
        None if registry is None else registry.text,
        data,
        settings=settings,
        with_schedule=True,
        appendfsync=fsync,
    ) as system:
        project = None if registry is None else registry.project
        print(_told(project, system, settings, data, surveys), flush=True)
        revival = Revival(system.server)
        ended_by = system.supervisor.run_until_signal(healthy=revival.look_after)
    if ended_by is None:
        raise OSError("the store, which another process had started, has ended")
    return 0


def _metrics_url(settings: "ServerSettings") -> str:
    host = f"[{settings.metrics_host}]" if ":" in settings.metrics_host else settings.metrics_host
    return f"http://{host}:{settings.metrics_port}/metrics"


def _told(
    project: str | None,
    system: "System",
    settings: "ServerSettings",
    data: Path,
    surveys: "Sequence[Survey]",
) -> str:
    """Return where everything is; without a project what a team needs that asks people alone."""
    dashboard = f"http://{settings.dashboard_host}:{settings.dashboard_port}/"
    asked = "".join(
        told_of_survey(survey, system.endpoint, f"{dashboard}surveys/{survey.name}", path, data)
        for survey, path in zip(surveys, settings.survey_files, strict=True)
    )
    if project is None:
        return f"""sottovoce asks people in their browsers
  data       {data} (all that is kept, keys too: back it up)
  releases   {system.releases}
  dashboard  {dashboard}
{asked}Ctrl-C ends it; the same command goes on where it ended."""
    return f"""sottovoce is up for {project}
  endpoint   {system.endpoint}
  write key  {system.write_key}
  releases   {system.releases}
  pages      {system.releases / "index.html"} (with the first release)
  ledger     sottovoce ledger --data {shlex.quote(str(data))}
  metrics    {_metrics_url(settings)}
  dashboard  {dashboard}
{asked}Ctrl-C ends it."""


def told_of_survey(survey: "Survey", endpoint: str, results: str, path: Path, data: Path) -> str:
    """Return where one survey is, and how people come to it."""
    files = f"{shlex.quote(str(path))} --data {shlex.quote(str(data))}"
    days = _DAYS[survey.phase(datetime.now(UTC).date())].format(survey.starts, survey.expires)
    if survey.admission == "open":
        invite = f"anybody who has the link; {days}"
    else:
        invite = (
            f"sottovoce survey invite {files} --count 100 --url {endpoint} --out links.csv\n"
            f"             {days}; behind a proxy --url is its address"
        )
    close = f"by itself after {survey.expires}; before: sottovoce survey close {files}"
    return f"""survey {survey.name}
  link       {endpoint}/s/{survey.name}
  invite     {invite}
  results    {results}
             sottovoce survey results {files}
  close      {close}
"""
