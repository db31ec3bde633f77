"""Errors on the wire: problem documents (RFC 9457), one kind each."""

import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import ClassVar

from flask import Flask, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from aggregator.connection import StoreRefused, StoreUnavailable
from client_sdk.report import PROBLEM_TYPE

RETRY_AFTER_SECONDS = range(5, 66)
"""Drawn from for each answer, so that devices come back over a minute and not all at once."""

Kinds = Mapping[str, tuple[HTTPStatus, str]]
"""Statuses and titles."""

COMMON_KINDS: Kinds = {
    "malformed": (HTTPStatus.BAD_REQUEST, "The request is not of the required form"),
    "not_found": (HTTPStatus.NOT_FOUND, "There is nothing at this address"),
    "method_not_allowed": (HTTPStatus.METHOD_NOT_ALLOWED, "This address takes another method"),
    "internal": (HTTPStatus.INTERNAL_SERVER_ERROR, "The server failed"),
    "unavailable": (HTTPStatus.SERVICE_UNAVAILABLE, "The server cannot serve now"),
}
"""What any of our servers may answer."""

_KINDS: Kinds = {
    **COMMON_KINDS,
    "bad_write_key": (HTTPStatus.UNAUTHORIZED, "The write key is missing or wrong"),
    "bad_admission": (HTTPStatus.FORBIDDEN, "The admission is good for no survey"),
    "unknown_survey": (HTTPStatus.NOT_FOUND, "There is no such survey by invitation"),
    "invitation_unknown": (HTTPStatus.FORBIDDEN, "There is no such invitation"),
    "invitation_used": (HTTPStatus.CONFLICT, "The invitation was used"),
    "bad_mac": (HTTPStatus.UNAUTHORIZED, "The MAC is missing or wrong"),
    "identity_revoked": (HTTPStatus.UNAUTHORIZED, "The device must enrol anew"),
    "unknown_sealing_key": (HTTPStatus.BAD_REQUEST, "The upload is sealed to another key"),
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

    kinds: ClassVar[Kinds] = _KINDS
    bearer: ClassVar[str] = "bad_write_key"
    """The kind that asks for a bearer token."""

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
        if self.kind == self.bearer:
            answer.headers["WWW-Authenticate"] = "Bearer"
        return answer


def answer_errors_as_problems(app: Flask, problem: type[Problem] = Problem) -> None:
    """Make every error of an application a problem document.

    Args:
        app: The application.
        problem: The class of its problems.
    """

    @app.errorhandler(Problem)
    def as_document(error: Problem) -> Response:
        return error.response()

    @app.errorhandler(StoreUnavailable)
    @app.errorhandler(StoreRefused)
    def unavailable(error: Exception) -> Response:
        return problem("unavailable", str(error)).response()

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        code = error.code or 500
        kind = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}.get(code, "")
        if kind not in problem.kinds:
            kind = "malformed" if code < 500 else "internal"
        answer = problem(kind, error.name).response()
        if isinstance(error, MethodNotAllowed):
            answer.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
        return answer
