"""Real servers on this machine that take digests: one for mail, one for the webhook."""

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

USER, PASSWORD = "digests", "pass:word/with@odd chars"


class Mailbox:
    """A handler of aiosmtpd that keeps what it takes."""

    def __init__(self, *refused: str, fate: str = "250 taken") -> None:
        self.refused = set(refused)
        self.fate = fate
        self.kept: list[EmailMessage] = []
        self.secure: list[bool] = []

    async def handle_RCPT(self, server, session, envelope, address, rcpt_options):  # noqa: N802
        if address in self.refused:
            return "550 5.1.1 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        if self.fate.startswith("250"):
            made = message_from_bytes(envelope.content, policy=default)
            assert isinstance(made, EmailMessage)
            assert [made["To"].addresses[0].addr_spec] == envelope.rcpt_tos
            self.kept.append(made)
            self.secure.append(session.ssl is not None)
        return self.fate

    @property
    def recipients(self) -> list[str]:
        return [made["To"].addresses[0].addr_spec for made in self.kept]


def _authenticated(server, session, envelope, mechanism, data) -> AuthResult:
    good = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=good, handled=False)


class _Controller(Controller):
    """Runs `SMTP` with STARTTLS required, where there is a certificate, and logins checked."""

    def __init__(
        self, mailbox: Mailbox, tls: ssl.SSLContext | None, auth: bool, port: int, at_once: bool
    ) -> None:
        self._tls, self._auth = None if at_once else tls, auth
        first = tls if at_once else None
        super().__init__(mailbox, hostname="127.0.0.1", port=port, ssl_context=first)

    def factory(self) -> SMTP:
        return SMTP(
            self.handler,
            tls_context=self._tls,
            require_starttls=self._tls is not None,
            authenticator=_authenticated if self._auth else None,
            auth_required=self._auth,
            auth_require_tls=self._tls is not None,
        )


@contextmanager
def mail_server(
    mailbox: Mailbox,
    *,
    tls: ssl.SSLContext | None = None,
    at_once: bool = False,
    auth: bool = False,
    port: int = 0,
) -> Iterator[int]:
    """Run a mail server, with TLS from the first byte if `at_once`; yields its port."""
    controller = _Controller(mailbox, tls, auth, port or free(), at_once)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


def free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def silent_server() -> Iterator[int]:
    """Take connections and never say a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def certificates(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make an authority and a certificate for 127.0.0.1 and localhost; return both as used."""
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("test authority", key.public_key(), None, key)
    own = ec.generate_private_key(ec.SECP256R1())
    issued = _certificate("127.0.0.1", own.public_key(), authority.subject, key)
    (folder / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    private = own.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pair = folder / "server.pem"
    pair.write_bytes(private + issued.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    return folder / "ca.pem", context


def _certificate(name: str, public, issuer, key) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return made.sign(key, hashes.SHA256())


class Hook:
    """A web server that answers posts with what it is told, and keeps what it was sent."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.kept: list[tuple[dict[str, str], bytes]] = []
        self.url = ""

    @contextmanager
    def running(self) -> Iterator["Hook"]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.kept.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(hook.statuses.pop(0) if hook.statuses else 204)
                self.send_header("Location", f"{hook.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_port}/hooks/SECRET"
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()
