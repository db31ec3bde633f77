"""Makes the key file of a new server, and has the administrators' log begin with that."""

from datetime import date
from pathlib import Path

from aggregator.administration.admin_log import AdminLog
from aggregator.keyring.keys import Keys
from aggregator.keyring.kinds import KINDS


def load_or_make(path: Path, today: date) -> tuple[Keys, AdminLog, bool]:
    """Return the keys of a file, the log beside it, and whether the file was made here.

    Args:
        path: The key file; its folder must exist.
        today: Day (UTC) to note as that on which the keys were made.

    Raises:
        KeysError: There is a file that cannot be used; it stays as it is.
        OSError: None can be made.
    """
    made = not path.exists()
    keys = Keys.load_or_create(path, today)
    log = AdminLog.beside(path, keys.pseudonym_key)
    if made:
        log.record("keys_made", kinds=[kind for kind in KINDS if keys.ring(KINDS[kind])])
    return keys, log, made
