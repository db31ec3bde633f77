"""Settings of notifications: defaults, the table that documents them, and no password shown."""

import ast
from pathlib import Path

import pytest

import estimator.settings
from aggregator.settings import SettingsError
from estimator.settings import MailServer, NotifySettings, address

FROM = {"SOTTOVOCE_MAIL_FROM": "Digests <digests@example.org>"}


def test_an_empty_environment_notifies_nobody():
    found = NotifySettings.from_env({})
    assert found == NotifySettings()
    assert not found.notifies


def test_every_variable_is_read():
    found = NotifySettings.from_env(
        FROM
        | {
            "SOTTOVOCE_RELEASES_URL": "https://example.org/releases/",
            "SOTTOVOCE_DIGEST_HOUR": "14",
            "SOTTOVOCE_SMTP_URL": "smtp://u%40x:p%2Fw@mail.example.org",
            "SOTTOVOCE_WEBHOOK_URL": "https://hooks.example.org/abc",
        }
    )
    assert found.mail_server == MailServer("mail.example.org", 587, "u@x", "p/w", "starttls")
    assert (found.mail_from.display_name, found.mail_from.addr_spec) == (
        "Digests",
        "digests@example.org",
    )
    assert found.releases_url == "https://example.org/releases"
    assert found.webhook_url == "https://hooks.example.org/abc"
    assert found.digest_hour == 14
    assert found.notifies


def test_the_table_lists_each_variable_that_is_read():
    source = Path(estimator.settings.__file__).read_text()
    read = {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("SOTTOVOCE_")
        and " " not in node.value
    }
    lines = (estimator.settings.__doc__ or "").splitlines()
    assert read == {line.split()[0] for line in lines if line.startswith("SOTTOVOCE_")}


@pytest.mark.parametrize(
    ("url", "port", "security"),
    [
        ("smtps://mail.example.org", 465, "tls"),
        ("smtp://mail.example.org:25", 25, "starttls"),
        ("smtp://localhost:25?starttls=off", 25, "none"),
        ("smtp://u:p@127.0.0.1?starttls=off", 587, "none"),
    ],
)
def test_mail_is_encrypted_unless_that_is_switched_off(url, port, security):
    server = NotifySettings.from_env(FROM | {"SOTTOVOCE_SMTP_URL": url}).mail_server
    assert (server.port, server.security) == (port, security)


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("SOTTOVOCE_DIGEST_HOUR", "24", "0..23"),
        ("SOTTOVOCE_DIGEST_HOUR", "six", "0..23"),
        ("SOTTOVOCE_SMTP_URL", "http://u:HIDDEN@host", "must be like smtp://"),
        ("SOTTOVOCE_SMTP_URL", "smtp://u:HIDDEN@host:70000", "must be a URL"),
        ("SOTTOVOCE_SMTP_URL", "smtp://u:HIDDEN@[host", "must be a URL"),
        ("SOTTOVOCE_SMTP_URL", "smtp://u:HIDDEN@host?starttls=off", "may not hold a password"),
        ("SOTTOVOCE_SMTP_URL", "smtp://host?tls=HIDDEN", "no other option"),
        ("SOTTOVOCE_SMTP_URL", "smtp://HIDDEN@host", "user and password, or neither"),
        ("SOTTOVOCE_MAIL_FROM", "digests", "must be an address"),
        ("SOTTOVOCE_MAIL_FROM", "a\nBcc: x@example.org <a@example.org>", "must be an address"),
        ("SOTTOVOCE_WEBHOOK_URL", "http://hooks.example.org/HIDDEN", "must begin with https"),
        ("SOTTOVOCE_WEBHOOK_URL", "https:///HIDDEN", "must begin with https"),
        ("SOTTOVOCE_RELEASES_URL", "javascript:alert(1)", "must begin with https"),
    ],
)
def test_what_breaks_a_rule_is_refused_and_no_secret_is_shown(variable, value, rule):
    with pytest.raises(SettingsError, match=variable) as caught:
        NotifySettings.from_env({variable: value})
    assert rule in str(caught.value)
    assert "HIDDEN" not in str(caught.value)


def test_a_mail_server_needs_a_sender():
    with pytest.raises(SettingsError, match="SOTTOVOCE_MAIL_FROM must name the sender"):
        NotifySettings.from_env({"SOTTOVOCE_SMTP_URL": "smtp://host"})


def test_no_text_of_the_settings_holds_a_secret():
    found = NotifySettings.from_env(
        FROM
        | {
            "SOTTOVOCE_SMTP_URL": "smtp://user:HIDDEN@host",
            "SOTTOVOCE_WEBHOOK_URL": "https://hooks.example.org/HIDDEN",
        }
    )
    assert found.mail_server.password == "HIDDEN"
    for text in (repr(found), str(found), str(found.mail_server), repr(found.mail_server)):
        assert "HIDDEN" not in text


@pytest.mark.parametrize(
    "text",
    [
        "#ui-team",
        "UI team",
        "",
        "a@",
        "@example.org",
        "a@example.org, b@example.org",
        "a@example.org\nBcc: b@example.org",
        "a@example.org\r",
        "<a@example.org>",
        "a b@example.org",
        "\u2028@example.org",
        "a@exa mple.org",
        "jörg@example.org",
    ],
)
def test_what_is_no_plain_address_is_none(text):
    assert address(text) is None


@pytest.mark.parametrize("text", ["ui-team@example.org", "a+b@example.org"])
def test_a_plain_address_is_one(text):
    assert address(text).addr_spec == text
