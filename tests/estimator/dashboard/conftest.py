"""A real store, real release files, and the application that shows both."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from flask import Flask

from aggregator.administration.admin_log import AdminLog
from aggregator.catalogue import Catalogue
from aggregator.connection import Connection
from aggregator.keyring.key_file import KeyFile
from aggregator.keyring.kinds import KINDS
from aggregator.keyring.rotation import new
from aggregator.recovery.witness import Witness
from aggregator.store import Store
from aggregator.tally import Tally
from client_sdk.epochs import parse
from client_sdk.metric import Metric
from estimator.dashboard.app import create_app
from estimator.estimate import estimate
from estimator.plausibility import Plausibility
from estimator.releases.files import write
from estimator.releases.pages import write_pages
from estimator.releases.release import Release, compose, compose_pooled
from estimator.source import StoreSource
from tests.aggregator.conftest import World, free_port, make_world
from tests.contracts import Contract
from tests.estimator.conftest import REGISTRY, expected_tally, other_version
from tests.estimator.dashboard.reading import Element
from tests.estimator.dashboard.showcase import showcase, write_releases

CONTRACT = Contract(files("estimator.dashboard").joinpath("openapi.yaml").read_text())
SHARES = [0.5, 0.3, 0.2, 0]
ROOT = Path(__file__).parents[3]


@dataclass
class Desk:
    """Where releases lie, and whom the application asks."""

    world: World
    releases: Path

    @property
    def source(self) -> StoreSource:
        return StoreSource(self.world.store, self.world.catalogue)

    def away(self) -> StoreSource:
        """A source whose store cannot be reached."""
        witness = Witness.beside(self.world.settings.keys_file)
        connection = Connection("redis://127.0.0.1:1", 1.0)
        store = Store(connection, self.world.store._layout, witness)
        return StoreSource(store, Catalogue(store))

    def app(self, *, open_here: bool = True, **changes: Any) -> Flask:
        given = {"source": self.source, "releases": self.releases} | changes
        return CONTRACT.conforming(self.plain_app(open_here=open_here, **given))

    def plain_app(self, *, open_here: bool = True, **changes: Any) -> Flask:
        """The application without a look at its contract: for pages."""
        keys = KeyFile(self.world.settings.keys_file)
        log = AdminLog.beside(self.world.settings.keys_file, keys.current().pseudonym_key)
        given = {"source": self.source, "releases": self.releases, "log": log} | changes
        given = {"clock": lambda: self.world.now} | given
        return create_app(keys=keys, open_here=open_here, **given)

    def get(self, path: str, **headers: str) -> Any:
        """Ask as somebody on this machine does."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.app().test_client().get(path, headers=given)

    def page(self, path: str, **changes: Any) -> Element:
        """Read a page as somebody on this machine sees it."""
        client = self.plain_app(**changes).test_client()
        answer = client.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == 200, answer.text
        return Element.read(answer.text)

    def read_key(self, label: str = "an analyst") -> tuple[int, str]:
        """Make a read key; return its id and its text."""
        act = new(self.world.settings.keys_file, KINDS["read"], date(2026, 11, 30), label)
        assert act.text is not None
        return act.key.id, act.text

    def put(self, release: Release) -> Release:
        """Write a release's files, without its page."""
        return write(release, self.releases)[0]


def released(metric: Metric, week: str, n: int = 1000, **parts: Any) -> Release:
    """The release of some reports."""
    tally = expected_tally(metric, n, SHARES)
    return compose(
        metric,
        "shop-app",
        parse("week", week),
        estimate(metric, tally),
        **parts,
        now=1_796_600_000.0,
    )


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[Desk]:
    """No release yet."""
    world = make_world(redis_url, tmp_path, REGISTRY)
    (tmp_path / "releases").mkdir()
    yield Desk(world, tmp_path / "releases")
    world.store.close()


@pytest.fixture
def full(desk: Desk, metrics: dict[str, Metric]) -> Desk:
    """theme: W49 two versions and pooled, W50 withheld at 96, W51 two that cannot be pooled;
    home_page: two days; smokes: once."""
    theme, home, smokes = metrics["theme"], metrics["home_page"], metrics["smokes"]
    old = other_version(theme, "2")
    seen = Plausibility(None, None, 0.5)
    parts = [desk.put(released(theme, "2026-W49", plausibility=seen))]
    parts.append(desk.put(released(old, "2026-W49")))
    desk.put(compose_pooled(theme, parts))
    desk.put(released(theme, "2026-W50", 96))
    desk.put(released(theme, "2026-W51"))
    desk.put(released(old, "2026-W51"))
    bits = Tally(np.full(4, 100), np.full((4, 32), 50))
    for day in ("2026-12-01", "2026-12-02"):
        desk.put(
            compose(home, "shop-app", parse("day", day), estimate(home, bits), now=1_796_600_000.0)
        )
    answers = expected_tally(smokes, 400, [0.7, 0.3])
    desk.put(compose(smokes, "shop-app", 0, estimate(smokes, answers), now=1_796_600_000.0))
    write_pages(parts[0], desk.releases)
    return desk


@pytest.fixture(scope="session")
def half_a_year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The releases of `shop`; not to be written to."""
    directory = tmp_path_factory.mktemp("half_a_year")
    write_releases(directory)
    return directory


@pytest.fixture
def shop(redis_url: str, tmp_path: Path, half_a_year: Path) -> Iterator[Desk]:
    """A system that has everything a page may have to show, at NOW; see `showcase`."""
    world = showcase(redis_url, tmp_path, half_a_year)
    yield Desk(world, tmp_path / "releases")
    world.store.close()


RUN = """
import os
import sys
from pathlib import Path
from aggregator.watching.logs import configure
from aggregator.settings import ServerSettings
from estimator.dashboard.server import run
settings = ServerSettings.from_env(os.environ)
configure("dashboard", settings, sys.stderr)
run(settings, Path(os.environ["SOTTOVOCE_RELEASES"]))
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start the dashboard under gunicorn, with further variables; return its URL."""
    running = []

    def start(desk: Desk, **environment: str) -> str:
        port = free_port()
        given = {
            "REDIS_URL": desk.world.redis_url,
            "SOTTOVOCE_KEYS_FILE": str(desk.world.settings.keys_file),
            "SOTTOVOCE_PLANNED_DEVICES": str(desk.world.settings.planned_devices),
            "SOTTOVOCE_RELEASES": str(desk.releases),
            "SOTTOVOCE_DASHBOARD_PORT": str(port),
        }
        with open(tmp_path / "dashboard.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", RUN],
                env=os.environ | given | environment,
                cwd=ROOT,
                stderr=log,
                start_new_session=True,
            )
        running.append(process)
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while True:
            with suppress(requests.ConnectionError):
                if requests.get(f"{url}/readyz", timeout=5).status_code == 200:
                    return url
            told = (tmp_path / "dashboard.log").read_text()
            assert time.monotonic() < deadline and process.poll() is None, told
            time.sleep(0.05)

    yield start
    for process in running:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
