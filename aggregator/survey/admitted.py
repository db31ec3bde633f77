"""Devices that an admission made: known as such by their id, at every server and without a list.

The id follows from survey and admission, under a key derived from the pseudonym key: the one key
that never rotates. So an admission is one device for ever: whoever enrols with it again, even
after a master key was retired, is the device that the ledger knows. Half of the id is a tag that
only the server can make; one that enrolled by the write key has it by chance once in 2**64.
"""

import hmac

_HALF_BYTES = 8


def device_of(pseudonym_key: bytes, survey: str, message: bytes) -> str:
    """Return the id (32 hex digits) of the device that an admission makes.

    Args:
        pseudonym_key: Of the project.
        survey: Its name.
        message: What the admission signs.
    """
    drawn = _under(pseudonym_key, b"device", survey, message)
    return (drawn + _tag(pseudonym_key, survey, drawn)).hex()


def is_admitted(pseudonym_key: bytes, device: str, survey: str) -> bool:
    """Say whether a device (32 hex digits) was made by an admission to this survey."""
    identity = bytes.fromhex(device)
    tag = _tag(pseudonym_key, survey, identity[:_HALF_BYTES])
    return hmac.compare_digest(tag, identity[_HALF_BYTES:])


def _tag(pseudonym_key: bytes, survey: str, drawn: bytes) -> bytes:
    return _under(pseudonym_key, b"tag", survey, drawn)


def _under(pseudonym_key: bytes, what: bytes, survey: str, part: bytes) -> bytes:
    message = b"sottovoce admitted v1\x00" + what + b"\x00" + survey.encode() + b"\x00" + part
    return hmac.digest(pseudonym_key, message, "sha256")[:_HALF_BYTES]
