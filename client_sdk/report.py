"""The wire: what a report is, and how a batch of them becomes bytes.

A report carries metric, fingerprint, epoch, cohort and response, nothing else: no clock time,
no epsilon, no word about the host. A response is a JSON integer (one cell) or a hex string (a
bit vector, bit i is cell i, most significant digit first).
"""

import json
from collections.abc import Sequence
from typing import Literal, NamedTuple

from client_sdk.mechanisms import Mechanism

FORMAT_VERSION = 1
MAX_BATCH_BYTES = 64 * 1024
MAX_BATCH_REPORTS = 256
REPORTS_PATH = "/v1/reports"
DEVICES_PATH = "/v1/devices"
ERASE_PATH = "/v1/erase"
SEALED_TYPE = "application/vnd.sottovoce.sealed"
PROBLEM_TYPE = "urn:sottovoce:problem:"
UNKNOWN_SEALING_KEY = PROBLEM_TYPE + "unknown_sealing_key"

RefusalReason = Literal[
    "unknown_metric",
    "unknown_fingerprint",
    "epoch_closed",
    "too_early",
    "already_reported",
    "budget_exhausted",
    "not_invited",
]
REFUSAL_REASONS: tuple[RefusalReason, ...] = (
    "unknown_metric",
    "unknown_fingerprint",
    "epoch_closed",
    "too_early",
    "already_reported",
    "budget_exhausted",
    "not_invited",
)
ACCEPTED = "accepted"
ERASED = "erased"
"""The verdict on a device that asked for its erasure, and on whatever it sends afterwards."""


class Report(NamedTuple):
    """One randomized answer, as it is sent.

    Attributes:
        metric: Name in the registry.
        fingerprint: Version of the metric, 16 hex digits.
        epoch: Epoch number, see `client_sdk.epochs`.
        cohort: Group of hash functions, row of a sketch or level of a tree: the device's own
            where noise is remembered, else drawn for this report.
        response: Cell index or bit vector.
    """

    metric: str
    fingerprint: str
    epoch: int
    cohort: int
    response: int


def response_to_json(mechanism: Mechanism, response: int) -> int | str:
    """Return the wire form of a response."""
    if mechanism.kind == "cell":
        return response
    return f"{response:0{hex_digits(mechanism)}x}"


def hex_digits(mechanism: Mechanism) -> int:
    """Return the exact length of a bit vector's hex string."""
    return (mechanism.cells + 3) // 4


def report_to_json(report: Report, mechanism: Mechanism) -> str:
    """Return one report's canonical JSON: what a device stores, sends and shows its user."""
    return json.dumps(
        {
            "metric": report.metric,
            "fingerprint": report.fingerprint,
            "epoch": report.epoch,
            "cohort": report.cohort,
            "response": response_to_json(mechanism, report.response),
        },
        separators=(",", ":"),
    )


def encode_batch(device: str, sequence: int, nonce: str, reports: Sequence[str]) -> bytes:
    """Return the body of an upload.

    Args:
        device: The server-drawn id, 32 hex digits.
        sequence: At least 1, strictly increasing over the device's life.
        nonce: 128 random bits, 32 hex digits.
        reports: At most 256 reports as `report_to_json` writes them.
    """
    head = json.dumps(
        {"version": FORMAT_VERSION, "device": device, "sequence": sequence, "nonce": nonce},
        separators=(",", ":"),
    )
    return f'{head[:-1]},"reports":[{",".join(reports)}]}}'.encode()


def encode_erasure(device: str, nonce: str) -> bytes:
    """Return the body by which a device has itself erased; id and nonce are 32 hex digits."""
    document = {"version": FORMAT_VERSION, "device": device, "nonce": nonce}
    return json.dumps(document, separators=(",", ":")).encode()
