"""List the server's keys, or rotate them. Never shows a secret one.

Without an action: each key's id, state and age in days. `rotate sealing` makes a new key for sealed
uploads and prints the line for metrics.toml; the key of before goes on opening what is sealed to
it, until `retire` deletes it. `rotate master` makes a new master key: it signs new devices, and all
verify. Running servers on the same key file follow at their next request, without a restart.
"""

import argparse
import json
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.table import table

if TYPE_CHECKING:
    from aggregator.keys import Keys
    from aggregator.opening_keys import OpeningKey


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="data directory of `sottovoce up`, instead of SOTTOVOCE_KEYS_FILE",
    )
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    actions = parser.add_subparsers(dest="action", title="actions", metavar="ACTION")
    rotate = actions.add_parser("rotate", help="make a new key")
    rotate.add_argument("ring", choices=("sealing", "master"), help="which kind")
    rotate.add_argument(
        "--pending",
        action="store_true",
        help="a sealing key that opens nothing until `activate`: to be copied to all servers first",
    )
    activate = actions.add_parser("activate", help="make a pending sealing key the active one")
    activate.add_argument("id", type=int, help="its id, as listed")
    retire = actions.add_parser("retire", help="delete a sealing key that no app uses any more")
    retire.add_argument("id", type=int, help="its id, as listed")


def run(args: argparse.Namespace) -> int:
    from aggregator import rotation
    from aggregator.keys import Keys
    from aggregator.settings import ServerSettings

    if args.data is None:
        path = ServerSettings.from_env(os.environ).keys_file
    else:
        path = args.data / "keys.json"
    today = datetime.now(UTC).date()
    if args.action is None:
        _list(Keys.load(path), today, args.json)
    elif args.action == "rotate" and args.ring == "master":
        if args.pending:
            raise ValueError("--pending is for sealing keys: a master key signs at once")
        keys = rotation.rotate_master(path, today)
        print(f"Master key {keys.master_keys[-1][0]} signs new devices; all verify. {_COPY}")
    elif args.action == "rotate":
        keys = rotation.rotate_sealing(path, today, pending=args.pending)
        _tell(keys.opening_keys[-1])
    elif args.action == "activate":
        keys = rotation.activate_sealing(path, args.id, today)
        _tell(next(key for key in keys.opening_keys if key.id == args.id))
    else:
        rotation.retire_sealing(path, args.id, today)
        print(
            f"Sealing key {args.id} is retired and deleted. Apps that carry it deliver nothing "
            f"until they are updated. {_COPY}"
        )
    return 0


_COPY = "Copy the key file to your other servers now, and renew your backup of it."


def _tell(key: "OpeningKey") -> None:
    if key.state == "pending":
        print(
            f"Sealing key {key.id} is pending. {_COPY}\n"
            f"When all have it: sottovoce keys activate {key.id}"
        )
        return
    public = key.public
    print(
        f"Sealing key {key.id} is active. {_COPY}\n"
        "When all have it, put this line under [project] in metrics.toml and ship that:\n\n"
        f'seal = {{ key = {public.id}, public = "{public.public.hex()}" }}\n'
    )


def _list(keys: "Keys", today: date, as_json: bool) -> None:
    entries = [*_masters(keys, today), *_sealing(keys, today)]
    if as_json:
        print(json.dumps({"keys": entries}, indent=2))
        return
    rows = [
        (
            entry["ring"],
            entry["id"],
            entry["state"],
            "unknown" if entry["age_days"] is None else str(entry["age_days"]),
            "" if entry["since"] is None else entry["since"],
        )
        for entry in entries
    ]
    print(table(("ring", "id", "state", "days old", "since"), rows, left=3))
    if len(entries) == len(keys.master_keys):
        print("There is no sealing key: uploads travel plain, under TLS only.")


def _masters(keys: "Keys", today: date) -> list[dict[str, Any]]:
    newest = keys.master_keys[-1][0]
    found = []
    for name, _ in keys.master_keys:
        created = keys.master_created.get(name)
        state = "signs" if name == newest else "verifies"
        found.append(_entry("master", name, state, created, created, today))
    return found


def _sealing(keys: "Keys", today: date) -> list[dict[str, Any]]:
    return [
        _entry("sealing", str(key.id), key.state, key.created, key.since, today)
        for key in keys.opening_keys
    ]


def _entry(
    ring: str, name: str, state: str, created: date | None, since: date | None, today: date
) -> dict[str, Any]:
    return {
        "ring": ring,
        "id": name,
        "state": state,
        "age_days": None if created is None else (today - created).days,
        "since": None if since is None else since.isoformat(),
    }
