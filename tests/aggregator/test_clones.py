"""Two copies of one device: one goes on, the other is found, nobody else notices."""

import json
from copy import copy
from typing import Any

import pytest

from client_sdk.authentication import answer_mac, macs_match


def assert_found(world: Any, device: Any, body: bytes, spent: int) -> None:
    """The batch is a suspected clone's, said under the device's own MAC, and changed nothing."""
    before = {key: value for key, value in world.contents().items() if b"counters" not in key}
    answer = world.send(device, body)
    assert answer.status_code == 409
    told = answer.json
    assert told["type"] == "urn:sottovoce:problem:clone_suspected"
    assert (told["verdict"], told["spent"], told["reports"]) == ("clone_suspected", spent, [])
    sent = json.loads(body)
    mac = answer_mac(device.key, sent["nonce"], sent["sequence"], "clone_suspected", spent, [])
    assert macs_match(mac, told["mac"])
    after = {key: value for key, value in world.contents().items() if b"counters" not in key}
    assert after == before


def folded(world: Any, name: str) -> int:
    world.folder.fold_once()
    n: int = world.store.tallies.of(world.metric(name), world.epoch(name)).n
    return n


def test_of_two_copies_the_first_to_send_goes_on(world: Any) -> None:
    device, bystander = world.device(), world.device()
    assert world.charged(device, world.report("theme", 1)) == ["accepted"]
    clone = copy(device)
    assert world.charged(device, world.report("crashed", 1)) == ["accepted"]
    assert_found(world, clone, clone.batch(world.report("crashed", 0)), 1_500_000)
    # The first goes on as if nothing had happened; so does everybody else.
    assert world.charged(device, world.report("home_page")) == ["accepted"]
    assert world.charged(bystander, world.report("crashed", 1)) == ["accepted"]
    assert folded(world, "crashed") == 2 and world.store.figures.counters()["clones"] == 1
    assert world.store.accounts.spent(device.id) == 9_500_000
    assert world.store.accounts.spent(bystander.id) == 500_000


def test_a_copy_that_is_ahead_makes_the_original_the_clone(world: Any) -> None:
    # The server cannot know which is the original: it knows that there are two.
    device = world.device()
    clone = copy(device)
    for name in ("theme", "crashed", "home_page"):
        assert world.charged(clone, world.report(name)) == ["accepted"]
    for name in ("theme", "crashed", "home_page"):
        assert_found(world, device, device.batch(world.report(name, 1)), 9_500_000)
    assert world.store.figures.counters()["clones"] == 3


def test_a_state_restored_from_a_backup_is_found_with_its_first_batch(world: Any) -> None:
    device = world.device()
    week = world.epoch("theme")
    backup = copy(device)
    for past in range(4):
        backup = copy(device) if past == 1 else backup
        assert world.charged(device, world.report("theme", epoch=week - past)) == ["accepted"]
    assert (backup.sequence, device.sequence) == (1, 4)
    for past in (5, 6):
        body = backup.batch(world.report("theme", epoch=week - past))
        assert_found(world, backup, body, 4_000_000)
    assert world.store.figures.counters()["clones"] == 2 and folded(world, "theme") == 1


@pytest.mark.parametrize("copies", [1, 3])
def test_a_resumed_machine_that_sends_the_same_bytes_is_no_clone(world: Any, copies: int) -> None:
    # A snapshot between writing a batch and its answer: every copy holds the same frozen bytes.
    device = world.device()
    body = device.batch(world.report("theme", 1), world.report("crashed", 1))
    first = world.send(device, body).json
    assert first["verdict"] == "accepted"
    for _ in range(copies):
        resumed = copy(device)
        again = world.send(resumed, body).json
        assert (again["verdict"], again["spent"]) == ("duplicate", first["spent"])
        assert again["reports"] == first["reports"]
    assert world.store.figures.counters()["clones"] == 0
    assert folded(world, "theme") == 1 and folded(world, "crashed") == 1
    assert world.store.accounts.spent(device.id) == 1_500_000


def test_two_copies_that_take_turns_count_no_epoch_twice(world: Any) -> None:
    # A clone that guesses ahead: what it gets through, the original loses, and the sum stays.
    device, week = world.device(), world.epoch("theme")
    clone = copy(device)
    accepted = 0
    for past in range(6):
        for one in (device, clone):
            one.sequence = max(device.sequence, clone.sequence)
            accepted += world.charged(one, world.report("theme", epoch=week - past)) == ["accepted"]
    assert accepted == 6
    assert world.store.accounts.spent(device.id) == 6_000_000
