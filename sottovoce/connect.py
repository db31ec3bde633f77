"""How commands reach the store that the environment names."""

import os

from aggregator.administration.admin_log import AdminLog
from aggregator.catalogue import Catalogue
from aggregator.keyring.keys import Keys
from aggregator.keyring.signing import Signing
from aggregator.settings import ServerSettings
from aggregator.store import Store


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
    settings = ServerSettings.from_env(os.environ)
    keys = Keys.load(settings.keys_file)
    store = Store.connect(settings, keys.pseudonym_key)
    store.check()
    log = AdminLog.beside(settings.keys_file, keys.pseudonym_key)
    catalogue = Catalogue(store, record=log.record)
    if settings.metrics_file is not None:
        catalogue.register(settings.metrics_file.read_text(encoding="utf-8"))
    catalogue.load()
    return settings, store, catalogue
