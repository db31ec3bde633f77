"""Notifications: one digest a day to each owner and to the webhook, tried again until it arrives.

A digest is composed once a day, from the settings' hour on, and written to the outbox before
anything is sent; a delivery is noted right after it. So nothing is lost, and what a crash falls
between may be sent twice, with the same Message-ID and idempotency key. What was not delivered by
the next day is told in that day's digest.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

from aggregator.keyring.signing import Signing
from client_sdk.epochs import DAY_SECONDS
from estimator.errors import NotDelivered
from estimator.notices import mail, outbox, webhook
from estimator.notices.audience import Audience
from estimator.notices.digest import compose
from estimator.notices.outbox import Letter, Outbox
from estimator.publish import only_publisher
from estimator.releases.failures import failures
from estimator.settings import MailServer, NotifySettings, address

log = logging.getLogger(__name__)

Hears = Callable[[str], bool]
WEBHOOK = "webhook"
"""Stands in for an address."""
_FIRST_PAUSE_SECONDS = 300.0
_LONGEST_PAUSE_SECONDS = 4 * 3600.0
_MARGIN_SECONDS = 1.0
"""Digests end this long before now: clocks of file systems run in steps."""
_LONGEST_SPAN_SECONDS = 31.0 * DAY_SECONDS
"""So far back a digest tells at most, to whoever could not be reached for long."""


@dataclass(frozen=True)
class Notifier:
    """Everything that notifying needs.

    Attributes:
        directory: Of the releases.
        settings: Ways and hour.
        audience: Returns who hears of what; reads the store.
        signing: Returns the keys of now, which have signed the releases and sign the webhook.
        clock: Returns the Unix time.
    """

    directory: Path
    settings: NotifySettings
    audience: Callable[[], Audience]
    signing: Callable[[], Signing]
    clock: Callable[[], float]

    def look(self) -> list[Letter]:
        """Compose the day's digest if it is due, and deliver what waits.

        The first look of all only notes the time: the first digest tells what happens from then on.

        Returns:
            What was delivered; nothing if somebody else is at it.

        Raises:
            OSError, SottovoceError: No store, or no outbox; to be tried again.
        """
        with outbox.alone(self.directory) as ours:
            return self._look() if ours else []

    def preview(self, since: float | None) -> list[Letter]:
        """Return what would be sent if the next digest were due now; changes nothing.

        Args:
            since: Unix time to tell from; None: from the last digest, or a day back without one.
        """
        now = self.clock()
        today = _date_of(now)
        before = outbox.read(self.directory) or Outbox(today, now - DAY_SECONDS)
        if since is not None:
            before = Outbox(before.day, since)
        return list(self._composed(before, today, now, with_mail=True).letters)

    def _look(self) -> list[Letter]:
        now = self.clock()
        day = day_due(now, self.settings.digest_hour)
        state = outbox.read(self.directory)
        if state is None:
            outbox.write(self.directory, Outbox(day, now - _MARGIN_SECONDS))
            return []
        if state.day < day:
            with only_publisher(self.directory):
                with_mail = self.settings.mail_server is not None
                state = self._composed(state, day, self.clock(), with_mail=with_mail)
            outbox.write(self.directory, state)
        return _Round(self, state).delivered()

    def _composed(self, before: Outbox, day: date, now: float, *, with_mail: bool) -> Outbox:
        """Write everybody's letter; who did not get the last one hears of its time too."""
        audience = self.audience()
        until = now - _MARGIN_SECONDS
        earliest = until - _LONGEST_SPAN_SECONDS
        waiting = {letter.recipient: letter.digest.since for letter in before.letters}
        everything = compose(
            self.directory,
            audience,
            failures(self.directory),
            day=day,
            since=max(earliest, min((before.until, *waiting.values()))),
            until=until,
            releases_url=self.settings.releases_url,
            public=self.signing().public,
        )
        people = _people(audience) if with_mail else []
        parts = [
            (who, everything.part(hears, max(earliest, waiting.get(who, before.until))))
            for who, hears in (*people, *([(WEBHOOK, _all)] if self.settings.webhook_url else []))
        ]
        return Outbox(day, until, tuple(Letter(who, part) for who, part in parts if part.is_news))


class _Round:
    """One round of deliveries; each is noted before the next begins."""

    def __init__(self, notifier: Notifier, state: Outbox) -> None:
        self._settings = notifier.settings
        self._directory = notifier.directory
        self._signing = notifier.signing
        self._now = notifier.clock()
        self._state = state
        self._delivered: list[Letter] = []

    def delivered(self) -> list[Letter]:
        """Deliver what is to be tried now; return what was taken."""
        due = [letter for letter in self._state.letters if letter.next_try <= self._now]
        for letter in due:
            if letter.recipient == WEBHOOK and self._settings.webhook_url is not None:
                self._post(letter, self._settings.webhook_url)
        mails = [letter for letter in due if letter.recipient != WEBHOOK]
        if mails and self._settings.mail_server is not None:
            self._mail(mails, self._settings.mail_server)
        return self._delivered

    def _post(self, letter: Letter, url: str) -> None:
        name = mail.name_of(letter.digest, WEBHOOK)
        try:
            webhook.post(url, letter.digest, name, self._now, self._signing().sign)
        except NotDelivered as error:
            self._postpone([letter], error)
        else:
            self._note(letter)

    def _mail(self, letters: list[Letter], server: MailServer) -> None:
        waiting = deque(letters)
        try:
            with mail.connected(server) as connection:
                while waiting:
                    self._hand_over(waiting[0], connection)
                    waiting.popleft()
        except NotDelivered as error:
            self._postpone(list(waiting), error)

    def _hand_over(self, letter: Letter, connection: mail.Connection) -> None:
        sender, recipient = self._settings.mail_from, address(letter.recipient)
        assert sender is not None and recipient is not None
        try:
            connection.send(mail.message(letter.digest, sender, recipient))
        except NotDelivered as error:
            if not error.alone:
                raise
            self._postpone([letter], error)
        else:
            self._note(letter)

    def _note(self, letter: Letter) -> None:
        self._state = self._state.without(letter)
        outbox.write(self._directory, self._state)
        self._delivered.append(letter)
        log.info("the digest of %s went to %s", letter.digest.day, letter.recipient)

    def _postpone(self, letters: Sequence[Letter], error: NotDelivered) -> None:
        if not letters:
            return
        for letter in letters:
            pause = DAY_SECONDS if error.lasting else pause_seconds(letter.tries)
            later = replace(letter, tries=letter.tries + 1, next_try=self._now + pause)
            self._state = self._state.with_letter(later)
        outbox.write(self._directory, self._state)
        who = letters[0].recipient if len(letters) == 1 else f"{len(letters)} recipients"
        again = "no further try before the next digest" if error.lasting else "tried again later"
        day = letters[0].digest.day
        log.warning("the digest of %s to %s was not delivered: %s; %s", day, who, error, again)


def day_due(now: float, hour: int) -> date:
    """Return the latest UTC date whose digest is due, with digests due from some hour on."""
    return _date_of(now - hour * 3600)


def pause_seconds(tries: int) -> float:
    """Return how long to wait after one more try in vain."""
    return float(min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(tries, 10)))


def _people(audience: Audience) -> list[tuple[str, Hears]]:
    recipients = audience.recipients()
    nowhere = [who for who in recipients if address(who) is None]
    if nowhere:
        log.warning("not an e-mail address, so no digest goes there: %s", ", ".join(nowhere))
    return [(who, partial(audience.hears, who)) for who in recipients if who not in nowhere]


def _all(metric: str) -> bool:
    return True


def _date_of(seconds: float) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()
