"""Fixtures for tests of host apps; pytest finds them by itself where sottovoce is installed.

Imports nothing of the SDK before a fixture is used. docs/testing.md shows each.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from client_sdk.testing import ClientFactory, FakeClock
    from client_sdk.testing.canary import Canary


@pytest.fixture
def sottovoce_clock() -> "FakeClock":
    """A clock that stands still; `tick(days=1)` moves it, `move_to(date)` sets it."""
    from client_sdk.testing import FakeClock

    return FakeClock()


@pytest.fixture
def sottovoce_client(
    tmp_path_factory: pytest.TempPathFactory, sottovoce_clock: "FakeClock"
) -> Iterator["ClientFactory"]:
    """Makes clients: `sottovoce_client("metrics.toml")`; they are closed after the test."""
    from client_sdk.testing import ClientFactory

    factory = ClientFactory(tmp_path_factory.mktemp("sottovoce") / "state", sottovoce_clock)
    yield factory
    factory.close()


@pytest.fixture
def sottovoce_reports(
    sottovoce_client: "ClientFactory",
) -> Callable[..., list[dict[str, Any]]]:
    """Call it for all reports that were sent, or those of one metric: `("theme")`."""
    return sottovoce_client.reports


@pytest.fixture
def sottovoce_canary(sottovoce_client: "ClientFactory") -> Callable[[str], "Canary"]:
    """`with sottovoce_canary("CANARY-7f3a") as canary:` fails if the value shows anywhere.

    Clients that `sottovoce_client` makes, their state and what they send are watched.
    """
    from client_sdk.testing.canary import Canary

    def make(value: str) -> "Canary":
        canary = Canary(value)
        canary.watch(sottovoce_client)
        return canary

    return make
