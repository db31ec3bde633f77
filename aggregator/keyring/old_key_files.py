"""Key files of versions 1 and 2, read as if they were of version 3.

    {"version": 2,
     "master_keys": [{"id": "1", "key": "<64 hex digits>", "created": "2026-11-29"}],
     "pseudonym_key": "<64 hex digits>",
     "write_key": "<text that the apps of the project carry>",
     "sealing_keys": [{"id": 1, "state": "active", "created": "2026-11-29",
                       "since": "2026-11-29", "private": "<64 hex digits>"}]}

Version 1 had neither `created` nor `sealing_keys`. The last master key signs, all verify. Their ids
appeared nowhere outside the file, so they are numbered anew, in order.
"""

from typing import Any

_FORMS = {
    1: {"version", "master_keys", "pseudonym_key", "write_key"},
    2: {"version", "master_keys", "pseudonym_key", "write_key", "sealing_keys"},
}


def as_version_3(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document that version 3 would have had.

    Raises:
        ValueError, KeyError, TypeError: It is not of that form.
    """
    if document.keys() != _FORMS[document["version"]]:
        raise ValueError("version")
    old = document["master_keys"]
    if len({str(entry["id"]) for entry in old}) != len(old):
        raise ValueError("master_keys")
    days = [entry.get("created") for entry in old]
    # A key has been in its state since the next one was made.
    since = [*days[1:], *days[-1:]]
    masters = [
        _entry(number, number == len(old), days[number - 1], since[number - 1], entry["key"])
        for number, entry in enumerate(old, 1)
    ]
    sealing = [_renamed(entry) for entry in document.get("sealing_keys", [])]
    return {
        "version": 3,
        "pseudonym_key": document["pseudonym_key"],
        "master_keys": masters,
        "write_keys": [_entry(1, True, None, None, document["write_key"])],
        "sealing_keys": sealing,
        "signing_keys": [],
        "read_keys": [],
    }


def _entry(
    number: int, active: bool, created: str | None, since: str | None, secret: str
) -> dict[str, Any]:
    state = "active" if active else "retiring"
    return {"id": number, "state": state, "created": created, "since": since, "secret": secret}


def _renamed(entry: dict[str, Any]) -> dict[str, Any]:
    if "secret" in entry:
        raise ValueError("keys")
    rest = {name: value for name, value in entry.items() if name != "private"}
    return {**rest, "secret": entry["private"]}
