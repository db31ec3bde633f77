"""A fold worker beside a test, in a thread that ends with it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aggregator.fold import Folder
from aggregator.store import Store


@contextmanager
def folding(world: Any, entries_per_commit: int = 20) -> Iterator[Store]:
    """Fold all the while, in small commits, over connections of its own."""
    store = Store.connect(world.settings, world.keys.pseudonym_key)
    stop = threading.Event()
    folder = Folder(store, entries_per_commit)
    thread = threading.Thread(target=folder.run, args=(stop, 0.02), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        stop.set()
        thread.join(30)
        store.close()
    assert not thread.is_alive()
