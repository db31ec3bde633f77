"""What the SDK's suites share: a registry to vary, and a server played by a script."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from client_sdk import Client, Registry, loads
from client_sdk.authentication import answer_mac
from client_sdk.errors import TransportError
from client_sdk.transport import Reply

DAY = 86_400
START = 1_796_083_200.0  # 2026-12-01T00:00:00Z, a Tuesday

HEAD = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = {lifetime}
contact = "telemetry@example.org"
"""
THEME = """
[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "system", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "day"
owners = ["ui-team@example.org"]
starts = 2026-12-01
expires = 2026-12-08
"""
HOME_PAGE = """
[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 2 }
rappor = { bits = 128, hashes = 2, cohorts = 64 }
epoch = "day"
owners = ["ui-team@example.org"]
starts = 2026-12-01
expires = 2027-12-01
"""


def build_registry(*tables: str, lifetime: object = 100, **changes: str) -> Registry:
    """The registry of some tables, with `key = value` lines replaced in all of them."""
    text = HEAD.format(lifetime=lifetime) + "".join(tables or (THEME,))
    lines = []
    for line in text.splitlines():
        key = line.partition(" = ")[0]
        lines.append(f"{key} = {changes[key]}" if key in changes else line)
    return loads("\n".join(lines))


class Clock:
    """A clock that stands still until it is moved. Unix time in seconds."""

    def __init__(self, now: float = START + DAY / 2) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class ScriptedTransport:
    """Plays a server whose next answers a test decides.

    Attributes:
        bodies: Each batch as it was sent.
        macs: Its MAC.
        answer: Makes the reply to a batch; raises TransportError to play a dead network.
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.macs: list[str] = []
        self.enrolments = 0
        self.key = os.urandom(32)
        self.device = os.urandom(16).hex()
        self.enrolment: Callable[[], Reply] = self.identity
        self.answer: Callable[[bytes], Reply] = self.accepted

    def enrol(self) -> Reply:
        self.enrolments += 1
        return self.enrolment()

    def send(self, body: bytes, mac: str) -> Reply:
        self.bodies.append(body)
        self.macs.append(mac)
        return self.answer(body)

    def identity(self) -> Reply:
        return Reply(201, json.dumps({"device": self.device, "key": self.key.hex()}).encode())

    def accepted(self, body: bytes) -> Reply:
        return self.signed(body)

    def signed(
        self,
        body: bytes,
        *,
        status: int = 200,
        verdict: str = "accepted",
        spent: int = 0,
        reports: list[str] | None = None,
        key: bytes | None = None,
        **forged: Any,
    ) -> Reply:
        """An answer with a valid MAC, then altered by `forged`."""
        batch = json.loads(body)
        if reports is None:
            reports = ["accepted"] * len(batch["reports"])
        sequence = batch["sequence"]
        mac = answer_mac(key or self.key, batch["nonce"], sequence, verdict, spent, reports)
        answer = {
            "sequence": sequence,
            "verdict": verdict,
            "spent": spent,
            "reports": reports,
            "mac": mac,
        }
        return Reply(status, json.dumps({**answer, **forged}).encode())

    @staticmethod
    def dead(body: bytes = b"") -> Reply:
        raise TransportError("no answer")

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [report for body in self.bodies for report in json.loads(body)["reports"]]


@pytest.fixture
def registry_of() -> Callable[..., Registry]:
    return build_registry


@pytest.fixture
def tables() -> dict[str, str]:
    return {"theme": THEME, "home_page": HOME_PAGE}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> ScriptedTransport:
    return ScriptedTransport()


@pytest.fixture
def client_of(
    tmp_path: Any, clock: Clock, server: ScriptedTransport
) -> Iterator[Callable[..., Client]]:
    """Makes clients on one state directory; they are closed after the test."""
    made = []

    def make(registry: Registry | None = None, **options: Any) -> Client:
        given = {
            "enabled": True,
            "state_dir": tmp_path / "state",
            "transport": server,
            "clock": clock,
            "upload_within_seconds": 1e9,  # nothing leaves unless a test flushes
            **options,
        }
        client = Client(registry or build_registry(), **given)
        made.append(client)
        return client

    yield make
    for client in made:
        client.close(5)
