"""Pages of a test's own that load modules of client_sdk/web, under the strictest policy."""

from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Response, jsonify, send_from_directory

from tests.javascript import WEB

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; connect-src 'self' "
)
HTML = (
    '<!doctype html><html lang="en"><head><title>A page</title><link rel="icon" href="data:,">'
    '<script type="module" src="/run.js"></script></head>'
    "<body><main><h1>A page</h1><p id='equal'></p><p id='drawn'></p></main></body></html>"
)


def page_of(
    script: str, documents: Mapping[str, Callable[[], Any]], connect: Callable[[], str] = str
) -> Flask:
    """Make a site of one page.

    Args:
        script: A module, beside the folder `web`.
        documents: What gives each JSON document, by its address.
        connect: What else the page may connect to.
    """
    app = Flask(__name__)

    @app.get("/")
    def page() -> Response:
        return Response(HTML, headers={"Content-Security-Policy": POLICY + connect()})

    @app.get("/run.js")
    def run() -> Response:
        return Response(script, mimetype="text/javascript")

    @app.get("/web/<name>")
    def module(name: str) -> Response:
        return send_from_directory(WEB, name)

    @app.get("/<name>.json")
    def document(name: str) -> Response:
        return jsonify(documents[f"/{name}.json"]())

    return app
