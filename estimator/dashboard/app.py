"""The dashboard's application: the read API, and what says whether it serves."""

import json
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from flask import Flask, Response

from aggregator.keyring.keys import KeySource
from estimator.dashboard.access import readers_only
from estimator.dashboard.answers import NEVER, kept
from estimator.dashboard.api.addresses import api
from estimator.dashboard.problems import ReadProblem, answer_errors_as_read_problems
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
    open_here: bool,
    clock: Callable[[], float] = time.time,
) -> Flask:
    """Wire the parts together.

    Args:
        source: Metrics and the ledger.
        releases: Directory of the release files.
        keys: The read keys, asked for at each request.
        open_here: Whether requests from this machine need no key: for an application that only
            this machine reaches.
        clock: Unix time in seconds.
    """
    app = Flask(__name__, static_folder=None, template_folder=None)
    app.url_map.merge_slashes = False  # by a redirect to wherever the Host header says
    answer_errors_as_read_problems(app)
    shelf = Shelf(releases, clock)
    readable = api(source, shelf)
    readable.before_request(readers_only(keys, open_here=open_here))
    app.register_blueprint(readable)

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
