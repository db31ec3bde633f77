"""Errors on the wire: problem documents (RFC 9457), one kind each."""

import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import ClassVar

from flask import Response

from client_sdk.report import PROBLEM_TYPE

RETRY_AFTER_SECONDS = range(5, 66)
"""Drawn from for each answer, so that devices come back over a minute and not all at once."""

_KINDS: Mapping[str, tuple[HTTPStatus, str]] = {
    "malformed": (HTTPStatus.BAD_REQUEST, "The request is not of the required form"),
    "bad_write_key": (HTTPStatus.UNAUTHORIZED, "The write key is missing or wrong"),
    "bad_mac": (HTTPStatus.UNAUTHORIZED, "The MAC is missing or wrong"),
    "identity_revoked": (HTTPStatus.UNAUTHORIZED, "The device must enrol anew"),
    "unknown_sealing_key": (HTTPStatus.BAD_REQUEST, "The upload is sealed to another key"),
    "not_found": (HTTPStatus.NOT_FOUND, "There is nothing at this address"),
    "method_not_allowed": (HTTPStatus.METHOD_NOT_ALLOWED, "This address takes another method"),
    "clone_suspected": (HTTPStatus.CONFLICT, "The sequence was used by another batch"),
    "erased": (HTTPStatus.GONE, "The device was erased"),
    "length_required": (HTTPStatus.LENGTH_REQUIRED, "The length must be given in advance"),
    "too_large": (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request is too large"),
    "unsupported_media": (
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "The body is not of a type taken here",
    ),
    "sealing_required": (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Uploads must be sealed"),
    "rate_limited": (HTTPStatus.TOO_MANY_REQUESTS, "Too many devices enrol now"),
    "internal": (HTTPStatus.INTERNAL_SERVER_ERROR, "The server failed"),
    "unavailable": (HTTPStatus.SERVICE_UNAVAILABLE, "The server cannot serve now"),
}

REFUSALS = tuple(
    kind
    for kind in _KINDS
    if kind not in ("not_found", "method_not_allowed", "clone_suspected")  # the store counts clones
)
"""Why a server process may refuse an upload or an enrolment."""


class Problem(Exception):
    """A request that is not served, and why.

    Args:
        kind: A key of the table above.
        detail: What is wrong, in words; never a value that was sent.
        field: The header or part of the body that is wrong.
        more: Further members of the document.
        pause_seconds: How long to wait before trying again; None for the usual pause of a 503.
    """

    kinds: ClassVar[Mapping[str, tuple[HTTPStatus, str]]] = _KINDS

    def __init__(
        self,
        kind: str,
        detail: str,
        field: str | None = None,
        more: Mapping[str, object] | None = None,
        pause_seconds: int | None = None,
    ) -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail
        self.field = field
        self.more = more or {}
        self.pause_seconds = pause_seconds

    def response(self) -> Response:
        """Return the document as an answer."""
        status, title = self.kinds[self.kind]
        document: dict[str, object] = {
            "type": PROBLEM_TYPE + self.kind,
            "title": title,
            "status": int(status),
            "detail": self.detail,
        }
        if self.field is not None:
            document["field"] = self.field
        answer = Response(
            json.dumps(document | dict(self.more)),
            status=int(status),
            content_type="application/problem+json",
        )
        pause = self.pause_seconds
        if pause is None and status in (
            HTTPStatus.SERVICE_UNAVAILABLE,
            HTTPStatus.TOO_MANY_REQUESTS,
        ):
            pause = secrets.choice(RETRY_AFTER_SECONDS)
        if pause is not None:
            answer.headers["Retry-After"] = str(pause)
        if self.kind == "bad_write_key":
            answer.headers["WWW-Authenticate"] = "Bearer"
        return answer
