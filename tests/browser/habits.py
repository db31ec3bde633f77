"""The example survey as it is served: the real application, the real store, and a gate between."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from aggregator.enrolment.limits import EnrolmentLimits
from aggregator.machine.embedded import EmbeddedServer
from client_sdk.survey import Survey, load_survey
from tests.aggregator.conftest import World, make_world
from tests.browser.serving import Gate, served

HABITS = Path(__file__).parents[2] / "examples" / "surveys" / "habits.toml"
OPEN_DAY = 1_796_212_800.0  # 2 December 2026, 12:00 UTC, the second day of the example


@dataclass(frozen=True)
class Served:
    """A survey at a server.

    Attributes:
        survey: What is asked.
        world: The parts of the server.
        gate: What hears each request.
        url: Of the server.
    """

    survey: Survey
    world: World
    gate: Gate
    url: str

    @property
    def address(self) -> str:
        """Of the page."""
        return f"{self.url}/s/{self.survey.name}"

    def counted(self) -> int:
        """How many reports came into the tallies since this was asked last."""
        return self.world.folder.fold_once()


@contextmanager
def serving(valkey: EmbeddedServer, directory: Path, survey: Survey) -> Iterator[Served]:
    """Serve a survey with an empty store, to as many respondents as come."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    world = make_world(valkey.url, directory, survey.registry_text)
    world.now = OPEN_DAY
    gate = Gate(
        world.app_with(
            limits=EnrolmentLimits(10_000, 10_000),
            surveys=[survey],
        )
    )
    with served(gate) as url:
        yield Served(survey, world, gate, url)
    world.store.close()


@pytest.fixture(scope="module")
def habits(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The example, for all tests of a module: each has respondents of its own."""
    with serving(valkey, tmp_path_factory.mktemp("habits"), load_survey(HABITS)) as found:
        yield found
