"""What an app embeds: record a value, forget about it.

`record` maps the value into its domain and hands it to a worker thread, which charges the
ledger, randomizes and stores (`recorder`), and uploads from time to time (`uploader`). This
module only composes those; nothing here knows a probability or a byte of the wire.

After construction nothing raises into the host or makes it wait, and one warning is logged at
most: a value that cannot be reported is dropped and the reason counted in `Client.dropped`.
"""

import atexit
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from client_sdk.absence import watched
from client_sdk.epochs import day_of
from client_sdk.errors import WrongType
from client_sdk.pending import Pending, current_epoch
from client_sdk.randomness import Coin
from client_sdk.registry import Registry, load
from client_sdk.state import default_directory
from client_sdk.transport import HttpTransport, Transport
from client_sdk.worker import Worker

UPLOAD_WITHIN_SECONDS = 3600.0
EXIT_SECONDS = 1.0


@dataclass(frozen=True)
class Status:
    """What a client is doing, for people.

    Attributes:
        summary: "collecting", or "disabled: " and the reason.
        spent_epsilon: Lifetime epsilon spent, None before the first record of this process.
        lifetime_epsilon: The most that this device may ever spend.
        queued: Reports that wait to be sent.
        dropped: Values not reported, by reason.
        refused: Reports that the server refused, by reason.
    """

    summary: str
    spent_epsilon: float | None
    lifetime_epsilon: float
    queued: int
    dropped: dict[str, int]
    refused: dict[str, int]


class Client:
    """Records values of the metrics that `metrics.toml` declares.

    Args:
        metrics: Path of metrics.toml, or a loaded registry.
        endpoint: Base URL of the aggregation server; SOTTOVOCE_ENDPOINT overrides it.
        write_key: The project's key for enrolment; SOTTOVOCE_WRITE_KEY overrides it.
        enabled: The user's consent. Off until the host switches it on: nothing is stored,
            charged or sent before.
        state_dir: Where this device's state lies; by default the user's state directory.
        transport: Replaces HTTP, in tests.
        upload_within_seconds: A report is sent at a random moment within this time.
        clock: Unix time in seconds.

    Raises:
        RegistryError: metrics.toml breaks a rule. The only error that reaches the host.
    """

    def __init__(
        self,
        metrics: str | Path | Registry,
        *,
        endpoint: str = "http://127.0.0.1:8080",
        write_key: str = "",
        enabled: bool = False,
        state_dir: str | Path | None = None,
        transport: Transport | None = None,
        upload_within_seconds: float = UPLOAD_WITHIN_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.registry = metrics if isinstance(metrics, Registry) else load(metrics)
        self.dropped: Counter[str] = Counter()
        self._enabled = enabled
        self._clock = clock
        self._latest: dict[str, int] = {}
        self._pid = os.getpid()
        endpoint = os.environ.get("SOTTOVOCE_ENDPOINT", endpoint)
        write_key = os.environ.get("SOTTOVOCE_WRITE_KEY", write_key)
        self._directory = Path(state_dir) if state_dir else None
        self._given_transport = transport
        self._address = (endpoint, write_key)
        self._upload_within = upload_within_seconds
        self._inherited: list[Worker] = []
        self._worker = self._make_worker()
        atexit.register(self.close)
        if enabled and watched(self.registry):
            self._worker.watch()

    def record(self, metric: str, value: object) -> None:
        """Answer a metric's question for the current epoch; the first answer counts.

        Never raises and never waits. What cannot be reported is counted in `dropped`:
        disabled, unknown_metric, wrong_type, not_started, expired, already_reported,
        not_sampled, not_its_turn, does_not_fit, budget_exhausted, no_state, no_randomness,
        suspended, queue_full, opted_out, closed, internal_error. There too, though reported:
        clamped.
        """
        try:
            reason = self._record(metric, value)
        except Exception as error:  # the host must survive whatever happens in here
            reason = "wrong_type" if isinstance(error, WrongType) else "internal_error"
        if reason is not None:
            self.dropped[reason] += 1

    def _record(self, name: str, value: object) -> str | None:
        if not self._enabled:
            return "disabled"
        metric = self.registry.metrics.get(name)
        if metric is None:
            return "unknown_metric"
        encoded, clamped = metric.encode(value)
        now = self._clock()
        today = day_of(now)
        if today < metric.starts:
            return "not_started"
        if today >= metric.expires:
            return "expired"
        epoch = current_epoch(metric, now)
        worker = self._worker_here()
        if worker.disabled_because is None and self._latest.get(name) == epoch:
            return "already_reported"
        reason = worker.accept(Pending(metric, epoch, encoded))
        if reason is None:
            self._latest[name] = epoch
            if clamped:
                self.dropped["clamped"] += 1
        return reason

    def flush(self, timeout_seconds: float = 10.0) -> bool:
        """Store what was recorded and try to send everything now.

        Returns:
            True when nothing is left to send.
        """
        return self._enabled and self._worker_here().flush(timeout_seconds)

    def status(self) -> Status:
        """Return what this client is doing and has spent."""
        worker = self._worker_here()
        spent, queued = worker.figures()
        reason = worker.disabled_because if self._enabled else "not enabled by the app"
        return Status(
            summary="collecting" if reason is None else f"disabled: {reason}",
            spent_epsilon=None if spent is None else spent / 1e6,
            lifetime_epsilon=float(self.registry.lifetime_epsilon),
            queued=queued,
            dropped=dict(self.dropped),
            refused=dict(worker.refused),
        )

    def opt_out(self) -> None:
        """Withdraw consent: nothing more is recorded or sent, and the queue is deleted now.

        What was spent stays spent: a later opt-in continues the same ledger.
        """
        self._enabled = False
        self._worker_here().withdraw()

    def close(self, timeout_seconds: float = EXIT_SECONDS) -> None:
        """Store what was recorded and stop; what is not sent yet is sent after the next start."""
        if self._pid == os.getpid():
            self._worker.close(timeout_seconds)
            atexit.unregister(self.close)

    def _make_worker(self) -> Worker:
        http = HttpTransport(*self._address)
        return Worker(
            registry=self.registry,
            directory=lambda: self._directory or default_directory(self.registry.project),
            transport=self._given_transport or http,
            upload_within_seconds=self._upload_within,
            clock=self._clock,
            coin=Coin(),
            dropped=self.dropped,
            on_end=http.close,
        )

    def _worker_here(self) -> Worker:
        """Return this process's worker: threads and connections do not survive a fork."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._latest = {}
            # Kept: SQLite forbids even closing a connection that a fork has copied. What the
            # parent had accepted it stores itself.
            self._inherited.append(self._worker)
            self._worker = self._make_worker()
        return self._worker
