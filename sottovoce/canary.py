"""The canary: metrics of known truth, answered every day by synthetic devices of the operator.

They have a registry of their own, so no app carries them and no user is asked. Each device is new,
answers one metric, delivers like any other, and has itself erased: the tallies keep its report, the
ledger keeps nothing, so what is published about users' lifetime epsilon is about users alone.
Values are drawn from public distributions; only noise needs secret randomness.
"""

import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np

from aggregator.canary import PREFIX
from aggregator.catalogue import Catalogue
from aggregator.purposes import newest_for_apps
from aggregator.store import Store
from client_sdk import Registry, loads
from client_sdk.epochs import DAY_SECONDS, day_of, label
from client_sdk.metric import Label, Metric
from client_sdk.pending import current_epoch
from estimator.canary import truth
from estimator.canary.truth import Truth
from sottovoce.fleet import Plan, run_here
from sottovoce.population import UNLISTED, Population

log = logging.getLogger(__name__)

ROUND = 100
"""Devices between two notes of how many have begun."""
COMPLETE = 2
"""Of each round, complete SDK clients with their state on disk; the others are simulated."""
_LAST_SECONDS = 600.0
"""Of a day, in which no round begins: its reports might come after the day's closing."""

_SHARES: Mapping[str, Mapping[str, float]] = {
    "yes_no": {"false": 0.7, "true": 0.3},
    "one_of_6": {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1, "e": 0.0, "f": 0.0},
    "one_of_16": {
        **dict(zip(map(str, range(8)), (0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05), strict=True)),
        **{str(value): 0.0 for value in range(8, 16)},
    },
    "text": {"alpha": 0.4, "beta": 0.3, "gamma": 0.2, "delta": 0.0, UNLISTED: 0.1},
}

_REGISTRY = """# The canary of {project}: answered by synthetic devices of the operator, by no user.
schema = 1
[project]
name = {project}
lifetime_epsilon = 1000.0
contact = {contact}
{seal}
[metrics."canary.yes_no"]
question = "Canary, synthetic devices: 30 % answer yes. Is that what is published?"
type = "boolean"
epsilon = 1.0
{common}
[metrics."canary.one_of_6"]
question = "Canary, synthetic devices: six values, two of which nobody answers."
type = "category"
values = ["a", "b", "c", "d", "e", "f"]
catch_all = "f"
epsilon = 1.0
mechanism = "generalized_randomized_response"
{common}
[metrics."canary.one_of_16"]
question = "Canary, synthetic devices: sixteen values, eight of which nobody answers."
type = "ordinal"
values = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
missing = 0
epsilon = 1.0
mechanism = "optimized_unary"
{common}
[metrics."canary.text"]
question = "Canary, synthetic devices: strings, one tenth of them not looked for."
type = "string"
candidates = ["alpha", "beta", "gamma", "delta"]
epsilon = 2.0
memoize = {{ epsilon_permanent = 4.0, distinct_values = 1 }}
rappor = {{ bits = 32, hashes = 2, cohorts = 4 }}
{common}"""

_COMMON = """sensitivity = "product"
epoch = "day"
grace = 0
min_reports = 50
starts = {first}
expires = {last}
"""


def registry_text(apps: Registry, today: date) -> str:
    """Return the canary's registry for half a year; longer, no lifetime cap would cover it.

    Args:
        apps: The newest registry for apps; names project and contact, and the key to seal to.
        today: UTC.
    """
    first = date(today.year, 1 if today.month < 7 else 7, 1)
    last = date(today.year, 7, 1) if today.month < 7 else date(today.year + 1, 1, 1)
    seal = ""
    if apps.seal is not None:
        seal = f'seal = {{ key = {apps.seal.id}, public = "{apps.seal.public.hex()}" }}\n'
    return _REGISTRY.format(
        project=json.dumps(apps.project),
        contact=json.dumps(apps.contact),
        seal=seal,
        common=_COMMON.format(first=first, last=last),
    )


def population_of(metric: Metric) -> Population:
    """Return what the devices of a canary metric answer."""
    shares = _SHARES[metric.name.removeprefix(PREFIX)]
    return Population(tuple(shares), np.array(list(shares.values())))


def truth_of(metric: Metric, epoch: int) -> Truth:
    """Return what is known about an epoch before any device has begun."""
    population = population_of(metric)
    shares: list[tuple[Label | None, float]] = [
        (value, population.share_of(value)) for value in metric.labels or metric.candidates
    ]
    if not metric.labels:
        shares.append((None, population.share_of(UNLISTED)))
    return Truth(metric.name, label(metric.epoch, epoch), metric.fingerprint, tuple(shares))


@dataclass(frozen=True)
class Canary:
    """Reports what is known, once a day.

    Attributes:
        store: Holds the registry versions.
        catalogue: Takes the canary's registry.
        endpoint: Base URL of the server.
        write_key: For enrolment.
        releases: Directory of the releases, where the truth is written.
        devices: Per metric and day.
        clock: Unix time in seconds; the devices of a round take its begin for the present.
    """

    store: Store
    catalogue: Catalogue
    endpoint: str
    write_key: str
    releases: Path
    devices: int
    clock: Callable[[], float] = time.time

    def run(self) -> dict[str, int]:
        """Let the devices report that have not yet begun today.

        Returns:
            Per metric, how many reports the server has acknowledged.

        Raises:
            TransportError: The server stopped answering. Calling again goes on where this ended.
            ValueError: No app's registry is there yet, or its lifetime cap is below a canary
                device's charge.
        """
        now = self.clock()
        if _is_late(now):
            return {}
        registry = self._registered(now)
        return {
            metric.name: done
            for metric in registry.metrics.values()
            if (done := self._report(metric, registry.text, current_epoch(metric, now)))
        }

    def _registered(self, now: float) -> Registry:
        texts = self.store.registries.texts()
        apps = newest_for_apps(texts)
        if apps is None:
            raise ValueError("the canary needs the store to hold a metrics.toml of an app first")
        registry = loads(registry_text(apps, day_of(now)))
        dearest = max(metric.charge for metric in registry.metrics.values())
        if apps.lifetime_micro < dearest:
            raise ValueError(
                f"the canary needs a lifetime_epsilon of at least {dearest / 1e6:g} in "
                f"metrics.toml, got {apps.lifetime_epsilon}"
            )
        if registry.text not in texts:
            self.catalogue.register(registry.text)
        return registry

    def _report(self, metric: Metric, text: str, epoch: int) -> int:
        known = truth_of(metric, epoch)
        path = truth.path_of(self.releases, known.metric, known.epoch, known.fingerprint)
        if path.exists():
            known = truth.read(path)
        before = known.delivered
        while known.begun < self.devices:
            now = self.clock()
            if _is_late(now) or current_epoch(metric, now) != epoch:
                break
            size = min(ROUND, self.devices - known.begun)
            known = replace(known, begun=known.begun + size)
            truth.write(known, self.releases)
            plan = Plan(
                text,
                self.endpoint,
                self.write_key,
                {metric.name: population_of(metric)},
                seed=secrets.randbits(63),
                now=now,
                erase=True,
            )
            verdicts = run_here(plan, size, COMPLETE).reports
            known = replace(known, delivered=known.delivered + verdicts.pop("accepted", 0))
            truth.write(known, self.releases)
            if verdicts:
                log.warning("%s: the server refused reports: %s", metric.name, dict(verdicts))
        return known.delivered - before


def _is_late(now: float) -> bool:
    return DAY_SECONDS - now % DAY_SECONDS < _LAST_SECONDS
