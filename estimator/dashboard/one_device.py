"""What the ledger knows of one device: for programs under /v1, for people on a page."""

import re
from typing import Any

from estimator.ledger.spending import Prices
from estimator.source import StoreSource

DEVICE = r"[0-9a-f]{32}"


def account_of(source: StoreSource, device: str) -> dict[str, Any] | None:
    """Return what a device has spent in its life; None: the ledger has no record of such an id.

    Raises:
        StoreUnavailable: The store is away.
    """
    if not re.fullmatch(DEVICE, device):
        return None
    versions = source.catalogue.load()
    prices = Prices.of(versions.metrics.values())
    account = source.store.accounts.of(device, prices.memos)
    return None if account is None else prices.account(account, versions.cap)
