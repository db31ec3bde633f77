"""Survey files as tables of text: CSV with a header, or the rows of a JSON document.

A JSON document is {"design": {"name": ..., parameters}, "rows": [{...}, ...]}; with "counts"
instead of "rows" one row may stand without a list. It may also hold "population" (people),
"strata" (people by name) and "one" (which report the code 1 means). Nothing is interpreted here.
"""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from client_sdk.errors import SottovoceError
from estimator.errors import DocumentError

MOST_ROWS = 1_000_000


class BadRows(SottovoceError, ValueError):
    """Rows that break a rule: all of them, by line. No value of a respondent is repeated."""

    def __init__(self, problems: Sequence[str], shown: int = 50) -> None:
        problems = sorted(problems, key=lambda problem: int(re.findall(r"\d+", problem)[0]))
        more = [f"... and {len(problems) - shown} more"] if len(problems) > shown else []
        text = f"{len(problems)} bad rows, nothing was used:\n  " if len(problems) > 1 else ""
        super().__init__(text + "\n  ".join([*problems[:shown], *more]))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        where: "line 3" of a CSV file, "row 3" of a JSON document.
        fields: Text by column; "" where nothing stands.
    """

    where: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """A file's columns and rows, and what else a JSON document says.

    Attributes:
        columns: Their names.
        rows: Those that have a field for each column.
        problems: Of the others: where, and the rule.
        said: Further fields of a JSON document.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    problems: tuple[str, ...] = ()
    said: Mapping[str, object] = field(default_factory=dict)


def read(text: str) -> Table:
    """Return the table of a CSV file or of a JSON document, whichever it is.

    Raises:
        DocumentError: It is neither, or a field is of another kind.
    """
    return _read_json(text) if text.lstrip()[:1] in ("{", "[") else _read_csv(text)


def _read_csv(text: str) -> Table:
    text = text.removeprefix("\ufeff")
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, problems = [], []
    columns: tuple[str, ...] = ()
    while True:
        try:
            cells = [part.strip() for part in next(reader)]
        except StopIteration:
            break
        except csv.Error as error:
            problems.append(f"line {reader.line_num}: {error}")
            continue
        where = f"line {reader.line_num}"
        if not columns:
            columns = tuple(_without_empty_end(cells, 0))
            _check_columns(columns)
            continue
        if not any(cells) and len(columns) > 1:
            continue
        cells = _without_empty_end(cells, len(columns)) or [""]
        if len(cells) != len(columns):
            problems.append(f"{where}: {len(cells)} fields, the header has {len(columns)}")
        else:
            rows.append(Row(where, dict(zip(columns, cells, strict=True))))
    if not columns and not problems:
        _check_columns(columns)
    return Table(columns, _not_too_many(rows), tuple(problems))


def _without_empty_end(cells: list[str], least: int) -> list[str]:
    """Return cells without empty ones at the end, as spreadsheets write them beyond a table."""
    size = len(cells)
    while size > least and not cells[size - 1]:
        size -= 1
    return cells[:size]


def _check_columns(columns: tuple[str, ...]) -> None:
    if not columns:
        raise DocumentError("header", "must name the columns", "nothing")
    if "" in columns:
        raise DocumentError("header", "must name each column", f"none for {columns.index('') + 1}")
    for name in columns:
        if columns.count(name) > 1:
            raise DocumentError("header", "must name each column once", name)


def _not_too_many(rows: list[Row]) -> tuple[Row, ...]:
    if len(rows) > MOST_ROWS:
        raise DocumentError("rows", f"must be at most {MOST_ROWS}", len(rows))
    return tuple(rows)


def _read_json(text: str) -> Table:
    try:
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DocumentError("document", f"must be JSON ({error})", "other text") from None
    if isinstance(document, list):
        document = {"rows": document}
    if ("rows" in document) == ("counts" in document):
        raise DocumentError("document", "needs either rows or counts", sorted(document))
    rows = document["rows"] if "rows" in document else [document["counts"]]
    unknown = set(document) - {"design", "rows", "counts", "population", "strata", "one"}
    if unknown:
        raise DocumentError("document", "has unknown fields", sorted(unknown))
    if not isinstance(rows, list):
        raise DocumentError("rows", "must be a list", type(rows).__name__)
    columns: dict[str, None] = {}
    kept, problems = [], []
    for number, row in enumerate(rows, start=1):
        where = f"row {number}"
        if not isinstance(row, dict) or any(isinstance(v, dict | list) for v in row.values()):
            problems.append(f"{where}: must be an object of texts and numbers")
            continue
        columns |= dict.fromkeys(row)
        kept.append(Row(where, {key: _text(value) for key, value in row.items()}))
    whole = [Row(row.where, {name: row.fields.get(name, "") for name in columns}) for row in kept]
    said = {key: value for key, value in document.items() if key not in ("rows", "counts")}
    return Table(tuple(columns), _not_too_many(whole), tuple(problems), said)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError("a field stands there twice")
    return dict(pairs)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value).strip()
