"""The SDK's log lines: few, and never a host's first.

Where the host does not use `logging`, nothing is loaded and nothing printed: a line on the
standard error of somebody else's program is a fault in it. `Client.status` says the same.
"""

import sys
from contextlib import suppress

LOGGER = "sottovoce"


def warning(message: str, *arguments: object) -> None:
    """Say something that the host should know; at most once in a process."""
    _say("warning", message, arguments)


def debug(message: str, *arguments: object) -> None:
    """Say something for who looks for the cause of a fault."""
    _say("debug", message, arguments)


def _say(level: str, message: str, arguments: tuple[object, ...]) -> None:
    logging = sys.modules.get("logging")
    if logging is not None:
        with suppress(Exception):  # of a handler of the host's
            logger = logging.getLogger(LOGGER)
            if not logger.handlers:
                logger.addHandler(logging.NullHandler())  # else Python prints what nobody handles
            getattr(logger, level)(message, *arguments)
