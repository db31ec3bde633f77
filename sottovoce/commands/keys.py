"""List the server's keys, or rotate them. Shows a secret one only once, if it is to be handed out.

Kinds: `master` (devices' keys are derived from it), `write` (apps show it to enrol), `sealing`
(opens sealed uploads), `signing` (for releases), `read` (analysts show it).

`init` makes the key file of a new server, and changes nothing where there is one.

`rotate KIND` makes a key that is active at once; the one of before is retiring: what was made with
it is still good. `new KIND` makes one that is pending until `activate KIND ID`, to be copied to all
servers first. `retire KIND ID` ends a key for good. Running servers on the same key file follow at
their next request, without a restart.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.table import table

if TYPE_CHECKING:
    from aggregator.administration.admin_log import AdminLog
    from aggregator.keyring.keys import Keys
    from aggregator.keyring.kinds import AnyKey
    from aggregator.keyring.rotation import Act
    from aggregator.settings import ServerSettings

_NAMES = ("master", "write", "sealing", "signing", "read")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    # Not to undo, where they are left out after the action, what was said before it.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    _add_common(common)
    actions = parser.add_subparsers(dest="action", title="actions", metavar="ACTION")
    actions.add_parser("list", parents=[common], help="id, state and age of each key (the default)")
    actions.add_parser("init", parents=[common], help="make the key file if there is none")
    new = actions.add_parser("new", parents=[common], help="make a key that is pending")
    new.add_argument("kind", choices=_NAMES)
    new.add_argument("--label", default="", help="who holds it; for read keys")
    rotate = actions.add_parser(
        "rotate", parents=[common], help="make a key that is active at once"
    )
    rotate.add_argument("kind", choices=_NAMES)
    activate = actions.add_parser("activate", parents=[common], help="make a pending key active")
    retire = actions.add_parser("retire", parents=[common], help="end a key's use for good")
    for action in (activate, retire):
        action.add_argument("kind", choices=_NAMES)
        action.add_argument("id", type=int, help="its id, as listed")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="data directory of `sottovoce up`, instead of SOTTOVOCE_KEYS_FILE",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from aggregator.administration.admin_log import AdminLog
    from aggregator.keyring import rotation
    from aggregator.keyring.keys import Keys
    from aggregator.keyring.kinds import KINDS
    from aggregator.settings import ServerSettings

    settings = ServerSettings.from_env(os.environ)
    path = settings.keys_file if args.data is None else args.data / "keys.json"
    today = datetime.now(UTC).date()
    if args.action == "init":
        return _init(path, today, args.json)
    keys = Keys.load(path)
    if args.action in (None, "list"):
        _list(keys, today, args.json)
        return 0
    log = AdminLog.beside(path, keys.pseudonym_key)
    kind = KINDS[args.kind]
    if args.action == "new":
        act = rotation.new(path, kind, today, args.label, log.record)
    elif args.action == "rotate":
        act = rotation.rotate(path, kind, today, log.record)
    elif args.action == "activate":
        act = rotation.activate(path, kind, args.id, today, log.record)
    else:
        act = rotation.retire(path, kind, args.id, today, log.record)
    _tell_store(settings, keys, log)
    if args.json:
        print(json.dumps(_entry(act.key, today) | _handed_out(act), indent=2))
    else:
        print(_told(act))
    return 0


def _init(path: Path, today: date, as_json: bool) -> int:
    from aggregator.keyring.first_keys import load_or_make

    keys, _, made = load_or_make(path, today)
    if as_json:
        print(json.dumps({"made": made} | ({"write_key": keys.write_key} if made else {})))
    elif made:
        print(
            f"{path} is made: back it up, apart from the store. Ship this write key with the app:"
        )
        print(f"\n{keys.write_key}\n")
    else:
        print(f"{path} is there already; nothing was changed.")
    return 0


def _tell_store(settings: "ServerSettings", keys: "Keys", log: "AdminLog") -> None:
    """Let the store know how far the log has come; the fold worker does so every minute anyway."""
    from aggregator.store import Store, StoreUnavailable

    if settings.redis_url is None:
        return
    store = Store.connect(settings, keys.pseudonym_key)
    try:
        log.anchor(store.log_heads)
    except StoreUnavailable as error:
        print(f"The store has not been told of this yet: {error}.", file=sys.stderr)
    finally:
        store.close()


_COPY = "Copy the key file to your other servers now, and renew your backup of it."


def _told(act: "Act") -> str:
    key = act.key
    head = f"{key.kind.capitalize()} key {key.id} is {key.state}."
    told = [f"{head} {_COPY}", _NEXT[key.kind, key.state](act)]
    if act.text is not None:
        told.append(f"\n{act.text}\n")
    return "\n".join(line for line in told if line)


def _when_all_have_it(act: "Act") -> str:
    return f"When all have it: sottovoce keys activate {act.key.kind} {act.key.id}"


def _seal_line(act: "Act") -> str:
    public = _public(act.key)
    return (
        "When all have it, put this line under [project] in metrics.toml and ship that:\n\n"
        f'seal = {{ key = {public["key"]}, public = "{public["public"]}" }}\n'
    )


_NEXT: dict[tuple[str, str], Callable[["Act"], str]] = {
    ("master", "pending"): _when_all_have_it,
    ("master", "active"): lambda act: "It signs new devices; those of before go on as they are.",
    ("master", "retired"): lambda act: (
        "Devices that were enrolled under it are told to enrol anew; the server's ledger begins a "
        "new row for each, their own goes on."
    ),
    ("write", "pending"): _when_all_have_it,
    ("write", "active"): lambda act: "Ship it with the app; the one of before still enrols.",
    ("write", "retired"): lambda act: (
        "Apps that carry it cannot enrol new devices until they are updated; enrolled ones go on."
    ),
    ("sealing", "pending"): _when_all_have_it,
    ("sealing", "active"): _seal_line,
    ("sealing", "retired"): lambda act: (
        "It is deleted. Apps that carry it deliver nothing until they are updated."
    ),
    ("signing", "pending"): _when_all_have_it,
    ("signing", "active"): lambda act: (
        f"It signs releases from now on. Its public key: {_public(act.key)['public']}"
    ),
    ("signing", "retired"): lambda act: "Its public key stays: what it signed can be verified.",
    ("read", "active"): lambda act: "Hand this over; it is shown once and stored nowhere:",
    ("read", "retired"): lambda act: "Whoever shows it is turned away.",
}


def _handed_out(act: "Act") -> dict[str, Any]:
    return _public(act.key) if act.text is None else {"text": act.text}


def _public(key: "AnyKey") -> dict[str, Any]:
    from aggregator.keyring.kinds import OpeningKey, SigningKey

    if isinstance(key, SigningKey):
        return {"public": key.public.hex()}
    if isinstance(key, OpeningKey) and key.state != "retired":
        return {"key": key.id, "public": key.public.public.hex()}
    return {}


def _list(keys: "Keys", today: date, as_json: bool) -> None:
    from aggregator.keyring.kinds import KINDS

    entries = [_entry(key, today) for kind in KINDS.values() for key in keys.ring(kind)]
    if as_json:
        print(json.dumps({"keys": entries}, indent=2))
        return
    rows = [
        (
            entry["kind"],
            str(entry["id"]),
            entry["state"],
            "unknown" if entry["age_days"] is None else str(entry["age_days"]),
            entry["since"] or "",
            entry.get("label", ""),
        )
        for entry in entries
    ]
    print(table(("kind", "id", "state", "days old", "since", "held by"), rows, left=3))
    if not keys.sealing_keys:
        print("There is no sealing key: uploads travel plain, under TLS only.")
    if not any(key.state == "active" for key in keys.signing_keys):
        print(
            "No signing key is active: releases cannot be signed (sottovoce keys rotate signing)."
        )


def _entry(key: "AnyKey", today: date) -> dict[str, Any]:
    from aggregator.keyring.kinds import ReadKey

    return {
        "kind": key.kind,
        "id": key.id,
        "state": key.state,
        "age_days": None if key.created is None else (today - key.created).days,
        "since": None if key.since is None else key.since.isoformat(),
        **({"label": key.label} if isinstance(key, ReadKey) else {}),
    }
