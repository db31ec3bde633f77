"""Digests as e-mail: the message, and the way to the mail server.

A message of one digest to one recipient has the same Message-ID each time it is made, so that
mail programs show it once if it had to be sent twice.
"""

import hashlib
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from estimator.errors import NotDelivered
from estimator.notices.digest import Digest
from estimator.notices.digest_words import as_html, as_text, one_line, subject
from estimator.settings import MailServer

TIMEOUT_SECONDS = 10.0
"""For a connection and for each answer."""


def message(digest: Digest, sender: Address, recipient: Address) -> EmailMessage:
    """Return the mail of a digest, as plain text with an HTML alternative."""
    made = _envelope(sender, recipient, digest.until, digest.project)
    made["Subject"] = subject(digest)
    made["Message-ID"] = f"<{name_of(digest, recipient.addr_spec)}.digest@{sender.domain}>"
    made.set_content(as_text(digest))
    made.add_alternative(as_html(digest), subtype="html")
    return made


def trial_message(sender: Address, recipient: Address, now: float) -> EmailMessage:
    """Return a mail that says that mail arrives."""
    made = _envelope(sender, recipient, now, "test")
    name = hashlib.sha256(f"{recipient.addr_spec} {now}".encode()).hexdigest()[:32]
    made["Subject"] = "sottovoce: this is a test"
    made["Message-ID"] = f"<{name}.test@{sender.domain}>"
    made.set_content("Digests of releases would reach you. Nothing else follows from this mail.\n")
    return made


def name_of(digest: Digest, recipient: str) -> str:
    """Return what names one day's digest to one recipient. 32 hex digits."""
    words = "\0".join((digest.project, digest.day, recipient))
    return hashlib.sha256(words.encode()).hexdigest()[:32]


def _envelope(sender: Address, recipient: Address, now: float, project: str) -> EmailMessage:
    made = EmailMessage(policy=SMTP)
    made["From"] = sender
    made["To"] = recipient
    made["Date"] = format_datetime(datetime.fromtimestamp(int(now), UTC))
    listed = hashlib.sha256(project.encode()).hexdigest()[:12]
    made["List-Id"] = f"sottovoce digests <{listed}.sottovoce.{sender.domain}>"
    made["Auto-Submitted"] = "auto-generated"
    return made


@contextmanager
def connected(server: MailServer, timeout: float = TIMEOUT_SECONDS) -> Iterator["Connection"]:
    """Connect, encrypted and logged in as the settings say; close it in the end.

    Raises:
        NotDelivered: The server cannot be reached, is not who it should be, or does not let us in.
    """
    tls = ssl.create_default_context()
    with _failures(server):
        if server.security == "tls":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=timeout, context=tls
            )
        else:
            smtp = smtplib.SMTP(server.host, server.port, timeout=timeout)
    try:
        with _failures(server):
            if server.security == "starttls":
                smtp.starttls(context=tls)
            if server.user is not None:
                smtp.login(server.user, server.password)
        yield Connection(smtp, server)
        with _failures(server):
            smtp.quit()
    finally:
        smtp.close()


class Connection:
    """An open connection to a mail server."""

    def __init__(self, smtp: smtplib.SMTP, server: MailServer) -> None:
        self._smtp = smtp
        self._server = server

    def send(self, made: EmailMessage) -> None:
        """Hand a message over.

        Raises:
            NotDelivered: `alone` if it is about this message only.
        """
        sender, recipient = (made[name].addresses[0].addr_spec for name in ("From", "To"))
        with _failures(self._server):
            self._smtp.send_message(made, sender, [recipient])


@contextmanager
def _failures(server: MailServer) -> Iterator[None]:
    """Turn what smtplib raises into what may be logged: no address, password or message."""
    try:
        yield
    except smtplib.SMTPAuthenticationError as error:
        # The answer's words are left out: some servers quote what was sent.
        raise NotDelivered(f"{server} refused the login ({error.smtp_code})") from None
    except smtplib.SMTPRecipientsRefused as error:
        code, words = next(iter(error.recipients.values()))
        raise _refused(server, code, words) from None
    except (smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as error:
        raise _refused(server, error.smtp_code, error.smtp_error) from None
    except OSError as error:  # smtplib.SMTPException is one
        raise NotDelivered(f"{server}: {type(error).__name__}: {one_line(str(error))}") from None


def _refused(server: MailServer, code: int, words: bytes | str) -> NotDelivered:
    text = words.decode(errors="replace") if isinstance(words, bytes) else words
    said = f"{server} answered {code} {one_line(text)[:200]}"
    return NotDelivered(said, alone=True, lasting=500 <= code < 600)
