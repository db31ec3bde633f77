"""A release as CSV, for spreadsheets: one row per entry."""

import csv
import io

from estimator.releases.release import Release

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
    "signal_to_noise",
    "design_effect",
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
    for row in [{}] if release.estimates is None else release.estimates.rows():
        writer.writerow({key: _cell(value) for key, value in (head | row).items()})
    return out.getvalue()


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula; numbers stay numbers."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return "'" + value
    return value
