"""One digest a day: what it says, that it comes once, and again only after a crash or a failure."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest

from aggregator.keyring.kinds import SigningKey
from aggregator.keyring.signing import Signing
from aggregator.tally import Tally
from client_sdk.epochs import parse
from client_sdk.registry import loads
from estimator.notices import outbox
from estimator.notices.audience import Audience
from estimator.notices.notify import Notifier, day_due, pause_seconds
from estimator.publish import only_publisher, publish_due
from estimator.releases.failures import failures
from estimator.settings import NotifySettings
from tests.estimator.conftest import REGISTRY
from tests.estimator.receivers import Hook, Mailbox, free, mail_server

ROOT = Path(__file__).parents[2]
AUDIENCE = Audience.of([loads(REGISTRY)])
CONTACT, UI, SURVEY = "telemetry@example.org", "ui-team@example.org", "survey@example.org"
SIGNING = Signing([replace(SigningKey.made(1, bytes(range(32)), None), state="active")])
SHARES = [0.5, 0.3, 0.2, 0.0]


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


class Days:
    """A directory of releases, and a clock that only moves when told to."""

    def __init__(self, directory: Path, tally_of, source) -> None:
        self.directory = directory
        self.tally_of = tally_of
        self.source = source
        self.now = at("2026-12-09T12:00")
        self.settings = NotifySettings()

    def publish(self, name: str, epoch: str, tally: Tally | list[float], n: int = 1000) -> None:
        """Publish one epoch at the clock's time."""
        metric = next(m for m in self.source.versions if m.name == name)
        number = parse(metric.epoch, epoch)
        if not isinstance(tally, Tally):
            tally = self.tally_of(metric, n, tally)
        self.source.add(metric, number, tally)
        before = set(self.directory.rglob("*.json"))
        publish_due(self.source, self.directory, self.now, signing=SIGNING)
        for path in set(self.directory.rglob("*.json")) - before:
            os.utime(path, (self.now, self.now))

    @property
    def notifier(self) -> Notifier:
        return Notifier(
            self.directory, self.settings, lambda: AUDIENCE, lambda: SIGNING, lambda: self.now
        )

    def look(self, when: str) -> list[str]:
        """Look at some time; return who got a digest."""
        self.now = at(when)
        return [letter.recipient for letter in self.notifier.look()]

    def mail_to(self, port: int, **more: str) -> None:
        self.settings = NotifySettings.from_env(
            {
                "SOTTOVOCE_SMTP_URL": f"smtp://127.0.0.1:{port}?starttls=off",
                "SOTTOVOCE_MAIL_FROM": "digests@example.org",
                **more,
            }
        )


@pytest.fixture
def days(metrics, tally_of, make_source, tmp_path) -> Days:
    return Days(tmp_path, tally_of, make_source(*metrics.values()))


@pytest.fixture
def mailed(days):
    """The same with a mail server that takes everything, after the first look of all."""
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        days.mail_to(port, SOTTOVOCE_RELEASES_URL="https://example.org/r")
        assert days.look("2026-12-09T12:00") == []
        days.mailbox = mailbox
        yield days


def texts(days: Days) -> dict[str, str]:
    """The newest mail's text by recipient."""
    kept = days.mailbox.kept
    return {
        made["To"].addresses[0].addr_spec: made.get_body(("plain",)).get_content() for made in kept
    }


def test_owners_hear_of_their_metrics_and_the_contact_of_all(mailed):
    mailed.now = at("2026-12-10T00:01")
    mailed.publish("theme", "2026-W49", SHARES)
    mailed.publish("smokes", "once", [0.9, 0.1])
    assert mailed.look("2026-12-10T05:59") == []
    assert sorted(mailed.look("2026-12-10T06:00")) == sorted([CONTACT, UI, SURVEY])
    found = texts(mailed)
    assert "Which theme is active?" in found[UI]
    assert "1,000 reports." in found[UI]
    assert re.search(r"Largest share: “light” (49|50)\.\d\d % \(95% interval", found[UI])
    assert "https://example.org/r/theme/2026-W49." in found[UI]
    assert "smoke" not in found[UI]
    assert "theme" not in found[SURVEY]
    assert "Which theme" in found[CONTACT] and "smoke" in found[CONTACT]


def test_who_has_nothing_to_hear_gets_no_mail(mailed):
    mailed.now = at("2026-12-10T00:01")
    mailed.publish("smokes", "once", [0.9, 0.1])
    assert sorted(mailed.look("2026-12-10T06:00")) == sorted([CONTACT, SURVEY])
    assert mailed.look("2026-12-11T06:00") == []
    assert len(mailed.mailbox.kept) == 2


def test_there_is_one_digest_a_day(mailed):
    mailed.now = at("2026-12-10T00:01")
    mailed.publish("theme", "2026-W49", SHARES)
    assert mailed.look("2026-12-10T06:00") != []
    mailed.publish("smokes", "once", [0.9, 0.1])
    for minute in range(5, 60, 5):
        assert mailed.look(f"2026-12-10T06:{minute:02d}") == []
    assert mailed.look("2026-12-10T23:59") == []
    assert mailed.look("2026-12-11T05:59") == []
    # What came after the digest is in the next one, and what was told is not told again.
    assert mailed.look("2026-12-11T06:00") == [CONTACT, SURVEY]
    assert "theme" not in texts(mailed)[CONTACT]
    # A clock that is set back and forth makes no second one.
    mailed.publish("theme", "2026-W50", SHARES)
    assert mailed.look("2026-12-09T06:00") == []
    assert mailed.look("2026-12-11T06:00") == []


def test_three_days_of_downtime_are_one_digest(mailed):
    for day in ("2026-12-10", "2026-12-11", "2026-12-12"):
        mailed.now = at(f"{day}T00:01")
        mailed.publish("home_page", f"2026-12-0{int(day[-2:]) - 4}", home_tally())
    assert sorted(mailed.look("2026-12-13T14:00")) == sorted([CONTACT, UI])
    text = texts(mailed)[UI]
    assert all(f"home_page, 2026-12-0{day}" in text for day in (6, 7, 8))
    assert mailed.look("2026-12-13T14:05") == []


def home_tally() -> Tally:
    return Tally(np.full(4, 300), np.full((4, 32), 150))


def test_withheld_failed_alarms_and_changes_are_told_and_nothing_below_the_minimum(mailed, caplog):
    caplog.set_level(logging.CRITICAL)
    mailed.now = at("2026-12-10T00:01")
    mailed.publish("theme", "2026-W49", SHARES, n=20_000)
    mailed.look("2026-12-10T06:00")
    mailed.now = at("2026-12-17T00:01")
    mailed.publish("theme", "2026-W50", [0.2, 0.6, 0.2, 0.0], n=20_000)
    mailed.publish("smokes", "once", [0.9, 0.1], n=97)
    mailed.publish("home_page", "2026-12-10", home_tally())  # half of all bits: no honest device
    bad = Tally(np.array([1000, 0, 0, 0]), np.zeros((4, 31), np.int64))
    mailed.publish("home_page", "2026-12-11", bad)
    assert sorted(mailed.look("2026-12-17T06:00")) == sorted([CONTACT, UI, SURVEY])
    text = texts(mailed)[CONTACT]
    assert "Changed since 2026-W49: “light” −30." in text or "“dark” +30." in text
    assert "smokes, once" in text and "Fewer than 100 reports." in text
    assert "home_page, 2026-12-11" in text and "the tally must have shape (4, 32)" in text
    assert "got (4, 31)" not in text
    parts = [part for made in mailed.mailbox.kept for part in made.iter_parts()]
    assert not any(re.search(r"\b97\b", part.get_content()) for part in parts)


def test_an_alarm_comes_first(mailed):
    mailed.now = at("2026-12-10T00:01")
    mailed.publish("theme", "2026-W49", SHARES)
    mailed.publish("home_page", "2026-12-06", home_tally())
    mailed.look("2026-12-10T06:00")
    made = next(m for m in mailed.mailbox.kept if m["To"].addresses[0].addr_spec == UI)
    assert "1 ALARM" in made["Subject"]
    text = texts(mailed)[UI]
    assert text.index("do not explain the reports") < text.index("theme, 2026-W49")


def test_a_failure_is_told_each_day_until_it_succeeds(mailed, metrics, caplog):
    caplog.set_level(logging.CRITICAL)
    mailed.now = at("2026-12-10T00:01")
    bad = Tally(np.array([1000, 0, 0, 0]), np.zeros((4, 31), np.int64))
    mailed.publish("home_page", "2026-12-01", bad)
    assert mailed.look("2026-12-10T06:00") != []
    assert mailed.look("2026-12-11T06:00") != []
    assert [each.metric for each in failures(mailed.directory)] == ["home_page"]
    home = metrics["home_page"]
    del mailed.source.kept[home.name, home.fingerprint, parse("day", "2026-12-01")]
    mailed.publish("home_page", "2026-12-01", home_tally())
    assert failures(mailed.directory) == []
    mailed.look("2026-12-12T06:00")
    assert "Failed" not in texts(mailed)[UI]
    assert mailed.look("2026-12-13T06:00") == []


def test_the_end_of_a_metric_is_told_thirty_seven_and_one_day_ahead(mailed):
    """theme and home_page take reports until 31 December 2027."""
    days = [f"2027-{month}-{day:02d}" for month in (11, 12) for day in range(1, 31)]
    told = [day for day in days if mailed.look(f"{day}T06:00")]
    assert told == ["2027-12-01", "2027-12-24", "2027-12-30"]
    assert "Takes no reports from 2027-12-31 on: 1 day left." in texts(mailed)[UI]


def test_a_mail_server_that_is_down_is_tried_again_with_growing_pauses(days, caplog):
    caplog.set_level(logging.WARNING)
    port = free()
    days.mail_to(port)
    days.look("2026-12-09T12:00")
    days.now = at("2026-12-10T00:01")
    days.publish("theme", "2026-W49", SHARES)
    assert days.look("2026-12-10T06:00") == []
    (line,) = [record.getMessage() for record in caplog.records]
    assert "to 2 recipients was not delivered" in line and "ConnectionRefusedError" in line
    mailbox = Mailbox()
    with mail_server(mailbox, port=port):
        assert days.look("2026-12-10T06:04") == []
        assert sorted(days.look("2026-12-10T06:05")) == sorted([CONTACT, UI])
        assert days.look("2026-12-10T06:10") == []
    assert len(mailbox.kept) == 2
    assert [pause_seconds(tries) / 60 for tries in (0, 1, 2, 99)] == [5, 10, 20, 240]


def test_what_could_not_be_delivered_is_in_the_next_day_s_digest_and_one_mail(days):
    port = free()
    days.mail_to(port)
    days.look("2026-12-09T12:00")
    for day in ("2026-12-10", "2026-12-11", "2026-12-12"):
        days.now = at(f"{day}T00:01")
        days.publish("home_page", f"2026-12-0{int(day[-2:]) - 4}", home_tally())
        assert days.look(f"{day}T06:00") == []
    days.mailbox = Mailbox()
    with mail_server(days.mailbox, port=port):
        assert days.look("2026-12-13T06:00") == [CONTACT, UI]
    assert len(days.mailbox.kept) == 2
    assert all(f"home_page, 2026-12-0{day}" in texts(days)[UI] for day in (6, 7, 8))


def test_a_refused_recipient_keeps_nobody_else_from_theirs(mailed, caplog):
    mailed.mailbox.refused = {CONTACT}
    mailed.now = at("2026-12-10T00:01")
    mailed.publish("theme", "2026-W49", SHARES)
    assert mailed.look("2026-12-10T06:00") == [UI]
    assert "550" in caplog.text and "no further try before the next digest" in caplog.text
    assert mailed.look("2026-12-10T20:00") == []
    mailed.mailbox.refused = set()
    assert mailed.look("2026-12-11T06:00") == [CONTACT]
    assert "theme, 2026-W49" in texts(mailed)[CONTACT]


def test_the_webhook_hears_of_everything_once(days):
    hook = Hook(500)
    with hook.running():
        days.settings = NotifySettings.from_env({"SOTTOVOCE_WEBHOOK_URL": hook.url})
        days.look("2026-12-09T12:00")
        days.now = at("2026-12-10T00:01")
        days.publish("theme", "2026-W49", SHARES)
        days.publish("smokes", "once", [0.9, 0.1])
        assert days.look("2026-12-10T06:00") == []
        assert days.look("2026-12-10T06:05") == ["webhook"]
        assert days.look("2026-12-10T06:10") == []
    first, second = hook.kept
    assert first[0]["idempotency-key"] == second[0]["idempotency-key"]
    assert first[1] == second[1]
    assert [r["metric"] for r in json.loads(second[1])["released"]] == ["smokes", "theme"]


def test_an_owner_who_is_no_address_is_named_in_the_log_and_keeps_nobody_back(mailed, caplog):
    registry = loads(REGISTRY.replace(UI, "#ui-team"))
    notifier = replace(mailed.notifier, audience=lambda: Audience.of([registry]))
    mailed.now = at("2026-12-10T00:01")
    mailed.publish("theme", "2026-W49", SHARES)
    mailed.now = at("2026-12-10T06:00")
    assert [letter.recipient for letter in notifier.look()] == [CONTACT]
    assert "not an e-mail address, so no digest goes there: #ui-team" in caplog.text


def test_a_planted_release_is_not_told_and_mutes_nobody(mailed, caplog):
    mailed.now = at("2026-12-10T00:01")
    mailed.publish("theme", "2026-W49", SHARES)
    (true,) = mailed.directory.glob("theme/*.json")
    planted = true.with_name(true.name.replace("W49", "W48"))
    planted.write_text(true.read_text().replace("2026-W49", "2026-W48"))
    os.utime(planted, (mailed.now, mailed.now))
    assert sorted(mailed.look("2026-12-10T06:00")) == sorted([CONTACT, UI])
    assert f"left out of the digest: {planted.name} has no signature" in caplog.text
    assert "2026-W48" not in texts(mailed)[UI]


def test_a_preview_changes_nothing(days):
    days.now = at("2026-12-10T00:01")
    days.publish("theme", "2026-W49", SHARES)
    before = sorted(path.name for path in days.directory.iterdir())
    days.now = at("2026-12-10T00:05")
    assert [letter.recipient for letter in days.notifier.preview(None)] == [CONTACT, UI]
    assert days.notifier.preview(at("2026-12-10T00:02")) == []
    assert sorted(path.name for path in days.directory.iterdir()) == before


def test_the_outbox_is_for_its_owner_only(mailed):
    assert (mailed.directory / ".notifications.json").stat().st_mode & 0o777 == 0o600


def test_a_day_begins_at_the_hour_of_digests():
    assert day_due(at("2026-12-10T05:59:59"), 6) == date(2026, 12, 9)
    assert day_due(at("2026-12-10T06:00"), 6) == date(2026, 12, 10)
    assert day_due(at("2026-12-10T00:00"), 0) == date(2026, 12, 10)


def test_a_digest_waits_for_the_publisher_so_that_no_release_falls_between(mailed):
    import threading

    mailed.now = at("2026-12-10T00:01")
    mailed.publish("theme", "2026-W49", SHARES)
    got: list[list[str]] = []
    worker = threading.Thread(target=lambda: got.append(mailed.look("2026-12-10T06:00")))
    with only_publisher(mailed.directory):
        worker.start()
        worker.join(0.3)
        assert worker.is_alive()
    worker.join(20)
    assert sorted(got[0]) == sorted([CONTACT, UI])


PROGRAM = """
import os, signal, sys
from pathlib import Path
from estimator.notices import outbox
from estimator.notices.audience import Audience
from estimator.notices.notify import Notifier
from estimator.settings import NotifySettings
from client_sdk.registry import loads
from tests.estimator.conftest import REGISTRY
from tests.estimator.test_notify import SIGNING

directory, now, fatal = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "kill"
if fatal:
    true = outbox.write
    def write(where, state):
        # The digest is composed and noted; the first delivery is made and cannot be noted.
        if state.day.isoformat() == "2026-12-10" and len(state.letters) < 2:
            os.kill(os.getpid(), signal.SIGKILL)
        true(where, state)
    outbox.write = write
settings = NotifySettings.from_env(os.environ)
audience = Audience.of([loads(REGISTRY)])
print("ready", flush=True)
sys.stdin.readline()
for letter in Notifier(directory, settings, lambda: audience, lambda: SIGNING, lambda: now).look():
    print(letter.recipient, flush=True)
"""


def process(days: Days, port: int, how: str = "live") -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(days.directory), str(at("2026-12-10T06:00")), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT),
            "SOTTOVOCE_SMTP_URL": f"smtp://127.0.0.1:{port}?starttls=off",
            "SOTTOVOCE_MAIL_FROM": "digests@example.org",
        },
    )
    assert started.stdout is not None and started.stdout.readline() == "ready\n"
    return started


def test_two_processes_at_once_send_once(days):
    days.mailbox = Mailbox()
    with mail_server(days.mailbox) as port:
        days.mail_to(port)
        days.look("2026-12-09T12:00")
        days.now = at("2026-12-10T00:01")
        days.publish("theme", "2026-W49", SHARES)
        both = [process(days, port), process(days, port)]
        for each in both:
            each.stdin.write("\n")
            each.stdin.flush()
        said = [each.communicate(timeout=60)[0].split() for each in both]
    assert sorted(name for names in said for name in names) == sorted([CONTACT, UI])
    assert sorted(days.mailbox.recipients) == sorted([CONTACT, UI])


def test_a_crash_between_sending_and_noting_repeats_one_mail_under_its_name(days):
    days.mailbox = Mailbox()
    with mail_server(days.mailbox) as port:
        days.mail_to(port)
        days.look("2026-12-09T12:00")
        days.now = at("2026-12-10T00:01")
        days.publish("theme", "2026-W49", SHARES)
        killed = process(days, port, "kill")
        killed.communicate("\n", timeout=60)
        assert killed.returncode == -signal.SIGKILL
        assert days.mailbox.recipients == [CONTACT]
        state = outbox.read(days.directory)
        assert state is not None and len(state.letters) == 2
        assert sorted(days.look("2026-12-10T06:05")) == sorted([CONTACT, UI])
    first, again, other = days.mailbox.kept
    assert first["Message-ID"] == again["Message-ID"] != other["Message-ID"]
    assert first.get_body(("plain",)).get_content() == again.get_body(("plain",)).get_content()
