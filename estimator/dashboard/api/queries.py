"""Parameters of reading requests, checked before anything is done with them."""

import base64
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass
from datetime import date
from typing import Self

from werkzeug.datastructures import MultiDict

from estimator.dashboard.problems import ReadProblem
from estimator.dashboard.shelf import EPOCH, FINGERPRINT, METRIC, Entry

MOST_PER_PAGE = 200
_PER_PAGE = 50
_STATUSES = ("PUBLISHED", "WITHHELD")
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CURSOR = re.compile(r"[A-Za-z0-9_-]{1,400}")


def single(given: "MultiDict[str, str]", known: Collection[str]) -> dict[str, str]:
    """Return the query, in which each known parameter stands at most once and no other stands.

    Raises:
        ReadProblem: It does not; names the parameter.
    """
    for name, values in given.lists():
        if name not in known:
            listed = f"takes {', '.join(known)} only" if known else "takes no parameters"
            raise ReadProblem("malformed", f"this address {listed}", name)
        if len(values) > 1:
            raise ReadProblem("malformed", "must be given once", name)
    return given.to_dict()


def matching(query: Mapping[str, str], name: str, pattern: str) -> str | None:
    """Return a parameter that is of the form of a pattern, None if it is not given.

    Raises:
        ReadProblem: It is of another form.
    """
    value = query.get(name)
    if value is not None and not re.fullmatch(pattern, value):
        raise ReadProblem("malformed", f"must match ^{pattern}$", name)
    return value


def one_of(query: Mapping[str, str], name: str, known: Collection[str]) -> str | None:
    """Return a parameter that is one of some words, None if it is not given.

    Raises:
        ReadProblem: It is another word.
    """
    value = query.get(name)
    if value is not None and value not in known:
        raise ReadProblem("malformed", f"must be one of {', '.join(known)}", name)
    return value


@dataclass(frozen=True)
class Selection:
    """Which releases a list shows, and from where on.

    Attributes:
        metric: Only this one's.
        status: Only PUBLISHED or only WITHHELD.
        since: Only epochs that begin on this UTC date or later.
        until: Only epochs that begin on this UTC date or earlier.
        fingerprint: Only this version's, or only pooled ones.
        limit: At most so many.
        after: The last one that was shown before.
    """

    metric: str | None
    status: str | None
    since: str | None
    until: str | None
    fingerprint: str | None
    limit: int
    after: Entry | None

    NAMES = ("metric", "status", "since", "until", "fingerprint", "limit", "cursor")

    @classmethod
    def of(cls, given: "MultiDict[str, str]") -> Self:
        """Read a query.

        Raises:
            ReadProblem: A parameter breaks its rule; names it.
        """
        query = single(given, cls.NAMES)
        return cls(
            metric=matching(query, "metric", METRIC),
            status=one_of(query, "status", _STATUSES),
            since=_day(query, "since"),
            until=_day(query, "until"),
            fingerprint=matching(query, "fingerprint", FINGERPRINT),
            limit=_limit(query),
            after=_entry_of(query.get("cursor")),
        )

    def named(self, entry: Entry) -> bool:
        """Say whether a release is shown, as far as its name tells."""
        return (
            self.metric in (None, entry.metric)
            and self.fingerprint in (None, entry.fingerprint)
            and (self.since is None or self.since <= entry.first_day)
            and (self.until is None or entry.first_day <= self.until)
        )


def cursor_of(entry: Entry) -> str:
    """Return what says "after this one"; nobody is to read anything into it."""
    text = json.dumps(astuple(entry), separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _entry_of(cursor: str | None) -> Entry | None:
    if cursor is None:
        return None
    try:
        if not _CURSOR.fullmatch(cursor):
            raise ValueError("cursor")
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        for part, pattern in zip(parts, (METRIC, _DAY, EPOCH, FINGERPRINT), strict=True):
            if not re.fullmatch(pattern, part):
                raise ValueError("cursor")
        return Entry(*parts)
    except (ValueError, TypeError, RecursionError) as error:
        rule = "must be taken from `next` of the page before"
        raise ReadProblem("malformed", rule, "cursor") from error


def _day(query: Mapping[str, str], name: str) -> str | None:
    value = query.get(name)
    try:
        if value is not None and date.fromisoformat(value).isoformat() != value:
            raise ValueError(name)
    except ValueError as error:
        raise ReadProblem("malformed", "must be a date like 2026-11-30", name) from error
    return value


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(_PER_PAGE))
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text) or int(text) > MOST_PER_PAGE:
        raise ReadProblem("malformed", f"must be an integer in 1..{MOST_PER_PAGE}", "limit")
    return int(text)
