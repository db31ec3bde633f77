"""The outbox: which day's digest was composed last, and who has not got theirs yet.

One file beside the releases, DIRECTORY/.notifications.json, readable by its owner only: it names
people. It is replaced as a whole, durably, after each delivery.
"""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path

from aggregator.keyring import private_file
from estimator.errors import DocumentError
from estimator.notices.digest import Digest

_NAME = ".notifications.json"
_LOCK = ".notifying.lock"


@dataclass(frozen=True)
class Letter:
    """A digest that somebody has not got yet.

    Attributes:
        recipient: An address, or "webhook".
        digest: Theirs.
        tries: How often it was tried.
        next_try: Unix time before which it is not tried again.
    """

    recipient: str
    digest: Digest
    tries: int = 0
    next_try: float = 0.0


@dataclass(frozen=True)
class Outbox:
    """What is known between two looks.

    Attributes:
        day: Of the digest that was composed last.
        until: Unix time up to which it tells.
        letters: What waits.
    """

    day: date
    until: float
    letters: tuple[Letter, ...] = ()

    def with_letter(self, letter: Letter) -> "Outbox":
        """Return it with a letter in place of the one to the same recipient."""
        return replace(
            self,
            letters=tuple(
                letter if each.recipient == letter.recipient else each for each in self.letters
            ),
        )

    def without(self, letter: Letter) -> "Outbox":
        """Return it without the letter to this one's recipient."""
        kept = tuple(each for each in self.letters if each.recipient != letter.recipient)
        return replace(self, letters=kept)


def read(directory: Path) -> Outbox | None:
    """Return the outbox; None before the first look.

    Raises:
        DocumentError: The file is none of ours.
    """
    path = directory / _NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Outbox(
            date.fromisoformat(document["day"]),
            float(document["until"]),
            tuple(
                Letter(**each | {"digest": Digest.from_dict(each["digest"])})
                for each in document["letters"]
            ),
        )
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise DocumentError(_NAME, f"must be an outbox ({error!r})", str(path)) from error


def write(directory: Path, outbox: Outbox) -> None:
    """Put an outbox in place, durably."""
    letters = [asdict(letter) | {"digest": letter.digest.to_dict()} for letter in outbox.letters]
    document = {"day": outbox.day.isoformat(), "until": outbox.until, "letters": letters}
    path, text = directory / _NAME, json.dumps(document) + "\n"
    if path.exists():
        private_file.replace(path, text)
    else:
        private_file.create(path, text)


@contextmanager
def alone(directory: Path) -> Iterator[bool]:
    """Yield whether nobody else, in this process or another, is notifying; nobody will begin to."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / _LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
