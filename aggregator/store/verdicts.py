"""What a shard counts, and the letters that scripts write for verdicts."""

from collections import Counter
from collections.abc import Iterable

from client_sdk.report import ACCEPTED

LETTERS = {
    ACCEPTED: "a",
    "unknown_metric": "m",
    "unknown_fingerprint": "f",
    "epoch_closed": "c",
    "too_early": "e",
    "already_reported": "r",
    "budget_exhausted": "b",
    "not_invited": "i",
}
"""Verdict codes, as lua/intake.lua writes them."""
MEMOIZED = "o"
"""Instead of "a", for a candidate that is charged once in a device's life."""
WORDS = {letter: word for word, letter in LETTERS.items()}
_EVENTS = (
    "batches",
    "duplicates",
    "clones",
    "gaps",
    "folded",
    "late",
    "erasures",
    "commits",
    "lost",
    "microseconds",
)


def in_words(counters: Iterable[Iterable[tuple[bytes, bytes]]]) -> Counter[str]:
    """Add up shards' counters, by the names that `Figures.counters` lists."""
    total: Counter[str] = Counter(dict.fromkeys((*LETTERS, *_EVENTS), 0))
    for shard in counters:
        for name, count in shard:
            total[WORDS.get(name.decode(), name.decode())] += int(count)
    return total
