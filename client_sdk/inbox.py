"""The hand-over from the host's threads to the SDK's own: takes values at any moment.

`record` may be called by a signal handler or a finalizer that has interrupted `record`, or the
SDK's thread, anywhere. `SimpleQueue.put` is the one hand-over that the standard library documents
as safe there: it is reentrant and takes no lock of Python's.
"""

from _queue import Empty, SimpleQueue
from contextlib import suppress

from client_sdk import threads
from client_sdk.pending import Pending


class Ticket:
    """A wish: store everything that was handed over before it, and perhaps send it.

    Args:
        upload: Whether to send.
    """

    def __init__(self, *, upload: bool) -> None:
        self.upload = upload
        self._open = threads.new_lock()
        self._open.acquire()

    def settle(self) -> None:
        """Say that the wish was fulfilled as far as it can be."""
        with suppress(RuntimeError):  # it is settled already
            self._open.release()

    def wait(self, seconds: float) -> bool:
        """Wait until it is settled; False if that takes longer."""
        return threads.wait_for(self._open, seconds)


class Inbox:
    """Values and tickets in the order in which they came."""

    def __init__(self) -> None:
        self._things: SimpleQueue[Pending | Ticket | None] = SimpleQueue()
        self._hurry = threads.new_lock()
        self._hurry.acquire()

    def __len__(self) -> int:
        return self._things.qsize()

    def put(self, pending: Pending) -> None:
        """Hand a value over."""
        self._things.put(pending)

    def wish(self, ticket: Ticket | None) -> None:
        """Hand a ticket over, or just wake whoever waits; values no longer gather."""
        self._things.put(ticket)
        with suppress(RuntimeError):  # somebody is in a hurry already
            self._hurry.release()

    def take(self, patience: float | None, gather: float) -> tuple[list[Pending], list[Ticket]]:
        """Wait for something and return all that has come.

        Args:
            patience: Longest wait in seconds, None for ever.
            gather: Seconds for which further values may join the first: one write to the disk
                then serves them all.
        """
        things: list[Pending | Ticket | None] = []
        with suppress(Empty):
            things.append(self._things.get(True, patience))
            if type(things[0]) is Pending:
                self._hurry.acquire(True, gather)
            while True:
                things.append(self._things.get_nowait())
        return (
            [each for each in things if isinstance(each, Pending)],
            [each for each in things if isinstance(each, Ticket)],
        )
