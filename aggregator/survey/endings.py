"""Which surveys were ended early: pages say so, and take no answers that nobody would count."""

import time
from collections.abc import Callable

from aggregator.connection import StoreUnavailable
from aggregator.store import Store
from client_sdk.survey import Survey

LOOK_SECONDS = 10.0
"""The longest that a page is served as open after its survey was closed."""


class Endings:
    """What the store knows of the closing of surveys, kept at hand; safe for threads.

    Args:
        store: Where epochs are closed.
        monotonic: Seconds since any moment.
    """

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._tallies = store.tallies
        self._monotonic = monotonic
        self._closed: dict[str, bool] = {}
        self._looked_at: dict[str, float] = {}

    def closed(self, survey: Survey) -> bool:
        """Say whether every report of a survey would be refused as late, as last known.

        While the store is away nothing new is known, and a survey of which nothing is counts as
        open: its page keeps what is to be sent until the store is back.
        """
        name, now = survey.name, self._monotonic()
        if now - self._looked_at.get(name, -LOOK_SECONDS) >= LOOK_SECONDS:
            self._looked_at[name] = now  # before it is asked: other threads do not wait for it
            try:
                self._closed[name] = all(
                    self._tallies.refuses(question.metric, 0) for question in survey.questions
                )
            except StoreUnavailable:
                pass
        return self._closed.get(name, False)
