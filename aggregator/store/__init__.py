"""The store: everything that the server keeps, in Redis or Valkey.

Keys are known to this package alone, and within it to `layout`.
"""

from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.store.store import Store
from aggregator.store.tallies import Unfolded

__all__ = ["Store", "StoreRefused", "StoreUnavailable", "Unfolded"]
