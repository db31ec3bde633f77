"""Run the whole system once on real distributions and compare what it publishes with the truth.

Starts the bundled store, the HTTP server under gunicorn and the fold worker; lets a fleet of
devices record, randomize and upload; closes the epoch; publishes; and shows estimate, interval
and truth side by side. Everything it started ends with it; release files stay. With --keep it goes
on until Ctrl-C, with a dashboard of what the devices sent.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from sottovoce.demo import Result
    from sottovoce.system import System


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", type=int, default=15_000, help="how many devices (15000)")
    parser.add_argument("--complete", type=int, default=300, help="of them full SDK clients (300)")
    parser.add_argument("--seed", type=int, default=1, help="of the populations, not of noise (1)")
    parser.add_argument("--output", type=Path, help="directory for releases and logs; a new one")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="go on after the result, with a dashboard on this machine, until Ctrl-C",
    )


def run(args: argparse.Namespace) -> int:
    from sottovoce.demo import Demo

    if args.devices < 1:
        raise ValueError(f"--devices must be at least 1, got {args.devices}")
    if not 0 <= args.complete <= args.devices:
        raise ValueError(f"--complete must lie in 0..{args.devices}, got {args.complete}")
    # A polite kill must unwind what runs just as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    output = args.output or Path(tempfile.mkdtemp(prefix="sottovoce-demo-"))
    if args.output is not None and output.exists() and any(output.iterdir()):
        raise ValueError(f"--output must be a new or empty directory, {output} is neither")
    demo = Demo(output, args.devices, args.complete, args.seed, time.time(), sys.stderr)

    def show(result: "Result") -> None:
        if args.json:
            print(json.dumps(result.as_json(), indent=2, allow_nan=False), flush=True)
        else:
            result.print()

    def keep(result: "Result", system: "System") -> None:
        show(result)
        _keep(system, sys.stderr if args.json else sys.stdout)

    if args.keep:
        demo.run(keep)
    else:
        show(demo.run())
    return 0


def _keep(system: "System", told: TextIO) -> None:
    """Run the schedule and the dashboard beside the rest until SIGINT or SIGTERM."""
    from aggregator.settings import ServerSettings
    from sottovoce.revival import Revival
    from sottovoce.system import free_port, wait_until_ready

    port = free_port(wanted=ServerSettings.dashboard_port)
    address = f"http://127.0.0.1:{port}"
    # What it would tell anybody else of is no more than a demo.
    own = {"SOTTOVOCE_SMTP_URL": "", "SOTTOVOCE_WEBHOOK_URL": ""}
    own["SOTTOVOCE_DASHBOARD_PORT"] = str(port)
    with system.further("schedule", "dashboard", **own) as supervisor:
        wait_until_ready(address)
        print(f"\nDashboard: {address}/  (Ctrl-C ends it)", file=told, flush=True)
        ended_by = supervisor.run_until_signal(healthy=Revival(system.server).look_after)
    if ended_by is None:
        raise OSError("the store, which another process had started, has ended")


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
