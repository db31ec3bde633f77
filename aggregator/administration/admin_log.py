"""The administrators' log: what was done to keys, registry, epochs and store; append only.

    {"act":"key_retired","details":{"id":1,"kind":"sealing"},"host":"a","mac":"<64 hex>",
     "previous":"<64 hex>","sequence":7,"time":"2026-11-30T12:00:00Z","who":"root"}

One entry a line, in `admin_log.jsonl` beside the key file. Each carries a MAC over itself and the
MAC before it, under a key derived from the pseudonym key: nobody without the key file can change,
remove, add or reorder one unseen. Cutting off the end breaks no chain, so the store keeps how far
each log had come (`aggregator.store.log_heads`). An act is recorded before it is done, and is not
done where it cannot be recorded.

Limit: whoever can write to log and store can cut off the end, and with the key file too write
another history; `sottovoce log verify --head` compares with a head that was noted elsewhere.
"""

import fcntl
import getpass
import hashlib
import hmac
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aggregator.store.log_heads import Head, LogHeads

FILE_NAME = "admin_log.jsonl"
_BEGUN = "log_begun"
_NOTHING = "0" * 64
_FIELDS = {"sequence", "time", "act", "who", "host", "details", "previous", "mac"}


@dataclass(frozen=True)
class Entry:
    """One act.

    Attributes:
        sequence: 1, 2, 3, ...
        time: UTC, ISO 8601, seconds.
        act: What was done.
        who: The process's user.
        host: Its machine.
        details: Of the act; never a secret.
        previous: MAC of the entry before.
        mac: Of all the rest.
    """

    sequence: int
    time: str
    act: str
    who: str
    host: str
    details: Mapping[str, object]
    previous: str
    mac: str = ""

    def line(self) -> bytes:
        """Return the entry as the file has it."""
        return json.dumps(vars(self), sort_keys=True, separators=(",", ":")).encode() + b"\n"

    def signed(self, key: bytes) -> "Entry":
        """Return the entry with its MAC."""
        unsigned = replace(self, mac="")
        return replace(self, mac=hmac.digest(key, unsigned.line(), "sha256").hex())

    @classmethod
    def read(cls, line: bytes) -> "Entry":
        """Read a line of the file.

        Raises:
            ValueError: It is not an entry.
        """
        document = json.loads(line)
        if not isinstance(document, dict) or document.keys() != _FIELDS:
            raise ValueError("fields")
        entry = cls(**document)
        words = (entry.time, entry.act, entry.who, entry.host, entry.previous, entry.mac)
        if type(entry.sequence) is not int or not isinstance(entry.details, dict):
            raise ValueError("sequence or details")
        if not all(isinstance(word, str) for word in words):
            raise ValueError("a text")
        return entry


@dataclass(frozen=True)
class Findings:
    """What a log was found to be.

    Attributes:
        entries: Those that can be read.
        problems: Signs that somebody changed it.
        notes: What has an innocent reason.
        head: How far it has come; None where there is no sound entry.
    """

    entries: tuple[Entry, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    head: Head | None


class AdminLog:
    """The log of one key file; safe for processes that write at once.

    Args:
        path: The file; made with the first entry.
        key: Of its MACs.
        who: The process's user.
        host: Its machine.
        clock: Unix time in seconds.
    """

    def __init__(
        self, path: Path, key: bytes, who: str, host: str, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self.host = host
        self._key = key
        self._who = who
        self._clock = clock
        self._seen: tuple[bytes, Findings] | None = None

    @classmethod
    def beside(cls, keys_file: Path, pseudonym_key: bytes) -> "AdminLog":
        """Return the log that belongs to a key file, as this process may write it."""
        path = keys_file.resolve().with_name(FILE_NAME)
        key = hmac.digest(pseudonym_key, b"sottovoce administrators' log v1", "sha256")
        return cls(path, key, _user(), socket.gethostname())

    def record(self, act: str, **details: object) -> None:
        """Append an entry, durably.

        Raises:
            OSError: It cannot be written.
            ValueError: The log ends in something that is not an entry; see `findings`.
        """
        with self._alone() as file:
            whole, torn = _split(file.read())
            last = self._last_of(whole)
            if last is None:
                last = self._append(file, None, _BEGUN, {"log": secrets.token_hex(8)})
            if torn:
                # Whoever was writing it has died before the act: nothing is lost but the attempt.
                file.truncate(len(whole))
                last = self._append(file, last, "append_was_cut_off", {"bytes": len(torn)})
            self._append(file, last, act, details)
            file.flush()
            os.fsync(file.fileno())

    def last(self, act: str) -> Entry | None:
        """Return the last entry of an act."""
        found = [entry for entry in self.findings().entries if entry.act == act]
        return found[-1] if found else None

    def findings(self) -> Findings:
        """Read the log and check it by itself."""
        try:
            whole, torn = _split(self.path.read_bytes())
        except FileNotFoundError:
            return Findings((), (), ("there is no log yet",), None)
        digest = hashlib.sha256(whole + torn).digest()
        seen = self._seen
        if seen is None or seen[0] != digest:  # 10,000 entries take a fifth of a second
            seen = self._seen = (digest, self._judged(whole, torn))
        return seen[1]

    def _judged(self, whole: bytes, torn: bytes) -> Findings:
        entries, problems = self._checked(whole)
        notes = []
        if torn:
            notes.append(
                f"the last append was cut off after {len(torn)} bytes: a crash, before its act"
            )
        if entries and entries[0].act != _BEGUN:
            problems.append("the log does not begin with its beginning")
        head = None
        if entries:
            head = Head(entries[0].mac[:16], entries[-1].sequence, entries[-1].mac, self.host)
        return Findings(tuple(entries), tuple(problems), tuple(notes), head)

    def anchor(self, heads: LogHeads) -> None:
        """Tell the store how far this log has come."""
        if not self.path.exists():
            return
        with self._alone():
            found = self.findings()
            head = found.head
            if head is not None and not found.problems:
                known = heads.all().get(head.log)
                # What was cut off and written anew must not take the place of what was there.
                if known is None or (not _behind(found, known) and known != head):
                    heads.put(head)

    def compared(self, heads: Mapping[str, Head]) -> Findings:
        """Check the log also against how far the store has seen logs come."""
        found = self.findings()
        problems, notes = list(found.problems), list(found.notes)
        for head in heads.values():
            if found.head is not None and head.log == found.head.log:
                problems += _behind(found, head)
                if head.sequence < found.head.sequence:
                    ahead = found.head.sequence - head.sequence
                    notes.append(f"the store has not seen the last {ahead} entries yet")
            elif head.host == self.host:
                problems.append(
                    f"log {head.log} of this machine, of {head.sequence} entries, is not here: "
                    "it was deleted or replaced"
                )
            else:
                notes.append(f"log {head.log} of {head.host} has {head.sequence} entries")
        if found.head is not None and found.head.log not in heads:
            notes.append("the store has not seen this log yet: its end is not guarded")
        return replace(found, problems=tuple(problems), notes=tuple(notes))

    def _last_of(self, whole: bytes) -> Entry | None:
        lines = whole.splitlines(keepends=True)
        try:
            return Entry.read(lines[-1]) if lines else None
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{self.path} must end in an entry, or nothing more can be recorded and done: see "
                "`sottovoce log verify`, move the file away, and keep it"
            ) from error

    def _checked(self, whole: bytes) -> tuple[list[Entry], list[str]]:
        entries: list[Entry] = []
        problems = []
        previous = _NOTHING
        for place, line in enumerate(whole.splitlines(keepends=True), 1):
            try:
                entry = Entry.read(line)
            except (ValueError, TypeError, RecursionError):
                problems.append(f"line {place} is not an entry")
                continue
            genuine = entry.signed(self._key)
            if not hmac.compare_digest(genuine.line(), line):
                problems.append(f"line {place}, entry {entry.sequence}, was changed")
            elif entry.previous != previous:
                problems.append(
                    f"line {place}, entry {entry.sequence}, does not follow what is before it: "
                    "something was removed, added or moved"
                )
            previous = entry.mac
            entries.append(entry)
        return entries, problems

    def _append(
        self, file: Any, last: Entry | None, act: str, details: Mapping[str, object]
    ) -> Entry:
        now = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        number = 1 if last is None else last.sequence + 1
        previous = _NOTHING if last is None else last.mac
        entry = Entry(number, now, act, self._who, self.host, dict(details), previous)
        entry = entry.signed(self._key)
        file.write(entry.line())
        return entry

    @contextmanager
    def _alone(self) -> Iterator[Any]:
        """Open the file for reading and appending, and keep others out."""
        made = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        if made:
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # which makes the new name durable
            finally:
                os.close(folder)


def _behind(found: Findings, head: Head) -> list[str]:
    here = [entry for entry in found.entries if entry.sequence == head.sequence]
    if not here:
        return [f"the store has seen entry {head.sequence}, which is not here: the end was cut off"]
    if here[0].mac != head.mac:
        return [f"entry {head.sequence} is not the one that the store has seen"]
    return []


def _split(content: bytes) -> tuple[bytes, bytes]:
    """Return whole lines, and what a crash has left of one."""
    end = content.rfind(b"\n") + 1
    return content[:end], content[end:]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user often has no name
        return str(os.getuid())
