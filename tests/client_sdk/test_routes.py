"""The way to the server: proxies, certificates, time limits, answers that get lost.

Bugs 11 and 22 of the list of bugs that other SDKs hit.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from client_sdk import Client, TransportError
from client_sdk.transport import HttpTransport

MakeClient = Callable[..., Client]
VARIABLES = [
    name
    for base in ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
    for name in (base, base.upper())
]


class Proxy:
    """A loopback proxy that hangs up on whoever comes, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                self.asked.append(connection.recv(4096).split(b"\r\n")[0].decode())

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    made = Proxy()
    yield made
    made.close()


def enrol(endpoint: str, **options: Any) -> None:
    transport = HttpTransport(endpoint, "key", timeout_seconds=2, retries=0, **options)
    try:
        with pytest.raises(TransportError):
            transport.enrol()
    finally:
        transport.close()


SECURE = "https://telemetry.example.invalid"
PLAIN = "http://telemetry.example.invalid"


def test_the_proxies_of_the_environment_are_used(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    enrol(SECURE)
    enrol(PLAIN)
    assert proxy.asked == [
        "CONNECT telemetry.example.invalid:443 HTTP/1.0",
        f"POST {PLAIN}/v1/devices HTTP/1.1",
    ] or proxy.asked == [
        "CONNECT telemetry.example.invalid:443 HTTP/1.1",
        f"POST {PLAIN}/v1/devices HTTP/1.1",
    ]


def test_no_proxy_is_honoured(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", "example.invalid")
    enrol(SECURE)
    assert proxy.asked == []


def test_the_option_is_used_and_stands_above_the_environment(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "elsewhere.example.invalid")
    enrol(SECURE, proxy=proxy.url)
    enrol(PLAIN, proxy=proxy.url)
    assert [line.split()[0] for line in proxy.asked] == ["CONNECT", "POST"]


def test_without_any_proxy_none_is_asked(proxy: Proxy) -> None:
    enrol(SECURE)
    assert proxy.asked == []


def test_a_client_hands_its_route_on(proxy: Proxy, client_of: MakeClient, tmp_path: Any) -> None:
    client = client_of(transport=None, endpoint=SECURE, proxy=proxy.url)
    client.record("theme", "dark")
    assert not client.flush()
    assert proxy.asked
    missing = client_of(
        transport=None, endpoint=SECURE, state_dir=tmp_path / "b", ca_bundle=str(tmp_path / "no")
    )
    missing.record("theme", "dark")
    assert not missing.flush()
    assert missing.status().summary == "collecting"


def certificate(folder: Any) -> tuple[str, str]:
    """A self-signed certificate of localhost and its key, as files."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


def test_a_server_is_trusted_by_the_given_bundle_and_by_that_of_the_environment_only(
    sink: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ssl

    for name in (*VARIABLES, "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    cert, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    sink.server.socket = context.wrap_socket(sink.server.socket, server_side=True)
    url = f"https://localhost:{sink.server.server_port}"
    enrol(url)
    given = HttpTransport(url, "key", ca_bundle=cert)
    assert given.enrol().status == 201
    given.close()
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", cert)
    environment = HttpTransport(url, "key")
    assert environment.enrol().status == 201
    environment.close()


# Bug 11: a lost answer.


def test_a_batch_whose_answer_was_lost_is_sent_again_byte_for_byte(
    sink: Any, client_of: MakeClient, tmp_path: Any
) -> None:
    sink.mode = "deaf"

    class Impatient(HttpTransport):
        def __init__(self) -> None:
            super().__init__(sink.url, "key", timeout_seconds=0.3)

    transport = Impatient()
    client = client_of(transport=transport)
    client.record("theme", "dark")
    began = time.monotonic()
    assert not client.flush(20)
    assert time.monotonic() - began < 2  # a time limit is not met three times
    client.close(5)
    sink.mode = "up"
    again = client_of(transport=transport)
    assert again.flush(20)
    transport.close()
    first, second = sink.bodies
    assert first == second
    assert len(sink.reports) == 1


def test_the_id_of_an_upload_is_random_and_says_nothing_about_the_device(
    sink: Any, client_of: MakeClient, clock: Any
) -> None:
    client = client_of(transport=None, endpoint=sink.url)
    for _ in range(4):
        client.record("theme", "dark")
        assert client.flush()
        clock.now += 86_400
    batches = [json.loads(body) for body in sink.bodies]
    assert len({batch["nonce"] for batch in batches}) == 4
    assert all(batch["nonce"] != batch["device"] for batch in batches)
    assert all(
        os.fsencode(batch["nonce"]) not in client.registry.text.encode() for batch in batches
    )
