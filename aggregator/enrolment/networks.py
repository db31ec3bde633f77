"""Which network a request comes from, as a name that says nothing to whoever reads it later.

An address is cut to its network (/24, IPv6: /64) or site (IPv6: /48) and then named by a MAC under
a key of the day. The secret behind those keys is drawn when the server starts and is in no file. So
neither store nor logs hold an address, or anything from which one could be found.
"""

import hmac
import os
import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from client_sdk.epochs import DAY_SECONDS

SECRET_BYTES = 32
_PREFIX = {4: 24, 6: 64}
_SITE_PREFIX = 48
"""What one customer of a provider is commonly given: 65536 networks."""
_WITH_PORT = re.compile(r"\[([^\[\]]*)\](?::\d{1,5})?|([0-9.]+):\d{1,5}")
"""As some proxies write an address; the brackets without a port too."""


class Networks:
    """Names networks.

    Args:
        secret: 32 random bytes; the same in all processes that count together.
        clock: Unix time in seconds.
    """

    def __init__(self, secret: bytes, clock: Callable[[], float]) -> None:
        self._secret = secret
        self._clock = clock

    def name(self, address: str | None) -> str:
        """Return today's name (32 hex digits) of an address's network.

        Whoever has no address that can be read shares a network with all others like that.
        """
        return self._named(_network(address))

    def site_name(self, address: str | None) -> str | None:
        """Return today's name of the site that an IPv6 address's network is part of, else None."""
        found = _parsed(address)
        return self._named(_cut(found, _SITE_PREFIX)) if isinstance(found, IPv6Address) else None

    def _named(self, network: str) -> str:
        day = int(self._clock() // DAY_SECONDS)
        key = hmac.digest(self._secret, day.to_bytes(8, "big"), "sha256")
        return hmac.digest(key, network.encode(), "sha256").hex()[:32]


def is_this_machine(address: str | None) -> bool:
    """Say whether a request comes from the server's own machine."""
    found = _parsed(address)
    return found is not None and found.is_loopback


def fresh_secret() -> bytes:
    """Draw a secret."""
    return os.urandom(SECRET_BYTES)


def _network(address: str | None) -> str:
    found = _parsed(address)
    if found is None:
        return "unreadable"
    return _cut(found, _PREFIX[found.version])


def _cut(address: IPv4Address | IPv6Address, prefix: int) -> str:
    return str(ip_network((address, prefix), strict=False))


def _parsed(address: str | None) -> IPv4Address | IPv6Address | None:
    text = address or ""
    if match := _WITH_PORT.fullmatch(text):
        text = match[1] or match[2] or ""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        return found.ipv4_mapped or found
    return found
