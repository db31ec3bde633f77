"""`sottovoce notify` against a real store, mail server and web server."""

import json
import os
from datetime import UTC, datetime

import pytest

from sottovoce.__main__ import main
from tests.estimator.receivers import Hook, Mailbox, free, mail_server
from tests.sottovoce.test_releases import directory  # noqa: F401 - a fixture

ADDRESS = "ui-team@example.org"
