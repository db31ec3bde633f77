"""What is fuzzed: each target takes bytes and raises if the code breaks a promise about them."""

import io
import json
from collections.abc import Callable, Mapping
from datetime import date

from flask import Request

from aggregator.batch import Candidate
from aggregator.body import JSON_TYPE, read_json_body, read_upload
from aggregator.catalogue import Versions
from aggregator.intake import Malformed, judge, parse, parse_enrolment
from aggregator.keyring.keys import Keys
from aggregator.keyring.kinds import MasterKey, OpeningKey, WriteKey
from aggregator.problems import Problem
from aggregator.unsealing import unsealed
from client_sdk.hpke import KEY_BYTES, CannotOpen, Recipient
from client_sdk.registry import loads
from client_sdk.report import MAX_BATCH_BYTES, MAX_BATCH_REPORTS, SEALED_TYPE
from client_sdk.sealing import (
    OVERHEAD_BYTES,
    SealingKey,
    is_public_key,
    open_upload,
    seal_upload,
)

NOW = 1_796_040_000.0  # 30 November 2026, 12:00 UTC
HEAD = """
schema = 1
[project]
name = "fuzzed"
lifetime_epsilon = 1000
contact = "telemetry@example.org"
"""
TAIL = """
question = "?"
sensitivity = "product"
epsilon = 1.0
owners = ["ui@example.org"]
starts = 2026-11-15
expires = 2026-12-10
"""
REGISTRY = loads(
    f"""{HEAD}
[metrics.theme]
type = "category"
values = ["light", "dark", "system", "other"]
catch_all = "other"
epoch = "week"
{TAIL}
[metrics.crashed]
type = "boolean"
epoch = "day"
{TAIL}
[metrics.plan]
type = "boolean"
epoch = "once"
{TAIL}
[metrics.page]
type = "string"
memoize = {{ epsilon_permanent = 4.0, distinct_values = 2 }}
rappor = {{ bits = 18, hashes = 2, cohorts = 64 }}
epoch = "month"
{TAIL}
"""
)
VERSIONS = Versions.of([REGISTRY])
DAY = date(2026, 11, 30)
ACTIVE = OpeningKey(1, "active", DAY, DAY, b"\x11" * 32)
RETIRED = OpeningKey(2, "retired", DAY, DAY, None)
PENDING = OpeningKey(3, "pending", DAY, DAY, b"\x33" * 32)
KEYS = Keys(
    b"p" * 32,
    (MasterKey(1, "active", DAY, DAY, b"m" * 32),),
    (WriteKey(1, "active", DAY, DAY, b"w" * 16),),
    (ACTIVE, RETIRED, PENDING),
)
RECIPIENT = Recipient(b"\x22" * 32)


def intake(data: bytes) -> None:
    """A body is malformed, or exactly what a reader of JSON sees in it."""
    try:
        parse_enrolment(data)
        assert json.loads(data) == {}
    except Malformed as error:
        said_well(error)
    try:
        upload = parse(data)
    except Malformed as error:
        said_well(error)
        return
    seen = json.loads(data)
    assert (seen["device"], seen["nonce"]) == (upload.device, upload.nonce)
    assert seen["sequence"] == upload.sequence and seen["version"] == 1
    assert 1 <= len(upload.reports) <= MAX_BATCH_REPORTS
    for report, told in zip(upload.reports, seen["reports"], strict=True):
        assert told == {name: getattr(report, name) for name in told} and len(told) == 5
    try:
        batch = judge(upload, VERSIONS, NOW)
    except Malformed as error:
        said_well(error)
        return
    assert len(batch.verdicts) == len(upload.reports)
    for report, verdict in zip(upload.reports, batch.verdicts, strict=True):
        if isinstance(verdict, Candidate):
            metric = VERSIONS.metrics[report.metric, report.fingerprint]
            wide = 2 if metric.mechanism.kind == "cell" else (metric.mechanism.cells + 7) // 8
            assert len(verdict.row) == 2 + wide and verdict.charge > 0


def said_well(error: Malformed) -> None:
    """An error names a place and a rule, in few words."""
    assert error.field and error.detail and str(error).isprintable()
    assert len(str(error)) < 200


def body(data: bytes) -> None:
    """A body that is taken has the length that was announced, in a type that is taken.

    The input is Content-Length, Transfer-Encoding, Content-Encoding, Content-Type and body, with a
    line feed after each but the last; an empty header is not sent.
    """
    head, content = data.split(b"\n", 4)[:4], b"".join(data.split(b"\n", 4)[4:])
    names = ("CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING", "HTTP_CONTENT_ENCODING", "CONTENT_TYPE")
    sent = {name: value.decode("latin-1") for name, value in zip(names, head, strict=False)}
    headers = {name: value for name, value in sent.items() if value}

    def request() -> Request:
        fixed = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "wsgi.input": io.BytesIO(content)}
        return Request(headers | fixed)

    for plain in (True, False):
        try:
            taken, sealed = read_upload(request(), plain=plain)
        except Problem as problem:
            problem.response()
        else:
            kept_its_length(taken, content, headers)
            assert len(taken) <= MAX_BATCH_BYTES + (OVERHEAD_BYTES if sealed else 0)
            kind = headers["CONTENT_TYPE"].partition(";")[0].strip().lower()
            assert kind == (SEALED_TYPE if sealed else JSON_TYPE) and (sealed or plain)
    try:
        taken = read_json_body(request())
    except Problem as problem:
        problem.response()
    else:
        if taken:
            kept_its_length(taken, content, headers)


def kept_its_length(taken: bytes, content: bytes, headers: Mapping[str, str]) -> None:
    assert len(taken) == int(headers["CONTENT_LENGTH"]) and content.startswith(taken)
    assert "HTTP_TRANSFER_ENCODING" not in headers
    coding = headers.get("HTTP_CONTENT_ENCODING", "identity").strip().lower()
    assert coding == "identity"


def unsealing(data: bytes) -> None:
    """Only what was sealed to an open key is opened, and one bit makes it another.

    The first byte says what is done with the rest: 0 nothing, 1 it is sealed, 2 and more it is
    sealed and then one bit of it is turned.
    """
    act, rest = data[:1] or b"\0", data[1:]
    if act == b"\0":
        try:
            unsealed(KEYS, rest)
        except Problem as problem:
            assert problem.kind in ("malformed", "unknown_sealing_key")
            problem.response()
        else:
            raise AssertionError("opened what nobody sealed")
        return
    mac, content = rest[:32].ljust(32, b"\0").hex(), rest[32:]
    sealed = seal_upload(ACTIVE.public, content, mac)
    assert len(sealed) == len(content) + OVERHEAD_BYTES
    if act == b"\1":
        if content:
            assert unsealed(KEYS, sealed) == (content, mac)
        return
    at = int.from_bytes(act + rest[:2]) % (8 * len(sealed))
    turned = bytearray(sealed)
    turned[at // 8] ^= 1 << at % 8
    try:
        unsealed(KEYS, bytes(turned))
    except Problem as problem:
        assert problem.kind in ("malformed", "unknown_sealing_key")
    else:
        # X25519 ignores the highest bit of a key (RFC 7748, 5), but HPKE binds it.
        raise AssertionError(f"opened with bit {at} turned")


def hpke(data: bytes) -> None:
    """What nobody sealed is not opened; 32 bytes are a key that can be sealed to, or none."""
    for recipient in (RECIPIENT, ACTIVE.recipient):
        for info in (b"", b"sottovoce upload v1"):
            try:
                recipient.open(data, info, data[:3])
            except CannotOpen:
                pass
            else:
                raise AssertionError("opened what nobody sealed")
    try:
        open_upload(RECIPIENT, data)
    except CannotOpen:
        pass
    else:
        raise AssertionError("opened what nobody sealed")
    public = data[:KEY_BYTES]
    if is_public_key(public):
        assert seal_upload(SealingKey(1, public), b"{}", "0" * 64)


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "intake": intake,
    "body": body,
    "unsealing": unsealing,
    "hpke": hpke,
}
