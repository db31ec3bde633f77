"""Invitations: links that are used once, each for one signature that does not see what it signs.

A survey's key lies in the store, sealed under a key derived from the pseudonym key: so all servers
have the same one, whoever makes the first invitations, it is in the store's backup with what it
belongs to, and who steals the store has no use for it. Two servers with two keys would not only
turn respondents away: which key signed would tell them apart.
"""

import hmac
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from aggregator.connection import StoreRefused
from aggregator.store.invitations import Figures, Invitations
from aggregator.survey.blind_signatures import PrivateKey
from client_sdk.survey.names import NAME

TOKEN_BYTES = 16
TOKEN = re.compile(rf"[0-9a-f]{{{2 * TOKEN_BYTES}}}")
MOST_AT_ONCE = 1000
_NONCE_BYTES = 12


@dataclass(frozen=True)
class SurveyKeys:
    """The keys of a project's surveys.

    Args:
        invitations: Of the store.
        pseudonym_key: Of the project.
    """

    invitations: Invitations
    pseudonym_key: bytes

    def of(self, survey: str, today: date) -> PrivateKey | None:
        """Return a survey's key, None if nobody is invited to it, or it is over.

        Args:
            survey: Its name, or what somebody takes for one.
            today: UTC.

        Raises:
            StoreUnavailable: The store cannot be asked.
            StoreRefused: The key was sealed under another pseudonym key, or changed.
        """
        if not NAME.fullmatch(survey):
            return None
        sealed = self.invitations.key(survey, today)
        return None if sealed is None else _opened(self.pseudonym_key, survey, sealed)

    def open(self, survey: str, last_day: date) -> PrivateKey:
        """Return a survey's key, made now if it has none yet, for use until a day (UTC)."""
        if not NAME.fullmatch(survey):
            raise ValueError(f"survey must match {NAME.pattern}, got {survey!r}")
        sealed = _sealed(self.pseudonym_key, survey, PrivateKey.fresh())
        kept = self.invitations.open(survey, sealed, last_day)
        return _opened(self.pseudonym_key, survey, kept)


def invite(
    invitations: Invitations,
    survey: str,
    count: int,
    token: Callable[[int], str] = secrets.token_hex,
) -> Iterator[list[str]]:
    """Make invitations, and yield their tokens some at a time, each when the store has it.

    They are kept nowhere: the store has their digests.
    """
    for made in range(0, count, MOST_AT_ONCE):
        tokens = [token(TOKEN_BYTES) for _ in range(min(MOST_AT_ONCE, count - made))]
        invitations.add(survey, tokens)
        yield tokens


def link(url: str, survey: str, token: str, key_digest: str) -> str:
    """Return what to send to somebody. No browser sends what stands behind the `#`.

    Args:
        url: Of the server.
        survey: Its name.
        token: The invitation.
        key_digest: Of the survey's key: pages take no other.
    """
    return f"{url.rstrip('/')}/s/{survey}#i={token}&k={key_digest}"


def told(figures: Figures) -> str:
    """Say how many invitations there are."""
    gone = figures.made - figures.used - figures.unused
    forgotten = f", {gone} forgotten" if gone else ""
    return f"{figures.made} made, {figures.used} used, {figures.unused} unused{forgotten}"


def _sealer(pseudonym_key: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(hmac.digest(pseudonym_key, b"sottovoce survey keys v1", "sha256"))


def _sealed(pseudonym_key: bytes, survey: str, key: PrivateKey) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + _sealer(pseudonym_key).encrypt(nonce, key.der(), survey.encode())


@lru_cache(maxsize=16)
def _opened(pseudonym_key: bytes, survey: str, sealed: bytes) -> PrivateKey:
    nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
    try:
        der = _sealer(pseudonym_key).decrypt(nonce, rest, survey.encode())
    except (InvalidTag, ValueError) as error:
        raise StoreRefused(
            f"the key of survey {survey} was changed in the store, or sealed under another "
            "pseudonym key: put both back"
        ) from error
    return PrivateKey.from_der(der)
