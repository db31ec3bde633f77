"""`sottovoce COMMAND`: finds the command, parses its arguments, turns errors into advice."""

import argparse
import logging
import os
import sys
from importlib import import_module

COMMANDS = {
    "demo": "run the whole system once on real distributions and compare with the truth",
    "up": "run everything on this machine: store, server, fold, schedule, dashboard",
    "serve": "run the aggregation server",
    "fold": "run the fold worker, which adds reports up",
    "schedule": "publish what is due, again and again",
    "dashboard": "serve what was published",
    "canary": "report what is known, day after day, to compare with what is published",
    "monitor": "whether releases are as sure as they say, and what is alarming",
    "health": "whether a part of the server side works, for health checks of containers",
    "check": "check a metrics.toml",
    "plan": "how exact a question's answer will be, and what it costs",
    "audit": "rebuild the exact channel of each metric from the shipped code",
    "estimate": "estimate shares from a tally document, offline",
    "publish": "publish due epochs now, or close one early",
    "notify": "send the digests that are due, show them, or test the mail server",
    "releases": "list and export releases",
    "ledger": "lifetime epsilon of a device, or over all devices",
    "preview": "what a device would send: exact bytes, in words, and epsilon spent",
    "keys": "list and rotate the server's keys",
    "log": "list or verify the administrators' log",
    "survey": "surveys in the browser and on paper: write a file, ask it, see what comes of it",
    "simulate": "send the reports of simulated devices to a server",
}


SERVICES = ("up", "serve", "fold", "schedule", "dashboard", "canary")
"""Commands that run on: their logs are for machines to read. `survey serve` is one more."""


_USERS = {
    "to begin with": ("demo", "up"),
    "for app developers": ("check", "plan", "audit", "preview", "simulate"),
    "for survey teams": ("survey",),
    "for analysts": ("releases", "monitor", "estimate"),
}
"""Who uses which commands; the others are for operators."""


def parser_for(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    module = import_module(f"sottovoce.commands.{name}")
    parser = argparse.ArgumentParser(
        prog=f"sottovoce {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status: 0 good, 1 bad result, 2 bad input."""
    given = sys.argv[1:] if arguments is None else arguments
    top = argparse.ArgumentParser(
        prog="sottovoce",
        usage="sottovoce COMMAND [options]",
        description="Telemetry under local differential privacy.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"{_listed()}\n\nsottovoce COMMAND --help says more about each.",
    )
    top.add_argument("command", choices=list(COMMANDS), metavar="COMMAND", help=argparse.SUPPRESS)
    if not given:
        top.print_help(sys.stderr)
        return 2
    name = top.parse_args(given[:1]).command
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"
    )
    # It tells of every connection that is tried again, which ours expect to be.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    try:
        parser = parser_for(name)
        parsed = parser.parse_args(given[1:])
        if name in SERVICES or (name, getattr(parsed, "act", None)) == ("survey", "serve"):
            _log_as(name)
        return int(import_module(f"sottovoce.commands.{name}").run(parsed))
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("client_sdk", "aggregator", "estimator"):
            raise
        print(
            f"sottovoce {name} needs the server parts ({error.name} is missing): "
            "pip install 'sottovoce[server]'",
            file=sys.stderr,
        )
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except (ValueError, OSError) as error:
        # Every error this project raises on purpose is one of these and says what to do.
        print(f"sottovoce {name}: {error}", file=sys.stderr)
    return 2


def _listed() -> str:
    """Return all commands by who uses them."""
    width = max(map(len, COMMANDS)) + 2
    elsewhere = {name for names in _USERS.values() for name in names}
    others = tuple(name for name in COMMANDS if name not in elsewhere)
    groups = {**_USERS, "for operators": others}
    return "\n\n".join(
        f"{title}:\n" + "\n".join(f"  {name:<{width}}{COMMANDS[name]}" for name in names)
        for title, names in groups.items()
    )


def _log_as(name: str) -> None:
    from aggregator.settings import ServerSettings
    from aggregator.watching.logs import configure

    configure(name, ServerSettings.from_env(os.environ), sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
