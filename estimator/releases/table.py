"""A release as CSV, for spreadsheets: one row per entry, mean and quantile."""

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
OF_NUMBERS = ("figure", "part", "estimate")
"""Further columns, where there is a mean or are quantiles; all others have none of them."""


def as_csv(release: Release) -> str:
    """Return the text: one row per figure, one without any if the release is withheld."""
    out = io.StringIO(newline="")
    estimates = release.estimates
    number = estimates is not None and (estimates.mean is not None or bool(estimates.quantiles))
    columns = (*COLUMNS, *OF_NUMBERS) if number else COLUMNS
    writer = csv.DictWriter(out, columns, lineterminator="\r\n")
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
    for row in [{}] if estimates is None else estimates.rows():
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
