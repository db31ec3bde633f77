"""Silence analysis: who reported what and when, sizes, charges and counters tell nothing of values.

Two devices record at the same moments; one holds ordinary values, the other whatever a host can
pass. They share a device secret, which chooses cohorts and turns, so that these can be compared.
All that an observer on the network or on the server can see, but for the response bits, must be
equal. Nothing here is random, so there is no false alarm; responses, ids, nonces and MACs are the
only random bytes, and their lengths are compared.
"""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Registry
from client_sdk.ledger import Ledger
from client_sdk.state import State
from client_sdk.testing import RecordingTransport

DAY = 86_400
START = 1_796_083_200.0 + DAY / 2  # 1 December 2026, 12:00 UTC
DAYS = 40

KEYS = """
question = "Which is it?"
sensitivity = "product"
epoch = "{epoch}"
starts = 2026-12-03
expires = 2027-01-05
"""
TABLES = (
    '[metrics.theme]\ntype = "category"\nvalues = ["light", "dark", "other"]\n'
    'catch_all = "other"\nepsilon = 1.0' + KEYS.format(epoch="day"),
    '[metrics.crashed]\ntype = "boolean"\nepsilon = 0.5\nwhen_absent = false'
    + KEYS.format(epoch="day"),
    '[metrics.stars]\ntype = "ordinal"\nvalues = [1, 2, 3, 4, 5]\nmissing = 3\nepsilon = 1.0'
    + KEYS.format(epoch="week"),
    '[metrics.size]\ntype = "number"\nrange = [0, 100]\nbuckets = 64\nmissing = 0\nepsilon = 1.0\n'
    "every = 3\nsample = 0.999999" + KEYS.format(epoch="day"),
    '[metrics.home_page]\ntype = "string"\nepsilon = 1.0\n'
    "memoize = { epsilon_permanent = 4.0, distinct_values = 2 }" + KEYS.format(epoch="day"),
)
ORDINARY: dict[str, list[object]] = {
    "theme": ["light"],
    "crashed": [False],
    "stars": [4],
    "size": [12.5],
    "home_page": ["example.org"],
}
STRANGE: dict[str, list[object]] = {
    "theme": ["not listed", None, "dark", math.nan, "", "LIGHT", "x" * 100_000, "light"],
    "crashed": [True, None, math.nan, False],
    "stars": [5, None, 7, -(10**40), math.nan, 0],
    "size": [math.inf, -math.inf, math.nan, 1e308, -1e-308, 10**5000, Decimal("NaN"), None, 100],
    "home_page": ["a", "b", "c", None, "", "\ud800", "e\u0301", "x" * 100_000, math.nan, "d"],
}


@dataclass
class Device:
    """A real client, its transport and its clock.

    Attributes:
        seen: What an observer notes after each day.
    """

    make: Callable[..., Client]
    registry: Registry
    folder: Path
    values: dict[str, Iterator[object]]

    def __post_init__(self) -> None:
        self.now = START
        self.transport = RecordingTransport()
        self.seen: list[object] = []
        self.client = self._start()

    def _start(self) -> Client:
        return self.make(
            self.registry,
            enabled=True,
            respect_environment=False,
            state_dir=self.folder,
            transport=self.transport,
            clock=lambda: self.now,
            upload_within_seconds=1e9,  # uploads come from flush, at moments of the test's choice
        )

    def live(self, day: int) -> None:
        """Record as the calendar has it, the same for every device, then let a day pass."""
        for place, name in enumerate(self.registry.metrics):
            if (day + place) % 4:  # each metric has days without a call
                self.client.record(name, next(self.values[name]))
            if (day + place) % 6 == 1:  # and days with two
                self.client.record(name, next(self.values[name]))
        if day % 3:
            self.client.flush()
            self.seen.append(self.look())
        if day == DAYS // 2:
            self.client.close(10)
            self.client = self._start()
        self.now += DAY

    def look(self) -> object:
        status = self.client.status()
        dropped = {k: n for k, n in status.dropped.items() if k != "clamped"}  # stays on the device
        sent = [masked(body) for body in self.transport.batches]
        self.transport.batches.clear()
        return sent, dropped, status.refused, status.queued, status.spent_epsilon, status.summary

    def ledger(self) -> object:
        self.client.close(10)
        state = State(self.folder)
        with state.transaction() as connection:
            shares = list(Ledger(connection, self.registry.lifetime_micro).shares())
            marks = connection.execute("SELECT * FROM marks ORDER BY 1, 2, 3").fetchall()
            paid = connection.execute("SELECT * FROM paid ORDER BY 1, 2").fetchall()
        state.close()
        return shares, marks, paid


def masked(body: bytes) -> object:
    """Return what a batch shows apart from random bytes, whose lengths are kept.

    A cell's number has as many digits as it is large; those are response and not counted.
    """
    batch = json.loads(body)
    for name in ("device", "nonce"):
        batch[name] = len(batch[name])
    digits = 0
    for report in batch["reports"]:
        response = report["response"]
        if isinstance(response, int):
            digits += len(str(response))
        report["response"] = len(response) if isinstance(response, str) else "cell"
    return batch, len(body) - digits


def observed(make: Callable[..., Client], registry: Registry, folder: Path, values: Any) -> Any:
    device = Device(make, registry, folder, {name: cycle(v) for name, v in values.items()})
    for day in range(DAYS):
        device.live(day)
    return device.seen, device.ledger()


class DropsStrangers(Client):
    """The control: a client that keeps quiet about values outside a category's list."""

    def record(self, metric: str, value: object) -> None:
        labels = self.registry.metrics[metric].labels
        if metric != "theme" or value in labels:
            super().record(metric, value)


def test_an_observer_of_everything_but_response_bits_cannot_tell_values_apart(
    registry_of: Any, note: Any, tmp_path: Path
) -> None:
    """Bound: no difference at all over 40 days, 5 metrics and a restart."""
    registry = registry_of(*TABLES)
    State(tmp_path / "new").close()
    for name in ("plain", "strange", "control"):
        shutil.copytree(tmp_path / "new", tmp_path / name)
    plain = observed(Client, registry, tmp_path / "plain", ORDINARY)
    strange = observed(Client, registry, tmp_path / "strange", STRANGE)
    control = observed(DropsStrangers, registry, tmp_path / "control", STRANGE)

    def differing(other: Any) -> int:
        days = sum(x != y for x, y in zip(plain[0], other[0], strict=True))
        return days + (plain[1] != other[1])

    reports = sum(len(batch["reports"]) for day in plain[0] for batch, _ in day[0])
    note(
        f"silence analysis, 40 days, {reports} reports (days that differ)",
        bound=0,
        measured=differing(strange),
        control=differing(control),
    )
    assert reports > 80
    assert strange == plain
    assert differing(control) > 10


@pytest.mark.parametrize("name", ["theme", "stars", "home_page"])
def test_every_value_of_the_right_type_is_reported(
    registry_of: Any, tmp_path: Path, name: str
) -> None:
    """Each strange value alone, on its own day, makes exactly one report and one charge."""
    registry = registry_of(*TABLES)
    now = [START + 2 * DAY]
    transport = RecordingTransport()
    client = Client(
        registry,
        enabled=True,
        respect_environment=False,
        state_dir=tmp_path,
        transport=transport,
        clock=lambda: now[0],
        upload_within_seconds=1e9,
    )
    step = 7 if registry.metrics[name].epoch == "week" else 1
    values = STRANGE[name][: 28 // step]
    for value in values:
        client.record(name, value)
        assert client.flush()
        now[0] += step * DAY
    assert [report["metric"] for report in transport.reports].count(name) == len(values)
    assert set(client.status().dropped) <= {"clamped"}
    client.close(10)


def test_where_absence_is_reported_even_recording_does_not_show(
    registry_of: Any, note: Any, tmp_path: Path
) -> None:
    """Bound: no difference between a device that records every day and one that never does.

    Compared: batches but for response bits, in their order, beside a metric that both record.
    Control: the same metric without `when_absent`.
    """
    theme = TABLES[0]
    crashed = '[metrics.crashed]\ntype = "boolean"\nepsilon = 0.5{absent}' + KEYS.format(
        epoch="day"
    )

    def look(name: str, absent: str, records: bool) -> object:
        registry = registry_of(theme, crashed.format(absent=absent))
        device = Device(Client, registry, tmp_path / name, {})
        device.now += 2 * DAY
        sent = []
        for _ in range(10):
            if records:
                device.client.record("crashed", True)
            device.client.record("theme", "dark")
            device.client.flush()
            sent.append([masked(body) for body in device.transport.batches])
            device.transport.batches.clear()
            device.now += DAY
        device.client.close(10)
        return sent

    covered = "\nwhen_absent = false"
    same = look("silent", covered, False) == look("loud", covered, True)
    control = look("silent-control", "", False) == look("loud-control", "", True)
    note(
        "does recording show, 10 days",
        bound="no",
        measured="no" if same else "yes",
        control="no" if control else "yes",
    )
    assert same and not control
