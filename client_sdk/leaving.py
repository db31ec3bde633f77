"""When a user leaves: what waits is deleted, or the device's life erased, whoever else uses it.

Each function opens the state for itself, if there is one, and closes it again: the client's own
may be in use, ended or never begun.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from client_sdk.erasure import erase, say_farewell
from client_sdk.errors import StateErased
from client_sdk.registry import Registry
from client_sdk.state import FILE_NAME, State
from client_sdk.transport import Transport


class Home(NamedTuple):
    """Where a device's state lies.

    Attributes:
        directory: Says where; may raise what `State` raises.
        patience_seconds: How long to wait for others that write to it.
    """

    directory: Callable[[], str]
    patience_seconds: float

    def visit(self, act: Callable[[State], None]) -> None:
        """Do something with the state, if there is one.

        Raises:
            StateError, OSError: It cannot be used.
        """
        while os.path.exists(os.path.join(self.directory(), FILE_NAME)):
            state = State(self.directory(), self.patience_seconds)
            try:
                return act(state)
            except StateErased:  # at this very moment; the next state is another one
                continue
            finally:
                state.close()


def withdraw(home: Home) -> int:
    """Delete what waits to be sent; return how many reports that were."""
    waiting = 0

    def act(state: State) -> None:
        nonlocal waiting
        waiting += state.withdraw()

    home.visit(act)
    return waiting


def erase_here(home: Home, registry: Registry, now: float) -> tuple[int, int | None]:
    """Erase the device's life; `scrub` deletes it from the file's free pages too.

    Returns:
        How many reports were waiting, and what stays spent in micro-epsilon (None: no state).

    Raises:
        StateError, OSError, NoRandomness: Nothing was erased.
    """
    found: list[tuple[int, int]] = []
    home.visit(lambda state: found.append(erase(state, registry, now)))
    return found[-1] if found else (0, None)


def scrub(home: Home) -> None:
    """Delete what was erased from the file's free pages; else the next that opens it does.

    Raises:
        StateError, OSError: It is not done yet.
    """
    home.visit(State.scrub)


def erase_there(home: Home, transport: Transport) -> bool:
    """Have the server erase what it has of this device; say whether nothing is left to erase.

    Raises:
        StateError, OSError, TransportError, NoRandomness: It is not known to be done.
    """
    done = [True]  # without a state there was never an identity
    home.visit(lambda state: done.append(say_farewell(state, transport) is None))
    return done[-1]
