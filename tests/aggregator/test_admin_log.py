"""The administrators' log: whoever changes it is found out; whoever crashes is not accused."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import redis

from aggregator.administration.admin_log import FILE_NAME, AdminLog, Entry
from aggregator.administration.guarding_settings import note
from aggregator.catalogue import Catalogue
from aggregator.connection import StoreRefused
from aggregator.keyring.keys import Keys
from aggregator.keyring.kinds import OpeningKey, ReadKey
from aggregator.keyring.rotation import activate, new, retire, rotate
from aggregator.store.layout import LOG_HEADS, REGISTRIES

KEY = b"k" * 32
DAY = date(2026, 11, 30)


def log_at(path: Path, key: bytes = KEY, host: str = "here") -> AdminLog:
    return AdminLog(path, key, "ana", host, clock=lambda: 1_796_040_000.0)


@pytest.fixture
def log(tmp_path: Path) -> AdminLog:
    made = log_at(tmp_path / FILE_NAME)
    for number in range(4):
        made.record("key_made", kind="sealing", id=number)
    return made


def lines(log: AdminLog) -> list[bytes]:
    return log.path.read_bytes().splitlines(keepends=True)


def test_what_was_recorded_is_read_back_in_order(log: AdminLog) -> None:
    found = log.findings()
    assert not found.problems and not found.notes
    assert [entry.sequence for entry in found.entries] == [1, 2, 3, 4, 5]
    assert [entry.act for entry in found.entries] == ["log_begun", *["key_made"] * 4]
    last = found.entries[-1]
    assert (last.who, last.host, last.time) == ("ana", "here", "2026-11-30T12:00:00Z")
    assert last.details == {"kind": "sealing", "id": 3}
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


Change = Callable[[list[bytes]], list[bytes]]


def edited(line: bytes, **changes: object) -> bytes:
    document = json.loads(line) | changes
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(lambda x: x[:2] + x[3:], "does not follow", id="a middle line is removed"),
        pytest.param(lambda x: x[1:], "does not follow", id="the first line is removed"),
        pytest.param(
            lambda x: [x[0], x[2], x[1], *x[3:]], "does not follow", id="two lines change places"
        ),
        pytest.param(lambda x: [*x[:3], x[2], *x[3:]], "does not follow", id="a line is repeated"),
        pytest.param(
            lambda x: [*x[:2], edited(x[2], details={}), *x[3:]], "was changed", id="edited details"
        ),
        pytest.param(
            lambda x: [*x[:2], edited(x[2], time="2026-11-29T12:00:00Z"), *x[3:]],
            "was changed",
            id="edited time",
        ),
        pytest.param(
            lambda x: [*x[:2], edited(x[2], who="eve"), *x[3:]], "was changed", id="edited user"
        ),
        pytest.param(
            lambda x: [*x[:2], x[2].replace(b",", b", "), *x[3:]], "was changed", id="spaces"
        ),
        pytest.param(lambda x: [*x[:2], b"{}\n", *x[3:]], "not an entry", id="a line is replaced"),
        pytest.param(lambda x: [*x[:2], b"\n", *x[2:]], "not an entry", id="an empty line"),
        pytest.param(lambda x: [*x[:2], b"\xff\n", *x[3:]], "not an entry", id="not text"),
        pytest.param(
            lambda x: [*x, Entry.read(x[-1]).signed(b"another key" * 3).line()],
            "was changed",
            id="an entry is added with another key",
        ),
    ],
)
def test_whoever_changes_it_is_found_out(log: AdminLog, change: Change, problem: str) -> None:
    log.path.write_bytes(b"".join(change(lines(log))))
    problems = log.findings().problems
    assert problems and any(problem in each for each in problems), problems


def test_two_histories_cannot_be_mixed(log: AdminLog) -> None:
    """All entries are genuine: the end was cut off, and others were recorded since."""
    first = lines(log)
    log.path.write_bytes(b"".join(first[:3]))
    for number in (7, 8):
        log.record("key_made", kind="sealing", id=number)
    second = lines(log)
    assert len(first) == len(second) and not log.findings().problems
    log.path.write_bytes(b"".join([*second[:4], first[4]]))
    (problem,) = log.findings().problems
    assert "does not follow" in problem


def test_every_single_byte_counts(log: AdminLog) -> None:
    content = log.path.read_bytes()
    for place in range(len(content) - 1):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        log.path.write_bytes(changed)
        assert log.findings().problems, place


def test_a_whole_log_of_another_key_is_no_log(log: AdminLog) -> None:
    assert log_at(log.path, key=b"x" * 32).findings().problems


def test_a_cut_off_end_is_found_with_the_stores_help(log: AdminLog, world: Any) -> None:
    heads = world.store.log_heads
    log.anchor(heads)
    assert not log.compared(heads.all()).problems
    for kept in (4, 2):
        log.path.write_bytes(b"".join(lines(log)[:kept]))
        assert not log.findings().problems  # the chain itself is whole
        (problem,) = log.compared(heads.all()).problems
        assert "entry 5" in problem and "cut off" in problem
    # Neither does it help to go on from there: an end of other entries, however long.
    for number in range(6):
        log.record("key_made", kind="sealing", id=number)
    log.anchor(heads)
    (problem,) = log.compared(heads.all()).problems
    assert "entry 5 is not the one" in problem or "cut off" in problem


def test_a_log_that_is_gone_or_replaced_is_missed(log: AdminLog, world: Any) -> None:
    heads = world.store.log_heads
    log.anchor(heads)
    log.path.unlink()
    (problem,) = log.compared(heads.all()).problems
    assert "was deleted or replaced" in problem
    log.record("key_made", kind="master", id=9)
    log.anchor(heads)
    (problem,) = log.compared(heads.all()).problems
    assert "was deleted or replaced" in problem


def test_logs_of_other_machines_are_told_and_accuse_nobody(
    log: AdminLog, world: Any, tmp_path: Path
) -> None:
    other = log_at(tmp_path / "other.jsonl", host="there")
    other.record("keys_made")
    for each in (log, other):
        each.anchor(world.store.log_heads)
    found = log.compared(world.store.log_heads.all())
    assert not found.problems and "of there has 2 entries" in found.notes[0]


def test_an_end_that_the_store_has_not_seen_is_no_problem(log: AdminLog, world: Any) -> None:
    log.anchor(world.store.log_heads)
    log.record("key_made", kind="read", id=1)
    found = log.compared(world.store.log_heads.all())
    assert not found.problems and "has not seen the last 1 entries" in found.notes[0]


def test_the_store_never_forgets_how_far_a_log_had_come(log: AdminLog, world: Any) -> None:
    log.anchor(world.store.log_heads)
    before = world.store.log_heads.all()
    log.path.write_bytes(b"".join(lines(log)[:3]))
    log.anchor(world.store.log_heads)
    log.path.write_bytes(b"".join(lines(log)[:3]) + b"{}\n")
    log.anchor(world.store.log_heads)
    assert world.store.log_heads.all() == before


def test_an_append_that_was_cut_off_is_said_and_the_log_goes_on(log: AdminLog) -> None:
    content = log.path.read_bytes()
    whole = b"".join(lines(log)[:-1])
    for length in range(len(whole) + 1, len(content)):
        log.path.write_bytes(content[:length])
        found = log.findings()
        assert not found.problems and "cut off" in found.notes[0]
    log.record("key_retired", id=1)
    found = log.findings()
    assert not found.problems and not found.notes
    assert [entry.act for entry in found.entries[-2:]] == ["append_was_cut_off", "key_retired"]
    assert found.entries[-2].details == {"bytes": len(content) - len(whole) - 1}


def test_a_process_that_is_killed_while_it_appends_leaves_a_sound_log(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    code = textwrap.dedent(f"""
        from pathlib import Path
        from aggregator.administration.admin_log import AdminLog
        log = AdminLog(Path({str(path)!r}), b"k" * 32, "ana", "here")
        print("ready", flush=True)
        while True:
            log.record("key_made", id=1)
            print(".", flush=True)
    """)
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(20)]
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
        child.wait()
        child.stdout.close()
        recorded = len(told) - 1 + rest.count(b".")
        found = log_at(path).findings()
        assert not found.problems
        acts = [entry for entry in found.entries if entry.act == "key_made"]
        assert len(acts) >= recorded  # what it was told is there has stayed


def test_processes_that_record_at_once_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: log_at(path).record("key_made", id=n), range(40)))
    found = log_at(path).findings()
    assert not found.problems and len(found.entries) == 41
    made = [entry.details["id"] for entry in found.entries[1:]]
    assert sorted(made) == list(range(40))


def test_a_log_that_ends_in_nonsense_takes_no_more(log: AdminLog) -> None:
    log.path.write_bytes(log.path.read_bytes() + b"nonsense\n")
    before = log.path.read_bytes()
    with pytest.raises(ValueError, match="log verify"):
        log.record("key_made")
    assert log.path.read_bytes() == before


# What records, and when.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "keys.json"
    Keys.load_or_create(made)
    return made


def acts(log: AdminLog) -> list[tuple[str, dict[str, object]]]:
    return [(entry.act, dict(entry.details)) for entry in log.findings().entries[1:]]


def test_each_act_on_keys_is_recorded_and_none_of_their_secrets(path: Path) -> None:
    keys = Keys.load(path)
    log = AdminLog.beside(path, keys.pseudonym_key)
    text = new(path, ReadKey, DAY, "ana", log.record).text or ""
    new(path, OpeningKey, DAY, record=log.record)
    activate(path, OpeningKey, 1, DAY, log.record)
    rotate(path, OpeningKey, DAY, log.record)
    retire(path, OpeningKey, 1, DAY, log.record)
    assert acts(log) == [
        ("key_made", {"kind": "read", "id": 1, "state": "active", "label": "ana"}),
        ("key_made", {"kind": "sealing", "id": 1, "state": "pending"}),
        ("key_activated", {"kind": "sealing", "id": 1}),
        ("key_made", {"kind": "sealing", "id": 2, "state": "active"}),
        ("key_retired", {"kind": "sealing", "id": 1}),
    ]
    assert log.findings().entries[-1].who
    content, keys = log.path.read_text(), Keys.load(path)
    secrets = [keys.write_key, keys.pseudonym_key.hex(), text]
    secrets += [key.secret.hex() for key in (*keys.master_keys, *keys.read_keys) if key.secret]
    assert not any(secret in content for secret in secrets)


def test_what_cannot_be_done_is_not_recorded(path: Path) -> None:
    log = AdminLog.beside(path, Keys.load(path).pseudonym_key)
    with pytest.raises(ValueError, match="must have"):
        retire(path, OpeningKey, 1, DAY, log.record)
    assert not log.path.exists()


def test_what_cannot_be_recorded_is_not_done(path: Path) -> None:
    log = AdminLog.beside(path, Keys.load(path).pseudonym_key)
    log.path.mkdir()
    before = path.read_bytes()
    with pytest.raises(OSError):
        rotate(path, OpeningKey, DAY, log.record)
    assert path.read_bytes() == before


def test_a_registry_version_is_recorded_once_with_what_its_metrics_charge(
    world: Any, tmp_path: Path
) -> None:
    log = log_at(tmp_path / "log.jsonl")
    catalogue = Catalogue(world.store, record=log.record)
    catalogue.register(world.registry.text)
    assert not log.path.exists()  # it is known
    louder = world.registry.text.replace("epsilon = 0.5", "epsilon = 3.0")
    assert louder != world.registry.text
    for _ in range(2):
        catalogue.register(louder)
    ((act, details),) = acts(log)
    assert act == "registry_registered" and details["lifetime_epsilon"] == 1000
    assert isinstance(details["metrics"], dict)
    # The exact loss never exceeds what is written, and is charged rounded up.
    assert 2.99 < details["metrics"]["crashed"] <= 3.0


def test_epsilon_is_not_raised_without_a_new_version(world: Any) -> None:
    """T17: a louder file is another version; what devices with the old one send stays cheap."""
    louder = world.registry.text.replace("epsilon = 0.5", "epsilon = 3.0")
    new_version = world.catalogue.register(louder)
    old, raised = world.metric("crashed"), new_version.metrics["crashed"]
    assert old.fingerprint != raised.fingerprint and raised.charge > 5 * old.charge
    device = world.device()
    report = world.report("crashed")
    assert world.charged(device, report) == ["accepted"]
    assert world.store.accounts.spent(device.id) == old.charge
    # Nor can the text behind a digest be exchanged, through the server ...
    assert not world.store.registries.add(world.registry.digest, louder)
    assert world.registry.text in world.store.registries.texts()
    # ... or past it: then the server refuses to work.
    with redis.Redis.from_url(world.redis_url) as client:
        client.hset(REGISTRIES, world.registry.digest, louder)
    with pytest.raises(StoreRefused, match="was changed in the store"):
        world.catalogue.load()


def test_guarding_settings_are_recorded_when_they_change(world: Any, tmp_path: Path) -> None:
    log = log_at(tmp_path / "log.jsonl")
    strict = replace(world.settings, plain_uploads=False)
    for settings in (strict, strict, world.settings, world.settings):
        note(log, settings)
    told = [details["SOTTOVOCE_PLAIN_UPLOADS"] for _, details in acts(log)]
    assert told == ["refuse", "accept"]
    note(log, replace(world.settings, web_origins=("https://a.example", "https://b.example")))
    (_, details) = acts(log)[-1]
    assert details["SOTTOVOCE_WEB_ORIGINS"] == "https://a.example,https://b.example"


def test_a_server_that_starts_records_and_anchors(world: Any, serve: Any) -> None:
    serve(world)
    log = AdminLog.beside(world.settings.keys_file, world.keys.pseudonym_key)
    assert [act for act, _ in acts(log)] == ["settings_changed"]
    heads = world.store.log_heads.all()
    assert not log.compared(heads).problems and log.findings().head in heads.values()
    with redis.Redis.from_url(world.redis_url) as client:
        assert client.hlen(LOG_HEADS) == 1
    assert os.stat(log.path).st_mode & 0o077 == 0
