"""A web app whose operator may share how it is used, under gunicorn with two forked workers.

    TELEMETRY=on gunicorn --preload --workers 2 app:app

The client is made once, before the fork. Each worker goes on with it on its own; the workers share
one state and one lifetime budget, so the installation answers each question once.
"""

import os
from pathlib import Path

from flask import Flask, request

from client_sdk import Client

telemetry = Client(
    Path(__file__).with_name("metrics.toml"),
    endpoint="https://telemetry.example.org",
    write_key="printed by `sottovoce up`",
    enabled=os.environ.get("TELEMETRY") == "on",
)
app = Flask(__name__)


@app.get("/search")
def search() -> str:
    telemetry.record("search_used", True)
    telemetry.record("language", request.accept_languages.best or "")
    return f"Nothing found for {len(request.args.get('q', ''))} characters.\n"
