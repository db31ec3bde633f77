"""Fixtures that several suites share: one real store for the whole run."""

import gc
from collections.abc import Iterator

import pytest
import redis

from aggregator.machine.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A real server, without fsync: tests of durability start their own."""
    directory = tmp_path_factory.mktemp("valkey")
    with EmbeddedServer.start(directory, appendfsync="no") as server:
        yield server


@pytest.fixture
def redis_url(valkey: EmbeddedServer) -> str:
    """URL of the real server, emptied before the test and with the memory that it began with."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
        client.config_set("maxmemory", "1gb")  # tests of a full store leave another
    return valkey.url


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected while a test nests as deep as Python lets it.

    What is called at a collection (hypothesis measures them) would fail there, by chance.
    """
    gc.disable()
    yield
    gc.enable()
