"""The administrators' log: what was done to keys, registry, epochs, settings and store, by whom.

`list` shows it. `verify` finds entries that were changed, removed, added or moved; it compares with
how far the store has seen the log come, so that a cut-off end is found too. Exit status 1 if
somebody changed it. Whoever has both key file and store could write another history: note the head
that `verify` prints elsewhere now and then, and compare with --head.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aggregator.administration.admin_log import Entry, Findings
    from aggregator.store.log_heads import Head


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show the entries, oldest first")
    listing.add_argument("--last", type=int, metavar="N", help="only the last N")
    verify = actions.add_parser("verify", help="find out whether somebody changed it")
    verify.add_argument("--head", metavar="N:MAC", help="a head that was noted before")
    for action in (listing, verify):
        action.add_argument(
            "--data",
            type=Path,
            metavar="DIR",
            help="data directory of `sottovoce up`, instead of SOTTOVOCE_KEYS_FILE and REDIS_URL",
        )
        action.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from aggregator.administration.admin_log import AdminLog
    from aggregator.keyring.keys import Keys
    from aggregator.settings import ServerSettings

    settings = ServerSettings.from_env(os.environ)
    if args.data is not None:
        settings = replace(settings, keys_file=args.data / "keys.json")
    keys = Keys.load(settings.keys_file)
    log = AdminLog.beside(settings.keys_file, keys.pseudonym_key)
    if args.action == "list":
        return _list(log.findings().entries, args.last, args.json)
    with _heads(keys.pseudonym_key, args.data) as heads:
        found = log.findings() if heads is None else log.compared(heads)
    if heads is None:
        note = "not compared with the store: REDIS_URL is not set, so a cut-off end is not found"
        found = replace(found, notes=(*found.notes, note))
    if args.head:
        found = _with_noted(found, args.head)
    return _verdict(found, args.json)


@contextmanager
def _heads(pseudonym_key: bytes, data: Path | None) -> "Iterator[Mapping[str, Head] | None]":
    """Read what the store of the environment, or of `sottovoce up`, has seen; None without one."""
    from aggregator.store import Store
    from sottovoce.connect import settings_with_store

    with settings_with_store(data) as settings:
        if settings.redis_url is None:
            yield None
            return
        store = Store.connect(settings, pseudonym_key)
        store.check_shape()
        yield store.log_heads.all()
        store.close()


def _with_noted(found: "Findings", noted: str) -> "Findings":
    number, _, mac = noted.partition(":")
    if not number.isdigit() or len(mac) != 64:
        raise ValueError(f"--head must be as `sottovoce log verify` prints it, got {noted!r}")
    if any(str(entry.sequence) == number and entry.mac == mac for entry in found.entries):
        return found
    problem = f"entry {number} is not the one that was noted"
    return replace(found, problems=(*found.problems, problem))


_NAMED = {
    ("registry_registered", "metrics"): "epsilon per report, or reserved whole if memoized",
}
"""How details are named to people that do not say by themselves what they count."""


def _list(entries: "tuple[Entry, ...]", last: int | None, as_json: bool) -> int:
    if last is not None and last < 1:
        raise ValueError(f"--last must be at least 1, got {last}")
    shown = entries[-last:] if last is not None else entries
    if as_json:
        print(json.dumps({"entries": [vars(entry) for entry in shown]}, indent=2))
        return 0
    for entry in shown:
        details = ", ".join(
            f"{_NAMED.get((entry.act, name), name)}: {_short(value)}"
            for name, value in entry.details.items()
        )
        who = f"{entry.who}@{entry.host}"
        print(f"{entry.sequence:>4}  {entry.time}  {who:<16}  {entry.act}  {details}".rstrip())
    if not shown:
        print("The log is empty: nothing was done yet.")
    return 0


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _verdict(found: "Findings", as_json: bool) -> int:
    head = None if found.head is None else f"{found.head.sequence}:{found.head.mac}"
    if as_json:
        document = {
            "sound": not found.problems,
            "entries": len(found.entries),
            "head": head,
            "problems": list(found.problems),
            "notes": list(found.notes),
        }
        print(json.dumps(document, indent=2))
        return 1 if found.problems else 0
    for problem in found.problems:
        print(f"PROBLEM  {problem}")
    for note in found.notes:
        print(f"note     {note}")
    if not found.problems:
        print(f"{len(found.entries)} entries, each as it was written.")
    if head is not None:
        print(f"head     {head}")
    return 1 if found.problems else 0
