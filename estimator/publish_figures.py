"""Tells the store what became of publishing, for whoever watches the servers."""

import logging
from collections import Counter
from collections.abc import Iterable

from aggregator.connection import StoreUnavailable
from aggregator.store.figures import Figures
from estimator.publish import Outcome

log = logging.getLogger(__name__)


def note(figures: Figures, outcomes: Iterable[Outcome], now: float) -> None:
    """Count what became of releases in one pass over everything that was due.

    A store that is away is logged: what was published stays published.

    Args:
        outcomes: Of the pass; none if nothing was due.
        now: Unix time in seconds.
    """
    results = Counter(outcome.status.lower() for outcome in outcomes)
    try:
        figures.note_published(results, None if results["failed"] else now)
    except StoreUnavailable as error:
        log.warning("the figures of publishing were not noted: %s", error)
