"""Settings of the estimator's notifications: one list, read from the environment.

SOTTOVOCE_RELEASES_URL     where the releases directory is served; digests then link to its pages
SOTTOVOCE_DIGEST_HOUR      hour of the day, UTC, from which on the day's digest is sent (6)
SOTTOVOCE_SMTP_URL         mail server, smtp://user:password@host:587 with STARTTLS, or smtps://
                           with TLS from the first byte; what the password holds beside letters and
                           digits is percent-encoded. ?starttls=off: no TLS, for a relay on this
                           machine
SOTTOVOCE_MAIL_FROM        sender, an address or "Name <address>"; required with a mail server
SOTTOVOCE_WEBHOOK_URL      takes each digest as JSON by POST; https, or http to this machine
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.utils import parseaddr
from typing import Self
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from aggregator.settings import SettingsError

_PORTS = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True)
class MailServer:
    """A mail server, and how to log in.

    Attributes:
        host: Name or address.
        port: TCP port.
        user: None: without logging in.
        password: In no text of this object.
        security: starttls: encrypted before anything is said. tls: from the first byte. none.
    """

    host: str
    port: int
    user: str | None
    password: str = field(repr=False)
    security: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class NotifySettings:
    """What notifications are told; the table above says what each means."""

    releases_url: str | None = None
    digest_hour: int = 6
    mail_server: MailServer | None = None
    mail_from: Address | None = None
    webhook_url: str | None = field(default=None, repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            SettingsError: A variable breaks its rule. No value that may hold a password is shown.
        """
        server = _mail_server(environ.get("SOTTOVOCE_SMTP_URL"))
        sender = _sender(environ.get("SOTTOVOCE_MAIL_FROM"))
        if server is not None and sender is None:
            rule = "must name the sender where SOTTOVOCE_SMTP_URL is set"
            raise SettingsError("SOTTOVOCE_MAIL_FROM", rule, None)
        return cls(
            releases_url=_releases_url(environ.get("SOTTOVOCE_RELEASES_URL")),
            digest_hour=_hour(environ.get("SOTTOVOCE_DIGEST_HOUR"), cls.digest_hour),
            mail_server=server,
            mail_from=sender,
            webhook_url=_webhook_url(environ.get("SOTTOVOCE_WEBHOOK_URL")),
        )

    @property
    def notifies(self) -> bool:
        """Whether there is any way to tell anybody."""
        return self.mail_server is not None or self.webhook_url is not None


def address(text: str) -> Address | None:
    """Return an e-mail address, in ASCII; None for what is none: an owner may be a channel."""
    try:
        found = Address(addr_spec=text)
    except Exception:  # email raises its own errors and, for odd texts, IndexError and others
        return None
    complete = found.username and found.domain and found.addr_spec == text
    plain = text.isascii() and text.isprintable() and " " not in text
    return found if complete and plain else None


def _sender(text: str | None) -> Address | None:
    if not text:
        return None
    name, spec = parseaddr(text)
    found = address(spec)
    if found is None or not text.isprintable():
        rule = 'must be an address, or "Name <address>"'
        raise SettingsError("SOTTOVOCE_MAIL_FROM", rule, text)
    return Address(display_name=name, addr_spec=spec)


def _mail_server(text: str | None) -> MailServer | None:
    if not text:
        return None
    variable = "SOTTOVOCE_SMTP_URL"
    parts, port = _split(variable, text)
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/"):
        rule = "must be like smtp://user:password@host:587 or smtps://user:password@host:465"
        raise SettingsError(variable, rule, parts.scheme)
    query = parse_qs(parts.query, keep_blank_values=True)
    if query not in ({}, {"starttls": ["off"]}):
        raise SettingsError(variable, "takes ?starttls=off and no other option", list(query))
    security = "tls" if parts.scheme == "smtps" else "none" if query else "starttls"
    if (parts.username is None) != (parts.password is None):
        raise SettingsError(variable, "must hold user and password, or neither", "one of them")
    if security == "none" and parts.username is not None and not _is_here(parts.hostname):
        rule = "may not hold a password with starttls=off, except for this machine"
        raise SettingsError(variable, rule, parts.hostname)
    return MailServer(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        user=None if parts.username is None else unquote(parts.username),
        password=unquote(parts.password or ""),
        security=security,
    )


def _webhook_url(text: str | None) -> str | None:
    if not text:
        return None
    parts, _ = _split("SOTTOVOCE_WEBHOOK_URL", text)
    secure = parts.scheme == "https" or (parts.scheme == "http" and _is_here(parts.hostname or ""))
    if not secure or not parts.hostname:
        # What follows the scheme is often the secret by which a receiver knows its callers.
        rule = "must begin with https://, or with http:// and name this machine"
        raise SettingsError("SOTTOVOCE_WEBHOOK_URL", rule, parts.scheme)
    return text


def _releases_url(text: str | None) -> str | None:
    if not text:
        return None
    parts, _ = _split("SOTTOVOCE_RELEASES_URL", text)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.query or parts.fragment:
        rule = "must begin with https:// or http:// and have neither query nor fragment"
        raise SettingsError("SOTTOVOCE_RELEASES_URL", rule, parts.scheme)
    return text.rstrip("/")


def _split(variable: str, text: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(text)
        return parts, parts.port
    except ValueError:
        # Its message quotes the text.
        raise SettingsError(variable, "must be a URL", "something else") from None


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _hour(text: str | None, default: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and int(text) <= 23):
        raise SettingsError("SOTTOVOCE_DIGEST_HOUR", "must be an integer in 0..23", text)
    return int(text)
