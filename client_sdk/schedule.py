"""When to upload: at most once a window, at a random moment; after a failure ever more rarely.

The plan is kept in the state. So it outlives programs that run for a second: one of them will
start after the planned moment, and uploads at once. A pause that the server asked for outlives
them too. Before an attempt the plan is what it would be after a failure: who is killed in the
middle, for instance at exit, has not forgotten to back off.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

from client_sdk.randomness import Coin
from client_sdk.state import State
from client_sdk.transport import LONGEST_PAUSE_SECONDS

LEAST_BACKOFF_SECONDS = 30.0
MOST_BACKOFF_SECONDS = 6 * 3600.0
ASKED_AGAIN_SECONDS = 5.0
LEAST_ANSWER_SECONDS = 0.1
MOST_ANSWER_SECONDS = 0.8
_NAME = "schedule"
_MOST_FAILURES = 20


class Plan(NamedTuple):
    """What is kept. Unix times in seconds.

    Attributes:
        upload_at: The planned moment, None while nothing waits.
        paused_until: Nothing is sent before, not even if the app asks.
        uploaded_at: The last success.
        failures: Attempts that have failed since.
    """

    upload_at: float | None = None
    paused_until: float = 0.0
    uploaded_at: float = 0.0
    failures: int = 0


class Schedule:
    """Plans the uploads of a device.

    Args:
        state: Where the plan is kept.
        within: Length of a window in seconds.
        clock: Unix time in seconds.
        coin: Fresh randomness: uploads of many devices must not come together.
    """

    def __init__(self, state: State, within: float, clock: Callable[[], float], coin: Coin) -> None:
        self._state = state
        self._within = within
        self._clock = clock
        self._coin = coin
        self.plan = Plan()
        self.read()

    def read(self) -> None:
        """Read the plan anew: other processes of the device may have changed it."""
        kept = self._state.get(_NAME)
        try:
            self.plan = Plan() if kept is None else Plan(**json.loads(kept))
        except (ValueError, TypeError):
            self.plan = Plan()

    def is_due(self, *, asked: bool) -> bool:
        """Say whether to upload now; if asked for, only a pause keeps from it."""
        if self._is_ahead(self.plan.paused_until):
            return False
        return asked or (
            self.plan.upload_at is not None and not self._is_ahead(self.plan.upload_at)
        )

    def wait(self) -> float | None:
        """Return the seconds until the planned moment, None without one."""
        if self.plan.upload_at is None:
            return None
        moment = max(self.plan.upload_at, self.plan.paused_until)
        return max(0.0, moment - self._clock()) if self._is_ahead(moment) else 0.0

    def something_waits(self) -> None:
        """Plan an upload unless one is planned."""
        self.read()
        if self.plan.upload_at is None:
            now = self._clock()
            next_window = min(max(now, self.plan.uploaded_at + self._within), now + self._within)
            moment = next_window + self._share() * self._within
            self._keep(self.plan._replace(upload_at=moment))

    def look_again_soon(self) -> None:
        """Wait until another process has uploaded, or has failed to; this is not kept."""
        moment = self._clock() + self._share() * LEAST_BACKOFF_SECONDS
        self.plan = self.plan._replace(upload_at=moment)

    def begin(self) -> None:
        """Plan as if the attempt that begins now had failed."""
        ceiling = min(LEAST_BACKOFF_SECONDS * 2**self.plan.failures, MOST_BACKOFF_SECONDS)
        moment = self._clock() + self._share() * ceiling
        failures = min(self.plan.failures + 1, _MOST_FAILURES)
        self._keep(self.plan._replace(upload_at=moment, failures=failures))

    def failed(self, pause_seconds: float, *, also_if_asked: bool = True) -> None:
        """Add a pause to what `begin` has planned; short for an app that asks, if that is said."""
        if pause_seconds:
            moment = (self.plan.upload_at or self._clock()) + pause_seconds
            pause_if_asked = pause_seconds if also_if_asked else ASKED_AGAIN_SECONDS
            paused_until = self._clock() + pause_if_asked
            self._keep(self.plan._replace(upload_at=moment, paused_until=paused_until))

    def answer_seconds(self) -> float:
        """Return how long a program that ends waits for the answer to its upload.

        Not long, for everything is stored and the next program sends it again; but longer after
        each failure, so that a server that is always slow is reached in the end.
        """
        return min(LEAST_ANSWER_SECONDS * 2.0 ** (self.plan.failures - 1), MOST_ANSWER_SECONDS)

    def done(self) -> None:
        """Nothing waits any more."""
        self._keep(Plan(uploaded_at=self._clock()))

    def _is_ahead(self, moment: float) -> bool:
        """Say whether a planned moment is still to come.

        One that lies further ahead than anything is ever planned was planned by a clock that
        has been set back since.
        """
        longest = 2 * self._within + MOST_BACKOFF_SECONDS + LONGEST_PAUSE_SECONDS
        return 0 < moment - self._clock() <= longest

    def _share(self) -> float:
        return self._coin.uniform(1 << 20) / (1 << 20)

    def _keep(self, plan: Plan) -> None:
        with self._state.transaction():
            self._state.put(_NAME, json.dumps(plan._asdict()).encode())
        self.plan = plan
