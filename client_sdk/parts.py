"""What a client is made of, loaded together by the first one.

On the host's thread and at once: what a thread of the SDK imported later, a fork could find half
imported, and the child would wait for it for ever.
"""

import os

from client_sdk.absence import watched
from client_sdk.preview import Preview, read
from client_sdk.randomness import Coin
from client_sdk.sealed_transport import transport_for
from client_sdk.state import default_directory
from client_sdk.status import Status
from client_sdk.transport import HttpTransport
from client_sdk.worker import Worker

__all__ = [
    "Coin",
    "HttpTransport",
    "Preview",
    "Status",
    "Worker",
    "read",
    "state_directory",
    "transport_for",
    "watched",
]


def state_directory(given: str | os.PathLike[str] | None, project: str) -> str:
    """Return where the state lies: as the host says, or the default of the project."""
    return os.fspath(given) if given else default_directory(project)
