"""The store's user: docker/redis/users.acl permits what is called, and nothing else."""

import ast
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis

from aggregator.closing import close_again
from aggregator.connection import StoreRefused
from aggregator.fold import Folder
from aggregator.recovery.restore import recover
from aggregator.server import prepare
from aggregator.store import Store, migrations
from client_sdk.epochs import label
from estimator.due import close_due
from estimator.publish import publish_epoch
from estimator.publish_figures import note_newest
from estimator.source import StoreSource
from tests.aggregator.respondents import Hall

ROOT = Path(__file__).parents[2]
RULE = (ROOT / "docker" / "redis" / "users.acl").read_text()
PASSWORD = "a-password-of-this-test"
CLIENT_CALLS = {"asking", "client|setinfo", "cluster|slots", "command", "select"}
CLIENT_CALLS |= {"script|load", "del", "pexpire"}
"""What redis-py sends by itself, the last three for its lock."""


@pytest.fixture
def url(valkey: Any, redis_url: str) -> Iterator[str]:
    """The store under the shipped user, whose every refusal is found in the end."""
    _, name, *words = RULE.split()
    with redis.Redis.from_url(valkey.url) as admin:
        admin.execute_command("ACL", "SETUSER", name, *words, f">{PASSWORD}")
        admin.acl_log_reset()
        yield f"unix://{name}:{PASSWORD}@{valkey.socket}"
        admin.acl_deluser(name)


def refusals(valkey: Any) -> list[Any]:
    with redis.Redis.from_url(valkey.url) as admin:
        return [(entry["reason"], entry["object"]) for entry in admin.acl_log()]


def test_the_whole_server_works_under_the_shipped_user(
    url: str,
    valkey: Any,
    new_world: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = new_world(url, shards=4, planned_devices=2048)
    step = migrations.Migration(2, lambda connection, layout, shard: None)
    monkeypatch.setattr(migrations, "MIGRATIONS", (step,))
    prepare(world.settings)
    assert world.enrol().status_code == 201
    devices = [world.device() for _ in range(20)]
    for device in devices:
        reports = world.report("theme"), world.report("home_page"), world.report("crashed", 1)
        assert world.charged(device, *reports) == ["accepted"] * 3
        assert world.charged(device, world.report("theme")) == ["already_reported"]
    body = devices[0].batch(world.report("plan"))
    verdicts = [world.send(devices[0], body).json["verdict"] for _ in range(2)]
    assert verdicts == ["accepted", "duplicate"]
    assert world.app.test_client().get("/readyz").status_code == 200
    assert world.folder.fold_once() == 61
    source = StoreSource(world.store, world.catalogue)
    week = label("week", world.epoch("theme"))
    (outcome,) = publish_epoch(source, tmp_path, world.now, "theme", week, early=True)
    assert outcome.status == "WITHHELD"
    note_newest(world.store.figures, [outcome])
    assert world.store.figures.newest_releases.all()["theme"].n is None
    close_due(source, world.now)
    assert close_again(world.store) == []
    assert world.store.accounts.spent(devices[1].id) == 9_500_000
    assert len(list(world.store.accounts.all(["0" * 16]))) == 20
    assert world.store.accounts.of(devices[0].id, ["0" * 16]) is not None
    assert world.store.figures.counters()["batches"] == 41
    hall = Hall(world)
    answering = hall.device(hall.admission(hall.tokens[0]))
    assert world.charged(answering, hall.report()) == ["accepted"]
    assert world.store.invitations.figures("habits").used == 1
    world.store.invitations.forget("habits")
    assert world.store.rewrite_log(60) is None
    figures = world.store.figures
    assert sum(shard.generation for shard in figures.shards()) > 0
    assert figures.folded().total() == 61 and figures.memory().used_bytes > 0
    assert figures.enrolled() == 2 and figures.published() is not None

    world.store._generation.witness.remember(99)  # as if the store were a backup
    with pytest.raises(StoreRefused, match="restored-from"):
        world.store.check()
    today = datetime.now(UTC).date()
    done = recover(world.store, world.catalogue.load(), today, world.now)
    assert done.charged.devices == 21
    prepare(world.settings)
    Folder(world.store)._raise_generation()
    world.store.close()
    assert refusals(valkey) == []


@pytest.mark.parametrize(
    "command",
    [
        "FLUSHALL",
        "FLUSHDB",
        "KEYS *",
        "SCAN 0",
        "CONFIG SET maxmemory-policy allkeys-lru",
        "CONFIG GET requirepass",
        "DEBUG SLEEP 0",
        "MONITOR",
        "SHUTDOWN",
        "ACL LIST",
        "CLIENT LIST",
        "DEL {s00}:stream",
        "UNLINK {s00}:stream",
        "UNLINK {s00}:ledger:0",
        "UNLINK {s00}:watermarks",
        "RESTORE {s00}:ledger:0 0 x",
        "RENAME {s00}:stream {s00}:mark:x",
        "GET other",
        "SET other 1",
        "PUBLISH channel message",
    ],
)
def test_what_the_server_never_does_is_refused(url: str, command: str) -> None:
    # DEBUG is refused by a setting before any rule is asked.
    refused = pytest.raises(redis.ResponseError, match=r"permission|DEBUG command not allowed")
    with redis.Redis.from_url(url) as client, refused:
        client.execute_command(*command.split())


def test_no_script_may_do_more_than_its_user(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        for call in ("'FLUSHALL'", "'DEL', KEYS[1]", "'CONFIG', 'GET', '*'"):
            with pytest.raises(redis.ResponseError, match=r"(?i)permission|not allowed|ACL"):
                client.eval(f"#!lua\nreturn redis.call({call})", 1, "{s00}:stream")


def test_without_a_password_nobody_is_let_in(valkey: Any, redis_url: str) -> None:
    _, name, *words = RULE.split()
    with redis.Redis.from_url(valkey.url) as admin:
        admin.execute_command("ACL", "SETUSER", name, *words)
        try:
            shown = redis.Redis.from_url(f"unix://{name}:guess@{valkey.socket}")
            with pytest.raises(redis.AuthenticationError):
                shown.ping()
            shown.close()
        finally:
            admin.acl_deluser(name)


def test_a_missing_permission_is_told_with_what_to_read(
    url: str, valkey: Any, new_world: Callable[..., Any]
) -> None:
    world = new_world(url)
    with redis.Redis.from_url(valkey.url) as admin:
        admin.execute_command("ACL", "SETUSER", "sottovoce", "-info")
    with pytest.raises(StoreRefused, match=r"permission.*'info'.*A user for the store"):
        Store.connect(world.settings, world.keys.pseudonym_key).check()
    world.store.close()


@pytest.mark.parametrize("command", ["hdel", "xadd", "hincrby", "sadd"])
def test_a_user_under_which_a_script_would_stop_half_way_is_refused(
    url: str, valkey: Any, new_world: Callable[..., Any], command: str
) -> None:
    world = new_world(url)
    with redis.Redis.from_url(valkey.url) as admin:
        admin.execute_command("ACL", "SETUSER", "sottovoce", f"-{command}")
    with pytest.raises(StoreRefused, match=rf"may not run .*{command.upper()}"):
        Store.connect(world.settings, world.keys.pseudonym_key).check()
    world.store.close()


def called() -> set[str]:
    """Every command that the aggregator's source sends to a store, as a rule writes it."""
    found = set()
    for path in (ROOT / "aggregator").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and is_sender(node.func):
                words = [w.value for w in node.args if isinstance(w, ast.Constant)]
                found |= {as_rule(words)} if words else set()
    for path in (ROOT / "aggregator" / "lua").glob("*.lua"):
        calls = re.findall(r"redis\.p?call\('(\w+)'(?:, '(USAGE)')?", path.read_text())
        found |= {"|".join(words).strip("|").lower() for words in calls}
    return found


def is_sender(function: ast.expr) -> bool:
    name = getattr(function, "attr", getattr(function, "id", ""))
    return name in {
        "call",
        "_call",
        "call_each",
        "execute",
        "execute_on_each",
        "queue",
        "send",
        "refusal",
    }


def as_rule(words: list[Any]) -> str:
    command, *rest = (str(word).lower() for word in words)
    subcommand = rest[0] if rest and command in ("object", "config", "client", "cluster") else ""
    return f"{command}|{subcommand}".rstrip("|")


def test_the_rule_permits_exactly_what_the_source_calls() -> None:
    permitted = set(re.findall(r"\+([\w|]+)", RULE))
    assert {"evalsha", "xadd", "unlink", "wait", "object|encoding"} <= called()
    assert permitted >= CLIENT_CALLS
    assert called() - permitted == set(), "add these to docker/redis/users.acl"
    assert permitted - called() - CLIENT_CALLS == set(), "nothing calls these: take them out"
