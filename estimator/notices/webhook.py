"""Digests as a signed POST of JSON to the operator's own software.

    Idempotency-Key: NAME         the same for each try of one digest
    Sottovoce-Signature: t=SECONDS,key=ID,ed25519=BASE64

The signature is that of the project's release-signing key over "sottovoce webhook v1", a NUL byte,
"SECONDS.NAME." and the body, byte for byte; docs/operations.md shows how a receiver checks it.
"""

import base64
import json
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from estimator.errors import NotDelivered
from estimator.notices.digest import Digest
from estimator.releases.signatures import Sign

KEY_HEADER = "Idempotency-Key"
SIGNATURE_HEADER = "Sottovoce-Signature"
TIMEOUT_SECONDS = 10.0
_LABEL = b"sottovoce webhook v1\x00"
_TRIES_AT_ONCE = Retry(
    total=2,
    redirect=0,
    backoff_factor=0.2,
    status_forcelist=(502, 503, 504),
    allowed_methods=("POST",),
    raise_on_status=False,
    respect_retry_after_header=False,
)
"""For a connection that breaks; what lasts longer is the schedule's."""


def body(digest: Digest) -> bytes:
    """Return the bytes that are posted and signed."""
    return json.dumps(digest.to_dict(), ensure_ascii=False, allow_nan=False).encode()


def post(
    url: str,
    digest: Digest,
    name: str,
    now: float,
    sign: Sign,
    timeout: float = TIMEOUT_SECONDS,
) -> None:
    """Deliver a digest.

    Args:
        url: May be a secret: no error names more of it than the host.
        digest: What is delivered.
        name: Names this digest, so that the receiver can tell a repetition.
        now: Unix time, which is signed too.
        sign: Signs with the project's key.
        timeout: Seconds for a connection and between two bytes of the answer.

    Raises:
        NotDelivered: No answer, or one that is not 2xx; redirects are not followed.
    """
    content = body(digest)
    headers = {"Content-Type": "application/json", KEY_HEADER: name, "User-Agent": "sottovoce"}
    moment = int(now)
    try:
        key, signature = sign(_LABEL + f"{moment}.{name}.".encode() + content)
    except ValueError as error:  # RotationError: there is no active key.
        raise NotDelivered(f"the webhook's message cannot be signed: {error}") from error
    written = base64.b64encode(signature).decode()
    headers[SIGNATURE_HEADER] = f"t={moment},key={key},ed25519={written}"
    host = urlsplit(url).hostname
    with requests.Session() as session:
        # Neither a cookie nor a password from somebody's .netrc goes along.
        session.auth = _as_it_is
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=_TRIES_AT_ONCE))
        try:
            with session.post(
                url,
                data=content,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                stream=True,
            ) as response:
                status = response.status_code
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            # Their words quote the address.
            raise NotDelivered(f"webhook at {host}: {type(error).__name__}") from None
    if not 200 <= status < 300:
        lasting = 300 <= status < 500 and status not in (408, 425, 429)
        raise NotDelivered(f"webhook at {host} answered {status}", lasting=lasting)


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
