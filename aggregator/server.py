"""Runs the aggregation server: the application under gunicorn."""

import logging
import os
import shutil
import socket
import struct
import tempfile
import time
from typing import TYPE_CHECKING, Any

from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger

from aggregator.administration.admin_log import AdminLog
from aggregator.administration.guarding_settings import note
from aggregator.catalogue import Catalogue
from aggregator.enrolment.networks import fresh_secret
from aggregator.keyring.keys import Keys
from aggregator.purposes import require_no_survey
from aggregator.recovery.erasure import erase_again
from aggregator.settings import ServerSettings
from aggregator.store import Store
from aggregator.store.generation import SPACING_SECONDS
from aggregator.survey_files import register_surveys, surveys_in
from aggregator.unsealing import require_uploads
from aggregator.wsgi import served
from client_sdk.registry import load
from client_sdk.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication

_log = logging.getLogger(__name__)

MOST_MEMORY_SHARE = 0.45
LONGEST_SILENCE_SECONDS = 10


def prepare(settings: ServerSettings) -> tuple[Survey, ...]:
    """Migrate and check the store, claim it if it is new, and register what is to be asked.

    Returns:
        The surveys among that, for the workers: a file may be another when one of them begins.

    Raises:
        SettingsError, KeysError, RegistryError, StoreRefused, StoreUnavailable: Says what to do.
    """
    surveys = surveys_in(settings)
    keys = Keys.load(settings.keys_file)
    log = AdminLog.beside(settings.keys_file, keys.pseudonym_key)
    store = Store.connect(settings, keys.pseudonym_key)
    try:
        store.migrate()
        store.check()
        _warn_of_memory(store)
        store.warn_of_settings()
        store.raise_generation(time.time(), spacing_seconds=SPACING_SECONDS)
        note(log, settings)
        catalogue = Catalogue(store, record=log.record)
        if settings.metrics_file is not None:
            registry = load(settings.metrics_file)
            require_no_survey(registry)
            require_uploads(keys, registry, plain=settings.plain_uploads)
            catalogue.register(registry.text)
        register_surveys(catalogue, store.invitations, surveys)
        # Also after a loss that is too small to be noticed as a restored backup.
        erase_again(store, catalogue.load(), time.time())
        log.anchor(store.log_heads)
    finally:
        store.close()
    return surveys


def _warn_of_memory(store: Store) -> None:
    """Rewriting the append-only file forks the store, which may take as much memory again."""
    memory = store.figures.memory()
    most = MOST_MEMORY_SHARE * memory.machine_bytes
    if not 0 < memory.most_bytes <= most:
        _log.warning(
            "the store's maxmemory should be at most %d, %d %% of its machine's memory; it is %s",
            most,
            100 * MOST_MEMORY_SHARE,
            memory.most_bytes or "0, no limit",
        )


def run(settings: ServerSettings) -> None:
    """Prepare, then serve until SIGTERM or SIGINT; ends the process."""
    surveys = prepare(settings)
    # Before the fork: all workers count an address's network under the same name.
    network_secret = fresh_secret()
    serve(settings, lambda: served(settings, network_secret, surveys))


def serve(settings: ServerSettings, load: "Callable[[], WSGIApplication]") -> None:
    """Serve an application at the settings' address until SIGTERM or SIGINT; ends the process.

    Args:
        load: Makes the application; called in each worker.
    """
    _Gunicorn(settings, load).run()


class _Gunicorn(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    def __init__(self, settings: ServerSettings, load: "Callable[[], WSGIApplication]") -> None:
        self._settings = settings
        self._load = load
        super().__init__()

    def load_config(self) -> None:
        options: dict[str, Any] = {
            "bind": f"{_bracketed(self._settings.host)}:{self._settings.port}",
            "logger_class": _PlainLogger,
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
            # No peer's header becomes part of the environment: by default those of this machine's
            # may set the path. Who may name an address is said to the application.
            "forwarded_allow_ips": "",
            "forwarder_headers": "",
            "proxy_protocol": False,
            "when_ready": _limit_silence,
        }
        if self._settings.metrics_port:
            own = f"{_bracketed(self._settings.metrics_host)}:{self._settings.metrics_port}"
            options |= {"bind": [options["bind"], own], **_with_figures_of_all_workers()}
        for name, value in options.items():
            if name in self.cfg.settings:  # older versions have no control socket
                self.cfg.set(name, value)

    def load(self) -> "WSGIApplication":
        return self._load()


class _PlainLogger(Logger):  # type: ignore[misc]  # gunicorn ships no types
    """Lets gunicorn's lines go where all others go, see `aggregator.watching.logs`."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True


def _with_figures_of_all_workers() -> dict[str, Any]:
    """Give the workers a fresh folder to add up their figures in; it goes with the server."""
    folder = tempfile.mkdtemp(prefix="sottovoce-metrics-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder

    def forget(server: Any, worker: Any) -> None:
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(worker.pid, folder)

    def clear(server: Any) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    return {"child_exit": forget, "on_exit": clear}


def _limit_silence(server: Any) -> None:
    """Let a thread wait only so long for the next bytes of a request that has begun.

    gunicorn's threads have no such limit. Connections inherit this from the socket that they come
    in by. It ends half-open requests; many of them at once still want the proxy in front.
    """
    for listener in server.LISTENERS:
        listener.sock.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", LONGEST_SILENCE_SECONDS, 0)
        )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
