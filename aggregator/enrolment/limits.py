"""How many devices may enrol in an hour: in all, and from one network.

Each enrolment is a fresh budget: whoever can enrol without end can stuff ballots without end. The
counters lie in the store, and where it cannot be asked nobody enrols. Servers count together what
comes from everywhere; each counts its networks for itself, as only it can name them. Counted are
those who show a write key, first by network, then by site: what one has too much uses up nothing
that is there for all.
"""

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any, TypeVar, cast

from flask import Flask, request
from flask_limiter import Limiter, RateLimitExceeded
from limits.storage import Storage

from aggregator.connection import StoreUnavailable
from aggregator.enrolment.networks import Networks, is_this_machine
from aggregator.problems import Problem
from aggregator.store.windows import Windows

T = TypeVar("T")
_WINDOW_SECONDS = 3600
NETWORKS_OF_A_SITE = 10
"""So many networks' limits are an IPv6 site's: whoever has 65536 networks has no more than that."""
_OF_PROXIES = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EnrolmentLimits:
    """Devices an hour; each at least 1.

    Attributes:
        project: From everywhere.
        network: From one /24 (IPv6: /64); ten times as many from one IPv6 /48. The server's own
            machine is no network.
    """

    project: int = 100_000
    network: int = 300


DEFAULT_LIMITS = EnrolmentLimits()


def limited(
    app: Flask,
    windows: Windows,
    networks: Networks,
    limits: EnrolmentLimits,
    clock: Callable[[], float] = time.time,
    below: Callable[[int], int] = secrets.randbelow,
) -> Callable[[Callable[[], T]], T]:
    """Return what runs an enrolment if it is within the limits.

    Args:
        app: Whose requests it is called in.
        windows: The counters.
        networks: Names those who enrol.
        limits: How many may.
        clock: Unix time in seconds.
        below: Draws an integer below another, uniformly.

    It raises:
        Problem: `rate_limited`, with a moment in the next window to come again: one for each, for
            else all who wait would come as soon as it begins.
        StoreUnavailable: The counters cannot be asked.
    """
    limiter = Limiter(
        key_func=_project,
        app=app,
        storage_uri="sottovoce://",
        storage_options=cast(Any, {"windows": windows, "clock": clock}),
        strategy="fixed-window",
        key_prefix="enrol",
        swallow_errors=False,
        headers_enabled=False,
    )

    # It would log every refusal, and that is how an attack fills disks.
    limiter.logger.setLevel(logging.WARNING)

    # Several functions, for the limits of one are checked in an order that is not ours to choose.
    @limiter.limit(
        f"{limits.network} per hour",
        key_func=lambda: networks.name(_address()),
        exempt_when=_is_from_here,
    )
    def within_network(enrol: Callable[[], T]) -> T:
        return within_site(enrol)

    @limiter.limit(
        f"{NETWORKS_OF_A_SITE * limits.network} per hour",
        key_func=lambda: networks.site_name(_address()) or "",
        exempt_when=lambda: _is_from_here() or networks.site_name(_address()) is None,
    )
    def within_site(enrol: Callable[[], T]) -> T:
        return within_project(enrol)

    @limiter.limit(f"{limits.project} per hour", key_func=_project)
    def within_project(enrol: Callable[[], T]) -> T:
        return enrol()

    warned = False

    def run(enrol: Callable[[], T]) -> T:
        nonlocal warned
        try:
            return within_network(enrol)
        except RateLimitExceeded:
            if not warned:
                warned = True
                _log.warning("a limit of enrolments is reached%s", _hint())
            breached = limiter.current_limit
            left = 0.0 if breached is None else max(0.0, breached.reset_at - clock())
            pause = left + 1 + below(_WINDOW_SECONDS)
            detail = "too many devices enrol now; nothing is lost, try again after the pause"
            raise Problem("rate_limited", detail, pause_seconds=ceil(pause)) from None

    return run


def _project() -> str:
    return "project"


def _hint() -> str:
    """Help an operator whose proxy looks like one network that enrols all devices."""
    if _came_by_an_unnamed_proxy():
        return "; if requests come through a proxy, SOTTOVOCE_TRUSTED_PROXIES must say so"
    return ""


def _came_by_an_unnamed_proxy() -> bool:
    named = "werkzeug.proxy_fix.orig" in request.environ
    return not named and any(header in request.headers for header in _OF_PROXIES)


def _is_from_here() -> bool:
    """Say whether nobody but this machine can have sent it: a proxy on it sends for everybody."""
    return is_this_machine(_address()) and not _came_by_an_unnamed_proxy()


def _address() -> str | None:
    return request.remote_addr


class StoreStorage(Storage):
    """Lets `limits` count in our store, under its keys, errors and timeouts, single or cluster."""

    STORAGE_SCHEME = ["sottovoce"]  # noqa: RUF012 - as its base class declares it

    def __init__(self, uri: str, windows: Windows, clock: Callable[[], float], **options: Any):
        super().__init__(uri, **options)
        self._windows = windows
        self._clock = clock

    @property
    def base_exceptions(self) -> type[Exception]:
        return StoreUnavailable

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return self._windows.add(key, amount, expiry)

    def get(self, key: str) -> int:
        return self._windows.sum(key)

    def get_expiry(self, key: str) -> float:
        return self._clock() + self._windows.remaining_seconds(key)

    def check(self) -> bool:
        self._windows.sum("check")
        return True

    def reset(self) -> int | None:
        raise NotImplementedError("windows end by themselves")  # as in limits' own for memcached

    def clear(self, key: str) -> None:
        self._windows.forget(key)
