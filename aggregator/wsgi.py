"""From settings to the application that a worker process serves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flask import Flask

from aggregator.app import create_app
from aggregator.catalogue import Catalogue
from aggregator.enrolment.limits import EnrolmentLimits
from aggregator.keyring.key_file import KeyFile
from aggregator.settings import ServerSettings
from aggregator.store import Store
from aggregator.watching.readiness import Readiness, free_share_in
from client_sdk.survey import Survey

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication


def application(
    settings: ServerSettings,
    network_secret: bytes | None = None,
    surveys: Sequence[Survey] = (),
) -> Flask:
    """Make an application with connections of its own: to be called after the fork.

    Does not need the store to be there; until it is, requests are answered with 503.

    Args:
        network_secret: The same in all processes of a server, see `create_app`.
        surveys: Likewise; registered by then.
    """
    return _Parts(settings, network_secret, surveys).app()


def served(
    settings: ServerSettings,
    network_secret: bytes | None = None,
    surveys: Sequence[Survey] = (),
) -> "WSGIApplication":
    """Make the same, and /metrics on its own port if the settings say so.

    PROMETHEUS_MULTIPROC_DIR must be set by then, see `aggregator.watching.metering`.
    """
    parts = _Parts(settings, network_secret, surveys)
    app = parts.app()
    return parts.metered(app) if settings.metrics_port else app


class _Parts:
    def __init__(
        self, settings: ServerSettings, network_secret: bytes | None, surveys: Sequence[Survey]
    ) -> None:
        self._settings = settings
        self._network_secret = network_secret
        self._keys = KeyFile(settings.keys_file)
        self._store = Store.connect(settings, self._keys.current().pseudonym_key)
        self._catalogue = Catalogue(self._store)
        self._free_share = free_share_in(settings.store_directory)
        self._surveys = surveys

    def app(self) -> Flask:
        settings = self._settings
        return create_app(
            store=self._store,
            keys=self._keys,
            catalogue=self._catalogue,
            plain_uploads=settings.plain_uploads,
            limits=EnrolmentLimits(settings.enrol_limit, settings.enrol_limit_per_network),
            network_secret=self._network_secret,
            trusted_proxies=settings.trusted_proxies,
            allowed_origins=settings.web_origins,
            readiness=Readiness(
                self._store, self._catalogue, settings.ready_fold_lag_seconds, self._free_share
            ),
            surveys=self._surveys,
        )

    def metered(self, app: Flask) -> "WSGIApplication":
        # Imported here: prometheus_client looks at the environment when it is loaded.
        from aggregator.watching.exposition import Figures, metrics_app, on_its_own_port
        from aggregator.watching.metering import Meter, of_all_processes, watch

        watch(app, Meter())
        figures = Figures(
            self._store, self._catalogue, self._keys, of_all_processes, self._free_share
        )
        return on_its_own_port(app, metrics_app(figures), self._settings.metrics_port)
