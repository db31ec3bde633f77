"""Answers held against aggregator/openapi.yaml, with the checks of schemathesis."""

from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import schemathesis
import yaml
from flask import Flask
from flask.testing import FlaskClient
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

PATH = files("aggregator").joinpath("openapi.yaml")
DOCUMENT: dict[str, Any] = yaml.safe_load(PATH.read_text(encoding="utf-8"))
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
_ELSEWHERE = {
    "404": {"$ref": "#/components/responses/NotFound"},
    "405": {"$ref": "#/components/responses/MethodNotAllowed"},
}
_CONTRACT = schemathesis.openapi.from_dict(DOCUMENT)
_UNLISTED = schemathesis.openapi.from_dict(
    DOCUMENT | {"paths": {"/": {"get": {"responses": _ELSEWHERE}}}}
)


def check(answer: Any, method: str, path: str, *, may_fail: bool = True) -> None:
    """Raise unless an answer is one that the contract gives.

    Args:
        answer: Of the test client, or of requests.
        method: Of the request.
        path: Of the request; its query does not matter.
        may_fail: Whether an answer of 5xx is in order.
    """
    if method == "OPTIONS" and answer.status_code == 200:
        assert answer.headers["Allow"]
        return
    listed = "get" if method == "HEAD" else method.lower()
    path = urlsplit(path).path
    if listed in DOCUMENT["paths"].get(path, {}):
        operation = _CONTRACT[path][listed]
    else:
        operation = _UNLISTED["/"]["get"]
    checks = CHECKS[:-1] if method == "HEAD" else CHECKS
    also = [] if may_fail else [not_a_server_error]
    operation.Case().validate_response(answer, checks=[*checks, *also])


class ConformingClient(FlaskClient):
    """A test client that takes no answer that is not in the contract."""

    def open(self, *args: Any, **kwargs: Any) -> Any:
        answer = super().open(*args, **kwargs)
        check(answer, answer.request.method, answer.request.path)
        return answer


def conforming(app: Flask) -> Flask:
    """Make the test clients of an app conforming ones."""
    app.test_client_class = ConformingClient
    return app
