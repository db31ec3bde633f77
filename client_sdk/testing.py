"""Helpers for tests of host apps: a transport that keeps what would be sent, and one in-process.

No randomness can be seeded here: a test that needs a certain response tests the wrong thing.
"""

import json
import os
from typing import Any

from client_sdk.authentication import MAC_HEADER, answer_mac
from client_sdk.report import DEVICES_PATH, REPORTS_PATH
from client_sdk.transport import Reply


class RecordingTransport:
    """Accepts every batch and remembers it.

    Attributes:
        batches: Each body that was sent, in order.
    """

    def __init__(self) -> None:
        self.batches: list[bytes] = []
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
        batch = json.loads(body)
        verdicts = ["accepted"] * len(batch["reports"])
        answer = {"sequence": batch["sequence"], "verdict": "accepted", "spent": 0}
        signed = answer_mac(self._key, batch["nonce"], batch["sequence"], "accepted", 0, verdicts)
        return Reply(200, json.dumps({**answer, "reports": verdicts, "mac": signed}).encode())


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

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        response = self._client.post(
            path, data=body, content_type="application/json", headers=headers
        )
        return Reply(response.status_code, response.get_data())
