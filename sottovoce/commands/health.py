"""Say whether a part of the server side works: status 0, or 1 and a line that says why not.

`serve` and `dashboard` are asked for /readyz where the settings say that they listen on this
machine, with --live for /livez: whether the process still answers, whatever the store does. `fold`
and `schedule` have no port: they are healthy as long as what they leave in the store is new. Where
several of a kind run, that is anyone's. For health checks of containers; settings come from the
environment.
"""

import argparse
import os
import time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("role", choices=("serve", "fold", "schedule", "dashboard"), help="which")
    parser.add_argument("--live", action="store_true", help="ask a server for /livez only")
    parser.add_argument(
        "--within",
        type=float,
        metavar="SECONDS",
        help="longest time since a fold (180), or a pass of the schedule without a failure (600)",
    )


def run(args: argparse.Namespace) -> int:
    if args.within is not None and args.within <= 0:
        raise ValueError(f"--within must be above 0 seconds, got {args.within}")
    try:
        trouble = _trouble(args)
    except (OSError, ValueError) as error:
        # 1, not 2 as elsewhere: health checks of containers know no other.
        trouble = str(error)
    print(trouble or f"{args.role} works")
    return 1 if trouble else 0


def _trouble(args: argparse.Namespace) -> str | None:
    from aggregator.keyring.keys import Keys
    from aggregator.settings import ServerSettings
    from aggregator.store import Store
    from sottovoce import health

    settings = ServerSettings.from_env(os.environ)
    path = "/livez" if args.live else "/readyz"
    if args.role == "serve":
        return health.server_trouble(settings.host, settings.port, path)
    if args.role == "dashboard":
        return health.server_trouble(settings.dashboard_host, settings.dashboard_port, path)
    store = Store.connect(settings, Keys.load(settings.keys_file).pseudonym_key)
    try:
        if args.role == "fold":
            within = args.within or health.FOLD_WITHIN_SECONDS
            return health.fold_trouble(store, settings, time.time(), within)
        within = args.within or health.SCHEDULE_WITHIN_SECONDS
        return health.schedule_trouble(store, time.time(), within)
    finally:
        store.close()
