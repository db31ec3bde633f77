"""A release as CSV, for spreadsheets: one row per entry."""

import csv
import io
from collections.abc import Iterable
from typing import Any

from estimator.estimate import Estimate
from estimator.release import Release

COLUMNS = (
    "metric",
    "epoch",
    "first_day",
    "last_day",
    "fingerprint",
    "status",
    "n",
    "epsilon",
    "level",
    "value",
    "unlisted",
    "share",
    "standard_error",
    "standard_error_reporters",
    "low",
    "high",
    "simultaneous_low",
    "simultaneous_high",
    "significant",
    "consistent",
)


def as_csv(release: Release) -> str:
    """Return the text: one row per entry, one without entry if the release is withheld."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    head = {
        "metric": release.metric,
        "epoch": release.epoch,
        "first_day": release.first_day,
        "last_day": release.last_day,
        "fingerprint": release.fingerprint,
        "status": release.status,
        "epsilon": release.privacy.epsilon,
    }
    for row in _rows(release):
        writer.writerow({key: _cell(value) for key, value in (head | row).items()})
    return out.getvalue()


def _rows(release: Release) -> Iterable[dict[str, Any]]:
    estimates = release.estimates
    if estimates is None:
        return [{}]
    rows = [_row(entry, unlisted=False) for entry in estimates.entries]
    if estimates.other is not None:
        rows.append(_row(estimates.other, unlisted=True))
    return [{"n": estimates.n, "level": estimates.level} | row for row in rows]


def _row(entry: Estimate, unlisted: bool) -> dict[str, Any]:
    low, high = entry.interval or (None, None)
    outer_low, outer_high = entry.simultaneous_interval or (None, None)
    return {
        "value": entry.value,
        "unlisted": unlisted,
        "share": entry.share,
        "standard_error": entry.standard_error,
        "standard_error_reporters": entry.standard_error_reporters,
        "low": low,
        "high": high,
        "simultaneous_low": outer_low,
        "simultaneous_high": outer_high,
        "significant": entry.significant,
        "consistent": entry.consistent,
    }


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula; numbers stay numbers."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return "'" + value
    return value
