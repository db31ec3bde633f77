"""Runs the aggregation server: the application under gunicorn."""

import time
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from aggregator.catalogue import Catalogue
from aggregator.keys import Keys
from aggregator.settings import ServerSettings
from aggregator.store import Store
from aggregator.unsealing import require_uploads
from aggregator.wsgi import application
from client_sdk.registry import load


def prepare(settings: ServerSettings) -> None:
    """Check the store, claim it if it is new, and register metrics.toml if one is set.

    Raises:
        SettingsError, KeysError, RegistryError, StoreRefused, StoreUnavailable: Says what to do.
    """
    keys = Keys.load(settings.keys_file)
    store = Store.connect(settings, keys.pseudonym_key)
    try:
        store.check()
        store.raise_generation(time.time())
        catalogue = Catalogue(store)
        if settings.metrics_file is not None:
            registry = load(settings.metrics_file)
            require_uploads(keys, registry, plain=settings.plain_uploads)
            catalogue.register(registry.text)
        catalogue.load()
    finally:
        store.close()


def run(settings: ServerSettings) -> None:
    """Prepare, then serve until SIGTERM or SIGINT; ends the process."""
    prepare(settings)
    _Gunicorn(settings).run()


class _Gunicorn(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        options: dict[str, Any] = {
            "bind": f"{_bracketed(self._settings.host)}:{self._settings.port}",
            "workers": self._settings.workers,
            "worker_class": "gthread",
            "threads": self._settings.threads,
            "accesslog": None,  # it would join addresses, times and paths
            "errorlog": "-",
            "loglevel": "warning",
            "timeout": 60,
            "graceful_timeout": 10,
            "keepalive": 5,
            "control_socket_disable": True,
        }
        for name, value in options.items():
            if name in self.cfg.settings:  # older versions have no control socket
                self.cfg.set(name, value)

    def load(self) -> Flask:
        return application(self._settings)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
