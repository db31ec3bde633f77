"""From settings to the application that a worker process serves."""

from flask import Flask

from aggregator.app import create_app
from aggregator.catalogue import Catalogue
from aggregator.key_file import KeyFile
from aggregator.settings import ServerSettings
from aggregator.store import Store


def application(settings: ServerSettings) -> Flask:
    """Make an application with connections of its own: to be called after the fork.

    Does not need the store to be there; until it is, requests are answered with 503.
    """
    keys = KeyFile(settings.keys_file)
    store = Store.connect(settings, keys.current().pseudonym_key)
    return create_app(
        store=store,
        keys=keys,
        catalogue=Catalogue(store),
        plain_uploads=settings.plain_uploads,
    )
