"""The dashboard's application: pages for people, the read API for programs, and its health."""

import json
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from flask import Flask, Response
from jinja2 import StrictUndefined

from aggregator.administration.admin_log import AdminLog
from aggregator.keyring.keys import KeySource
from client_sdk.survey import Survey
from estimator.dashboard.access import Access, keep_sessions
from estimator.dashboard.answers import NEVER, kept
from estimator.dashboard.api.addresses import api
from estimator.dashboard.looking_ahead import look_ahead
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.pages.problems import show_problems_as_pages
from estimator.dashboard.pages.routes import pages
from estimator.dashboard.problems import ReadProblem, answer_errors_as_read_problems
from estimator.dashboard.published import Published
from estimator.dashboard.servers import Servers
from estimator.dashboard.shelf import Shelf
from estimator.source import StoreSource

_HEADERS = {
    "Cache-Control": NEVER,
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer that does not say otherwise."""


def create_app(
    *,
    source: StoreSource,
    releases: Path,
    keys: KeySource,
    log: AdminLog,
    open_here: bool,
    clock: Callable[[], float] = time.time,
    free_share: Callable[[], float] | None = None,
    metrics_urls: Sequence[str] = (),
    ahead: bool = False,
    surveys: Sequence[Survey] = (),
    invitations: Callable[[str], tuple[int, int] | None] | None = None,
) -> Flask:
    """Wire the parts together.

    Args:
        source: Metrics, the ledger and the figures of the store.
        releases: Directory of the release files.
        keys: The server's keys, asked for at each request.
        log: The administrators' log.
        open_here: Whether requests from this machine need no key: for an application that only
            this machine reaches.
        clock: Unix time in seconds.
        free_share: Share of the store's disk that is free; None: the store is elsewhere.
        metrics_urls: Where the servers tell their own figures.
        ahead: Whether to look at releases in a thread before anybody asks.
        surveys: Those that are asked here.
        invitations: See `Inputs`.
    """
    app = Flask(__name__, static_folder=None, template_folder=None)
    app.url_map.merge_slashes = False  # by a redirect to wherever the Host header says
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    answer_errors_as_read_problems(app)
    keep_sessions(app, keys)
    access = Access(keys, open_here)
    shelf = Shelf(releases, clock)
    readable = api(source, shelf)
    readable.before_request(access.require)
    app.register_blueprint(readable)
    published = Published(shelf)
    if ahead:
        look_ahead(published)
    inputs = Inputs(
        source,
        published,
        keys,
        log,
        clock,
        free_share,
        Servers(metrics_urls),
        surveys,
        invitations,
    )
    app.register_blueprint(pages(inputs, access))
    show_problems_as_pages(app)

    @app.get("/livez")
    def live() -> Response:
        return _status("alive")

    @app.get("/readyz")
    def ready() -> Response:
        source.newest()
        if not releases.is_dir():
            raise ReadProblem("unavailable", "SOTTOVOCE_RELEASES names no directory")
        return _status("ready")

    contract = files("estimator.dashboard").joinpath("openapi.yaml").read_bytes()

    @app.get("/openapi.yaml")
    def show_contract() -> Response:
        return kept(contract, "application/yaml")

    @app.after_request
    def guarded(answer: Response) -> Response:
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    return app


def _status(word: str) -> Response:
    return Response(json.dumps({"status": word}), content_type="application/json")
