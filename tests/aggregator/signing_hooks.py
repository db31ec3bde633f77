"""What schemathesis loads beside the contract: who signs its uploads, and what a sealed one is.

Told by the environment: SOTTOVOCE_KEYS_FILE, and SOTTOVOCE_FUZZ_REPORT, one true report in JSON.
"""

import json
import os
from pathlib import Path
from typing import Any

import requests
import schemathesis
from hypothesis import strategies as st

from aggregator.keyring.keys import Keys
from client_sdk.authentication import MAC_HEADER, batch_mac, derive_device_key, erase_mac
from client_sdk.report import (
    DEVICES_PATH,
    ERASE_PATH,
    REPORTS_PATH,
    SEALED_TYPE,
    encode_batch,
)
from client_sdk.sealing import seal_upload

UNSIGNED = 8
"""One body in so many goes out with whatever MAC was generated for it."""

keys = Keys.load(Path(os.environ["SOTTOVOCE_KEYS_FILE"]))
true_report = os.environ["SOTTOVOCE_FUZZ_REPORT"]


def device_of(body: bytes) -> str:
    """The device that a body names, or one that exists: then the form is judged all the same."""
    try:
        device = json.loads(body)["device"]
        return device if isinstance(device, str) else "0" * 32
    except (ValueError, TypeError, KeyError, RecursionError):
        return "0" * 32


def mac_over(body: bytes, path: str) -> str:
    device = device_of(body).encode("utf-8", "replace").decode()
    mac = erase_mac if path == ERASE_PATH else batch_mac
    return mac(derive_device_key(keys.master_keys[-1].secret or b"", device), body)


class Signed(requests.auth.AuthBase):
    """Signs the exact bytes that are about to travel."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        body = request.body or b""
        exact = body.encode() if isinstance(body, str) else bytes(body)
        if sum(exact) % UNSIGNED:
            request.headers[MAC_HEADER] = mac_over(exact, self._path)
        return request


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    if case.path not in (REPORTS_PATH, ERASE_PATH) or case.media_type != "application/json":
        return
    kwargs["auth"] = Signed(case.path)
    if case.meta is None or case.meta.generation.mode.is_positive:
        # 7.0 is an integer to a schema, and to the server it is not. Among the strangers that were
        # generated, one report is counted.
        body = json.loads(json.dumps(case.body), parse_float=lambda text: int(float(text)))
        if case.path == REPORTS_PATH:
            body["reports"][0] = json.loads(true_report)
        case.body = body


@schemathesis.auth().apply_to(path=DEVICES_PATH)
class WriteKey:
    """The write key, as the project's apps carry it."""

    def get(self, case: Any, context: Any) -> str:
        return keys.write_key

    def set(self, case: Any, data: str, context: Any) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


@st.composite
def sealed_batches(draw: st.DrawFn) -> bytes:
    device = draw(st.binary(min_size=16, max_size=16)).hex()
    nonce = draw(st.binary(min_size=16, max_size=16)).hex()
    reports = [true_report] * draw(st.integers(1, 256))
    body = encode_batch(device, draw(st.integers(1, 2**32 - 1)), nonce, reports)
    return seal_upload(keys.sealing_keys[-1].public, body, mac_over(body, REPORTS_PATH))


schemathesis.openapi.media_type(SEALED_TYPE, sealed_batches())
