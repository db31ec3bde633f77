"""How bytes reach the server: one small protocol, and the HTTP client that ships.

A transport moves finished bytes. It retries with the very same ones, so nothing it does can
change what the server learns.
"""

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from client_sdk import forks
from client_sdk.authentication import MAC_HEADER
from client_sdk.errors import TransportError
from client_sdk.report import DEVICES_PATH, ERASE_PATH, REPORTS_PATH, SEALED_TYPE

if TYPE_CHECKING:
    import requests

MOST_ANSWER_BYTES = 256 * 1024
LONGEST_PAUSE_SECONDS = 86_400.0


class Reply(NamedTuple):
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

    def erase(self, body: bytes, mac: str) -> Reply:
        """Ask for the erasure of a device."""
        ...


class HttpTransport:
    """Transport over HTTP with `requests`, imported when the first upload is due.

    Args:
        endpoint: Base URL of the aggregation server.
        write_key: The project's key for enrolment.
        timeout_seconds: Longest wait for a connection and between two bytes.
        retries: Further tries at once after a connection that broke; whoever uses a transport
            has a schedule for what lasts longer.
        proxy: URL of a proxy for every request; without it the environment decides
            (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).
        ca_bundle: File of certificates to trust; without it the environment (REQUESTS_CA_BUNDLE)
            or what `requests` brings along.

    Attributes:
        waits_since: When the request under way was begun, in seconds of `time.monotonic`; None
            while the network is not waited for.
    """

    def __init__(
        self,
        endpoint: str,
        write_key: str,
        timeout_seconds: float = 10.0,
        retries: int = 2,
        proxy: str | None = None,
        ca_bundle: str | None = None,
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._write_key = write_key
        self._timeout = timeout_seconds
        self._retries = retries
        self._proxies = None if proxy is None else {"http": proxy, "https": proxy}
        self._ca_bundle = ca_bundle
        self._session: requests.Session | None = None
        self.waits_since: float | None = None

    def enrol(self) -> Reply:
        return self._post(DEVICES_PATH, b"{}", {"Authorization": f"Bearer {self._write_key}"})

    def send(self, body: bytes, mac: str) -> Reply:
        return self._post(REPORTS_PATH, body, {MAC_HEADER: mac})

    def erase(self, body: bytes, mac: str) -> Reply:
        return self._post(ERASE_PATH, body, {MAC_HEADER: mac})

    def send_sealed(self, sealed: bytes, path: str = REPORTS_PATH) -> Reply:
        """Deliver what `sealing` has made of a body and its MAC."""
        return self._post(path, sealed, {"Content-Type": SEALED_TYPE})

    def close(self) -> None:
        """Close kept connections."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        if self._session is None:
            with forks.importing():
                self._session = _session()
        import requests
        from urllib3.exceptions import HTTPError

        for further in range(self._retries, -1, -1):
            self.waits_since = time.monotonic()
            try:
                return self._exchange(self._session, path, body, headers)
            except requests.Timeout as error:
                raise self._failed(error) from error
            # ValueError: an address or a key that cannot be written into a request.
            except (requests.RequestException, HTTPError, OSError, ValueError) as error:
                if not further or not isinstance(error, requests.ConnectionError):
                    raise self._failed(error) from error
            finally:
                self.waits_since = None
        raise AssertionError("the last try returns or raises")

    def _exchange(
        self, session: "requests.Session", path: str, body: bytes, headers: dict[str, str]
    ) -> Reply:
        with session.post(
            self._endpoint + path,
            data=body,
            headers={"Content-Type": "application/json", **headers},
            timeout=self._timeout,
            allow_redirects=False,
            stream=True,
            proxies=self._proxies,
            verify=self._ca_bundle,
        ) as response:
            answer = response.raw.read(MOST_ANSWER_BYTES + 1, decode_content=True)
            pause = _retry_after(response.headers.get("Retry-After"))
        if len(answer) > MOST_ANSWER_BYTES:
            raise OSError("the answer is too long")
        return Reply(response.status_code, answer, pause)

    def _failed(self, error: Exception) -> TransportError:
        return TransportError(f"no answer from {self._endpoint}: {type(error).__name__}")


def _session() -> "requests.Session":
    import encodings.idna  # noqa: F401 - the first look-up of a name would import it, unguarded
    from http.cookiejar import DefaultCookiePolicy

    import requests

    session = requests.Session()
    # Neither a cookie nor a password from the user's .netrc may go along.
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.auth = _as_it_is
    # The host's default agent string would say which Python it runs.
    session.headers.clear()
    session.headers.update({"User-Agent": "sottovoce", "Accept": "application/json"})
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
