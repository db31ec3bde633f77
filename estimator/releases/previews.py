"""Previews of open epochs on disk: DIRECTORY/.previews/open/METRIC/EPOCH.FINGERPRINT.json.

    {"preview": 1, "taken_at": 1796040000.0, "release": {...}}

Each holds what the release would say if its epoch ended now; it is unsigned and will change. They
lie where nothing that looks for releases looks: two folders down, in one that is hidden.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from estimator.errors import DocumentError
from estimator.releases.files import from_document, path_of
from estimator.releases.release import POOLED, Release
from estimator.releases.whole_files import replace

log = logging.getLogger(__name__)

_VERSION = 1
_FOLDER = Path(".previews") / "open"


@dataclass(frozen=True)
class Preview:
    """An open epoch so far.

    Attributes:
        release: As it would be published; withheld below the least number of reports.
        taken_at: Unix time in seconds.
    """

    release: Release
    taken_at: float


def place(directory: Path, metric: str, epoch_label: str, fingerprint: str) -> Path:
    """Return where a preview lies."""
    return path_of(directory / _FOLDER, metric, epoch_label, fingerprint)


def put(preview: Preview, directory: Path) -> None:
    """Show a preview in place of the one before.

    Durably: which one was shown last decides when the next one may be.
    """
    release = preview.release
    path = place(directory, release.metric, release.epoch, release.fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "preview": _VERSION,
        "taken_at": preview.taken_at,
        "release": release.to_dict(),
    }
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    replace(path, text.encode(), durable=True)


def read(path: Path) -> Preview:
    """Read a preview.

    Raises:
        DocumentError: The file is none.
        OSError: It cannot be read.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["preview"] != _VERSION:
            raise ValueError(f"version {document['preview']!r}")
        return Preview(from_document(document["release"]), float(document["taken_at"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DocumentError(path.name, f"must be a preview ({error!r})", str(path)) from error


def shown(directory: Path, metric: str) -> list[Preview]:
    """Return a metric's previews, oldest epoch first; where versions were pooled, that one alone.

    A file that is no preview counts as none: it will be written anew.

    Args:
        directory: Of the releases.
        metric: Its name.
    """
    found = []
    for path in (directory / _FOLDER / metric).glob("*.*.json"):
        try:
            found.append(read(path))
        except FileNotFoundError:  # its epoch was released meanwhile
            continue
        except DocumentError as error:
            log.warning("%s", error)
    pooled = {each.release.epoch for each in found if each.release.fingerprint == POOLED}
    chosen = [
        each
        for each in found
        if each.release.epoch not in pooled or each.release.fingerprint == POOLED
    ]
    return sorted(chosen, key=lambda each: (each.release.first_day, each.release.fingerprint))


def places(directory: Path) -> Iterator[Path]:
    """Yield where there are previews."""
    yield from sorted((directory / _FOLDER).glob("*/*.json"))
