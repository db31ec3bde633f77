"""The wire: stored vectors, and the limits of a batch."""

import json
from pathlib import Path
from typing import Any

import pytest

from client_sdk.mechanisms import Mechanism, Rappor, build
from client_sdk.report import (
    MAX_BATCH_BYTES,
    MAX_BATCH_REPORTS,
    Report,
    encode_batch,
    hex_digits,
    report_to_json,
    response_to_json,
)

VECTORS = json.loads(Path(__file__).with_name("wire_vectors.json").read_text(encoding="utf-8"))


def mechanism_of(vector: dict[str, Any]) -> Mechanism:
    described = dict(vector["mechanism"])
    if described.pop("name") == "rappor":
        return Rappor(**described)
    return build(vector["mechanism"]["name"], **described)


@pytest.mark.parametrize("vector", VECTORS["reports"], ids=lambda vector: vector["id"])
def test_a_report_is_written_as_the_stored_vector(vector: dict[str, Any]) -> None:
    # Changing a vector is a decision: reports of apps in the field are already written this way.
    mechanism = mechanism_of(vector)
    report = Report(**vector["report"])
    assert report_to_json(report, mechanism) == vector["wire"]
    assert list(mechanism.support(report.response)) == vector["support"]


@pytest.mark.parametrize(
    ("cells", "response", "wire"),
    [
        (1, 0, "0"),
        (1, 1, "1"),
        (4, 0b1000, "8"),
        (5, 0b1, "01"),
        (8, 0b1000_0001, "81"),
        (9, 1 << 8, "100"),
        (4096, 1, "0" * 1023 + "1"),
        (4096, (1 << 4096) - 1, "f" * 1024),
    ],
)
def test_a_bit_vector_has_one_digit_per_four_bits(cells: int, response: int, wire: str) -> None:
    mechanism = Rappor(cells, 1, 1, f=0.5, p=0.5, q=0.75)
    assert hex_digits(mechanism) == len(wire)
    assert response_to_json(mechanism, response) == wire


def test_a_cell_is_a_json_integer() -> None:
    mechanism = build("generalized_randomized_response", domain=300, epsilon=1)
    assert response_to_json(mechanism, 299) == 299


def test_a_report_holds_nothing_but_its_five_fields() -> None:
    mechanism = build("randomized_response", domain=2, epsilon=1)
    wire = json.loads(report_to_json(Report("m", "f" * 16, 7, 0, 1), mechanism))
    assert set(wire) == {"metric", "fingerprint", "epoch", "cohort", "response"}


def test_a_batch_is_written_as_the_stored_vector() -> None:
    vector = VECTORS["batch"]
    reports = [entry["wire"] for entry in VECTORS["reports"][:2]]
    body = encode_batch(vector["device"], vector["sequence"], vector["nonce"], reports)
    assert body.decode() == vector["body"]
    assert set(json.loads(body)) == {"version", "device", "sequence", "nonce", "reports"}


def test_limits_are_those_of_the_design() -> None:
    assert (MAX_BATCH_BYTES, MAX_BATCH_REPORTS) == (64 * 1024, 256)
