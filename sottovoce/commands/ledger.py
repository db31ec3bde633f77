"""Show lifetime epsilon: what devices have spent of their budget, for ever.

Without options: the distribution over all devices in the server's ledger. --device: one device's
life. --state: on a device, its own ledger, from the directory of its state.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from sottovoce.table import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--device", metavar="ID", help="one device's id, 32 hex digits")
    which.add_argument("--state", type=Path, metavar="DIR", help="a device's state directory")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    if args.state is not None:
        return _own(args.state, args.json)
    if args.device is not None:
        return _one(args.device, args.json)
    return _all(args.json)


def _own(directory: Path, as_json: bool) -> int:
    from client_sdk.ledger import ELSEWHERE, Ledger
    from client_sdk.state import FILE_NAME, State

    if not (directory / FILE_NAME).exists():
        raise ValueError(f"--state must hold a {FILE_NAME}, {directory} does not")
    state = State(directory)
    with state.transaction() as connection:
        shares = list(Ledger(connection, 0).shares())
    document: dict[str, Any] = {
        "spent_epsilon": sum(share.spent for share in shares) / 1e6,
        "queued": state.queued(),
        "suspended": state.suspended,
        "metrics": {
            share.metric or "elsewhere": {
                "spent": share.spent / 1e6,
                "reserved": share.reserved / 1e6,
                "collecting": share.fits,
            }
            for share in shares
        },
    }
    state.close()
    if as_json:
        print(json.dumps(document, indent=2))
        return 0
    rows = [
        (
            "(known to the server only)" if share.metric == ELSEWHERE else share.metric,
            f"{share.spent / 1e6:g}",
            f"{share.reserved / 1e6:g}",
            f"{(share.reserved - share.spent) / 1e6:g}",
            "" if share.fits or share.metric == ELSEWHERE else "off: its share does not fit",
        )
        for share in shares
    ]
    print(table(("metric", "spent", "reserved", "left", ""), rows))
    print(
        f"This device has spent {document['spent_epsilon']:g} of its lifetime epsilon; "
        f"{document['queued']} reports wait to be sent."
    )
    if document["suspended"]:
        print(f"Reporting has ended: {document['suspended']}.")
    return 0


def _one(device: str, as_json: bool) -> int:
    from sottovoce.connect import connect

    if len(device) != 32 or not set(device) <= set("0123456789abcdef"):
        raise ValueError("--device must be 32 hex digits")
    _, store, catalogue = connect()
    spent, cap = store.spent(device), catalogue.current().cap
    if as_json:
        found = None if spent is None else spent / 1e6
        print(json.dumps({"spent_epsilon": found, "lifetime_epsilon": cap / 1e6}))
    elif spent is None:
        print("The server's ledger has no record of this device.")
    else:
        print(f"This device has spent {spent / 1e6:g} of {cap / 1e6:g} lifetime epsilon.")
    return 0 if spent is not None else 1


def _all(as_json: bool) -> int:
    from estimator.lifetime import lifetime
    from sottovoce.connect import connect
    from sottovoce.lifetimes import lifetime_in_words

    _, store, catalogue = connect()
    found = lifetime(store.ledger(), catalogue.current().cap)
    print(json.dumps(found.as_json(), indent=2) if as_json else lifetime_in_words(found))
    return 0
