"""A store restored from an old backup: nobody can spend more than the cap, nothing counts twice."""

import json
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import redis

from aggregator import intake
from aggregator.batch import Candidate
from aggregator.closing import close_epoch
from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.fold import Folder
from aggregator.machine.embedded import EmbeddedServer
from aggregator.recovery.restore import possible_since, recover
from aggregator.server import prepare
from aggregator.store import Store
from aggregator.store.layout import Shard
from client_sdk.epochs import DAY_SECONDS, day_of, epoch_of

NOON = 1_796_040_000.0  # 30 November 2026, 12:00 UTC
BACKUP_DAY = date(2026, 11, 30)
# The life of a device: 20 days of theme, and 4 for remembered answers. All of it is the cap.
REGISTRY = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 24
contact = "telemetry@example.org"

[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "day"
owners = ["ui@example.org"]
starts = 2026-11-20
expires = 2026-12-10

[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 2.0, distinct_values = 2 }
rappor = { bits = 16, hashes = 2, cohorts = 64 }
epoch = "week"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2027-12-31
"""
CAP = 24_000_000


def spend(world: Any, device: Any, *names: str, days: range = range(1)) -> int:
    """Report metrics for today and days before; return how many reports were accepted."""
    accepted = 0
    for name in names:
        epochs = days if name == "theme" else range(1)
        for past in epochs:
            report = world.report(name, epoch=world.epoch(name) - past)
            accepted += world.charged(device, report) == ["accepted"]
    return accepted


def all_of(world: Any) -> range:
    """Every day of theme so far, the last first."""
    first = (world.metric("theme").starts - date(1970, 1, 1)).days
    return range(world.epoch("theme") - first + 1)


class Snapshots:
    """Puts a store's contents back as a restored backup does, without stopping it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def take(self, match: str = "*") -> dict[bytes, bytes]:
        with redis.Redis.from_url(self._url) as client:
            return {key: client.dump(key) for key in client.scan_iter(match=match)}

    def restore(self, backup: dict[bytes, bytes], match: str = "*") -> None:
        with redis.Redis.from_url(self._url) as client:
            for key in client.scan_iter(match=match):
                client.unlink(key)
            for key, value in backup.items():
                client.restore(key, 0, value)


@pytest.fixture
def snapshots(redis_url: str) -> Snapshots:
    return Snapshots(redis_url)


@pytest.fixture
def small(redis_url: str, new_world: Callable[..., Any]) -> Iterator[Any]:
    """A world with 4 shards of 4 buckets, in use for two generations."""
    world = new_world(redis_url, registry=REGISTRY, shards=4, planned_devices=2048)
    for _ in range(2):
        world.store.raise_generation(world.now)
    yield world
    world.store.close()


def go_on(world: Any, minutes: int = 3) -> None:
    """What the fold worker does while time passes."""
    for _ in range(minutes):
        world.now += 60
        world.store.raise_generation(world.now)


def versions(world: Any) -> Any:
    return world.catalogue.load()


class Machine:
    """A server's machine: a real store that keeps an append-only file, and a key file."""

    def __init__(self, directory: Path, new_world: Callable[..., Any]) -> None:
        self.store = directory / "store"
        self._new_world = new_world

    def start(self, **options: Any) -> tuple[EmbeddedServer, Any]:
        server = EmbeddedServer.start(self.store, appendfsync="no")
        try:
            return server, self._new_world(server.url, registry=REGISTRY, **options)
        except BaseException:
            server.stop()
            raise


def test_a_device_cannot_spend_twice_what_a_backup_has_forgotten(
    tmp_path: Path, new_world: Callable[..., Any]
) -> None:
    machine, backup = Machine(tmp_path, new_world), tmp_path / "backup"
    server, world = machine.start(shards=8)
    prepare(world.settings)
    world.store.raise_generation(world.now)
    greedy, idle = world.device(), world.device()
    assert spend(world, greedy, "theme", days=range(3)) == 3
    assert spend(world, idle, "theme", "home_page") == 2
    with redis.Redis.from_url(server.url) as client:
        client.bgrewriteaof()
        while client.info("persistence")["aof_rewrite_in_progress"]:
            pass
    shutil.copytree(machine.store / "appendonlydir", backup)
    # After the backup: it spends all of its life, and somebody new comes.
    world.now = NOON + 9 * DAY_SECONDS
    go_on(world)
    assert spend(world, greedy, "theme", "home_page", days=all_of(world)) == 18
    assert world.store.accounts.spent(greedy.id) == CAP
    newcomer = world.device()
    assert spend(world, newcomer, "theme") == 1
    world.store.close()
    server.stop()

    shutil.rmtree(machine.store / "appendonlydir")
    shutil.copytree(backup, machine.store / "appendonlydir")
    with pytest.raises(StoreRefused, match=r"ledger --restored-from 2026-11-30`"):
        machine.start(shards=8)
    server, restored = machine.start(shards=8, check=False)
    restored.now = world.now
    with pytest.raises(StoreRefused, match=r"ledger --restored-from 2026-11-30`"):
        prepare(restored.settings)
    ready = restored.app.test_client().get("/readyz")
    assert ready.status_code == 503 and "--restored-from" in ready.json["detail"]
    body = greedy.batch(restored.report("theme"))
    answer = restored.send(greedy, body)
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0

    told = []
    done = recover(
        restored.store,
        versions(restored),
        BACKUP_DAY,
        restored.now,
        lambda act, **details: told.append((act, details["backup_of"])),
    )
    assert told == [("store_recovered", "2026-11-30")]
    assert (done.charged.devices, done.charged.charged) == (2, 2)
    prepare(restored.settings)
    assert restored.app.test_client().get("/readyz").status_code == 200
    # 20 days, 3 of which the backup knows, and the remembered answers: all of it may be gone.
    assert restored.store.accounts.spent(greedy.id) == CAP
    answer = restored.send(greedy, body).json
    assert (answer["reports"], answer["spent"]) == (["budget_exhausted"], CAP)
    assert spend(restored, greedy, "theme", "home_page", days=all_of(restored)) == 0
    # One that is known and had paid for its remembered answers is not charged for them again.
    assert restored.store.accounts.spent(idle.id) == 5_000_000 + 19_000_000
    assert spend(restored, idle, "home_page") == 1
    assert restored.store.accounts.spent(idle.id) == CAP
    # One that the backup does not know starts at the floor; one that is new starts at nothing.
    assert done.plan.floor == CAP
    report = newcomer.batch(restored.report("theme", epoch=restored.epoch("theme") - 1))
    answer = restored.send(newcomer, report).json
    assert (answer["reports"], answer["spent"]) == (["budget_exhausted"], CAP)
    stranger = restored.device()
    assert spend(restored, stranger, "theme", "home_page") == 2
    assert restored.store.accounts.spent(stranger.id) == 5_000_000
    assert restored.store.figures.counters()["gaps"] == 2
    restored.store.close()
    server.stop()


def test_without_the_witness_and_a_recovery_a_backup_gives_budget_back(
    small: Any, snapshots: Snapshots, new_world: Callable[..., Any]
) -> None:
    # The control: this is what is prevented.
    device = small.device()
    backup = snapshots.take()
    spent = spend(small, device, "theme", "home_page", days=all_of(small))
    snapshots.restore(backup)
    Path(small.settings.keys_file).with_name("generation.json").unlink()
    careless = new_world(
        small.redis_url, registry=REGISTRY, check=False, shards=4, planned_devices=2048
    )
    assert spend(careless, device, "theme", "home_page", days=all_of(small)) == spent == 12
    careless.store.close()


def test_a_server_that_runs_on_a_store_put_back_under_it_takes_nothing(
    small: Any, snapshots: Snapshots
) -> None:
    device = small.device()
    backup = snapshots.take()
    go_on(small)
    assert spend(small, device, "theme") == 1
    snapshots.restore(backup)
    body = device.batch(small.report("theme"))
    answer = small.send(device, body)
    assert answer.status_code == 503 and "put back by a backup" in answer.json["detail"]
    assert small.contents() == {key: backup[key] for key in small.contents()}
    recover(small.store, versions(small), BACKUP_DAY, small.now)
    # The device kept its bytes, and loses nothing but budget that it may have spent.
    answer = small.send(device, body).json
    assert answer["verdict"] == "accepted" and answer["reports"] == ["accepted"]
    small.folder.fold_once()
    assert small.store.tallies.of(small.metric("theme"), small.epoch("theme")).n == 1


def test_a_process_with_traffic_notices_by_itself(small: Any, snapshots: Snapshots) -> None:
    # On a machine whose witness no fold worker writes, uploads themselves carry the generation.
    device = small.device()
    backup = snapshots.take()
    go_on(small)
    witness = Path(small.settings.keys_file).with_name("generation.json")
    witness.write_text('{"version": 1, "generation": 0}')
    alone = Store.connect(small.settings, small.keys.pseudonym_key)
    small.store, original = alone, small.store
    small.__post_init__()
    assert spend(small, device, "theme") == 1
    assert json.loads(witness.read_text())["generation"] == 4  # one less than it saw
    snapshots.restore(backup)
    assert small.send(device, device.batch(small.report("theme"))).status_code == 503
    alone.close()
    original.close()


def test_devices_are_charged_what_the_backup_does_not_show(
    small: Any, snapshots: Snapshots
) -> None:
    # Days up to the 27th are closed: the 28th to the 30th may have been reported since.
    paid, unpaid, reported = (small.device() for _ in range(3))
    spend(small, paid, "home_page")
    spend(small, unpaid, "theme", days=range(5, 6))
    spend(small, reported, "theme", days=range(3))
    close_epoch(small.store, small.metric("theme"), small.epoch("theme") - 3)
    backup = snapshots.take()
    go_on(small)
    late = small.device()
    assert spend(small, late, "theme") == 1
    snapshots.restore(backup)
    done = recover(small.store, versions(small), BACKUP_DAY, small.now)
    spent = [small.store.accounts.spent(device.id) / 1e6 for device in (paid, unpaid, reported)]
    assert spent == [4 + 3, 1 + 3 + 4, 3 + 4]
    assert done.plan.floor == 7_000_000
    assert (done.charged.devices, done.charged.charged) == (3, 3)
    assert done.charged.surcharges == 14_000_000
    # The server says the figure under the device's MAC, so that its own ledger rises to it.
    report = small.report("theme", epoch=small.epoch("theme") - 1)
    assert small.send(late, late.batch(report)).json["spent"] == 8_000_000


def test_the_recovery_is_done_once(small: Any, snapshots: Snapshots) -> None:
    device = small.device()
    spend(small, device, "theme")
    backup = snapshots.take()
    go_on(small)
    snapshots.restore(backup)
    recover(small.store, versions(small), BACKUP_DAY, small.now)
    after = snapshots.take("{s*")
    with pytest.raises(StoreRefused, match="has been done already"):
        recover(small.store, versions(small), BACKUP_DAY, small.now)
    assert snapshots.take("{s*") == after
    # The same backup put back once more is another restore, and one more recovery.
    snapshots.restore(backup)
    with pytest.raises(StoreRefused, match="was restored from a backup"):
        small.store.check()
    recover(small.store, versions(small), BACKUP_DAY, small.now)
    assert {key: value for key, value in snapshots.take("{s*").items() if b"life" not in key} == {
        key: value for key, value in after.items() if b"life" not in key
    }


def test_floors_of_several_restores_add_up_to_the_cap(small: Any, snapshots: Snapshots) -> None:
    close_epoch(small.store, small.metric("theme"), small.epoch("theme") - 1)
    floors = []
    for _ in range(6):
        backup = snapshots.take()
        go_on(small)
        snapshots.restore(backup)
        day = day_of(small.now)
        floors.append(recover(small.store, versions(small), day, small.now).plan.floor / 1e6)
    assert floors == [5, 10, 15, 20, 24, 24]


def test_a_recovery_that_died_anywhere_is_finished_by_the_next(
    small: Any, snapshots: Snapshots
) -> None:
    chance = random.Random(1)
    for _ in range(60):
        spend(small, small.device(), *chance.choice([("theme",), ("home_page",), ("theme",) * 2]))
    backup = snapshots.take()
    go_on(small)
    witness = Path(small.settings.keys_file).with_name("generation.json")
    remembered = witness.read_text()

    def ledger() -> tuple[list[int], Any]:
        with pytest.raises(StoreRefused, match="restored from a backup"):
            small.store.check()
        done = recover(small.store, versions(small), BACKUP_DAY, small.now)
        small.store.check()
        return sorted(small.store.accounts.every_spent()), done

    def fresh_store() -> Any:
        small.store.close()
        witness.write_text(remembered)
        snapshots.restore(backup)
        return Store.connect(small.settings, small.keys.pseudonym_key)

    small.store = fresh_store()
    undisturbed, done = ledger()
    assert done.charged.devices == 60
    crashes = 0
    for step in range(1000):
        small.store = fresh_store()
        if not died_at(small, step):
            break
        crashes += 1
        with pytest.raises(StoreRefused, match=r"has begun and not ended|restored from a backup"):
            small.store.check()
        other_day = date(2026, 12, 1)
        if small.store.recovery.begun() is not None:
            with pytest.raises(StoreRefused, match="run it again with that day"):
                recover(small.store, versions(small), other_day, small.now)
        again = recover(small.store, versions(small), BACKUP_DAY, small.now)
        assert sorted(small.store.accounts.every_spent()) == undisturbed
        assert again.charged == done.charged and again.plan == done.plan
        small.store.check()
    assert crashes > 16  # at least once in every bucket


def test_two_operators_at_once_charge_once(small: Any, snapshots: Snapshots) -> None:
    for _ in range(40):
        spend(small, small.device(), "theme")
    backup = snapshots.take()
    go_on(small)
    snapshots.restore(backup)
    other = Store.connect(small.settings, small.keys.pseudonym_key)
    # One is overtaken between reading how far the recovery has come, and charging.
    charge = other.recovery._surcharge
    overtaken = []

    def slow(*arguments: Any) -> Any:
        if not overtaken:
            overtaken.append(recover(small.store, versions(small), BACKUP_DAY, small.now))
        return charge(*arguments)

    other.recovery._surcharge = slow
    done = recover(other, versions(small), BACKUP_DAY, small.now)
    assert done == overtaken[0] and done.charged.charged == 40
    assert set(small.store.accounts.every_spent()) == {1_000_000 + 14_000_000}
    small.store.check()
    other.close()


def died_at(world: Any, step: int) -> bool:
    """Recover with a store that goes away after so many writes; say whether it did."""

    class GoneError(Exception):
        pass

    left = iter(range(step))

    def dying(write: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            if next(left, None) is None:
                raise GoneError
            return write(*arguments)

        return run

    recovery = world.store.recovery
    for name in ("begin", "_surcharge", "end"):
        setattr(recovery, name, dying(getattr(recovery, name)))
    for name in ("lift", "saw"):
        setattr(recovery.generation, name, dying(getattr(recovery.generation, name)))
    try:
        recover(world.store, versions(world), BACKUP_DAY, world.now)
    except GoneError:
        world.store.close()
        world.store = Store.connect(world.settings, world.keys.pseudonym_key)
        return True
    return False


def test_only_the_shards_that_were_put_back_are_charged(small: Any, snapshots: Snapshots) -> None:
    # One node of a cluster comes back with an old disk.
    devices = [small.device() for _ in range(40)]
    for device in devices:
        spend(small, device, "theme")
    tag = Shard(2).tag
    backup = snapshots.take(f"{tag}:*")
    go_on(small)
    snapshots.restore(backup, f"{tag}:*")
    with pytest.raises(StoreRefused, match="was restored from a backup"):
        small.store.check()
    done = recover(small.store, versions(small), BACKUP_DAY, small.now)
    inside = [d for d in devices if small.store._layout.place(d.id).shard == 2]
    assert 0 < len(inside) < 40 and done.charged.devices == len(inside)
    for device in devices:
        expected = 15_000_000 if device in inside else 1_000_000
        assert small.store.accounts.spent(device.id) == expected


def test_no_order_of_reports_and_restores_lets_a_device_exceed_its_cap(
    small: Any, snapshots: Snapshots
) -> None:
    # Devices that report whatever they can, also what a backup forgot: everything that was ever
    # accepted counts, in the lost history too. Memoized reports cost once.
    chance = random.Random(7)
    devices = [small.device() for _ in range(12)]
    drawn: Counter[str] = Counter()
    paid: set[str] = set()

    def greed(most: int) -> None:
        for device in devices:
            for _ in range(chance.randrange(most)):
                if chance.random() < 0.2:
                    if spend(small, device, "home_page") and device.id not in paid:
                        paid.add(device.id)
                        drawn[device.id] += 4
                else:
                    past = chance.choice(all_of(small))
                    drawn[device.id] += spend(small, device, "theme", days=range(past, past + 1))

    greed(6)
    for _ in range(3):
        backup, day = snapshots.take(), day_of(small.now)
        go_on(small)
        greed(8)
        small.now += 3 * DAY_SECONDS
        snapshots.restore(backup)
        recover(small.store, versions(small), day, small.now)
        go_on(small, 1)
        greed(20)
    greed(60)
    assert max(drawn.values()) <= 24 and sum(drawn.values()) > 12 * 8
    assert max(small.store.accounts.every_spent()) <= CAP


@pytest.mark.parametrize("closed_days", [0, 3, 30])
def test_what_may_have_been_charged_is_what_intake_would_have_taken(closed_days: int) -> None:
    from client_sdk.registry import loads
    from tests.aggregator.test_intake import REGISTRY as OTHER

    for registry in (loads(REGISTRY), OTHER):
        known = intake.Versions.of([registry])
        for metric in registry.metrics.values():
            for now in (NOON - 20 * DAY_SECONDS, NOON, NOON + 11.9999 * DAY_SECONDS):
                today = epoch_of(metric.epoch, day_of(now))
                series = f"{metric.epoch}:{metric.name}"
                closed = {series: today - closed_days} if closed_days else {}
                since = possible_since([metric], closed, now)
                taken = {
                    epoch
                    for epoch in ([0] if metric.epoch == "once" else range(today - 80, today + 40))
                    if epoch > closed.get(series, -1) and accepted(metric, known, epoch, now)
                }
                if metric.memoize is None:
                    assert {epoch for _, epoch in since.fresh} == taken, (metric.name, now)
                    assert set(since.fresh.values()) <= {metric.charge}
                else:
                    assert bool(since.memos) == bool(taken) and not since.fresh


def accepted(metric: Any, known: Any, epoch: int, now: float) -> bool:
    response = 0 if metric.mechanism.kind == "cell" else "0" * ((metric.mechanism.cells + 3) // 4)
    sent = intake.SentReport(metric.name, metric.fingerprint, epoch, 0, response)
    upload = intake.Upload("0" * 32, 1, "0" * 32, b"", (sent,))
    return isinstance(intake.judge(upload, known, now).verdicts[0], Candidate)


def test_the_worst_version_of_a_metric_is_charged_and_each_series_once() -> None:
    from client_sdk.registry import loads

    dearer = REGISTRY.replace('epsilon = 1.0\nepoch = "day"', 'epsilon = 1.2\nepoch = "day"')
    texts = [REGISTRY, dearer.replace("lifetime_epsilon = 24", "lifetime_epsilon = 40")]
    texts.append(REGISTRY.replace('epoch = "day"', 'epoch = "week"'))
    metrics = intake.Versions.of(map(loads, texts)).metrics.values()
    since = possible_since(metrics, {"day:theme": 20_784, "week:theme": 10_000}, NOON)
    # 2026-11-27 is day 20,784: three days are open, dearer ones 1.2 (rounded up); no week is.
    assert set(since.fresh) == {("day:theme", day) for day in (20_785, 20_786, 20_787)}
    assert all(1_199_999 < charge <= 1_200_001 for charge in since.fresh.values())
    assert set(since.memos.values()) == {4_000_000}


# Refusals


@pytest.mark.parametrize(
    ("day", "told"),
    [
        (date(2026, 11, 29), "run this with 2026-11-30"),
        (date(2026, 12, 2), "run this with 2026-11-30"),
    ],
)
def test_a_mixed_up_backup_is_refused(
    small: Any, snapshots: Snapshots, day: date, told: str
) -> None:
    backup = snapshots.take()
    go_on(small)
    snapshots.restore(backup)
    with pytest.raises(StoreRefused, match=told):
        recover(small.store, versions(small), day, small.now)
    recover(small.store, versions(small), date(2026, 12, 1), small.now)  # taken after midnight


def test_a_healthy_store_is_charged_nothing(small: Any) -> None:
    device = small.device()
    spend(small, device, "theme")
    with pytest.raises(StoreRefused, match=r"not behind generation\.json"):
        recover(small.store, versions(small), BACKUP_DAY, small.now)
    assert small.store.accounts.spent(device.id) == 1_000_000


def test_no_server_starts_on_a_used_store_without_its_witness(small: Any) -> None:
    # A new machine: the key file came from one backup, the store from another.
    device = small.device()
    spend(small, device, "theme")
    witness = Path(small.settings.keys_file).with_name("generation.json")
    witness.unlink()
    elsewhere = Store.connect(small.settings, small.keys.pseudonym_key)
    elsewhere.check()  # looking at it is allowed
    for start in (lambda: elsewhere.raise_generation(small.now), lambda: prepare(small.settings)):
        with pytest.raises(StoreRefused, match="copy the file from another machine"):
            start()
    assert not witness.exists()
    recover(elsewhere, versions(small), BACKUP_DAY, small.now)
    prepare(small.settings)
    assert elsewhere.accounts.spent(device.id) == 15_000_000
    assert json.loads(witness.read_text())["generation"] > 1
    elsewhere.close()


def test_an_emptied_store_is_refused_too(small: Any, snapshots: Snapshots) -> None:
    device = small.device()
    spend(small, device, "theme")
    snapshots.restore({})
    emptied = Store.connect(small.settings, small.keys.pseudonym_key)
    with pytest.raises(StoreRefused, match="was restored from a backup"):
        emptied.check()
    emptied.check_shape()
    small.catalogue.register(REGISTRY)
    recover(emptied, versions(small), BACKUP_DAY, small.now)
    # Its device is not new, and has nothing left that it can show not to have spent.
    assert spend(small, device, "theme", days=range(1, 2)) == 1
    assert emptied.accounts.spent(device.id) == 11_000_000 + 4_000_000 + 1_000_000
    emptied.close()


def test_a_store_of_an_earlier_version_is_adopted(
    redis_url: str, new_world: Callable[..., Any]
) -> None:
    world = new_world(redis_url, registry=REGISTRY)
    spend(world, world.device(), "theme")
    world.store.check()
    world.store.raise_generation(world.now)
    world.store.check()
    world.store.close()


# The generation


def test_a_power_cut_that_costs_the_last_second_is_no_restored_backup(
    small: Any, snapshots: Snapshots
) -> None:
    # appendfsync everysec: the last raise may be lost, with the charges of that second.
    before = snapshots.take()
    go_on(small, 1)
    snapshots.restore(before)
    Store.connect(small.settings, small.keys.pseudonym_key).check()


def test_a_failover_just_after_many_starts_is_no_restored_backup(
    small: Any, snapshots: Snapshots
) -> None:
    # A rolling restart: all servers start in the seconds that the failover then loses.
    go_on(small, 1)
    before = snapshots.take("{s01}:*")
    for _ in range(5):
        small.now += 1.5
        small.store.raise_generation(small.now + 10, spacing_seconds=10)
    snapshots.restore(before, "{s01}:*")
    Store.connect(small.settings, small.keys.pseudonym_key).check()
    go_on(small, 1)
    assert len(set(small.store._generation.of_shards())) == 1


def test_a_backup_of_three_minutes_ago_is_noticed(small: Any, snapshots: Snapshots) -> None:
    before = snapshots.take()
    go_on(small, 2)
    snapshots.restore(before)
    with pytest.raises(StoreRefused, match="was restored from a backup"):
        small.store.check()


def test_raises_that_a_dying_store_cut_short_are_no_restored_backup(small: Any) -> None:
    # Found by killing a store again and again: shards drifted apart, and an upload to the first
    # told the witness of a generation that the last had never reached.
    generation = small.store._generation
    lift = generation.lift

    def cut_short(shard: int, *arguments: Any) -> int:
        if shard == 2:
            raise StoreUnavailable("the store cannot be reached")
        found: int = lift(shard, *arguments)
        return found

    for _ in range(3):
        generation.lift = cut_short
        with pytest.raises(StoreUnavailable):
            small.store.raise_generation(small.now)
        generation.lift = lift
        generation.saw(max(generation.of_shards()))  # as an upload does
        Store.connect(small.settings, small.keys.pseudonym_key).check()
    small.store.raise_generation(small.now)
    assert len(set(generation.of_shards())) == 1


def test_the_fold_worker_raises_the_generation_once_a_minute(small: Any) -> None:
    now = [NOON]
    folder = Folder(small.store, clock=lambda: now[0])
    found = []
    for seconds in (0, 59, 1, 30, 30, 7200, -7000, -190):
        now[0] += seconds
        folder._raise_generation()
        found.append(small.store._generation.of_shards()[0])
    # The first comes just after the store's last one.
    assert found == [2, 2, 3, 3, 4, 5, 6, 7]
    assert Path(small.settings.keys_file).with_name("generation.json").exists()


def test_the_fold_worker_of_a_restored_store_ends_with_advice(
    small: Any, snapshots: Snapshots
) -> None:
    backup = snapshots.take()
    go_on(small)
    snapshots.restore(backup)
    with pytest.raises(StoreRefused, match="--restored-from 2026-11-30"):
        small.folder.run(threading.Event(), 0.01)


def test_a_start_of_a_server_raises_the_generation_unless_one_has_just_done_so(small: Any) -> None:
    before = small.store._generation.of_shards()
    for _ in range(2):
        prepare(small.settings)
        assert small.store._generation.of_shards() == [at + 1 for at in before]
    raised = small.store._generation.last_raised(0)
    assert abs(raised - datetime.now(UTC).timestamp()) < 60


def test_a_generation_is_never_lowered(small: Any) -> None:
    generation = small.store._generation
    assert generation.of_shards() == [2, 2, 2, 2]
    assert [generation.lift(0, target, NOON) for target in (1, 5, 4, 2)] == [2, 5, 5, 5]
    assert generation.lift(0, 9, NOON, required=6) == 5
    assert generation.of_shards() == [5, 2, 2, 2]


def test_racing_raisers_never_lower_a_generation(small: Any) -> None:
    gate, seen = threading.Barrier(4), []

    def raise_often() -> None:
        store = Store.connect(small.settings, small.keys.pseudonym_key)
        gate.wait()
        for _ in range(20):
            store.raise_generation(NOON)
            seen.append(min(store._generation.of_shards()))
        store.close()

    threads = [threading.Thread(target=raise_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 80 and len(set(small.store._generation.of_shards())) == 1
    witness = small.store._generation.witness.generation()
    assert 20 < max(seen) and max(seen) - 5 <= witness <= max(seen)
