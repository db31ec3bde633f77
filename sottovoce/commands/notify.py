"""Send the digests that are due, like `sottovoce schedule` does every few minutes.

--dry-run shows what each recipient would get if the next digest were due now, and sends nothing.
--test ADDRESS sends a mail that says that it is a test. Exit status 1 if something waits that could
not be delivered.
"""

import argparse
import json
import os
import time
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimator.notices.outbox import Letter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--dry-run", action="store_true", help="show what would be sent, send nothing"
    )
    what.add_argument("--test", metavar="ADDRESS", help="send a test mail")
    parser.add_argument(
        "--since",
        type=date.fromisoformat,
        metavar="YYYY-MM-DD",
        help="with --dry-run: tell from that day on, UTC, instead of from the last digest",
    )
    parser.add_argument("--json", action="store_true", help="print the digests as JSON")


def run(args: argparse.Namespace) -> int:
    if args.since is not None and not args.dry_run:
        raise ValueError("--since goes with --dry-run: what was sent is not sent again")
    if args.test is not None:
        return _test(args.test)
    from estimator.notices import outbox
    from sottovoce.connect import connect
    from sottovoce.notifications import notifier
    from sottovoce.system import releases_directory

    settings, store, _ = connect()
    notify = notifier(settings, store, releases_directory())
    if args.dry_run:
        _print(notify.preview(_midnight(args.since)), args.json)
        return 0
    if not notify.settings.notifies:
        raise ValueError("SOTTOVOCE_SMTP_URL or SOTTOVOCE_WEBHOOK_URL must be set to send anything")
    sent = notify.look()
    if args.json:
        _print(sent, as_json=True)
    else:
        for letter in sent:
            print(f"{letter.recipient} has got the digest of {letter.digest.day}")
        if not sent:
            print("Nothing was sent.")
    state = outbox.read(notify.directory)
    return 1 if state is not None and state.letters else 0


def _test(text: str) -> int:
    from estimator.notices import mail
    from estimator.settings import NotifySettings, address

    settings, recipient = NotifySettings.from_env(os.environ), address(text)
    if recipient is None:
        raise ValueError(f"--test must be an e-mail address, got {text!r}")
    if settings.mail_server is None or settings.mail_from is None:
        raise ValueError("SOTTOVOCE_SMTP_URL must be set to send mail")
    with mail.connected(settings.mail_server) as connection:
        connection.send(mail.trial_message(settings.mail_from, recipient, time.time()))
    print(f"{settings.mail_server} has taken a test mail to {text}")
    return 0


def _midnight(day: date | None) -> float | None:
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _print(letters: "Sequence[Letter]", as_json: bool) -> None:
    from estimator.notices.digest_words import as_text, subject

    if as_json:
        found = [{"to": each.recipient, "digest": each.digest.to_dict()} for each in letters]
        print(json.dumps(found, indent=2, allow_nan=False))
        return
    for letter in letters:
        print(f"To: {letter.recipient}\nSubject: {subject(letter.digest)}\n")
        print(as_text(letter.digest))
    if not letters:
        print("Nobody has anything to hear.")
