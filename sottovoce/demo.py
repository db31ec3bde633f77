"""The demo: one week of a made-up project, from recording devices to signed-off shares.

The questions are in `demo_metrics.toml`, the true distributions in `populations/`.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, TextIO

from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from client_sdk import Registry, loads
from client_sdk.epochs import day_of, label
from client_sdk.pending import current_epoch
from estimator.ledger.lifetime import Lifetime, lifetime
from estimator.publish import publish_epoch
from estimator.releases.files import read
from estimator.releases.release import Release
from estimator.source import StoreSource
from sottovoce.estimates import inside, print_entries
from sottovoce.fleet import Plan, Tour
from sottovoce.fleet import run as run_fleet
from sottovoce.lifetimes import lifetime_in_words
from sottovoce.population import UNLISTED, Population, shipped
from sottovoce.progress import Progress
from sottovoce.system import System, free_port, running
from sottovoce.table import percent

POPULATIONS = {
    "carrier": "airline_carrier",
    "cancelled": "flight_cancelled",
    "departure_hour": "departure_hour",
    "browser": "browser_version",
}
PARTICIPATION = {"browser": 0.9}
"""Not every device uses every feature; that is what makes lifetimes differ."""
MOST_ROWS = 16


@dataclass(frozen=True)
class Result:
    """What the demo shows.

    Attributes:
        releases: By metric.
        truth: By metric, the true share of each entry.
        ledger: Lifetime epsilon over devices.
        tour: What the devices met.
        complete: How many devices were complete SDK clients.
        directory: Where the release files lie.
    """

    releases: Mapping[str, Release]
    truth: Mapping[str, list[float]]
    ledger: Lifetime
    tour: Tour
    complete: int
    directory: Path

    def as_json(self) -> dict[str, Any]:
        """Return entries with truth per metric, and the ledger."""
        metrics = {}
        for name, release in self.releases.items():
            document = release.to_dict()
            shown = ("epoch", "status", "n", "epsilon", "level", "method")
            metrics[name] = {key: document.get(key) for key in shown}
            metrics[name]["estimates"] = [
                {**entry, "truth": truth}
                for entry, truth in zip(_entries(document), self.truth[name], strict=False)
            ]
        return {
            "metrics": metrics,
            "ledger": self.ledger.to_dict(),
            "devices": self.tour.devices,
            "releases": str(self.directory),
        }

    def print(self) -> None:
        """Print one table per metric, then the ledger."""
        held = total = 0
        for name, release in self.releases.items():
            found = _print_release(release, self.truth[name])
            held, total = held + found[0], total + found[1]
        refused = {reason: n for reason, n in self.tour.reports.items() if reason != "accepted"}
        print(
            f"\n{held} of {total} intervals hold the truth; 95 % of them should, so a few are "
            f"expected to miss."
        )
        simulated = self.tour.devices - self.complete
        print(
            f"\n{self.tour.devices} devices: {self.complete} complete SDK clients with their own "
            f"state on disk,\n{simulated} simulated with the SDK's mechanism, report and transport "
            f"code. Refused reports: {refused or 'none'}."
        )
        print(f"\n{lifetime_in_words(self.ledger)}")
        print(f"Release files: {self.directory}")
        print(f"Open in a browser: {self.directory / 'index.html'}")


@dataclass(frozen=True)
class Demo:
    """One run.

    Attributes:
        output: Directory for releases and logs; the rest that is put there is removed again.
        devices: Size of the fleet.
        complete: How many of them are complete SDK clients.
        seed: Of the populations.
        now: Unix time in seconds.
        progress: Where progress goes.
    """

    output: Path
    devices: int
    complete: int
    seed: int
    now: float
    progress: TextIO

    def run(self, then: Callable[[Result, System], object] | None = None) -> Result:
        """Do everything; whatever was started has ended afterwards.

        Args:
            then: Called last, while everything still runs.
        """
        populations = {metric: shipped(name) for metric, name in POPULATIONS.items()}
        registry = demo_registry(day_of(self.now), populations)
        logs = self.output / "logs"
        logs.mkdir(parents=True)
        settings = ServerSettings(
            port=free_port(),
            fold_interval_seconds=0.2,
            enrol_limit=max(100_000, self.devices),
            planned_devices=self.devices,  # so few buckets that each look at the ledger reads all
        )
        try:
            self._say("Starting store, server and fold worker")
            with running(
                registry.text,
                self.output,
                settings=settings,
                with_schedule=False,
                log_directory=logs,
            ) as system:
                result = self._collect_and_publish(system, registry, populations)
                if then is not None:
                    then(result, system)
                return result
        finally:
            shutil.rmtree(self.output / "store", ignore_errors=True)
            (self.output / "keys.json").unlink(missing_ok=True)

    def _collect_and_publish(
        self, system: System, registry: Registry, populations: Mapping[str, Population]
    ) -> Result:
        self._say(f"{self.devices} devices record, randomize and upload to {system.endpoint}")
        plan = Plan(
            registry.text,
            system.endpoint,
            system.write_key,
            populations,
            PARTICIPATION,
            self.seed,
            self.now,
        )
        with Progress("devices", self.devices, self.progress) as progress:
            tour = run_fleet(plan, self.devices, self.complete, 2, progress.advance)
        source = StoreSource(system.store, system.catalogue)
        signing = Keys.load(self.output / "keys.json").signing
        releases = {}
        for name, metric in registry.metrics.items():
            self._say(f"Closing the epoch of {name} and publishing")
            epoch = label(metric.epoch, current_epoch(metric, self.now))
            (outcome,) = publish_epoch(
                source, system.releases, self.now, name, epoch, early=True, signing=signing
            )
            if outcome.path is None:
                raise OSError(f"{name} could not be published: {outcome.reason}")
            releases[name] = read(outcome.path)
        truth = {name: _truth(releases[name], populations[name]) for name in releases}
        ledger = lifetime(system.store.accounts.every_spent(), registry.lifetime_micro)
        return Result(releases, truth, ledger, tour, self.complete, system.releases)

    def _say(self, text: str) -> None:
        self.progress.write(f"{text} ...\n")
        self.progress.flush()


def demo_registry(today: date, populations: Mapping[str, Population]) -> Registry:
    """Return the demo's registry, for four weeks from this Monday."""
    monday = today - timedelta(days=today.weekday())
    candidates = [value for value in populations["browser"].values if value != UNLISTED]
    template = (files("sottovoce") / "demo_metrics.toml").read_text(encoding="utf-8")
    return loads(
        template.format(
            starts=monday,
            expires=monday + timedelta(weeks=4),
            candidates=json.dumps(candidates),
        )
    )


def _entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a release's entries, `other` last; none if it is withheld."""
    other = document.get("other")
    return [*(document["estimates"] or []), *([other] if other else [])]


def _truth(release: Release, population: Population) -> list[float]:
    entries = _entries(release.to_dict())
    listed = [
        population.share_of(entry["value"]) for entry in entries if entry["value"] is not None
    ]
    return [*listed, 1 - sum(listed)] if len(entries) > len(listed) else listed


def _print_release(release: Release, truth: list[float]) -> tuple[int, int]:
    """Print one metric; return how many intervals hold the truth, and of how many."""
    document = release.to_dict()
    print(f"\n{release.metric}: {release.question}")
    if document["estimates"] is None:
        print(f"  WITHHELD: fewer than {release.min_reports} reports")
        return 0, 0
    entries = _entries(document)
    print(
        f"{document['mechanism']}, epsilon {document['epsilon']:.3f} per report, "
        f"{release.epoch}, {document['n']} reports"
    )
    order = sorted(range(len(entries)), key=lambda index: -truth[index])
    shown = list(range(len(entries))) if len(entries) <= 20 else order[:MOST_ROWS]
    level = document["level"]
    print_entries([entries[i] for i in shown], level, [truth[i] for i in shown])
    held = [inside(entry["interval"], t) for entry, t in zip(entries, truth, strict=True)]
    hidden = [t for entry, t in zip(entries, truth, strict=True) if not entry["significant"]]
    if len(shown) < len(entries):
        print(f"and {len(entries) - len(shown)} more; {sum(map(bool, held))} of {len(held)} inside")
    if hidden:
        print(
            f"Not significant at this n: {len(hidden)} of {len(entries)} values, "
            f"the most frequent of them with a true share of {percent(max(hidden))}."
        )
    return sum(map(bool, held)), len(held)
