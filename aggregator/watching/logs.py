"""Logs of the server's processes: one JSON object per line, or text for people at a terminal.

Nothing that a log line says about a request may name its sender or what it holds. Flask and
gunicorn write addresses, paths and messages of exceptions into some of theirs; those are replaced.
"""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import TextIO

from aggregator.settings import ServerSettings

_TEXT = "%(asctime)s %(levelname)s %(message)s"
_ABOUT_REQUESTS = (
    ("Invalid request from ip=", "a request that is not HTTP was refused"),
    ("Error handling request", "a request failed"),
    ("Exception on ", "a request failed"),
    ("Socket error processing request", "a connection failed"),
)
"""How lines of Flask and gunicorn begin that name senders, and what stands there instead."""


def configure(role: str, settings: ServerSettings, stream: TextIO) -> None:
    """Send all logs of this process to a stream.

    Args:
        role: What this process is: serve, fold, schedule, dashboard, up.
        settings: Form and level.
        stream: A terminal gets text, unless the settings say otherwise.
    """
    form = settings.log_format or ("text" if stream.isatty() else "json")
    handler = logging.StreamHandler(stream)
    handler.addFilter(without_senders)
    handler.setFormatter(
        JsonFormatter(role) if form == "json" else logging.Formatter(_TEXT, "%H:%M:%S")
    )
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    # It tells of every run of every job, two lines a minute; what a job does, it logs itself.
    logging.getLogger("apscheduler").setLevel(logging.WARNING)


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON."""

    def __init__(self, role: str) -> None:
        super().__init__()
        self._role = role

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "role": self._role,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["exception"] = record.exc_text
        return json.dumps(line)


def without_senders(record: logging.LogRecord) -> bool:
    """Replace what a line says about a request; a `logging` filter that keeps every line."""
    for begins, instead in _ABOUT_REQUESTS:
        if str(record.msg).startswith(begins):
            record.msg, record.args = instead, ()
            if record.exc_info:
                # Where it failed; the exception's own words may quote the request.
                kind, _, trace = record.exc_info
                name = "" if kind is None else kind.__name__
                record.exc_text = "".join(traceback.format_tb(trace)) + name
                record.exc_info = None
    return True
