"""Intake: from the bytes of an upload to a batch that the store may judge. No I/O.

Two steps with the MAC check between them. `parse` reads the form, which needs no registry, and
refuses whatever is not exactly that form. `judge` looks at what the reports say: one that cannot be
a response of its metric makes the batch malformed, one that comes too early or too late, or for an
unknown metric, is refused alone.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

from aggregator.batch import Batch, Candidate
from aggregator.catalogue import Versions
from aggregator.terms import Terms
from client_sdk.mechanisms.base import MOST_BITS, MOST_CELLS, MOST_COHORTS
from client_sdk.report import FORMAT_VERSION, MAX_BATCH_BYTES, MAX_BATCH_REPORTS, RefusalReason

MOST_SEQUENCE = 2**32 - 1
MOST_EPOCH = 90_000
"""The year 2216 in days; as months still within the calendar's four digits of the year."""
CLOCK_TOLERANCE_SECONDS = 600.0
_DIGEST_BYTES = 16

_NAME = re.compile(r"[a-z][a-z0-9_.]{0,63}")
_HEX_16 = re.compile(r"[0-9a-f]{16}")
_HEX_32 = re.compile(r"[0-9a-f]{32}")
_HEX_RESPONSE = re.compile(rf"[0-9a-f]{{1,{MOST_BITS // 4}}}")
_BATCH_KEYS = dict.fromkeys(("version", "device", "sequence", "nonce", "reports"))
_ERASURE_KEYS = dict.fromkeys(("version", "device", "nonce"))
_ADMISSION_KEYS = dict.fromkeys(("invitation", "blinded"))
_REPORT_KEYS = dict.fromkeys(("metric", "fingerprint", "epoch", "cohort", "response"))

_Read = TypeVar("_Read")
_Made = TypeVar("_Made")


class Malformed(Exception):
    """An upload that is refused as a whole.

    Attributes:
        field: The part of the body that is wrong, like `reports[3].response`.
        detail: The rule it breaks. Never shows a value: bodies hold device ids.
    """

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field} {detail}")
        self.field = field
        self.detail = detail


class SentReport(NamedTuple):
    """A report of the right form; whether it fits its metric is not known yet."""

    metric: str
    fingerprint: str
    epoch: int
    cohort: int
    response: int | str


@dataclass(frozen=True, slots=True)
class Upload:
    """A body of the right form. Who sent it is not known yet."""

    device: str
    sequence: int
    nonce: str
    digest: bytes
    reports: tuple[SentReport, ...]


def parse(body: bytes) -> Upload:
    """Read an upload's form.

    Raises:
        Malformed: It is not exactly of that form.
    """
    if len(body) > MAX_BATCH_BYTES:
        raise Malformed("body", f"must have at most {MAX_BATCH_BYTES} bytes")
    batch = _object(_decoded(body), "body", _BATCH_KEYS)
    _integer(batch["version"], "version", FORMAT_VERSION, FORMAT_VERSION)
    reports = batch["reports"]
    if not isinstance(reports, list) or not 1 <= len(reports) <= MAX_BATCH_REPORTS:
        raise Malformed("reports", f"must be a list of 1 to {MAX_BATCH_REPORTS} reports")
    upload = Upload(
        device=_text(batch["device"], "device", _HEX_32, "32 lower-case hex digits"),
        sequence=_integer(batch["sequence"], "sequence", 1, MOST_SEQUENCE),
        nonce=_text(batch["nonce"], "nonce", _HEX_32, "32 lower-case hex digits"),
        digest=hashlib.sha256(body).digest()[:_DIGEST_BYTES],
        reports=_each(_sent_report, reports),
    )
    _no_key_twice(body, len(_BATCH_KEYS) + len(reports) * len(_REPORT_KEYS))
    return upload


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """A request to erase a device. Who sent it is not known yet."""

    device: str
    nonce: str


def parse_erasure(body: bytes) -> ErasureRequest:
    """Read the form of a request to erase a device.

    Raises:
        Malformed: It is not exactly of that form.
    """
    if len(body) > MAX_BATCH_BYTES:
        raise Malformed("body", f"must have at most {MAX_BATCH_BYTES} bytes")
    request = _object(_decoded(body), "body", _ERASURE_KEYS)
    _integer(request["version"], "version", FORMAT_VERSION, FORMAT_VERSION)
    erasure = ErasureRequest(
        device=_text(request["device"], "device", _HEX_32, "32 lower-case hex digits"),
        nonce=_text(request["nonce"], "nonce", _HEX_32, "32 lower-case hex digits"),
    )
    _no_key_twice(body, len(_ERASURE_KEYS))
    return erasure


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A request to be admitted to a survey; whether its invitation is good is not known yet."""

    invitation: str
    blinded: str


def parse_admission(body: bytes, size: int) -> AdmissionRequest:
    """Read the form of a request to be admitted to a survey.

    Args:
        body: As it came.
        size: Bytes of a blinded message.

    Raises:
        Malformed: It is not exactly of that form.
    """
    asked = _object(_decoded(body), "body", _ADMISSION_KEYS)
    hex_digits = re.compile(rf"[0-9a-f]{{{2 * size}}}")
    request = AdmissionRequest(
        _text(asked["invitation"], "invitation", _HEX_32, "32 lower-case hex digits"),
        _text(asked["blinded"], "blinded", hex_digits, f"{2 * size} lower-case hex digits"),
    )
    _no_key_twice(body, len(_ADMISSION_KEYS))
    return request


def parse_enrolment(body: bytes) -> None:
    """Check that a request to enrol says nothing: the server draws the id, no client does.

    Raises:
        Malformed: It is anything but `{}`.
    """
    document = _decoded(body)
    if not isinstance(document, dict):
        raise Malformed("body", "must be empty or {}")
    if "device" in document:
        raise Malformed("device", "must not be sent: the server draws it")
    if document:
        raise Malformed("body", "must be empty or {}")


def _nobody(survey: str) -> bool:
    return False


def judge(
    upload: Upload, versions: Versions, now: float, admitted: Callable[[str], bool] = _nobody
) -> Batch:
    """Decide about each report as far as that is possible without the store.

    Args:
        upload: From a device whose MAC has been checked.
        versions: What the server knows of metrics.
        now: Unix time in seconds.
        admitted: Whether that device is admitted to a survey by invitation, by the survey's name.

    Raises:
        Malformed: A report cannot come from its metric's mechanism.
    """
    verdicts = _each(lambda report: _verdict(report, versions, now, admitted), upload.reports)
    return Batch(upload.device, upload.sequence, upload.digest, verdicts)


def refuses_some(batch: Batch) -> bool:
    """Say whether a report is refused already: for its fingerprint, or its metric's life."""
    return not all(isinstance(verdict, Candidate) for verdict in batch.verdicts)


def _each(check: Callable[[_Read], _Made], reports: Iterable[_Read]) -> tuple[_Made, ...]:
    """Check reports one by one; what is malformed is named by its report's place."""
    made: list[_Made] = []
    try:
        for report in reports:
            made.append(check(report))
    except Malformed as error:
        place = f"reports[{len(made)}]"
        field = f"{place}.{error.field}" if error.field else place
        raise Malformed(field, error.detail) from None
    return tuple(made)


def _verdict(
    report: SentReport, versions: Versions, now: float, admitted: Callable[[str], bool]
) -> Candidate | RefusalReason:
    terms = versions.terms(report.metric, report.fingerprint, report.epoch, now)
    if terms is None:
        return "unknown_fingerprint" if report.metric in versions.names else "unknown_metric"
    response = _fitting_response(report, terms)
    survey = versions.by_invitation.get(report.metric)
    if survey is not None and not admitted(survey):
        return "not_invited"
    if terms.begins > now + CLOCK_TOLERANCE_SECONDS:
        return "too_early"
    if not terms.in_life:
        return "epoch_closed"
    row = terms.group.row(report.cohort, response)
    return Candidate(terms.group, row, terms.charge, terms.memo)


def _fitting_response(report: SentReport, terms: Terms) -> int:
    if report.cohort >= terms.cohorts:
        raise Malformed("cohort", f"must lie in 0..{terms.cohorts - 1}")
    if terms.once and report.epoch != 0:
        raise Malformed("epoch", "must be 0 for a metric that is asked once")
    cells, digits = terms.group.cells, terms.digits
    if not digits:
        return _integer(report.response, "response", 0, cells - 1)
    if not isinstance(report.response, str) or len(report.response) != digits:
        raise Malformed("response", f"must be a text of exactly {digits} hex digits")
    response = int(report.response, 16)
    if response >> cells:
        raise Malformed("response", f"must have no bit beyond the {cells} of its metric")
    return response


def _sent_report(value: object) -> SentReport:
    report = _object(value, "", _REPORT_KEYS)
    response = report["response"]
    if isinstance(response, str):
        _text(response, "response", _HEX_RESPONSE, "lower-case hex digits")
    else:
        _integer(response, "response", 0, MOST_CELLS - 1)
    return SentReport(
        _text(report["metric"], "metric", _NAME, "the name of a metric"),
        _text(report["fingerprint"], "fingerprint", _HEX_16, "16 lower-case hex digits"),
        _integer(report["epoch"], "epoch", 0, MOST_EPOCH),
        _integer(report["cohort"], "cohort", 0, MOST_COHORTS - 1),
        response,
    )


def _decoded(body: bytes) -> object:
    try:
        return json.loads(
            body.decode("utf-8"),
            parse_float=_no_float,
            parse_constant=_no_float,
        )
    except UnicodeDecodeError as error:
        raise Malformed("body", "must be UTF-8") from error
    except RecursionError as error:
        raise Malformed("body", "must not nest deeper than a batch does") from error
    except ValueError as error:  # also an integer of so many digits that reading it would take long
        raise Malformed("body", "must be JSON") from error


def _no_key_twice(body: bytes, keys: int) -> None:
    """Refuse a body whose keys, as read, are not all that it gives.

    A key that was given twice is in no dictionary any more, but its colon is in the body; and what
    has been checked by now holds no colon but one for each of its keys.
    """
    if body.count(b":") != keys:
        raise Malformed("body", "must not give a key twice")


def _no_float(text: str) -> NoReturn:
    raise Malformed("body", "must hold no numbers but integers")


def _object(value: object, path: str, keys: Mapping[str, None]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Malformed(path, "must be an object")
    if value.keys() != keys.keys():
        for key in keys:
            if key not in value:
                raise Malformed(key, "is required")
        # An unknown key is named by its place only: it could be anything.
        raise Malformed(path, f"must have no keys but {', '.join(keys)}")
    return cast(Mapping[str, Any], value)


def _integer(value: object, path: str, least: int, most: int) -> int:
    # type(), because True is an int to isinstance.
    if type(value) is not int or not least <= value <= most:
        wanted = str(least) if least == most else f"an integer in {least}..{most}"
        raise Malformed(path, f"must be {wanted}")
    return value


def _text(value: object, path: str, pattern: re.Pattern[str], wanted: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise Malformed(path, f"must be {wanted}")
    return value
