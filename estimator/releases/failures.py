"""Epochs whose publication failed, kept in DIRECTORY/failures.json until it succeeds.

What is listed is due, whatever else lies in the directory, so it is tried again at every tick.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from estimator.releases import whole_files

log = logging.getLogger(__name__)

_NAME = "failures.json"


@dataclass(frozen=True)
class Failure:
    """A release that could not be published.

    Attributes:
        metric: Name.
        epoch: ISO 8601 name.
        fingerprint: Version, "pooled", or "" if the epoch could not even be closed.
        reason: Of the last try; may quote counts, so it is for operators only.
        first: Unix time of the first try that failed.
        last: Unix time of the last one.
        tries: How many there were.
    """

    metric: str
    epoch: str
    fingerprint: str
    reason: str
    first: float
    last: float
    tries: int


def failures(directory: Path) -> list[Failure]:
    """Return what is FAILED now, by metric, epoch and version.

    A file that cannot be read counts as none: it must not keep releases back.
    """
    path = directory / _NAME
    try:
        found = [Failure(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except (TypeError, ValueError) as error:
        log.warning("%s is no list of failures (%r) and will be written anew", path, error)
        return []
    return sorted(found, key=lambda each: (each.metric, each.epoch, each.fingerprint))


def note(
    directory: Path, metric: str, epoch: str, reasons: Iterable[tuple[str, str]], now: float
) -> None:
    """Put what failed at one try of an epoch in place of what is listed of that epoch.

    To be called by the only publisher.

    Args:
        reasons: Fingerprint and reason of each release that failed; none: nothing is listed
            any more.
        now: Unix time in seconds.
    """
    before = failures(directory)
    known = {
        each.fingerprint: each for each in before if (each.metric, each.epoch) == (metric, epoch)
    }
    failed = [
        replace(
            known.get(fingerprint, Failure(metric, epoch, fingerprint, "", now, now, 0)),
            reason=reason,
            last=now,
        )
        for fingerprint, reason in reasons
    ]
    if not known and not failed:
        return
    others = [each for each in before if (each.metric, each.epoch) != (metric, epoch)]
    tried = [replace(each, tries=each.tries + 1) for each in failed]
    text = json.dumps([asdict(each) for each in [*others, *tried]], indent=2) + "\n"
    whole_files.replace(directory / _NAME, text.encode(), durable=True)
