"""`sottovoce notify` against a real store, mail server and web server."""

import json
import time
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from aggregator.keyring.keys import Keys
from estimator.releases import whole_files
from estimator.releases.failures import note
from sottovoce.__main__ import main
from tests.estimator.receivers import Hook, Mailbox, free, mail_server
from tests.registries import Date, registry, theme
from tests.sottovoce.conftest import wait_until

ADDRESS, CONTACT = "ui-team@example.org", "telemetry@example.org"
METRICS = registry(theme(expires=Date("2040-12-31")))


@pytest.fixture
def releases(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory where one epoch is FAILED, and an environment that names store and files."""
    (tmp_path / "metrics.toml").write_text(METRICS)
    Keys.load_or_create(tmp_path / "keys.json", date(2026, 11, 2))
    for name, value in {
        "REDIS_URL": redis_url,
        "SOTTOVOCE_KEYS_FILE": tmp_path / "keys.json",
        "SOTTOVOCE_METRICS": tmp_path / "metrics.toml",
        "SOTTOVOCE_RELEASES": tmp_path / "releases",
        "SOTTOVOCE_MAIL_FROM": "digests@example.org",
    }.items():
        monkeypatch.setenv(name, str(value))
    directory = tmp_path / "releases"
    directory.mkdir()
    note(directory, "theme", "2026-W49", [("", "shard 3 is away")], time.time())
    return directory


def test_a_dry_run_shows_each_mail_and_sends_nothing(releases, capsys):
    before = sorted(releases.iterdir())
    assert main(["notify", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert f"To: {CONTACT}\nSubject: shop-app, releases of " in shown
    assert f"To: {ADDRESS}\n" in shown
    assert "theme, 2026-W49" in shown and "shard 3 is away" in shown
    assert main(["notify", "--dry-run", "--json", "--since", "2026-11-30"]) == 0
    first, _ = json.loads(capsys.readouterr().out)
    assert first["to"] == CONTACT
    assert first["digest"]["since"] == datetime(2026, 11, 30, tzinfo=UTC).timestamp()
    assert sorted(releases.iterdir()) == before


def test_what_is_due_is_sent_and_what_waits_is_the_exit_status(releases, monkeypatch, capsys):
    port = free()
    monkeypatch.setenv("SOTTOVOCE_SMTP_URL", f"smtp://127.0.0.1:{port}?starttls=off")
    assert main(["notify"]) == 0
    assert capsys.readouterr().out == "Nothing was sent.\n"
    # As if the first look had been the day before.
    path = releases / ".notifications.json"
    state = json.loads(path.read_text())
    whole_files.replace(path, json.dumps(state | {"day": "2026-11-01"}).encode())
    assert main(["notify"]) == 1
    state = json.loads(path.read_text())
    assert [letter["recipient"] for letter in state["letters"]] == [CONTACT, ADDRESS]
    mailbox = Mailbox()
    for letter in state["letters"]:
        letter["next_try"] = 0.0
    whole_files.replace(path, json.dumps(state).encode())
    with mail_server(mailbox, port=port):
        assert main(["notify"]) == 0
    assert mailbox.recipients == [CONTACT, ADDRESS]
    assert f"{ADDRESS} has got the digest of " in capsys.readouterr().out


def test_a_test_mail_needs_no_store(monkeypatch, capsys):
    monkeypatch.setenv("SOTTOVOCE_MAIL_FROM", "digests@example.org")
    mailbox = Mailbox("nobody@example.org")
    with mail_server(mailbox) as port:
        monkeypatch.setenv("SOTTOVOCE_SMTP_URL", f"smtp://127.0.0.1:{port}?starttls=off")
        assert main(["notify", "--test", ADDRESS]) == 0
        assert main(["notify", "--test", "nobody@example.org"]) == 2
    assert mailbox.recipients == [ADDRESS]
    assert "550" in capsys.readouterr().err


def test_the_webhook_is_signed_with_the_key_that_signs_releases(releases, monkeypatch, tmp_path):
    """Runs the check that docs/operations.md shows receivers."""
    from tests.test_docs import DOCS, blocks

    (path,) = (each for each in DOCS if each.name == "operations.md")
    (snippet,) = (each for each in blocks(path, "python") if "Sottovoce-Signature" in each)
    names: dict[str, object] = {}
    exec(compile(snippet, path.name, "exec"), names)
    genuine = names["genuine"]
    hook = Hook()
    with hook.running():
        monkeypatch.setenv("SOTTOVOCE_WEBHOOK_URL", hook.url)
        main(["notify"])
        state = json.loads((releases / ".notifications.json").read_text())
        text = json.dumps(state | {"day": "2026-11-01"})
        whole_files.replace(releases / ".notifications.json", text.encode())
        assert main(["notify"]) == 0
    ((headers, body),) = hook.kept
    given = {"Sottovoce-Signature": headers["sottovoce-signature"]}
    given["Idempotency-Key"] = headers["idempotency-key"]
    public = {
        str(number): key.hex()
        for number, key in Keys.load(tmp_path / "keys.json").signing.public.items()
    }
    now = time.time()
    assert genuine(given, body, public, now)
    assert not genuine(given, body + b" ", public, now)
    assert not genuine(given | {"Idempotency-Key": "other"}, body, public, now)
    assert not genuine(given, body, public, now + 600)
    assert not genuine(given, body, {}, now)


@pytest.mark.slow
def test_the_schedule_looks_after_digests_by_itself(releases, monkeypatch, sottovoce):
    """Its first look, ten seconds after its start, notes the time; the day's digest is then due."""
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        monkeypatch.setenv("SOTTOVOCE_SMTP_URL", f"smtp://127.0.0.1:{port}?starttls=off")
        assert main(["notify"]) == 0
        path = releases / ".notifications.json"
        state = json.loads(path.read_text()) | {"day": "2026-11-01"}
        whole_files.replace(path, json.dumps(state).encode())
        schedule = sottovoce("schedule")
        wait_until(lambda: len(mailbox.kept) == 2, 60)
        schedule.terminate()
        assert schedule.wait(30) == 0
    assert json.loads(path.read_text())["letters"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since", "2026-11-30"], "--since goes with --dry-run"),
        (["--test", "#ui-team"], "--test must be an e-mail address"),
        (["--test", ADDRESS], "SOTTOVOCE_SMTP_URL must be set"),
        ([], "must be set to send anything"),
    ],
)
def test_what_cannot_be_done_is_said(releases, capsys, arguments, message):
    assert main(["notify", *arguments]) == 2
    assert message in capsys.readouterr().err
