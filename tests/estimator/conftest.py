"""Metrics and a source of tallies for suites above the arithmetic."""

from collections.abc import Callable

import numpy as np
import pytest

from aggregator.tally import Tally
from client_sdk.metric import Metric
from client_sdk.registry import loads
from estimator.ledger.lifetime import Lifetime, lifetime

REGISTRY = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 1000
contact = "telemetry@example.org"

[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "=HYPERLINK(evil)", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "week"
owners = ["ui-team@example.org"]
starts = 2026-11-30
expires = 2027-12-31

[metrics.smokes]
question = "Do you smoke?"
type = "boolean"
sensitivity = "health"
epsilon = 1.0
epoch = "once"
owners = ["survey@example.org"]
starts = 2026-11-01
expires = 2026-12-01

[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 4.0
memoize = { epsilon_permanent = 8.0, distinct_values = 2 }
rappor = { bits = 32, hashes = 2, cohorts = 4 }
candidates = ["example.org", "example.com"]
epoch = "day"
owners = ["ui-team@example.org"]
starts = 2026-11-30
expires = 2027-12-31
"""


@pytest.fixture
def metrics() -> dict[str, Metric]:
    """theme (4 values, weeks), smokes (boolean, once), home_page (strings, days)."""
    return dict(loads(REGISTRY).metrics)


def expected_tally(metric: Metric, n: int, shares: list[float]) -> Tally:
    """The tally that n reports of a closed metric have on average, rounded to whole counts."""
    p, q = float(metric.mechanism.p_true), float(metric.mechanism.p_false)
    held = shares if metric.mechanism.cells > 1 else shares[1:]
    counts = np.array([[round(n * (q + (p - q) * share)) for share in held]], np.int64)
    if metric.mechanism.kind == "cell":
        counts[0, 0] += n - counts.sum()
    return Tally(np.array([n], np.int64), counts)


@pytest.fixture
def tally_of() -> Callable[[Metric, int, list[float]], Tally]:
    return expected_tally


class Tallies:
    """A due.Source that keeps tallies at hand and remembers what was closed."""

    def __init__(self, *metrics: Metric) -> None:
        self.versions = list(metrics)
        self.kept: dict[tuple[str, str, int], Tally] = {}
        self.closed: list[tuple[str, int]] = []
        self.down = False

    def add(self, metric: Metric, epoch: int, tally: Tally) -> None:
        key = (metric.name, metric.fingerprint, epoch)
        self.kept[key] = self.kept[key] + tally if key in self.kept else tally

    def project(self) -> str:
        return "shop-app"

    def metrics(self) -> list[Metric]:
        return self.versions

    def epochs_with_reports(self, metric: Metric) -> list[int]:
        mine = (metric.name, metric.fingerprint)
        return sorted(epoch for *key, epoch in self.kept if tuple(key) == mine)

    def close(self, metric: Metric, epoch: int) -> None:
        if self.down:
            raise ConnectionError("shard 3 is away")
        self.closed.append((metric.name, epoch))

    def tally(self, metric: Metric, epoch: int) -> Tally:
        return self.kept[metric.name, metric.fingerprint, epoch]

    def popcounts(self, metric: Metric, epoch: int) -> tuple[int, ...]:
        return ()

    def lifetime(self) -> Lifetime:
        return lifetime([1_000_000, 3_000_000], 24_000_000)


@pytest.fixture
def make_source() -> Callable[..., Tallies]:
    return Tallies


def other_version(metric: Metric, epsilon: str) -> Metric:
    """The same metric with another channel, as an older file in the field would have it."""
    from client_sdk.mechanisms import build

    assert metric.mechanism.domain is not None
    name, domain = metric.mechanism.name, metric.mechanism.domain
    return metric._replace(mechanism=build(name, domain=domain, epsilon=epsilon))


@pytest.fixture
def version_of() -> Callable[[Metric, str], Metric]:
    return other_version
