"""What the fault suite shares: the aggregator suite's real server, a store to kill, and chance.

Chance is seeded, and a failing test prints its seed; SOTTOVOCE_TEST_SEED tries another.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aggregator.machine.embedded import EmbeddedServer
from tests.aggregator.conftest import new_world, serve, world
from tests.faults.proxy import Connect, FaultProxy

__all__ = ["new_world", "serve", "world"]


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of a test's chance."""
    found = int(os.environ.get("SOTTOVOCE_TEST_SEED", "20261130"))
    print(f"SOTTOVOCE_TEST_SEED={found}")
    return found


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose name is short enough for a socket in it, wherever tests keep theirs."""
    directory = Path(tempfile.mkdtemp(prefix="sv-"))
    yield directory
    shutil.rmtree(directory)


class KillableStore:
    """An embedded store that is killed and started again on the same data."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self._directory, self._settings = directory, settings
        self.start()

    def start(self) -> None:
        self.server = EmbeddedServer.start(self._directory, **self._settings)

    @property
    def url(self) -> str:
        return self.server.url

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        os.kill(self.server.pid, 9)
        self.server.stop()


@pytest.fixture
def start_store(short_path: Path) -> Iterator[Callable[..., KillableStore]]:
    """Start a store with settings of `EmbeddedServer.start`."""
    started: list[KillableStore] = []

    def start(**settings: object) -> KillableStore:
        started.append(KillableStore(short_path / f"store{len(started)}", **settings))
        return started[-1]

    yield start
    for store in started:
        store.server.stop()


@pytest.fixture
def proxy_to() -> Iterator[Callable[..., FaultProxy]]:
    """Put a proxy before something."""
    started: list[FaultProxy] = []

    def put(connect: Connect, delay_seconds: float = 0.05) -> FaultProxy:
        started.append(FaultProxy(connect, delay_seconds))
        return started[-1]

    yield put
    for proxy in started:
        proxy.close()
