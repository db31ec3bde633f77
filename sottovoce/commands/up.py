"""Run everything on this machine for real use: store, server, fold worker, scheduler, dashboard.

State lies in --data and survives restarts and kill -9; the same command continues where the last
one ended. Edit metrics.toml and run it again to add a version; old versions stay accepted until
their metrics expire.
"""

import argparse
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.commands.serve import add_server_arguments, settings_from

if TYPE_CHECKING:
    from aggregator.settings import ServerSettings
    from sottovoce.system import System

METRICS_PORT = 9464
"""What Prometheus exporters of OpenTelemetry use; another one if it is taken."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metrics", required=True, type=Path, help="path of metrics.toml")
    parser.add_argument(
        "--data",
        required=True,
        type=Path,
        help="directory of all state (docs/operations.md: backups)",
    )
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
    from estimator.settings import NotifySettings
    from sottovoce.revival import Revival
    from sottovoce.system import free_port, running

    NotifySettings.from_env(os.environ)  # told here at once, not by the scheduler again and again
    registry = load(args.metrics)
    settings = settings_from(args)
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
        registry.text,
        args.data,
        settings=settings,
        with_schedule=True,
        appendfsync=args.fsync,
    ) as system:
        print(_told(registry.project, system, settings, args.data), flush=True)
        revival = Revival(system.server)
        ended_by = system.supervisor.run_until_signal(healthy=revival.look_after)
    if ended_by is None:
        raise OSError("the store, which another process had started, has ended")
    return 0


def _metrics_url(settings: "ServerSettings") -> str:
    host = f"[{settings.metrics_host}]" if ":" in settings.metrics_host else settings.metrics_host
    return f"http://{host}:{settings.metrics_port}/metrics"


def _told(project: str, system: "System", settings: "ServerSettings", data: Path) -> str:
    """Return where everything is."""
    dashboard = f"http://{settings.dashboard_host}:{settings.dashboard_port}/"
    return f"""sottovoce is up for {project}
  endpoint   {system.endpoint}
  write key  {system.write_key}
  releases   {system.releases}
  pages      {system.releases / "index.html"} (with the first release)
  ledger     sottovoce ledger --data {shlex.quote(str(data))}
  metrics    {_metrics_url(settings)}
  dashboard  {dashboard}
Ctrl-C ends it."""
