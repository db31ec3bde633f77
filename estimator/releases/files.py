"""Releases on disk: DIRECTORY/METRIC/EPOCH.FINGERPRINT.json and .csv, written once, never changed.

The JSON file decides; whoever publishes a second time gets it back as it is, byte for byte.
"""

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from aggregator.keyring.signing import Signing
from estimator.errors import DocumentError
from estimator.estimates import Estimate, Estimates, Interval, Mean, Quantile
from estimator.ledger.lifetime import Lifetime
from estimator.misfit import Misfit
from estimator.plausibility import Plausibility
from estimator.releases.release import SCHEMA, Channels, Privacy, Release
from estimator.releases.signatures import Finding, fault_of, sign_document
from estimator.releases.table import as_csv
from estimator.releases.whole_files import replace, write_once


def path_of(directory: Path, metric: str, epoch_label: str, fingerprint: str) -> Path:
    """Return where a release's JSON file lies."""
    return directory / metric / f"{epoch_label}.{fingerprint}.json"


def write(
    release: Release, directory: Path, signing: Signing | None = None
) -> tuple[Release, bool]:
    """Publish a release, unless that has been done.

    Args:
        release: What to publish.
        directory: Of the releases; with `signing`, one process at a time may write there.
        signing: The keys that releases are signed with; None leaves them unsigned.

    Returns:
        The release as it stands on disk, and whether this call has put it there.

    Raises:
        OSError: It cannot be written; nothing half-written is visible.
        DocumentError: A file of that name exists and is no release, or none that we have signed.
        RotationError: There is no key to sign with.
    """
    path = path_of(directory, release.metric, release.epoch, release.fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = release.text().encode()
    if signing is not None and not path.exists():
        sign_document(path, content, signing.sign)
    created = write_once(path, content)
    fault = None if signing is None else fault_of(path, signing.public)
    if fault is not None:
        # Never signed afterwards: somebody may have put it there before its epoch was due.
        raise DocumentError(path.name, f"{fault}; move it away to publish the epoch", str(path))
    standing = read(path)
    table, text = path.with_suffix(".csv"), as_csv(standing).encode()
    # Also mends a publisher that died between the two files, and what others have put there.
    if not table.exists() or table.read_bytes() != text:
        replace(table, text)
    return standing, created


def schema_text() -> str:
    """Return the JSON schema of release files."""
    return files("estimator").joinpath("release.schema.json").read_text(encoding="utf-8")


def releases(directory: Path) -> list[Release]:
    """Return all releases of a directory by metric, time and version.

    Raises:
        DocumentError: A file among them is no release.
    """
    found = [read(path) for path in directory.glob("*/*.json")]
    return sorted(found, key=lambda r: (r.metric, r.first_day, r.epoch, r.fingerprint))


def check_tables(directory: Path) -> Iterator[Finding]:
    """Yield the CSV files that do not say what their documents say, or are missing."""
    for path in sorted(directory.glob("*/*.json")):
        table = path.with_suffix(".csv")
        try:
            if table.read_bytes() != as_csv(read(path)).encode():
                yield Finding(table, "does not say what the document says")
        except FileNotFoundError:
            yield Finding(table, "is missing")
        except DocumentError as error:
            yield Finding(path, str(error))


def read(path: Path) -> Release:
    """Read a release.

    Raises:
        DocumentError: The file is no release of this schema.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise DocumentError(f"{path.name}: schema", f"must be {SCHEMA}", document["schema"])
        release = from_document(document)
        place = (path.parent.name, path.stem)
        if place != (release.metric, f"{release.epoch}.{release.fingerprint}"):
            # A valid signature says who wrote it, not that this is where it belongs.
            raise DocumentError(
                "/".join(path.parts[-2:]), "must be that of its name", release.epoch
            )
        return release
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(path.name, f"must be a release ({error!r})", str(path)) from error


def from_document(document: dict[str, Any]) -> Release:
    """Return the release that a document of this schema is.

    Raises:
        KeyError, TypeError, ValueError: It is none.
    """
    privacy, spent = document["privacy"], document["lifetime_epsilon"]
    same = ("project", "metric", "question", "epoch", "first_day", "last_day", "fingerprint")
    more = ("type", "published_on", "closed_early", "status", "min_reports", "code_version")
    return Release(
        **{name: document[name] for name in (*same, *more)},
        privacy=Privacy(
            privacy["epsilon_per_report"],
            privacy.get("epsilon_permanent"),
            privacy.get("distinct_values"),
            privacy.get("epsilon_instantaneous"),
        ),
        channels=Channels(
            document["mechanism"],
            document["p_true"],
            document["p_false"],
            document["inclusion"],
            tuple((part["fingerprint"], part["n"]) for part in document["pooled_from"]),
        ),
        estimates=None if document["estimates"] is None else _estimates(document),
        plausibility=_plausibility(document["plausibility"]),
        lifetime=None if spent is None else Lifetime(**spent),
        caveats=tuple(document["caveats"]),
        range=_ends(document.get("range")),
    )


def _plausibility(document: dict[str, Any] | None) -> Plausibility | None:
    if document is None:
        return None
    return Plausibility(**{name: document[name] for name in document if name != "alarm"})


def _estimates(document: dict[str, Any]) -> Estimates:
    other, misfit, mean = (document.get(name) for name in ("other", "misfit", "mean"))
    return Estimates(
        n=document["n"],
        epsilon=document["epsilon"],
        level=document["level"],
        method=document["method"],
        entries=tuple(_entry(entry) for entry in document["estimates"]),
        other=None if other is None else _entry(other),
        misfit=None if misfit is None else Misfit(**misfit | {"cohorts": tuple(misfit["cohorts"])}),
        condition=document.get("condition"),
        worst_shift=document["worst_shift"],
        mean=None if mean is None else Mean(**mean | {"interval": _ends(mean["interval"])}),
        quantiles=tuple(
            Quantile(**each | {"interval": _ends(each["interval"])})
            for each in document.get("quantiles", ())
        ),
    )


def _entry(entry: dict[str, Any]) -> Estimate:
    ends = {name: _ends(entry[name]) for name in ("interval", "simultaneous_interval")}
    return Estimate(**entry | ends)


def _ends(written: list[float] | None) -> Interval | None:
    if written is None:
        return None
    low, high = written
    return low, high
