"""Random histories of a server, step by step against a model that has neither shards nor faults.

After every step: tallies and what waits to be folded are the model's reports, every device has
spent what the model says, marks and counters agree, and a release never changes.
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import redis

from aggregator.app import create_app
from aggregator.catalogue import Catalogue
from aggregator.closing import close_epoch
from aggregator.fold import Folder, rows_by_group, summed
from aggregator.group import Group
from aggregator.keyring import private_file
from aggregator.keyring.key_file import KeyFile
from aggregator.keyring.keys import Keys
from aggregator.keyring.kinds import MasterKey, OpeningKey
from aggregator.keyring.rotation import rotate
from aggregator.recovery.erasure import erase
from aggregator.store import Store
from client_sdk.authentication import batch_mac
from client_sdk.epochs import DAY_SECONDS, day_of, epoch_of, first_day, parse
from client_sdk.metric import Metric
from client_sdk.report import REPORTS_PATH, SEALED_TYPE
from client_sdk.sealing import seal_upload
from estimator.due import close_due, due_at
from estimator.publish import publish_due
from estimator.source import StoreSource
from tests.aggregator.conftest import Device, World, make_world
from tests.faults.proxy import FAULTS, FaultProxy, to_unix

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
NEWER = METRICS.format(lifetime=7, expires="2026-11-28")
LUA = Path(__file__).parents[2] / "aggregator" / "lua"
REPORTS = -1
"""Stands for the number of reports among cells."""
COUNTED = (
    "accepted",
    "epoch_closed",
    "too_early",
    "already_reported",
    "budget_exhausted",
    "batches",
    "duplicates",
    "clones",
)
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
    erased: set[str] = field(default_factory=set)
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
        self.supports[name, epoch, cohort, REPORTS] += 1
        return "accepted"

    def close(self, name: str, epoch: int) -> None:
        self.closed[name] = max(epoch, self.closed.get(name, -1))

    def marks(self) -> Counter[tuple[str, int]]:
        return Counter(
            (name, epoch)
            for device, name, epoch in self.reported
            if device not in self.erased and epoch > self.closed.get(name, -1)
        )

    def reports(self, name: str, epoch: int) -> int:
        return sum((of, at) == (name, epoch) for _, of, at in self.reported)


@dataclass
class Lab:
    """The store that histories of one test share, and what stands before it."""

    store: Any
    proxy: FaultProxy


class Slow:
    """A store in the hands of a fold worker that stops before it commits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.kept: tuple[Any, ...] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, *arguments: Any) -> bool:
        self.kept = arguments
        return False


class History:
    """One server's life: acts drawn by chance, and what must be true after each of them.

    Attributes:
        acts: What was done so far, for whoever reads a failure.
    """

    def __init__(self, lab: Lab, directory: Path, seed: int) -> None:
        self.lab, self.chance, self.acts = lab, random.Random(seed), [f"seed {seed}"]
        with redis.Redis.from_url(lab.store.url) as client:
            client.flushall()
        directory.mkdir()
        self.releases = directory / "releases"
        # The same seed has the same devices in the same shards.
        keys = Keys.fresh()
        (master,) = keys.master_keys
        keys = replace(
            keys,
            pseudonym_key=self.chance.randbytes(32),
            master_keys=(replace(master, secret=self.chance.randbytes(32)),),
        )
        private_file.create(directory / "keys.json", keys.text())
        url = f"redis://127.0.0.1:{lab.proxy.port}/0"
        self.world: World = make_world(url, directory, OLDER, planned_devices=256, shards=2)
        self.world.catalogue.register(NEWER)
        versions = self.world.catalogue.current()
        metrics = {name: metric for (name, _), metric in versions.metrics.items()}
        self.model = Model(metrics, versions.cap)
        self.devices: list[Device] = []
        self.gone: list[Device] = []
        self.older: list[bytes] = []
        self.sleeping: list[Any] = []
        self.released: dict[Path, bytes] = {}
        self.restart_server()

    def live(self, steps: int) -> None:
        """Do so many acts, checking after each.

        Raises:
            AssertionError: Server and model disagree; names the acts that led there.
        """
        weights = {
            self.upload: 12,
            self.upload_while_the_store_is_killed: 1,
            self.replay: 3,
            self.send_other_bytes_under_the_last_sequence: 1,
            self.send_an_older_batch: 1,
            self.enrol: 3,
            self.erase: 1,
            self.upload_after_erasure: 1,
            self.fold: 2,
            self.begin_a_fold_that_may_die: 4,
            self.end_a_fold: 2,
            self.overtake_a_fold: 3,
            self.close: 1,
            self.publish: 1,
            self.kill_store: 1,
            self.restart_server: 1,
            self.rotate_the_master_key: 1,
            self.rotate_the_sealing_key: 1,
            self.advance: 3,
        }
        self.enrol()
        try:
            for act in self.chance.choices(list(weights), list(weights.values()), k=steps):
                self.acts.append(act.__name__)
                act()
                self.check()
        except Exception as error:
            error.add_note("after: " + ", ".join(self.acts))
            raise
        finally:
            self.world.store.close()

    # What devices do

    def enrol(self) -> None:
        if len(self.devices) < 8:
            self.devices.append(Device(*self.world.keys.enrol(self.chance.randbytes)))

    def erase(self) -> None:
        """Tallies stay, everything else of the device goes."""
        if len(self.devices) > 1:
            device = self.devices.pop(self.chance.randrange(len(self.devices)))
            known = erase(
                self.world.store, self.world.catalogue.current(), device.id, self.world.now
            )
            assert known == (self.model.spent.pop(device.id, None) is not None)
            self.model.last.pop(device.id, None)
            self.model.erased.add(device.id)
            self.older = [body for body in self.older if device.id.encode() not in body]
            self.gone.append(device)

    def upload_after_erasure(self) -> None:
        if self.gone:
            device = self.chance.choice(self.gone)
            body = device.batch(self.world.report("theme"))
            answer = self._send(device, body)
            assert answer.status_code == 410 and not answer.json["reports"]
            assert self.world.store.accounts.spent(device.id) is None

    def upload(self) -> None:
        device, sent, body = self._batch()
        if device.id in self.model.last:
            self.older.append(self.model.last[device.id][0])
        fault, times, lost = self.chance.choice(FAULTS[:-1]), self.chance.choice((0, 0, 0, 1, 2)), 0
        self._note(device.id[:4], *sent, fault * bool(times), times)
        if times:
            self.lab.proxy.arm(fault, b"EVALSHA", times)
            lost = times if fault.endswith("reply") else 0
        tries = [self._send(device, body)]
        while tries[-1].status_code == 503:
            tries.append(self._send(device, body))
        assert len(tries) == 1 + (times == 2)
        told = self.model.take(device.id, body, sent, self.world.now)
        self.model.happened["duplicates"] += lost
        self._check_answer(tries[-1], device, "duplicate" if lost else "accepted", told)

    def upload_while_the_store_is_killed(self) -> None:
        device, sent, body = self._batch()
        if device.id in self.model.last:
            self.older.append(self.model.last[device.id][0])
        self.lab.store.kill()
        answer = self._send(device, body)
        assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
        self.lab.store.start()
        self._warm()
        told = self.model.take(device.id, body, sent, self.world.now)
        self._check_answer(self._send(device, body), device, "accepted", told)

    def replay(self) -> None:
        device = self._known()
        if device is not None:
            body, told = self.model.last[device.id]
            self.model.happened["duplicates"] += 1
            self._check_answer(self._send(device, body), device, "duplicate", told)

    def send_other_bytes_under_the_last_sequence(self) -> None:
        device = self._known()
        if device is not None:
            body = device.batch(self.world.report("theme", 3), sequence=device.sequence) + b" "
            self.model.happened["clones"] += 1
            answer = self._send(device, body)
            assert answer.status_code == 409
            assert answer.json["spent"] == self.model.spent[device.id]

    def send_an_older_batch(self) -> None:
        if self.older:
            body = self.chance.choice(self.older)
            (device,) = [each for each in self.devices if each.id.encode() in body]
            self.model.happened["clones"] += 1
            assert self._send(device, body).status_code == 409

    # What the server does

    def fold(self) -> None:
        self.world.folder.fold_once()
        assert self.world.store.figures.lag() == 0

    def begin_a_fold_that_may_die(self) -> None:
        """Read and add up; whether it is ever committed, and when, is up to chance."""
        slow = Slow(self.world.store)
        shard, most = self.chance.randrange(2), self.chance.choice((1, 2, 3, 100))
        Folder(cast(Store, slow), most).fold_shard(shard)
        if slow.kept is not None:
            self.sleeping.append(slow.kept)

    def end_a_fold(self) -> None:
        if self.sleeping:
            self._commit(self.sleeping.pop(self.chance.randrange(len(self.sleeping))))

    def overtake_a_fold(self) -> None:
        """Another worker folds part of what the slow one has read, or all of it."""
        self.begin_a_fold_that_may_die()
        if self.sleeping:
            slow = self.sleeping.pop()
            Folder(self.world.store, self.chance.randint(1, 2)).fold_shard(slow[0])
            self._commit(slow)

    def _commit(self, fold: Any) -> None:
        shard, read, *_ = fold
        untouched = self.world.store.tallies.cursor(shard) == read.cursor
        self._note(shard, untouched)
        assert self.world.store.tallies.commit(*fold) == untouched

    def close(self) -> None:
        name = self.chance.choice(NAMES)
        epoch = self.world.epoch(name) - self.chance.choice((0, 1, 1, 2, 2))
        self._note(name, epoch)
        close_epoch(self.world.store, self.world.metric(name), epoch)
        self.model.close(name, epoch)

    def publish(self) -> None:
        source, now = StoreSource(self.world.store, self.world.catalogue), self.world.now
        close_due(source, now)
        for name, metric in self.model.metrics.items():
            epoch = self.world.epoch(name)
            while due_at([metric], epoch) > now:
                epoch -= 1
            if epoch >= epoch_of(metric.epoch, metric.starts):
                self.model.close(name, epoch)
        for outcome in publish_due(source, self.releases, now):
            assert outcome.status in ("OK", "WITHHELD") and outcome.path not in self.released
            if outcome.status == "OK":
                assert outcome.path is not None
                epoch = parse(self.model.metrics[outcome.metric].epoch, outcome.epoch)
                told = json.loads(outcome.path.read_text())["n"]
                assert told == self.model.reports(outcome.metric, epoch)
        for path in self.releases.rglob("*.json"):
            assert path.read_bytes() == self.released.setdefault(path, path.read_bytes())

    def kill_store(self) -> None:
        self.lab.store.kill()
        self.lab.store.start()
        self._warm()

    def restart_server(self) -> None:
        self.world.store.close()
        self.world.store = Store.connect(self.world.settings, self.world.keys.pseudonym_key)
        self.world.store.check()
        self.world.store.raise_generation(self.world.now)
        self.world.catalogue = Catalogue(self.world.store)
        self.world.app = create_app(
            store=self.world.store,
            keys=KeyFile(self.world.settings.keys_file),
            catalogue=self.world.catalogue,
            clock=lambda: self.world.now,
        )
        self._warm()

    def rotate_the_master_key(self) -> None:
        path, today = self.world.settings.keys_file, day_of(self.world.now)
        self.world.keys = rotate(path, MasterKey, today).keys

    def rotate_the_sealing_key(self) -> None:
        path, today = self.world.settings.keys_file, day_of(self.world.now)
        self.world.keys = rotate(path, OpeningKey, today).keys

    def advance(self) -> None:
        days = self.chance.choice((0.25, 1, 1, 2, 8))
        self._note(days)
        self.world.now += days * DAY_SECONDS

    # What must be true whatever happened

    def check(self) -> None:
        folded = self._folded()
        found = folded + self._waiting()
        assert found == self.model.supports
        reported = sum(count for (*_, cell), count in folded.items() if cell == REPORTS)
        assert self.world.store.figures.lag() == self.model.happened["accepted"] - reported
        for device in self.devices:
            assert self.world.store.accounts.spent(device.id) == self.model.spent.get(device.id)
        assert Counter(self.world.store.accounts.every_spent()) == Counter(
            self.model.spent.values()
        )
        counters = self.world.store.figures.counters()
        for name in COUNTED:
            assert counters[name] == self.model.happened[name], name
        assert counters["late"] == counters["gaps"] == 0
        assert self._marks() == self.model.marks()

    def _folded(self) -> Counter[Sent]:
        found: Counter[Sent] = Counter()
        for name, metric in self.model.metrics.items():
            for epoch in {epoch for other, epoch, *_ in self.model.supports if other == name}:
                tally = self.world.store.tallies.of(metric, epoch)
                if metric.mechanism.kind == "bits":
                    assert sum(self.world.store.tallies.popcounts(metric, epoch)) == tally.n
                for cohort in range(metric.mechanism.cohorts):
                    row = np.concatenate(([tally.reports[cohort]], tally.counts[cohort]))
                    found += _supports(Group.of(metric, epoch).series, epoch, cohort, row)
        return found

    def _waiting(self) -> Counter[Sent]:
        found: Counter[Sent] = Counter()
        for shard in self.world.store.shards:
            rows, late = rows_by_group(self.world.store.tallies.unfolded(shard, 10_000))
            assert late == 0
            for group, block in rows.items():
                cohorts, sums = summed(group, block)
                for cohort, row in zip(cohorts, sums, strict=True):
                    found += _supports(group.series, group.epoch, cohort, row)
        return found

    def _marks(self) -> Counter[tuple[str, int]]:
        found: Counter[tuple[str, int]] = Counter()
        with redis.Redis.from_url(self.lab.store.url) as client:
            for key in client.scan_iter(match="*:mark:*"):
                _, _, _, name, epoch, _ = key.decode().split(":")
                found[name, int(epoch)] += client.scard(key)
        return found

    # How it is done

    def _note(self, *details: object) -> None:
        self.acts[-1] += f"{details}"

    def _batch(self) -> tuple[Device, list[Sent], bytes]:
        device = self.chance.choice(self.devices)
        sent: list[Sent] = []
        for _ in range(self.chance.randint(1, 4)):
            name = self.chance.choice(NAMES)
            mechanism = self.model.metrics[name].mechanism
            most = mechanism.cells if mechanism.kind == "cell" else 1 << mechanism.cells
            back = self.chance.choice((-1, 0, 0, 0, 0, 1, 1, 2, 3))
            cohort = self.chance.randrange(mechanism.cohorts)
            sent.append((name, self.world.epoch(name) - back, cohort, self.chance.randrange(most)))
        written = [
            self.world.report(name, response, cohort, epoch=epoch)
            for name, epoch, cohort, response in sent
        ]
        return device, sent, device.batch(*written)

    def _known(self) -> Device | None:
        known = [device for device in self.devices if device.id in self.model.last]
        return self.chance.choice(known) if known else None

    def _send(self, device: Device, body: bytes) -> Any:
        """Send a batch plain, or sealed to any key: an app in the field has an older one."""
        ring = self.world.keys.sealing_keys
        if not ring or self.chance.random() < 0.5:
            return self.world.send(device, body)
        sealed = seal_upload(self.chance.choice(ring).public, body, batch_mac(device.key, body))
        headers = {"Content-Type": SEALED_TYPE}
        return self.world.app.test_client().post(REPORTS_PATH, data=sealed, headers=headers)

    def _check_answer(self, answer: Any, device: Device, verdict: str, told: Told) -> None:
        assert answer.status_code == 200, answer.json
        assert answer.json["verdict"] == verdict and tuple(answer.json["reports"]) == told
        assert answer.json["spent"] == self.model.spent[device.id]

    def _warm(self) -> None:
        """Have live connections and loaded scripts, so that a fault meets the upload itself."""
        self.world.store.check()
        with redis.Redis.from_url(self.lab.store.url) as client:
            for name in ("intake", "fold"):
                client.script_load((LUA / f"{name}.lua").read_text())


def _supports(series: str, epoch: int, cohort: int, row: Any) -> Counter[Sent]:
    """Counts of one cohort, as the model has them."""
    name = series.partition(":")[2]
    cells = enumerate(row, start=REPORTS)
    return Counter({(name, epoch, cohort, cell): int(count) for cell, count in cells if count})


@pytest.fixture
def lab(start_store: Callable[..., Any], proxy_to: Callable[..., FaultProxy]) -> Lab:
    store = start_store()
    return Lab(store, proxy_to(to_unix(str(store.server.socket))))


def test_random_histories_agree_with_the_model(lab: Lab, tmp_path: Path, seed: int) -> None:
    for life in range(5):
        History(lab, tmp_path / str(life), seed + life).live(60)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_many_and_long_random_histories_agree_with_the_model(
    lab: Lab, tmp_path: Path, seed: int
) -> None:
    for life in range(100, 108):
        History(lab, tmp_path / str(life), seed + life).live(200)
