"""From a sealed upload to the body and MAC that a plain one would have had."""

from aggregator.keyring.keys import Keys, KeysError
from aggregator.problems import Problem
from client_sdk.hpke import CannotOpen
from client_sdk.registry import Registry
from client_sdk.sealing import key_id_of, open_upload


def unsealed(keys: Keys, sealed: bytes) -> tuple[bytes, str]:
    """Return body and MAC; who sent them is not known yet.

    Raises:
        Problem: Not a sealed upload, or to a key that is not opened. Neither says anything that
            lets a device delete its batch: it will come again.
    """
    try:
        number = key_id_of(sealed)
        for key in keys.sealing_keys:
            if key.id == number and key.opens:
                return open_upload(key.recipient, sealed)
    except CannotOpen as error:
        raise Problem("malformed", f"the sealed upload {error}", "body") from None
    detail = f"key {number} is unknown, not active yet, or retired; keep the batch and try later"
    raise Problem("unknown_sealing_key", detail, "key")


def require_uploads(keys: Keys, registry: Registry, *, plain: bool) -> None:
    """Refuse a metrics.toml whose devices could deliver nothing.

    Args:
        plain: Whether uploads that are not sealed are taken.

    Raises:
        KeysError: It asks for uploads that are sealed to a key that these keys do not open, or for
            plain ones where those are switched off.
    """
    seal = registry.seal
    if seal is None:
        if not plain:
            raise KeysError(
                "metrics.toml must carry project.seal while SOTTOVOCE_PLAIN_UPLOADS is refuse"
            )
    elif not any(key.opens and key.public == seal for key in keys.sealing_keys):
        raise KeysError(
            "project.seal of metrics.toml must be an active or retiring key of the key file, "
            f"key {seal.id} with this public key is not: `sottovoce keys` lists them"
        )
