"""Show lifetime epsilon: what devices have spent of their budget, for ever.

Without options: the distribution over all devices in the server's ledger, and what each metric has
cost. --device: one device's life. --state: on a device, its own ledger, from the directory of its
state. --restored-from: after a backup of the store was restored, charge every device the most that
it can have spent since; servers refuse the store until that is done. --erase: delete what the
server keeps about one device, for ever; releases and tallies hold no id and stay.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aggregator.administration.admin_log import AdminLog
    from aggregator.catalogue import Catalogue
    from aggregator.store import Store


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


@contextmanager
def _server_side(
    data: Path | None, *, restored: bool
) -> "Iterator[tuple[Store, Catalogue, AdminLog]]":
    """Open the store of the environment, or of `sottovoce up`; a restored one is not refused."""
    from aggregator.administration.admin_log import AdminLog
    from aggregator.catalogue import Catalogue
    from aggregator.keyring.keys import Keys
    from aggregator.machine.embedded import EmbeddedServer
    from aggregator.settings import ServerSettings
    from aggregator.store import Store

    settings = ServerSettings.from_env(os.environ)
    server = None
    if data is not None:
        if not (data / "keys.json").exists():
            raise ValueError(f"--data must be the directory of `sottovoce up`, {data} has no keys")
        server = EmbeddedServer.start(data / "store")
        settings = replace(settings, redis_url=server.url, keys_file=data / "keys.json")
    try:
        pseudonym_key = Keys.load(settings.keys_file).pseudonym_key
        store = Store.connect(settings, pseudonym_key)
        log = AdminLog.beside(settings.keys_file, pseudonym_key)
        if restored:
            store.check_shape()
        else:
            store.check()
        catalogue = Catalogue(store, record=log.record)
        if settings.metrics_file is not None:
            catalogue.register(settings.metrics_file.read_text(encoding="utf-8"))
        catalogue.load()
        yield store, catalogue, log
        store.close()
    finally:
        if server is not None:
            server.stop()


def _recover(args: argparse.Namespace) -> int:
    from aggregator.recovery.restore import recover
    from client_sdk import load

    try:
        day = date.fromisoformat(args.restored_from)
    except ValueError as error:
        raise ValueError(
            f"--restored-from must be a day like 2026-11-29, got {args.restored_from!r}"
        ) from error
    texts = [load(path).text for path in args.metrics]
    with _server_side(args.data, restored=True) as (store, catalogue, log):
        for text in texts:
            catalogue.register(text)
        done = recover(store, catalogue.current(), day, time.time(), log.record)
        log.anchor(store.log_heads)
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

    device = _device("--erase", args.erase)
    with _server_side(args.data, restored=False) as (store, catalogue, log):
        log.record("device_erased")  # which one is nobody's business any more
        had_record = erase(store, catalogue.current(), device, time.time())
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
    from sottovoce.lifetimes import composed_in_words

    device = _device("--device", args.device)
    with _server_side(args.data, restored=False) as (store, catalogue, _):
        versions = catalogue.current()
        prices = Prices.of(versions.metrics.values())
        account = store.accounts.of(device, prices.memos)
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
    from sottovoce.lifetimes import spending_in_words

    with _server_side(args.data, restored=False) as (store, catalogue, _):
        versions = catalogue.current()
        prices = Prices.of(versions.metrics.values())
        accounts = store.accounts.all(prices.memos)
        reports = store.accounts.reports()
        found = spending(accounts, reports, prices, versions.cap, versions.cheapest)
    print(json.dumps(found.to_dict(), indent=2) if args.json else spending_in_words(found))
    return 0
