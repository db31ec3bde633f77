"""Looks ahead, so that nobody waits: at folders, latest releases, and the engine of the charts.

A directory of many releases takes seconds to look through, and each morning's releases change it;
the engine that draws takes half a second to start.
"""

import time
from contextlib import suppress
from threading import Thread

from estimator.dashboard.published import Published
from estimator.drawing import spec, svg_of
from estimator.errors import DocumentError

EVERY_SECONDS = 30.0


def look_ahead(published: Published) -> Thread:
    """Look at once and again and again, in a thread that ends with the process."""
    thread = Thread(target=_keep_looking, args=(published,), name="looking ahead", daemon=True)
    thread.start()
    return thread


def look(published: Published) -> None:
    """Look once; what cannot be read is told to whoever asks for it, and hides no other."""
    for name in published.metrics():
        with suppress(OSError, DocumentError):
            published.latest(name)


def _keep_looking(published: Published) -> None:
    svg_of(spec({"data": {"values": []}, "mark": "point"}))
    while True:
        look(published)
        time.sleep(EVERY_SECONDS)
