"""What an app embeds: record a value, forget about it.

`record` maps the value into its domain and hands it to a worker thread (`worker`), which charges
the ledger, randomizes and stores (`recorder`), and uploads from time to time (`uploader`). This
module only composes those; nothing here knows a probability or a byte of the wire.

After construction nothing raises into the host or makes it wait, and one warning is logged at
most: a value that cannot be reported is dropped and the reason counted in `Client.dropped`.

Imports little: the rest of the SDK is loaded by the first `Client`.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter

from client_sdk.counting import Drops
from client_sdk.errors import StateError, WrongType
from client_sdk.exits import EXIT_SECONDS

TYPE_CHECKING = False  # that of typing costs as much time as all the rest of this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from client_sdk.preview import Preview
    from client_sdk.registry import Registry
    from client_sdk.status import Status
    from client_sdk.transport import Transport
    from client_sdk.worker import Worker

UPLOAD_WITHIN_SECONDS = 3600.0


class Client:
    """Records values of the metrics that `metrics.toml` declares.

    Args:
        metrics: Path of metrics.toml, or a loaded registry.
        endpoint: Base URL of the aggregation server; SOTTOVOCE_ENDPOINT overrides it.
        write_key: The project's key for enrolment; SOTTOVOCE_WRITE_KEY overrides it.
        enabled: The user's consent. Off until the host switches it on: nothing is stored,
            charged or sent before.
        respect_environment: Stay off, whatever `enabled` says, where DO_NOT_TRACK is set, or a
            variable of a build server or a test runner (`consent`). False is for tests that
            want reports, and for hosts that have asked the user better than a variable can.
        state_dir: Where this device's state lies; by default the user's state directory.
        transport: Replaces HTTP, in tests.
        proxy: URL of a proxy for uploads; by default HTTPS_PROXY and NO_PROXY decide.
        ca_bundle: File of certificates that uploads trust; by default those of `requests`.
        upload_within_seconds: Length of a window; there is one upload a window, at a random
            moment.
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
        respect_environment: bool = True,
        state_dir: str | Path | None = None,
        transport: Transport | None = None,
        proxy: str | None = None,
        ca_bundle: str | None = None,
        upload_within_seconds: float = UPLOAD_WITHIN_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        from client_sdk.consent import objection
        from client_sdk.registry import Registry, load

        self.registry = metrics if isinstance(metrics, Registry) else load(metrics)
        objecting = objection(os.environ) if respect_environment else None
        self._off = None if enabled else "not enabled by the app"
        if enabled and objecting is not None:
            self._off = f"{objecting} is set"
        self._clock = clock
        self._address = (
            os.environ.get("SOTTOVOCE_ENDPOINT", endpoint),
            os.environ.get("SOTTOVOCE_WRITE_KEY", write_key),
        )
        self._proxy, self._ca_bundle = proxy, ca_bundle
        self._state_dir = state_dir
        self._given_transport = transport
        self._upload_within = upload_within_seconds
        self._refusals = Drops()
        self._workers: dict[int, Worker] = {}
        if self._off is None:
            from client_sdk import parts

            worker = self._worker_here()
            if parts.watched(self.registry):
                worker.start()

    def record(self, metric: str, value: object) -> None:
        """Answer a metric's question for the current epoch; the first answer counts.

        Never raises and never waits; may be called from coroutines, signal handlers and
        finalizers. What cannot be reported is counted in `dropped`: disabled, unknown_metric,
        wrong_type, not_started, expired, already_reported, not_sampled, not_its_turn,
        does_not_fit, budget_exhausted, no_state, no_randomness, suspended, queue_full,
        spool_full, opted_out, closed, internal_error. There too, though reported: clamped.
        """
        try:
            try:
                if self._off is None:
                    reason = self._worker_here().record(metric, value)
                else:
                    reason = "disabled"
            except Exception as error:  # the host must survive whatever happens in here
                reason = "wrong_type" if isinstance(error, WrongType) else "internal_error"
            if reason is not None:
                self._refusals.update((reason,))
        except Exception:  # at the very end of the interpreter even counting may fail
            pass

    @property
    def dropped(self) -> Counter[str]:
        """Values that were not reported, by reason."""
        worker = self._workers.get(os.getpid())
        return self._refusals.figures() + (
            Counter() if worker is None else worker.dropped.figures()
        )

    def flush(self, timeout_seconds: float = 10.0) -> bool:
        """Store what was recorded and try to send everything now.

        Waits; in a coroutine use `asyncio.to_thread(client.flush)`.

        Returns:
            True when nothing is left to send.
        """
        return self._off is None and self._worker_here().flush(timeout_seconds)

    def status(self) -> Status:
        """Return what this client is doing and has spent."""
        from client_sdk import parts

        worker = self._worker_here()
        spent, queued = worker.figures()
        reason = worker.disabled_because if self._off is None else self._off
        return parts.Status(
            summary="collecting" if reason is None else f"disabled: {reason}",
            spent_epsilon=None if spent is None else spent / 1e6,
            lifetime_epsilon=float(self.registry.lifetime_epsilon),
            queued=queued,
            dropped=dict(self.dropped),
            refused=dict(worker.refused),
        )

    def preview(self, timeout_seconds: float = 2.0) -> Preview:
        """Return the exact bytes that wait to be sent, in words too, and what was spent.

        Shows nothing where there is no state, or none that can be used: `status` says why.
        """
        from client_sdk import parts

        if self._off is None:
            self._worker_here().store(timeout_seconds)
        try:
            directory = parts.state_directory(self._state_dir, self.registry.project)
            return parts.read(directory, self.registry)
        except StateError:
            return parts.Preview(lifetime_epsilon=float(self.registry.lifetime_epsilon))

    def opt_out(self) -> None:
        """Withdraw consent: nothing more is recorded or sent, and the queue is deleted now.

        What was spent stays spent: a later opt-in continues the same ledger.
        """
        self._off = "not enabled by the app"
        self._worker_here().withdraw()

    def erase(self, timeout_seconds: float = 10.0) -> bool:
        """Withdraw consent and erase this device's life, here at once and then on the server.

        Deleted are the queue, remembered answers, the device's secret and its identity, in one
        step, also if the server cannot be reached. What was spent stays spent, as a single total,
        and nothing is refunded: a later opt-in starts as a new device with what is left. Which
        epochs were reported stays known as long as they may be. Releases that were published
        stay too: no report in them has an id.

        Never raises. Waits for the server, at most for `timeout_seconds`; in a coroutine use
        `asyncio.to_thread(client.erase)`.

        Returns:
            True when the server has confirmed, or never knew this device. If False, id and key
            are kept, for nothing else, and it is asked again by the next `erase`, or, once the
            user has opted in again, before anything else is sent.
        """
        self._off = "erased, and not enabled by the app since"
        try:
            return self._worker_here().erase(timeout_seconds)
        except Exception:  # the host must survive whatever happens in here
            return False

    def close(self, timeout_seconds: float = EXIT_SECONDS) -> None:
        """Store what was recorded and stop; what is not sent yet is sent after the next start."""
        worker = self._workers.get(os.getpid())
        if worker is not None:
            worker.stop(timeout_seconds)
            worker.wait_until_ended(timeout_seconds)

    def __del__(self) -> None:
        try:
            self._workers[os.getpid()].stop(EXIT_SECONDS)
        except Exception:  # it never began, or the interpreter is gone already
            pass

    def _worker_here(self) -> Worker:
        """Return this process's worker: threads and connections do not survive a fork.

        Those of other processes are kept and never touched: SQLite forbids even closing a
        connection that a fork has copied. What the parent had accepted it stores itself.
        """
        process = os.getpid()
        worker = self._workers.get(process)
        if worker is None:
            if sys.is_finalizing():
                raise RuntimeError("the interpreter is ending")
            worker = self._workers.setdefault(process, self._make_worker())
        return worker

    def _make_worker(self) -> Worker:
        from client_sdk import parts

        http = parts.HttpTransport(*self._address, proxy=self._proxy, ca_bundle=self._ca_bundle)
        given, project = self._state_dir, self.registry.project
        return parts.Worker(
            registry=self.registry,
            # Nothing of the worker refers to the client: who forgets a client need not close it.
            directory=lambda: parts.state_directory(given, project),
            transport=self._given_transport or parts.transport_for(http, self.registry.seal),
            upload_within_seconds=self._upload_within,
            clock=self._clock,
            coin=parts.Coin(),
            on_end=http.close,
            waits_since=lambda: http.waits_since,
        )
