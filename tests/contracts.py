"""Answers held against an OpenAPI document, with the checks of schemathesis; and its parts."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import schemathesis
import yaml
from flask import Flask
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from client_sdk.report import PROBLEM_TYPE

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
_ROOT = "urn:contract"


class Contract:
    """One document.

    Args:
        text: YAML.
    """

    def __init__(self, text: str) -> None:
        self.document: dict[str, Any] = yaml.safe_load(text)
        self._listed = schemathesis.openapi.from_dict(self.document)
        unlisted = self.document | {"paths": {"/": {"get": {"responses": _ELSEWHERE}}}}
        self._unlisted = schemathesis.openapi.from_dict(unlisted)
        self._registry: Registry[Any] = Registry().with_resource(
            _ROOT, Resource(contents=self.document, specification=DRAFT202012)
        )

    def address_of(self, path: str) -> tuple[str, dict[str, str]]:
        """The address in the document that a path belongs to, if there is one, and its parts."""
        for address in self.document["paths"]:
            pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(address))
            found = re.fullmatch(pattern, path)
            if found:
                return address, found.groupdict()
        return path, {}

    def check(self, answer: Any, method: str, path: str, *, may_fail: bool = True) -> None:
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
        address, parts = self.address_of(urlsplit(path).path)
        if listed in self.document["paths"].get(address, {}):
            operation = self._listed[address][listed]
        else:
            operation = self._unlisted["/"]["get"]
        checks = CHECKS[:-1] if method == "HEAD" else CHECKS
        also = [] if may_fail else [not_a_server_error]
        operation.Case(path_parameters=parts).validate_response(answer, checks=[*checks, *also])

    def conforming(self, app: Flask) -> Flask:
        """Make the test clients of an app take no answer that is not in the contract."""
        contract = self

        class ConformingClient(FlaskClient):
            def open(self, *args: Any, **kwargs: Any) -> Any:
                answer = super().open(*args, **kwargs)
                contract.check(answer, answer.request.method, answer.request.path)
                return answer

        app.test_client_class = ConformingClient
        return app

    def followed(self, part: dict[str, Any]) -> dict[str, Any]:
        """A part of the document, or what it refers to if it does nothing else."""
        while part.keys() == {"$ref"}:
            found: Any = self.document
            for name in part["$ref"].removeprefix("#/").split("/"):
                found = found[name]
            part = found
        return part

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(method, address, operation) for all."""
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                yield method.upper(), path, operation

    def responses(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """(operation, status, response) for all; those of any address last."""
        for method, path, operation in self.operations():
            for status, response in operation["responses"].items():
                yield f"{method} {path}", int(status), self.followed(response)
        for name, status in (("NotFound", 404), ("MethodNotAllowed", 405)):
            yield "any", status, self.document["components"]["responses"][name]

    def kinds_of(self, response: dict[str, Any]) -> set[str]:
        """The problem kinds of a response."""
        media = response.get("content", {}).get("application/problem+json")
        if media is None:
            return set()
        whole = media["schema"]
        return {
            self.followed(schema)["properties"]["type"]["const"].removeprefix(PROBLEM_TYPE)
            for schema in whole.get("oneOf", [whole])
        }

    def promised(self) -> set[tuple[str, int, str | None]]:
        """(operation, status, problem kind) of every answer in the document."""
        return {
            (where, status, kind)
            for where, status, response in self.responses()
            for kind in self.kinds_of(response) or {None}
        }

    def examples(self) -> Iterator[tuple[dict[str, Any], object, str]]:
        """(schema, example, where it stands) for all of bodies and answers."""
        bodies = [
            (f"{m} {p}", o["requestBody"]) for m, p, o in self.operations() if "requestBody" in o
        ]
        answers = [(f"{where} {status}", response) for where, status, response in self.responses()]
        for where, part in bodies + answers:
            for name, media in part.get("content", {}).items():
                for example, shown in media.get("examples", {}).items():
                    yield media["schema"], shown["value"], f"{where} {name} {example}"

    def validate(self, schema: dict[str, Any], value: object) -> None:
        """Raise unless a value is of a schema of the document."""
        absolute = json.loads(json.dumps(schema).replace('"#/', f'"{_ROOT}#/'))
        Draft202012Validator(absolute, registry=self._registry).validate(value)
