"""Let synthetic devices report what is known, each day, until SIGTERM or Ctrl-C.

`sottovoce monitor` compares that with what is published. `sottovoce up` runs this when
SOTTOVOCE_CANARY_DEVICES is set; beside other servers run it once, where SOTTOVOCE_RELEASES is the
directory that `sottovoce schedule` publishes to. Settings come from the environment.
"""

import argparse
import logging

EVERY_SECONDS = 300.0
"""Between two looks at whether the day's devices have begun."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--devices",
        type=int,
        help="per metric and day, at least 100 (SOTTOVOCE_CANARY_DEVICES)",
    )
    parser.add_argument(
        "--endpoint", help="base URL of the server (SOTTOVOCE_HOST and SOTTOVOCE_PORT)"
    )
    parser.add_argument("--once", action="store_true", help="do what is left of today, and end")


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from aggregator.keyring.keys import Keys
    from aggregator.machine.signals import ending
    from sottovoce.canary import Canary
    from sottovoce.connect import connect
    from sottovoce.system import releases_directory

    log = logging.getLogger("sottovoce.canary")
    settings, store, catalogue = connect()
    if args.devices is not None:
        settings = replace(settings, canary_devices=args.devices)
    if not settings.canary_devices:
        raise ValueError("the canary is off: set --devices or SOTTOVOCE_CANARY_DEVICES")
    canary = Canary(
        store,
        catalogue,
        args.endpoint or f"http://{settings.host}:{settings.port}",
        Keys.load(settings.keys_file).write_key,
        releases_directory(),
        settings.canary_devices,
    )

    def report() -> None:
        for name, done in canary.run().items():
            log.info("%s: %d reports of known truth are delivered", name, done)

    if args.once:
        report()
        return 0
    with ending() as stop:
        while not stop.is_set():
            try:
                report()
            except (OSError, ValueError) as error:
                log.warning("the canary could not report, next try in a while: %s", error)
            stop.wait(EVERY_SECONDS)
    return 0
