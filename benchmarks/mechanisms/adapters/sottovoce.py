"""Ours: a report is drawn in both stages, and counted as the fold does, from rows of bytes.

A string's cells are hashed anew for every report, and its permanent noise is drawn anew, which a
device does once for each value.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np
from tasks import EPSILON

from aggregator.fold import summed
from aggregator.group import Group
from aggregator.tally import Tally
from client_sdk.mechanisms import build
from client_sdk.randomness import Coin
from estimator.estimate import estimate


@dataclass(frozen=True)
class Described:
    """A metric, as far as estimators look at it."""

    mechanism: object
    labels: tuple
    candidates: tuple = ()
    edges: tuple = ()


class Rows:
    """Reports of one group, as an entry of the store holds them."""

    def __init__(self, group, mechanism, client, drawn):
        packed = b"".join(group.row(0, client(value)) for value in drawn)
        self.group = group
        self.table = np.frombuffer(packed, np.uint8).reshape(len(drawn), -1)
        self.metric = Described(mechanism, tuple(range(mechanism.domain)))

    def __len__(self):
        return len(self.table)


def tally_of(rows):
    """Add reports up."""
    _, sums = summed(rows.group, rows.table)
    return Tally(sums[:, 0], sums[:, 1:])


def estimates_of(rows):
    """Add reports up and estimate all shares with their errors."""
    return estimate(rows.metric, tally_of(rows))


def reports_of(task, client, drawn):
    """Return the rows of reports on these values."""
    mechanism = client.__self__.mechanism
    group = Group("week:m", 1, "0" * 16, mechanism.kind, mechanism.cells)
    return Rows(group, mechanism, client, drawn)


class Closed:
    """A client of a closed domain."""

    def __init__(self, mechanism):
        self.mechanism = mechanism
        self.coin = Coin()

    def report(self, value):
        """Draw a report."""
        mechanism, coin = self.mechanism, self.coin
        return mechanism.instantaneous(mechanism.permanent(value, 0, coin), coin)


class Open(Closed):
    """A client of strings; its cohort is its own where noise is remembered, else each report's."""

    def __init__(self, mechanism, domain):
        super().__init__(mechanism)
        self.names = [f"value {index}" for index in range(domain)]
        self.cohort = self.coin.uniform(mechanism.cohorts) if mechanism.memoizes else None

    def report(self, value):
        """Draw a report."""
        mechanism, coin, cohort = self.mechanism, self.coin, self.cohort
        if cohort is None:
            cohort = coin.uniform(mechanism.cohorts)
        permanent = mechanism.permanent(self.names[value], cohort, coin)
        return mechanism.instantaneous(permanent, coin)


def closed(name, **options):
    """Return how to make a task's client and server."""
    return lambda task: (
        Closed(build(name, domain=task.domain, epsilon=EPSILON, **options)).report,
        estimates_of,
    )


def strings(name, **options):
    """Return how to make a task's client."""
    return lambda task: (Open(build(name, epsilon=EPSILON, **options), task.domain).report, None)


MECHANISMS = {
    "RR": closed("randomized_response"),
    "GRR-100": closed("generalized_randomized_response"),
    "OUE-128": closed("optimized_unary"),
    "OUE-1024": closed("optimized_unary"),
    "OLH-1024": closed("optimized_local_hashing"),
    "Hadamard-1024": closed("hadamard_response"),
    "CMS": strings("count_mean_sketch", cells=1024, hashes=64),
    "RAPPOR": strings("rappor", bits=128, hashes=2, cohorts=64, epsilon_permanent=2 * EPSILON),
}
