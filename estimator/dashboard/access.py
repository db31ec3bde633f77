"""Who may read: whoever shows a read key, and on this machine everybody.

A server that is bound to loopback asks nobody who names it as this machine does. A page that has
made its own name point here (DNS rebinding) and a proxy in front of it are somebody else.
"""

import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from flask import Request, request

from aggregator.keyring.keys import KeySource
from estimator.dashboard.problems import ReadProblem

_OF_PROXIES = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches a host of this name."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def readers_only(keys: KeySource, *, open_here: bool) -> Callable[[], None]:
    """Return what lets the current request pass, or raises.

    Args:
        keys: Asked at each request; a key that was retired reads nothing more.
        open_here: Whether requests from this machine need no key.
    """

    def check() -> None:
        if open_here and _from_here(request):
            return
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not keys.current().may_read(shown.strip()):
            raise ReadProblem("bad_read_key", "send it as a bearer token", "Authorization")

    return check


def _from_here(asked: Request) -> bool:
    try:
        name = urlsplit(f"//{asked.host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) and not any(header in asked.headers for header in _OF_PROXIES)
