"""Helpers for tests of host apps: clients without a network, a clock that a test moves.

With pytest they come as fixtures (`pytest_plugin`); docs/testing.md shows both ways. That a value
appears nowhere is what `canary` proves.

No randomness can be seeded here: a test that needs a certain response tests the wrong thing.
"""

import json
import os
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from client_sdk.authentication import MAC_HEADER, answer_mac, erased_mac
from client_sdk.client import Client
from client_sdk.registry import Registry, load
from client_sdk.report import DEVICES_PATH, ERASE_PATH, ERASED, REPORTS_PATH
from client_sdk.transport import Reply

NEVER_BY_ITSELF = 1e9
"""Seconds within which a client of a test uploads: it waits for `flush`."""


class RecordingTransport:
    """Accepts every batch and remembers it.

    Attributes:
        batches: Each body that was sent, in order.
        macs: The MAC that went with each, as a header.
        erasures: Each body that asked to erase a device, in order.
    """

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.macs: list[str] = []
        self.erasures: list[bytes] = []
        self._key = os.urandom(32)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """Every report of every batch, decoded."""
        return [report for body in self.batches for report in json.loads(body)["reports"]]

    def enrol(self) -> Reply:
        answer = {"device": os.urandom(16).hex(), "key": self._key.hex()}
        return Reply(201, json.dumps(answer).encode())

    def send(self, body: bytes, mac: str) -> Reply:
        self.batches.append(body)
        self.macs.append(mac)
        batch = json.loads(body)
        verdicts = ["accepted"] * len(batch["reports"])
        answer = {"sequence": batch["sequence"], "verdict": "accepted", "spent": 0}
        signed = answer_mac(self._key, batch["nonce"], batch["sequence"], "accepted", 0, verdicts)
        return Reply(200, json.dumps({**answer, "reports": verdicts, "mac": signed}).encode())

    def erase(self, body: bytes, mac: str) -> Reply:
        self.erasures.append(body)
        signed = erased_mac(self._key, json.loads(body)["nonce"])
        return Reply(200, json.dumps({"verdict": ERASED, "mac": signed}).encode())


class WsgiTransport:
    """Talks to a WSGI app's test client in-process, without a network.

    Args:
        test_client: What `Flask.test_client()` returns.
        write_key: The project's key for enrolment.
    """

    def __init__(self, test_client: Any, write_key: str) -> None:
        self._client = test_client
        self._write_key = write_key

    def enrol(self) -> Reply:
        return self._post(DEVICES_PATH, b"{}", {"Authorization": f"Bearer {self._write_key}"})

    def send(self, body: bytes, mac: str) -> Reply:
        return self._post(REPORTS_PATH, body, {MAC_HEADER: mac})

    def erase(self, body: bytes, mac: str) -> Reply:
        return self._post(ERASE_PATH, body, {MAC_HEADER: mac})

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        response = self._client.post(
            path, data=body, content_type="application/json", headers=headers
        )
        return Reply(response.status_code, response.get_data())


class FakeClock:
    """A clock that stands still until a test moves it.

    Attributes:
        now: Unix time in seconds.
        moved: Whether a test has moved it.
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.moved = False

    def __call__(self) -> float:
        return self.now

    def tick(self, *, days: float = 0, hours: float = 0, seconds: float = 0) -> None:
        """Let time pass."""
        self.now += timedelta(days=days, hours=hours, seconds=seconds).total_seconds()
        self.moved = True

    def move_to(self, day: date) -> None:
        """Go to noon (UTC) of a day."""
        self.now = datetime.combine(day, time(12), UTC).timestamp()
        self.moved = True


class ObservedClient(Client):
    """A client that also remembers, in memory, what the app recorded.

    Attributes:
        recorded: Metric and value of each call of `record`, in order, whatever became of it.
    """

    def __init__(self, metrics: str | Path | Registry, **options: Any) -> None:
        self.recorded: list[tuple[str, object]] = []
        super().__init__(metrics, **options)

    def record(self, metric: str, value: object) -> None:
        self.recorded.append((metric, value))
        super().record(metric, value)


class ClientFactory:
    """Makes clients of one device for a test: consent given, a state of its own, no network.

    A second client on the same device is the app started again.

    Args:
        directory: An empty directory for the device's state.
        clock: The clients' clock. Until the test moves it, it goes to noon of the first day on
            which everything that a client declares has started.

    Attributes:
        directory: The same.
        transport: Keeps what the clients send; it answers as the server would.
        clients: All that were made.
    """

    def __init__(self, directory: Path, clock: FakeClock) -> None:
        self.directory = directory
        self.clock = clock
        self.transport = RecordingTransport()
        self.clients: list[ObservedClient] = []

    def __call__(self, metrics: str | Path | Registry, **options: Any) -> ObservedClient:
        """Return a client; `options` replace what it is made with."""
        registry = metrics if isinstance(metrics, Registry) else load(metrics)
        if not self.clock.moved:
            self.clock.move_to(max(metric.starts for metric in registry.metrics.values()))
        given = {
            "enabled": True,
            "respect_environment": False,
            "state_dir": self.directory,
            "transport": self.transport,
            "upload_within_seconds": NEVER_BY_ITSELF,
            "clock": self.clock,
        }
        client = ObservedClient(registry, **{**given, **options})
        self.clients.append(client)
        return client

    def reports(self, metric: str | None = None) -> list[dict[str, Any]]:
        """Let every client send what may leave by now; return all reports sent, decoded.

        A report of a metric with `when_absent` may leave when its epoch is over, so move the
        clock first; one of a metric with `every` exists once in each block of so many epochs.
        """
        for client in self.clients:
            client.flush()
        sent = self.transport.reports
        return [each for each in sent if metric is None or each["metric"] == metric]

    def close(self) -> None:
        """Close every client."""
        for client in self.clients:
            client.close(5.0)
