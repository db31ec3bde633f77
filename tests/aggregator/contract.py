"""Answers held against aggregator/openapi.yaml, with the checks of schemathesis."""

from importlib.resources import files
from typing import Any

from tests.contracts import CHECKS, Contract

__all__ = ["CHECKS", "CONTRACT", "DOCUMENT", "PATH", "check", "conforming"]

PATH = files("aggregator").joinpath("openapi.yaml")
CONTRACT = Contract(PATH.read_text(encoding="utf-8"))
DOCUMENT: dict[str, Any] = CONTRACT.document
check = CONTRACT.check
conforming = CONTRACT.conforming
