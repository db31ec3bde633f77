"""Rotating keys: each act replaces the key file, and running servers follow it."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

from aggregator.key_file import change
from aggregator.keys import Keys
from aggregator.opening_keys import Ring, activated, retired, with_new_key
from client_sdk.authentication import KEY_BYTES


def rotate_master(path: Path, today: date) -> Keys:
    """Add a master key: it signs devices from now on, and the older ones go on verifying theirs.

    None is ever taken out: its devices could not deliver any more, and enrolled anew they would
    have a second life's budget.
    """

    def step(keys: Keys) -> Keys:
        names = {name for name, _ in keys.master_keys}
        number = len(names) + 1
        while str(number) in names:
            number += 1
        made = (str(number), secrets.token_bytes(KEY_BYTES))
        return replace(
            keys,
            master_keys=(*keys.master_keys, made),
            master_created={**keys.master_created, made[0]: today},
        )

    return change(path, step)


def rotate_sealing(path: Path, today: date, *, pending: bool) -> Keys:
    """Add a sealing key, see `aggregator.opening_keys.with_new_key`."""
    private = secrets.token_bytes(KEY_BYTES)
    return _change_ring(path, lambda ring: with_new_key(ring, private, today, pending=pending))


def activate_sealing(path: Path, number: int, today: date) -> Keys:
    """Make a pending sealing key the active one."""
    return _change_ring(path, lambda ring: activated(ring, number, today))


def retire_sealing(path: Path, number: int, today: date) -> Keys:
    """Delete a sealing key's private part."""
    return _change_ring(path, lambda ring: retired(ring, number, today))


def _change_ring(path: Path, step: Callable[[Ring], Ring]) -> Keys:
    return change(path, lambda keys: replace(keys, opening_keys=step(keys.opening_keys)))
