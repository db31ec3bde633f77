"""Runs the dashboard: its application under gunicorn, as the aggregation server runs."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from flask import Flask

from aggregator.administration.admin_log import AdminLog
from aggregator.catalogue import Catalogue
from aggregator.keyring.key_file import KeyFile
from aggregator.keyring.keys import Keys
from aggregator.server import serve
from aggregator.settings import ServerSettings
from aggregator.store import Store
from aggregator.survey_files import surveys_in
from aggregator.watching.readiness import free_share_in
from client_sdk.survey import Survey
from estimator.dashboard.access import is_loopback
from estimator.dashboard.app import create_app
from estimator.source import StoreSource

_log = logging.getLogger(__name__)

_WORKERS = 2
_THREADS = 8


def application(settings: ServerSettings, releases: Path, surveys: Sequence[Survey]) -> Flask:
    """Make an application with connections of its own: to be called after the fork.

    Does not need the store to be there; until it is, what needs it is answered with 503.
    """
    keys = KeyFile(settings.keys_file)
    store = Store.connect(settings, keys.current().pseudonym_key)
    return create_app(
        source=StoreSource(store, Catalogue(store)),
        releases=releases,
        keys=keys,
        log=AdminLog.beside(settings.keys_file, keys.current().pseudonym_key),
        free_share=free_share_in(settings.store_directory),
        metrics_urls=settings.metrics_urls,
        open_here=is_loopback(settings.dashboard_host),
        ahead=True,
        surveys=surveys,
        invitations=invitations_of(store, surveys),
    )


def invitations_of(
    store: Store, surveys: Sequence[Survey]
) -> Callable[[str], tuple[int, int] | None]:
    """Return what says how many invitations to a survey were made and used, None for open ones."""
    by_invitation = {survey.name for survey in surveys if survey.admission == "invitation"}

    def figures(name: str) -> tuple[int, int] | None:
        if name not in by_invitation:
            return None
        found = store.invitations.figures(name)
        return found.made, found.used

    return figures


def run(settings: ServerSettings, releases: Path) -> None:
    """Check the store, then serve until SIGTERM or SIGINT; ends the process.

    Raises:
        SettingsError, SurveyError, KeysError, StoreRefused, StoreUnavailable: Says what to do.
    """
    surveys = surveys_in(settings)
    keys = Keys.load(settings.keys_file)
    store = Store.connect(settings, keys.pseudonym_key)
    try:
        store.check()
    finally:
        store.close()
    if not is_loopback(settings.dashboard_host) and not keys.read_keys:
        _log.warning("nobody can read: make a key with `sottovoce keys new read --label WHO`")
    own = replace(
        settings,
        host=settings.dashboard_host,
        port=settings.dashboard_port,
        workers=_WORKERS,
        threads=_THREADS,
        metrics_port=0,
    )
    serve(own, lambda: application(settings, releases, surveys))
