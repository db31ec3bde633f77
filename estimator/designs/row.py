"""What one row of a file says: words and codes to reports, and the rules that a row may break.

Functions add the rules that are broken to a list; what they return then is not used.
"""

import math
from collections.abc import Mapping, Sequence

from estimator.designs.base import Design, DesignError
from estimator.errors import DocumentError

BLANK = ("", "blank", "missing", "na", "n/a")
"""Answers that say that nothing was said."""
REFUSED = ("refused", "refusal")
"""Answers that say that nothing is going to be said."""
_CODES = {"1": "yes", "true": "yes", "y": "yes", "0": "no", "false": "no", "n": "no"}

_LONGEST = 12
"""Digits of a count: more people do not exist."""

Said = tuple[int | None, bool, int]
"""Number of the report, whether it is a refusal, and how many respondents."""


def report_given(
    fields: Mapping[str, str],
    design: Design,
    sample: int,
    column: str,
    one: str | None,
    rules: list[str],
) -> list[Said]:
    """Return what the answer column of a row says: one report, blank or refusal; or nothing."""
    count = 1
    if "count" in fields:
        count = _count("count", fields["count"], rules)
    word = fields[column].casefold()
    reports = [report.casefold() for report in design.reports(sample)]
    word = _decoded(word, reports, one)
    if word in reports:
        return [(reports.index(word), False, count)]
    if word in REFUSED or word in BLANK:
        return [(None, word in REFUSED, count)]
    if word in ("0", "1") and one is None and len(reports) == 2:
        rules.append(f"{column} is a code: say which of {' and '.join(reports)} 1 means (--one)")
    else:
        rules.append(
            f"{column} must be one of {', '.join(design.reports(sample))}, blank, or refused"
        )
    return []


def _decoded(word: str, reports: Sequence[str], one: str | None) -> str:
    """Return a report for a code; other words as they are."""
    if one is not None and len(reports) == 2:
        if one.casefold() not in reports:
            raise DesignError(f"one must be {' or '.join(reports)}, got {one!r}")
        other = reports[1 - reports.index(one.casefold())]
        return {"1": one.casefold(), "0": other}.get(word, word)
    return _CODES.get(word, word) if list(reports) == ["no", "yes"] else word


def reports_counted(
    fields: Mapping[str, str], design: Design, sample: int, rules: list[str]
) -> list[Said]:
    """Return what a row with a column of counts for each report says."""
    named = {name.casefold(): text for name, text in fields.items()}
    reports = [report.casefold() for report in design.reports(sample)]
    said: list[Said] = [
        (position, False, _count(report, named[report], rules))
        for position, report in enumerate(reports)
    ]
    for word in ("blank", "refused"):
        if named.get(word):
            said.append((None, word == "refused", _count(word, named[word], rules)))
    for other in range(len(design.samples)):
        for report in map(str.casefold, design.reports(other)):
            if report not in reports and named[report] not in ("", "0"):
                rules.append(f"{report} is no report of sample {design.samples[sample]}")
    return said


def _count(name: str, text: str, rules: list[str]) -> int:
    # Digits of any script: an Arabic keyboard writes ٣١.
    if text.isdecimal() and len(text) <= _LONGEST:
        return int(text)
    rules.append(f"{name} must be a whole number, 0 or more")
    return 0


def weight_of(fields: Mapping[str, str], rules: list[str]) -> float | None:
    """Return the weight of a row; None without such a column."""
    if "weight" not in fields:
        return None
    try:
        weight = float(fields["weight"])
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        comma = " (with a decimal point, no comma)" if "," in fields["weight"] else ""
        rules.append(f"weight must be a number above 0{comma}")
    return weight


def sample_of(text: str | None, design: Design, rules: list[str]) -> int:
    """Return the number of a row's sample."""
    if len(design.samples) == 1:
        return 0
    if text is None:
        raise DocumentError("columns", "must include 'sample'", f"none for {design.name}")
    if text.casefold() not in design.samples:
        rules.append(f"sample must be one of {', '.join(design.samples)}")
        return 0
    return design.samples.index(text.casefold())
