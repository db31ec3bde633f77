"""Lets pages of other origins speak to the server, those that its operator names and no others.

Browsers ask before such a page sends (a preflight), and show it an answer only where that answer
allows it. Nothing else is protected by this: programs that are no browsers send what they like.
"""

import re
from collections.abc import Iterable

from flask import Flask
from flask_cors import CORS

from client_sdk.authentication import MAC_HEADER
from client_sdk.report import DEVICES_PATH, ERASE_PATH, REPORTS_PATH


def allow(app: Flask, origins: Iterable[str]) -> None:
    """Answer preflights of some origins, and let their pages read what devices are answered.

    Args:
        app: The application, with the routes of devices.
        origins: Exact origins like https://app.example.org.
    """
    # Compiled: of plain text it guesses whether that is a pattern, and tells it to every request.
    exact = [re.compile(rf"{re.escape(origin)}\Z") for origin in origins]
    CORS(
        app,
        resources=[DEVICES_PATH, REPORTS_PATH, ERASE_PATH],
        origins=exact,
        methods=["POST"],
        allow_headers=["Authorization", "Content-Type", MAC_HEADER],
        expose_headers=["Retry-After"],
        intercept_exceptions=False,  # all errors are answers by then
    )
