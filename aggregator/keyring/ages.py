"""How old the keys in use are."""

from datetime import UTC, date, datetime

from aggregator.keyring.keys import Keys
from aggregator.keyring.kinds import KINDS


def ages(keys: Keys, now: float) -> dict[str, float]:
    """Return the age in seconds of the key in use, of read keys the oldest, by kind.

    Kinds without a key in use, or of which no file tells when it was made, are left out.

    Args:
        now: Unix time in seconds.
    """
    made: dict[str, date] = {}
    for kind in KINDS.values():
        for key in keys.ring(kind):
            if key.state == "active" and key.created is not None:
                made[key.kind] = min(key.created, made.get(key.kind, key.created))
    return {
        name: max(0.0, now - datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
        for name, day in made.items()
    }
