"""Show lifetime epsilon: what devices have spent of their budget, for ever.

Without options: the distribution over all devices in the server's ledger, and what each metric has
cost. --device: one device's life. --state: on a device, its own ledger, from the directory of its
state. --restored-from: after a backup of the store was restored, charge every device the most that
it can have spent since; servers refuse the store until that is done. --erase: delete what the
server keeps about one device, for ever; releases and tallies hold no id and stay.
"""

import argparse
import json
import time
from datetime import date
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--device", metavar="ID", help="one device's id, 32 hex digits")
    which.add_argument("--state", type=Path, metavar="DIR", help="a device's state directory")
    which.add_argument(
        "--erase", metavar="ID", help="erase one device by its id; it cannot be undone"
    )
    which.add_argument(
        "--restored-from",
        metavar="YYYY-MM-DD",
        help="the day (UTC) of the backup that was restored",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="data directory of `sottovoce up`, running or not, instead of REDIS_URL",
    )
    parser.add_argument(
        "--metrics",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="with --restored-from: a metrics.toml added after the backup; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    if args.metrics and args.restored_from is None:
        raise ValueError("--metrics goes with --restored-from")
    if args.state is not None:
        return _own(args.state, args.json)
    if args.restored_from is not None:
        return _recover(args)
    if args.erase is not None:
        return _erase(args)
    if args.device is not None:
        return _one(args)
    return _all(args)


def _recover(args: argparse.Namespace) -> int:
    from aggregator.recovery.restore import recover
    from client_sdk import load
    from sottovoce.connect import server_side

    try:
        day = date.fromisoformat(args.restored_from)
    except ValueError as error:
        raise ValueError(
            f"--restored-from must be a day like 2026-11-29, got {args.restored_from!r}"
        ) from error
    texts = [load(path).text for path in args.metrics]
    with server_side(args.data, restored=True) as opened:
        for text in texts:
            opened.catalogue.register(text)
        versions = opened.catalogue.current()
        done = recover(opened.store, versions, day, time.time(), opened.log.record)
        opened.log.anchor(opened.store.log_heads)
    charged = done.charged
    if args.json:
        document = {
            "restored_from": done.plan.day,
            "generation": done.plan.number,
            "devices": charged.devices,
            "devices_charged": charged.charged,
            "charged_epsilon": charged.surcharges / 1e6,
            "floor_epsilon": done.plan.floor / 1e6,
            "devices_erased_again": done.erased,
        }
        print(json.dumps(document, indent=2))
        return 0
    mean = charged.surcharges / 1e6 / max(1, charged.charged)
    print(
        f"{charged.charged} of {charged.devices} devices were charged what they may have spent "
        f"since {done.plan.day}:\n{charged.surcharges / 1e6:g} epsilon in all, {mean:.3g} each on "
        f"average, none above the cap of {done.plan.cap / 1e6:g}.\n"
        f"Devices that were enrolled after the backup start at {done.plan.floor / 1e6:g}.\n"
        f"{done.erased} erasures that the backup had forgotten were done again.\n"
        "Servers may use the store again."
    )
    return 0


def _own(directory: Path, as_json: bool) -> int:
    from sottovoce.device_ledger import read

    found = read(directory)
    print(json.dumps(found.as_json(), indent=2) if as_json else found.in_words())
    return 0


def _erase(args: argparse.Namespace) -> int:
    from aggregator.recovery.erasure import erase
    from sottovoce.connect import server_side

    device = _device("--erase", args.erase)
    with server_side(args.data) as opened:
        opened.log.record("device_erased")  # which one is nobody's business any more
        had_record = erase(opened.store, opened.catalogue.current(), device, time.time())
    if args.json:
        print(json.dumps({"verdict": "erased", "had_record": had_record}))
        return 0
    print(
        ("The device is erased" if had_record else "There was no record of this device")
        + "; nothing is taken from it any more, also after a backup was restored.\n"
        "It leaves the store's append-only file when that is rewritten next. Tallies and releases, "
        "which hold no id, stay."
    )
    return 0


def _device(option: str, text: str) -> str:
    if len(text) != 32 or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"{option} must be 32 hex digits")
    return text


def _one(args: argparse.Namespace) -> int:
    from estimator.ledger.spending import Prices
    from sottovoce.connect import server_side
    from sottovoce.lifetimes import composed_in_words

    device = _device("--device", args.device)
    with server_side(args.data) as opened:
        versions = opened.catalogue.current()
        prices = Prices.of(versions.metrics.values())
        account = opened.store.accounts.of(device, prices.memos)
    cap = versions.cap / 1e6
    if account is None:
        if args.json:
            print(json.dumps({"spent_epsilon": None, "lifetime_epsilon": cap}))
        else:
            print("The server's ledger has no record of this device.")
        return 1
    found = prices.composed(account.spent, prices.remembered(account))
    if args.json:
        print(json.dumps(prices.account(account, versions.cap), indent=2))
        return 0
    names = ", ".join(sorted({prices.names[channel] for channel in account.paid}))
    print(
        f"This device has spent {found.spent:g} of {cap:g} lifetime epsilon; "
        f"{max(0, versions.cap - account.spent) / 1e6:g} is left.\n"
        f"Its last batch was number {account.sequence}. "
        f"Metrics whose remembered answers it has paid for: {names or 'none'}."
    )
    print(composed_in_words("In sum", found))
    return 0


def _all(args: argparse.Namespace) -> int:
    from estimator.ledger.spending import Prices, spending
    from sottovoce.connect import server_side
    from sottovoce.lifetimes import spending_in_words

    with server_side(args.data) as opened:
        versions = opened.catalogue.current()
        prices = Prices.of(versions.metrics.values())
        accounts = opened.store.accounts.all(prices.memos)
        reports = opened.store.figures.folded()
        found = spending(accounts, reports, prices, versions.cap, versions.cheapest)
    print(json.dumps(found.to_dict(), indent=2) if args.json else spending_in_words(found))
    return 0
