"""The shape of a conformance case: a mechanism, what was asked of it, and how close it comes."""

from typing import NamedTuple

from client_sdk.mechanisms import Mechanism

WORDS = ["chrome 155", "firefox 147", "safari 26", "edge 155", "", "ü", "a" * 1024]


class Case(NamedTuple):
    """One mechanism for the exact audit.

    Attributes:
        name: Of the test.
        mechanism: What is audited.
        configured: Epsilon as it was asked for.
        attained: Whether two of the audited values attain the stated loss.
    """

    name: str
    mechanism: Mechanism
    configured: str
    attained: bool = True
