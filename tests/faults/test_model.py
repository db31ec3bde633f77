"""Random histories of a server, step by step against a model that has neither shards nor faults.

After every step: tallies and what waits to be folded are the model's reports, every device has
spent what the model says, marks and counters agree, and a release never changes.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from aggregator import private_file
from aggregator.app import create_app
from aggregator.closing import close_epoch
from aggregator.fold import rows_by_group, summed
from aggregator.group import Group
from aggregator.key_file import KeyFile
from aggregator.keys import Keys
from aggregator.rotation import rotate_master, rotate_sealing
from aggregator.store import Store
from client_sdk.authentication import batch_mac
from client_sdk.epochs import DAY_SECONDS, day_of, epoch_of, first_day
from client_sdk.metric import Metric
from client_sdk.report import REPORTS_PATH, SEALED_TYPE
from client_sdk.sealing import seal_upload
from estimator.publish import close_due, due_at, publish_due
from estimator.source import StoreSource
from tests.aggregator.conftest import Device, World, make_world
from tests.faults.proxy import Fault, FaultProxy, to_unix

METRICS = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = {lifetime}
contact = "telemetry@example.org"

[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "system", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "week"
min_reports = 3
owners = ["ui@example.org"]
starts = 2026-11-16
expires = {expires}

[metrics.crashed]
question = "Did the app crash?"
type = "boolean"
sensitivity = "product"
epsilon = 0.5
epoch = "day"
min_reports = 3
owners = ["ui@example.org"]
starts = 2026-11-27
expires = {expires}

[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = {{ epsilon_permanent = 2.0, distinct_values = 2 }}
rappor = {{ bits = 8, hashes = 2, cohorts = 4 }}
candidates = ["example.org", "example.com"]
epoch = "week"
min_reports = 3
owners = ["ui@example.org"]
starts = 2026-11-16
expires = {expires}
"""
# The newest version sets the cap, the widest one the time: so budgets do run dry.
OLDER = METRICS.format(lifetime=1000, expires="2027-06-01")
NEWER = METRICS.format(lifetime=8, expires="2026-11-28")
NAMES = ("theme", "crashed", "home_page")

Told = tuple[str, ...]
Sent = tuple[str, int, int, int]
"""A report: metric, epoch, cohort, response."""


@dataclass
class Model:
    """What a server with one thread, one memory and no enemies would do."""

    metrics: dict[str, Metric]
    cap: int
    spent: dict[str, int] = field(default_factory=dict)
    last: dict[str, tuple[bytes, Told]] = field(default_factory=dict)
    reported: set[tuple[str, str, int]] = field(default_factory=set)
    paid: set[tuple[str, str]] = field(default_factory=set)
    closed: dict[str, int] = field(default_factory=dict)
    supports: Counter[Sent] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)

    def take(self, device: str, body: bytes, reports: list[Sent], now: float) -> Told:
        told = tuple(self._judge(device, report, now) for report in reports)
        self.spent.setdefault(device, 0)
        self.last[device] = body, told
        self.happened.update(("batches", *told))
        return told

    def _judge(self, device: str, report: Sent, now: float) -> str:
        name, epoch, cohort, response = report
        metric = self.metrics[name]
        begins = first_day(metric.epoch, epoch)
        if (begins - day_of(0.0)).days * DAY_SECONDS > now + 600:
            return "too_early"
        if epoch < epoch_of(metric.epoch, metric.starts) or begins >= metric.expires:
            return "epoch_closed"
        if epoch <= self.closed.get(name, -1):
            return "epoch_closed"
        if (device, name, epoch) in self.reported:
            return "already_reported"
        free = metric.memoize is not None and (device, name) in self.paid
        charge = 0 if free else metric.charge
        if charge and self.spent.get(device, 0) + charge > self.cap:
            return "budget_exhausted"
        self.spent[device] = self.spent.get(device, 0) + charge
        self.reported.add((device, name, epoch))
        self.paid.add((device, name))
        for cell in metric.mechanism.support(response):
            self.supports[name, epoch, cohort, cell] += 1
        self.supports[name, epoch, cohort, -1] += 1  # the number of reports
        return "accepted"

    def close(self, name: str, epoch: int) -> None:
        self.closed[name] = max(epoch, self.closed.get(name, -1))


@dataclass
class Lab:
    """The store that histories of one test share, and what stands before it."""

    store: Any
    proxy: FaultProxy

    def restart(self) -> None:
        self.store.kill()
        self.store.start()


def reports(most: int) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    """Lists of (metric, epochs back from now, chance of cohort and response)."""
    one = st.tuples(st.sampled_from(NAMES), st.integers(-1, 3), st.integers(0, 2**16))
    return st.lists(one, min_size=1, max_size=most)


DEVICES = st.integers(0, 5)
FAULTS: st.SearchStrategy[tuple[Fault, int] | None] = st.none() | st.tuples(
    st.sampled_from(["drop_request", "cut_request", "drop_reply", "cut_reply"]), st.integers(1, 2)
)


class History(RuleBasedStateMachine):
    """One server's life, by chance."""

    lab: ClassVar[Lab]

    @initialize()
    def begin(self) -> None:
        with redis.Redis.from_url(self.lab.store.url) as client:
            client.flushall()
        self.directory = TemporaryDirectory(prefix="sv-")
        self.releases = Path(self.directory.name) / "releases"
        # The same history has the same devices in the same shards, or it could not be shrunk.
        self.chance = random.Random(1)
        keys = Keys((("1", self.chance.randbytes(32)),), self.chance.randbytes(32), "w" * 32)
        private_file.create(Path(self.directory.name) / "keys.json", keys.text())
        url = f"redis://127.0.0.1:{self.lab.proxy.port}/0"
        self.world: World = make_world(
            url, Path(self.directory.name), OLDER, planned_devices=256, shards=2
        )
        self.world.catalogue.register(NEWER)
        versions = self.world.catalogue.current()
        self.model = Model(
            {name: metric for (name, _), metric in versions.metrics.items()}, 8 * 10**6
        )
        assert versions.cap == self.model.cap
        self.devices: list[Device] = []
        self.older: list[bytes] = []
        self.sleeping: list[Any] = []
        self.released: dict[Path, bytes] = {}
        self.restart_server()
        self.enrol()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.store.close()
            self.directory.cleanup()

    # What devices do

    @precondition(lambda self: len(self.devices) < 6)
    @rule()
    def enrol(self) -> None:
        self.devices.append(Device(*self.world.keys.enrol(self.chance.randbytes)))

    @rule(at=DEVICES, drawn=reports(4), fault=FAULTS, sealed=st.booleans())
    def upload(
        self, at: int, drawn: list[Any], fault: tuple[Fault, int] | None, sealed: bool
    ) -> None:
        device, sent, body = self._batch(at, drawn)
        if device.id in self.model.last:
            self.older.append(self.model.last[device.id][0])
        if fault is not None:
            self.lab.proxy.arm(fault[0], b"EVALSHA", fault[1])
        tries = [self._send(device, body, sealed)]
        while tries[-1].status_code == 503:
            tries.append(self._send(device, body, sealed))
        lost = fault[1] if fault is not None and fault[0].endswith("reply") else 0
        assert len(tries) == 1 + (fault is not None and fault[1] == 2)
        told = self.model.take(device.id, body, sent, self.world.now)
        self.model.happened["duplicates"] += lost
        self._check_answer(tries[-1], device, "duplicate" if lost else "accepted", told)

    @rule(at=DEVICES, drawn=reports(2))
    def upload_while_the_store_is_killed(self, at: int, drawn: list[Any]) -> None:
        device, sent, body = self._batch(at, drawn)
        self.lab.store.kill()
        answer = self._send(device, body)
        assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
        self.lab.store.start()
        self._warm()
        told = self.model.take(device.id, body, sent, self.world.now)
        self._check_answer(self._send(device, body), device, "accepted", told)

    @precondition(lambda self: self.model.last)
    @rule(at=DEVICES, times=st.integers(1, 3))
    def replay(self, at: int, times: int) -> None:
        device = self._known(at)
        body, told = self.model.last[device.id]
        for _ in range(times):
            self.model.happened["duplicates"] += 1
            self._check_answer(self._send(device, body), device, "duplicate", told)

    @precondition(lambda self: self.model.last)
    @rule(at=DEVICES)
    def send_other_bytes_under_the_last_sequence(self, at: int) -> None:
        device = self._known(at)
        body = device.batch(self.world.report("theme", 3), sequence=device.sequence) + b" "
        self.model.happened["clones"] += 1
        answer = self._send(device, body)
        assert answer.status_code == 409 and answer.json["spent"] == self.model.spent[device.id]

    @precondition(lambda self: self.older)
    @rule(at=st.integers(0, 20))
    def send_an_older_batch(self, at: int) -> None:
        body = self.older[at % len(self.older)]
        (device,) = [each for each in self.devices if each.id.encode() in body]
        self.model.happened["clones"] += 1
        assert self._send(device, body).status_code == 409

    # What the server does

    @rule()
    def fold(self) -> None:
        self.world.folder.fold_once()
        assert self.world.store.lag() == 0

    @rule(shard=st.integers(0, 1), most=st.integers(1, 3))
    def begin_a_fold_that_may_die(self, shard: int, most: int) -> None:
        """Read and add up; whether it is ever committed, and when, is up to chance."""
        read = self.world.store.unfolded(shard, most)
        if read.entries:
            rows, late = rows_by_group(read)
            folder = self.world.folder
            changes = {group: folder._added(shard, group, block) for group, block in rows.items()}
            folded = sum(len(block) for block in rows.values())
            self.sleeping.append((shard, read, changes, folded, late))

    @precondition(lambda self: self.sleeping)
    @rule(at=st.integers(0, 5))
    def end_a_fold(self, at: int) -> None:
        shard, read, *rest = self.sleeping.pop(at % len(self.sleeping))
        untouched = self.world.store.cursor(shard) == read.cursor
        assert self.world.store.commit(shard, read, *rest) == untouched

    @rule(name=st.sampled_from(NAMES), back=st.integers(0, 2))
    def close(self, name: str, back: int) -> None:
        epoch = self.world.epoch(name) - back
        close_epoch(self.world.store, self.world.metric(name), epoch)
        self.model.close(name, epoch)

    @rule()
    def publish(self) -> None:
        source = StoreSource(self.world.store, self.world.catalogue)
        for outcome in self._published(source):
            assert outcome.status in ("OK", "WITHHELD") and outcome.path is not None
            assert outcome.path not in self.released
        for path in self.releases.rglob("*.json"):
            assert path.read_bytes() == self.released.setdefault(path, path.read_bytes())

    def _published(self, source: StoreSource) -> list[Any]:
        now = self.world.now
        close_due(source, now)
        for name, metric in self.model.metrics.items():
            epoch = self.world.epoch(name)
            while due_at([metric], epoch) > now:
                epoch -= 1
            if epoch >= epoch_of(metric.epoch, metric.starts):
                self.model.close(name, epoch)
        return publish_due(source, self.releases, now)

    @rule()
    def kill_store(self) -> None:
        self.lab.restart()
        self._warm()

    @rule()
    def restart_server(self) -> None:
        self.world.store.close()
        self.world.store = Store.connect(self.world.settings, self.world.keys.pseudonym_key)
        self.world.store.check()
        self.world.store.raise_generation(self.world.now)
        self.world.catalogue = type(self.world.catalogue)(self.world.store)
        self.world.app = create_app(
            store=self.world.store,
            keys=KeyFile(self.world.settings.keys_file),
            catalogue=self.world.catalogue,
            clock=lambda: self.world.now,
        )
        self._warm()

    @rule()
    def rotate_the_master_key(self) -> None:
        self.world.keys = rotate_master(self.world.settings.keys_file, day_of(self.world.now))

    @precondition(lambda self: len(self.world.keys.opening_keys) < 5)
    @rule()
    def rotate_the_sealing_key(self) -> None:
        path, today = self.world.settings.keys_file, day_of(self.world.now)
        self.world.keys = rotate_sealing(path, today, pending=False)

    @rule(days=st.sampled_from([0.25, 1, 1, 3, 8]))
    def advance(self, days: float) -> None:
        self.world.now += days * DAY_SECONDS

    # What must be true whatever happened

    @invariant()
    def tallies_and_what_waits_are_the_models_reports(self) -> None:
        found = Counter(self._folded())
        for shard in self.world.store.shards:
            rows, late = rows_by_group(self.world.store.unfolded(shard, 10_000))
            assert late == 0
            for group, block in rows.items():
                cohorts, sums = summed(group, block)
                for cohort, row in zip(cohorts, sums, strict=True):
                    found += _supports(group.series, group.epoch, cohort, row)
        assert found == self.model.supports
        waiting = self.model.happened["accepted"] - sum(
            count for (*_, cell), count in self._folded().items() if cell == -1
        )
        assert self.world.store.lag() == waiting

    @invariant()
    def every_device_has_spent_what_the_model_says(self) -> None:
        for device in self.devices:
            assert self.world.store.spent(device.id) == self.model.spent.get(device.id)
        assert Counter(self.world.store.ledger()) == Counter(self.model.spent.values())

    @invariant()
    def counters_agree(self) -> None:
        counters = self.world.store.counters()
        told = ("accepted", "epoch_closed", "too_early", "already_reported", "budget_exhausted")
        for name in (*told, "batches", "duplicates", "clones"):
            assert counters[name] == self.model.happened[name], name
        assert counters["late"] == counters["gaps"] == 0

    @invariant()
    def marks_are_those_of_open_epochs(self) -> None:
        expected = Counter(
            (name, epoch)
            for _, name, epoch in self.model.reported
            if epoch > self.model.closed.get(name, -1)
        )
        found: Counter[tuple[str, int]] = Counter()
        with redis.Redis.from_url(self.lab.store.url) as client:
            for key in client.scan_iter(match="*:mark:*"):
                _, _, _, name, epoch, _ = key.decode().split(":")
                found[name, int(epoch)] += client.scard(key)
        assert found == expected

    # How it is done

    def _batch(self, at: int, drawn: list[Any]) -> tuple[Device, list[Sent], bytes]:
        device = self.devices[at % len(self.devices)]
        sent: list[Sent] = []
        for name, back, chance in drawn:
            mechanism = self.model.metrics[name].mechanism
            most = mechanism.cells if mechanism.kind == "cell" else 1 << mechanism.cells
            cohort = chance % mechanism.cohorts
            response = chance // mechanism.cohorts % most
            sent.append((name, self.world.epoch(name) - back, cohort, response))
        written = [
            self.world.report(name, response, cohort, epoch=epoch)
            for name, epoch, cohort, response in sent
        ]
        return device, sent, device.batch(*written)

    def _known(self, at: int) -> Device:
        known = [device for device in self.devices if device.id in self.model.last]
        return known[at % len(known)]

    def _send(self, device: Device, body: bytes, sealed: bool = False) -> Any:
        ring = self.world.keys.opening_keys
        if not sealed or not ring:
            return self.world.send(device, body)
        # To any key that was ever in use: an app in the field has an older one.
        key = ring[len(body) % len(ring)].public
        made = seal_upload(key, body, batch_mac(device.key, body))
        headers = {"Content-Type": SEALED_TYPE}
        return self.world.app.test_client().post(REPORTS_PATH, data=made, headers=headers)

    def _check_answer(self, answer: Any, device: Device, verdict: str, told: Told) -> None:
        assert answer.status_code == 200, answer.json
        assert (answer.json["verdict"], answer.json["spent"]) == (
            verdict,
            self.model.spent[device.id],
        )
        assert tuple(answer.json["reports"]) == told

    def _folded(self) -> Counter[Sent]:
        found: Counter[Sent] = Counter()
        for name, metric in self.model.metrics.items():
            for epoch in {epoch for other, epoch, *_ in self.model.supports if other == name}:
                tally = self.world.store.tally(metric, epoch)
                for cohort in range(metric.mechanism.cohorts):
                    row = np.concatenate(([tally.reports[cohort]], tally.counts[cohort]))
                    found += _supports(Group.of(metric, epoch).series, epoch, cohort, row)
        return found

    def _warm(self) -> None:
        """Have live connections and loaded scripts, so that a fault meets the upload itself."""
        self.world.store.check_ready()
        with redis.Redis.from_url(self.lab.store.url) as client:
            for name in ("intake", "fold"):
                path = Path(__file__).parents[2] / "aggregator" / "lua" / f"{name}.lua"
                client.script_load(path.read_text())


def _supports(series: str, epoch: int, cohort: int, row: Any) -> Counter[Sent]:
    """Counts of one cohort: cell -1 is the number of reports."""
    name = series.partition(":")[2]
    return Counter({(name, epoch, cohort, cell - 1): int(n) for cell, n in enumerate(row) if n})


@pytest.fixture
def lab(start_store: Callable[..., Any], proxy_to: Callable[..., FaultProxy]) -> Iterator[Lab]:
    store = start_store()
    yield Lab(store, proxy_to(to_unix(str(store.server.socket))))


def live(lab: Lab, lives: int, steps: int) -> None:
    class OfThisLab(History):
        pass

    OfThisLab.lab = lab
    run_state_machine_as_test(
        OfThisLab,
        settings=settings(
            max_examples=lives,
            stateful_step_count=steps,
            derandomize=True,
            deadline=None,
            database=None,
            # Shrinking would run into the timeout, with a store to kill at many a step.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_random_histories_agree_with_the_model(lab: Lab) -> None:
    live(lab, lives=12, steps=25)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_many_and_long_random_histories_agree_with_the_model(lab: Lab) -> None:
    live(lab, lives=40, steps=60)
