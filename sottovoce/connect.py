"""How commands reach the store that the environment names, or the one of `sottovoce up`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from aggregator.administration.admin_log import AdminLog
from aggregator.catalogue import Catalogue
from aggregator.keyring.keys import Keys
from aggregator.keyring.signing import Signing
from aggregator.machine.embedded import EmbeddedServer
from aggregator.purposes import require_no_survey
from aggregator.settings import ServerSettings
from aggregator.store import Store
from client_sdk.registry import load


@dataclass(frozen=True)
class ServerSide:
    """What a command works on.

    Attributes:
        settings: Of the environment; with the store and keys of `--data`, if that is given.
        store: Checked.
        catalogue: Loaded.
        log: Where this process's acts go.
    """

    settings: ServerSettings
    store: Store
    catalogue: Catalogue
    log: AdminLog


def admin_log(settings: ServerSettings) -> AdminLog:
    """Return the log that this process's acts go to."""
    return AdminLog.beside(settings.keys_file, Keys.load(settings.keys_file).pseudonym_key)


def signing(settings: ServerSettings) -> Signing:
    """Return the keys of now that releases are signed with."""
    return Keys.load(settings.keys_file).signing


def connect() -> tuple[ServerSettings, Store, Catalogue]:
    """Return settings, a checked store and its catalogue.

    Raises:
        SettingsError, KeysError, StoreRefused, StoreUnavailable: With what to do.
    """
    opened = _open(ServerSettings.from_env(os.environ), restored=False)
    return opened.settings, opened.store, opened.catalogue


@contextmanager
def settings_with_store(data: Path | None) -> Iterator[ServerSettings]:
    """Give the environment's settings, or those that name store and keys of `sottovoce up`.

    Its store is started if it does not run, and ended again afterwards.

    Args:
        data: Directory of `sottovoce up`; None: all is as the environment says.

    Raises:
        ValueError: The directory is none of `sottovoce up`.
    """
    settings = ServerSettings.from_env(os.environ)
    if data is None:
        yield settings
        return
    if not (data / "keys.json").exists():
        raise ValueError(f"--data must be the directory of `sottovoce up`, {data} has no keys")
    with EmbeddedServer.start(data / "store") as server:
        yield replace(settings, redis_url=server.url, keys_file=data / "keys.json")


@contextmanager
def server_side(data: Path | None, *, restored: bool = False) -> Iterator[ServerSide]:
    """Open the store of the environment, or of `sottovoce up`, running or not.

    Args:
        data: See `settings_with_store`.
        restored: Whether a store that was restored from a backup is not refused.

    Raises:
        SettingsError, KeysError, StoreRefused, StoreUnavailable, ValueError: With what to do.
    """
    with settings_with_store(data) as settings:
        opened = _open(settings, restored=restored)
        try:
            yield opened
        finally:
            opened.store.close()


def _open(settings: ServerSettings, *, restored: bool) -> ServerSide:
    keys = Keys.load(settings.keys_file)
    store = Store.connect(settings, keys.pseudonym_key)
    if restored:
        store.check_shape()
    else:
        store.check()
    log = AdminLog.beside(settings.keys_file, keys.pseudonym_key)
    catalogue = Catalogue(store, record=log.record)
    if settings.metrics_file is not None:
        registry = load(settings.metrics_file)
        require_no_survey(registry)
        catalogue.register(registry.text)
    catalogue.load()
    return ServerSide(settings, store, catalogue, log)
