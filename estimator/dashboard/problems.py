"""Errors of the read API: problem documents of the server's form, with kinds of their own."""

from http import HTTPStatus

from flask import Flask, Response

from aggregator.problems import COMMON_KINDS, Problem, answer_errors_as_problems
from estimator.errors import NotPublishable

KINDS = {
    **COMMON_KINDS,
    "bad_read_key": (HTTPStatus.UNAUTHORIZED, "The read key is missing or wrong"),
    "several_versions": (HTTPStatus.CONFLICT, "Several versions of the metric were released"),
}


class ReadProblem(Problem):
    """A reading request that is not served, and why."""

    kinds = KINDS
    bearer = "bad_read_key"


def answer_errors_as_read_problems(app: Flask) -> None:
    """Make every error of an application a problem document."""
    answer_errors_as_problems(app, ReadProblem)

    @app.errorhandler(NotPublishable)
    def unavailable(error: NotPublishable) -> Response:
        return ReadProblem("unavailable", str(error)).response()
