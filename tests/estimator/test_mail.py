"""Digests over a real mail server: encrypted, logged in, and what its troubles become."""

import logging
import time
from email import message_from_bytes
from email.policy import default
from urllib.parse import quote

import pytest

from estimator.errors import NotDelivered
from estimator.notices import mail
from estimator.notices.digest import Digest, Expiring, Figure, Released
from estimator.notices.digest_words import subject
from estimator.releases.failures import Failure
from estimator.settings import NotifySettings, address
from tests.estimator.receivers import (
    PASSWORD,
    USER,
    Mailbox,
    certificates,
    free,
    mail_server,
    silent_server,
)

SENDER, OWNER = address("digests@example.org"), address("ui-team@example.org")
NOW = 1_796_018_400.0  # 2026-11-30 06:00 UTC


def released(**changes: object) -> Released:
    given = {
        "metric": "theme",
        "question": "Which theme is active?",
        "epoch": "2026-W47",
        "fingerprint": "0123456789abcdef",
        "at": NOW - 60,
        "status": "OK",
        "min_reports": 100,
        "n": 12_345,
        "level": 0.95,
        "largest": Figure("dark", 0.5, 0.45, 0.55),
        "since": "2026-W46",
        "changes": (Figure("dark", -0.08, -0.11, -0.05),),
        "alarms": (),
        "link": "https://example.org/theme/2026-W47.html",
    }
    return Released(**given | changes)


def digest_of(*entries: Released, project: str = "shop-app", **changes: object) -> Digest:
    given = {"failed": (), "expiring": ()} | changes
    return Digest(project, "2026-11-30", NOW - 86_400, NOW, tuple(entries), **given)


def server_of(port: int, login: str = "", scheme: str = "smtp", host: str = "127.0.0.1"):
    query = "" if login or scheme == "smtps" else "?starttls=off"
    return NotifySettings.from_env(
        {
            "SOTTOVOCE_SMTP_URL": f"{scheme}://{login}{host}:{port}{query}",
            "SOTTOVOCE_MAIL_FROM": "digests@example.org",
        }
    ).mail_server


LOGIN = f"{USER}:{quote(PASSWORD, safe='')}@"


def test_a_mail_says_the_same_in_plain_text_and_html():
    made = mail.message(
        digest_of(
            released(),
            released(metric="home", status="WITHHELD", n=None, level=None, largest=None),
            released(metric="odd", alarms=("Look here.",)),
            failed=(Failure("tour", "2026-11", "", "shard 3 is away", NOW - 7200, NOW, 3),),
            expiring=(Expiring("age", "2026-12-07", 7),),
        ),
        SENDER,
        OWNER,
    )
    text = made.get_body(("plain",)).get_content()
    html = made.get_body(("html",)).get_content()
    for said in (
        "12,345 reports.",
        "Largest share: “dark” 50.00 % (95% interval 45.00 % to 55.00 %).",
        "Changed since 2026-W46: “dark” −8.00 ± 3.00 points.",
        "Fewer than 100 reports. That says nothing about shares.",
        "Look here.",
        "shard 3 is away",
        "3 tries since 2026-11-30 04:00 UTC.",
        "Takes no reports from 2026-12-07 on: 7 days left.",
        "https://example.org/theme/2026-W47.html",
    ):
        assert said in text
        assert said in html
    assert made["Subject"] == (
        "shop-app, releases of 2026-11-30: "
        "1 ALARM, 1 FAILED, 2 published, 1 withheld, 1 expires soon"
    )
    assert made["Date"].datetime.timestamp() == NOW
    assert str(made["Auto-Submitted"]) == "auto-generated"
    assert made["List-Id"].endswith(".sottovoce.example.org>")


def test_the_message_id_is_one_per_day_and_recipient():
    first = mail.message(digest_of(released()), SENDER, OWNER)
    again = mail.message(digest_of(released(), released(epoch="2026-W46")), SENDER, OWNER)
    other = mail.message(digest_of(released()), SENDER, address("b@example.org"))
    assert first["Message-ID"] == again["Message-ID"] != other["Message-ID"]
    assert first["Message-ID"].startswith("<")


@pytest.mark.parametrize("text", ["a\r\nBcc: x@example.org", "a\nb\x00c\u2028d", "x" * 3000, "ö"])
def test_no_text_of_the_registry_makes_a_header_or_a_tag(text):
    evil = f"{text}<script>alert(1)</script>"
    made = mail.message(
        digest_of(released(question=evil, largest=Figure(evil, 0.5, 0, 1)), project=evil),
        SENDER,
        OWNER,
    )
    sent = message_from_bytes(made.as_bytes(), policy=default)
    assert sorted(sent.keys()) == sorted(
        [
            "From",
            "To",
            "Date",
            "List-Id",
            "Auto-Submitted",
            "Subject",
            "Message-ID",
            "MIME-Version",
            "Content-Type",
        ]
    )
    assert len(subject(digest_of(project=evil))) <= 150
    assert "<script>" not in sent.get_body(("html",)).get_content()


def test_a_year_at_once_is_listed_in_part_and_counted_in_full():
    many = digest_of(*(released(metric=f"m{number}") for number in range(365)))
    assert "365 published" in subject(many)
    assert "and 265 more" in mail.message(many, SENDER, OWNER).get_body(("plain",)).get_content()


def test_mail_arrives_encrypted_and_logged_in(tmp_path, monkeypatch):
    authority, context = certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    mailbox = Mailbox()
    with mail_server(mailbox, tls=context, auth=True) as port:
        with mail.connected(server_of(port, LOGIN)) as connection:
            connection.send(mail.message(digest_of(released()), SENDER, OWNER))
    assert mailbox.recipients == ["ui-team@example.org"]
    assert mailbox.secure == [True]
    assert "12,345 reports." in mailbox.kept[0].get_body(("plain",)).get_content()


def test_tls_from_the_first_byte(tmp_path, monkeypatch):
    authority, context = certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    mailbox = Mailbox()
    with mail_server(mailbox, tls=context, at_once=True) as port:
        with mail.connected(server_of(port, scheme="smtps")) as connection:
            connection.send(mail.message(digest_of(released()), SENDER, OWNER))
    assert mailbox.recipients == ["ui-team@example.org"]


def failure(server, timeout: float = 10.0) -> NotDelivered:
    with pytest.raises(NotDelivered) as caught:
        with mail.connected(server, timeout) as connection:
            connection.send(mail.message(digest_of(released()), SENDER, OWNER))
    assert PASSWORD not in str(caught.value)
    assert quote(PASSWORD, safe="") not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


def test_a_server_that_nobody_vouches_for_gets_neither_password_nor_mail(tmp_path):
    _, context = certificates(tmp_path)
    mailbox = Mailbox()
    with mail_server(mailbox, tls=context, auth=True) as port:
        error = failure(server_of(port, LOGIN))
    assert "CERTIFICATE_VERIFY_FAILED" in str(error)
    assert (error.alone, error.lasting) == (False, False)
    assert mailbox.kept == []


def test_a_certificate_for_another_name_is_refused(tmp_path, monkeypatch):
    authority, context = certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    mailbox = Mailbox()
    with mail_server(mailbox, tls=context, auth=True) as port:
        error = failure(server_of(port, LOGIN, host="127.0.0.2"))
    assert "127.0.0.2" in str(error)
    assert mailbox.kept == []


def test_a_server_without_encryption_gets_neither_password_nor_mail():
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        error = failure(server_of(port, LOGIN))
    assert "STARTTLS" in str(error)
    assert mailbox.kept == []


def test_a_wrong_password_is_said_without_the_password(tmp_path, monkeypatch, caplog):
    authority, context = certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    caplog.set_level(logging.DEBUG)
    with mail_server(Mailbox(), tls=context, auth=True) as port:
        error = failure(server_of(port, f"{USER}:WRONG%2Fone@"))
    assert str(error) == f"127.0.0.1:{port} refused the login (535)"
    ours = [record for record in caplog.records if not record.name.startswith("mail.log")]
    assert "WRONG" not in str(error) + "".join(record.getMessage() for record in ours)


def test_a_server_that_is_down_or_hangs_is_given_up_soon():
    assert "ConnectionRefusedError" in str(failure(server_of(free())))
    with silent_server() as port:
        started = time.monotonic()
        error = failure(server_of(port), timeout=0.3)
        assert time.monotonic() - started < 10
    assert not error.lasting


@pytest.mark.parametrize(
    ("mailbox", "said", "lasting"),
    [
        (Mailbox(OWNER.addr_spec), "550 5.1.1 no such user here", True),
        (Mailbox(fate="554 spam"), "554 spam", True),
        (Mailbox(fate="451 try again later"), "451 try again later", False),
    ],
)
def test_what_is_refused_concerns_one_message_only(mailbox, said, lasting):
    with mail_server(mailbox) as port:
        with mail.connected(server_of(port)) as connection:
            with pytest.raises(NotDelivered, match=said) as caught:
                connection.send(mail.message(digest_of(released()), SENDER, OWNER))
            assert (caught.value.alone, caught.value.lasting) == (True, lasting)
            mailbox.refused.clear()
            mailbox.fate = "250 taken"
            connection.send(mail.message(digest_of(released()), SENDER, OWNER))
    assert len(mailbox.kept) == 1
