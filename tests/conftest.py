"""Fixtures that several suites share: one real store for the whole run."""

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
    """URL of the real server, emptied before the test."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    return valkey.url
