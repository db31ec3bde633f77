"""How bytes reach the server: one small protocol, and the HTTP client that ships.

A transport moves finished bytes. It retries with the very same ones, so nothing it does can
change what the server learns.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from client_sdk.authentication import MAC_HEADER
from client_sdk.errors import TransportError
from client_sdk.report import DEVICES_PATH, REPORTS_PATH

if TYPE_CHECKING:
    import requests

MOST_ANSWER_BYTES = 256 * 1024
LONGEST_PAUSE_SECONDS = 86_400.0


@dataclass(frozen=True)
class Reply:
    """A server's answer as it arrived.

    Attributes:
        status: HTTP status.
        body: Answer bytes.
        retry_after: Seconds that the server asks to wait, None if it does not.
    """

    status: int
    body: bytes
    retry_after: float | None = None


class Transport(Protocol):
    """What the uploader needs; raises TransportError when no answer arrives."""

    def enrol(self) -> Reply:
        """Ask for an identity."""
        ...

    def send(self, body: bytes, mac: str) -> Reply:
        """Deliver a batch."""
        ...


class HttpTransport:
    """Transport over HTTP with `requests`, imported when the first upload is due.

    Proxies and CA bundle come from the usual environment variables.

    Args:
        endpoint: Base URL of the aggregation server.
        write_key: The project's key for enrolment.
        timeout_seconds: Longest wait for a connection and between two bytes.
        retries: Further tries after a failed one, with exponential back-off and jitter.
    """

    def __init__(
        self, endpoint: str, write_key: str, timeout_seconds: float = 10.0, retries: int = 2
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._write_key = write_key
        self._timeout = timeout_seconds
        self._retries = retries
        self._session: requests.Session | None = None

    def enrol(self) -> Reply:
        return self._post(DEVICES_PATH, b"{}", {"Authorization": f"Bearer {self._write_key}"})

    def send(self, body: bytes, mac: str) -> Reply:
        return self._post(REPORTS_PATH, body, {MAC_HEADER: mac})

    def close(self) -> None:
        """Close kept connections."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        import requests
        from urllib3.exceptions import HTTPError

        if self._session is None:
            self._session = _session(self._retries)
        try:
            with self._session.post(
                self._endpoint + path,
                data=body,
                headers={"Content-Type": "application/json", **headers},
                timeout=self._timeout,
                allow_redirects=False,
                stream=True,
            ) as response:
                answer = response.raw.read(MOST_ANSWER_BYTES + 1, decode_content=True)
                pause = _retry_after(response.headers.get("Retry-After"))
        # ValueError: an address or a key that cannot be written into a request.
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            raise TransportError(
                f"no answer from {self._endpoint}: {type(error).__name__}"
            ) from error
        if len(answer) > MOST_ANSWER_BYTES:
            raise TransportError(f"the answer of {self._endpoint} is too long")
        return Reply(response.status_code, answer, pause)


def _session(retries: int) -> "requests.Session":
    from http.cookiejar import DefaultCookiePolicy

    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    policy = Retry(
        total=retries,
        connect=retries,
        read=retries,
        status=0,
        backoff_factor=0.5,
        backoff_jitter=0.5,
        allowed_methods=None,
        raise_on_status=False,
        respect_retry_after_header=False,  # the worker keeps pauses, with its own clock
    )
    session = requests.Session()
    # Neither a cookie nor a password from the user's .netrc may go along.
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.auth = _as_it_is
    # The host's default agent string would say which Python it runs.
    session.headers.clear()
    session.headers.update({"User-Agent": "sottovoce", "Accept": "application/json"})
    session.mount("http://", HTTPAdapter(max_retries=policy))
    session.mount("https://", HTTPAdapter(max_retries=policy))
    return session


def _as_it_is(request: "requests.PreparedRequest") -> "requests.PreparedRequest":
    return request


def _retry_after(header: str | None) -> float | None:
    """Return the pause in seconds; dates and nonsense count as an hour, all clamped to a day."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        seconds = 3600.0
    return min(max(seconds, 0.0), LONGEST_PAUSE_SECONDS) if seconds == seconds else 3600.0
