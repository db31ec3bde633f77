"""A digest in words: the same sentences for plain text and HTML."""

from dataclasses import dataclass
from datetime import UTC, datetime

from estimator.notices.digest import Digest, Expiring, Figure, Released
from estimator.releases.charts import in_percent, in_points, shown
from estimator.releases.failures import Failure
from estimator.releases.page import render

MOST_LISTED = 100
"""Entries of one section of a mail; a year's releases at once would be read by nobody."""
_SUBJECT_LENGTH = 150


@dataclass(frozen=True)
class Entry:
    """One thing to hear: what, then sentences about it, and where to read on."""

    title: str
    sentences: tuple[str, ...]
    link: str | None = None


@dataclass(frozen=True)
class Section:
    """Entries of one kind; how many more there are than are listed."""

    title: str
    entries: tuple[Entry, ...]
    more: int


def subject(digest: Digest) -> str:
    """Return the subject: one line of printable text, whatever the registry says."""
    counts = [
        _counted(sum(bool(r.alarms) for r in digest.released), "ALARM", "ALARMS"),
        _counted(len(digest.failed), "FAILED"),
        _counted(sum(r.status == "OK" for r in digest.released), "published"),
        _counted(sum(r.status == "WITHHELD" for r in digest.released), "withheld"),
        _counted(len(digest.expiring), "expires soon", "expire soon"),
    ]
    said = ", ".join(filter(None, counts)) or "nothing new"
    project = one_line(digest.project)[: _SUBJECT_LENGTH // 2]
    return f"{project}, releases of {digest.day}: {said}"[:_SUBJECT_LENGTH]


def sections(digest: Digest) -> list[Section]:
    """Return everything, what needs a hand first."""
    alarmed = [_released(each) for each in digest.released if each.alarms]
    good = [_released(each) for each in digest.released if each.status == "OK" and not each.alarms]
    withheld = [_released(each) for each in digest.released if each.status == "WITHHELD"]
    found = (
        ("Look before you use these", alarmed),
        ("Failed, tried again until they succeed", [_failed(each) for each in digest.failed]),
        ("Published", good),
        ("Withheld", withheld),
        ("Expire soon", [_expiring(each) for each in digest.expiring]),
    )
    return [
        Section(title, tuple(entries[:MOST_LISTED]), max(0, len(entries) - MOST_LISTED))
        for title, entries in found
        if entries
    ]


def as_text(digest: Digest) -> str:
    """Return the plain text."""
    lines = [one_line(f"{digest.project}: {span(digest)}")]
    for section in sections(digest):
        lines += ["", section.title, "-" * len(section.title)]
        for entry in section.entries:
            lines += ["", one_line(entry.title)]
            lines += [f"  {one_line(sentence)}" for sentence in entry.sentences]
            lines += [f"  {entry.link}"] if entry.link else []
        lines += ["", f"and {section.more} more"] if section.more else []
    return "\n".join([*lines, "", "-- ", FOOTER, ""])


def as_html(digest: Digest) -> str:
    """Return the HTML text; every text of the registry is escaped."""
    return render(
        "digest.html",
        project=digest.project,
        span=span(digest),
        sections=sections(digest),
        footer=FOOTER,
    )


FOOTER = (
    "Shares are estimated from randomized reports; no number says anything about one device. You "
    "get this because metrics.toml names you as owner or contact."
)


def span(digest: Digest) -> str:
    """Return which time a digest is about."""
    first, last = (
        datetime.fromtimestamp(round(moment / 60) * 60, UTC).strftime("%Y-%m-%d %H:%M")
        for moment in (digest.since, digest.until)
    )
    return f"what became of releases from {first} to {last} UTC"


def one_line(text: str) -> str:
    """Return a text without line breaks and other characters that do not print."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _released(each: Released) -> Entry:
    title = f"{each.metric}, {each.epoch}: {each.question}"
    if each.n is None or each.level is None:
        withheld = f"Fewer than {each.min_reports} reports. That says nothing about shares."
        return Entry(title, (withheld,), each.link)
    sentences = [*each.alarms, f"{each.n:,} reports."]
    if each.number is not None:
        sentences.append(
            f"{each.number.name.capitalize()}: {each.number.value} "
            f"({each.level:.0%} interval {each.number.interval})."
        )
    if each.largest is not None:
        ends = f"{in_percent(each.largest.low)} to {in_percent(each.largest.high)}"
        sentences.append(
            f"Largest share: {_named(each.largest)} {in_percent(each.largest.share)} "
            f"({each.level:.0%} interval {ends})."
        )
    if each.number_change is not None:
        change_of = each.number_change
        plus = "" if change_of.value.startswith("\N{MINUS SIGN}") else "+"
        told = f"{plus}{change_of.value} {change_of.interval}"
        sentences.append(f"The mean has changed since {each.since}: {told}.")
    if each.changes:
        moved = "; ".join(
            f"{_named(change)} {'+' if change.share > 0 else ''}{in_points(change.share)} "
            f"\N{PLUS-MINUS SIGN} {in_points((change.high - change.low) / 2)} points"
            for change in each.changes
        )
        sentences.append(f"Changed since {each.since}: {moved}.")
    elif each.since is not None and each.number_change is None:
        sentences.append(f"No change since {each.since} that noise could not explain.")
    return Entry(title, tuple(sentences), each.link)


def _failed(each: Failure) -> Entry:
    first = datetime.fromtimestamp(each.first, UTC).strftime("%Y-%m-%d %H:%M UTC")
    version = f" {each.fingerprint}" * bool(each.fingerprint)
    tries = _counted(each.tries, "try", "tries")
    return Entry(f"{each.metric}, {each.epoch}{version}", (each.reason, f"{tries} since {first}."))


def _expiring(each: Expiring) -> Entry:
    left = _counted(each.days, "day", "days")
    return Entry(each.metric, (f"Takes no reports from {each.expires} on: {left} left.",))


def _named(figure: Figure) -> str:
    return f"\N{LEFT DOUBLE QUOTATION MARK}{shown(figure.value)}\N{RIGHT DOUBLE QUOTATION MARK}"


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 or many is None else many}" if number else ""
