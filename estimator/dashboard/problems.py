"""Errors of the read API: problem documents of the server's form, with kinds of their own."""

from http import HTTPStatus

from flask import Flask, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.problems import Problem
from estimator.errors import NotPublishable

KINDS = {
    "malformed": (HTTPStatus.BAD_REQUEST, "The request is not of the required form"),
    "bad_read_key": (HTTPStatus.UNAUTHORIZED, "The read key is missing or wrong"),
    "not_found": (HTTPStatus.NOT_FOUND, "There is nothing at this address"),
    "method_not_allowed": (HTTPStatus.METHOD_NOT_ALLOWED, "This address takes another method"),
    "several_versions": (HTTPStatus.CONFLICT, "Several versions of the metric were released"),
    "internal": (HTTPStatus.INTERNAL_SERVER_ERROR, "The server failed"),
    "unavailable": (HTTPStatus.SERVICE_UNAVAILABLE, "The server cannot serve now"),
}


class ReadProblem(Problem):
    """A reading request that is not served, and why."""

    kinds = KINDS

    def response(self) -> Response:
        answer = super().response()
        if self.kind == "bad_read_key":
            answer.headers["WWW-Authenticate"] = "Bearer"
        return answer


def answer_errors_as_problems(app: Flask) -> None:
    """Make every error of an application a problem document."""

    @app.errorhandler(ReadProblem)
    def problem(error: ReadProblem) -> Response:
        return error.response()

    @app.errorhandler(NotPublishable)
    @app.errorhandler(StoreUnavailable)
    @app.errorhandler(StoreRefused)
    def unavailable(error: Exception) -> Response:
        return ReadProblem("unavailable", str(error)).response()

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        kinds = {404: "not_found", 405: "method_not_allowed"}
        code = error.code or 500
        kind = kinds.get(code, "malformed" if code < 500 else "internal")
        answer = ReadProblem(kind, error.name).response()
        if isinstance(error, MethodNotAllowed):
            answer.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
        return answer
