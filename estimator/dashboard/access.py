"""Who may read: whoever shows a read key or is logged in with one, and on this machine everybody.

A server that is bound to loopback asks nobody who names it as this machine does. A page that has
made its own name point here (DNS rebinding) and a proxy in front of it are somebody else.
"""

import hmac
import ipaddress
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from flask import Flask, Request, request, session
from flask.sessions import SecureCookieSessionInterface

from aggregator.keyring.keys import KeySource
from estimator.dashboard.problems import ReadProblem

SESSION_HOURS = 12
_OF_PROXIES = (
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Proto",
    "X-Forwarded-Server",
    "X-Real-IP",
)
_SESSION_KEY = b"sottovoce dashboard sessions v1"
_READER = "reader"


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches a host of this name."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Access:
    """Decides about each request.

    Attributes:
        keys: Asked each time; a key that was retired reads nothing more, and ends its sessions.
        open_here: Whether requests from this machine need no key.
    """

    keys: KeySource
    open_here: bool

    def require(self) -> None:
        """Let the current request pass, or raise ReadProblem."""
        if not self.granted():
            detail = "send it as a bearer token, or log in at /login"
            raise ReadProblem("bad_read_key", detail, "Authorization")

    def granted(self) -> bool:
        """Say whether the current request may read."""
        if self.needs_no_key() or self.reader() is not None:
            return True
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._knows(shown)

    def needs_no_key(self) -> bool:
        """Say whether the current request comes from this machine, and that is enough."""
        return self.open_here and _from_here(request)

    def reader(self) -> str | None:
        """Return whose key the current session was opened with; None without a session."""
        number = session.get(_READER)
        for key in self.keys.current().read_keys:
            if key.id == number and key.state == "active":
                return key.label
        return None

    def log_in(self, shown: str) -> bool:
        """Open a session for whoever shows a read key; say whether it is one."""
        key = self.keys.current().reader(shown.strip())
        if key is None:
            return False
        session[_READER] = key.id
        session.permanent = True
        return True

    def log_out(self) -> None:
        """End the current session."""
        session.clear()

    def _knows(self, shown: str) -> bool:
        return self.keys.current().reader(shown.strip()) is not None


class _Sessions(SecureCookieSessionInterface):
    def get_cookie_secure(self, app: Flask) -> bool:
        """Keep the cookie to TLS wherever TLS is: here, or at a proxy that says so."""
        return request.is_secure or request.headers.get("X-Forwarded-Proto") == "https"


def keep_sessions(app: Flask, keys: KeySource) -> None:
    """Let an application keep sessions in signed cookies; nothing is kept here.

    The cookie says which read key was shown, never the key, and ends by itself.
    """
    app.secret_key = hmac.digest(keys.current().pseudonym_key, _SESSION_KEY, "sha256")
    app.config.update(
        SESSION_COOKIE_NAME="sottovoce_session",
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,
        PERMANENT_SESSION_LIFETIME=timedelta(hours=SESSION_HOURS),
    )
    app.session_interface = _Sessions()


def _from_here(asked: Request) -> bool:
    try:
        name = urlsplit(f"//{asked.host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) and not any(header in asked.headers for header in _OF_PROXIES)
